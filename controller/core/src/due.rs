//! What is due: deadlines of jobs, silence of nodes, records that expire.

use std::{sync::Arc, time::Duration};

use controller_state::{
    Blame, CoreError, Due, JobEntry, Outcome, RequestRecord, Tally, TokenRecord, gang, gang_size,
};
use proto_model::{
    Job, JobId, JobName, JobUid, Observed, Phase, Reason, ReasonCode, TenantName, Timestamp, Work,
};

use crate::{context::Step, event::Reply};

/// Why a job that waits has failed.
fn too_late(job: &Job) -> Reason {
    let spec = &job.spec;
    match (spec.start_before, spec.latest_start()) {
        (Some(before), Some(latest)) if before <= latest => {
            Reason::new(ReasonCode::StartTooLate, format!("the job was to start before {}", before.utc()))
        }
        (_, latest) => {
            let takes = spec.time_limit.or(spec.expected).unwrap_or_default().as_secs();
            let deadline = spec.deadline.or(latest).unwrap_or_default().utc();
            let message =
                format!("the job takes {takes} s and was to end before {deadline}: it is too late to start");
            Reason::new(ReasonCode::DeadlinePassed, message)
        }
    }
}

/// Nodes named in one cause.
const NODES_NAMED: usize = 4;

impl Step<'_> {
    pub(crate) fn tick(&mut self) -> Result<Reply, CoreError> {
        let mut handled = 0;
        if self.state.base.schedule.check.is_some_and(|check| check <= self.now) {
            self.request_scheduling_pass();
        }
        if self.state.base.qos_check.is_some_and(|check| check <= self.now) {
            self.check_qos();
        }
        if self.state.base.switch_check.is_some_and(|check| check <= self.now) {
            self.check_switches();
        }
        if self.state.base.prove_check.is_some_and(|check| check <= self.now) {
            self.check_proofs();
        }
        while handled < self.state.config.due_limit {
            let Some((time, due)) = self.state.index.due.first().cloned() else { break };
            if time > self.now {
                break;
            }
            match due {
                Due::Job(uid) => self.job_due(uid),
                Due::LatestStart(uid) => self.too_late(time, uid),
                Due::Node(name) => self.node_due(&name),
                Due::Schedule(tenant, name) => {
                    self.schedule_due(&(tenant, name));
                    // Its writes are many enough for one step.
                    handled += 1;
                    break;
                }
            }
            handled += 1;
        }
        if handled == 0 {
            self.purge();
        }
        Ok(Reply::Done)
    }

    /// A waiting job can no longer start in time.
    fn too_late(&mut self, time: Timestamp, uid: JobUid) {
        let waits = |entry: &JobEntry| entry.job.status.phase == Phase::Pending;
        let Some(mut entry) = self.entry(uid).filter(waits) else {
            // It was looked at again later than it said, and has gone on since.
            self.state.index.due.remove(&(time, Due::LatestStart(uid)));
            return;
        };
        let cause = too_late(&entry.job).since(self.now);
        self.enter(&mut entry, Phase::Failed);
        self.change(&mut entry, |status| status.reasons = vec![cause]);
        (entry.due, entry.held) = (None, false);
        self.state.index.due.remove(&(time, Due::LatestStart(uid)));
        self.state.set_job(uid, Some(entry));
        // It may have been the one that others waited behind.
        self.request_scheduling_pass();
    }

    fn job_due(&mut self, uid: JobUid) {
        let Some(mut entry) = self.entry(uid) else { return };
        entry.due = None;
        let status = &entry.job.status;
        let (phase, started) = (status.phase, status.started);
        let limit = entry.job.spec.time_limit;
        let config = &self.state.config;
        let (prepare, start) = (config.prepare_timeout, config.start_timeout);
        match phase {
            Phase::Pending if entry.held => {
                self.state.set_job(uid, Some(entry));
                self.check_hold(uid);
            }
            Phase::Pending => {
                self.state.set_job(uid, Some(entry));
                self.request_scheduling_pass();
            }
            Phase::Reserved | Phase::Preparing => {
                self.state.set_job(uid, Some(entry.clone()));
                let cause = self.late(
                    &entry,
                    ReasonCode::PrepareTimeout,
                    "did not get its engine ready",
                    prepare,
                    |tally| tally.prepared,
                );
                self.fail(uid, Blame::Infrastructure, vec![cause]);
            }
            Phase::Running if started.is_none() => self.start_due(uid, entry, start),
            Phase::Running => {
                self.state.set_job(uid, Some(entry.clone()));
                let seconds = limit.unwrap_or_default().as_secs();
                let limited =
                    limit.zip(started).is_some_and(|(limit, started)| started.plus(limit) <= self.now);
                let cause = match entry.job.spec.deadline {
                    Some(deadline) if !limited => {
                        let message = format!("the job still ran at its deadline, {}", deadline.utc());
                        Reason::new(ReasonCode::DeadlinePassed, message)
                    }
                    _ => Reason::new(
                        ReasonCode::TimeLimit,
                        format!("the job has run for its time limit of {seconds} s"),
                    ),
                };
                let cause = cause.since(self.now);
                // To be held for its time is all that an allocation is for.
                let held = matches!(entry.job.spec.work, Work::Allocation(_));
                let outcome = if held { Outcome::Cancel } else { Outcome::Fail };
                self.end_attempt(uid, outcome, entry.job.spec.grace_period, vec![cause]);
            }
            _ => self.state.set_job(uid, Some(entry)),
        }
    }

    /// Not all ranks have started in time. While a node is away nobody knows whether they have: then it is waited for.
    fn start_due(&mut self, uid: JobUid, mut entry: JobEntry, start: Duration) {
        let silent = gang(&entry).any(|(position, node)| {
            let started = self.state.base.views.get(&(uid, position)).is_some_and(|view| view.started);
            !started && self.state.base.links.get(node).is_none_or(|link| link.session.is_none())
        });
        if silent {
            entry.due = Some(self.now.plus(start));
            self.state.set_job(uid, Some(entry));
            return;
        }
        self.state.set_job(uid, Some(entry.clone()));
        if entry.attempt.as_ref().is_some_and(|attempt| !attempt.released) {
            return self.certify(uid, true);
        }
        let cause = self
            .late(&entry, ReasonCode::StartTimeout, "did not start its ranks", start, |tally| tally.started);
        self.fail(uid, Blame::Infrastructure, vec![cause]);
    }

    fn late(
        &self,
        entry: &JobEntry,
        code: ReasonCode,
        what: &str,
        limit: Duration,
        done: fn(&Tally) -> u32,
    ) -> Reason {
        let uid = entry.job.uid;
        let late: Vec<String> = gang(entry)
            .filter(|(position, _)| {
                self.state
                    .base
                    .views
                    .get(&(uid, *position))
                    .is_none_or(|view| view.state != Observed::Ended && done(&view.tally()) == 0)
            })
            .map(|(_, node)| {
                let away = self.state.base.links.get(node).is_none_or(|link| link.session.is_none());
                format!("{node}{}", if away { " (not connected)" } else { "" })
            })
            .collect();
        let more = if late.len() > NODES_NAMED { ", ..." } else { "" };
        let shown = late.iter().take(NODES_NAMED).cloned().collect::<Vec<_>>().join(", ");
        let (count, size) = (late.len(), gang_size(entry));
        let message = format!("{count} of {size} nodes {what} within {} s: {shown}{more}", limit.as_secs());
        Reason::new(code, message).count(count).since(self.now)
    }

    /// Removes a bounded number of expired records, and of jobs and request ids whose tenant is gone.
    fn purge(&mut self) {
        let config = &self.state.config;
        let (limit, retention) = (config.purge_limit, config.request_retention);
        let index = &self.state.index;
        let requests: Vec<_> = index
            .request_times
            .iter()
            .take_while(|(time, ..)| time.plus(retention) <= self.now)
            .take(limit)
            .map(|(_, tenant, request)| (tenant.clone(), request.clone()))
            .collect();
        let left = limit - requests.len();
        let tokens: Vec<[u8; 32]> = index
            .token_times
            .iter()
            .take_while(|(time, _)| *time <= self.now)
            .take(left)
            .map(|(_, hash)| *hash)
            .collect();
        let left = left - tokens.len();
        let orphan =
            index.tenants.keys().find(|tenant| !self.state.base.tenants.contains_key(tenant)).cloned();
        let mut jobs: Vec<JobUid> = orphan.map(|tenant| self.jobs_from(&tenant, left)).unwrap_or_default();
        jobs.extend(self.kept_long_enough(left - jobs.len()));
        let left = left - jobs.len();
        let unowned = self.state.requests_of_removed_tenant(left);
        for key in requests.into_iter().chain(unowned) {
            self.state.remove::<RequestRecord>(&key);
        }
        for hash in tokens {
            self.state.remove::<TokenRecord>(&hash);
        }
        let left = left - self.purge_tombstones(left);
        self.purge_usage(left);
        for uid in jobs {
            self.state.set_job(uid, None);
        }
    }

    /// Jobs that ended longer ago than they are kept. Those that others wait for are looked at again after the same time.
    fn kept_long_enough(&mut self, limit: usize) -> Vec<JobUid> {
        let Some(kept) = self.state.config.ended_retention else { return Vec::new() };
        let old = self.state.index.ended.iter().take_while(|(time, _)| time.plus(kept) <= self.now);
        let old: Vec<(Timestamp, JobUid)> = old.take(limit).copied().collect();
        let mut gone = Vec::new();
        for (time, uid) in old {
            let job = self.state.base.jobs.get(&uid).map(|entry| Arc::clone(&entry.job));
            let job = job.filter(|job| job.status.phase.is_terminal());
            let needed = job.as_ref().is_some_and(|job| self.state.needed_by(job).is_some());
            if job.is_some() && !needed {
                gone.push(uid);
            }
            self.state.index.ended.remove(&(time, uid));
            if needed {
                self.state.index.ended.insert((self.now, uid));
            }
        }
        gone
    }

    fn jobs_from(&self, tenant: &TenantName, limit: usize) -> Vec<JobUid> {
        let Ok(first) = JobName::new("0") else { return Vec::new() };
        let from = JobId { tenant: tenant.clone(), name: first };
        self.state
            .index
            .names
            .range(from..)
            .take_while(|(id, _)| id.tenant == *tenant)
            .take(limit)
            .map(|(_, uid)| *uid)
            .collect()
    }
}
