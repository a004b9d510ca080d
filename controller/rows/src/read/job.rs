//! Jobs: the spec with its defaults and limits, and the status.

use std::{collections::BTreeMap, sync::Arc};

use proto_model::{
    Algorithm, AllocationSpec, CollectiveOp, CollectiveSpec, CommandSpec, Component, Dtype, EngineOptions,
    Gang, Job, JobId, JobName, JobSpec, NameError, QueueName, RailProtection, RailRequest, ReduceOp,
    ReservationName, ServiceClassName, SpecFlaw, TenantName, Work, flaw::MAX_TERMS,
};

use super::{
    common::duration,
    component,
    limits::{LIMITS, memory_per_node, ranks_per_node},
    request, time_from_row, values,
};
use crate::{v1, words::PROTECTIONS};
use proto_model::fields::{FieldErrors, Fields, bounded, known, range};

/// Most queue pairs of a link: as many as engines have.
const QUEUE_PAIRS: u32 = 8;

fn gang(fields: &mut Fields, row: v1::Gang, is_command: bool) -> Gang {
    range(fields, "gang.nodes", row.nodes, 1, LIMITS.nodes);
    range(fields, "gang.gpusPerNode", row.gpus_per_node, 0, LIMITS.gpus_per_node);
    range(fields, "gang.ranksPerNode", row.ranks_per_node, 0, LIMITS.ranks_per_node);
    range(fields, "gang.cpusPerNode", row.cpus_per_node, 0, LIMITS.cpus_per_node);
    let memory = row.memory_per_node;
    memory_per_node(fields, "gang.memoryPerNode", memory);
    let ranks_per_node = ranks_per_node(row.ranks_per_node, row.gpus_per_node, is_command);
    let min_nodes = if row.min_nodes == 0 { row.nodes } else { row.min_nodes };
    Gang {
        nodes: row.nodes,
        min_nodes,
        gpus_per_node: row.gpus_per_node,
        ranks_per_node,
        cpus_per_node: row.cpus_per_node,
        memory_per_node: memory,
    }
}

fn engine(fields: &mut Fields, row: v1::EngineOptions) -> EngineOptions {
    let algorithm = Algorithm::ALL.iter().copied().find(|known| known.as_str() == row.algorithm);
    if algorithm.is_none() && !row.algorithm.is_empty() {
        let known: Vec<&str> = Algorithm::ALL.iter().map(|known| known.as_str()).collect();
        let (given, known) = (row.algorithm.escape_debug(), known.join(", "));
        let what = format!("'{given}' is not known; write one of {known}, or leave it out for the fastest");
        fields.fail("engine.algorithm", what);
    }
    let reproducible = row.reproducible.unwrap_or(EngineOptions::default().reproducible);
    range(fields, "engine.queuePairs", row.queue_pairs, 0, QUEUE_PAIRS);
    let protection = PROTECTIONS.iter().find(|(_, known)| *known as i32 == row.protection);
    if protection.is_none() && row.protection != 0 {
        fields.fail("engine.protection", "must be NONE, INTEGRITY or ENCRYPTED");
    }
    EngineOptions {
        checksum: row.checksum,
        reproducible,
        algorithm,
        queue_pairs: row.queue_pairs.max(1),
        protection: protection.map_or(RailProtection::None, |(protection, _)| *protection),
    }
}

fn text(fields: &mut Fields, field: impl FnOnce() -> String, text: &str) {
    if text.contains('\0') {
        fields.fail(&field(), "must not contain a NUL byte");
    }
}

fn command(fields: &mut Fields, row: v1::Command) -> CommandSpec {
    if row.argv.first().is_none_or(String::is_empty) {
        fields.fail("command.argv", "must name a program");
    }
    for (index, argument) in row.argv.iter().enumerate() {
        text(fields, || format!("command.argv[{index}]"), argument);
    }
    let env = variables(fields, "command.env", row.env);
    let env_from = values::sources(fields, "command.envFrom", row.env_from);
    text(fields, || "command.workingDir".to_owned(), &row.working_dir);
    program_size(fields, "command.", &row.argv, &env);
    CommandSpec { argv: row.argv, env, env_from, working_dir: row.working_dir }
}

fn allocation(fields: &mut Fields, row: v1::Allocation) -> AllocationSpec {
    let env = variables(fields, "allocation.env", row.env);
    let env_from = values::sources(fields, "allocation.envFrom", row.env_from);
    text(fields, || "allocation.workingDir".to_owned(), &row.working_dir);
    program_size(fields, "allocation.", &[], &env);
    AllocationSpec { env, env_from, working_dir: row.working_dir }
}

/// Variables of an environment.
pub(crate) fn variables(
    fields: &mut Fields,
    field: &str,
    row: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    for (key, value) in &row {
        text(fields, || format!("{field}.{}", key.escape_debug()), value);
        if key.is_empty() || key.contains(['=', '\0']) {
            fields.fail(field, format!("{key:?} cannot be the name of a variable"));
        }
    }
    row.into_iter().collect()
}

/// What a program is started with is bounded; `under` is what its fields are below, with a dot.
pub(crate) fn program_size(
    fields: &mut Fields,
    under: &str,
    argv: &[String],
    env: &BTreeMap<String, String>,
) {
    for (part, count) in [("argv", argv.len()), ("env", env.len())] {
        if count > LIMITS.entries {
            let text = format!("has {count} entries; at most {} are allowed", LIMITS.entries);
            fields.fail(&format!("{under}{part}"), text);
        }
    }
    let size: usize = argv.iter().map(String::len).sum::<usize>()
        + env.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    if size > LIMITS.command_bytes {
        let text = format!("is too large; at most {} bytes in arguments and variables", LIMITS.command_bytes);
        fields.fail(under.strip_suffix('.').unwrap_or("argv"), text);
    }
}

fn dtype(row: i32) -> Option<Dtype> {
    use v1::collective::Dtype as W;
    Some(match W::try_from(row).ok()? {
        W::Unspecified | W::F32 => Dtype::F32,
        W::F64 => Dtype::F64,
        W::I32 => Dtype::I32,
        W::I64 => Dtype::I64,
        W::F16 => Dtype::F16,
        W::Bf16 => Dtype::Bf16,
    })
}

fn op(row: i32) -> Option<CollectiveOp> {
    use v1::collective::Op as W;
    Some(match known(row)? {
        W::AllReduce => CollectiveOp::AllReduce,
        W::AllGather => CollectiveOp::AllGather,
        W::ReduceScatter => CollectiveOp::ReduceScatter,
        W::Broadcast => CollectiveOp::Broadcast,
        W::AllToAll => CollectiveOp::AllToAll,
        W::Barrier => CollectiveOp::Barrier,
        W::SendRecv => CollectiveOp::SendRecv,
        W::Unspecified => return None,
    })
}

fn reduce(row: i32) -> Option<ReduceOp> {
    use v1::collective::Reduce as W;
    Some(match W::try_from(row).ok()? {
        W::Unspecified | W::Sum => ReduceOp::Sum,
        W::Min => ReduceOp::Min,
        W::Max => ReduceOp::Max,
        W::Prod => ReduceOp::Prod,
    })
}

fn collective(fields: &mut Fields, row: v1::Collective) -> Option<CollectiveSpec> {
    let words = "ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, BARRIER, SEND_RECV";
    let op = fields.take("collective.op", op(row.op).ok_or(format!("must be one of {words}")));
    let dtype = fields.take("collective.dtype", dtype(row.dtype).ok_or("is not known"));
    let reduce = fields.take("collective.reduce", reduce(row.reduce).ok_or("is not known"));
    if row.bytes > LIMITS.collective_bytes {
        fields.fail("collective.bytes", format!("{} is more than {}", row.bytes, LIMITS.collective_bytes));
    }
    range(fields, "collective.iterations", row.iterations, 0, LIMITS.iterations);
    range(fields, "collective.warmup", row.warmup, 0, LIMITS.iterations);
    let (op, dtype, reduce) = (op?, dtype?, reduce?);
    let size = match dtype {
        Dtype::F16 | Dtype::Bf16 => 2,
        Dtype::F32 | Dtype::I32 => 4,
        Dtype::F64 | Dtype::I64 => 8,
    };
    if !row.bytes.is_multiple_of(size) {
        let nearest = row.bytes.next_multiple_of(size);
        let message = format!("{} is not a multiple of {size} bytes ({dtype}); {nearest} is", row.bytes);
        fields.fail("collective.bytes", message);
    }
    Some(CollectiveSpec {
        op,
        bytes: row.bytes,
        dtype,
        reduce,
        iterations: if row.iterations == 0 { 10 } else { row.iterations },
        warmup: if row.warmup == 0 { 1 } else { row.warmup },
        verify: row.verify,
    })
}

fn priority(fields: &mut Fields, priority: i32) {
    if !(-1000..=1000).contains(&priority) {
        fields.fail("priority", format!("{priority} is out of range; it must be from -1000 to 1000"));
    }
}

/// The gang and its components; `None` where neither says how many nodes.
fn parts(
    fields: &mut Fields,
    said: Option<v1::Gang>,
    components: Vec<v1::Component>,
    is_command: bool,
) -> (Option<Gang>, Vec<Component>) {
    if components.is_empty() {
        let gang = fields.present("gang", said).map(|row| gang(fields, row, is_command));
        return (gang, Vec::new());
    }
    let components = component::components(fields, components, is_command);
    (Some(component::gang(&components, said.unwrap_or_default())), components)
}

fn work(fields: &mut Fields, row: Option<v1::job_spec::Work>) -> Option<Work> {
    match row {
        Some(v1::job_spec::Work::Command(row)) => Some(Work::Command(command(fields, row))),
        Some(v1::job_spec::Work::Collective(row)) => collective(fields, row).map(Work::Collective),
        Some(v1::job_spec::Work::Allocation(row)) => Some(Work::Allocation(allocation(fields, row))),
        None => {
            fields.fail("command", "is required: a job needs `command`, `collective` or `allocation`");
            None
        }
    }
}

/// A name that may be left out.
fn optional<T>(
    fields: &mut Fields,
    field: &str,
    text: &str,
    name: fn(String) -> Result<T, NameError>,
) -> Option<T> {
    if text.is_empty() { None } else { fields.take(field, name(text.to_owned())) }
}

/// No more nodes than a stored job has room for.
fn sizes(fields: &mut Fields, spec: &JobSpec) {
    let (nodes, spares) = (spec.gang.nodes, spec.placement.spares);
    if nodes <= LIMITS.nodes && spares <= nodes && nodes + spares > LIMITS.nodes {
        let most = LIMITS.nodes;
        fields.fail(
            "placement.spares",
            format!("{nodes} nodes and {spares} spares are more than {most} nodes"),
        );
    }
}

/// Notes what contradicts itself, but for fields that are noted already.
fn name_flaws(fields: &mut Fields, flaws: Vec<SpecFlaw>) {
    for flaw in flaws {
        let field = flaw.field();
        if !fields.has(&field) {
            fields.fail(&field, flaw.to_string());
        }
    }
}

/// What is wrong with a spec under this name: that it waits for itself, or elements without a name of their own.
///
/// # Errors
/// Every such field, below the spec.
pub fn check_job_name(name: &JobName, spec: &JobSpec) -> Result<(), FieldErrors> {
    let mut fields = Fields::default();
    name_flaws(&mut fields, spec.name_flaws(name));
    fields.finish(Some(()))
}

impl TryFrom<v1::JobSpec> for JobSpec {
    type Error = FieldErrors;

    fn try_from(row: v1::JobSpec) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let is_command = matches!(row.work, Some(v1::job_spec::Work::Command(_)));
        let (gang, components) = parts(&mut fields, row.gang, row.components, is_command);
        let rails = row.rails.unwrap_or_default();
        range(&mut fields, "rails.required", rails.required, 0, 64);
        priority(&mut fields, row.priority);
        let time_limit = duration(&mut fields, "timeLimit", row.time_limit);
        let expected = duration(&mut fields, "expectedDuration", row.expected_duration);
        let begin = row.begin_time.and_then(|time| fields.nest("beginTime", time_from_row(time)));
        let start_before = row.start_before.and_then(|time| fields.nest("startBefore", time_from_row(time)));
        let deadline = row.deadline.and_then(|time| fields.nest("deadline", time_from_row(time)));
        let grace_period = duration(&mut fields, "gracePeriod", row.grace_period).unwrap_or(JobSpec::GRACE);
        let placement = request::placement(&mut fields, row.placement.unwrap_or_default());
        let failure = request::failure(&mut fields, placement.spares, row.failure.unwrap_or_default());
        let queue = optional(&mut fields, "queue", &row.queue, QueueName::new);
        let service_class = optional(&mut fields, "serviceClass", &row.service_class, ServiceClassName::new);
        let licenses = super::license::asked(&mut fields, row.licenses);
        let reservation = optional(&mut fields, "reservation", &row.reservation, ReservationName::new);
        let after = if bounded(&mut fields, "after", &row.after, MAX_TERMS) {
            fields.list("after", row.after)
        } else {
            Vec::new()
        };
        let array = request::array(&mut fields, &row.array);
        let preemption = request::preemption(&mut fields, row.priority, row.preemption.unwrap_or_default());
        let certification = request::certification(&mut fields, row.certification);
        let engine = engine(&mut fields, row.engine.unwrap_or_default());
        let work = work(&mut fields, row.work);
        let v1::RailRequest { required, allow_partial, none, avoid_drained } = rails;
        let avoid_drained = request::avoid_drained(&mut fields, avoid_drained);
        let spec = gang.zip(work).map(|(gang, work)| Self {
            gang,
            components,
            rails: RailRequest { required, allow_partial, none, avoid_drained },
            placement,
            queue,
            service_class,
            licenses,
            priority: row.priority,
            time_limit,
            expected,
            begin,
            start_before,
            deadline,
            reservation,
            after,
            array,
            preemption,
            grace_period,
            failure,
            certification,
            engine,
            work,
        });
        if let Some(spec) = &spec {
            name_flaws(&mut fields, spec.flaws());
            sizes(&mut fields, spec);
        }
        fields.finish(spec)
    }
}

impl TryFrom<v1::Job> for Job {
    type Error = FieldErrors;

    /// For a job that a controller has stored: name, tenant, uid and status must be there.
    fn try_from(row: v1::Job) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = fields.present("metadata", row.metadata).unwrap_or_default();
        let tenant = fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
        let name = fields.take("metadata.name", JobName::new(&metadata.name));
        let uid = fields.take("metadata.uid", metadata.uid.parse());
        let spec = fields.present("spec", row.spec).and_then(|spec| fields.nest("spec", spec.try_into()));
        let status =
            fields.present("status", row.status).and_then(|row| fields.nest("status", row.try_into()));
        let job = match (tenant, name, uid, spec, status) {
            (Some(tenant), Some(name), Some(uid), Some(spec), Some(status)) => Some(Self {
                id: JobId { tenant, name },
                uid,
                labels: metadata.labels.into_iter().collect(),
                generation: metadata.generation,
                spec: Arc::new(spec),
                status,
            }),
            _ => None,
        };
        fields.finish(job)
    }
}
