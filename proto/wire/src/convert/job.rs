//! Jobs: the spec with its defaults and limits, and the status.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use prost::Message as _;
use proto_model::{
    Algorithm, AllocationSpec, CollectiveOp, CollectiveSpec, CommandSpec, Component, Dtype, EngineOptions,
    Gang, Job, JobId, JobName, JobSpec, NameError, QueueName, RailProtection, RailRequest, ReduceOp,
    ReservationName, ServiceClassName, SpecFlaw, TenantName, Work, flaw::MAX_TERMS,
};

use super::{
    API_VERSION, FieldErrors, Fields,
    common::duration,
    component, duration_to_wire,
    fields::{bounded, header, range},
    known,
    limits::{LIMITS, memory_per_node, ranks_per_node},
    request, time_from_wire, time_to_wire, values,
};
use crate::v1;

/// Most queue pairs of a link: as many as engines have.
const QUEUE_PAIRS: u32 = 8;

fn gang(fields: &mut Fields, wire: v1::Gang, is_command: bool) -> Gang {
    range(fields, "gang.nodes", wire.nodes, 1, LIMITS.nodes);
    range(fields, "gang.gpusPerNode", wire.gpus_per_node, 0, LIMITS.gpus_per_node);
    range(fields, "gang.ranksPerNode", wire.ranks_per_node, 0, LIMITS.ranks_per_node);
    range(fields, "gang.cpusPerNode", wire.cpus_per_node, 0, LIMITS.cpus_per_node);
    let memory = wire.memory_per_node;
    memory_per_node(fields, "gang.memoryPerNode", memory);
    let ranks_per_node = ranks_per_node(wire.ranks_per_node, wire.gpus_per_node, is_command);
    let min_nodes = if wire.min_nodes == 0 { wire.nodes } else { wire.min_nodes };
    Gang {
        nodes: wire.nodes,
        min_nodes,
        gpus_per_node: wire.gpus_per_node,
        ranks_per_node,
        cpus_per_node: wire.cpus_per_node,
        memory_per_node: memory,
    }
}

fn engine(fields: &mut Fields, wire: v1::EngineOptions) -> EngineOptions {
    let algorithm = Algorithm::ALL.iter().copied().find(|known| known.as_str() == wire.algorithm);
    if algorithm.is_none() && !wire.algorithm.is_empty() {
        let known: Vec<&str> = Algorithm::ALL.iter().map(|known| known.as_str()).collect();
        let (given, known) = (wire.algorithm.escape_debug(), known.join(", "));
        let what = format!("'{given}' is not known; write one of {known}, or leave it out for the fastest");
        fields.fail("engine.algorithm", what);
    }
    let reproducible = wire.reproducible.unwrap_or(EngineOptions::default().reproducible);
    range(fields, "engine.queuePairs", wire.queue_pairs, 0, QUEUE_PAIRS);
    let protection = PROTECTIONS.iter().find(|(_, known)| *known as i32 == wire.protection);
    if protection.is_none() && wire.protection != 0 {
        fields.fail("engine.protection", "must be NONE, INTEGRITY or ENCRYPTED");
    }
    EngineOptions {
        checksum: wire.checksum,
        reproducible,
        algorithm,
        queue_pairs: wire.queue_pairs.max(1),
        protection: protection.map_or(RailProtection::None, |(protection, _)| *protection),
    }
}

const PROTECTIONS: [(RailProtection, v1::engine_options::Protection); 3] = [
    (RailProtection::None, v1::engine_options::Protection::None),
    (RailProtection::Integrity, v1::engine_options::Protection::Integrity),
    (RailProtection::Encrypted, v1::engine_options::Protection::Encrypted),
];

/// One that is not there is the default.
fn protection_to_wire(protection: RailProtection) -> i32 {
    let known =
        PROTECTIONS.iter().find(|(known, _)| *known == protection && protection != RailProtection::None);
    known.map_or(0, |(_, wire)| *wire as i32)
}

fn engine_to_wire(engine: EngineOptions) -> Option<v1::EngineOptions> {
    (engine != EngineOptions::default()).then(|| v1::EngineOptions {
        checksum: engine.checksum,
        reproducible: Some(engine.reproducible),
        algorithm: engine.algorithm.map_or("", Algorithm::as_str).to_owned(),
        queue_pairs: if engine.queue_pairs == 1 { 0 } else { engine.queue_pairs },
        protection: protection_to_wire(engine.protection),
    })
}

fn text(fields: &mut Fields, field: impl FnOnce() -> String, text: &str) {
    if text.contains('\0') {
        fields.fail(&field(), "must not contain a NUL byte");
    }
}

fn command(fields: &mut Fields, wire: v1::Command) -> CommandSpec {
    if wire.argv.first().is_none_or(String::is_empty) {
        fields.fail("command.argv", "must name a program");
    }
    for (index, argument) in wire.argv.iter().enumerate() {
        text(fields, || format!("command.argv[{index}]"), argument);
    }
    let env = variables(fields, "command.env", wire.env);
    whole(fields, "command.envHidden", wire.env_hidden);
    let env_from = values::sources(fields, "command.envFrom", wire.env_from);
    text(fields, || "command.workingDir".to_owned(), &wire.working_dir);
    program_size(fields, "command.", &wire.argv, &env);
    CommandSpec { argv: wire.argv, env, env_from, working_dir: wire.working_dir }
}

fn allocation(fields: &mut Fields, wire: v1::Allocation) -> AllocationSpec {
    let env = variables(fields, "allocation.env", wire.env);
    whole(fields, "allocation.envHidden", wire.env_hidden);
    let env_from = values::sources(fields, "allocation.envFrom", wire.env_from);
    text(fields, || "allocation.workingDir".to_owned(), &wire.working_dir);
    program_size(fields, "allocation.", &[], &env);
    AllocationSpec { env, env_from, working_dir: wire.working_dir }
}

/// A document whose values were left out for its reader is not what somebody asked for.
fn whole(fields: &mut Fields, field: &str, hidden: bool) {
    if hidden {
        fields.fail(
            field,
            "the values of env were left out for whoever read this; write them, and leave this field out",
        );
    }
}

/// Variables of an environment.
pub(super) fn variables(
    fields: &mut Fields,
    field: &str,
    wire: HashMap<String, String>,
) -> BTreeMap<String, String> {
    for (key, value) in &wire {
        text(fields, || format!("{field}.{}", key.escape_debug()), value);
        if key.is_empty() || key.contains(['=', '\0']) {
            fields.fail(field, format!("{key:?} cannot be the name of a variable"));
        }
    }
    wire.into_iter().collect()
}

/// What a program is started with is bounded; `under` is what its fields are below, with a dot.
pub(super) fn program_size(
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

fn dtype(wire: i32) -> Option<Dtype> {
    use v1::collective::Dtype as W;
    Some(match W::try_from(wire).ok()? {
        W::Unspecified | W::F32 => Dtype::F32,
        W::F64 => Dtype::F64,
        W::I32 => Dtype::I32,
        W::I64 => Dtype::I64,
        W::F16 => Dtype::F16,
        W::Bf16 => Dtype::Bf16,
    })
}

fn op(wire: i32) -> Option<CollectiveOp> {
    use v1::collective::Op as W;
    Some(match known(wire)? {
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

fn reduce(wire: i32) -> Option<ReduceOp> {
    use v1::collective::Reduce as W;
    Some(match W::try_from(wire).ok()? {
        W::Unspecified | W::Sum => ReduceOp::Sum,
        W::Min => ReduceOp::Min,
        W::Max => ReduceOp::Max,
        W::Prod => ReduceOp::Prod,
    })
}

fn collective(fields: &mut Fields, wire: v1::Collective) -> Option<CollectiveSpec> {
    let words = "ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, BARRIER, SEND_RECV";
    let op = fields.take("collective.op", op(wire.op).ok_or(format!("must be one of {words}")));
    let dtype = fields.take("collective.dtype", dtype(wire.dtype).ok_or("is not known"));
    let reduce = fields.take("collective.reduce", reduce(wire.reduce).ok_or("is not known"));
    if wire.bytes > LIMITS.collective_bytes {
        fields.fail("collective.bytes", format!("{} is more than {}", wire.bytes, LIMITS.collective_bytes));
    }
    range(fields, "collective.iterations", wire.iterations, 0, LIMITS.iterations);
    range(fields, "collective.warmup", wire.warmup, 0, LIMITS.iterations);
    let (op, dtype, reduce) = (op?, dtype?, reduce?);
    let size = match dtype {
        Dtype::F16 | Dtype::Bf16 => 2,
        Dtype::F32 | Dtype::I32 => 4,
        Dtype::F64 | Dtype::I64 => 8,
    };
    if !wire.bytes.is_multiple_of(size) {
        let nearest = wire.bytes.next_multiple_of(size);
        let message = format!("{} is not a multiple of {size} bytes ({dtype}); {nearest} is", wire.bytes);
        fields.fail("collective.bytes", message);
    }
    Some(CollectiveSpec {
        op,
        bytes: wire.bytes,
        dtype,
        reduce,
        iterations: if wire.iterations == 0 { 10 } else { wire.iterations },
        warmup: if wire.warmup == 0 { 1 } else { wire.warmup },
        verify: wire.verify,
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
        let gang = fields.present("gang", said).map(|wire| gang(fields, wire, is_command));
        return (gang, Vec::new());
    }
    let components = component::components(fields, components, is_command);
    (Some(component::gang(&components, said.unwrap_or_default())), components)
}

fn work(fields: &mut Fields, wire: Option<v1::job_spec::Work>) -> Option<Work> {
    match wire {
        Some(v1::job_spec::Work::Command(wire)) => Some(Work::Command(command(fields, wire))),
        Some(v1::job_spec::Work::Collective(wire)) => collective(fields, wire).map(Work::Collective),
        Some(v1::job_spec::Work::Allocation(wire)) => Some(Work::Allocation(allocation(fields, wire))),
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

/// The most bytes that a stored job has room for.
fn sizes(fields: &mut Fields, spec: &JobSpec) {
    let (nodes, spares) = (spec.gang.nodes, spec.placement.spares);
    if nodes <= LIMITS.nodes && spares <= nodes && nodes + spares > LIMITS.nodes {
        let most = LIMITS.nodes;
        fields.fail(
            "placement.spares",
            format!("{nodes} nodes and {spares} spares are more than {most} nodes"),
        );
    }
    let bytes = request::placement_to_wire(&spec.placement).map_or(0, |place| place.encoded_len());
    if bytes > LIMITS.placement_bytes {
        let most = LIMITS.placement_bytes;
        fields.fail("placement", format!("is too large: {bytes} bytes, and at most {most} are allowed"));
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

    fn try_from(wire: v1::JobSpec) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let is_command = matches!(wire.work, Some(v1::job_spec::Work::Command(_)));
        let (gang, components) = parts(&mut fields, wire.gang, wire.components, is_command);
        let rails = wire.rails.unwrap_or_default();
        range(&mut fields, "rails.required", rails.required, 0, 64);
        priority(&mut fields, wire.priority);
        let time_limit = duration(&mut fields, "timeLimit", wire.time_limit);
        let expected = duration(&mut fields, "expectedDuration", wire.expected_duration);
        let begin = wire.begin_time.and_then(|time| fields.nest("beginTime", time_from_wire(time)));
        let start_before =
            wire.start_before.and_then(|time| fields.nest("startBefore", time_from_wire(time)));
        let deadline = wire.deadline.and_then(|time| fields.nest("deadline", time_from_wire(time)));
        let grace_period = duration(&mut fields, "gracePeriod", wire.grace_period).unwrap_or(JobSpec::GRACE);
        let placement = request::placement(&mut fields, wire.placement.unwrap_or_default());
        let failure = request::failure(&mut fields, placement.spares, wire.failure.unwrap_or_default());
        let queue = optional(&mut fields, "queue", &wire.queue, QueueName::new);
        let service_class = optional(&mut fields, "serviceClass", &wire.service_class, ServiceClassName::new);
        let licenses = super::license::asked(&mut fields, wire.licenses);
        let reservation = optional(&mut fields, "reservation", &wire.reservation, ReservationName::new);
        let after = if bounded(&mut fields, "after", &wire.after, MAX_TERMS) {
            fields.list("after", wire.after)
        } else {
            Vec::new()
        };
        let array = request::array(&mut fields, &wire.array);
        let preemption = request::preemption(&mut fields, wire.priority, wire.preemption.unwrap_or_default());
        let certification = request::certification(&mut fields, wire.certification);
        let engine = engine(&mut fields, wire.engine.unwrap_or_default());
        let work = work(&mut fields, wire.work);
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
            priority: wire.priority,
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

fn work_to_wire(work: &Work) -> v1::job_spec::Work {
    use v1::collective as w;
    match work {
        Work::Command(command) => v1::job_spec::Work::Command(v1::Command {
            argv: command.argv.clone(),
            env: command.env.clone().into_iter().collect(),
            working_dir: command.working_dir.clone(),
            env_hidden: false,
            env_from: values::sources_to_wire(&command.env_from),
        }),
        Work::Allocation(held) => v1::job_spec::Work::Allocation(v1::Allocation {
            env: held.env.clone().into_iter().collect(),
            working_dir: held.working_dir.clone(),
            env_hidden: false,
            env_from: values::sources_to_wire(&held.env_from),
        }),
        Work::Collective(spec) => v1::job_spec::Work::Collective(v1::Collective {
            op: match spec.op {
                CollectiveOp::AllReduce => w::Op::AllReduce,
                CollectiveOp::AllGather => w::Op::AllGather,
                CollectiveOp::ReduceScatter => w::Op::ReduceScatter,
                CollectiveOp::Broadcast => w::Op::Broadcast,
                CollectiveOp::AllToAll => w::Op::AllToAll,
                CollectiveOp::Barrier => w::Op::Barrier,
                CollectiveOp::SendRecv => w::Op::SendRecv,
            }
            .into(),
            bytes: spec.bytes,
            dtype: match spec.dtype {
                Dtype::F32 => w::Dtype::F32,
                Dtype::F64 => w::Dtype::F64,
                Dtype::I32 => w::Dtype::I32,
                Dtype::I64 => w::Dtype::I64,
                Dtype::F16 => w::Dtype::F16,
                Dtype::Bf16 => w::Dtype::Bf16,
            }
            .into(),
            reduce: match spec.reduce {
                ReduceOp::Sum => w::Reduce::Sum,
                ReduceOp::Min => w::Reduce::Min,
                ReduceOp::Max => w::Reduce::Max,
                ReduceOp::Prod => w::Reduce::Prod,
            }
            .into(),
            iterations: spec.iterations,
            warmup: spec.warmup,
            verify: spec.verify,
        }),
    }
}

/// Of a gang of components only how many nodes it has: the rest is theirs.
fn gang_to_wire(spec: &JobSpec) -> v1::Gang {
    if !spec.components.is_empty() {
        return v1::Gang { nodes: spec.gang.nodes, ..v1::Gang::default() };
    }
    v1::Gang {
        nodes: spec.gang.nodes,
        gpus_per_node: spec.gang.gpus_per_node,
        ranks_per_node: spec.gang.ranks_per_node,
        min_nodes: if spec.gang.is_elastic() { spec.gang.min_nodes } else { 0 },
        cpus_per_node: spec.gang.cpus_per_node,
        memory_per_node: spec.gang.memory_per_node,
    }
}

impl From<&JobSpec> for v1::JobSpec {
    fn from(spec: &JobSpec) -> Self {
        Self {
            gang: Some(gang_to_wire(spec)),
            components: spec.components.iter().map(Into::into).collect(),
            rails: Some(v1::RailRequest {
                required: spec.rails.required,
                allow_partial: spec.rails.allow_partial,
                none: spec.rails.none,
                avoid_drained: request::avoid_drained_to_wire(spec.rails.avoid_drained),
            }),
            priority: spec.priority,
            time_limit: spec.time_limit.map(duration_to_wire),
            grace_period: Some(duration_to_wire(spec.grace_period)),
            failure: Some(request::failure_to_wire(spec.failure)),
            engine: engine_to_wire(spec.engine),
            work: Some(work_to_wire(&spec.work)),
            placement: request::placement_to_wire(&spec.placement),
            queue: spec.queue.as_ref().map(ToString::to_string).unwrap_or_default(),
            expected_duration: spec.expected.map(duration_to_wire),
            begin_time: spec.begin.map(time_to_wire),
            start_before: spec.start_before.map(time_to_wire),
            deadline: spec.deadline.map(time_to_wire),
            reservation: spec.reservation.as_ref().map(ToString::to_string).unwrap_or_default(),
            after: spec.after.iter().map(Into::into).collect(),
            array: spec.array.as_ref().map(ToString::to_string).unwrap_or_default(),
            preemption: request::preemption_to_wire(spec.priority, spec.preemption),
            certification: request::certification_to_wire(spec.certification).into(),
            service_class: spec.service_class.as_ref().map(ToString::to_string).unwrap_or_default(),
            licenses: spec.licenses.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
        }
    }
}

impl From<&Job> for v1::Job {
    fn from(job: &Job) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Job".to_owned(),
            metadata: Some(v1::Metadata {
                name: job.id.name.to_string(),
                tenant: job.id.tenant.to_string(),
                uid: job.uid.to_string(),
                labels: job.labels.clone().into_iter().collect(),
                generation: job.generation,
                create_time: Some(time_to_wire(job.status.submitted)),
                ..v1::Metadata::default()
            }),
            spec: Some(job.spec.as_ref().into()),
            status: Some((&job.status).into()),
        }
    }
}

impl TryFrom<v1::Job> for Job {
    type Error = FieldErrors;

    /// For a job that a controller has stored: name, tenant, uid and status must be there.
    fn try_from(wire: v1::Job) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        header(&mut fields, &wire.api_version, &wire.kind, "Job");
        let metadata = fields.present("metadata", wire.metadata).unwrap_or_default();
        let tenant = fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
        let name = fields.take("metadata.name", JobName::new(&metadata.name));
        let uid = fields.take("metadata.uid", metadata.uid.parse());
        let spec = fields.present("spec", wire.spec).and_then(|spec| fields.nest("spec", spec.try_into()));
        let status =
            fields.present("status", wire.status).and_then(|wire| fields.nest("status", wire.try_into()));
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
