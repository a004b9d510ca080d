//! Doing what the queue's policy says, each placement proved before it is.

use std::{sync::Arc, time::Duration};

use controller_queue::{Act, Budget};
use controller_scheduler::Need;
use controller_state::{
    Attempt, JobEntry, Outcome, index::all::Index, rows::job::Schedule, view::job::schedule::requeue_causes,
};
use proto_model::{JobKey, JobUid, Phase, Placement, Reason, ReasonCode, Thing};

use crate::context::Step;

impl Step<'_> {
    /// Looks at the queue if something has changed, and does what its policy says.
    pub(crate) fn schedule(&mut self) {
        let starts = self.state.config.pass_places;
        if !self.state.base.schedule.wanted || self.later || starts == 0 {
            return;
        }
        self.state.note_marks();
        let Schedule { deep, last_submit, .. } = self.state.base.schedule;
        let limit = self.state.config.pass_limit;
        let Index { queue_state, snapshot, placer, .. } = &mut self.state.index;
        // What an event frees is for the first jobs of the queue; those behind them have their turn once in a while.
        let next = deep.map(|deep| deep.plus(Budget::PAUSE)).filter(|next| *next > self.now);
        let long = queue_state.waiting() > Budget::EVENT.jobs && limit > Budget::EVENT.jobs;
        let shallow = next.filter(|_| long);
        let jobs = if shallow.is_some() { Budget::EVENT.jobs } else { limit };
        let acts = queue_state.pass(snapshot, placer, self.now, Budget { jobs, starts });
        let check = queue_state.next_check().into_iter().chain(shallow).min();
        let started = acts.iter().filter(|act| matches!(act, Act::Start { .. })).count();
        let wanted = started >= starts;
        // A pass that has more to start goes on as deep.
        let deep = if !long || shallow.is_some() || wanted { deep } else { Some(self.now) };
        self.state.set_schedule(Schedule { wanted, check, deep, last_submit });
        for act in acts {
            self.carry_out(act);
        }
        self.report_waiting();
        let Index { queue_state, snapshot, .. } = &mut self.state.index;
        // Undone with the marks that were noted above.
        queue_state.note_forecast(snapshot, &mut controller_scheduler::Placer::default(), self.now);
    }

    fn carry_out(&mut self, act: Act) {
        match act {
            Act::Start { uid, placement } => {
                self.place(uid, placement);
            }
            Act::Preempt { victim, by, grace, signal, reasons } => {
                let cause = self.for_job(ReasonCode::Preempted, by, |job| format!("stopped for {job}"));
                self.preempt(victim, cause, (grace, signal), reasons);
            }
            Act::Shrink { victim, nodes, by, grace, signal, reasons } => {
                let words = |job: &str| format!("stopped to go on with {nodes} nodes, for {job}");
                let cause = self.for_job(ReasonCode::Resized, by, words);
                self.cap(victim, nodes);
                self.preempt(victim, cause, (grace, signal), reasons);
            }
            Act::Grow { uid, nodes, grace, signal, reasons } => {
                let message = format!("stopped to go on with {nodes} nodes, since there is room");
                self.preempt(uid, Reason::new(ReasonCode::Resized, message), (grace, signal), reasons);
            }
        }
    }

    /// It starts again with so many nodes at most, or it would take what it gave.
    fn cap(&mut self, uid: JobUid, nodes: u32) {
        if let Some(entry) = self.entry(uid) {
            self.state.set_job(uid, Some(JobEntry { cap: Some(nodes), ..entry }));
        }
    }

    /// A cause that lies in another job, whosever it is.
    fn for_job(&self, code: ReasonCode, uid: JobUid, words: impl Fn(&str) -> String) -> Reason {
        match self.state.base.jobs.get(&uid) {
            Some(entry) => Reason::about(code, &Thing::Job(entry.job.id.clone()), |job, _| words(job)),
            None => Reason::new(code, words("another job")),
        }
    }

    /// Ends an attempt on purpose: it is nobody's failure, and the job is queued again.
    pub(crate) fn preempt(
        &mut self,
        uid: JobUid,
        cause: Reason,
        (grace, signal): (Duration, i32),
        reasons: Vec<Reason>,
    ) {
        let causes = std::iter::once(cause.since(self.now)).chain(reasons).collect();
        self.stop_attempt(uid, Outcome::Preempt, grace, signal, causes);
    }

    /// Keeps the stored reasons of those at the head of the queue fresh; `explain` tells those of any job anew.
    fn report_waiting(&mut self) {
        let (checks, most) = (self.state.config.reason_checks, self.state.config.reason_writes);
        let uids: Vec<JobUid> = self.state.index.queue.iter().take(checks).map(|key| key.uid).collect();
        let mut written = 0;
        // Jobs that ask alike wait for alike.
        let mut reported = Vec::new();
        for uid in uids {
            if written >= most {
                return;
            }
            let Some(entry) = self.state.base.jobs.get(&uid) else { continue };
            let need = Need::of(&entry.job.id.tenant, &entry.job.spec, &self.state.index.snapshot);
            let why = self.state.index.queue_state.why(uid);
            let key = (entry.job.id.tenant.clone(), need, entry.job.spec.gang.min_nodes, entry.due, why);
            let reasons = match reported.iter().find(|(other, _)| *other == key) {
                Some((_, reasons)) => Vec::clone(reasons),
                None => {
                    let reasons = self.state.waits(&self.state.index.queue_state, entry, self.now).reasons;
                    reported.push((key, reasons.clone()));
                    reasons
                }
            };
            if !reasons.is_empty() {
                written += usize::from(self.wait(uid, reasons));
            }
        }
    }

    /// A waiting job starts here. False if the checkers refuse that.
    pub(crate) fn place(&mut self, uid: JobUid, placement: Placement) -> bool {
        let Some(mut entry) = self.entry(uid) else { return false };
        let job = Arc::clone(&entry.job);
        let wrong = self.state.disproved(&job, &placement);
        if !wrong.is_empty() {
            // Never seen; if it ever is, the job waits and says so rather than run wrongly.
            let message = format!("the checker refused the placement: {}", wrong.join("; "));
            self.state.index.queue_state.refuse(uid, message.clone(), self.now);
            let reason = Reason::new(ReasonCode::PlacementRefused, message).count(wrong.len());
            self.wait(uid, vec![reason]);
            return false;
        }
        if let Err(missing) = self.state.check_env(&job.id.tenant, &job.spec.work) {
            self.hold_for_environment(uid, &missing);
            return false;
        }
        self.enter(&mut entry, Phase::Reserved);
        self.change(&mut entry, |status| {
            status.reasons.clone_from(&placement.reasons);
            status.placement = Some(Arc::new(placement));
            status.exits = Vec::new();
            (status.started, status.result) = (None, None);
        });
        let key = JobKey::new(self.random());
        let attempt = entry.job.status.attempt;
        entry.attempt = Some(Arc::new(Attempt {
            uid,
            attempt,
            key,
            peers: Vec::new(),
            since: self.now,
            released: false,
            again: false,
            ending: None,
        }));
        entry.due = Some(self.now.plus(self.state.config.prepare_timeout));
        entry.cap = None;
        self.state.set_job(uid, Some(entry));
        self.push_desired(uid);
        true
    }

    /// Rewrites the reasons of a waiting job when their kinds have changed; counts alone are not worth a write,
    /// `explain` always tells them anew.
    fn wait(&mut self, uid: JobUid, causes: Vec<Reason>) -> bool {
        let Some(mut entry) = self.entry(uid) else { return false };
        let mut reasons = requeue_causes(&entry);
        reasons.extend(causes);
        let same = reasons.len() == entry.job.status.reasons.len()
            && reasons
                .iter()
                .zip(&entry.job.status.reasons)
                .all(|(a, b)| a.code == b.code && a.scope == b.scope);
        if same {
            return false;
        }
        self.change(&mut entry, |status| status.reasons = reasons);
        self.state.set_job(uid, Some(entry));
        true
    }
}
