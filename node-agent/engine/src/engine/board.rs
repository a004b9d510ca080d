//! What ranks of this server do together without the engine: its part in that.

use std::sync::Arc;

use node_agent_ipc::{Board, Failure as RankFailure, FailureCode, MAX_LOCAL, Presence, Reply, Table};
use tracing::{info, warn};

use crate::board::stopping;
use crate::engine::Engine;
use crate::failure::{about_rank, plain};

impl Engine {
    /// Hands out the board. Ranks on several servers have none: their collectives need the engines.
    pub(crate) fn board(&mut self, token: usize, id: u64) {
        let ranks = self.local_ranks.len();
        if self.config.nodes.len() > 1 || ranks > MAX_LOCAL {
            let text = "the ranks of this job do not share one server, so they have no board";
            return self.reply(token, id, &Reply::Failed(plain(FailureCode::NotReady, text)));
        }
        if self.ranks.shared.board.is_none() {
            match Board::create(ranks) {
                Ok((board, file)) => self.ranks.shared.board = Some((board, Arc::new(file))),
                Err(error) => {
                    warn!(%error, "cannot make a board");
                    let failure = plain(FailureCode::Internal, error.to_string());
                    return self.reply(token, id, &Reply::Failed(failure));
                }
            }
            for rank in self.ranks.attached() {
                self.note_presence(rank, Presence::Present);
            }
            if let Some(reason) = &self.ending.draining {
                self.ranks.shared.end(stopping(reason));
            }
        }
        let Some((_, file)) = &self.ranks.shared.board else { return };
        let file = file.clone();
        let reply = Reply::Board { ranks: u32::try_from(ranks).unwrap_or(u32::MAX) };
        self.hand_out(token, id, &reply, file);
    }

    /// Says on the board that a rank came or left.
    pub(crate) fn note_presence(&self, rank: u32, presence: Presence) {
        let place = self.local_ranks.iter().position(|local| *local == rank);
        if let (Some((board, _)), Some(place)) = (&self.ranks.shared.board, place) {
            board.set_presence(place, presence);
        }
    }

    /// A rank says that a collective on the board has failed. It can end its own job only, whose ranks trust each other.
    pub(crate) fn report(&mut self, token: usize, failure: RankFailure) -> Reply {
        let rank = self.ranks.connections.get(&token).and_then(|connection| connection.rank);
        if self.ranks.shared.cause.is_none() {
            info!(rank, "a collective has failed: {failure}");
            let reason = failure.text.clone();
            self.ranks.shared.end(failure);
            if self.ending.draining.is_none() {
                // Messages go through the core: they end with the same cause.
                self.machine.stop(&reason, self.clock.now());
            }
        }
        self.board_cause()
    }

    /// Why the board has ended.
    pub(crate) fn board_cause(&self) -> Reply {
        let none = || plain(FailureCode::Internal, "the board says that it has ended, the engine does not");
        Reply::Failed(self.ranks.shared.cause.clone().unwrap_or_else(none))
    }

    /// Ends the board because a rank is lost.
    pub(crate) fn end_board_for(&mut self, rank: u32, text: &str) {
        self.ranks.shared.end(about_rank(FailureCode::RankLost, rank, text));
    }
}
