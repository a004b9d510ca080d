//! Jobs that somebody holds: while they wait they keep their place in the queue and do not start until all who hold them have let go. One
//! that runs goes on, and is held if it is queued again.

use std::sync::Arc;

use proto_model::{Authority, Job, JobHold, JobUid, Phase, Reason, Role};

use crate::{arrays::array_of, error::CoreError, event::Reply, orders::JobOrder, step::Step};

/// The code of a cause: who holds the job.
fn code(role: Role) -> &'static str {
    match role {
        Role::Admin => "HeldByAdministrator",
        Role::TenantAdmin => "HeldByTenantAdministrator",
        Role::User | Role::Viewer | Role::Node => "HeldByUser",
    }
}

/// Who it is that holds it, in words.
pub(crate) fn holder(hold: &JobHold) -> String {
    match hold.role {
        Role::Admin => format!("administrator '{}'", hold.by),
        Role::TenantAdmin => format!("'{}', an administrator of its tenant", hold.by),
        Role::User | Role::Viewer | Role::Node => format!("user '{}'", hold.by),
    }
}

/// Why a job that somebody holds does not start.
pub(crate) fn causes(job: &Job) -> impl Iterator<Item = Reason> + '_ {
    job.status.holds.iter().map(|hold| {
        let reason = if hold.reason.is_empty() { String::new() } else { format!(" ({})", hold.reason) };
        let (who, name) = (holder(hold), &job.id.name);
        let message = format!("held by {who}{reason}; `railctl release job {name}` lets it go on");
        Reason::new(code(hold.role), message).since(hold.since)
    })
}

impl Step<'_> {
    /// Holds the jobs that a name means. A single job that has ended is refused; elements that have are left out. (Were one that runs refused,
    /// a late copy of the request could hold it when it is queued again, after its client has given up and released it.)
    pub(crate) fn hold_job(&mut self, order: &JobOrder, reason: &str) -> Result<Reply, CoreError> {
        if reason.len() > JobHold::MAX_REASON {
            let message = format!("must be at most {} bytes long", JobHold::MAX_REASON);
            return Err(CoreError::Invalid { field: "reason", message });
        }
        if let Some(reply) = self.repeated_order(order)? {
            return Ok(reply);
        }
        let uids = self.state.selected(&order.id, &order.indices)?;
        let mut first = None;
        for uid in &uids {
            if self.hold_one(*uid, &order.by, reason) {
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

    /// True if it has not ended.
    fn hold_one(&mut self, uid: JobUid, by: &Authority, reason: &str) -> bool {
        let Some(mut entry) = self.entry(uid).filter(|entry| !entry.job.status.phase.is_terminal()) else {
            return false;
        };
        let known = entry.job.status.holds.iter().any(|hold| hold.role == by.role && hold.reason == reason);
        if known {
            return true;
        }
        let hold = JobHold { role: by.role, by: by.user.clone(), reason: reason.to_owned(), since: self.now };
        self.change(&mut entry, |status| {
            status.holds.retain(|other| other.role != hold.role);
            status.holds.push(hold);
            status.holds.sort_by_key(|hold| hold.role);
        });
        if entry.job.status.phase != Phase::Pending {
            self.state.set_job(uid, Some(entry));
            return true;
        }
        let turn = array_of(&entry.job).map(|(id, _)| id).filter(|_| !entry.held);
        entry.held = true;
        self.state.set_job(uid, Some(entry));
        self.look_at_hold(uid);
        // It may have been the one that others waited behind.
        self.freed();
        if let Some(array) = turn {
            self.wake_element(&array);
        }
        true
    }

    /// Lets the jobs that a name means go, as far as who asks may.
    pub(crate) fn release_job(&mut self, order: &JobOrder) -> Result<Reply, CoreError> {
        if let Some(reply) = self.repeated_order(order)? {
            return Ok(reply);
        }
        let (mut first, mut above) = (None, None);
        for uid in self.state.selected(&order.id, &order.indices)? {
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
                self.look_at_hold(uid);
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
