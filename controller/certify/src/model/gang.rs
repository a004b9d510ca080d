//! The gang: measured round by round, each node as soon as it and its partner are free.

use std::{net::Ipv4Addr, time::Duration};

use proto_model::{PairReport, PathMeasurement, PortGid, PortReport, PriorityBytes};
use proto_random::Random;

use crate::{
    model::{Clock, Fault},
    plan::{Gang, Pair, Plan},
    sums::NodeReport,
};

/// Packets of one burst.
const BURST: u32 = 256;

/// The address of a node on a rail.
fn address(node: u32, rail: u32) -> Ipv4Addr {
    Ipv4Addr::from(10 << 24 | (rail & 0xff) << 16 | node & 0xffff)
}

/// A gang, its fabric and its faults.
#[derive(Debug, Clone)]
pub struct World {
    /// The gang that is certified.
    pub gang: Gang,
    /// The faults that the model has, any number of them.
    pub faults: Vec<Fault>,
    /// Full speed of a rail, in Mbit/s.
    pub mbps: f64,
    /// The scatter of a measured speed: its standard deviation as a share.
    pub noise: f64,
    /// One packet of so many is lost without a fault; 0: none.
    pub lost_in: u64,
    /// MTU of every port in bytes, where no fault says otherwise.
    pub mtu: u32,
    /// The DSCP that every node sends with.
    pub dscp: u8,
    /// There are RDMA devices and counters of priorities.
    pub rdma: bool,
    /// How long things take in the model.
    pub clock: Clock,
}

/// What the measurement of a modelled gang gave.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// In the order of nodes; silent ones are missing.
    pub reports: Vec<NodeReport>,
    /// From the desired state to the last report that the controller took in.
    pub took: Duration,
}

impl World {
    /// A healthy gang of these many nodes and rails; each leaf serves so many nodes of a rail.
    #[must_use]
    pub fn new(nodes: u32, rails: u32, per_leaf: u32) -> Self {
        let mut gang = Gang::new(nodes, 0..rails);
        let addresses = |node: u32| (0..rails).map(|rail| Some(address(node, rail).into())).collect();
        gang.addresses = (0..nodes).map(addresses).collect();
        if per_leaf > 0 {
            let leaves = |node: u32| (0..rails).map(|rail| Some(rail * 10_000 + node / per_leaf)).collect();
            gang.leaves = (0..nodes).map(leaves).collect();
        }
        Self {
            gang,
            faults: Vec::new(),
            mbps: 2_000.0,
            noise: 0.02,
            lost_in: 1_000_000,
            mtu: 9000,
            dscp: 26,
            rdma: true,
            clock: Clock::default(),
        }
    }

    /// Carries out a plan.
    #[must_use]
    pub fn measure(&self, plan: &Plan, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let mut reports: Vec<NodeReport> = (0..self.gang.nodes)
            .map(|node| NodeReport { node, pairs: Vec::new(), ports: self.ports(node), unable: false })
            .collect();
        let mut free = vec![self.clock.message; reports.len()];
        for pair in plan.rounds.iter().flatten().filter(|pair| self.is_deaf(**pair)) {
            for end in [pair.first, pair.second] {
                if let Some(free) = free.get_mut(end as usize) {
                    *free = self.clock.message + self.clock.warm_limit;
                }
            }
        }
        for (round, pairs) in plan.numbered() {
            for pair in pairs {
                let took = self.meet(round, *pair, &free, &mut reports, &mut random);
                for end in [pair.first, pair.second] {
                    if let Some(free) = free.get_mut(end as usize) {
                        *free = took;
                    }
                }
            }
        }
        reports.retain(|report| !self.is_silent(report.node));
        // Reports are taken in one after the other, as they come.
        let mut come: Vec<u64> = free.iter().map(|free| free + self.clock.message).collect();
        come.sort_unstable();
        let took = come.into_iter().fold(0, |now, come| come.max(now) + self.clock.take_in);
        Outcome { reports, took: Duration::from_micros(took) }
    }

    /// One pair on all rails at once; gives when both are free again.
    fn meet(
        &self,
        round: u32,
        pair: Pair,
        free: &[u64],
        reports: &mut [NodeReport],
        random: &mut Random,
    ) -> u64 {
        let at = |node: u32| free.get(node as usize).copied().unwrap_or_default();
        let begin = at(pair.first).max(at(pair.second));
        let mut longest = 0;
        for rail in 0..self.gang.rails.len() {
            let (report, took) = self.rail(round, pair, rail, random);
            longest = longest.max(took);
            if let Some(own) = reports.get_mut(pair.first as usize) {
                own.pairs.push(report);
            }
        }
        begin + longest.min(self.clock.round_limit)
    }

    fn rail(&self, round: u32, pair: Pair, at: usize, random: &mut Random) -> (PairReport, u64) {
        let number = |at: usize| self.gang.rails.get(at).copied().unwrap_or_default();
        let rail = number(at);
        let mut report = PairReport {
            round,
            peer: pair.second,
            rail,
            there: PathMeasurement::default(),
            back: PathMeasurement::default(),
            rtt_us: None,
            crossed: None,
        };
        let silent = self.is_silent(pair.first) || self.is_silent(pair.second);
        let sent = u32::try_from(self.clock.probes).unwrap_or(u32::MAX);
        let plane = self.plane(pair.first, at);
        if silent || !self.reaches(pair, plane, at) {
            report.there = PathMeasurement { sent, lost: sent, ..PathMeasurement::default() };
            report.back = PathMeasurement { sent: 0, ..PathMeasurement::default() };
            let other = (0..self.gang.rails.len()).find(|other| self.reaches(pair, plane, *other));
            report.crossed = other.filter(|_| !silent).map(number);
            let wait = if silent { self.clock.round_limit } else { 2 * self.clock.answer_limit };
            return (report, wait);
        }
        report.there = self.way(pair.first, pair.second, rail, random);
        report.back = self.way(pair.second, pair.first, rail, random);
        let rtt = self.clock.round_trip as f64 * random.about_one(0.1).max(0.5);
        report.rtt_us = Some(rtt as u32);
        let burst = |way: &PathMeasurement| {
            let mbps = u64::from(way.mbps.unwrap_or(1).max(1)).min(self.clock.probe_mbps);
            self.clock.burst_bytes * 8 / mbps
        };
        let probes = self.clock.probes * self.clock.pace + 4 * self.clock.round_trip;
        (report, probes + burst(&report.there) + burst(&report.back))
    }

    /// The plane that a node's NIC is cabled to.
    fn plane(&self, node: u32, nic: usize) -> usize {
        let cabled = self.faults.iter().find_map(|fault| match fault {
            Fault::Cabled { node: of, planes } if *of == node => planes.get(nic).copied(),
            _ => None,
        });
        cabled.unwrap_or(nic)
    }

    /// Some rail of the two hears nothing of the other's own.
    fn is_deaf(&self, pair: Pair) -> bool {
        let reaches = |at: usize| self.reaches(pair, self.plane(pair.first, at), at);
        let silent = self.is_silent(pair.first) || self.is_silent(pair.second);
        silent || !(0..self.gang.rails.len()).all(reaches)
    }

    /// The first node's NIC on this plane and the second's NIC of this number reach each other.
    fn reaches(&self, pair: Pair, plane: usize, nic: usize) -> bool {
        let number = |at: usize| self.gang.rails.get(at).copied().unwrap_or_default();
        let dead = |node: u32, at: usize| {
            let is = |fault: &Fault| matches!(fault, Fault::DeadRail { node: of, rail } if *of == node && *rail == number(at));
            self.faults.iter().any(is)
        };
        let own = (0..self.gang.rails.len()).find(|own| self.plane(pair.first, *own) == plane);
        self.plane(pair.second, nic) == plane
            && !dead(pair.second, nic)
            && own.is_some_and(|own| !dead(pair.first, own))
    }

    fn way(&self, from: u32, to: u32, rail: u32, random: &mut Random) -> PathMeasurement {
        let (mut speed, mut mtu, mut dscp) = (self.mbps * random.about_one(self.noise), self.mtu, self.dscp);
        let (mut keep, end) = (1000, |node: u32| node == from || node == to);
        for fault in &self.faults {
            match *fault {
                Fault::SlowRail { node, rail: of, share } if end(node) && of == rail => speed *= share,
                Fault::SlowNode { node, share } if end(node) => speed *= share,
                Fault::SlowPlane { rail: of, share } if of == rail => speed *= share,
                Fault::SmallMtu { node, rail: of, mtu: least }
                | Fault::SmallPort { node, rail: of, mtu: least }
                    if end(node) && of == rail =>
                {
                    mtu = mtu.min(least);
                }
                Fault::DscpLeaf { rail: of, leaf, dscp: written } if of == rail => {
                    let through = |node: u32| self.gang.leaf(node, rail) == Some(leaf);
                    dscp = if through(from) || through(to) { written } else { dscp };
                }
                Fault::DscpPort { node, rail: of, dscp: written } if end(node) && of == rail => {
                    dscp = written
                }
                Fault::Lossy { node, rail: of, per_mille } if end(node) && of == rail => {
                    keep = keep * (1000 - u64::from(per_mille.min(1000))) / 1000;
                }
                _ => {}
            }
        }
        let sent = u32::try_from(self.clock.probes).unwrap_or(u32::MAX) + BURST;
        let lost = if keep < 1000 {
            (0..sent).filter(|_| random.below(1000) >= keep).count()
        } else {
            // So seldom that two of one burst need not be thought of.
            usize::from(self.lost_in > 0 && random.below(self.lost_in) < u64::from(sent))
        };
        PathMeasurement {
            sent,
            lost: u32::try_from(lost).unwrap_or(u32::MAX),
            mtu: Some(mtu),
            dscp: Some(dscp),
            mbps: Some(speed.max(1.0) as u32),
            at_least: false,
        }
    }

    fn ports(&self, node: u32) -> Vec<PortReport> {
        let port = |rail: &u32| {
            let has = |test: &dyn Fn(&Fault) -> bool| self.faults.iter().any(test);
            let small = self.faults.iter().find_map(|fault| match fault {
                Fault::SmallPort { node: of, rail: on, mtu } if *of == node && on == rail => Some(*mtu),
                _ => None,
            });
            let priority_bytes = match has(&|fault| *fault == Fault::WrongPriority { node, rail: *rail }) {
                true => PriorityBytes { right: 10_000, wrong: 9_000_000 },
                false => PriorityBytes { right: 9_000_000, wrong: 10_000 },
            };
            let storage = has(&|fault| *fault == Fault::Storage { node, rail: *rail });
            let wrong = if storage { 9_000_000_000 } else { priority_bytes.wrong };
            let priority_bytes = PriorityBytes { wrong, ..priority_bytes };
            PortReport {
                rail: *rail,
                mtu: Some(small.unwrap_or(self.mtu)),
                dscp: Some(self.dscp),
                gid: self.rdma.then(|| self.gid(node, *rail)),
                priority_bytes: self.rdma.then_some(priority_bytes),
            }
        };
        self.gang.rails.iter().map(port).collect()
    }

    /// The GID of a port's address; after its address was changed by hand, that of another.
    fn gid(&self, node: u32, rail: u32) -> PortGid {
        let is = |fault: Fault| self.faults.contains(&fault);
        if is(Fault::NoGid { node, rail }) {
            return PortGid::Missing;
        }
        let node = if is(Fault::OtherGid { node, rail }) { node + 30_000 } else { node };
        PortGid::Found { index: 3, gid: address(node, rail).to_ipv6_mapped() }
    }

    fn is_silent(&self, node: u32) -> bool {
        self.faults.contains(&Fault::Silent { node })
    }
}
