//! The engine's part in the board of its ranks: it makes it, says who is there, and ends it with a cause.
//!
//! Nothing that a rank could have written there decides anything here: counters are read for statistics only.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use node_agent_ipc::{Board, Failure as RankFailure, FailureCode, Table};

use crate::control::FirstCollective;
use crate::failure::plain;

/// The board, once a rank has asked for it, and why it ended.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) board: Option<(Board, Arc<OwnedFd>)>,
    pub(crate) cause: Option<RankFailure>,
}

impl Shared {
    /// Why the board has ended, if it has.
    pub(crate) fn cause(&self) -> Option<&RankFailure> {
        self.cause.as_ref()
    }

    /// Operations that local rank 0 has done on the board, as it says.
    pub(crate) fn operations(&self) -> u64 {
        self.board.as_ref().map_or(0, |(board, _)| board.retired(0))
    }

    /// The first collective that moved data on the board, as the ranks say.
    pub(crate) fn first(&self) -> Option<FirstCollective> {
        let first = self.board.as_ref()?.0.first().filter(|first| first.ended > 0)?;
        Some(FirstCollective {
            operation: first.kind.name().into(),
            started_unix_ns: first.began,
            ended_unix_ns: first.ended.max(first.began),
        })
    }

    /// Ends the board, once.
    pub(crate) fn end(&mut self, cause: RankFailure) {
        let Some((board, _)) = &self.board else { return };
        if self.cause.is_none() {
            self.cause = Some(cause);
            board.fail();
        }
    }
}

/// The engine keeps one descriptor for each buffer of its ranks: as many as the system lets it have.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    // With the old limit a rank gets a typed refusal when descriptors run out.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

/// The cause that calls have when the engine stops under them.
pub(crate) fn stopping(reason: &str) -> RankFailure {
    plain(FailureCode::Stopped, format!("the engine is stopping: {reason}"))
}
