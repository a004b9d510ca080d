//! Placing jobs: the new one alone, or all that wait when something was freed.

use std::{ops::Bound, sync::Arc};

use controller_scheduler::{Ask, Decision, Pass, QueueKey, Wait, check_placement};
use proto_model::{JobKey, JobUid, Phase, Placement, Reason};

use crate::{
    records::Attempt,
    state::{JobEntry, Schedule},
    step::Step,
};

impl Step<'_> {
    /// Looks at the queue if something was freed since, a bounded part of it per step.
    pub(crate) fn schedule(&mut self) {
        let Schedule { resume, wanted, blocked, last_submit } = self.state.base.schedule.clone();
        let mut pass = match resume {
            Some(_) => Pass::resume(blocked),
            None if wanted => Pass::default(),
            None => return,
        }
        .with_placer(std::mem::take(&mut self.state.index.placer));
        let from = resume.map_or(Bound::Unbounded, Bound::Excluded);
        let range = (from, Bound::Unbounded);
        let limit = self.state.config.pass_limit;
        let keys: Vec<QueueKey> = self.state.index.queue.range(range).take(limit).copied().collect();
        let mut reached = None;
        let (mut places, mut rewrites) = (0, 0);
        for (at, key) in keys.iter().enumerate() {
            if places >= self.state.config.pass_places {
                break;
            }
            reached = Some(*key);
            let Some(entry) = self.state.base.jobs.get(&key.uid) else { continue };
            let ask = Ask { key: *key, id: &entry.job.id, spec: &entry.job.spec, not_before: entry.due };
            // Stored reasons are kept fresh at the head of the queue; `explain` tells those of any job anew.
            let rewrite = rewrites < self.state.config.reason_writes && at < self.state.config.reason_looks;
            if !rewrite {
                pass.be_brief();
            }
            let decision = pass.decide(&self.state.index.snapshot, &ask, self.now);
            places += usize::from(matches!(decision, Decision::Place(_)));
            rewrites += usize::from(self.follow(key.uid, decision, rewrite));
        }
        let done = keys.len() < limit && reached == keys.last().copied();
        // What was freed during a pass is looked at by the next one, so that the queue's end is reached too.
        let (blocked, placer) = pass.into_parts();
        self.state.index.placer = placer;
        let next = Schedule {
            blocked,
            resume: reached.filter(|_| !done),
            wanted: resume.is_some() && wanted,
            last_submit,
        };
        self.state.set_schedule(next);
    }

    /// Does what was decided for a waiting job. True if its stored reasons were rewritten.
    pub(crate) fn follow(&mut self, uid: JobUid, decision: Decision, rewrite: bool) -> bool {
        match decision {
            Decision::Place(placement) => {
                self.place(uid, *placement);
                false
            }
            Decision::Wait(wait) => rewrite && self.wait(uid, wait),
        }
    }

    fn place(&mut self, uid: JobUid, placement: Placement) {
        let Some(mut entry) = self.entry(uid) else { return };
        let job = Arc::clone(&entry.job);
        if let Err(violations) =
            check_placement(&self.state.index.snapshot, &job.id.tenant, &job.spec, &placement)
        {
            // Never seen; if it ever is, the job waits and says so rather than run wrongly.
            let text: Vec<String> = violations.iter().map(ToString::to_string).collect();
            let reason = Reason::new(
                "PlacementRefused",
                format!("the checker refused the placement: {}", text.join("; ")),
            );
            let wait = Wait { reasons: vec![reason.count(violations.len())], ..Wait::default() };
            self.wait(uid, wait);
            return;
        }
        self.enter(&mut entry, Phase::Reserved);
        self.change(&mut entry, |status| {
            status.reasons.clone_from(&placement.reasons);
            status.placement = Some(placement);
            status.exits = Vec::new();
            (status.started, status.result) = (None, None);
        });
        let key = JobKey::new(self.random());
        let attempt = entry.job.status.attempt;
        entry.attempt = Some(Arc::new(Attempt { uid, attempt, key, peers: Vec::new(), ending: None }));
        entry.due = Some(self.now.plus(self.state.config.prepare_timeout));
        self.state.set_job(uid, Some(entry));
        self.push_wishes(uid);
    }

    /// Rewrites the reasons of a waiting job when their kinds have changed; counts alone are not worth a write,
    /// `explain` always tells them anew.
    fn wait(&mut self, uid: JobUid, wait: Wait) -> bool {
        let Some(mut entry) = self.entry(uid) else { return false };
        let mut reasons = requeue_causes(&entry);
        reasons.extend(wait.reasons);
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

/// Why the last try failed stays with a job that is queued again.
fn requeue_causes(entry: &JobEntry) -> Vec<Reason> {
    let reasons = &entry.job.status.reasons;
    let kept = reasons.iter().rposition(|reason| reason.code == "Requeued").map_or(0, |at| at + 1);
    reasons[..kept].to_vec()
}
