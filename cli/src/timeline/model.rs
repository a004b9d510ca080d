//! What a picture of a job's life is made of. All times are microseconds since 1970, by the controller's clock unless they are an exit's.

use std::time::Duration;

/// What a job does for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It is queued.
    Waiting,
    /// It has its servers, and its ranks are being started.
    Starting,
    /// All of its ranks were started.
    Running,
    /// Its attempt has failed or was stopped, and is torn down.
    Stopping,
}

impl Stage {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Starting, Self::Running, Self::Stopping];

    /// In one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
        }
    }
}

/// One cause: its code and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// UpperCamelCase, for example `GpuCapacity`.
    pub code: String,
    /// What is the case, in one sentence.
    pub message: String,
}

/// A stage of an attempt, from when to when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// What it did.
    pub stage: Stage,
    /// Of which attempt, counted from 1.
    pub attempt: u32,
    /// When it began.
    pub begin: i64,
    /// When it ended; the moment of asking where it goes on.
    pub end: i64,
    /// It goes on.
    pub open: bool,
    /// Why, where that is known.
    pub causes: Vec<Cause>,
}

/// A rank, from its attempt's start to its exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankSpan {
    /// Its number in the job.
    pub rank: u32,
    /// Of which attempt.
    pub attempt: u32,
    /// When all ranks of the attempt had been started.
    pub begin: i64,
    /// When it ended; the moment of asking where it runs.
    pub end: i64,
    /// It runs.
    pub open: bool,
    /// How it ended: `exit 0`, `signal 9`; empty where that is not known.
    pub exit: String,
    /// It ended with another status than 0, or by a signal.
    pub failed: bool,
}

/// What an attempt held of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpan {
    /// Of which attempt.
    pub attempt: u32,
    /// When it was placed there.
    pub begin: i64,
    /// When the attempt had ended.
    pub end: i64,
    /// It is held still.
    pub open: bool,
}

/// A server with the job's ranks on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeTrack {
    /// Its name; empty for ranks of which the server is no longer known.
    pub node: String,
    /// When it was held, by attempt.
    pub held: Vec<NodeSpan>,
    /// Its ranks, by attempt and number.
    pub ranks: Vec<RankSpan>,
}

/// Something that happened at a moment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    /// When.
    pub time: i64,
    /// UpperCamelCase: `Submitted`, `Placed`, `RankFailed`, `RailDrained`.
    pub code: String,
    /// In one sentence.
    pub message: String,
    /// The server that it concerns; empty for the job.
    pub node: String,
    /// It is bad.
    pub bad: bool,
}

/// The life of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// Its tenant.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// The phase that it is in, for example `Running`.
    pub phase: String,
    /// When it was submitted.
    pub begin: i64,
    /// When it ended; the moment of asking where it has not.
    pub end: i64,
    /// It has not ended.
    pub open: bool,
    /// One after the other, without gaps, from `begin` to `end`.
    pub spans: Vec<Span>,
    /// Servers in their natural order.
    pub nodes: Vec<NodeTrack>,
    /// In the order of time.
    pub instants: Vec<Instant>,
    /// When it will probably start, while it waits: the earliest, the likely, and the latest moment, so far as they are known.
    pub expected: [Option<i64>; 3],
    /// When its time limit is over, while it runs.
    pub limit: Option<i64>,
    /// What is no longer kept, or not told, each in one sentence.
    pub missing: Vec<String>,
}

impl Timeline {
    /// How long it was in a stage, over all attempts.
    #[must_use]
    pub fn spent(&self, stage: Stage) -> Duration {
        self.spans.iter().filter(|span| span.stage == stage).map(|span| between(span.begin, span.end)).sum()
    }

    /// What happened, so many at most: the first of it, how many are left out behind them, and the last one where some are. How a life
    /// ended is never left out.
    #[must_use]
    pub fn moments(&self, most: usize) -> (&[Instant], usize, &[Instant]) {
        let all = &self.instants;
        if all.len() <= most {
            return (all, 0, &[]);
        }
        let (first, last) = (most.saturating_sub(1), all.len() - 1);
        (&all[..first], last - first, &all[last..])
    }

    /// The attempts that are known, each once, the first one first.
    #[must_use]
    pub fn attempts(&self) -> Vec<u32> {
        let mut attempts: Vec<u32> = self.spans.iter().map(|span| span.attempt).collect();
        attempts.sort_unstable();
        attempts.dedup();
        attempts
    }
}

/// The time between two moments; none where the second one is earlier.
#[must_use]
pub fn between(begin: i64, end: i64) -> Duration {
    Duration::from_micros(u64::try_from(end - begin).unwrap_or(0))
}
