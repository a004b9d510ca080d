//! Calls that ranks leave in shared memory.

use std::sync::Arc;

use node_agent_ipc::{FailureCode, Lines, Queues, Reply, Request, entry};
use tracing::warn;

use crate::callers::Served;
use crate::engine::Engine;
use crate::failure::plain;
use crate::gpus::Came;

impl Engine {
    /// Makes queues for a rank and hands them out.
    pub(crate) fn queues(&mut self, token: usize, id: u64) {
        if self.ranks.callers.served.contains_key(&token) {
            let text = "this rank has its queues already";
            return self.reply(token, id, &Reply::Failed(plain(FailureCode::InvalidArgument, text)));
        }
        let (queues, file) = match Queues::create() {
            Ok(made) => made,
            Err(error) => {
                warn!(%error, "cannot make queues for a rank");
                let failure = plain(FailureCode::Internal, error.to_string());
                return self.reply(token, id, &Reply::Failed(failure));
            }
        };
        let (acceptor, completer) = Default::default();
        self.ranks.callers.served.insert(token, Served { queues, acceptor, completer });
        // Of a rank that does not take them this forgets them again.
        self.hand_out(token, id, &Reply::Queues, Arc::new(file));
    }

    /// Takes what the ranks have put in.
    pub(crate) fn serve_queues(&mut self) {
        let mut from = 0;
        while let Some(token) = self.ranks.callers.called(from) {
            self.serve_queue(token);
            from = token + 1;
        }
    }

    /// Takes what a rank has put in, as much as it can have put in at once.
    pub(crate) fn serve_queue(&mut self, token: usize) {
        for _ in 0..<Queues as Lines>::ENTRIES {
            let call = match self.ranks.callers.accept(token) {
                Ok(None) => return,
                Ok(Some(words)) => entry(&words),
                Err(error) => Err(error),
            };
            match call {
                Ok((id, post)) => self.answer(token, id, Request::Post(post), Came::Nothing),
                Err(error) => return self.expel(token, &error.to_string()),
            }
        }
    }
}
