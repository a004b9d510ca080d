//! Bytes of a job outside its priority: where nobody sees them the job runs in a lossy class, and hangs one day.
//!
//! What the network stack sends itself is not RDMA and is taken off, where the device lets the stack count only its own.

use std::time::Duration;

use crate::{
    condition::{DetectorResult, Evidence, Fact, Finding, Severity},
    judge::Step,
    layout::Priorities,
    limits::Limits,
};

const SOURCE: &str = "0.1 % of a job's bytes";
static ALL_OUT: Fact = Fact {
    id: "WrongPrioritySent",
    what: "share of bytes sent outside the job's priority",
    unit: "",
    source: SOURCE,
    hint: "its queue pairs have no traffic class (NCCL_IB_TC unset, or queue pairs made by a device, which no default \
           reaches)",
};
static SOME_OUT: Fact = Fact {
    id: "WrongPriorityControl",
    what: "share of bytes sent outside the job's priority",
    unit: "",
    source: SOURCE,
    hint: "some of its queue pairs have another traffic class: control messages (NCCL_IB_FIFO_TC), or one of several \
           libraries",
};
static ALL_IN: Fact = Fact {
    id: "WrongPriorityReceived",
    what: "share of bytes received outside the job's priority",
    unit: "",
    source: SOURCE,
    hint: "a peer sends them so, or the leaf maps their DSCP to another priority: compare the peers' traffic class \
           and the leaf's map",
};
/// The facts that this detector can find.
pub(crate) const FACTS: [&Fact; 3] = [&ALL_OUT, &SOME_OUT, &ALL_IN];

/// What two seconds are worth of, decaying.
const TAU_MS: f64 = 2000.0;

/// The bytes of the last seconds, by direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PriorityWindow {
    tx: Side,
    rx: Side,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Side {
    inside: f64,
    outside: f64,
    wrong_ms: u64,
    /// The stack's count has RDMA in it on this device, so it is of no use.
    stack_has_all: bool,
}

/// Which priorities are a job's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The priority of the job's RDMA data.
    pub lossless: u8,
    /// The priority of congestion notification packets (CNPs).
    pub cnp: u8,
}

impl PriorityWindow {
    /// What one more sample says while a job has the rail.
    pub fn check(&mut self, step: &Step<'_>, wanted: Wanted, limits: &Limits) -> DetectorResult {
        let facts = |share: f64| if share > 0.5 { &ALL_OUT } else { &SOME_OUT };
        let sent = self.tx.check(step, step.layout.tx(), wanted, limits, &facts);
        let received = self.rx.check(step, step.layout.rx(), wanted, limits, &|_| &ALL_IN);
        match (step.layout.tx().is_split(), step.layout.rx().is_split()) {
            (true, true) => sent.half(received),
            _ => sent.and(received),
        }
    }

    /// No job has the rail: nobody's data class is wrong.
    pub fn rest(&mut self) {
        for side in [&mut self.tx, &mut self.rx] {
            *side = Side { stack_has_all: side.stack_has_all, ..Side::default() };
        }
    }
}

impl Side {
    fn check(
        &mut self,
        step: &Step<'_>,
        priorities: &Priorities,
        wanted: Wanted,
        limits: &Limits,
        fact: &dyn Fn(f64) -> &'static Fact,
    ) -> DetectorResult {
        let Some((inside, outside)) = self.split(step, priorities, wanted) else {
            return DetectorResult::Unknown;
        };
        let keep = (-(step.elapsed_ms as f64) / TAU_MS).exp();
        self.inside = self.inside * keep + inside;
        self.outside = self.outside * keep + outside;
        let share = self.outside / (self.inside + self.outside).max(1.0);
        let floor = limits.priority_floor * TAU_MS.max(step.elapsed_ms as f64) / 1000.0;
        let wrong = share > limits.priority_share && self.outside > floor;
        self.wrong_ms = if wrong { self.wrong_ms.saturating_add(step.elapsed_ms) } else { 0 };
        if wrong && Duration::from_millis(self.wrong_ms + 250) >= limits.priority_for {
            let over = Duration::from_millis(self.wrong_ms);
            let evidence = Evidence { fact: fact(share), value: share, limit: limits.priority_share, over };
            DetectorResult::Bad(Finding { severity: Severity::Degraded, evidence })
        } else if wrong {
            DetectorResult::Unknown
        } else {
            DetectorResult::Good
        }
    }

    /// Bytes inside and outside the job's priorities.
    fn split(&mut self, step: &Step<'_>, priorities: &Priorities, wanted: Wanted) -> Option<(f64, f64)> {
        let (mut inside, mut outside) = (0_u64, 0_u64);
        for (priority, place) in priorities.by_priority.iter().enumerate() {
            let bytes = step.rate_at((*place)?)?;
            if priority == usize::from(wanted.lossless) {
                inside = inside.saturating_add(bytes);
            } else if priority != usize::from(wanted.cnp) {
                outside = outside.saturating_add(bytes);
            }
        }
        // Without the stack's count its own traffic would be a job's.
        if let Some(place) = priorities.stack {
            let stack = step.rate_at(place)?;
            // Only where the job's bytes are most of all: else it is the host's own storage, say, that the stack counts.
            if inside > 10_000_000 && inside >= outside {
                self.stack_has_all = stack as f64 >= inside.saturating_add(outside) as f64 * 0.9;
            }
            if !self.stack_has_all {
                // The device counts 4 bytes of checksum a packet more than the stack does.
                outside = outside.saturating_sub(stack.saturating_add(stack / 16));
            }
        }
        Some((inside as f64, outside as f64))
    }
}
