//! All reports of a gang by rail and pair: what was measured several times is taken together.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use proto_model::{PairReport, PathMeasurement, PortGid, PortReport};

use crate::{
    finding::RailSummary,
    plan::{Gang, Plan},
    robust::median,
};

/// Bytes of a small packet in a port's counters at least: 64 of payload, UDP, IPv4, Ethernet.
const SMALL: u64 = 64 + 8 + 20 + 14;

/// What one node has to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeReport {
    /// Its position in the gang.
    pub node: u32,
    /// Each pair that it began, each rail, in the order of rounds.
    pub pairs: Vec<PairReport>,
    /// What it sees of its own ports.
    pub ports: Vec<PortReport>,
    /// It could not measure, and says so.
    pub unable: bool,
}

/// A pair on a rail, the lower position first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    /// From the lower to the higher position, and back.
    pub(crate) up: PathMeasurement,
    pub(crate) down: PathMeasurement,
    pub(crate) rtt_us: Option<u32>,
    pub(crate) answered: bool,
    /// (Rail of the lower, rail of the higher) where only another rail answered.
    pub(crate) crossed: BTreeSet<(u32, u32)>,
}

impl Sum {
    /// Something was seen to come back, if only on another rail.
    pub(crate) fn lives(&self) -> bool {
        self.answered || !self.crossed.is_empty()
    }

    /// Packets sent and lost, both ways.
    pub(crate) fn packets(&self) -> (u32, u32) {
        (self.up.sent.saturating_add(self.down.sent), self.up.lost.saturating_add(self.down.lost))
    }

    /// Both ways of two series. Loss that one series does not show has passed, and its packets count alone.
    fn again(&self, next: &Self, noise: u32) -> (PathMeasurement, PathMeasurement) {
        let lost = |pair: &Self| match pair.packets() {
            (0, _) => u32::MAX,
            (_, lost) => lost,
        };
        let both = lost(self).min(lost(next)) >= noise && lost(self).max(lost(next)) < u32::MAX;
        let better = if lost(next) < lost(self) { next } else { self };
        let way = |a: PathMeasurement, b: PathMeasurement, better: PathMeasurement| {
            let all = together(a, b);
            if both { all } else { PathMeasurement { sent: better.sent, lost: better.lost, ..all } }
        };
        (way(self.up, next.up, better.up), way(self.down, next.down, better.down))
    }
}

/// Everything that the nodes reported.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// What was measured, by rail and by pair of nodes.
    pub(crate) rails: BTreeMap<u32, BTreeMap<(u32, u32), Sum>>,
    /// What a node reports of its port, by node and rail.
    pub(crate) ports: BTreeMap<(u32, u32), PortReport>,
    pub(crate) silent: BTreeSet<u32>,
    pub(crate) unable: BTreeSet<u32>,
    /// Nodes that have measured something.
    pub(crate) heard: BTreeSet<u32>,
    pub(crate) planned: u32,
    pub(crate) measured: u32,
}

impl Sums {
    /// Takes what belongs to the plan: what somebody says of others, or of rails that the job does not have, is nothing.
    pub(crate) fn of(gang: &Gang, plan: &Plan, reports: &[NodeReport]) -> Self {
        let mut sums = Self { silent: (0..gang.nodes).collect(), ..Self::default() };
        let rails: BTreeSet<u32> = gang.rails.iter().copied().collect();
        sums.rails.extend(rails.iter().map(|rail| (*rail, BTreeMap::new())));
        let wanted: BTreeSet<(u32, u32, u32)> = plan
            .numbered()
            .flat_map(|(round, pairs)| pairs.iter().map(move |pair| (round, pair.first, pair.second)))
            .collect();
        sums.planned = number(wanted.len() * rails.len());
        let mut taken = BTreeSet::new();
        for report in reports {
            sums.silent.remove(&report.node);
            sums.unable.extend(Some(report.node).filter(|_| report.unable));
            for pair in &report.pairs {
                let key = (pair.round, report.node, pair.peer);
                if wanted.contains(&key) && rails.contains(&pair.rail) && taken.insert((key, pair.rail)) {
                    sums.heard.insert(report.node);
                    sums.add(report.node, pair);
                }
            }
            for port in report.ports.iter().filter(|port| rails.contains(&port.rail)) {
                sums.ports.insert((report.node, port.rail), *port);
            }
        }
        sums.measured = number(taken.len());
        for pairs in sums.rails.values_mut() {
            pairs.retain(|(a, b), _| !sums.silent.contains(a) && !sums.silent.contains(b));
        }
        sums
    }

    /// This series and a second one of the same pairs: each way as it was better. A pair that lost `noise` packets or more in both
    /// is counted over both: of so few packets, chance alone makes one of two series look good.
    pub(crate) fn again(mut self, second: Self, noise: u32) -> Self {
        for (rail, pairs) in second.rails {
            let rail = self.rails.entry(rail).or_default();
            for (ends, next) in pairs {
                let Some(sum) = rail.get_mut(&ends) else {
                    rail.insert(ends, next);
                    continue;
                };
                (sum.up, sum.down) = sum.again(&next, noise);
                sum.rtt_us = sum.rtt_us.into_iter().chain(next.rtt_us).min();
                // That a rail answers is not better than that it does not: it may have died meanwhile.
                sum.answered &= next.answered;
                sum.crossed.extend(next.crossed);
            }
        }
        self.ports.extend(second.ports);
        self.silent.extend(second.silent);
        self.unable.extend(second.unable);
        self.heard.extend(second.heard);
        self.measured = self.measured.max(second.measured);
        self
    }

    fn add(&mut self, node: u32, pair: &PairReport) {
        let upwards = node < pair.peer;
        let key = if upwards { (node, pair.peer) } else { (pair.peer, node) };
        let sum = self.rails.entry(pair.rail).or_default().entry(key).or_default();
        let (up, down) = if upwards { (pair.there, pair.back) } else { (pair.back, pair.there) };
        (sum.up, sum.down) = (together(sum.up, up), together(sum.down, down));
        sum.rtt_us = sum.rtt_us.into_iter().chain(pair.rtt_us).min();
        sum.answered |= pair.answered();
        let crossed = pair.crossed.filter(|_| !pair.answered());
        let rails = crossed.map(|other| if upwards { (pair.rail, other) } else { (other, pair.rail) });
        sum.crossed.extend(rails);
    }

    /// What the probes had of bytes on a port at least, both ways: what arrived of the small packets.
    pub(crate) fn probe_bytes(&self, node: u32, rail: u32) -> u64 {
        let pairs = self.rails.get(&rail).into_iter().flatten();
        let own = pairs.filter(|((low, high), pair)| pair.answered && (*low == node || *high == node));
        let arrived = |way: PathMeasurement| u64::from(way.sent.saturating_sub(way.lost)) * SMALL;
        own.map(|(_, pair)| arrived(pair.up).saturating_add(arrived(pair.down))).fold(0, u64::saturating_add)
    }

    fn gids(&self, rail: u32) -> Vec<(u32, u32, Ipv6Addr)> {
        let ports = self.ports.iter().filter(|((_, of), _)| *of == rail);
        let found = |((node, _), port): (&(u32, u32), &PortReport)| match port.gid? {
            PortGid::Missing => None,
            PortGid::Found { index, gid } => Some((*node, index, gid)),
        };
        ports.filter_map(found).collect()
    }

    /// One rail over the gang.
    pub(crate) fn summary(&self, rail: u32) -> RailSummary {
        let mut speeds: Vec<(u32, (u32, u32))> = Vec::new();
        let (mut rtts, mut sent, mut lost, mut mtu) = (Vec::new(), 0, 0, None);
        let pairs = self.rails.get(&rail).into_iter().flatten();
        let mut count = 0;
        for ((low, high), pair) in pairs.filter(|(_, pair)| pair.answered) {
            count += 1;
            for (way, ends) in [(pair.up, (*low, *high)), (pair.down, (*high, *low))] {
                speeds.extend(way.mbps.filter(|_| !way.at_least).map(|mbps| (mbps, ends)));
                sent += u64::from(way.sent);
                lost += u64::from(way.lost);
                mtu = mtu.into_iter().chain(way.mtu).min();
            }
            rtts.extend(pair.rtt_us);
        }
        let least = speeds.iter().min().copied();
        let mut values: Vec<u32> = speeds.iter().map(|(mbps, _)| *mbps).collect();
        RailSummary {
            rail,
            pairs: count,
            ways: number(speeds.len()),
            median_mbps: median(&mut values),
            least_mbps: least.map(|(mbps, _)| mbps),
            worst: least.map(|(_, ends)| ends),
            gids: self.gids(rail),
            mtu,
            rtt_us: median(&mut rtts),
            sent,
            lost,
        }
    }
}

/// Noise makes a way slower, never faster, so its best counts; a hole in the MTU or another DSCP counts if it was ever seen.
fn together(a: PathMeasurement, b: PathMeasurement) -> PathMeasurement {
    let sure = |way: PathMeasurement| way.mbps.filter(|_| !way.at_least);
    let (best, sure) = (a.mbps.max(b.mbps), sure(a).max(sure(b)));
    // What is hardly more than a rail was seen to do does not speak for it.
    let reported = |best: u32| sure.is_some_and(|sure| u64::from(best) * 4 <= u64::from(sure) * 5);
    PathMeasurement {
        sent: a.sent.saturating_add(b.sent),
        lost: a.lost.saturating_add(b.lost),
        mtu: a.mtu.into_iter().chain(b.mtu).max(),
        dscp: b.dscp.or(a.dscp),
        mbps: best,
        at_least: best.is_some_and(|best| !reported(best)),
    }
}

pub(crate) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
