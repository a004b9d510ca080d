//! Jobs: what was seen of them.

use proto_model::{Authority, JobHold, JobStatus, PastAttempt, Phase, RailBytes, RankExit, RunResult};

use super::{common, duration_to_row, role_to_row, time_to_row};
use crate::v1;

fn phase_to_row(phase: Phase) -> v1::job_status::Phase {
    use v1::job_status::Phase as W;
    match phase {
        Phase::Pending => W::Pending,
        Phase::Reserved => W::Reserved,
        Phase::Preparing => W::Preparing,
        Phase::Running => W::Running,
        Phase::Recovering => W::Recovering,
        Phase::Completed => W::Completed,
        Phase::Failed => W::Failed,
        Phase::Cancelled => W::Cancelled,
    }
}

impl From<Phase> for v1::job_status::Phase {
    fn from(phase: Phase) -> Self {
        phase_to_row(phase)
    }
}

impl From<&RankExit> for v1::RankExit {
    fn from(exit: &RankExit) -> Self {
        Self {
            rank: exit.rank,
            code: exit.code,
            signal: exit.signal,
            time: Some(time_to_row(exit.time)),
            cpu_time: exit.usage.cpu.map(duration_to_row),
            memory_peak_bytes: exit.usage.memory_peak,
        }
    }
}

impl From<&RailBytes> for v1::RailBytes {
    fn from(bytes: &RailBytes) -> Self {
        Self { rail: bytes.rail, tx_bytes: bytes.tx_bytes, rx_bytes: bytes.rx_bytes }
    }
}

impl From<&RunResult> for v1::CollectiveResult {
    fn from(result: &RunResult) -> Self {
        Self {
            ranks: result.ranks,
            bytes: result.bytes,
            iterations: result.iterations,
            time_us_min: result.time_us_min,
            time_us_median: result.time_us_median,
            time_us_max: result.time_us_max,
            alg_bw_gbps: result.alg_bw_gbps,
            bus_bw_gbps: result.bus_bw_gbps,
            verified: result.verified,
            mismatches: result.mismatches,
            rails: result.rails.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Authority> for v1::Submitter {
    fn from(by: &Authority) -> Self {
        Self { role: role_to_row(by.role).into(), user: by.user.clone() }
    }
}

impl From<&JobHold> for v1::JobHold {
    fn from(hold: &JobHold) -> Self {
        Self {
            role: role_to_row(hold.role).into(),
            by: hold.by.clone(),
            reason: hold.reason.clone(),
            since: Some(time_to_row(hold.since)),
            suspended: hold.suspended,
        }
    }
}

impl From<&PastAttempt> for v1::PastAttempt {
    fn from(past: &PastAttempt) -> Self {
        Self {
            attempt: past.attempt,
            start_time: past.started.map(time_to_row),
            end_time: Some(time_to_row(past.ended)),
            reasons: common::reasons(&past.reasons),
            exits: past.exits.iter().map(Into::into).collect(),
            nodes: past.nodes.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<&JobStatus> for v1::JobStatus {
    fn from(status: &JobStatus) -> Self {
        Self {
            phase: phase_to_row(status.phase).into(),
            reasons: common::reasons(&status.reasons),
            placement: status.placement.as_deref().map(Into::into),
            attempt: status.attempt,
            submit_time: Some(time_to_row(status.submitted)),
            start_time: status.started.map(time_to_row),
            end_time: status.ended.map(time_to_row),
            exits: status.exits.iter().map(Into::into).collect(),
            result: status.result.as_ref().map(Into::into),
            trace_parent: status.trace_parent.clone(),
            cancel_requested: status.cancel_requested,
            array: status.array.as_ref().map(Into::into),
            preempted: status.preempted,
            restarts: status.restarts,
            replaced: status.replaced,
            eta: status.eta.map(Into::into),
            holds: status.holds.iter().map(Into::into).collect(),
            submitter: status.submitter.as_ref().map(Into::into),
            schedule: status.schedule.as_ref().map(Into::into),
            past_attempts: status.past_attempts.iter().map(|past| past.as_ref().into()).collect(),
        }
    }
}
