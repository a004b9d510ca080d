//! The invariants, looked at when something that they speak of changes.

use std::{collections::BTreeSet, sync::Arc};

use controller_core::{CoreError, Event as Core, Key, Push, Reply, State, ToNode, Transition, Write};
use node_agent_core::Key as Try;
use proto_model::{
    Assignment, DesiredState, Job, JobId, JobUid, Measured, NodeName, Observed, Phase, PortGid, ReasonCode,
    Replace, TenantName,
};

use crate::{client::Want, etcd::Body, furnish::FEW_JOBS, world::World};

use super::job;

/// Nothing fails by itself any more so many milliseconds after the last fault: deadlines that it missed have passed.
const AFTERMATH_MS: u64 = 120_000;
/// Causes that only a fault can bring.
const FAULTS: [ReasonCode; 11] = [
    ReasonCode::NodeClaimRefused,
    ReasonCode::UnknownCause,
    ReasonCode::PrepareTimeout,
    ReasonCode::StartTimeout,
    ReasonCode::AttemptLost,
    ReasonCode::AttemptUnknown,
    ReasonCode::EngineLost,
    ReasonCode::PeerLost,
    ReasonCode::EngineFailed,
    ReasonCode::EndedEarly,
    ReasonCode::SupervisorLost,
];

/// Causes of an attempt that is stopped because somebody asks for that.
const ON_REQUEST: [ReasonCode; 2] = [ReasonCode::SuspendRequested, ReasonCode::RequeueRequested];

/// Whether a job does without a node's word: it lets nodes be replaced, and says that this one is lost or is on others.
fn gives_up(job: &Job, node: &NodeName) -> bool {
    let (status, scope) = (&job.status, format!("node/{node}"));
    let lost =
        status.reasons.iter().any(|reason| reason.code == ReasonCode::NodeLost && reason.scope == scope);
    let placement = status.placement.as_ref().filter(|_| status.phase.holds());
    let elsewhere =
        placement.is_some_and(|placement| placement.nodes.iter().all(|place| place.node != *node));
    job.spec.failure.replace != Replace::Never && (lost || elsewhere)
}

/// Whether an attempt has begun that had not before, of a job that somebody held before and still holds.
fn starts_held(old: &Job, new: &Job) -> bool {
    let before = old.status.phase.holds() && old.status.attempt == new.status.attempt;
    let held = old.status.holds.iter().any(|hold| new.status.holds.contains(hold));
    old.uid == new.uid && new.status.phase.holds() && !before && held
}

/// Whether a job that is stopped on request has paid for that with a restart.
fn pays_for_stop(old: &Job, new: &Job) -> bool {
    let (before, after) = (&old.status, &new.status);
    let stopped = after.reasons.first().is_some_and(|cause| ON_REQUEST.contains(&cause.code));
    let next = old.uid == new.uid && after.phase == Phase::Pending && after.attempt == before.attempt + 1;
    next && stopped && (after.restarts, after.preempted) != (before.restarts, before.preempted)
}

/// Whether a job holds what it held.
fn stays(old: &Job, new: Option<&Job>) -> bool {
    let place =
        |job: &Job| job.status.placement.as_ref().filter(|_| job.status.phase.holds()).map(Arc::as_ptr);
    new.is_some_and(|new| old.uid == new.uid && place(old).is_some() && place(old) == place(new))
}

fn assignments(message: &ToNode) -> &[Assignment] {
    match message {
        ToNode::Assignment(assignment) => std::slice::from_ref(&**assignment),
        ToNode::Welcome { assignments, .. } => assignments,
        _ => &[],
    }
}

fn holdings(job: &Job) -> impl Iterator<Item = (NodeName, bool, u32)> {
    let placement = job.status.placement.iter().filter(|_| job.status.phase.holds());
    let places = placement.flat_map(|placement| placement.nodes.iter().chain(&placement.spares));
    places.flat_map(|place| {
        let gpus = place.gpus.iter().map(|gpu| (place.node.clone(), false, *gpu));
        let rails = place.nics.iter().map(|nic| (place.node.clone(), true, nic.rail));
        gpus.chain(rails)
    })
}

impl World {
    /// A transaction was done: compares what was with what is. `replaced` are the jobs that were there before, by the place
    /// of their write in the transaction.
    pub fn check_commit(&mut self, body: &Body, replaced: &[(usize, Option<Write>)]) {
        if !self.etcd.leads(body.epoch) {
            let now = self.etcd.leader.map_or(0, |leader| leader.created);
            self.violated(format!("epoch {} wrote while the leader key is of epoch {now}", body.epoch));
        }
        for (_, write) in &body.writes {
            self.check_blame(write);
            match write {
                Write::PutAttempt(attempt) => {
                    let key = (attempt.uid, attempt.attempt);
                    self.checks.attempts.insert(key);
                    let cause = attempt.ending.as_ref().and_then(|ending| ending.causes.first());
                    let rail = cause.is_some_and(|cause| cause.code == ReasonCode::RailLost);
                    self.report.rails_lost += u64::from(rail && self.checks.without_rail.insert(key));
                    let asked = cause.is_some_and(|cause| ON_REQUEST.contains(&cause.code));
                    self.report.stopped += u64::from(asked && self.checks.on_request.insert(key));
                }
                Write::DeleteAttempt(uid) => drop(self.checks.ended.insert(*uid)),
                _ => {}
            }
        }
        // One transaction may take a job through several attempts.
        for step in &body.transitions {
            let key = (step.uid, step.attempt);
            match step.to {
                Phase::Reserved => drop(self.checks.attempts.insert(key)),
                Phase::Running => drop(self.checks.ran.insert(key)),
                _ => {}
            }
        }
        self.check_audit(body, replaced);
        self.check_usage(body, replaced);
        for (at, old) in replaced {
            if let Some(old) = job(old.as_ref())
                && !stays(old, job(Some(&body.writes[*at].1)))
            {
                self.give_back(old);
            }
        }
        for (at, old) in replaced {
            let ((key, write), old) = (&body.writes[*at], job(old.as_ref()));
            let Key::Job(id) = key else { continue };
            match job(Some(write)) {
                Some(new) => {
                    self.check_job(old, new, &body.transitions);
                    self.check_calm(old, new);
                    let held = old.is_some_and(|old| {
                        old.uid == new.uid
                            && old.status.phase.holds()
                            && old.status.attempt == new.status.attempt
                    });
                    // What was placed before the quota was lowered in the same transaction was placed rightly.
                    let tenant = Key::Tenant(new.id.tenant.clone());
                    let lowered = body.writes.iter().any(|(key, _)| *key == tenant);
                    if !old.is_some_and(|old| stays(old, Some(new))) {
                        self.take(new);
                    }
                    self.check_holding(new, !held && !lowered);
                }
                None => self.check_deleted(id, old, &body.transitions),
            }
        }
    }

    fn give_back(&mut self, old: &Job) {
        for held in holdings(old) {
            let gpu = !held.1;
            if self.checks.held.get(&held) == Some(&old.uid) {
                self.checks.held.remove(&held);
            }
            if gpu && let Some(used) = self.checks.used.get_mut(&old.id.tenant) {
                *used = used.saturating_sub(1);
            }
        }
    }

    fn take(&mut self, new: &Job) {
        for held in holdings(new) {
            if !held.1 {
                *self.checks.used.entry(new.id.tenant.clone()).or_default() += 1;
            }
            self.check_tenants(new, &held.0);
            if let Some(other) = self.checks.held.insert(held.clone(), new.uid)
                && other != new.uid
            {
                self.violated(format!("{held:?} is held by job {other} and by job {}", new.uid));
            }
        }
    }

    /// Two tenants are never on a server that cannot keep them apart.
    fn check_tenants(&mut self, new: &Job, node: &NodeName) {
        if !self.nodes.iter().any(|server| server.name == *node && server.apart) {
            return;
        }
        let here = (node.clone(), false, 0)..=(node.clone(), true, u32::MAX);
        let owners = self.checks.held.range(here).filter_map(|(_, uid)| self.checks.ids.get(uid));
        if let Some(other) = owners.map(|id| id.tenant.clone()).find(|tenant| *tenant != new.id.tenant) {
            self.violated(format!("job {} is placed on {node} beside a job of tenant {other}", new.id));
        }
    }

    /// What is stored of a job agrees with what it holds.
    fn check_holding(&mut self, new: &Job, fresh: bool) {
        let used = self.checks.used.get(&new.id.tenant).copied().unwrap_or(0);
        let quota = self.stored_quota(&new.id.tenant);
        if fresh && new.status.phase.holds() && used > quota {
            self.violated(format!("tenant {} holds {used} of {quota} GPUs", new.id.tenant));
        }
        if fresh && new.status.phase.holds() && new.spec.service_class.is_some() {
            let alike = |job: &&Job| {
                job.status.phase.holds()
                    && job.id.tenant == new.id.tenant
                    && job.spec.service_class == new.spec.service_class
            };
            let running = self.etcd.jobs().filter(alike).count();
            if running > FEW_JOBS as usize {
                self.violated(format!("{running} jobs of a service class hold places beside {}", new.id));
            }
        }
        let status = &new.status;
        if status.phase.holds() {
            let placed = status.placement.as_ref().map_or(0, |placement| placement.nodes.len());
            let gang = new.spec.gang;
            if placed > gang.nodes as usize || placed < gang.min_nodes as usize {
                self.violated(format!("job {} holds {placed} nodes of a gang of {gang:?}", new.id));
            }
            if self.etcd.attempt(new.uid).is_none() {
                self.violated(format!("job {} is placed without a record of its attempt", new.id));
            }
        }
        if let Some(reason) = status.reasons.iter().find(|reason| reason.code == ReasonCode::PlacementRefused)
        {
            self.violated(format!("job {}: {reason}", new.id));
        }
        // One transaction may take a job to Running and on to Recovering: that it ran is stored all the same.
        let key = (new.uid, status.attempt);
        let runs =
            matches!(status.phase, Phase::Running | Phase::Recovering) && self.checks.ran.contains(&key);
        if (runs || status.phase == Phase::Running) && self.checks.running.insert(key) {
            self.check_prepared(new);
        }
    }

    /// A job becomes Running: every node of the gang must have its engine up.
    fn check_prepared(&mut self, new: &Job) {
        let key = Try { uid: new.uid, attempt: new.status.attempt };
        let placement = new.status.placement.as_ref();
        for place in placement.iter().flat_map(|placement| &placement.nodes) {
            let server = self.nodes.iter().find(|node| node.name == place.node);
            let seen = server
                .and_then(|server| server.supervised.get(&key))
                .map(|supervised| supervised.durable.state);
            // A server whose disk was lost meanwhile has nothing to show; it will say so when it is asked to start.
            if seen.is_some_and(|state| state < Observed::Prepared) {
                self.violated(format!("job {} runs, {} is only {seen:?}", new.id, place.node));
            }
        }
    }

    /// Long after the last fault an attempt fails by something that only a fault brings.
    fn check_calm(&mut self, old: Option<&Job>, new: &Job) {
        if !self.calm || self.now < self.checks.calm_since + AFTERMATH_MS {
            return;
        }
        let fresh = |code: &ReasonCode| {
            let has = |job: &Job| job.status.reasons.iter().any(|reason| reason.code == *code);
            has(new) && !old.is_some_and(has)
        };
        if let Some(code) = FAULTS.iter().find(|code| fresh(code)) {
            self.violated(format!("job {} fails by {code}, and nothing was wrong any more", new.id));
        }
    }

    fn check_job(&mut self, old: Option<&Job>, new: &Job, transitions: &[Transition]) {
        let (id, uid) = (&new.id, new.uid);
        if let Some(known) = self.checks.acked.get(id)
            && *known != uid
            && !self.checks.deleting.contains(id)
        {
            self.violated(format!("job {id} was {known} when it was acknowledged and is {uid} now"));
        }
        if !new.status.holds.is_empty() && new.status.phase.is_terminal() {
            self.violated(format!("job {id} is {}, and it is held", new.status.phase));
        }
        if old.is_some_and(|old| starts_held(old, new)) {
            self.violated(format!("attempt {} of job {id} has begun, and it is held", new.status.attempt));
        }
        if old.is_some_and(|old| pays_for_stop(old, new)) {
            self.violated(format!("job {id} was stopped on request, and that counts as a failure"));
        }
        let suspended = new.status.holds.iter().any(|hold| hold.suspended);
        let ends = |stored: &controller_core::Attempt| stored.ending.is_some();
        if suspended && self.etcd.attempt(uid).is_some_and(|stored| !ends(stored)) {
            self.violated(format!("attempt {} of job {id} goes on, and it is suspended", new.status.attempt));
        }
        self.checks.ids.insert(uid, id.clone());
        let (mut phase, mut attempt) = old
            .filter(|old| old.uid == uid)
            .map_or((Phase::Pending, 1), |old| (old.status.phase, old.status.attempt));
        for step in transitions.iter().filter(|step| step.uid == uid) {
            if step.from != phase || !phase.may_become(step.to) || step.attempt < attempt {
                self.violated(format!("job {id} goes from {phase}.{attempt} by {step:?}"));
            }
            (phase, attempt) = (step.to, step.attempt);
        }
        if (phase, attempt) != (new.status.phase, new.status.attempt) {
            let status = &new.status;
            self.violated(format!(
                "job {id} is stored as {}.{}, it went to {phase}.{attempt}",
                status.phase, status.attempt
            ));
        }
        if let Some(old) = old.filter(|old| old.uid == uid && old.status.phase.holds()) {
            let status = &new.status;
            if !status.phase.holds() || status.attempt != old.status.attempt {
                self.report.restarts += u64::from(status.phase == Phase::Pending);
                self.check_freed(old, Some(new));
            }
        }
    }

    /// What a job held is free for others: nothing of its attempt may live.
    fn check_freed(&mut self, old: &Job, new: Option<&Job>) {
        let key = Try { uid: old.uid, attempt: old.status.attempt };
        for place in old.status.placement.iter().flat_map(|placement| &placement.nodes) {
            if new.is_some_and(|new| gives_up(new, &place.node)) {
                self.checks.given_up.insert((key, place.node.clone()));
                continue;
            }
            let server = self.nodes.iter().find(|node| node.name == place.node);
            if server
                .and_then(|server| server.supervised.get(&key))
                .is_some_and(|supervised| supervised.uses())
            {
                self.violated(format!("job {} is freed while attempt {key} lives on {}", old.id, place.node));
            }
        }
    }

    fn check_deleted(&mut self, id: &JobId, old: Option<&Job>, transitions: &[Transition]) {
        if !self.checks.deleting.contains(id) {
            self.violated(format!("job {id} is removed, and nobody asked for that"));
        }
        let Some(old) = old else { return };
        // It may have ended earlier in the same transaction.
        let last =
            transitions.iter().rfind(|step| step.uid == old.uid).map_or(old.status.phase, |step| step.to);
        if !last.is_terminal() {
            self.violated(format!("job {id} is removed while it is {last}"));
        }
        if old.status.phase.holds() {
            self.check_freed(old, None);
        }
    }

    fn stored_quota(&self, tenant: &TenantName) -> u64 {
        match self.etcd.rows.get(&Key::Tenant(tenant.clone())) {
            Some((Write::PutTenant(tenant), _)) => u64::from(tenant.quota.gpus),
            _ => 0,
        }
    }

    /// A new leader has read the store. One that was replaced already may not know everything.
    pub fn check_loaded(&mut self, controller: usize, state: &State) {
        if !self.etcd.leads(self.controllers[controller].epoch) {
            return;
        }
        let lost: Vec<JobId> = self
            .checks
            .acked
            .iter()
            .filter(|(id, uid)| state.job_by_uid(uid).is_none() && !self.checks.deleting.contains(*id))
            .map(|(id, _)| id.clone())
            .collect();
        for id in lost {
            self.violated(format!("job {id} was acknowledged and is lost"));
        }
    }

    /// A client got the answer that its job exists.
    pub fn acknowledged(&mut self, client: usize, uid: JobUid) {
        let id = self.clients[client].id.clone();
        if let Some(before) = self.clients[client].uid.replace(uid)
            && before != uid
        {
            self.violated(format!("one request made two jobs of {id}: {before} and {uid}"));
        }
        if self.checks.acked.insert(id.clone(), uid).is_none() {
            self.report.acknowledged += 1;
        }
        let stored = self.etcd.job(&id).is_some_and(|job| job.uid == uid);
        if !stored && !self.checks.deleting.contains(&id) {
            self.violated(format!("job {id} was acknowledged and is not stored"));
        }
    }

    /// A controller answers: what it says must be stored.
    pub fn check_answer(
        &mut self,
        controller: usize,
        client: usize,
        want: &Want,
        reply: &Result<Reply, CoreError>,
    ) {
        let id = self.clients[client].id.clone();
        let job = self.etcd.job(&id);
        let wrong = match (want, reply) {
            (Want::Submit(_), Ok(Reply::Job { job: reported, .. })) => {
                job.is_none_or(|job| job.uid != reported.uid) && !self.checks.deleting.contains(&id)
            }
            (Want::Cancel, Ok(_)) => job.is_some_and(|job| {
                let ending = self.etcd.attempt(job.uid).is_some_and(|attempt| attempt.ending.is_some());
                !job.status.phase.is_terminal() && !ending
            }),
            (Want::Delete, Ok(_)) => job.is_some(),
            // Until it is released; copies of the request that come later change nothing.
            (Want::Change(event), Ok(_)) if matches!(**event, Core::SuspendJob { .. }) => {
                let present = self.clients[client].wants.front() == Some(want);
                let suspended = |job: &&Job| job.status.holds.iter().any(|hold| hold.suspended);
                present && job.is_some_and(|job| !job.status.phase.is_terminal() && !suspended(&job))
            }
            // Nobody else holds it, and late copies of the hold come to nothing.
            (Want::Change(event), Ok(_)) if matches!(**event, Core::ReleaseJob(_)) => {
                job.is_some_and(|job| !job.status.holds.is_empty())
            }
            // A late answer to a repeated request: the administrator has asked for something else since, perhaps for the opposite.
            (Want::Admin(_), _) if self.clients[client].wants.front() != Some(want) => false,
            (Want::Admin(event), Ok(_)) => match &**event {
                Core::ApplyTenant { name, quota, .. } => self.stored_quota(name) != u64::from(quota.gpus),
                Core::DrainRail { .. } => !self.etcd.rows.keys().any(|key| matches!(key, Key::Drain(_))),
                _ => false,
            },
            _ => false,
        };
        // What one that was replaced meanwhile has said truly may be otherwise by now.
        if wrong && self.etcd.leads(self.controllers[controller].epoch) {
            self.violated(format!("{} is acknowledged and not stored", want.words(&id)));
        }
    }

    /// A controller that leads sends an agent something: it must be stored.
    pub fn check_push(&mut self, push: &Push) {
        for assignment in assignments(&push.message) {
            let starts = !matches!(assignment.desired, DesiredState::Stopped { .. });
            // What begins and ends in one transaction is sent in order: to start, then to forget.
            let key = (assignment.uid, assignment.attempt);
            let known = self.checks.attempts.contains(&key) || self.checks.ended.contains(&key.0);
            if starts && !known {
                let (node, uid, attempt) = (&push.node, assignment.uid, assignment.attempt);
                self.violated(format!("{node} is told to start {uid}.{attempt}, which was never stored"));
            }
        }
    }

    /// An agent gets a message: to run only what has become Running, for then every node was ready.
    pub fn check_reported(&mut self, push: &Push) {
        for assignment in assignments(&push.message) {
            let (uid, attempt) = (assignment.uid, assignment.attempt);
            let runs = matches!(assignment.desired, DesiredState::Running { .. });
            if runs && !self.checks.ran.contains(&(uid, attempt)) {
                self.violated(format!("{} is told to run {uid}.{attempt}, which is not Running", push.node));
            }
        }
    }

    /// An agent follows a command of an epoch.
    pub fn check_applied(&mut self, node: usize, epoch: u64) {
        let applied = self.nodes[node].applied;
        if epoch < applied {
            self.violated(format!("n{node} obeys epoch {epoch} after epoch {applied}"));
        }
        self.nodes[node].applied = applied.max(epoch);
    }

    /// A client got the answer that its job does not exist.
    pub fn check_gone(&mut self, client: usize) {
        let id = self.clients[client].id.clone();
        if self.clients[client].uid.is_some() && !self.checks.deleting.contains(&id) {
            self.violated(format!(
                "job {id} was acknowledged, and its client is told that there is no such job"
            ));
        }
    }

    fn stored_try(&self, key: Try) -> Option<&Job> {
        let job = self.etcd.job(self.checks.ids.get(&key.uid)?)?;
        (job.uid == key.uid && job.status.attempt == key.attempt && job.status.phase.holds()).then_some(job)
    }

    /// A process of an attempt starts on a node: the attempt must hold what the process uses, and nobody else may use it.
    pub fn check_use(&mut self, node: usize, key: Try) {
        let given_up = self.checks.given_up.contains(&(key, self.nodes[node].name.clone()));
        if self.stored_try(key).is_none() && !given_up {
            self.violated(format!("n{node} starts {key}, which holds nothing (any more)"));
        }
        let server = &self.nodes[node];
        let Some(this) = server.supervised.get(&key) else { return };
        let rails: BTreeSet<u32> = this.place.nics.iter().map(|nic| nic.rail).collect();
        let other = server.supervised.iter().find(|(other, supervised)| {
            **other != key
                && supervised.uses()
                && (supervised.place.gpus.iter().any(|gpu| this.place.gpus.contains(gpu))
                    || supervised.place.nics.iter().any(|nic| rails.contains(&nic.rail)))
        });
        if let Some(other) = other.map(|(other, _)| *other) {
            self.violated(format!("n{node}: {key} and {other} use the same GPU or NIC"));
        }
    }

    /// Ranks of an attempt start on a node: that it runs must be stored, which is only so when every node was prepared.
    pub fn check_start(&mut self, node: usize, key: Try) {
        if !self.checks.running.contains(&(key.uid, key.attempt)) {
            self.violated(format!("n{node} starts ranks of {key}, which was never stored as Running"));
        }
    }

    /// The same: every node of the gang has measured, none of them has found its own port unfit, and each rail is one rail.
    pub fn check_certified(&mut self, node: usize, key: Try) {
        let Some(this) = self.nodes[node].supervised.get(&key) else { return };
        if !self.config.certifies() || this.gang().len() < 2 || this.place.nics.is_empty() {
            return;
        }
        let names: Vec<&NodeName> = this.gang().iter().map(|place| &place.node).collect();
        let gang = self.nodes.iter().filter(|server| names.contains(&&server.name));
        let mut measured = gang.filter_map(|server| server.supervised.get(&key)).map(|peer| peer.measured());
        let fit = |measured: Option<&Measured>| {
            measured
                .is_some_and(|reported| reported.ports.iter().all(|port| port.gid != Some(PortGid::Missing)))
        };
        if !measured.all(fit) {
            self.violated(format!("n{node} starts ranks of {key}, whose gang is not certified"));
            return;
        }
        let rails: Vec<u32> = this.place.nics.iter().map(|nic| nic.rail).collect();
        if !self.is_straight(this.gang(), &rails) {
            self.violated(format!("n{node} starts ranks of {key}, whose gang's cables are swapped"));
        }
    }

    fn is_ending(&self, key: Try) -> bool {
        self.etcd.attempt(key.uid).is_some_and(|attempt| attempt.ending.is_some())
    }

    /// An agent ends an attempt: the controller must have decided that.
    pub fn check_stop(&mut self, node: usize, key: Try) {
        if self.stored_try(key).is_some() && !self.is_ending(key) {
            self.violated(format!("n{node} ends {key}, which should run"));
        }
    }
}
