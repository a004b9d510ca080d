//! Rails that are out of use until something proves them well: who is probed with whom, what both ends are told, and how it stands.
//! What is under way is decided anew at each look ([`decide`]); the result is the sick server's to judge, and comes with its inventory.

mod decide;
mod view;

use std::{collections::BTreeSet, net::SocketAddr};

use controller_topology::{LeafIx, RailSet, Server};
use proto_model::{NicHealth, NodeName, RailProof};

use crate::{state::State, step::Step};
pub(crate) use decide::Proving;
use decide::{Decision, LIMIT, Pair, PortLocation, Ports, Sick, decide};

/// UDP ports of probes: two for each rail and turn, so that neither end waits for what the last probe has left.
const FIRST_PORT: u16 = 29_700;
const TURNS: u16 = 4;

impl Step<'_> {
    /// Looks at all rails that are out of use, and tells agents what follows.
    pub(crate) fn check_proofs(&mut self) {
        let ports = self.state.proof_ports();
        let Decision { proving, check } = decide(&ports, &self.state.base.proving, self.now, self.rng);
        let before = self.state.base.proving.pairs.iter();
        let ends =
            before.chain(&proving.pairs).flat_map(|(port, pair)| [port.0.clone(), pair.partner.clone()]);
        let concerned: BTreeSet<NodeName> = ends.collect();
        self.state.set_proving(proving, check);
        for name in concerned {
            self.report_drained(&name);
        }
    }

    /// A node has told something new, or has come: soon its rails that are out of use are looked at.
    pub(crate) fn proofs_changed(&mut self, name: &NodeName) {
        let topology = self.state.index.snapshot.topology();
        let server = topology.index(name).and_then(|ix| topology.server(ix));
        let proving = &self.state.base.proving;
        let concerned = server.is_some_and(|server| !server.unfit.is_empty())
            || proving.trials.range((name.clone(), 0)..=(name.clone(), u32::MAX)).next().is_some();
        let soon = self.next_check();
        if concerned && self.state.base.prove_check.is_none_or(|check| check > soon) {
            let proving = proving.clone();
            self.state.set_proving(proving, Some(soon));
        }
    }
}

impl State {
    /// Every port that may be probed, and every one that may help.
    fn proof_ports(&self) -> Ports<'_> {
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
    pub(crate) fn proofs_of(&self, name: &NodeName) -> Vec<RailProof> {
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
