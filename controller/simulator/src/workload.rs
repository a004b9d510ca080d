//! A trace's jobs made into jobs of this cluster: GPUs into gangs, virtual clusters into tenants, and the times between
//! submits stretched or pressed until they load the cluster as asked.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use controller_scheduler::{Filter, Host, Need, RailNeed, Within};
use controller_topology::RailSet;
use proto_model::{
    CommandSpec, Gang, JobId, JobName, JobSpec, JobUid, RailRequest, TenantName, Timestamp, Work,
};
use thiserror::Error;

use crate::{
    dice::Dice,
    site::Site,
    trace::{Shares, row::TraceJob},
};

/// How numbers of GPUs become gangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// Jobs of so many GPUs and more take whole servers, so many that all their GPUs find room. Jobs of fewer share a
    /// server with others.
    pub whole_from: u32,
    /// Rails of a job on whole servers; 0: all.
    pub rails: u32,
    /// Gangs that fit into one pod ask to stay inside one. Schedulers that cannot be asked for that do as they can.
    pub one_pod: bool,
    /// Rails that a job which shares its server holds for itself; 0: none, its GPUs speak inside the server only.
    pub shared_rails: u32,
}

impl Default for Mapping {
    fn default() -> Self {
        Self { whole_from: 8, rails: 0, shared_rails: 0, one_pod: true }
    }
}

/// Which jobs of a trace, and how fast they come.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Offered load: GPU time that the jobs hold / (GPUs of the cluster x time from the first to the last submit). The
    /// times between submits are stretched or pressed to give it. `None`: they stay, but for `speedup`.
    pub load: Option<f64>,
    /// The times between submits are divided by this; without `load` only.
    pub speedup: f64,
    /// Only jobs submitted so long after the first one, in milliseconds of the trace.
    pub from: u64,
    /// Only jobs submitted before this, in milliseconds after the first one of the trace.
    pub until: Option<u64>,
    /// The most jobs that are taken; `None`: all.
    pub jobs: Option<usize>,
    /// How GPUs of a trace are divided into servers.
    pub mapping: Mapping,
    /// Where the trace does not say it: owners ask for at most so many times the time that they need, evenly drawn from
    /// 1 to this.
    pub estimate: f64,
    /// The seed of everything that is drawn.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            load: Some(0.95),
            speedup: 1.0,
            from: 0,
            until: None,
            jobs: None,
            mapping: Mapping::default(),
            estimate: 1.0,
            seed: 1,
        }
    }
}

/// Settings that make no sense.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum WorkloadError {
    /// The load that was asked for is out of range.
    #[error("load: {0}; it is above 0 and at most 100")]
    Load(f64),
    /// The speedup that was asked for is out of range.
    #[error("speedup: {0}; it is above 0 and at most 1,000,000")]
    Speedup(f64),
    /// The factor of the owners' estimates is out of range.
    #[error("estimate: {0}; it is 1 (owners know) to 1,000")]
    Estimate(f64),
    /// Nothing is left of the trace.
    #[error("no job is left: {0}")]
    Nothing(String),
    /// All jobs come at once, so that no time can be stretched.
    #[error("all jobs are submitted at the same time: there is no load that could be set; leave it out")]
    AtOnce,
}

/// A job on this cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct SimJob {
    /// Line of the trace.
    pub line: u64,
    /// Identity; ascending with the submits.
    pub uid: JobUid,
    /// Tenant and name of the job.
    pub id: JobId,
    /// The spec as a user would submit it.
    pub spec: JobSpec,
    /// What every scheduler can be asked for: servers, GPUs, rails.
    pub need: Need,
    /// The same, and where its servers should lie.
    pub desired: Need,
    /// When the job is submitted.
    pub submit: Timestamp,
    /// How long it runs.
    pub run: Duration,
    /// How long its owner says that it runs at most; not less than `run`.
    pub limit: Duration,
    /// GPUs that the trace says it had.
    pub asked: u32,
    /// The job takes whole servers.
    pub whole: bool,
    /// The kinds of servers that have what it asks for, as a bitmap.
    pub kinds: u64,
}

impl SimJob {
    /// GPUs that it holds.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        u64::from(self.spec.gang.nodes) * u64::from(self.spec.gang.gpus_per_node)
    }

    /// Servers that the job wants.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.spec.gang.nodes
    }
}

/// The jobs, and how many others were left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The jobs, in the order of their submits.
    pub jobs: Vec<SimJob>,
    /// The tenants that the jobs belong to.
    pub tenants: BTreeSet<TenantName>,
    /// What tenants and queues have, where the trace says it; else every tenant may hold the whole cluster.
    pub shares: Shares,
    /// Jobs outside of what was asked for.
    pub outside: usize,
    /// Jobs that no state of this cluster could hold, by line of the trace, the first few.
    pub too_large: Vec<u64>,
    /// Jobs that no state of this cluster could hold: all of them.
    pub too_large_count: usize,
    /// Jobs on whole servers that do not use all their GPUs, and how many GPUs idle inside them.
    pub rounded: (usize, u64),
    /// The load of the trace as it is on this cluster.
    pub natural_load: f64,
    /// The load as it was made.
    pub load: f64,
    /// The part of it that could be served before the last submit if every job started at its submit.
    pub load_inside: f64,
    /// What the times between submits were multiplied with.
    pub stretch: f64,
}

impl Workload {
    /// Makes the jobs.
    ///
    /// # Errors
    /// [`WorkloadError`] for settings that make no sense, or that leave nothing.
    pub fn new(trace: &[TraceJob], site: &Site, settings: &Settings) -> Result<Self, WorkloadError> {
        check(settings)?;
        let first = trace.first().map_or(0, |job| job.submit);
        let inside = |job: &&TraceJob| {
            let at = job.submit - first;
            at >= settings.from && settings.until.is_none_or(|until| at < until)
        };
        let wanted: Vec<&TraceJob> =
            trace.iter().filter(inside).take(settings.jobs.unwrap_or(usize::MAX)).collect();
        let mut made = Self {
            jobs: Vec::with_capacity(wanted.len()),
            tenants: BTreeSet::new(),
            shares: Shares::default(),
            outside: trace.len() - wanted.len(),
            too_large: Vec::new(),
            too_large_count: 0,
            rounded: (0, 0),
            natural_load: 0.0,
            load: 0.0,
            load_inside: 0.0,
            stretch: 1.0,
        };
        let mut dice = Dice::new(settings.seed, 2);
        let zero = wanted.first().map_or(0, |job| job.submit);
        for job in wanted {
            made.take(job, zero, site, settings, &mut dice);
        }
        if made.jobs.is_empty() {
            return Err(WorkloadError::Nothing(format!(
                "{} outside the time or number that was asked for, {} too large for the cluster",
                made.outside, made.too_large_count
            )));
        }
        made.stretch(site, settings)?;
        Ok(made)
    }

    /// The same, with what tenants and queues have.
    #[must_use]
    pub fn with_shares(self, shares: &Shares) -> Self {
        Self { shares: shares.clone(), ..self }
    }

    fn take(&mut self, job: &TraceJob, zero: u64, site: &Site, settings: &Settings, dice: &mut Dice) {
        let mapping = settings.mapping;
        // Drawn for every job, so that those that are left out do not change the others.
        let drawn = 1.0 + dice.unit() * (settings.estimate - 1.0);
        let limit = job.limit.unwrap_or((job.run as f64 * drawn) as u64).max(job.run);
        let limit = Duration::from_millis(limit);
        let Some(Asked { spec, whole, within, kinds }) = spec_of(job, site, mapping, limit) else {
            self.too_large_count += 1;
            if self.too_large.len() < crate::trace::EXAMPLES {
                self.too_large.push(job.line);
            }
            return;
        };
        let Gang { nodes, gpus_per_node, .. } = spec.gang;
        if whole && nodes * gpus_per_node > job.gpus {
            self.rounded.0 += 1;
            self.rounded.1 += u64::from(nodes * gpus_per_node - job.gpus);
        }
        let gpu_models = spec.placement.gpu_models.clone();
        let need = Need {
            host: Host::asked(&spec.gang),
            filter: Arc::new(Filter { gpu_models, ..Filter::default() }),
            ..Need::plain(nodes, gpus_per_node, rail_need(site, spec.rails))
        };
        let desired = Need { within, ..need.clone() };
        // Names are well formed: the decoder made them so, and a number is a name.
        let name = match &job.own {
            Some(own) => Ok(own.name.clone()),
            None => JobName::new(format!("line-{}", job.line)),
        };
        let (Ok(tenant), Ok(name)) = (TenantName::new(&job.tenant), name) else { return };
        self.tenants.insert(tenant.clone());
        let at = self.jobs.len() as u64;
        self.jobs.push(SimJob {
            line: job.line,
            uid: JobUid::ordered(Timestamp(at), 0, [0; 8]),
            id: JobId { tenant, name },
            spec,
            need,
            desired,
            submit: Timestamp(job.submit - zero),
            run: Duration::from_millis(job.run),
            limit,
            asked: job.gpus,
            whole,
            kinds,
        });
    }

    fn stretch(&mut self, site: &Site, settings: &Settings) -> Result<(), WorkloadError> {
        let span = self.jobs.last().map_or(0, |job| job.submit.0) as f64;
        let work: f64 = self.jobs.iter().map(|job| job.gpus() as f64 * job.run.as_millis() as f64).sum();
        let capacity = site.gpus() as f64;
        self.natural_load = if span > 0.0 { work / (capacity * span) } else { f64::INFINITY };
        self.stretch = match settings.load {
            Some(_) if span == 0.0 => return Err(WorkloadError::AtOnce),
            Some(load) => self.natural_load / load,
            None => 1.0 / settings.speedup,
        };
        self.load = self.natural_load / self.stretch;
        for job in &mut self.jobs {
            job.submit = Timestamp((job.submit.0 as f64 * self.stretch).round() as u64);
        }
        let end = self.jobs.last().map_or(Timestamp(0), |job| job.submit);
        let inside = |job: &SimJob| job.gpus() as f64 * job.run.min(end.since(job.submit)).as_millis() as f64;
        let inside: f64 = self.jobs.iter().map(inside).sum();
        self.load_inside = if end.0 > 0 { inside / (capacity * end.0 as f64) } else { 0.0 };
        Ok(())
    }
}

fn check(settings: &Settings) -> Result<(), WorkloadError> {
    if let Some(load) = settings.load.filter(|load| !(*load > 0.0 && *load <= 100.0)) {
        return Err(WorkloadError::Load(load));
    }
    if !(settings.speedup > 0.0 && settings.speedup <= 1e6) {
        return Err(WorkloadError::Speedup(settings.speedup));
    }
    if !(1.0..=1e3).contains(&settings.estimate) {
        return Err(WorkloadError::Estimate(settings.estimate));
    }
    Ok(())
}

/// What a job of a trace would ask for.
struct Asked {
    /// As every scheduler can be asked.
    spec: JobSpec,
    /// The job takes whole servers.
    whole: bool,
    /// Where its servers should lie.
    within: Within,
    /// The kinds of servers that have it.
    kinds: u64,
}

/// Asks for what the trace says beside GPUs, where the cluster's list says what there is.
fn ask(spec: &mut JobSpec, job: &TraceJob, site: &Site) {
    if site.listed {
        (spec.gang.cpus_per_node, spec.gang.memory_per_node) = (job.asks.cpus, job.asks.memory);
        spec.placement.gpu_models.clone_from(&job.asks.models);
    }
}

/// `None`: the cluster could never hold it.
fn spec_of(job: &TraceJob, site: &Site, mapping: Mapping, limit: Duration) -> Option<Asked> {
    let work = Work::Command(CommandSpec {
        argv: vec!["trace".to_owned()],
        env: std::collections::BTreeMap::new(),
        env_from: Vec::new(),
        working_dir: String::new(),
    });
    let per_node = site.gpus_per_node;
    if let Some(own) = &job.own {
        let gang = own.gang;
        let mut spec = JobSpec::new(gang, work);
        own.apply(&mut spec);
        (spec.time_limit, spec.expected) = (Some(limit), Some(own.expected.unwrap_or(limit)));
        ask(&mut spec, job, site);
        let kinds = site.kinds_for(gang.gpus_per_node, &job.asks);
        let fits = kinds != 0 && gang.min_nodes <= site.nodes_of(kinds, gang.nodes > 1);
        let within = if own.one_pod { Within::Pod } else { Within::Fabric };
        return fits.then_some(Asked { spec, whole: gang.gpus_per_node == per_node, within, kinds });
    }
    let whole = job.gpus >= mapping.whole_from.min(per_node);
    let nodes = if whole { job.gpus.div_ceil(per_node) } else { 1 };
    let gpus_per_node = if whole { per_node } else { job.gpus };
    let kinds = site.kinds_for(gpus_per_node, &job.asks);
    if kinds == 0 || nodes > site.nodes_of(kinds, whole) {
        return None;
    }
    let rails = if whole { mapping.rails } else { mapping.shared_rails };
    let largest = site.largest_pod(kinds);
    // On a shared server any NICs will do.
    let rails = RailRequest {
        required: rails,
        allow_partial: !whole,
        none: !whole && rails == 0,
        avoid_drained: false,
    };
    let mut spec = JobSpec::new(Gang::new(nodes, gpus_per_node, gpus_per_node), work);
    spec.rails = rails;
    (spec.time_limit, spec.expected) = (Some(limit), Some(limit));
    ask(&mut spec, job, site);
    let one_pod = mapping.one_pod && nodes > 1 && nodes <= largest;
    let within = if one_pod { Within::Pod } else { Within::Fabric };
    Some(Asked { spec, whole, within, kinds })
}

/// The first rails, all of them for 0, or any so many.
fn rail_need(site: &Site, rails: RailRequest) -> RailNeed {
    let all = site.snapshot.topology().rails();
    let RailRequest { required, allow_partial, none, .. } = rails;
    match (none, allow_partial, required) {
        (true, ..) => RailNeed::Exactly(RailSet::EMPTY),
        (_, _, 0) => RailNeed::Exactly(RailSet::first(all)),
        (_, true, some) => RailNeed::Any(some.min(all)),
        (_, false, some) => RailNeed::Exactly(RailSet::first(some.min(all))),
    }
}
