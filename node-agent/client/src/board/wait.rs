//! Waiting on a board: a short spin that learns how long is worth it, then sleep; and the ends of waiting that the board
//! itself does not tell: deadlines, ranks that left, an engine that died.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use node_agent_local::{FailureCode, Presence, Table};

use super::{Local, Op, Step};
use crate::Error;

/// Longest sleep before a look at the engine's socket: an engine that dies rings no bell.
pub(super) const LOOK_AFTER: Duration = Duration::from_millis(250);
/// Sleep for something that rings no bell.
pub(super) const GLANCE: Duration = Duration::from_micros(200);
/// Time that a call has to be finished when it is first waited for only after its own time, where others still work.
const LATE: Duration = Duration::from_secs(1);
/// Bounds of a spin, in nanoseconds. Waking a sleeper costs some 5 to 50 microseconds, so a spin that is as long can at most
/// double what a wait costs.
const LEAST_SPIN: u32 = 2_000;
const MOST_SPIN: u32 = 50_000;
/// Looks at the bell between two looks at the clock.
const LOOKS: u32 = 64;
/// Offers of the processor to others before a sleep, where there are more ranks than processors.
const OFFERS: u32 = 20;

/// How long spinning is worth it here.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Nanoseconds of the next spin.
    spin: AtomicU32,
    /// More ranks than processors: who spins keeps another from coming.
    crowded: bool,
}

impl Patience {
    pub(crate) fn new(ranks: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { spin: AtomicU32::new(MOST_SPIN / 2), crowded: ranks > processors }
    }

    /// Waits a little for `changed`. Gives whether it came.
    pub(crate) fn spin(&self, changed: impl Fn() -> bool) -> bool {
        if self.crowded {
            return (0..OFFERS).any(|_| {
                std::thread::yield_now();
                changed()
            });
        }
        let budget = self.spin.load(Ordering::Relaxed);
        let start = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if changed() {
                    self.spin.store((budget * 2).min(MOST_SPIN), Ordering::Relaxed);
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed().as_nanos() >= u128::from(budget) {
                self.spin.store((budget / 2).max(LEAST_SPIN), Ordering::Relaxed);
                return false;
            }
        }
    }
}

impl Local {
    /// Waits until an operation is complete, at the latest until `until`, where that is given: then `false`, and it goes on.
    pub(crate) fn wait(&self, op: &Arc<Op>, until: Option<Instant>) -> Result<bool, Error> {
        let late = Instant::now() + LATE.min(op.limit);
        loop {
            let seen = self.board.seen();
            match self.step(op)? {
                Step::Complete => return Ok(true),
                Step::Worked => continue,
                Step::Idle => {}
            }
            if let Some(now) = until.and_then(|until| Some(Instant::now()).filter(|now| until <= *now)) {
                self.link.check()?;
                return match () {
                    () if self.board.has_failed() => Err(self.cause(op.name())),
                    () if now >= op.deadline() + LATE => Err(self.timed_out(op)),
                    () => Ok(false),
                };
            }
            self.idle(op, seen, until, late)?;
        }
    }

    /// Nothing can be done for `op` since the bell was `seen`: waits until it rings, at the latest until `until`.
    pub(super) fn idle(
        &self,
        op: &Op,
        seen: u32,
        until: Option<Instant>,
        late: Instant,
    ) -> Result<(), Error> {
        if self.board.has_failed() {
            return Err(self.cause(op.name()));
        }
        if self.patience.spin(|| self.board.seen() != seen) {
            return Ok(());
        }
        self.help_others(op)?;
        self.expect_all(op)?;
        let now = Instant::now();
        let deadline = op.deadline().max(late);
        if now >= deadline {
            return Err(self.timed_out(op));
        }
        let end = until.map_or(deadline, |until| until.min(deadline));
        self.board.sleep(seen, end.saturating_duration_since(now).min(LOOK_AFTER));
        self.link.check()
    }

    /// Does what can be done of older operations: nobody may be waiting for them, but their successors wait for their slots.
    fn help_others(&self, op: &Op) -> Result<(), Error> {
        let older: Vec<Arc<Op>> = {
            let state = super::lock(&self.state);
            state.under_way.iter().filter(|other| other.seq < op.seq).cloned().collect()
        };
        older.iter().try_for_each(|older| self.step(older).map(drop))
    }

    /// A rank that left will not come.
    fn expect_all(&self, op: &Op) -> Result<(), Error> {
        let gone =
            |rank: &usize| self.board.posted(*rank) < op.seq && self.board.presence(*rank) == Presence::Left;
        match (0..self.ranks).find(gone) {
            None => Ok(()),
            Some(rank) => {
                let text =
                    format!("rank {rank} detached, but rank {} waits for its next collective", self.me);
                Err(self.report(op.name(), FailureCode::RankLost, Some(rank), text))
            }
        }
    }

    fn timed_out(&self, op: &Op) -> Error {
        let missing: Vec<usize> = (0..self.ranks).filter(|rank| self.board.posted(*rank) < op.seq).collect();
        let ms = op.limit.as_millis();
        let late = if missing.is_empty() {
            "all ranks came, but not all did their part".into()
        } else {
            format!("waiting for ranks {missing:?} to call it")
        };
        let text = format!(
            "{} did not complete within the limit of {ms} ms that rank {} has: {late}; look at what those ranks do",
            op.call, self.me
        );
        self.report(op.name(), FailureCode::TimedOut, missing.first().copied(), text)
    }
}
