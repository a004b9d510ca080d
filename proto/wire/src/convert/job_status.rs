//! Jobs: what was seen of them.

use std::sync::Arc;

use proto_model::{
    Authority, JobHold, JobStatus, NodeName, PastAttempt, Phase, RailBytes, RankExit, RankUsage, RunResult,
};

use super::{
    FieldErrors, Fields, common, duration_from_wire, duration_to_wire, role_from_wire, role_to_wire,
    time_from_wire, time_to_wire,
};
use crate::v1;

fn phase_to_wire(phase: Phase) -> v1::job_status::Phase {
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
        phase_to_wire(phase)
    }
}

impl TryFrom<v1::job_status::Phase> for Phase {
    type Error = FieldErrors;

    fn try_from(wire: v1::job_status::Phase) -> Result<Self, FieldErrors> {
        let found = Self::ALL.into_iter().find(|phase| phase_to_wire(*phase) == wire);
        found.ok_or_else(|| FieldErrors::one("", "is not specified"))
    }
}

impl From<&RankExit> for v1::RankExit {
    fn from(exit: &RankExit) -> Self {
        Self {
            rank: exit.rank,
            code: exit.code,
            signal: exit.signal,
            time: Some(time_to_wire(exit.time)),
            cpu_time: exit.usage.cpu.map(duration_to_wire),
            memory_peak_bytes: exit.usage.memory_peak,
        }
    }
}

impl TryFrom<v1::RankExit> for RankExit {
    type Error = FieldErrors;

    fn try_from(wire: v1::RankExit) -> Result<Self, FieldErrors> {
        let time = time_from_wire(wire.time.unwrap_or_default())?;
        let cpu = wire.cpu_time.map(duration_from_wire).transpose()?;
        let usage = RankUsage { cpu, memory_peak: wire.memory_peak_bytes };
        Ok(Self { rank: wire.rank, code: wire.code, signal: wire.signal, time, usage })
    }
}

impl From<&RailBytes> for v1::RailBytes {
    fn from(bytes: &RailBytes) -> Self {
        Self { rail: bytes.rail, tx_bytes: bytes.tx_bytes, rx_bytes: bytes.rx_bytes }
    }
}

impl From<v1::RailBytes> for RailBytes {
    fn from(wire: v1::RailBytes) -> Self {
        Self { rail: wire.rail, tx_bytes: wire.tx_bytes, rx_bytes: wire.rx_bytes }
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

impl From<v1::CollectiveResult> for RunResult {
    fn from(wire: v1::CollectiveResult) -> Self {
        Self {
            ranks: wire.ranks,
            bytes: wire.bytes,
            iterations: wire.iterations,
            time_us_min: wire.time_us_min,
            time_us_median: wire.time_us_median,
            time_us_max: wire.time_us_max,
            alg_bw_gbps: wire.alg_bw_gbps,
            bus_bw_gbps: wire.bus_bw_gbps,
            verified: wire.verified,
            mismatches: wire.mismatches,
            rails: wire.rails.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&Authority> for v1::Submitter {
    fn from(by: &Authority) -> Self {
        Self { role: role_to_wire(by.role).into(), user: by.user.clone() }
    }
}

impl TryFrom<v1::Submitter> for Authority {
    type Error = FieldErrors;

    fn try_from(wire: v1::Submitter) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let role = fields.nest("role", role_from_wire(wire.role));
        fields.finish(role.map(|role| Self { role, user: wire.user }))
    }
}

impl From<&JobHold> for v1::JobHold {
    fn from(hold: &JobHold) -> Self {
        Self {
            role: role_to_wire(hold.role).into(),
            by: hold.by.clone(),
            reason: hold.reason.clone(),
            since: Some(time_to_wire(hold.since)),
            suspended: hold.suspended,
        }
    }
}

impl TryFrom<v1::JobHold> for JobHold {
    type Error = FieldErrors;

    fn try_from(wire: v1::JobHold) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let role = fields.nest("role", role_from_wire(wire.role));
        let since = fields.nest("since", time_from_wire(wire.since.unwrap_or_default()));
        let hold = role.zip(since);
        fields.finish(hold.map(|(role, since)| Self {
            role,
            by: wire.by,
            reason: wire.reason,
            since,
            suspended: wire.suspended,
        }))
    }
}

impl From<&PastAttempt> for v1::PastAttempt {
    fn from(past: &PastAttempt) -> Self {
        Self {
            attempt: past.attempt,
            start_time: past.started.map(time_to_wire),
            end_time: Some(time_to_wire(past.ended)),
            reasons: common::reasons(&past.reasons),
            exits: past.exits.iter().map(Into::into).collect(),
            nodes: past.nodes.iter().map(ToString::to_string).collect(),
        }
    }
}

impl TryFrom<v1::PastAttempt> for PastAttempt {
    type Error = FieldErrors;

    fn try_from(wire: v1::PastAttempt) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let started = wire.start_time.and_then(|time| fields.nest("startTime", time_from_wire(time)));
        let ended = fields.nest("endTime", time_from_wire(wire.end_time.unwrap_or_default()));
        let reasons = fields.list("reasons", wire.reasons);
        let exits = fields.list("exits", wire.exits);
        let mut nodes = Vec::new();
        for (at, name) in wire.nodes.iter().enumerate() {
            match NodeName::new(name) {
                Ok(name) => nodes.push(name),
                Err(error) => fields.fail(&format!("nodes[{at}]"), error.to_string()),
            }
        }
        let attempt = wire.attempt;
        fields.finish(ended.map(|ended| Self { attempt, started, ended, reasons, exits, nodes }))
    }
}

impl From<&JobStatus> for v1::JobStatus {
    fn from(status: &JobStatus) -> Self {
        Self {
            phase: phase_to_wire(status.phase).into(),
            reasons: common::reasons(&status.reasons),
            placement: status.placement.as_deref().map(Into::into),
            attempt: status.attempt,
            submit_time: Some(time_to_wire(status.submitted)),
            start_time: status.started.map(time_to_wire),
            end_time: status.ended.map(time_to_wire),
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

impl TryFrom<v1::JobStatus> for JobStatus {
    type Error = FieldErrors;

    fn try_from(wire: v1::JobStatus) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let phase = fields.nest("phase", wire.phase().try_into());
        let placement = wire.placement.and_then(|wire| fields.nest("placement", wire.try_into()));
        let submitted = fields.nest("submitTime", time_from_wire(wire.submit_time.unwrap_or_default()));
        let started = wire.start_time.and_then(|time| fields.nest("startTime", time_from_wire(time)));
        let ended = wire.end_time.and_then(|time| fields.nest("endTime", time_from_wire(time)));
        let reasons = fields.list("reasons", wire.reasons);
        let exits = fields.list("exits", wire.exits);
        let holds = fields.list("holds", wire.holds);
        let array = wire.array.and_then(|array| fields.nest("array", array.try_into()));
        let eta = wire.eta.and_then(|eta| fields.nest("eta", eta.try_into()));
        let submitter = wire.submitter.and_then(|wire| fields.nest("submitter", wire.try_into()));
        let schedule = wire.schedule.and_then(|wire| fields.nest("schedule", wire.try_into()));
        let past_attempts = fields.list("pastAttempts", wire.past_attempts);
        let status = phase.zip(submitted).map(|(phase, submitted)| Self {
            phase,
            reasons,
            placement: placement.map(Arc::new),
            attempt: wire.attempt,
            submitted,
            started,
            ended,
            exits,
            result: wire.result.map(Into::into),
            trace_parent: wire.trace_parent,
            cancel_requested: wire.cancel_requested,
            array,
            preempted: wire.preempted,
            restarts: wire.restarts,
            replaced: wire.replaced,
            eta,
            holds,
            submitter,
            schedule,
            past_attempts: past_attempts.into_iter().map(Arc::new).collect(),
        });
        fields.finish(status)
    }
}
