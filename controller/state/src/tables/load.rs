//! The state from what is stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_queue::{Past, Policy, QueueState};
use proto_model::{
    Drain, Fabric, Health, Job, JobSchedule, JobUid, License, Node, NodeName, Phase, QosRollout, Queue,
    Reservation, ServiceClass, SwitchConfig, SwitchName, SwitchRollout, Tenant, Timestamp, Values, Webhook,
};
use thiserror::Error;

use crate::{
    config::Config,
    index::all::Index,
    rows::{
        audit::StoredAudit,
        decisions::DecisionRow,
        deleted::Tombstone,
        job::{JobEntry, Tally},
        node::Link,
        records::{Attempt, RequestRecord, RestingName, TokenRecord},
        rollout::Active,
        schedules::ScheduleEntry,
        usage::UsageRecord,
        webhooks::Delivery,
        write::Key,
    },
    tables::state::{Base, Journal, Row, State},
};

/// Everything that is stored, with the store's revision of each resource's last change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stored {
    /// The fabric document, with the store's revision of its last change.
    pub fabric: Option<(Arc<Fabric>, u64)>,
    /// All nodes, each with the store's revision of its last change.
    pub nodes: Vec<(Arc<Node>, u64)>,
    /// All tenants, each with the store's revision of its last change.
    pub tenants: Vec<(Arc<Tenant>, u64)>,
    /// The names of deleted tenants.
    pub resting: Vec<Arc<RestingName>>,
    /// What was deleted and can be brought back.
    pub tombstones: Vec<Arc<Tombstone>>,
    /// All queues, each with the store's revision of its last change.
    pub queues: Vec<(Arc<Queue>, u64)>,
    /// The service classes.
    pub classes: Vec<(Arc<ServiceClass>, u64)>,
    /// All licenses, each with the store's revision of its last change.
    pub licenses: Vec<(Arc<License>, u64)>,
    /// All switches, each with the store's revision of its last change.
    pub switches: Vec<(Arc<SwitchConfig>, u64)>,
    /// All schedules of jobs, each with the store's revision of its last change.
    pub schedules: Vec<(Arc<JobSchedule>, u64)>,
    /// Secrets and configs.
    pub values: Vec<(Arc<Values>, u64)>,
    /// All webhooks, each with the store's revision of its last change.
    pub webhooks: Vec<(Arc<Webhook>, u64)>,
    /// What waits to be sent by them.
    pub deliveries: Vec<Arc<Delivery>>,
    /// All reservations, each with the store's revision of its last change.
    pub reservations: Vec<(Arc<Reservation>, u64)>,
    /// All jobs, each with the store's revision of its last change.
    pub jobs: Vec<(Arc<Job>, u64)>,
    /// The private records.
    pub attempts: Vec<Arc<Attempt>>,
    /// The usage records.
    pub usage: Vec<Arc<UsageRecord>>,
    /// The request ids.
    pub requests: Vec<Arc<RequestRecord>>,
    /// All drains.
    pub drains: Vec<Arc<Drain>>,
    /// The rollout of a profile.
    pub qos: Option<Arc<QosRollout>>,
    /// The rollout to switches.
    pub switch_rollout: Option<Arc<SwitchRollout>>,
    /// The join tokens.
    pub tokens: Vec<Arc<TokenRecord>>,
    /// The decision log.
    pub decisions: Vec<Arc<DecisionRow>>,
    /// The audit logs.
    pub audit: Vec<StoredAudit>,
}

/// The store holds what the core could not have written. Nothing is overwritten.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the store is inconsistent, nothing was changed: {}", .findings.join("; "))]
pub struct LoadError {
    /// Every inconsistency that was found, in words.
    pub findings: Vec<String>,
}

fn policy(config: &Config) -> Policy {
    Policy {
        backfill: config.backfill,
        grow_after: config.resize_after,
        head_start: config.head_start,
        objective: config.objective,
        long_jobs: config.long_jobs,
        fair_share: config.fair_share,
        ..Policy::default()
    }
}

impl State {
    /// The state at the controller's start: everything stored, no agent connected. Phase deadlines begin anew, so
    /// that a controller that was away does not fail jobs for its own absence; time limits go on.
    ///
    /// # Errors
    /// [`LoadError`] names every inconsistency of the store.
    pub fn load(config: Config, epoch: u64, now: Timestamp, stored: Stored) -> Result<Self, LoadError> {
        let policy = policy(&config);
        let mut state = Self {
            config,
            epoch,
            base: Base::default(),
            index: Index { queue_state: QueueState::new(policy), ..Index::default() },
            versions: BTreeMap::new(),
            journal: Journal::default(),
        };
        let mut findings = state.take_in_webhooks(stored.webhooks, stored.deliveries);
        state.take_in(stored.values);
        if let Some((fabric, version)) = stored.fabric {
            state.versions.insert(Key::Fabric, version);
            state.swap_fabric(Some(fabric));
        }
        state.take_in_unversioned(stored.drains);
        state.base.qos_check = stored.qos.is_some().then_some(now);
        state.base.qos = stored.qos;
        state.base.switch_check = stored.switch_rollout.is_some().then_some(now);
        if let Some(rollout) = &stored.switch_rollout {
            let active = |name: &SwitchName| (name.clone(), Active::on_trial(now));
            state.base.switch_run.units = rollout.out_of_use.iter().map(active).collect();
        }
        state.base.switch_rollout = stored.switch_rollout;
        for (node, version) in stored.nodes {
            let name = node.name.clone();
            let due = (node.health == Health::Ready).then(|| now.plus(state.config.heartbeat_limit));
            state.take_in([(node, version)]);
            state.swap_link(&name, Some(Link::absent(now, due)));
        }
        state.take_in(stored.tenants);
        state.take_in_unversioned(stored.resting);
        state.take_in_unversioned(stored.tombstones);
        state.take_in(stored.queues);
        state.take_in(stored.classes);
        state.take_in(stored.licenses);
        state.take_in(stored.switches);
        state.take_in(stored.reservations);
        for (schedule, version) in stored.schedules {
            let key = (schedule.tenant.clone(), schedule.name.clone());
            state.versions.insert(Key::Schedule(key.0.clone(), key.1.clone()), version);
            // Each is looked at once: an earlier leader may have come to no end of what it had to do.
            state.swap_job_schedule(key, Some(ScheduleEntry { schedule, due: Some(now) }));
        }
        state.load_jobs(stored.jobs, stored.attempts, now, &mut findings);
        state.take_in_unversioned(stored.usage);
        state.take_in_unversioned(stored.decisions);
        state.load_audit(stored.audit);
        state.take_in_unversioned(stored.requests);
        state.take_in_unversioned(stored.tokens);
        if findings.is_empty() { Ok(state) } else { Err(LoadError { findings }) }
    }

    /// Rows with the store's revisions of their last changes.
    fn take_in<R: Row>(&mut self, rows: impl IntoIterator<Item = (Arc<R>, u64)>) {
        for (row, version) in rows {
            let key = row.key();
            self.versions.insert(R::delete(&key).key(), version);
            self.swap(&key, Some(row));
        }
    }

    /// Rows whose revisions nobody asks for.
    fn take_in_unversioned<R: Row>(&mut self, rows: Vec<Arc<R>>) {
        for row in rows {
            self.swap(&row.key(), Some(row));
        }
    }

    /// Webhooks and what waits to be sent by them; what is found amiss.
    fn take_in_webhooks(
        &mut self,
        webhooks: Vec<(Arc<Webhook>, u64)>,
        deliveries: Vec<Arc<Delivery>>,
    ) -> Vec<String> {
        self.take_in(webhooks);
        let lost = deliveries.iter().filter(|one| self.webhook(&one.tenant, &one.webhook).is_none());
        let words = |one: &Arc<Delivery>| {
            format!("delivery {}: there is no webhook '{}/{}'", one.seq, one.tenant, one.webhook)
        };
        let findings = lost.map(words).collect();
        self.take_in_unversioned(deliveries);
        findings
    }

    fn load_jobs(
        &mut self,
        jobs: Vec<(Arc<Job>, u64)>,
        attempts: Vec<Arc<Attempt>>,
        now: Timestamp,
        findings: &mut Vec<String>,
    ) {
        let mut attempts: BTreeMap<JobUid, Arc<Attempt>> =
            attempts.into_iter().map(|attempt| (attempt.uid, attempt)).collect();
        let mut gpus: BTreeSet<(NodeName, u32)> = BTreeSet::new();
        let mut rails: BTreeSet<(NodeName, u32)> = BTreeSet::new();
        let mut entries = Vec::with_capacity(jobs.len());
        for (job, version) in jobs {
            let (id, uid, status) = (&job.id, job.uid, &job.status);
            let mut attempt = attempts.remove(&uid);
            if let Some(attempt) = attempt.as_mut().filter(|attempt| attempt.since == Timestamp::default()) {
                // Stored by a release that did not say: what is not known to have been held is not charged.
                Arc::make_mut(attempt).since = status.started.unwrap_or(now);
            }
            let mut find = |what: &str| findings.push(format!("job '{id}': {what}"));
            if status.phase.holds() {
                match &attempt {
                    None => find("it is placed, and its record of the attempt is missing"),
                    Some(attempt) if attempt.attempt != status.attempt => {
                        find("its record is of another attempt")
                    }
                    Some(_) => {}
                }
                if status.placement.is_none() {
                    find("it is placed, and its placement is missing");
                }
                let places = status
                    .placement
                    .iter()
                    .flat_map(|placement| placement.nodes.iter().chain(&placement.spares));
                for place in places {
                    let node = &place.node;
                    let twice = place.gpus.iter().any(|gpu| !gpus.insert((node.clone(), *gpu)))
                        | place.nics.iter().any(|nic| !rails.insert((node.clone(), nic.rail)));
                    if twice {
                        find(&format!("a GPU or NIC of node '{node}' is held twice"));
                    }
                }
            } else if attempt.is_some() {
                find("it holds nothing, and there is a record of an attempt");
            }
            let due = due_at_start(&job, attempt.as_deref(), &self.config, now);
            entries.push((
                JobEntry { job, attempt, due, held: false, cap: None, tally: Tally::default() },
                version,
            ));
        }
        let twice = self.load_entries(entries);
        findings.extend(twice.iter().map(|id| format!("job '{id}': its name or uid is stored twice")));
        self.remember_ended();
        self.hold_back_waiting(now);
        for uid in attempts.keys() {
            findings.push(format!("there is a record of an attempt of job {uid}, and no such job"));
        }
    }
}

impl State {
    /// What ended jobs used and how long they ran, in the order of their ends. Nothing else is stored of that: what a
    /// tenant used by jobs whose records it has deleted counts until the controller starts again, and not after; so does
    /// what a job used by tries before its last one.
    fn remember_ended(&mut self) {
        let (jobs, queue_state) = (&self.base.jobs, &mut self.index.queue_state);
        let mut ended: Vec<(Timestamp, &JobEntry)> =
            jobs.values().filter_map(|entry| Some((entry.job.status.ended?, entry))).collect();
        ended.sort_by_key(|(at, entry)| (*at, entry.job.uid));
        for past in ended.into_iter().filter_map(|(_, entry)| past_of(entry)) {
            queue_state.remember(&past);
        }
    }

    /// Waiting jobs that wait for something else than room, as a submit would find them.
    fn hold_back_waiting(&mut self, now: Timestamp) {
        let conditional = |entry: &&JobEntry| {
            let (spec, status) = (&entry.job.spec, &entry.job.status);
            let turn = spec.array.as_ref().is_some_and(|array| array.at_once > 0);
            let asks = spec.begin.is_some() || !spec.after.is_empty();
            let waits = turn || (asks && status.attempt <= 1) || !status.holds.is_empty();
            waits && status.phase == Phase::Pending
        };
        let uids: Vec<JobUid> =
            self.base.jobs.values().filter(conditional).map(|entry| entry.job.uid).collect();
        for uid in &uids {
            if let Some(entry) = self.base.jobs.get(uid).cloned() {
                self.swap_job(*uid, Some(JobEntry { held: true, ..entry }));
            }
        }
        for uid in uids {
            let Some(entry) = self.base.jobs.get(&uid).cloned() else { continue };
            let hold = self.hold(&entry.job, now);
            let due = match entry.job.status.attempt {
                0 | 1 if hold.never.is_empty() => hold.until,
                0 | 1 => Some(now),
                // The back-off of a job that is queued again.
                _ => entry.due,
            };
            let held = !hold.reasons.is_empty() || !hold.never.is_empty();
            self.swap_job(uid, Some(JobEntry { held, due, ..entry }));
        }
    }
}

fn past_of(entry: &JobEntry) -> Option<Past> {
    let (job, status) = (&entry.job, &entry.job.status);
    let (started, ended) = (status.started?, status.ended?);
    let placement = status.placement.as_ref()?;
    let places = placement.nodes.iter().chain(&placement.spares);
    Some(Past {
        uid: job.uid,
        id: job.id.clone(),
        queue: job.spec.queue.clone(),
        gpus: places.map(|place| place.gpus.len() as u64).sum(),
        nodes: u32::try_from(placement.nodes.len()).unwrap_or(u32::MAX),
        priority: job.spec.priority,
        submitted: status.submitted,
        started,
        ended,
        estimate: job.spec.expected.or(job.spec.time_limit),
        whole: status.phase == Phase::Completed,
    })
}

fn due_at_start(job: &Job, attempt: Option<&Attempt>, config: &Config, now: Timestamp) -> Option<Timestamp> {
    if attempt.is_some_and(|attempt| attempt.ending.is_some()) {
        return None;
    }
    match (job.status.phase, job.status.started) {
        (Phase::Pending, _) if job.status.attempt > 1 => Some(now.plus(config.requeue_backoff)),
        (Phase::Reserved | Phase::Preparing, _) => Some(now.plus(config.prepare_timeout)),
        (Phase::Running, None) => Some(now.plus(config.start_timeout)),
        (Phase::Running, Some(started)) => job.spec.ends_at(started),
        _ => None,
    }
}
