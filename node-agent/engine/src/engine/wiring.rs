//! From the addresses of all engines to rails that are connected.

use std::time::Duration;

use node_agent_engine_transport::{Transport, Wiring};
use tracing::{info, warn};

use crate::control::{EngineState, Peer, RailStats, Reply, Stats, Status};
use crate::deadline::{after, instant_after};
use crate::engine::Engine;
use crate::failure::{is_loss, is_peer_lost, lost_peer};
use crate::index::peers;
use crate::wiring::{LATE, Phase};

impl Engine {
    /// Begins the wire-up. `Some` is the answer at once; `None` means that it follows.
    pub(crate) fn connect(&mut self, token: usize, given: Vec<Peer>) -> Option<Reply> {
        let error = |error: String| Some(Reply::Error { error });
        if let Some(reason) = &self.ending.draining {
            return error(format!("connect: the engine is stopping: {reason}"));
        }
        let addresses = match self.wires.addresses(&self.config, &given) {
            Ok(addresses) => addresses,
            Err(text) => return error(format!("connect: {text}")),
        };
        let again = self.wires.peers == given;
        match &mut self.wires.phase {
            Phase::Failed(cause) => return error(format!("connect: {cause}")),
            Phase::Connected if again => return Some(Reply::OK),
            Phase::Connecting { asked, .. } if again => {
                asked.push(token);
                return None;
            }
            Phase::Connected | Phase::Connecting { .. } => {
                return error("connect: asked before with other peers".into());
            }
            Phase::Listening => {}
        }
        self.wires.peers = given;
        if addresses.is_empty() {
            self.wires.phase = Phase::Connected;
            return Some(Reply::OK);
        }
        let limit = Duration::from_millis(self.config.connect_timeout_ms);
        if let Err(refused) = self.rails.connect(&addresses, instant_after(limit)) {
            return error(format!("connect: {refused}"));
        }
        let until = after(self.clock.now(), limit + LATE);
        self.wires.phase = Phase::Connecting { asked: vec![token], until };
        None
    }

    /// Answers those who wait for the wire-up, once it has ended either way.
    pub(crate) fn check_wiring(&mut self) {
        let Phase::Connecting { asked, .. } = &self.wires.phase else { return };
        let asked = asked.clone();
        let reply = match self.rails.wiring() {
            Wiring::Waiting(missing) | Wiring::Failed(missing) if self.can_do_without(&missing) => {
                // They join when they come up, like rails that were lost.
                let text = self.wires.describe(&self.config, &missing);
                info!(job = self.config.job, "connected, but for rails that are drained: {text}");
                self.wires.phase = Phase::Connected;
                Reply::OK
            }
            Wiring::NotStarted | Wiring::Waiting(_) => return,
            Wiring::Done => {
                info!(job = self.config.job, "all rails to all peers are up");
                self.wires.phase = Phase::Connected;
                Reply::OK
            }
            Wiring::Failed(missing) => {
                let ms = self.config.connect_timeout_ms;
                let text = format!("not up within {ms} ms: {}", self.wires.describe(&self.config, &missing));
                warn!(job = self.config.job, "{text}");
                self.wires.phase = Phase::Failed(text.clone());
                Reply::Error { error: format!("connect: {text}") }
            }
        };
        for token in asked {
            self.answer_supervisor(token, &reply);
        }
    }

    pub(crate) fn status(&self) -> Status {
        let failure = self.machine.failure();
        let state = match (&self.ending.draining, failure, &self.wires.phase) {
            (Some(_), ..) => EngineState::Draining,
            (None, Some(_), _) | (None, None, Phase::Failed(_)) => EngineState::Failed,
            (None, None, Phase::Connected) => EngineState::Connected,
            (None, None, _) => EngineState::Listening,
        };
        let wiring = match &self.wires.phase {
            Phase::Failed(cause) => Some(cause.clone()),
            _ => None,
        };
        let lost = self.ranks.lost().cloned();
        let causes: Vec<String> =
            failure.map(ToString::to_string).into_iter().chain(wiring).chain(lost).collect();
        Status {
            state,
            endpoints: self.wires.endpoints.clone(),
            attached: self.ranks.attached(),
            cause: (!causes.is_empty()).then(|| causes.join("; ")),
            lost: failure.is_some_and(is_loss) || matches!(self.wires.phase, Phase::Failed(_)),
            peer_lost: failure.is_some_and(is_peer_lost),
            peer: failure.and_then(|failure| lost_peer(failure, &self.config)),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let rails = (0_u16..).zip(&self.wires.rails).map(|(index, rail)| {
            let mut sum = RailStats { rail: rail.rail, tx_bytes: 0, rx_bytes: 0, chunks: 0 };
            for peer in peers(self.config.node, self.config.nodes.len()) {
                let link = self.rails.counters(index, peer);
                sum.tx_bytes += link.tx_bytes;
                sum.rx_bytes += link.rx_bytes;
                sum.chunks += link.tx_frames;
            }
            sum
        });
        let refusals = self.rails.refusals();
        let refused =
            refusals.garbage + refusals.wrong_key + refusals.slow + refusals.closed + refusals.crowded;
        Stats {
            rails: rails.collect(),
            ops: self.calls.completed().saturating_add(self.ranks.shared.operations()),
            refused,
            first_collective: self.calls.first.done().or_else(|| self.ranks.shared.first()),
        }
    }
}
