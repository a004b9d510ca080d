//! What the agent knows of one attempt of one job, and what it exchanges with that attempt's supervisor.

use std::{collections::BTreeSet, time::Duration};

use proto_model::{
    AlgorithmChoice, Assignment, Certify, DesiredState, JobId, JobUid, Measured, NodeEndpoints, Observation,
    Observed, RailBytes, RailEndpoint, RailReport, RankExit, Reason, RunResult,
};

/// One attempt of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Uid of the job.
    pub uid: JobUid,
    /// Number of the attempt, counted from 1.
    pub attempt: u32,
}

impl Key {
    /// The attempt that an assignment is about.
    #[must_use]
    pub fn of(assignment: &Assignment) -> Self {
        Self { uid: assignment.uid, attempt: assignment.attempt }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.uid, self.attempt)
    }
}

/// What should be, without the secrets and the bulk of the desired state. Ordered: a later goal never goes back.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// Engine up and listening.
    Prepared,
    /// Engine connected to these peers, ranks started.
    Running {
        /// Where every node's engine listens.
        peers: Vec<NodeEndpoints>,
        /// Measure, and start no rank before the goal comes without this.
        certify: Option<Certify>,
    },
    /// All processes of the attempt have ended.
    Stopped {
        /// Between the signal and SIGKILL.
        grace: Duration,
        /// What the ranks get first; 0 is SIGTERM.
        signal: i32,
        /// Told to the ranks' log.
        reason: String,
    },
}

impl Goal {
    pub(crate) fn of(desired: &DesiredState) -> Self {
        match desired {
            DesiredState::Prepared { .. } => Self::Prepared,
            DesiredState::Running { peers, certify, .. } => {
                Self::Running { peers: peers.clone(), certify: certify.clone() }
            }
            DesiredState::Stopped { grace, signal, reason } => {
                Self::Stopped { grace: *grace, signal: *signal, reason: reason.clone() }
            }
        }
    }

    /// Place of the goal in the order of goals: one that is further on is larger.
    fn order(&self) -> (u8, u32) {
        match self {
            Self::Prepared => (0, 0),
            Self::Running { certify: Some(certify), .. } => (1, certify.series),
            Self::Running { certify: None, .. } => (2, 0),
            Self::Stopped { .. } => (3, 0),
        }
    }

    /// True if `next` is further on: a later kind, a later series of measurements, or a stop with less grace.
    #[must_use]
    pub fn may_become(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Stopped { grace: old, .. }, Self::Stopped { grace: new, .. }) => new < old,
            _ => next.order() > self.order(),
        }
    }
}

/// Where the supervisor of an attempt stands, as far as the agent knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// No supervisor was started yet.
    None,
    /// One was started; it lives until its snapshot says `Ended` or it is reported lost.
    Spawned,
    /// It died without saying `Ended`; what it left behind is being killed.
    Lost,
}

/// What a supervisor knows of its attempt. It always reports the whole, so that a repeated or missed report is harmless.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// How far the attempt is on this server.
    pub state: Observed,
    /// Where the engine listens.
    pub endpoints: Vec<RailEndpoint>,
    /// Local ranks that have ended.
    pub exits: Vec<RankExit>,
    /// Why it failed here, by another cause than a rank's own exit.
    pub cause: Option<Reason>,
    /// The result that rank 0 measured; `None` where there is none.
    pub result: Option<RunResult>,
    /// Bytes that the engine moved.
    pub rails: Vec<RailBytes>,
    /// Rails that the supervisor keeps drained; `None` from one that is too old to know how.
    pub drained: Option<BTreeSet<u32>>,
    /// What the engine sees of its rails.
    pub reports: Vec<RailReport>,
    /// How the engine carries out operations.
    pub choices: Vec<AlgorithmChoice>,
    /// What the engine measured before the ranks start.
    pub measured: Option<Measured>,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            state: Observed::Preparing,
            endpoints: Vec::new(),
            exits: Vec::new(),
            cause: None,
            result: None,
            rails: Vec::new(),
            drained: None,
            reports: Vec::new(),
            choices: Vec::new(),
            measured: None,
        }
    }
}

impl Snapshot {
    /// Takes over what `next` knows more. True if anything changed. States only move forward, an exit that was
    /// told is never told otherwise, and the first cause stays.
    pub fn merge(&mut self, next: Self) -> bool {
        let before = self.clone();
        self.state = self.state.max(next.state);
        if self.endpoints.is_empty() {
            self.endpoints = next.endpoints;
        }
        for exit in next.exits {
            if !self.exits.iter().any(|known| known.rank == exit.rank) {
                self.exits.push(exit);
            }
        }
        self.exits.sort_by_key(|exit| exit.rank);
        self.cause = self.cause.take().or(next.cause);
        self.result = self.result.take().or(next.result);
        if !next.rails.is_empty() {
            self.rails = next.rails;
        }
        self.drained = next.drained.or(self.drained.take());
        if !next.reports.is_empty() {
            self.reports = next.reports;
        }
        if !next.choices.is_empty() {
            self.choices = next.choices;
        }
        let series = |measured: &Option<Measured>| measured.as_ref().map(|measured| measured.series);
        if series(&next.measured) > series(&self.measured) {
            self.measured = next.measured;
        }
        *self != before
    }
}

/// What a supervisor, or the shell in its place, reports to the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The supervisor is there and this is all it knows.
    State(Snapshot),
    /// No supervisor could be started.
    SpawnFailed {
        /// What went wrong, in words.
        message: String,
    },
    /// The supervisor's process is gone and its durable state does not say `Ended`.
    Lost,
    /// After [`crate::Action::Reap`]: nothing that the lost supervisor had started is left.
    Reaped(Snapshot),
}

/// What the agent orders of a supervisor. Repeating an order is harmless.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Connect the engine, then start the ranks.
    Start {
        /// Where every node's engine listens.
        peers: Vec<NodeEndpoints>,
        /// Measure in between, and start no rank before the order comes without this.
        certify: Option<Certify>,
    },
    /// End the ranks and the engine.
    Stop {
        /// Between the signal and SIGKILL.
        grace: Duration,
        /// What the ranks get first; 0 is SIGTERM.
        signal: i32,
        /// Told to the ranks' log.
        reason: String,
    },
    /// Keep these rails drained, and no others.
    Drain {
        /// All of the server's that are drained, whether the job has them or not.
        rails: BTreeSet<u32>,
    },
}

/// What the agent knows of one attempt of one job. Holds no secret: it is written to disk as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The attempt that the record is of.
    pub key: Key,
    /// Tenant and name of the job.
    pub id: JobId,
    /// The desired state, as the latest goal.
    pub goal: Goal,
    /// Whether its supervisor was started, lives, or is lost.
    pub life: Life,
    /// The latest snapshot of the supervisor, by which the attempt is observed.
    pub seen: Snapshot,
    /// W3C trace context of the submit; may be empty.
    pub trace_parent: String,
}

impl Record {
    pub(crate) fn new(assignment: &Assignment) -> Self {
        Self {
            key: Key::of(assignment),
            id: assignment.id.clone(),
            goal: Goal::of(&assignment.desired),
            life: Life::None,
            seen: Snapshot::default(),
            trace_parent: assignment.trace_parent.clone(),
        }
    }

    /// Nothing of it is left on this server.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.seen.state == Observed::Ended
    }

    /// What is reported of it to the controller.
    #[must_use]
    pub fn observation(&self) -> Observation {
        let stopping = matches!(self.goal, Goal::Stopped { .. }) || self.life == Life::Lost;
        let shown = self.seen.state != Observed::Ended;
        let state = if stopping { self.seen.state.max(Observed::Stopping) } else { self.seen.state };
        Observation {
            uid: self.key.uid,
            attempt: self.key.attempt,
            state,
            endpoints: self.seen.endpoints.clone(),
            exits: self.seen.exits.clone(),
            cause: self.seen.cause.clone(),
            result: self.seen.result.clone(),
            rails: self.seen.rails.clone(),
            reports: if shown { self.seen.reports.clone() } else { Vec::new() },
            choices: if shown { self.seen.choices.clone() } else { Vec::new() },
            measured: self.seen.measured.clone().filter(|_| self.seen.state < Observed::Running),
        }
    }
}
