//! Waiting on a board: a short spin, then sleep; and the ends of waiting that the board itself does not show: deadlines,
//! ranks that left, an engine that died.

use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_ipc::{FailureCode, Presence, Table};

use super::{CHECK_AFTER, Local, Op, Step};
use crate::Error;

/// Time that a call has to be finished when it is first waited for only after its own time, where others still work.
const LATE: Duration = Duration::from_secs(1);

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
        if self.patience.inspect(|| (self.board.seen() != seen).then_some(())).is_some() {
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
        self.board.sleep(seen, end.saturating_duration_since(now).min(CHECK_AFTER));
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
