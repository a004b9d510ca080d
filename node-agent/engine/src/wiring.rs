//! Rails to the peers: what the supervisor's `connect` means, and what `status` and `stats` say of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use node_agent_collective::units::{Node, Rail, Time};
use node_agent_engine_transport::TcpRails;

use crate::config::{Config, RailConfig};
use crate::control::{Endpoint, Peer};
use crate::index::{node_index, peers};

/// How much later than the wire-up itself the loop looks at it: the transport decides, this only wakes it.
pub(crate) const LATE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
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
    pub(crate) rails: Vec<RailConfig>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) phase: Phase,
    /// What was asked, so that asking the same again is no error.
    pub(crate) peers: Vec<Peer>,
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
    pub(crate) fn describe(&self, config: &Config, missing: &[(Rail, Node, Option<String>)]) -> String {
        let each = missing.iter().map(|(rail, node, error)| {
            let number = self.rails.get(usize::from(*rail)).map_or(*rail, |rail| rail.rail);
            let error = error.as_deref().unwrap_or("no answer");
            format!("rail {number} to {}: {error}", config.node_name((*node).into()))
        });
        each.collect::<Vec<_>>().join("; ")
    }
}
