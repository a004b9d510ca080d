//! What a job waits for beside room: other jobs, its turn in its array, a time.
//!
//! A job that is held is not in the queue. Whether it still is, is looked at when one of those that it waits for moves
//! on, as a deadline that has come: so a thousand jobs that wait for one are looked at a bounded number per step.

use std::sync::Arc;

use controller_state::{
    JobEntry,
    index::arrays::array_of,
    view::job::{depend::Hold, schedule::requeue_causes},
};
use proto_model::{JobId, JobUid, Phase, Reason};

use crate::context::Step;

impl Step<'_> {
    /// Jobs that wait for those that moved on in this step are looked at soon.
    pub(crate) fn wake_dependents(&mut self) {
        for uid in std::mem::take(&mut self.moved) {
            let Some(job) = self.state.base.jobs.get(&uid).map(|entry| Arc::clone(&entry.job)) else {
                continue;
            };
            self.wake_schedule(&job);
            let array = array_of(&job).map(|(id, _)| id);
            for id in [Some(&job.id), array.as_ref()].into_iter().flatten() {
                let waiting: Vec<JobUid> =
                    self.state.index.dependents.get(id).into_iter().flatten().copied().collect();
                waiting.into_iter().for_each(|uid| self.wake(uid));
            }
            if let Some(array) =
                array.filter(|_| job.spec.array.as_ref().is_some_and(|array| array.at_once > 0))
            {
                self.wake_element(&array);
            }
        }
    }

    /// The first element that waits for its turn is looked at soon.
    pub(crate) fn wake_element(&mut self, array: &JobId) {
        let Some(elements) = self.state.index.arrays.get(array) else { return };
        let held = elements.held.iter().filter_map(|index| elements.by_index.get(index));
        if let Some(uid) = held.copied().find(|uid| !self.backs_off(*uid)) {
            self.wake(uid);
        }
    }

    /// Whether a job that is queued again is not to start yet, whatever turn it has. It is looked at then.
    fn backs_off(&self, uid: JobUid) -> bool {
        let entry = self.state.base.jobs.get(&uid);
        entry.is_some_and(|entry| entry.job.status.attempt > 1 && entry.due.is_some_and(|due| due > self.now))
    }

    fn wake(&mut self, uid: JobUid) {
        let now = self.now;
        let asleep = |entry: &JobEntry| entry.held && entry.due.is_none_or(|due| due > now);
        if let Some(entry) = self.entry(uid).filter(|entry| asleep(entry) && !self.backs_off(uid)) {
            self.state.set_job(uid, Some(JobEntry { due: Some(now), ..entry }));
        }
    }

    /// Whether a held job still is.
    pub(crate) fn check_hold(&mut self, uid: JobUid) {
        let Some(mut entry) = self.entry(uid).filter(|entry| entry.held) else { return };
        let Hold { reasons, never, until } = self.state.hold(&entry.job, self.now);
        // A job that is queued again may still have to wait for its back-off.
        if entry.job.status.attempt <= 1 {
            entry.due = until;
        }
        if !never.is_empty() {
            entry.held = false;
            entry.due = None;
            self.enter(&mut entry, Phase::Failed);
            self.change(&mut entry, |status| status.reasons = never);
            self.state.set_job(uid, Some(entry));
            return;
        }
        entry.held = !reasons.is_empty();
        let reasons: Vec<Reason> = requeue_causes(&entry).into_iter().chain(reasons).collect();
        // Who holds it may give another reason, later.
        let codes = |reasons: &[Reason]| {
            let one = |reason: &Reason| (reason.code.clone(), reason.scope.clone(), reason.since);
            reasons.iter().map(one).collect::<Vec<_>>()
        };
        if codes(&reasons) != codes(&entry.job.status.reasons) {
            self.change(&mut entry, |status| status.reasons = reasons);
        }
        let free = !entry.held;
        let array = array_of(&entry.job).map(|(id, _)| id);
        self.state.set_job(uid, Some(entry));
        if free {
            self.request_scheduling_pass();
            // Where several turns came free at once, the next one has one too.
            if let Some(array) = array {
                self.wake_element(&array);
            }
        }
    }
}
