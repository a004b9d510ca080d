//! The state from what is stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proto_model::{Health, Job, JobUid, NodeName, Phase, Timestamp};
use thiserror::Error;

use crate::{
    config::Config,
    event::{Key, Stored},
    journal::Journal,
    records::Attempt,
    state::{Base, Index, JobEntry, Link, State, Tally},
};

/// The store holds what the core could not have written. Nothing is overwritten.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the store is inconsistent, nothing was changed: {}", .findings.join("; "))]
pub struct LoadError {
    /// Every inconsistency.
    pub findings: Vec<String>,
}

impl State {
    /// The state at the controller's start: everything stored, no agent connected. Phase deadlines begin anew, so
    /// that a controller that was away does not fail jobs for its own absence; time limits go on.
    ///
    /// # Errors
    /// [`LoadError`] names every inconsistency of the store.
    pub fn load(config: Config, epoch: u64, now: Timestamp, stored: Stored) -> Result<Self, LoadError> {
        let mut state = Self {
            config,
            epoch,
            base: Base::default(),
            index: Index::default(),
            versions: BTreeMap::new(),
            journal: Journal::default(),
        };
        let mut findings = Vec::new();
        if let Some((fabric, version)) = stored.fabric {
            state.versions.insert(Key::Fabric, version);
            state.swap_fabric(Some(Arc::new(fabric)));
        }
        for drain in stored.drains {
            state.swap_drain(drain.target.clone(), Some(Arc::new(drain)));
        }
        for (node, version) in stored.nodes {
            let name = node.name.clone();
            let due = (node.health == Health::Ready).then(|| now.plus(state.config.heartbeat_limit));
            state.versions.insert(Key::Node(name.clone()), version);
            state.swap_node(&name, Some(Arc::new(node)));
            state.swap_link(&name, Some(Link::absent(now, due)));
        }
        for (tenant, version) in stored.tenants {
            let name = tenant.name.clone();
            state.versions.insert(Key::Tenant(name.clone()), version);
            state.swap_tenant(&name, Some(Arc::new(tenant)));
        }
        state.load_jobs(stored.jobs, stored.attempts, now, &mut findings);
        for record in stored.requests {
            state.swap_request((record.tenant.clone(), record.request.clone()), Some(Arc::new(record)));
        }
        for token in stored.tokens {
            state.swap_token(token.hash, Some(Arc::new(token)));
        }
        if findings.is_empty() { Ok(state) } else { Err(LoadError { findings }) }
    }

    fn load_jobs(
        &mut self,
        jobs: Vec<(Job, u64)>,
        attempts: Vec<Attempt>,
        now: Timestamp,
        findings: &mut Vec<String>,
    ) {
        let mut attempts: BTreeMap<JobUid, Attempt> =
            attempts.into_iter().map(|attempt| (attempt.uid, attempt)).collect();
        let mut gpus: BTreeSet<(NodeName, u32)> = BTreeSet::new();
        let mut rails: BTreeSet<(NodeName, u32)> = BTreeSet::new();
        for (job, version) in jobs {
            let (id, uid, status) = (&job.id, job.uid, &job.status);
            let attempt = attempts.remove(&uid);
            let mut find = |what: &str| findings.push(format!("job '{id}': {what}"));
            if self.base.jobs.contains_key(&uid) || self.index.names.contains_key(id) {
                find("its name or uid is stored twice");
                continue;
            }
            if status.phase.holds() {
                match &attempt {
                    None => find("it is placed, and its record of the try is missing"),
                    Some(attempt) if attempt.attempt != status.attempt => {
                        find("its record is of another try")
                    }
                    Some(_) => {}
                }
                if status.placement.is_none() {
                    find("it is placed, and its placement is missing");
                }
                for place in status.placement.iter().flat_map(|placement| &placement.nodes) {
                    let node = &place.node;
                    let twice = place.gpus.iter().any(|gpu| !gpus.insert((node.clone(), *gpu)))
                        | place.nics.iter().any(|nic| !rails.insert((node.clone(), nic.rail)));
                    if twice {
                        find(&format!("a GPU or NIC of node '{node}' is held twice"));
                    }
                }
            } else if attempt.is_some() {
                find("it holds nothing, and there is a record of a try");
            }
            let due = due_at_start(&job, attempt.as_ref(), &self.config, now);
            self.versions.insert(Key::Job(id.clone()), version);
            let entry =
                JobEntry { job: Arc::new(job), attempt: attempt.map(Arc::new), due, tally: Tally::default() };
            self.swap_job(uid, Some(entry));
        }
        for uid in attempts.keys() {
            findings.push(format!("there is a record of a try of job {uid}, and no such job"));
        }
    }
}

fn due_at_start(job: &Job, attempt: Option<&Attempt>, config: &Config, now: Timestamp) -> Option<Timestamp> {
    if attempt.is_some_and(|attempt| attempt.ending.is_some()) {
        return None;
    }
    match (job.status.phase, job.status.started) {
        (Phase::Pending, _) if job.status.attempt > 1 => Some(now.plus(config.requeue_backoff)),
        (Phase::Reserved | Phase::Preparing, _) => Some(now.plus(config.prepare_timeout)),
        (Phase::Running, None) => Some(now.plus(config.start_timeout)),
        (Phase::Running, Some(started)) => job.spec.time_limit.map(|limit| started.plus(limit)),
        _ => None,
    }
}
