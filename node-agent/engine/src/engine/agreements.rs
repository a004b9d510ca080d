//! What all ranks are to know alike: asked for by ranks, decided by the engine of the first node.

use node_agent_collective::units::FULL;
use node_agent_collective::{CallError, Notification};
use node_agent_ipc::{Failure as RankFailure, FailureCode, RailModel, Reply};
use tracing::warn;

use crate::agreements::{Asker, Saying};
use crate::engine::Engine;
use crate::engine::notify::speed_of;
use crate::failure::{of_call_error, of_failure, plain};

/// The node that decides.
const FIRST: usize = 0;

impl Engine {
    /// A rank asks what rails cost; it is answered now, or when the first node has said it.
    pub(crate) fn agree(&mut self, token: usize, id: u64, key: u64) {
        if let Some(failure) = self.machine.failure() {
            let failure = of_failure(failure, &self.config);
            return self.reply(token, id, &Reply::Failed(failure));
        }
        if self.config.node == FIRST {
            let model = self.decide(key);
            return self.reply(token, id, &Reply::Agreed(model));
        }
        let Some(from) = self.ranks.connections.get(&token).and_then(|connection| connection.rank) else {
            return;
        };
        let Some(to) = self.first_rank_of(FIRST) else {
            let text = "no rank runs on the first node of the job";
            return self.reply(token, id, &Reply::Failed(plain(FailureCode::Internal, text)));
        };
        if self.machine.has_left(FIRST) {
            return self.reply(token, id, &Reply::Failed(first_has_left()));
        }
        if self.agreements.wait(key, Asker { token, id }) {
            self.say(Notification { from, to, words: Saying::Asked(key).words() }.for_engine());
        }
    }

    /// Another engine says something about a key.
    pub(crate) fn on_saying(&mut self, notification: Notification) {
        let from = notification.from;
        match Saying::read(notification.words) {
            Some(Saying::Asked(key)) if self.config.node == FIRST => {
                let model = self.decide(key);
                let words = Saying::Decided(key, model).words();
                self.say(Notification { from: notification.recipient(), to: from, words }.for_engine());
            }
            Some(Saying::Decided(key, model)) if self.node_of(from) == Some(FIRST) => {
                self.answer_askers(key, &Reply::Agreed(model));
            }
            _ => warn!(from, "an engine said something that is not known here"),
        }
    }

    /// Says something to another engine, later where there is no room for it at the moment.
    fn say(&mut self, notification: Notification) {
        let error = match self.machine.notify(notification) {
            Ok(()) => return,
            Err(CallError::TooManyNotifications { .. }) if self.agreements.defer(notification) => return,
            Err(error) => error,
        };
        match Saying::read(notification.words) {
            Some(Saying::Asked(key)) => {
                let failure = of_call_error(&error, &self.config);
                self.answer_askers(key, &Reply::Failed(failure));
            }
            _ => warn!(to = notification.recipient(), %error, "what rails cost cannot be said to a rank"),
        }
    }

    /// Tries again what found no room, and answers those that wait for a node that has left meanwhile.
    pub(crate) fn retry_agreements(&mut self) {
        for notification in self.agreements.take_deferred() {
            self.say(notification);
        }
        if self.agreements.is_awaited() && self.machine.has_left(FIRST) {
            self.end_agreements(&first_has_left());
        }
    }

    fn answer_askers(&mut self, key: u64, reply: &Reply) {
        for Asker { token, id } in self.agreements.decided(key) {
            self.reply(token, id, reply);
        }
    }

    /// Nobody will be answered any more.
    pub(crate) fn end_agreements(&mut self, failure: &RankFailure) {
        for Asker { token, id } in self.agreements.end() {
            self.reply(token, id, &Reply::Failed(failure.clone()));
        }
    }

    fn node_of(&self, rank: u32) -> Option<usize> {
        usize::try_from(rank).ok().and_then(|rank| self.config.ranks.get(rank)).copied()
    }

    fn first_rank_of(&self, node: usize) -> Option<u32> {
        let at = self.config.ranks.iter().position(|of| *of == node)?;
        u32::try_from(at).ok()
    }

    fn decide(&mut self, key: u64) -> RailModel {
        let (machine, config) = (&self.machine, &self.config);
        self.agreements.decide(key, || {
            let plan = machine.plan();
            let speeds = config.ordered_rails().into_iter().map(|rail| speed_of(&rail));
            // Of the first plan nothing is measured: the ports' own speed is nearer than what it supposes.
            let named = speeds.filter(|mbit| *mbit > 0).min().map(|mbit| 8_000_000 / mbit);
            let beta_ps = named.filter(|_| plan.version == 0).unwrap_or(plan.beta_ps_per_byte);
            RailModel {
                // Dead ones as well: the capacity is what is left of all.
                rails: u16::try_from(config.rails.len().max(1)).unwrap_or(u16::MAX),
                capacity: plan.capacities(config.nodes.len()).into_iter().min().unwrap_or(FULL),
                alpha_ns: plan.alpha_ns,
                beta_ps: beta_ps.max(1),
            }
        })
    }
}

fn first_has_left() -> RankFailure {
    plain(
        FailureCode::PeerLost,
        "the engine of the job's first node has left, and only it says what rails cost",
    )
}
