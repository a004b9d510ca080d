//! Jobs: the spec with its defaults and limits, and the status.

use proto_model::{
    Algorithm, CollectiveOp, Dtype, EngineOptions, Job, JobSpec, RailProtection, ReduceOp, Work,
};

use super::{duration_to_row, request, time_to_row, values};
use crate::{v1, words::PROTECTIONS};

/// One that is not there is the default.
fn protection_to_row(protection: RailProtection) -> i32 {
    let known =
        PROTECTIONS.iter().find(|(known, _)| *known == protection && protection != RailProtection::None);
    known.map_or(0, |(_, row)| *row as i32)
}

fn engine_to_row(engine: EngineOptions) -> Option<v1::EngineOptions> {
    (engine != EngineOptions::default()).then(|| v1::EngineOptions {
        checksum: engine.checksum,
        reproducible: Some(engine.reproducible),
        algorithm: engine.algorithm.map_or("", Algorithm::as_str).to_owned(),
        queue_pairs: if engine.queue_pairs == 1 { 0 } else { engine.queue_pairs },
        protection: protection_to_row(engine.protection),
    })
}

fn work_to_row(work: &Work) -> v1::job_spec::Work {
    use v1::collective as w;
    match work {
        Work::Command(command) => v1::job_spec::Work::Command(v1::Command {
            argv: command.argv.clone(),
            env: command.env.clone(),
            working_dir: command.working_dir.clone(),
            env_from: values::sources_to_row(&command.env_from),
        }),
        Work::Allocation(held) => v1::job_spec::Work::Allocation(v1::Allocation {
            env: held.env.clone(),
            working_dir: held.working_dir.clone(),
            env_from: values::sources_to_row(&held.env_from),
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
fn gang_to_row(spec: &JobSpec) -> v1::Gang {
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
            gang: Some(gang_to_row(spec)),
            components: spec.components.iter().map(Into::into).collect(),
            rails: Some(v1::RailRequest {
                required: spec.rails.required,
                allow_partial: spec.rails.allow_partial,
                none: spec.rails.none,
                avoid_drained: request::avoid_drained_to_row(spec.rails.avoid_drained),
            }),
            priority: spec.priority,
            time_limit: spec.time_limit.map(duration_to_row),
            grace_period: Some(duration_to_row(spec.grace_period)),
            failure: Some(request::failure_to_row(spec.failure)),
            engine: engine_to_row(spec.engine),
            work: Some(work_to_row(&spec.work)),
            placement: request::placement_to_row(&spec.placement),
            queue: spec.queue.as_ref().map(ToString::to_string).unwrap_or_default(),
            expected_duration: spec.expected.map(duration_to_row),
            begin_time: spec.begin.map(time_to_row),
            start_before: spec.start_before.map(time_to_row),
            deadline: spec.deadline.map(time_to_row),
            reservation: spec.reservation.as_ref().map(ToString::to_string).unwrap_or_default(),
            after: spec.after.iter().map(Into::into).collect(),
            array: spec.array.as_ref().map(ToString::to_string).unwrap_or_default(),
            preemption: request::preemption_to_row(spec.priority, spec.preemption),
            certification: request::certification_to_row(spec.certification).into(),
            service_class: spec.service_class.as_ref().map(ToString::to_string).unwrap_or_default(),
            licenses: spec.licenses.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
        }
    }
}

impl From<&Job> for v1::Job {
    fn from(job: &Job) -> Self {
        Self {
            metadata: Some(v1::Metadata {
                name: job.id.name.to_string(),
                tenant: job.id.tenant.to_string(),
                uid: job.uid.to_string(),
                labels: job.labels.clone(),
                generation: job.generation,
                create_time: Some(time_to_row(job.status.submitted)),
            }),
            spec: Some(job.spec.as_ref().into()),
            status: Some((&job.status).into()),
        }
    }
}
