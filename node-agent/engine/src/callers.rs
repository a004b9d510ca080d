//! The ranks' queues: calls that come in, and completions that go out, without a system call.
//!
//! Everything in them may be anything: see [`node_agent_ipc::Queues`]. A rank that scribbles there is expelled like one that
//! sends garbage.

use node_agent_ipc::{Acceptor, Completer, ENTRY, ProtocolError, Pushed, Queues};

use crate::tokens::ByToken;

/// The queues of all ranks that have some.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    pub(crate) served: ByToken<Served>,
}

/// One rank's queues, from the engine's side.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) queues: Queues,
    pub(crate) acceptor: Acceptor,
    pub(crate) completer: Completer,
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
    pub(crate) fn called(&self, token: usize) -> Option<usize> {
        let mut served = self.served.range(token..);
        served.find(|(_, served)| served.acceptor.is_called(&served.queues)).map(|(token, _)| *token)
    }

    pub(crate) fn accept(&mut self, token: usize) -> Result<Option<[u64; ENTRY]>, ProtocolError> {
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
