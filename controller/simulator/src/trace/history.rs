//! A site's own history: JSON lines, as `railctl history export` writes them.
//!
//! The first line is the header. `tenant` and `queue` lines say how what there is was shared; then comes a `job` line for
//! every job that has ended, with all that its order and its place depend on, but for names of servers and labels: those
//! are of that cluster.

use std::{collections::BTreeMap, time::Duration};

use controller_queue::{QueueDef, TenantDef};
use proto_model::{
    Gang, GpuModel, Job, JobName, Preemption, Queue, QueueName, RailRequest, Tenant, TenantName, Timestamp,
    Within,
};
use serde::{Deserialize, Serialize};

use super::{
    fields::shown,
    row::{Asks, Fault, MAX_GPUS, MAX_RUN, MAX_TIME, Own, Read, TraceJob},
};
use crate::log::{QueueLine, TenantLine};

/// What the header's `format` says.
pub const FORMAT: &str = "rail.history";
/// The version that is written; no other one is read.
pub const VERSION: u32 = 1;

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub enum HistoryLine {
    /// The header, which is the first line.
    Header(HistoryHeader),
    /// What a tenant has.
    Tenant(TenantLine),
    /// What a queue has.
    Queue(QueueLine),
    /// A job that has ended.
    Job(Box<HistoryJob>),
}

impl HistoryLine {
    /// The header of a history that is written at this time.
    #[must_use]
    pub fn header(at: Timestamp) -> Self {
        Self::Header(HistoryHeader { format: FORMAT.to_owned(), version: VERSION, at: at.0 })
    }

    /// What a tenant has.
    #[must_use]
    pub fn tenant(tenant: &Tenant) -> Self {
        Self::Tenant(TenantLine::new(Timestamp(0), &tenant.name, Some(&TenantDef::of(tenant))))
    }

    /// What a queue has.
    #[must_use]
    pub fn queue(queue: &Queue) -> Self {
        Self::Queue(QueueLine::new(Timestamp(0), &queue.tenant, &queue.name, Some(&QueueDef::of(queue))))
    }

    /// As a line of the file.
    ///
    /// # Errors
    /// None that can come: all keys are texts.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self).map(|text| text + "\n")
    }
}

/// The first line: format and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryHeader {
    /// Name of the format, always [`FORMAT`].
    pub format: String,
    /// Version of the format, always [`VERSION`].
    pub version: u32,
    /// When it was written, in milliseconds since 1970.
    pub at: u64,
}

/// A job that has ended; times in milliseconds since 1970, lengths in milliseconds. What is absent was not asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryJob {
    /// The tenant that the job belonged to.
    pub tenant: String,
    /// Name of the job within its tenant.
    pub name: String,
    /// The queue that it waited in; absent: the tenant itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority: the higher one goes first.
    #[serde(default)]
    pub priority: i32,
    /// When it was submitted.
    pub submitted: u64,
    /// Since when its last attempt ran; absent: it never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// When the job ended.
    pub ended: u64,
    /// Servers that it wanted.
    pub nodes: u32,
    /// With so few it would have started too.
    pub min_nodes: u32,
    /// Servers that it ran on at last; absent: all that it wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_on: Option<u32>,
    /// GPUs of each. The nodes of a gang of components are written as if all had as many as the average, rounded up, and of everything else
    /// as much as the component that asks for most.
    pub gpus_per_node: u32,
    /// CPUs that it asked for on each.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cpus_per_node: u32,
    /// Bytes of memory that it asked for on each.
    #[serde(default, skip_serializing_if = "is_none")]
    pub memory_per_node: u64,
    /// Models of GPU of which any would do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    /// Ranks on each of its servers.
    pub ranks_per_node: u32,
    /// Rails; 0: all of the fabric.
    #[serde(default)]
    pub rails: u32,
    /// Any rails would do, so many of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_rails: bool,
    /// The job used no rail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_rails: bool,
    /// All its servers had to be in one pod.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_pod: bool,
    /// How long it might run, in milliseconds; absent: without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How long its owner thought that it would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// It might be stopped for jobs of higher priority.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preemptible: bool,
    /// Time between signal and kill, in milliseconds.
    #[serde(default)]
    pub grace: u64,
    /// It saved its work so often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// What a restart cost, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_cost: Option<u64>,
}

/// GPUs of each node; of a gang of components the average, rounded up.
fn gpus_per_node(spec: &proto_model::JobSpec) -> u32 {
    if spec.components.is_empty() {
        return spec.gang.gpus_per_node;
    }
    let gpus: u64 =
        spec.components.iter().map(|one| u64::from(one.nodes) * u64::from(one.gpus_per_node)).sum();
    u32::try_from(gpus.div_ceil(u64::from(spec.gang.nodes.max(1)))).unwrap_or(u32::MAX)
}

impl HistoryJob {
    /// Of a job that has ended; `None` if it has not.
    #[must_use]
    pub fn of(job: &Job) -> Option<Self> {
        let (spec, status) = (&job.spec, &job.status);
        let ended = status.ended?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let ran_on = status.placement.as_ref().map(|place| place.nodes.len());
        let ran_on = ran_on.and_then(|nodes| u32::try_from(nodes).ok());
        Some(Self {
            tenant: job.id.tenant.to_string(),
            name: job.id.name.to_string(),
            queue: spec.queue.as_ref().map(ToString::to_string),
            priority: spec.priority,
            submitted: status.submitted.0,
            started: status.started.map(|at| at.0),
            ended: ended.0,
            nodes: spec.gang.nodes,
            min_nodes: spec.gang.min_nodes,
            ran_on: ran_on.filter(|nodes| *nodes != spec.gang.nodes && *nodes > 0),
            gpus_per_node: gpus_per_node(spec),
            cpus_per_node: spec.gang.cpus_per_node,
            memory_per_node: spec.gang.memory_per_node,
            gpu_models: spec.placement.gpu_models.iter().map(ToString::to_string).collect(),
            ranks_per_node: spec.gang.ranks_per_node,
            rails: spec.rails.required,
            any_rails: spec.rails.allow_partial,
            no_rails: spec.rails.none,
            one_pod: spec.placement.within == Within::Pod,
            limit: spec.time_limit.map(millis),
            expected: spec.expected.map(millis),
            preemptible: spec.preemption.preemptible,
            grace: millis(spec.preemption.grace.unwrap_or(spec.grace_period)),
            checkpoint_every: spec.preemption.checkpoint_every.map(millis),
            restart_cost: spec.preemption.restart_cost.map(millis),
        })
    }

    /// How long it would have run on all the servers that it wanted.
    fn run(&self, started: u64) -> u64 {
        let run = self.ended.saturating_sub(started);
        let ran_on = self.ran_on.unwrap_or(self.nodes);
        let run = u128::from(run) * u128::from(ran_on) / u128::from(self.nodes.max(1));
        u64::try_from(run).unwrap_or(u64::MAX)
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

/// How what there is was shared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shares {
    /// What each tenant has; of others nothing is known.
    pub tenants: BTreeMap<TenantName, TenantDef>,
    /// What each queue has; of others nothing is known.
    pub queues: BTreeMap<(TenantName, QueueName), QueueDef>,
}

/// Whether a text begins a history. `Err`: it does, and cannot be read.
pub(super) fn begins(text: &str) -> Option<Result<HistoryHeader, String>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let header = match serde_json::from_str::<HistoryLine>(text) {
        Ok(HistoryLine::Header(header)) => header,
        Ok(_) => return Some(Err("the first line is the header".to_owned())),
        Err(error) => return Some(Err(format!("not a header: {}", reported(&error)))),
    };
    let HistoryHeader { format, version, .. } = &header;
    if format != FORMAT || *version != VERSION {
        return Some(Err(format!(
            "format {format:?} version {version}; this reads {FORMAT:?} version {VERSION}"
        )));
    }
    Some(Ok(header))
}

/// One line behind the header; `None`: it says how things were shared.
pub(super) fn read(text: &str, line: u64, shares: &mut Shares) -> Result<Option<Read>, Fault> {
    let wrong = |what: String| Fault::new("NotALine", "the line", what);
    match serde_json::from_str(text).map_err(|error| wrong(reported(&error)))? {
        HistoryLine::Header(_) => Err(wrong("a second header".to_owned())),
        HistoryLine::Tenant(line) => {
            let name = TenantName::new(&line.tenant).map_err(|error| wrong(error.to_string()))?;
            shares.tenants.extend(line.def().map(|def| (name, def)));
            Ok(None)
        }
        HistoryLine::Queue(line) => {
            let (tenant, queue, def) = line.all().map_err(|error| wrong(error.to_string()))?;
            shares.queues.extend(def.map(|def| ((tenant, queue), def)));
            Ok(None)
        }
        HistoryLine::Job(job) => job_of(&job, line).map(Some),
    }
}

fn reported(error: &serde_json::Error) -> String {
    let text = error.to_string();
    shown(text.split(" at line ").next().unwrap_or_default())
}

fn job_of(job: &HistoryJob, line: u64) -> Result<Read, Fault> {
    let name = |field, error: proto_model::NameError| Fault::new("Name", field, error.to_string());
    let tenant = TenantName::new(&job.tenant).map_err(|error| name("tenant", error))?;
    let own_name = JobName::new(&job.name).map_err(|error| name("name", error))?;
    let queue = job.queue.as_deref().map(QueueName::new).transpose().map_err(|error| name("queue", error))?;
    let started = job.started.ok_or_else(|| Fault::new("NeverRan", "started", "it ended without a start"))?;
    if started < job.submitted || job.ended < started {
        return Err(Fault::new("Negative", "ended", "submitted, started and ended are not in this order"));
    }
    let gpus = job.nodes.saturating_mul(job.gpus_per_node);
    if gpus == 0 || job.min_nodes == 0 || job.min_nodes > job.nodes {
        return Err(Fault::new("NoGpu", "nodes", "servers, the least of them or their GPUs make no gang"));
    }
    let run = job.run(started).max(1);
    if job.ended > MAX_TIME || run > MAX_RUN || gpus > MAX_GPUS {
        return Err(Fault::new("Absurd", "the line", "after the year 2200, longer than ten years, or huge"));
    }
    let models: Result<_, _> = job.gpu_models.iter().map(GpuModel::new).collect();
    let models = models.map_err(|error| Fault::new("GpuModel", "gpuModels", error.to_string()))?;
    let asks = Asks { cpus: job.cpus_per_node, memory: job.memory_per_node, models };
    let length = |millis: u64| Duration::from_millis(millis.min(MAX_RUN));
    let own = Own {
        name: own_name,
        queue,
        priority: job.priority,
        gang: Gang {
            min_nodes: job.min_nodes,
            ..Gang::new(job.nodes, job.gpus_per_node, job.ranks_per_node.max(1))
        },
        rails: RailRequest {
            required: job.rails,
            allow_partial: job.any_rails,
            none: job.no_rails,
            avoid_drained: false,
        },
        one_pod: job.one_pod,
        expected: job.expected.map(length),
        preemption: Preemption {
            preemptible: job.preemptible,
            grace: Some(length(job.grace)),
            signal: Preemption::SIGTERM,
            checkpoint_every: job.checkpoint_every.map(length),
            restart_cost: job.restart_cost.map(length),
        },
    };
    Ok(Read::ended(TraceJob {
        line,
        submit: job.submitted,
        run,
        limit: job.limit.map(|limit| limit.clamp(run, MAX_RUN)),
        gpus,
        tenant: tenant.to_string(),
        own: Some(Box::new(own)),
        asks,
    }))
}
