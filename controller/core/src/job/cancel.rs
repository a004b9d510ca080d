//! Cancelling and removing jobs, alone or as an array or a part of it.

use std::{sync::Arc, time::Duration};

use controller_state::{CoreError, Outcome};
use proto_model::{Authority, Job, JobId, JobUid, Phase, Reason, ReasonCode};

use crate::{context::Step, event::Reply};

impl Step<'_> {
    /// Ends the jobs that a name means; those that have ended already stay as they are.
    pub(crate) fn cancel(
        &mut self,
        id: &JobId,
        indices: &[u32],
        grace: Option<Duration>,
        by: Option<&Authority>,
    ) -> Result<Reply, CoreError> {
        let mut first = None;
        for uid in self.state.changeable(id, indices, by)? {
            let job = self.cancel_one(uid, grace);
            first = first.or(job);
        }
        let job = first.ok_or_else(|| CoreError::JobNotFound { id: id.clone() })?;
        Ok(Reply::Job { job, existed: true })
    }

    pub(crate) fn cancel_one(&mut self, uid: JobUid, grace: Option<Duration>) -> Option<Arc<Job>> {
        let mut entry = self.entry(uid)?;
        let job = Arc::clone(&entry.job);
        if job.status.phase.is_terminal() {
            return Some(job);
        }
        let cause =
            Reason::new(ReasonCode::CancelRequested, "the job was cancelled on request").since(self.now);
        if !job.status.cancel_requested {
            self.change(&mut entry, |status| status.cancel_requested = true);
        }
        if job.status.phase == Phase::Pending {
            self.enter(&mut entry, Phase::Cancelled);
            self.change(&mut entry, |status| status.reasons = vec![cause]);
            (entry.due, entry.held) = (None, false);
            self.state.set_job(uid, Some(entry));
            // It may have been the one that others waited behind.
            self.request_scheduling_pass();
        } else {
            self.state.set_job(uid, Some(entry));
            let grace = grace.unwrap_or(job.spec.grace_period);
            self.end_attempt(uid, Outcome::Cancel, grace, vec![cause]);
        }
        Some(job)
    }

    /// Removes the jobs that a name means: all of them must have ended, and nobody may wait for them.
    pub(crate) fn delete_job(
        &mut self,
        id: &JobId,
        indices: &[u32],
        by: Option<&Authority>,
    ) -> Result<Reply, CoreError> {
        let uids = self.state.changeable(id, indices, by)?;
        for uid in &uids {
            let Some(entry) = self.state.base.jobs.get(uid) else { continue };
            let (job, phase) = (&entry.job, entry.job.status.phase);
            if !phase.is_terminal() {
                return Err(CoreError::JobActive { id: job.id.clone(), phase });
            }
            if let Some(by) = self.state.needed_by(job) {
                return Err(CoreError::JobNeeded { id: job.id.clone(), by: by.clone() });
            }
        }
        for uid in uids {
            self.state.set_job(uid, None);
        }
        Ok(Reply::Done)
    }
}
