//! Jobs that somebody holds: while they wait they keep their place in the queue and do not start until all who hold them have let go. One
//! that runs goes on, and is held if it is queued again; where it is suspended it is stopped for that, as for another job.

use std::sync::Arc;

use controller_state::{
    CoreError, JobEntry,
    index::arrays::array_of,
    view::job::holds::{holder, named, said},
};
use proto_model::{Authority, JobHold, JobUid, Phase, Reason, ReasonCode};

use crate::{
    context::Step,
    event::{Reply, orders::JobOrder},
};

fn check_reason(reason: &str) -> Result<(), CoreError> {
    if reason.len() <= JobHold::MAX_REASON {
        return Ok(());
    }
    let message = format!("must be at most {} bytes long", JobHold::MAX_REASON);
    Err(CoreError::Invalid { field: "reason", message })
}

impl Step<'_> {
    /// Holds the jobs that a name means. A single job that has ended is refused; elements that have are left out. (Were one that runs refused,
    /// a late copy of the request could hold it when it is queued again, after its client has given up and released it.)
    pub(crate) fn hold_job(&mut self, order: &JobOrder, reason: &str) -> Result<Reply, CoreError> {
        self.each_alive(order, reason, |step, uid| step.hold_one(uid, &order.by, reason, false))
    }

    /// The same, and what runs is stopped for it: it waits, held, until it is released.
    pub(crate) fn suspend_job(&mut self, order: &JobOrder, reason: &str) -> Result<Reply, CoreError> {
        let message =
            format!("the job is suspended by {}{}", named(order.by.role, &order.by.user), said(reason));
        self.each_alive(order, reason, |step, uid| {
            step.hold_one(uid, &order.by, reason, true);
            step.stop_on_request(uid, ReasonCode::SuspendRequested, &message);
        })
    }

    /// Stops the jobs that a name means; they are queued again at once. Those that wait stay as they are. (Were they refused, a late copy of
    /// the request could stop an attempt that begins later.)
    pub(crate) fn requeue_job(&mut self, order: &JobOrder, reason: &str) -> Result<Reply, CoreError> {
        let who = named(order.by.role, &order.by.user);
        let message = format!("{who} has asked for the job to be queued again{}", said(reason));
        self.each_alive(order, reason, |step, uid| {
            step.stop_on_request(uid, ReasonCode::RequeueRequested, &message)
        })
    }

    /// Does something to the jobs that a name means and that have not ended.
    fn each_alive(
        &mut self,
        order: &JobOrder,
        reason: &str,
        change: impl Fn(&mut Self, JobUid),
    ) -> Result<Reply, CoreError> {
        check_reason(reason)?;
        if let Some(reply) = self.repeated_order(order)? {
            return Ok(reply);
        }
        let uids = self.state.changeable(&order.id, &order.indices, Some(&order.by))?;
        let alive = |entry: &JobEntry| !entry.job.status.phase.is_terminal();
        let mut first = None;
        for uid in &uids {
            if self.state.base.jobs.get(uid).is_some_and(alive) {
                change(self, *uid);
                first = first.or(Some(*uid));
            }
        }
        let Some(first) = first else {
            let phase = uids.first().and_then(|uid| self.entry(*uid)).map(|entry| entry.job.status.phase);
            let id = order.id.clone();
            return Err(match phase {
                Some(phase) if uids.len() == 1 => CoreError::JobEnded { id, phase },
                Some(_) => CoreError::ElementsEnded { id },
                None => CoreError::JobNotFound { id },
            });
        };
        self.reply_to(order, first)
    }

    /// Ends its attempt, if it has one, as if another job needed the place.
    fn stop_on_request(&mut self, uid: JobUid, code: ReasonCode, message: &str) {
        let Some(entry) = self.entry(uid) else { return };
        let (grace, signal) = (entry.job.spec.stop_grace(), entry.job.spec.preemption.signal);
        self.preempt(uid, Reason::new(code, message.to_owned()), (grace, signal), Vec::new());
    }

    /// Holds a job that has not ended. What was suspended stays so.
    pub(crate) fn hold_one(&mut self, uid: JobUid, by: &Authority, reason: &str, suspended: bool) {
        let Some(mut entry) = self.entry(uid) else { return };
        let own = entry.job.status.holds.iter().find(|hold| hold.role == by.role);
        let suspended = suspended || own.is_some_and(|hold| hold.suspended);
        if own.is_some_and(|hold| hold.reason == reason && hold.suspended == suspended) {
            return;
        }
        let (user, reason) = (by.user.clone(), reason.to_owned());
        let hold = JobHold { role: by.role, by: user, reason, since: self.now, suspended };
        self.change(&mut entry, |status| {
            status.holds.retain(|other| other.role != hold.role);
            status.holds.push(hold);
            status.holds.sort_by_key(|hold| hold.role);
        });
        if entry.job.status.phase != Phase::Pending {
            self.state.set_job(uid, Some(entry));
            return;
        }
        let turn = array_of(&entry.job).map(|(id, _)| id).filter(|_| !entry.held);
        entry.held = true;
        self.state.set_job(uid, Some(entry));
        self.check_hold(uid);
        // It may have been the one that others waited behind.
        self.request_scheduling_pass();
        if let Some(array) = turn {
            self.wake_element(&array);
        }
    }

    /// Holds a job that is being submitted, for its submitter.
    pub(crate) fn hold_on_submit(&mut self, entry: &mut JobEntry, hold: bool) {
        let Some(by) = entry.job.status.submitter.clone().filter(|_| hold) else { return };
        let hold =
            JobHold { role: by.role, by: by.user, reason: String::new(), since: self.now, suspended: false };
        self.change(entry, |status| status.holds.push(hold));
    }

    /// Lets the jobs that a name means go, as far as who asks may.
    pub(crate) fn release_job(&mut self, order: &JobOrder) -> Result<Reply, CoreError> {
        if let Some(reply) = self.repeated_order(order)? {
            return Ok(reply);
        }
        let (mut first, mut above) = (None, None);
        for uid in self.state.changeable(&order.id, &order.indices, Some(&order.by))? {
            let Some(mut entry) = self.entry(uid) else { continue };
            let (yields, stays): (Vec<JobHold>, Vec<JobHold>) =
                entry.job.status.holds.iter().cloned().partition(|hold| order.by.role.overrules(hold.role));
            if yields.is_empty() && !stays.is_empty() {
                above = above.or_else(|| stays.first().map(|hold| (Arc::clone(&entry.job), hold.clone())));
                continue;
            }
            first = first.or(Some(uid));
            if !yields.is_empty() {
                self.change(&mut entry, |status| status.holds = stays);
                self.state.set_job(uid, Some(entry));
                self.check_hold(uid);
            }
        }
        match (first, above) {
            (Some(first), _) => self.reply_to(order, first),
            (None, Some((job, hold))) => {
                Err(CoreError::HeldAbove { id: job.id.clone(), by: holder(&hold), role: hold.role })
            }
            (None, None) => Err(CoreError::JobNotFound { id: order.id.clone() }),
        }
    }

    /// Why none of the jobs that were meant can be changed.
    pub(crate) fn not_waiting(&self, order: &JobOrder, uids: &[JobUid]) -> CoreError {
        let phase =
            uids.first().and_then(|uid| self.state.base.jobs.get(uid)).map(|entry| entry.job.status.phase);
        match phase {
            Some(phase) if uids.len() == 1 => CoreError::JobNotWaiting { id: order.id.clone(), phase },
            Some(_) => CoreError::NoElementWaits { id: order.id.clone() },
            None => CoreError::JobNotFound { id: order.id.clone() },
        }
    }

    /// A change with this id was made already: the job as it is now.
    pub(crate) fn repeated_order(&self, order: &JobOrder) -> Result<Option<Reply>, CoreError> {
        let Some(asked) = &order.asked else { return Ok(None) };
        let known = self.repeated(&order.id.tenant, &asked.request, &asked.digest)?;
        if known.is_none() && self.state.base.requests.len() >= self.state.config.max_requests {
            return Err(self.state.full_of_requests());
        }
        Ok(known)
    }

    /// The answer to a change, which is remembered under its id.
    pub(crate) fn reply_to(&mut self, order: &JobOrder, first: JobUid) -> Result<Reply, CoreError> {
        let entry = self.entry(first).ok_or_else(|| CoreError::JobNotFound { id: order.id.clone() })?;
        if let Some(asked) = order.asked.clone() {
            let tenant = order.id.tenant.clone();
            self.remember_request(tenant, asked.request, asked.digest, first, entry.job.id.clone());
        }
        Ok(Reply::Job { job: entry.job, existed: true })
    }
}
