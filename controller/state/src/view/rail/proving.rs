//! Rails that are out of use until something proves them well: which may be probed, with whom, and how that stands.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use controller_topology::{LeafIx, RailSet, Server};
use proto_model::{NicHealth, NicProbe, NodeName, RailProof, Reason, ReasonCode};

use crate::{
    rows::proving::{Pair, PortName},
    tables::state::State,
};

/// How long one may take; then it is over, whatever became of it.
pub const LIMIT: Duration = Duration::from_secs(8);

/// Where a port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortLocation {
    /// The leaf that it hangs on, where a fabric says so.
    pub leaf: Option<usize>,
    /// Its address is one of IPv6: it reaches only such.
    pub v6: bool,
}

/// A port that is out of use by what its agent says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sick {
    /// Where it is.
    pub place: PortLocation,
    /// A probe that passes now would end something.
    pub wants: bool,
    /// The probe whose result its agent has told last.
    pub reported: Option<u64>,
}

/// What of the cluster matters. Ports that are drained, or whose agent is not heard, are not named at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports<'a> {
    /// Ports that are out of use.
    pub sick: BTreeMap<PortName, Sick>,
    /// By rail, those that take new jobs; by name.
    pub well: BTreeMap<u32, Vec<(&'a NodeName, PortLocation)>>,
}

/// UDP ports of probes: two for each rail and turn, so that neither end waits for what the last probe has left.
const FIRST_PORT: u16 = 29_700;

const TURNS: u16 = 4;

impl State {
    /// Every port that may be probed, and every one that may help.
    pub fn proof_ports(&self) -> Ports<'_> {
        let topology = self.index.snapshot.topology();
        let mut ports = Ports::default();
        let mut rails = RailSet::EMPTY;
        for (_, server) in topology.servers().filter(|(_, server)| !server.unfit.is_empty()) {
            let open = self.heard_and_open(server, server.unfit);
            for rail in open.iter() {
                let Some((place, health)) = place(server, rail) else { continue };
                let wants = health.is_some_and(NicHealth::wants_probe);
                let reported = health.and_then(|health| Some(health.probe.as_ref()?.id));
                ports.sick.insert((server.name.clone(), rail), Sick { place, wants, reported });
                rails = if wants { rails.with(rail) } else { rails };
            }
        }
        if rails.is_empty() {
            return ports;
        }
        for (_, server) in topology.servers() {
            for rail in self.heard_and_open(server, server.usable.and(rails)).iter() {
                if let Some((place, _)) = place(server, rail) {
                    ports.well.entry(rail).or_default().push((&server.name, place));
                }
            }
        }
        ports
    }

    /// Of these rails of a server those that are not drained, if its agent is heard.
    fn heard_and_open(&self, server: &Server, rails: RailSet) -> RailSet {
        if rails.is_empty() || !self.is_heard(&server.name) {
            return RailSet::EMPTY;
        }
        // A NIC that a job names otherwise is cabled to another rail than its inventory says: nobody of its own reaches it.
        let (names, drained) = (self.names(&server.name), self.drained_rails(&server.name));
        rails.iter().filter(|rail| names.of(*rail) == *rail && !drained.has(*rail)).collect()
    }

    /// Probes that a node takes part in now, by rail.
    pub fn proofs_of(&self, name: &NodeName) -> Vec<RailProof> {
        let pairs = self.base.proving.pairs.iter();
        let part = |((node, rail), pair): (&(NodeName, u32), &Pair)| {
            let first = node == name;
            let peer = if first { &pair.partner } else { node };
            let nonce = u16::try_from(pair.id % u64::from(TURNS)).unwrap_or(0);
            let port = FIRST_PORT + u16::try_from(*rail).ok()? * 2 * TURNS + 2 * nonce;
            let (device, own) = self.nic_address(name, *rail, port + u16::from(!first))?;
            let (_, there) = self.nic_address(peer, *rail, port + u16::from(first))?;
            let (peer, key, id, rail) = (peer.clone(), pair.key, pair.id, *rail);
            Some(RailProof { id, rail, device, peer, own, there, first, key, limit: LIMIT })
        };
        let concerned = pairs.filter(|((node, _), pair)| node == name || pair.partner == *name);
        let mut proofs: Vec<RailProof> = concerned.filter_map(part).collect();
        proofs.sort_by_key(|proof| (proof.rail, proof.id));
        proofs
    }

    fn nic_address(&self, name: &NodeName, rail: u32, port: u16) -> Option<(String, SocketAddr)> {
        let topology = self.index.snapshot.topology();
        let server = topology.server(topology.index(name)?)?;
        let at = server.ports.get(rail as usize).copied().flatten()?;
        let nic = server.inventory.nics.get(at.nic as usize)?;
        Some((nic.device.clone(), SocketAddr::new(nic.address?, port)))
    }
}

/// Where a server's port is, and what its agent says of it; nothing of one without an address.
fn place(server: &Server, rail: u32) -> Option<(PortLocation, Option<&NicHealth>)> {
    let port = server.ports.get(rail as usize).copied().flatten()?;
    let nic = server.inventory.nics.get(port.nic as usize)?;
    let health = server.inventory.health.iter().find(|health| health.device == nic.device);
    let (leaf, v6) = (port.leaf.map(LeafIx::index), nic.address?.is_ipv6());
    Some((PortLocation { leaf, v6 }, health))
}

impl State {
    /// How it stands with a node's rails that are out of use until a probe of theirs passes.
    #[must_use]
    pub fn proof_reasons(&self, name: &NodeName) -> Vec<Reason> {
        let topology = self.index.snapshot.topology();
        let Some(server) = topology.index(name).and_then(|ix| topology.server(ix)) else { return Vec::new() };
        let reason = |rail: u32| {
            let (_, health) = place(server, rail)?;
            let health = health?;
            let port = (name.clone(), rail);
            let trial = self.base.proving.trials.get(&port);
            let pair = self.base.proving.pairs.get(&port);
            let now = match (pair, trial.filter(|trial| trial.attempts > 0)) {
                (Some(pair), _) => format!("it is being probed with {}", pair.partner),
                (None, Some(trial)) if health.wants_probe() => {
                    format!(
                        "after {} probe(s) the next comes in its turn, with another server",
                        trial.attempts
                    )
                }
                (None, None) if health.wants_probe() => {
                    "it is probed as soon as another server on this rail is well and free".to_owned()
                }
                (None, _) => "its agent asks for a probe when it was quiet for long enough".to_owned(),
            };
            let last = health.probe.as_ref().map(last).unwrap_or_default();
            let message = format!("rail {rail} is out of use until something proves it well: {now}{last}");
            Some(Reason::new(ReasonCode::RailUnproved, message).scope(format!("node/{name}:{rail}")))
        };
        server.unfit.iter().filter_map(reason).collect()
    }

    /// Rails of servers that are out of use until something proves them well, as far as agents are heard.
    pub fn unproved(&self) -> usize {
        self.base.proving.trials.len()
    }
}

fn last(probe: &NicProbe) -> String {
    let NicProbe { peer, outcome, message, .. } = probe;
    format!("; the last one, with {peer}, {outcome}: {message}")
}
