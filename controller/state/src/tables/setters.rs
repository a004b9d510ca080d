//! The setters of all tables: each keeps the indices true, and the journaled ones note how to undo themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_queue::{Entry, TenantDef};
use controller_scheduler::Gate;
use proto_model::{
    Drain, DrainTarget, Fabric, Health, Job, JobId, JobName, JobUid, Node, NodeName, Phase, QosRollout,
    QueueName, RequestId, ReservationName, ServiceClassName, Tenant, TenantName, Timestamp,
};

use crate::{
    index::{arrays::array_of, classes::count_class, figures::count_figures, runs::count_run},
    rows::{
        job::{JobEntry, NodeView, Schedule, Tally},
        node::{Link, taints},
        proving::Proving,
        records::{RequestRecord, RestingName, TokenRecord},
        rollout::Run,
        schedules::{ScheduleEntry, ScheduleKey},
        write::{Key, Write},
    },
    tables::{
        journal::Undo,
        state::{Due, State},
    },
};

/// Replaces a row, and says what it was.
fn swap<K: Ord + Clone, V>(table: &mut BTreeMap<K, V>, key: &K, new: Option<V>) -> Option<V> {
    match new {
        Some(new) => match table.get_mut(key) {
            Some(row) => Some(std::mem::replace(row, new)),
            None => table.insert(key.clone(), new),
        },
        None => table.remove(key),
    }
}

/// What the end of an attempt takes beside its grace.
const END_TAKES: Duration = Duration::from_secs(5);

fn is_same_to_queue(a: &JobEntry, b: &JobEntry) -> bool {
    let attempt = match (&a.attempt, &b.attempt) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    };
    attempt && Arc::ptr_eq(&a.job, &b.job) && (a.held, a.due, a.cap) == (b.held, b.due, b.cap)
}

/// Neighbours that are alike, each by the second one's name.
fn alike(entries: &[(JobEntry, u64)], are: impl Fn(&Job, &Job) -> bool) -> impl Iterator<Item = JobId> {
    entries.windows(2).filter_map(move |pair| match pair {
        [(one, _), (other, _)] if are(&one.job, &other.job) => Some(other.job.id.clone()),
        _ => None,
    })
}

/// Takes a job out of a set, and an empty set out of the map.
fn forget<K: Ord>(map: &mut BTreeMap<K, BTreeSet<JobUid>>, key: &K, uid: &JobUid) {
    if let Some(set) = map.get_mut(key) {
        set.remove(uid);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

/// Those that a job which was never tried waits for.
fn awaited(job: &Job) -> BTreeSet<JobId> {
    if job.status.phase != Phase::Pending || job.status.attempt > 1 {
        return BTreeSet::new();
    }
    let names = job.spec.after.iter().map(|dependency| dependency.job.clone());
    names.map(|name| JobId { tenant: job.id.tenant.clone(), name }).collect()
}

/// Whether two states of a node differ for the scheduler in their gates at most.
fn looks_alike(a: &Node, b: &Node) -> bool {
    let quarantined = a.quarantined.is_some() == b.quarantined.is_some();
    quarantined && (&a.inventory, &a.labels, &a.taints) == (&b.inventory, &b.labels, &b.taints)
}

impl State {
    /// Puts the fabric document into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_fabric(&mut self, new: Option<Arc<Fabric>>) {
        let old = self.swap_fabric(new);
        self.journal.undo.push(Undo::Fabric(old));
    }

    /// Puts a drain into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_drain(&mut self, target: DrainTarget, new: Option<Arc<Drain>>) {
        let old = self.swap_drain(target.clone(), new);
        self.journal.undo.push(Undo::Drain(target, old));
    }

    /// Puts the rollout into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_qos(&mut self, new: Option<Arc<QosRollout>>) {
        let old = std::mem::replace(&mut self.base.qos, new);
        self.journal.undo.push(Undo::Qos(old));
    }

    /// What of the rollout is under way, and when it is looked at again; the journal can undo it.
    pub fn set_qos_run(&mut self, run: Run, check: Option<Timestamp>) {
        if (&self.base.qos_run, self.base.qos_check) != (&run, check) {
            let old = (self.swap_qos_run(run), self.base.qos_check);
            self.base.qos_check = check;
            self.journal.undo.push(Undo::QosRun(Box::new(old)));
        }
    }

    /// Which rails are being proved, and when they are looked at again; the journal can undo it.
    pub fn set_proving(&mut self, proving: Proving, check: Option<Timestamp>) {
        if (&self.base.proving, self.base.prove_check) != (&proving, check) {
            let old = (std::mem::replace(&mut self.base.proving, proving), self.base.prove_check);
            self.base.prove_check = check;
            self.journal.undo.push(Undo::Proving(Box::new(old)));
        }
    }

    /// Puts a node into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_node(&mut self, name: &NodeName, new: Option<Arc<Node>>) {
        let old = self.swap_node(name, new);
        self.journal.undo.push(Undo::Node(name.clone(), old));
    }

    /// Puts a tenant into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_tenant(&mut self, name: &TenantName, new: Option<Arc<Tenant>>) {
        let old = self.swap_tenant(name, new);
        self.journal.undo.push(Undo::Tenant(name.clone(), old));
    }

    /// Puts the name of a deleted tenant into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_resting(&mut self, name: &TenantName, new: Option<Arc<RestingName>>) {
        let old = self.swap_resting(name, new);
        self.journal.undo.push(Undo::Resting(name.clone(), old));
    }

    pub(crate) fn swap_resting(
        &mut self,
        name: &TenantName,
        new: Option<Arc<RestingName>>,
    ) -> Option<Arc<RestingName>> {
        swap(&mut self.base.resting, name, new)
    }

    /// Puts a job into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_job(&mut self, uid: JobUid, new: Option<JobEntry>) {
        if self.index.queue_state.is_predicted(uid) {
            // When it starts something is learned of it.
            self.note_marks();
        }
        let old = self.swap_job(uid, new);
        self.journal.undo.push(Undo::Job(uid, old.map(Box::new)));
    }

    /// Puts a request id into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_request(&mut self, key: (TenantName, RequestId), new: Option<Arc<RequestRecord>>) {
        let old = self.swap_request(key.clone(), new);
        self.journal.undo.push(Undo::Request(key, old));
    }

    /// Puts a join token into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_token(&mut self, hash: [u8; 32], new: Option<Arc<TokenRecord>>) {
        let old = self.swap_token(hash, new);
        self.journal.undo.push(Undo::Token(hash, old));
    }

    /// Puts a connection into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_link(&mut self, name: &NodeName, new: Option<Link>) {
        let old = self.swap_link(name, new);
        self.journal.undo.push(Undo::Link(name.clone(), old));
    }

    /// Puts what a node of a gang has reported into its table, or takes it out; indices follow, and the journal can undo it.
    pub fn set_view(&mut self, key: (JobUid, u32), new: Option<NodeView>) {
        let old = self.swap_view(key, new);
        self.journal.undo.push(Undo::View(key, old.map(Box::new)));
    }

    /// How far the queue was looked at; the journal can undo it.
    pub fn set_schedule(&mut self, new: Schedule) {
        if self.base.schedule != new {
            let old = std::mem::replace(&mut self.base.schedule, new);
            self.journal.undo.push(Undo::Schedule(Box::new(old)));
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

    pub(crate) fn swap_drain(&mut self, target: DrainTarget, new: Option<Arc<Drain>>) -> Option<Arc<Drain>> {
        let old = swap(&mut self.base.drains, &target, new.clone());
        if old.is_some() != new.is_some() {
            match &target {
                DrainTarget::Port { node, .. } => self.index_drained(&node.clone()),
                DrainTarget::Rail(_) | DrainTarget::Leaf(_) => self.index_all_drained(),
            }
        }
        old
    }

    /// The ports that are out of use for a rollout of class of service.
    pub fn swap_qos_run(&mut self, run: Run) -> Run {
        let nodes =
            |run: &Run| run.ports.keys().map(|(node, _)| node.clone()).collect::<BTreeSet<NodeName>>();
        let old = std::mem::replace(&mut self.base.qos_run, run);
        if old.ports != self.base.qos_run.ports {
            let mut changed = nodes(&old);
            changed.extend(nodes(&self.base.qos_run));
            changed.iter().for_each(|node| self.index_drained(node));
        }
        old
    }

    fn index_all_drained(&mut self) {
        let nodes: Vec<NodeName> = self.base.nodes.keys().cloned().collect();
        nodes.iter().for_each(|node| self.index_drained(node));
    }

    /// Placing knows which rails of a node are drained.
    fn index_drained(&mut self, node: &NodeName) {
        let drained = self.ports_drained(node);
        if self.index.snapshot.drained(node) != drained {
            self.index.snapshot.set_drained(node, drained);
            self.index.queue_state.nodes_changed();
        }
    }

    pub(crate) fn swap_node(&mut self, name: &NodeName, new: Option<Arc<Node>>) -> Option<Arc<Node>> {
        let old = swap(&mut self.base.nodes, name, new.clone());
        self.index.claims.swap(name, old.as_ref(), new.as_ref());
        let gate = self.gate(name);
        let rails = self.index.snapshot.topology().rails();
        let moved = old.is_some() != new.is_some();
        match new {
            Some(node) if old.as_ref().is_some_and(|old| looks_alike(old, &node)) => {
                self.index.snapshot.set_gate(name, gate);
            }
            Some(node) => {
                self.index.snapshot.set_labelled(name, &node.inventory, gate, &node.labels, &taints(&node));
            }
            None => self.index.snapshot.remove_node(name),
        }
        self.index_drained(name);
        if moved || self.index.snapshot.topology().rails() != rails {
            self.cluster_changed(rails);
        }
        old
    }

    pub(crate) fn swap_tenant(&mut self, name: &TenantName, new: Option<Arc<Tenant>>) -> Option<Arc<Tenant>> {
        self.index.queue_state.set_tenant(name, new.as_deref().map(TenantDef::of));
        self.index.snapshot.set_quota(name, new.as_ref().map(|tenant| tenant.quota.gpus));
        let old = swap(&mut self.base.tenants, name, new);
        let isolation = self.isolation(name);
        if self.index.snapshot.tenant(name).isolation != isolation {
            self.index.snapshot.set_isolation(name, isolation);
            self.ask_anew(name);
        }
        old
    }

    /// What a tenant's jobs ask of a node is something else now.
    fn ask_anew(&mut self, tenant: &TenantName) {
        let own = self.base.jobs.values().filter(|entry| entry.job.id.tenant == *tenant);
        let entries: Vec<(JobUid, Arc<Entry>)> =
            own.filter_map(|entry| Some((entry.job.uid, self.queue_entry(entry)?))).collect();
        for (uid, entry) in entries {
            self.index.queue_state.set_job(uid, Some(entry));
        }
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

    pub(crate) fn swap_request(
        &mut self,
        key: (TenantName, RequestId),
        new: Option<Arc<RequestRecord>>,
    ) -> Option<Arc<RequestRecord>> {
        let at = |record: &RequestRecord| (record.time, key.0.clone(), key.1.clone());
        if let Some(record) = &new {
            self.index.request_times.insert(at(record));
        }
        if let Some(record) = self.base.requests.get(&key).filter(|_| new.is_none()) {
            self.index.request_times.remove(&at(record));
        }
        let (added, tenant) = (new.is_some(), key.0.clone());
        let old = swap(&mut self.base.requests, &key, new);
        let count = self.index.request_counts.entry(tenant.clone()).or_default();
        *count += usize::from(added);
        *count -= usize::from(old.is_some());
        if *count == 0 {
            self.index.request_counts.remove(&tenant);
        }
        old
    }

    pub(crate) fn swap_token(
        &mut self,
        hash: [u8; 32],
        new: Option<Arc<TokenRecord>>,
    ) -> Option<Arc<TokenRecord>> {
        let old = swap(&mut self.base.tokens, &hash, new.clone());
        if let Some(old) = &old {
            self.index.token_times.remove(&(old.expires, hash));
        }
        if let Some(new) = &new {
            self.index.token_times.insert((new.expires, hash));
        }
        old
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

    pub(crate) fn swap_job(&mut self, uid: JobUid, new: Option<JobEntry>) -> Option<JobEntry> {
        let old = self.base.jobs.remove(&uid);
        let due = |entry: &Option<JobEntry>| entry.as_ref().and_then(|entry| entry.due);
        self.swap_due(&Due::Job(uid), due(&old), due(&new));
        let same = |a: &JobEntry, b: &JobEntry| {
            let (one, other) = (&a.job.status, &b.job.status);
            let alike = one.phase == other.phase
                && one.attempt == other.attempt
                && one.started.is_some() == other.started.is_some()
                && one.holds.is_empty() == other.holds.is_empty()
                && Arc::ptr_eq(&a.job.spec, &b.job.spec)
                && a.job.labels == b.job.labels;
            a.held == b.held && (Arc::ptr_eq(&a.job, &b.job) || alike)
        };
        if !matches!((&old, &new), (Some(old), Some(new)) if same(old, new)) {
            if let Some(old) = &old {
                self.unindex(old);
            }
            if let Some(new) = &new {
                self.index(new);
            }
        }
        if !matches!((&old, &new), (Some(old), Some(new)) if is_same_to_queue(old, new)) {
            let entry = new.as_ref().and_then(|new| self.queue_entry(new));
            if entry.is_some() || old.is_some() {
                self.index.queue_state.set_job(uid, entry);
            }
        }
        if let Some(new) = new {
            self.base.jobs.insert(uid, new);
        }
        old
    }

    /// Takes in all jobs of a store at once: trees of millions are built from sorted rows, not key by key. The jobs whose name or uid is
    /// another's too are returned; then the state is of no use.
    pub fn load_entries(&mut self, mut entries: Vec<(JobEntry, u64)>) -> BTreeSet<JobId> {
        let id = |entry: &JobEntry| entry.job.id.clone();
        self.index.names = entries.iter().map(|(entry, _)| (id(entry), entry.job.uid)).collect();
        let mut versions: BTreeMap<Key, u64> =
            entries.iter().map(|(entry, version)| (Key::Job(id(entry)), *version)).collect();
        self.versions.append(&mut versions);
        for (entry, _) in &entries {
            self.swap_due(&Due::Job(entry.job.uid), None, entry.due);
            self.index_but_name(entry);
            if let Some(queued) = self.queue_entry(entry) {
                self.index.queue_state.set_job(entry.job.uid, Some(queued));
            }
        }
        let mut twice = BTreeSet::new();
        if self.index.names.len() < entries.len() {
            entries.sort_by(|(a, _), (b, _)| a.job.id.cmp(&b.job.id));
            twice.extend(alike(&entries, |a, b| a.id == b.id));
        }
        entries.sort_by_key(|(entry, _)| entry.job.uid);
        twice.extend(alike(&entries, |a, b| a.uid == b.uid));
        self.base.jobs = entries.into_iter().map(|(entry, _)| (entry.job.uid, entry)).collect();
        twice
    }

    /// A job as the queue's policy sees it; `None` once it has ended.
    pub fn queue_entry(&self, entry: &JobEntry) -> Option<Arc<Entry>> {
        let job = &entry.job;
        if job.status.phase.is_terminal() {
            return None;
        }
        let mut wanted = Entry::of(job, &self.index.snapshot);
        if job.status.phase == Phase::Pending {
            wanted.not_before = entry.due.or(wanted.not_before);
            wanted.cap = entry.cap;
            if entry.held {
                wanted.hold.clone_from(&job.status.reasons);
                let id = |name: &JobName| JobId { tenant: job.id.tenant.clone(), name: name.clone() };
                // When people let go nobody knows.
                wanted.open_ended = !job.status.holds.is_empty();
                let after = job.spec.after.iter().filter(|_| !wanted.open_ended);
                wanted.after =
                    after.filter_map(|other| self.index.names.get(&id(&other.job)).copied()).collect();
            }
        }
        if let (controller_queue::State::Running(run), Some(attempt)) = (&mut wanted.state, &entry.attempt) {
            run.started = attempt.since;
            run.ending = attempt.ending.as_ref().map(|ending| ending.since.plus(ending.grace + END_TAKES));
        }
        Some(Arc::new(wanted))
    }

    /// Numbers of nodes and of rails may mean something else now.
    fn cluster_changed(&mut self, rails: u32) {
        self.index.queue_state.nodes_changed();
        let all = self.index.snapshot.topology().rails() != rails;
        let uids: Vec<JobUid> = if all {
            self.base.jobs.keys().copied().collect()
        } else {
            self.index.excluding.iter().copied().collect()
        };
        for uid in uids {
            let entry = self.base.jobs.get(&uid).and_then(|entry| self.queue_entry(entry));
            if entry.is_some() {
                self.index.queue_state.set_job(uid, entry);
            }
        }
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

    fn index(&mut self, entry: &JobEntry) {
        self.index.names.insert(entry.job.id.clone(), entry.job.uid);
        self.index_but_name(entry);
    }

    fn index_but_name(&mut self, entry: &JobEntry) {
        let job = &entry.job;
        let status = &job.status;
        let jobs = self.index.tenants.entry(job.id.tenant.clone()).or_default();
        jobs.all += 1;
        jobs.bytes += job.footprint();
        jobs.active += u32::from(!status.phase.is_terminal());
        self.index.phases[status.phase as usize] += 1;
        count_figures(&mut self.index.figures, job, true);
        count_class(&mut self.index.classes, job, true);
        count_run(&mut self.index.runs, job, true);
        if status.phase == proto_model::Phase::Pending {
            let latest = job.spec.latest_start();
            self.index.due.extend(latest.map(|time| (time, Due::LatestStart(job.uid))));
            self.index.waiting += 1;
            if !entry.held {
                self.index.queue.insert(entry.key());
            }
        }
        if let Some(ended) = self.ended(job) {
            self.index.ended.insert((ended, job.uid));
        }
        if !status.phase.is_terminal() && job.spec.placement.names_nodes() {
            self.index.excluding.insert(job.uid);
        }
        for id in awaited(job) {
            self.index.dependents.entry(id).or_default().insert(job.uid);
        }
        if let Some((array, at)) = array_of(job) {
            self.index.arrays.entry(array).or_default().change(at, entry, true);
        }
        if let Some(placement) = status.placement.as_ref().filter(|_| status.phase.holds()) {
            self.index.holding += 1;
            self.index.snapshot.hold(&job.id.tenant, placement);
            for (at, place) in placement.nodes.iter().enumerate() {
                let at = u32::try_from(at).unwrap_or(u32::MAX);
                self.index.holds.entry(place.node.clone()).or_default().insert(job.uid, at);
            }
            for place in &placement.spares {
                self.index.spares.entry(place.node.clone()).or_default().insert(job.uid);
            }
        }
    }

    /// When a job has ended that is not kept for ever.
    fn ended(&self, job: &Job) -> Option<Timestamp> {
        let ends = self.config.ended_retention.is_some() && job.status.phase.is_terminal();
        ends.then_some(job.status.ended).flatten()
    }

    fn unindex(&mut self, entry: &JobEntry) {
        let job = &entry.job;
        let status = &job.status;
        self.index.names.remove(&job.id);
        self.index.phases[status.phase as usize] -= 1;
        count_figures(&mut self.index.figures, job, false);
        count_class(&mut self.index.classes, job, false);
        count_run(&mut self.index.runs, job, false);
        if let Some(jobs) = self.index.tenants.get_mut(&job.id.tenant) {
            jobs.all -= 1;
            jobs.bytes -= job.footprint();
            jobs.active -= u32::from(!status.phase.is_terminal());
            if jobs.all == 0 {
                self.index.tenants.remove(&job.id.tenant);
            }
        }
        if status.phase == proto_model::Phase::Pending {
            if let Some(time) = job.spec.latest_start() {
                self.index.due.remove(&(time, Due::LatestStart(job.uid)));
            }
            self.index.waiting -= 1;
            self.index.queue.remove(&entry.key());
        }
        if let Some(ended) = self.ended(job) {
            self.index.ended.remove(&(ended, job.uid));
        }
        self.index.excluding.remove(&job.uid);
        for id in awaited(job) {
            forget(&mut self.index.dependents, &id, &job.uid);
        }
        if let Some((array, at)) = array_of(job)
            && let Some(elements) = self.index.arrays.get_mut(&array)
        {
            elements.change(at, entry, false);
            if elements.by_index.is_empty() {
                self.index.arrays.remove(&array);
            }
        }
        if let Some(placement) = status.placement.as_ref().filter(|_| status.phase.holds()) {
            self.index.holding -= 1;
            self.index.snapshot.release(&job.id.tenant, placement);
            for place in &placement.nodes {
                if let Some(jobs) = self.index.holds.get_mut(&place.node) {
                    jobs.remove(&job.uid);
                    if jobs.is_empty() {
                        self.index.holds.remove(&place.node);
                    }
                }
            }
            for place in &placement.spares {
                forget(&mut self.index.spares, &place.node, &job.uid);
            }
        }
    }

    /// Why a node takes no new job at the moment.
    fn gate(&self, name: &NodeName) -> Gate {
        let node = self.base.nodes.get(name);
        let link = self.base.links.get(name);
        Gate {
            unschedulable: node.is_some_and(|node| node.unschedulable || node.is_quarantined()),
            not_ready: node.is_some_and(|node| node.health == Health::NotReady),
            away: link.is_none_or(|link| link.session.is_none()),
            draining: link.is_some_and(|link| !link.foreign.is_empty()),
        }
    }

    /// What the changes since `mark` mean for the store; each key once.
    pub fn writes_since(&self, mark: usize) -> Vec<Write> {
        let mut writes = Vec::new();
        let (mut jobs, mut nodes, mut tenants) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut requests, mut tokens, mut fabric) = (BTreeSet::new(), BTreeSet::new(), false);
        let (mut drains, mut rows) = (BTreeSet::new(), BTreeSet::new());
        let (mut queues, mut reservations) = (BTreeSet::new(), BTreeSet::new());
        let (mut classes, mut licenses, mut schedules) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut audit, mut qos, mut resting) = (BTreeSet::new(), false, BTreeSet::new());
        for undo in &self.journal.undo[mark..] {
            match undo {
                Undo::Job(uid, old) if jobs.insert(*uid) => {
                    self.job_writes(*uid, old.as_deref(), &mut writes)
                }
                Undo::Node(name, old) if nodes.insert(name) => {
                    writes.extend(self.node_write(name, old.as_ref()));
                }
                Undo::Tenant(name, old) if tenants.insert(name) => {
                    writes.extend(self.tenant_write(name, old.is_some()));
                }
                Undo::Resting(name, old) if resting.insert(name) => {
                    writes.extend(self.resting_write(name, old.is_some()));
                }
                Undo::Decisions(seq, old) if rows.insert(*seq) => {
                    writes.extend(self.decisions_write(*seq, old.is_some()));
                }
                Undo::Audit(key, old) if audit.insert(*key) => {
                    writes.extend(self.audit_write(*key, old.is_some()));
                }
                Undo::Request(key, old) if requests.insert(key) => match self.base.requests.get(key) {
                    Some(record) => writes.push(Write::PutRequest(Arc::clone(record))),
                    None if old.is_some() => writes.push(Write::DeleteRequest(key.0.clone(), key.1.clone())),
                    None => {}
                },
                Undo::Token(hash, old) if tokens.insert(hash) => {
                    writes.extend(self.token_write(*hash, old.is_some()));
                }
                Undo::Drain(target, old) if drains.insert(target) => {
                    writes.extend(self.drain_write(target, old.is_some()));
                }
                Undo::Queue(key, old) if queues.insert(key) => {
                    writes.extend(self.queue_write(key, old.is_some()));
                }
                Undo::Reservation(name, old) if reservations.insert(name) => {
                    writes.extend(self.reservation_write(name, old.is_some()));
                }
                Undo::Class(name, old) if classes.insert(name) => {
                    writes.extend(self.class_write(name, old.is_some()));
                }
                Undo::License(name, old) if licenses.insert(name) => {
                    writes.extend(self.license_write(name, old.is_some()));
                }
                Undo::JobSchedule(key, old) if schedules.insert(key) => {
                    writes.extend(self.schedule_write(key, old.as_deref()));
                }
                Undo::Qos(_) if !qos => {
                    qos = true;
                    writes.extend(self.base.qos.clone().map(Write::PutQos));
                }
                Undo::Fabric(old) if !fabric => {
                    fabric = true;
                    writes.extend(self.fabric_write(old.is_some()));
                }
                _ => {}
            }
        }
        self.webhook_writes(mark, &mut writes);
        self.values_writes(mark, &mut writes);
        self.tombstone_writes(mark, &mut writes);
        writes
    }

    fn node_write(&self, name: &NodeName, old: Option<&Arc<Node>>) -> Option<Write> {
        match (self.base.nodes.get(name), old) {
            (Some(node), Some(old)) if Arc::ptr_eq(old, node) => None,
            (Some(node), _) => Some(Write::PutNode(Arc::clone(node))),
            (None, Some(_)) => Some(Write::DeleteNode(name.clone())),
            (None, None) => None,
        }
    }

    fn decisions_write(&self, seq: u64, was: bool) -> Option<Write> {
        let deleted = || was.then_some(Write::DeleteDecisions(seq));
        self.base.decisions.get(&seq).cloned().map(Write::PutDecisions).or_else(deleted)
    }

    fn token_write(&self, hash: [u8; 32], was: bool) -> Option<Write> {
        let deleted = || was.then_some(Write::DeleteToken(hash));
        self.base.tokens.get(&hash).cloned().map(Write::PutToken).or_else(deleted)
    }

    fn drain_write(&self, target: &DrainTarget, was: bool) -> Option<Write> {
        let deleted = || was.then(|| Write::DeleteDrain(target.clone()));
        self.base.drains.get(target).map(|drain| Write::PutDrain(Arc::clone(drain))).or_else(deleted)
    }

    fn tenant_write(&self, name: &TenantName, was: bool) -> Option<Write> {
        let deleted = || was.then(|| Write::DeleteTenant(name.clone()));
        self.base.tenants.get(name).cloned().map(Write::PutTenant).or_else(deleted)
    }

    fn resting_write(&self, name: &TenantName, was: bool) -> Option<Write> {
        let deleted = || was.then(|| Write::DeleteRestingName(name.clone()));
        self.base.resting.get(name).cloned().map(Write::PutRestingName).or_else(deleted)
    }

    fn queue_write(&self, key: &(TenantName, QueueName), was: bool) -> Option<Write> {
        let deleted = || was.then(|| Write::DeleteQueue(key.0.clone(), key.1.clone()));
        self.base.queues.get(key).cloned().map(Write::PutQueue).or_else(deleted)
    }

    fn reservation_write(&self, name: &ReservationName, was: bool) -> Option<Write> {
        let deleted = || was.then(|| Write::DeleteReservation(name.clone()));
        self.base.reservations.get(name).cloned().map(Write::PutReservation).or_else(deleted)
    }

    fn schedule_write(&self, key: &ScheduleKey, old: Option<&ScheduleEntry>) -> Option<Write> {
        match (old, self.base.schedules.get(key)) {
            (Some(old), Some(new)) if Arc::ptr_eq(&old.schedule, &new.schedule) => None,
            (_, Some(new)) => Some(Write::PutSchedule(Arc::clone(&new.schedule))),
            (Some(_), None) => Some(Write::DeleteSchedule(key.0.clone(), key.1.clone())),
            (None, None) => None,
        }
    }

    fn class_write(&self, name: &ServiceClassName, was: bool) -> Option<Write> {
        let deleted = || was.then(|| Write::DeleteServiceClass(name.clone()));
        self.base.classes.get(name).cloned().map(Write::PutServiceClass).or_else(deleted)
    }

    fn fabric_write(&self, was: bool) -> Option<Write> {
        let deleted = was.then_some(Write::DeleteFabric);
        self.base.fabric.clone().map(Write::PutFabric).or(deleted)
    }

    fn job_writes(&self, uid: JobUid, old: Option<&JobEntry>, writes: &mut Vec<Write>) {
        let new = self.base.jobs.get(&uid);
        match (old, new) {
            (Some(old), Some(new)) if Arc::ptr_eq(&old.job, &new.job) => {}
            (_, Some(new)) => writes.push(Write::PutJob(Arc::clone(&new.job))),
            (Some(old), None) => writes.push(Write::DeleteJob(old.job.id.clone())),
            (None, None) => {}
        }
        let (before, after) =
            (old.and_then(|old| old.attempt.as_ref()), new.and_then(|new| new.attempt.as_ref()));
        match (before, after) {
            (Some(before), Some(after)) if Arc::ptr_eq(before, after) => {}
            (_, Some(after)) => writes.push(Write::PutAttempt(Arc::clone(after))),
            (Some(_), None) => writes.push(Write::DeleteAttempt(uid)),
            (None, None) => {}
        }
    }
}
