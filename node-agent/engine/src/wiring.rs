//! Rails to the peers: what the supervisor's `connect` means, and what `status` and `stats` say of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use node_agent_collective::units::{Node, Rail, Time};
use node_agent_engine_transport::{TcpRails, Transport, Wiring};
use tracing::{info, warn};

use crate::config::{Config, RailConfig};
use crate::control::{Endpoint, EngineState, Peer, RailStats, Reply, Stats, Status};
use crate::engine::{Engine, after, instant_after, node_index, peers};
use crate::failure::{is_loss, is_peer_lost, lost_peer};

/// How much later than the wire-up itself the loop looks at it: the transport decides, this only wakes it.
const LATE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Listening,
    /// Control connections that wait for the answer.
    Connecting {
        asked: Vec<usize>,
        until: Time,
    },
    Connected,
    Failed(String),
}

/// How far the rails are.
#[derive(Debug)]
pub(crate) struct Wires {
    /// This node's rails in the order that engines count them.
    rails: Vec<RailConfig>,
    endpoints: Vec<Endpoint>,
    phase: Phase,
    /// What was asked, so that asking the same again is no error.
    peers: Vec<Peer>,
}

impl Wires {
    pub(crate) fn new(config: &Config, rails: &TcpRails) -> Self {
        let ordered = config.ordered_rails();
        let listening = ordered.iter().zip(rails.endpoints());
        let endpoints = listening.map(|(rail, address)| Endpoint { rail: rail.rail, address }).collect();
        Self { rails: ordered, endpoints, phase: Phase::Listening, peers: Vec::new() }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Connecting { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// The addresses of the peers' rails in the order that engines count rails, or what is wrong with them.
    pub(crate) fn addresses(
        &self,
        config: &Config,
        given: &[Peer],
    ) -> Result<BTreeMap<Node, Vec<SocketAddr>>, String> {
        let mut table = BTreeMap::new();
        for peer in given {
            let name = config.node_name(peer.node);
            if peer.node >= config.nodes.len() || peer.node == config.node {
                return Err(format!("{name} is no peer of node {}", config.node));
            }
            let mut addresses = Vec::with_capacity(self.rails.len());
            for rail in &self.rails {
                let mut found = peer.endpoints.iter().filter(|endpoint| endpoint.rail == rail.rail);
                match (found.next(), found.next()) {
                    (Some(endpoint), None) => addresses.push(endpoint.address),
                    (None, _) => return Err(format!("{name} has no endpoint on rail {}", rail.rail)),
                    (Some(_), Some(_)) => {
                        return Err(format!("{name} has two endpoints on rail {}", rail.rail));
                    }
                }
            }
            if peer.endpoints.len() != addresses.len() {
                return Err(format!("{name} has an endpoint on a rail that this node has not"));
            }
            if table.insert(node_index(peer.node), addresses).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        match peers(config.node, config.nodes.len()).find(|peer| !table.contains_key(peer)) {
            Some(missing) => Err(format!("{} is missing", config.node_name(missing.into()))),
            None => Ok(table),
        }
    }

    /// Rails that are not up, with the latest error of each, in words.
    fn describe(&self, config: &Config, missing: &[(Rail, Node, Option<String>)]) -> String {
        let each = missing.iter().map(|(rail, node, error)| {
            let number = self.rails.get(usize::from(*rail)).map_or(*rail, |rail| rail.rail);
            let error = error.as_deref().unwrap_or("no answer");
            format!("rail {number} to {}: {error}", config.node_name((*node).into()))
        });
        each.collect::<Vec<_>>().join("; ")
    }
}

impl Engine {
    /// Begins the wire-up. `Some` is the answer at once; `None` means that it follows.
    pub(crate) fn connect(&mut self, token: usize, given: Vec<Peer>) -> Option<Reply> {
        let error = |error: String| Some(Reply::Error { error });
        if let Some(reason) = &self.draining {
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
        let state = match (&self.draining, failure, &self.wires.phase) {
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
