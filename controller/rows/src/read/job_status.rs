//! Jobs: what was seen of them.

use std::sync::Arc;

use proto_model::{
    Authority, JobHold, JobStatus, NodeName, PastAttempt, Phase, RailBytes, RankExit, RankUsage, RunResult,
};

use super::{duration_from_row, role_from_row, time_from_row};
use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

/// A phase, at the field `phase` of a row.
pub(super) fn phase(fields: &mut Fields, number: i32) -> Option<Phase> {
    use v1::job_status::Phase as S;
    let phase = match S::try_from(number) {
        Ok(S::Pending) => Some(Phase::Pending),
        Ok(S::Reserved) => Some(Phase::Reserved),
        Ok(S::Preparing) => Some(Phase::Preparing),
        Ok(S::Running) => Some(Phase::Running),
        Ok(S::Recovering) => Some(Phase::Recovering),
        Ok(S::Completed) => Some(Phase::Completed),
        Ok(S::Failed) => Some(Phase::Failed),
        Ok(S::Cancelled) => Some(Phase::Cancelled),
        Ok(S::Unspecified) | Err(_) => None,
    };
    fields.take("phase", phase.ok_or(format!("{number} is none that this release knows")))
}

impl TryFrom<v1::RankExit> for RankExit {
    type Error = FieldErrors;

    fn try_from(row: v1::RankExit) -> Result<Self, FieldErrors> {
        let time = time_from_row(row.time.unwrap_or_default())?;
        let cpu = row.cpu_time.map(duration_from_row).transpose()?;
        let usage = RankUsage { cpu, memory_peak: row.memory_peak_bytes };
        Ok(Self { rank: row.rank, code: row.code, signal: row.signal, time, usage })
    }
}

impl From<v1::RailBytes> for RailBytes {
    fn from(row: v1::RailBytes) -> Self {
        Self { rail: row.rail, tx_bytes: row.tx_bytes, rx_bytes: row.rx_bytes }
    }
}

impl From<v1::CollectiveResult> for RunResult {
    fn from(row: v1::CollectiveResult) -> Self {
        Self {
            ranks: row.ranks,
            bytes: row.bytes,
            iterations: row.iterations,
            time_us_min: row.time_us_min,
            time_us_median: row.time_us_median,
            time_us_max: row.time_us_max,
            alg_bw_gbps: row.alg_bw_gbps,
            bus_bw_gbps: row.bus_bw_gbps,
            verified: row.verified,
            mismatches: row.mismatches,
            rails: row.rails.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::Submitter> for Authority {
    type Error = FieldErrors;

    fn try_from(row: v1::Submitter) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let role = fields.nest("role", role_from_row(row.role));
        fields.finish(role.map(|role| Self { role, user: row.user }))
    }
}

impl TryFrom<v1::JobHold> for JobHold {
    type Error = FieldErrors;

    fn try_from(row: v1::JobHold) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let role = fields.nest("role", role_from_row(row.role));
        let since = fields.nest("since", time_from_row(row.since.unwrap_or_default()));
        let hold = role.zip(since);
        fields.finish(hold.map(|(role, since)| Self {
            role,
            by: row.by,
            reason: row.reason,
            since,
            suspended: row.suspended,
        }))
    }
}

impl TryFrom<v1::PastAttempt> for PastAttempt {
    type Error = FieldErrors;

    fn try_from(row: v1::PastAttempt) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let started = row.start_time.and_then(|time| fields.nest("startTime", time_from_row(time)));
        let ended = fields.nest("endTime", time_from_row(row.end_time.unwrap_or_default()));
        let reasons = fields.list("reasons", row.reasons);
        let exits = fields.list("exits", row.exits);
        let mut nodes = Vec::new();
        for (at, name) in row.nodes.iter().enumerate() {
            match NodeName::new(name) {
                Ok(name) => nodes.push(name),
                Err(error) => fields.fail(&format!("nodes[{at}]"), error.to_string()),
            }
        }
        let attempt = row.attempt;
        fields.finish(ended.map(|ended| Self { attempt, started, ended, reasons, exits, nodes }))
    }
}

impl TryFrom<v1::JobStatus> for JobStatus {
    type Error = FieldErrors;

    fn try_from(row: v1::JobStatus) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let phase = phase(&mut fields, row.phase);
        let placement = row.placement.and_then(|row| fields.nest("placement", row.try_into()));
        let submitted = fields.nest("submitTime", time_from_row(row.submit_time.unwrap_or_default()));
        let started = row.start_time.and_then(|time| fields.nest("startTime", time_from_row(time)));
        let ended = row.end_time.and_then(|time| fields.nest("endTime", time_from_row(time)));
        let reasons = fields.list("reasons", row.reasons);
        let exits = fields.list("exits", row.exits);
        let holds = fields.list("holds", row.holds);
        let array = row.array.and_then(|array| fields.nest("array", array.try_into()));
        let eta = row.eta.and_then(|eta| fields.nest("eta", eta.try_into()));
        let submitter = row.submitter.and_then(|row| fields.nest("submitter", row.try_into()));
        let schedule = row.schedule.and_then(|row| fields.nest("schedule", row.try_into()));
        let past_attempts = fields.list("pastAttempts", row.past_attempts);
        let status = phase.zip(submitted).map(|(phase, submitted)| Self {
            phase,
            reasons,
            placement: placement.map(Arc::new),
            attempt: row.attempt,
            submitted,
            started,
            ended,
            exits,
            result: row.result.map(Into::into),
            trace_parent: row.trace_parent,
            cancel_requested: row.cancel_requested,
            array,
            preempted: row.preempted,
            restarts: row.restarts,
            replaced: row.replaced,
            eta,
            holds,
            submitter,
            schedule,
            past_attempts: past_attempts.into_iter().map(Arc::new).collect(),
        });
        fields.finish(status)
    }
}
