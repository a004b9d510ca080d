//! The ranks' queues: calls that come in, and completions that go out, without a system call.
//!
//! Everything in them may be anything: see [`node_agent_ipc::Queues`]. A rank that scribbles there is expelled like one that
//! sends garbage.

use std::os::fd::AsFd;

use node_agent_ipc::{
    Acceptor, Completer, ENTRY, FailureCode, Lines, ProtocolError, Pushed, Queues, Reply, Request, entry,
};
use tracing::warn;

use crate::engine::{ByToken, Engine};
use crate::failure::plain;
use crate::gpus::Came;

/// The queues of all ranks that have some.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    served: ByToken<Served>,
}

/// One rank's queues, from the engine's side.
#[derive(Debug)]
struct Served {
    queues: Queues,
    acceptor: Acceptor,
    completer: Completer,
}

impl Callers {
    /// Tells a rank that its call has succeeded; full where it has no queues.
    pub(crate) fn complete(&mut self, token: usize, id: u64) -> Pushed {
        match self.served.get_mut(&token) {
            Some(Served { queues, completer, .. }) => completer.push(queues, id),
            None => Pushed::Full,
        }
    }

    pub(crate) fn remove(&mut self, token: usize) {
        self.served.remove(&token);
    }

    /// The next rank that has put something in, from `token` on.
    fn called(&self, token: usize) -> Option<usize> {
        let mut served = self.served.range(token..);
        served.find(|(_, served)| served.acceptor.is_called(&served.queues)).map(|(token, _)| *token)
    }

    fn accept(&mut self, token: usize) -> Result<Option<[u64; ENTRY]>, ProtocolError> {
        let Some(Served { queues, acceptor, .. }) = self.served.get_mut(&token) else { return Ok(None) };
        Ok(acceptor.accept(queues)?)
    }
}

impl node_agent_engine_transport::Callers for Callers {
    fn is_called(&self) -> bool {
        self.called(0).is_some()
    }

    fn sleeps(&self, asleep: bool) {
        for Served { queues, acceptor, .. } in self.served.values() {
            if asleep {
                acceptor.sleeps(queues);
            } else {
                acceptor.wakes(queues);
            }
        }
    }
}

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
        match self.ranks.hand_out(token, id, &Reply::Queues, file.as_fd()) {
            Ok(()) => {
                let (acceptor, completer) = Default::default();
                self.ranks.callers.served.insert(token, Served { queues, acceptor, completer });
            }
            Err(why) => self.close_rank(token, &why),
        }
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
