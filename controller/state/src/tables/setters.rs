//! The setters of all tables: each keeps the indices true, and the journaled ones note how to undo themselves.

use std::{collections::BTreeSet, sync::Arc};

use proto_model::{
    Fabric, JobUid, NodeName, QosRollout, RequestId, SwitchName, SwitchRollout, TenantName, Timestamp,
};

use crate::{
    index::all::Due,
    rows::{
        job::{JobEntry, NodeView, Schedule, Tally},
        node::Link,
        proving::Proving,
        rollout::{NicKey, Run},
        schedules::{ScheduleEntry, ScheduleKey},
    },
    tables::{
        state::{Own, State},
        table::swap,
    },
};

impl State {
    /// Puts the fabric document into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_fabric(&mut self, new: Option<Arc<Fabric>>) {
        let old = self.swap_fabric(new);
        self.note(Own::Fabric(old));
    }

    /// Puts the rollout into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_qos(&mut self, new: Option<Arc<QosRollout>>) {
        let old = std::mem::replace(&mut self.base.qos, new);
        self.note(Own::Qos(old));
    }

    /// What of the rollout is under way, and when it is looked at again; the journal can undo it.
    pub fn set_qos_run(&mut self, run: Run<NicKey>, check: Option<Timestamp>) {
        if (&self.base.qos_run, self.base.qos_check) != (&run, check) {
            let old = (self.swap_qos_run(run), self.base.qos_check);
            self.base.qos_check = check;
            self.note(Own::QosRun(Box::new(old)));
        }
    }

    /// Puts the rollout to switches into its table; the journal can undo it.
    pub fn set_switch_rollout(&mut self, new: Option<Arc<SwitchRollout>>) {
        let old = std::mem::replace(&mut self.base.switch_rollout, new);
        self.note(Own::SwitchRollout(old));
    }

    /// What of the rollout to switches is under way, and when it is looked at again; the journal can undo it.
    pub fn set_switch_run(&mut self, run: Run<SwitchName>, check: Option<Timestamp>) {
        if (&self.base.switch_run, self.base.switch_check) != (&run, check) {
            let old = (self.swap_switch_run(run), self.base.switch_check);
            self.base.switch_check = check;
            self.note(Own::SwitchRun(Box::new(old)));
        }
    }

    /// What switches are to have may be another configuration now: it has another number; the journal can undo it.
    pub fn renumber_switch_plans(&mut self) {
        let old = self.base.switch_plans;
        self.base.switch_plans = old.saturating_add(1);
        self.note(Own::SwitchPlans(old));
    }

    /// The switches that are out of use for a rollout. Where that changes, any server's rails may be others.
    pub(crate) fn swap_switch_run(&mut self, run: Run<SwitchName>) -> Run<SwitchName> {
        let old = std::mem::replace(&mut self.base.switch_run, run);
        if !old.units.keys().eq(self.base.switch_run.units.keys()) {
            let nodes: Vec<NodeName> = self.base.nodes.keys().cloned().collect();
            nodes.iter().for_each(|node| self.index_drained(node));
        }
        old
    }

    /// Which rails are being proved, and when they are looked at again; the journal can undo it.
    pub fn set_proving(&mut self, proving: Proving, check: Option<Timestamp>) {
        if (&self.base.proving, self.base.prove_check) != (&proving, check) {
            let old = (std::mem::replace(&mut self.base.proving, proving), self.base.prove_check);
            self.base.prove_check = check;
            self.note(Own::Proving(Box::new(old)));
        }
    }

    /// Puts a job into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_job(&mut self, uid: JobUid, new: Option<JobEntry>) {
        if self.index.queue_state.is_predicted(uid) {
            // When it starts something is learned of it.
            self.note_marks();
        }
        let old = self.swap_job(uid, new);
        self.note(Own::Job(uid, old.map(Box::new)));
    }

    /// Puts a connection into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_link(&mut self, name: &NodeName, new: Option<Link>) {
        let old = self.swap_link(name, new);
        self.note(Own::Link(name.clone(), old));
    }

    /// Puts what a node of a gang has reported into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_view(&mut self, key: (JobUid, u32), new: Option<NodeView>) {
        let old = self.swap_view(key, new);
        self.note(Own::View(key, old.map(Box::new)));
    }

    /// How far the queue was looked at; the journal can undo it.
    pub fn set_schedule(&mut self, new: Schedule) {
        if self.base.schedule != new {
            let old = std::mem::replace(&mut self.base.schedule, new);
            self.note(Own::Schedule(Box::new(old)));
        }
    }

    pub(crate) fn swap_fabric(&mut self, new: Option<Arc<Fabric>>) -> Option<Arc<Fabric>> {
        let rails = self.index.snapshot.topology().rails();
        self.index.snapshot.set_fabric(new.as_deref());
        if !self.base.drains.is_empty() {
            self.index_all_drained();
        }
        self.cluster_changed(rails);
        for entry in self.base.jobs.values() {
            let status = &entry.job.status;
            if let Some(placement) = status.placement.as_ref().filter(|_| status.phase.holds()) {
                self.index.snapshot.share(placement, true);
            }
        }
        std::mem::replace(&mut self.base.fabric, new)
    }

    /// The ports that are out of use for a rollout of class of service.
    pub fn swap_qos_run(&mut self, run: Run<NicKey>) -> Run<NicKey> {
        let nodes = |run: &Run<NicKey>| {
            run.units.keys().map(|(node, _)| node.clone()).collect::<BTreeSet<NodeName>>()
        };
        let old = std::mem::replace(&mut self.base.qos_run, run);
        if old.units != self.base.qos_run.units {
            let mut changed = nodes(&old);
            changed.extend(nodes(&self.base.qos_run));
            changed.iter().for_each(|node| self.index_drained(node));
        }
        old
    }

    /// Some request ids of one tenant that is no more.
    pub fn requests_of_removed_tenant(&self, limit: usize) -> Vec<(TenantName, RequestId)> {
        let gone = |tenant: &&TenantName| !self.base.tenants.contains_key(*tenant);
        let Some(tenant) = self.index.request_counts.keys().find(gone) else { return Vec::new() };
        // No printable character is before this one.
        let Some(first) = RequestId::new("!") else { return Vec::new() };
        let from = self.base.requests.range((tenant.clone(), first)..).map(|(key, _)| key);
        from.take_while(|(owner, _)| owner == tenant).take(limit).cloned().collect()
    }

    pub(crate) fn swap_link(&mut self, name: &NodeName, new: Option<Link>) -> Option<Link> {
        let due = |link: &Option<Link>| link.as_ref().and_then(|link| link.due);
        // What the gate is made of.
        let open =
            |link: &Option<Link>| link.as_ref().map(|link| (link.session.is_some(), link.foreign.is_empty()));
        let (due_then, open_then) = (due(&new), open(&new));
        let old = swap(&mut self.base.links, name, new);
        if due(&old) != due_then {
            self.swap_due(&Due::Node(name.clone()), due(&old), due_then);
        }
        if open(&old) != open_then {
            let gate = self.gate(name);
            self.index.snapshot.set_gate(name, gate);
        }
        old
    }

    pub(crate) fn swap_view(&mut self, key: (JobUid, u32), new: Option<NodeView>) -> Option<NodeView> {
        let tally = |view: Option<&NodeView>| view.map_or(Tally::default(), NodeView::tally);
        let after = tally(new.as_ref());
        let old = swap(&mut self.base.views, &key, new);
        let before = tally(old.as_ref());
        if let Some(entry) = self.base.jobs.get_mut(&key.0) {
            let change = |count: u32, pick: fn(&Tally) -> u32| count + pick(&after) - pick(&before);
            entry.tally = Tally {
                prepared: change(entry.tally.prepared, |tally| tally.prepared),
                started: change(entry.tally.started, |tally| tally.started),
                finished: change(entry.tally.finished, |tally| tally.finished),
                ended: change(entry.tally.ended, |tally| tally.ended),
            };
        }
        old
    }

    pub(crate) fn swap_due(
        &mut self,
        what: &Due,
        old: Option<proto_model::Timestamp>,
        new: Option<proto_model::Timestamp>,
    ) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.index.due.remove(&(old, what.clone()));
        }
        if let Some(new) = new {
            self.index.due.insert((new, what.clone()));
        }
    }

    /// Puts a schedule into its table, or takes it out; the journal can undo it.
    pub fn set_job_schedule(&mut self, key: ScheduleKey, new: Option<ScheduleEntry>) {
        let old = self.swap_job_schedule(key.clone(), new);
        self.note(Own::JobSchedule(key, old.map(Box::new)));
    }

    pub(crate) fn swap_job_schedule(
        &mut self,
        key: ScheduleKey,
        new: Option<ScheduleEntry>,
    ) -> Option<ScheduleEntry> {
        let due = new.as_ref().and_then(|entry| entry.due);
        let what = Due::Schedule(key.0.clone(), key.1.clone());
        let old = match new {
            Some(new) => self.base.schedules.insert(key, new),
            None => self.base.schedules.remove(&key),
        };
        self.swap_due(&what, old.as_ref().and_then(|entry| entry.due), due);
        old
    }

    /// What the policy remembers may change now.
    pub fn note_marks(&mut self) {
        let marks = self.index.queue_state.marks();
        self.note(Own::Marks(Box::new(marks)));
    }
}
