//! Source ports for the flows of a placement.

use std::collections::BTreeMap;

use super::colour::colour;
use super::hash::{Flow, Hash};
use super::udp;

/// A flow that takes a whole link, between servers of two leaves of one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Its packets; the port is what is chosen.
    pub flow: Flow,
    /// Index of the sender's leaf.
    pub from: usize,
    /// Index of the receiver's leaf.
    pub to: usize,
}

/// How leaves and spines are tied, and how they hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fanout {
    /// Spines.
    pub spines: usize,
    /// Cables between each leaf and each spine. Uplink number `i` of a leaf goes to spine `i / cables`.
    pub cables: usize,
    /// Hash of the leaves, over all uplinks.
    pub leaf: Hash,
    /// Hash of the spines, over the cables to the receiver's leaf.
    pub spine: Hash,
}

/// What is chosen for a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// UDP source port.
    pub port: u16,
    /// The uplink of the sender's leaf that it takes by that.
    pub uplink: usize,
}

/// How full links are, as flows at line rate on one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loads {
    /// Most flows on one link, up or down.
    pub worst: usize,
    /// The least that any choice could have.
    pub least: usize,
}

impl Loads {
    /// What the slowest flow gets of its line.
    #[must_use]
    pub fn slowest(&self) -> f64 {
        1.0 / f64::from(u32::try_from(self.worst.max(1)).unwrap_or(u32::MAX))
    }
}

/// Why no ports can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadChoice {
    /// A fabric without uplinks.
    #[error("there is no uplink to choose")]
    NoUplink,
    /// None of the 16,384 ports leads there.
    #[error(
        "no source port of flow {flow} leads to uplink {uplink}: the switches hash something that its port does not change"
    )]
    NoPort {
        /// Index of the flow.
        flow: usize,
        /// Number of the uplink.
        uplink: usize,
    },
}

/// Gives each flow a source port so that links carry as few flows as can be; flows within one leaf keep theirs.
///
/// # Errors
/// [`BadChoice`] if there is no uplink, or the hash does not depend on the port.
pub fn choose(demands: &[Demand], fanout: &Fanout) -> Result<(Vec<Choice>, Loads), BadChoice> {
    let uplinks = fanout.spines * fanout.cables;
    if uplinks == 0 {
        return Err(BadChoice::NoUplink);
    }
    let crosses: Vec<usize> =
        (0..demands.len()).filter(|index| demands[*index].from != demands[*index].to).collect();
    let least = busiest(demands, &crosses).div_ceil(uplinks);
    // A leaf with more flows than uplinks is as many leaves with no more than that; a link then carries as many flows as there are.
    let mut next: [BTreeMap<usize, usize>; 2] = Default::default();
    let mut split = |side: usize, leaf: usize| {
        let count = next[side].entry(leaf).or_default();
        *count += 1;
        leaf * least.max(1) + (*count - 1) / uplinks
    };
    let edges: Vec<(usize, usize)> =
        crosses.iter().map(|index| (split(0, demands[*index].from), split(1, demands[*index].to))).collect();
    let colours = colour(&edges, uplinks).ok_or(BadChoice::NoUplink)?;
    let kept = |demand: &Demand| Choice { port: demand.flow.port, uplink: 0 };
    let mut choices: Vec<Choice> = demands.iter().map(kept).collect();
    for (index, uplink) in crosses.iter().zip(colours) {
        let port = port_to(&demands[*index].flow, uplink, fanout);
        let port = port.ok_or(BadChoice::NoPort { flow: *index, uplink })?;
        choices[*index] = Choice { port, uplink };
    }
    let ports: Vec<u16> = choices.iter().map(|choice| choice.port).collect();
    Ok((choices, Loads { worst: worst(demands, &ports, fanout), least }))
}

/// The first port, from the flow's own on, that takes this uplink, and at the spine the cable of the same number.
fn port_to(flow: &Flow, uplink: usize, fanout: &Fanout) -> Option<u16> {
    let own = flow.port.wrapping_sub(udp::FIRST);
    let ports = (0..udp::COUNT).map(|step| udp::FIRST | (own.wrapping_add(step) & (udp::COUNT - 1)));
    ports.into_iter().find(|port| {
        let flow = Flow { port: *port, ..*flow };
        fanout.leaf.pick(&flow, fanout.spines * fanout.cables) == uplink
            && fanout.spine.pick(&flow, fanout.cables) == uplink % fanout.cables
    })
}

/// The load with the ports that the flows have anyway.
#[must_use]
pub fn by_chance(demands: &[Demand], fanout: &Fanout) -> Loads {
    let crosses: Vec<usize> =
        (0..demands.len()).filter(|index| demands[*index].from != demands[*index].to).collect();
    let ports: Vec<u16> = demands.iter().map(|demand| demand.flow.port).collect();
    let least = busiest(demands, &crosses).div_ceil((fanout.spines * fanout.cables).max(1));
    Loads { worst: worst(demands, &ports, fanout), least }
}

/// Most flows that begin or end at one leaf.
fn busiest(demands: &[Demand], crosses: &[usize]) -> usize {
    let mut count: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for index in crosses {
        *count.entry((0, demands[*index].from)).or_default() += 1;
        *count.entry((1, demands[*index].to)).or_default() += 1;
    }
    count.into_values().max().unwrap_or(0)
}

/// Most flows on one link, by walking each through the hashes.
fn worst(demands: &[Demand], ports: &[u16], fanout: &Fanout) -> usize {
    let mut load: BTreeMap<(usize, usize, usize, usize), usize> = BTreeMap::new();
    for (demand, port) in demands.iter().zip(ports).filter(|(demand, _)| demand.from != demand.to) {
        let flow = Flow { port: *port, ..demand.flow };
        let uplink = fanout.leaf.pick(&flow, fanout.spines * fanout.cables);
        let spine = uplink / fanout.cables;
        let cable = fanout.spine.pick(&flow, fanout.cables);
        *load.entry((0, demand.from, spine, uplink % fanout.cables)).or_default() += 1;
        *load.entry((1, demand.to, spine, cable)).or_default() += 1;
    }
    load.into_values().max().unwrap_or(0)
}
