//! Probes as they run and end.

use std::sync::Arc;

use proto_model::{NicPlace, NicProbe, NodeName, ProbeOutcome, RailProof, RailReport, RailState, Timestamp};

use node_agent_core::Key as Try;

use crate::{
    faults::Fault,
    rng::Rng,
    world::{Event, World},
};

use super::{Illness, Probe};

impl World {
    /// A NIC falls ill, and its way is broken for a while.
    pub fn falls_ill(&mut self, node: usize, rng: &mut Rng) {
        let rail = u32::try_from(rng.below(self.nodes[node].rails as usize)).unwrap_or(0);
        let broken_until = self.now + rng.range(1..90_000);
        let illness = Illness { broken_until, since: self.now, probe: None };
        self.notify(|| format!("n{node}: rail {rail} falls ill"));
        self.nodes[node].change_health(rail, Some(illness));
        self.report_inventory(node);
    }

    /// What the engine of an attempt sees of its rails: what is broken at either end is down. `None` where nothing ever breaks.
    pub fn engine_rails(&self, node: usize, key: Try) -> Option<Vec<RailReport>> {
        if !self.config.prove {
            return None;
        }
        let supervised = self.nodes[node].supervised.get(&key)?;
        let own = &self.nodes[node].name;
        let broken = |name: &NodeName, rail: u32| {
            let server = self.nodes.iter().find(|server| server.name == *name);
            let ill = server.and_then(|server| server.ill.get(&rail));
            ill.is_some_and(|illness| illness.broken_until > self.now)
        };
        let gang = || supervised.gang().iter().map(|place| &place.node).filter(|name| *name != own);
        let count = |peers: usize| u32::try_from(peers).unwrap_or(u32::MAX);
        let report = |nic: &NicPlace| {
            let up = |peer: &&NodeName| !broken(own, nic.rail) && !broken(peer, nic.rail);
            let (peers, peers_up) = (count(gang().count()), count(gang().filter(up).count()));
            let state = if peers_up < peers.min(1) { RailState::Down } else { RailState::Up };
            RailReport {
                rail: nic.rail,
                state: Some(state),
                since: Timestamp(self.now),
                tx_bytes: 0,
                rx_bytes: 0,
                tx_rate: 0,
                rx_rate: 0,
                flaps: 0,
                cause: String::new(),
                peers,
                peers_up,
            }
        };
        Some(supervised.place.nics.iter().map(report).collect())
    }

    /// An agent was sent probes, and takes part in each once.
    pub fn take_part(&mut self, node: usize, proofs: Vec<RailProof>) {
        for RailProof { id, rail, peer, first, .. } in proofs {
            if !self.nodes[node].probes.insert(id) {
                continue;
            }
            if peer == self.nodes[node].name {
                self.violated(format!("n{node} is to probe its rail {rail} with itself"));
            }
            if first {
                let wait = self.rng.range(1500..7500);
                let (life, probe) = (self.nodes[node].life, Probe { id, rail, peer });
                self.after(wait, Event::Fault(Fault::ProbeEnds(node, life, Arc::new(probe))));
            }
        }
    }

    /// A probe has ended. It passes only if the way is whole, and the partner was there and was sent the same one.
    pub fn probe_ends(&mut self, node: usize, life: u64, probe: &Probe) {
        let Probe { id, rail, peer } = probe;
        if !self.lives(node, life) {
            return;
        }
        let took_part = |other: &&crate::agent::Node| other.name == *peer && other.probes.contains(id);
        let there = self.nodes.iter().find(took_part).is_some_and(|other| other.agent.is_some());
        let Some(illness) = self.nodes[node].ill.get(rail).cloned() else { return };
        let passes = there && illness.broken_until <= self.now;
        self.notify(|| format!("n{node}: the probe of rail {rail} with {peer} passes: {passes}"));
        self.report.probes[usize::from(passes)] += 1;
        let (outcome, message) = (ProbeOutcome::Failed, "it does not answer".to_owned());
        let reported = NicProbe { id: *id, peer: peer.clone(), outcome, message, time: Timestamp(self.now) };
        let still = (!passes).then_some(Illness { probe: Some(reported), ..illness });
        self.nodes[node].change_health(*rail, still);
        self.report_inventory(node);
    }
}
