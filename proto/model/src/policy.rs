//! What a job wants done: before it starts, when others need its place, and when something fails.

use std::time::Duration;

use crate::{JobName, Promise, Timestamp};

/// One job that waits for another of its tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// The other; an array stands for all its elements.
    pub job: JobName,
    /// The state that it must have reached.
    pub when: DependencyWhen,
}

word!(
    /// The state that a job must have reached before another may start.
    DependencyWhen {
        /// It has completed: all ranks of it ended well.
        Succeeded = "succeeded",
        /// It has ended, in whatever phase.
        Ended = "ended",
        /// It has started, or has ended after it had.
        Started = "started",
        /// It ended in phase `Failed`.
        Failed = "failed",
    }
);

/// How a job may be stopped for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preemption {
    /// Whether a job of higher priority may take its place. A job on borrowed quota gives back what was lent whatever
    /// it says here.
    pub preemptible: bool,
    /// Between the signal and SIGKILL; `None`: the job's grace period.
    pub grace: Option<Duration>,
    /// The signal that its ranks get first, by Linux number.
    pub signal: i32,
    /// It saves its work so often: no more than this is lost. `None`: all that was done since its start.
    pub checkpoint_every: Option<Duration>,
    /// What a restart costs beside the lost work; `None`: not known.
    pub restart_cost: Option<Duration>,
}

impl Preemption {
    /// Number of SIGTERM on Linux.
    pub const SIGTERM: i32 = 15;

    /// The default for a job of this priority: below 0 it may be stopped, by SIGTERM and its grace period.
    #[must_use]
    pub fn of_priority(priority: i32) -> Self {
        Self {
            preemptible: priority < 0,
            grace: None,
            signal: Self::SIGTERM,
            checkpoint_every: None,
            restart_cost: None,
        }
    }
}

/// What to do when an attempt fails, or something of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailurePolicy {
    /// When a failed attempt is followed by another.
    pub requeue: Requeue,
    /// How often the job may be queued again.
    pub max_restarts: u32,
    /// Where another node for a failed one comes from.
    pub replace: Replace,
    /// Nodes replaced at most, over the whole life of the job.
    pub max_replacements: u32,
    /// What to do when a rail is lost.
    pub on_rail_loss: RailLoss,
}

impl FailurePolicy {
    /// Queued again so and so often at most; nodes are not replaced, and a lost rail is done without.
    #[must_use]
    pub fn new(requeue: Requeue, max_restarts: u32) -> Self {
        Self {
            requeue,
            max_restarts,
            replace: Replace::Never,
            max_replacements: 0,
            on_rail_loss: RailLoss::Continue,
        }
    }
}

/// When a failed job is queued again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// A failed job is not queued again.
    Never,
    /// When the infrastructure failed it: engine, node, rail.
    OnInfrastructure,
    /// After any failure, also one of the job's own program.
    OnAny,
}

word!(
    /// Where another node for a failed one comes from.
    Replace {
        /// From nowhere: the attempt fails.
        Never = "never",
        /// From the job's own spares.
        Spares = "spares",
        /// From its spares, then from what is free.
        Any = "any",
    }
);

word!(
    /// Whether gangs are measured before their ranks start. In this order each asks for more than the one before.
    Certification {
        /// Ranks start without a measurement.
        Off = "off",
        /// They are, and start whatever is found; the job says what.
        Warn = "warn",
        /// They start only if nothing is found. Nodes whose NICs are on each other's rails are begun again with these rails named as
        /// they are; a node that is named otherwise is replaced where the job lets nodes be replaced.
        Require = "require",
    }
);

word!(
    /// What to do with a job that loses a rail.
    RailLoss {
        /// It goes on with the rails that are left.
        Continue = "continue",
        /// It moves to where all its rails are whole.
        Move = "move",
        /// The attempt fails as soon as a rail is lost.
        Fail = "fail",
    }
);

/// When a queued job will probably start. Worked out when asked for, not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eta {
    /// The start that is most likely.
    pub start: Timestamp,
    /// The job does not start before this time.
    pub earliest: Timestamp,
    /// The job probably does not start after this time.
    pub latest: Timestamp,
    /// What the job can rely on.
    pub promise: Promise,
    /// Of a job that has a place in the plan: its start there if everybody runs as long as allowed. No job behind it delays that;
    /// jobs ahead of it may when they come, or move forward because others end early.
    pub planned: Option<Timestamp>,
}

impl Eta {
    /// An estimate that promises nothing.
    #[must_use]
    pub fn estimate(start: Timestamp, earliest: Timestamp, latest: Timestamp) -> Self {
        Self { start, earliest, latest, promise: Promise::Estimate, planned: None }
    }

    /// Promises what an earlier look did, if its time is still to come.
    pub fn promised_as(&mut self, earlier: &Self, now: Timestamp) {
        if earlier.planned.is_some_and(|planned| planned > now) {
            (self.promise, self.planned) = (earlier.promise, earlier.planned);
        }
    }
}
