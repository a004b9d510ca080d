//! The tables and their indices. Every set is undone by its opposite.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use proto_model::{
    ClassUser, Eta, JobUid, Objective, QueueName, Reason, ReservationName, ServiceClassName, TenantName,
    Timestamp,
};

use crate::{
    defs::{ClassDef, Policy, QueueDef, ReservationDef, TenantDef},
    empty::Empty,
    entry::{Entry, Run, State},
    ledger::{Ledger, Past},
    objective::turn,
    tables::{FifoKey, Marks, QueueState, Sum, Taken},
    why::{WaitCause, WaitReasons},
};

/// Queues above one another at most.
const DEEPEST: usize = 32;

impl QueueState {
    /// A queue state without tenants, queues and jobs.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// The numbers of the policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Who waits beside whom: the earlier, the sooner its turn. It is in what the tables say of the job and its queues
    /// alone, so that it is found again as long as those stay.
    pub(crate) fn turn_of(&self, entry: &Entry) -> Timestamp {
        turn(entry, self.objective_of(entry), &self.policy)
    }

    /// What the order is for in which a job waits: of the nearest queue that says it.
    #[must_use]
    pub fn objective_of(&self, entry: &Entry) -> Option<Objective> {
        let mut at = entry.queue.clone();
        // No tree of queues is deeper; a circle ends.
        for _ in 0..DEEPEST {
            let Some(name) = at else { break };
            let Some(def) = self.queues.get(&(entry.id.tenant.clone(), name)) else { break };
            if def.objective.is_some() {
                return def.objective;
            }
            at = def.parent.clone();
        }
        self.policy.objective
    }

    /// Takes a tenant's waiting jobs in queues out of their rows, to be put back by their turns.
    fn unqueue(&mut self, tenant: &TenantName) -> Vec<Arc<Entry>> {
        let waiting = self.waiting.iter().filter(|((_, of, queue), _)| of == tenant && queue.is_some());
        let waiting: Vec<Arc<Entry>> = waiting.flat_map(|(_, row)| row.values().map(Arc::clone)).collect();
        self.waiting.retain(|(_, of, queue), _| of != tenant || queue.is_none());
        waiting
    }

    /// A job comes, changes or goes.
    pub fn set_job(&mut self, uid: JobUid, entry: Option<Arc<Entry>>) {
        let started = entry.as_ref().map(|entry| entry.run().map(|run| run.started));
        if started != Some(None) && self.marks.bands.is_open(uid) {
            Arc::make_mut(&mut self.marks.bands).settle(uid, started.flatten());
        }
        if let Some(old) = self.jobs.remove(&uid) {
            self.cache.empty.forget(uid);
            self.licenses.leave(&old);
            match &old.state {
                State::Waiting => {
                    let (line, turn) = (line(&old), self.turn_of(&old));
                    if let Some(row) = self.waiting.get_mut(&line) {
                        row.remove(&(turn, uid));
                        if row.is_empty() {
                            self.waiting.remove(&line);
                        }
                    }
                    self.unask(&old);
                }
                State::Running(run) => {
                    self.running.remove(&uid);
                    if let Some(own) = self.running_of.get_mut(&old.id.tenant) {
                        own.remove(&uid);
                        if own.is_empty() {
                            self.running_of.remove(&old.id.tenant);
                        }
                    }
                    self.cache.nodes.remove(&uid);
                    self.unsum(&old, run);
                }
            }
        }
        if let Some(entry) = entry {
            self.licenses.enter(&entry);
            match &entry.state {
                State::Waiting => {
                    let turn = self.turn_of(&entry);
                    let row = self.waiting.entry(line(&entry)).or_default();
                    row.insert((turn, uid), Arc::clone(&entry));
                    *self.shapes.entry(shape(&entry)).or_default() += 1;
                    self.begins.extend(entry.not_before.map(|time| (time, uid)));
                }
                State::Running(run) => {
                    self.running.insert(uid, Arc::clone(&entry));
                    let own = self.running_of.entry(entry.id.tenant.clone()).or_default();
                    own.insert(uid, (Arc::clone(&entry), run.gpus()));
                    self.sum(&entry, run);
                    self.cache.seen.remove(&uid);
                }
            }
            self.jobs.insert(uid, entry);
        } else {
            self.cache.seen.remove(&uid);
        }
        if !self.marks.privates.is_empty() {
            self.cache.touched.insert(uid);
        }
    }

    fn unask(&mut self, entry: &Entry) {
        let shape = shape(entry);
        if let Some(count) = self.shapes.get_mut(&shape) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.shapes.remove(&shape);
            }
        }
        if let Some(time) = entry.not_before {
            self.begins.remove(&(time, entry.uid));
        }
    }

    fn sum(&mut self, entry: &Entry, run: &Run) {
        let sum = self.sums.entry((entry.id.tenant.clone(), entry.queue.clone())).or_default();
        *sum = Sum { gpus: sum.gpus + run.gpus(), jobs: sum.jobs + 1 };
        if let Some(priority) = yields_above(entry) {
            *self.yielding.entry(priority).or_default() += 1;
        }
        if run.ending.is_none() && entry.nodes_held() < entry.need.nodes {
            self.small.insert(entry.uid);
        }
        self.ending.extend(run.ending.map(|time| (time, entry.uid)));
    }

    fn unsum(&mut self, entry: &Entry, run: &Run) {
        let key = (entry.id.tenant.clone(), entry.queue.clone());
        if let Some(sum) = self.sums.get_mut(&key) {
            *sum = Sum { gpus: sum.gpus.saturating_sub(run.gpus()), jobs: sum.jobs.saturating_sub(1) };
            if sum.jobs == 0 {
                self.sums.remove(&key);
            }
        }
        if let Some(priority) = yields_above(entry)
            && let Some(count) = self.yielding.get_mut(&priority)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.yielding.remove(&priority);
            }
        }
        self.small.remove(&entry.uid);
        if let Some(time) = run.ending {
            self.ending.remove(&(time, entry.uid));
        }
    }

    /// Jobs of a higher priority than this may have others stopped for them, or made smaller.
    pub(crate) fn lowest_yielding(&self) -> Option<i32> {
        let lowest = self.yielding.first_key_value().map(|(priority, _)| *priority);
        lowest.filter(|_| self.policy.preemption)
    }

    /// A tenant comes, changes or goes. Jobs of a tenant that is not known never start.
    pub fn set_tenant(&mut self, tenant: &TenantName, def: Option<TenantDef>) {
        match def {
            Some(def) => self.tenants.insert(tenant.clone(), def),
            None => self.tenants.remove(tenant),
        };
    }

    /// A queue comes, changes or goes. Jobs of a queue that is not known never start.
    pub fn set_queue(&mut self, tenant: &TenantName, queue: &QueueName, def: Option<QueueDef>) {
        let key = (tenant.clone(), queue.clone());
        let orders = |def: &QueueDef| (def.objective, def.parent.clone());
        let moves = self.queues.get(&key).map(orders) != def.as_ref().map(orders);
        // Their turns may be others from now on.
        let waiting = if moves { self.unqueue(tenant) } else { Vec::new() };
        match def {
            Some(def) => self.queues.insert(key, def),
            None => self.queues.remove(&key),
        };
        for entry in waiting {
            let turn = self.turn_of(&entry);
            self.waiting.entry(line(&entry)).or_default().insert((turn, entry.uid), entry);
        }
    }

    /// A service class comes, changes or goes. One that is not known sets no limits.
    pub fn set_class(&mut self, name: &ServiceClassName, def: Option<ClassDef>) {
        match def {
            Some(def) => self.classes.insert(name.clone(), def),
            None => self.classes.remove(name),
        };
        self.marks.privates.set_class(name, def);
    }

    /// Whose service class a job is of, if that is known.
    pub(crate) fn class<'a>(&self, entry: &'a Entry) -> Option<(&'a ClassUser, ClassDef)> {
        let user = entry.class.as_ref()?;
        Some((user, *self.classes.get(&user.class)?))
    }

    /// Whether jobs of lower priority may be stopped for a job.
    pub(crate) fn preempts(&self, entry: &Entry) -> bool {
        self.class(entry).is_none_or(|(_, def)| def.preempts)
    }

    /// A reservation comes, changes or goes.
    pub fn set_reservation(&mut self, name: &ReservationName, def: Option<ReservationDef>) {
        match def {
            Some(def) => self.reservations.insert(name.clone(), def),
            None => self.reservations.remove(name),
        };
    }

    /// An attempt of a job has ended. Must be called before the job is set to waiting or removed.
    pub fn remember(&mut self, past: &Past) {
        let policy = &self.policy;
        Arc::make_mut(&mut self.marks.ledger).remember(past, policy);
        self.marks.privates.remember(past);
    }

    /// What passes and ends have changed so far.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.marks.clone()
    }

    /// Puts back what [`Self::marks`] gave.
    pub fn restore(&mut self, marks: Marks) {
        self.marks = marks;
        // Whatever was brought up to date may be behind again.
        if !self.marks.privates.is_empty() {
            self.cache.touched.extend(self.jobs.keys().copied());
        }
    }

    /// What is remembered of jobs that have ended.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.marks.ledger
    }

    /// A job that has not ended.
    #[must_use]
    pub fn job(&self, uid: JobUid) -> Option<&Arc<Entry>> {
        self.jobs.get(&uid)
    }

    /// All jobs, by identity.
    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.jobs.values()
    }

    /// The number of jobs that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.values().map(BTreeMap::len).sum()
    }

    /// When a waiting job will probably start, as of the last look at it.
    #[must_use]
    pub fn eta(&self, uid: JobUid) -> Option<Eta> {
        self.cache.seen.get(&uid)?.eta
    }

    /// What was found of a waiting job when it was looked at last.
    #[must_use]
    pub fn seen(&self, uid: JobUid) -> Option<&WaitReasons> {
        self.cache.seen.get(&uid)
    }

    /// The job was to start, and is not, because its placement is wrong: that is why it waits, until it is looked at again.
    pub fn refuse(&mut self, uid: JobUid, message: String, now: Timestamp) {
        let causes = vec![WaitCause::Refused(message)];
        self.cache.seen.insert(uid, WaitReasons { causes, checked: now, ..WaitReasons::default() });
    }

    /// Why a job waits, as of the last look at it: every cause that is not about single nodes.
    #[must_use]
    pub fn why(&self, uid: JobUid) -> Vec<Reason> {
        let Some((why, entry)) = self.cache.seen.get(&uid).zip(self.jobs.get(&uid)) else {
            return Vec::new();
        };
        why.reasons(self, entry)
    }

    /// When time alone may change what a pass says.
    #[must_use]
    pub fn next_check(&self) -> Option<Timestamp> {
        self.cache.next
    }

    /// Nodes have come or gone: what is known by their numbers is looked up anew.
    pub fn nodes_changed(&mut self) {
        self.cache.nodes.clear();
        self.cache.ground = Arc::default();
        self.cache.empty = Empty::default();
    }

    /// Running jobs by identity, with the numbers of their nodes as far as those are known.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&Arc<Entry>, Taken<'_>)> {
        let mut known = self.cache.nodes.iter().peekable();
        // Both are in the order of identities.
        self.running.iter().map(move |(uid, entry)| {
            while known.next_if(|(other, _)| *other < uid).is_some() {}
            (entry, known.next_if(|(other, _)| *other == uid).map(|(_, nodes)| &**nodes))
        })
    }

    /// Running jobs of a tenant by identity, with the GPUs that they hold.
    pub(crate) fn running_of(&self, tenant: &TenantName) -> impl Iterator<Item = &(Arc<Entry>, u64)> {
        self.running_of.get(tenant).into_iter().flat_map(BTreeMap::values)
    }

    /// The same of everybody.
    pub(crate) fn running_all(&self) -> impl Iterator<Item = &(Arc<Entry>, u64)> {
        self.running_of.values().flat_map(BTreeMap::values)
    }

    /// The tenant and its queue with all queues above it, the nearest first. `None` if one of them is not known.
    pub(crate) fn path(&self, entry: &Entry) -> Option<Vec<Option<QueueName>>> {
        self.path_of(&entry.id.tenant, entry.queue.as_ref())
    }

    /// The same of a queue, or of the tenant itself.
    pub(crate) fn path_of(
        &self,
        tenant: &TenantName,
        queue: Option<&QueueName>,
    ) -> Option<Vec<Option<QueueName>>> {
        self.tenants.get(tenant)?;
        let mut path = Vec::new();
        let mut at = queue.cloned();
        while let Some(name) = at {
            // Deeper than any tree of queues: a circle.
            if path.len() > DEEPEST {
                return None;
            }
            let def = self.queues.get(&(tenant.clone(), name.clone()))?;
            path.push(Some(name));
            at = def.parent.clone();
        }
        path.push(None);
        Some(path)
    }

    /// GPUs that a queue or tenant may hold.
    pub(crate) fn limit(&self, tenant: &TenantName, queue: Option<&QueueName>) -> Option<u32> {
        match queue {
            None => self.tenants.get(tenant)?.limit,
            Some(queue) => self.queues.get(&(tenant.clone(), queue.clone()))?.limit,
        }
    }

    /// How long a job will probably run.
    #[must_use]
    pub fn length(&self, entry: &Entry) -> std::time::Duration {
        let known = entry.expected.or(entry.limit);
        let gpus = entry.gpus(entry.need.nodes);
        let learned = || self.marks.ledger.length(&entry.id.tenant, gpus);
        known.or_else(learned).unwrap_or(self.policy.unknown)
    }

    /// When a running job will probably have given back what it holds. Who runs longer than was thought is given half
    /// as long again.
    pub(crate) fn end(&self, entry: &Entry, now: Timestamp) -> Timestamp {
        let Some(run) = entry.run() else { return now };
        if let Some(ending) = run.ending {
            return ending.max(now);
        }
        let end = run.started.plus(self.length(entry));
        if end > now { end } else { now.plus((now.since(run.started) / 2).max(self.policy.step)) }
    }
}

/// The GPUs that a job needs on each node at least, and the nodes that it needs with its spares.
fn shape(entry: &Entry) -> (u32, u32) {
    (entry.need.least_gpus(), entry.min_nodes.saturating_add(entry.need.spares))
}

/// The priority above which others may take of what a running job holds: all of it, or the nodes beyond its least.
fn yields_above(entry: &Entry) -> Option<i32> {
    if entry.nodes_held() > entry.min_nodes {
        return Some(entry.priority.saturating_sub(1));
    }
    entry.preemption.preemptible.then_some(entry.priority)
}

pub(crate) fn line(entry: &Entry) -> FifoKey {
    (Reverse(entry.priority), entry.id.tenant.clone(), entry.queue.clone())
}
