//! Ways of packets through the fabric: from a NIC through a port, in or out, to a NIC.

use std::{collections::BTreeMap, fmt};

use super::facts::NicId;
use crate::model::{Name, Peer, Port, Switch};

/// No way is longer: up all tiers and down again.
const HOPS_MAX: usize = 12;

/// A switch on a way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The switch.
    pub switch: Name,
    /// Where the packet comes in.
    pub in_port: Name,
    /// Where it goes out.
    pub out_port: Name,
}

/// A way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// Who sends.
    pub from: NicId,
    /// The switches between.
    pub hops: Vec<Hop>,
    /// Who receives.
    pub to: NicId,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.from)?;
        for hop in &self.hops {
            write!(f, " -> {} [{}, {}]", hop.switch, hop.in_port, hop.out_port)?;
        }
        write!(f, " -> {}", self.to)
    }
}

/// Switches by name.
pub type Site<'a> = BTreeMap<&'a Name, &'a Switch>;

/// These switches by name.
#[must_use]
pub fn site(switches: &[Switch]) -> Site<'_> {
    switches.iter().map(|switch| (&switch.name, switch)).collect()
}

/// A port of a switch.
type At<'a> = (&'a Switch, &'a Port);

fn peer<'a>(site: &Site<'a>, port: &Port) -> Option<At<'a>> {
    let Peer::Switch { switch, port } = &port.peer else { return None };
    let switch = site.get(switch)?;
    Some((switch, switch.port(port)?))
}

fn nic(port: &Port) -> Option<NicId> {
    match &port.peer {
        Peer::Nic { server, nic, .. } => Some(NicId { server: server.clone(), nic: nic.clone() }),
        Peer::Switch { .. } => None,
    }
}

/// Another port of `switch`, from which a packet comes or to which it goes: one to a NIC if there is one, else one to a lower tier.
fn onward<'a>(site: &Site<'a>, switch: &'a Switch, not: &Name) -> Option<&'a Port> {
    let others = || switch.ports.iter().filter(|port| port.name != *not);
    let lower =
        |port: &&Port| peer(site, port).is_some_and(|(other, _)| other.role.tier() < switch.role.tier());
    others()
        .find(|port| nic(port).is_some())
        .or_else(|| others().find(lower))
        // A switch with one port alone sends back.
        .or_else(|| switch.port(not).filter(|port| nic(port).is_some() || lower(port)))
}

/// The ports of a way beyond `port`, which lead to a NIC: each the port that is left and, but for the last, that of the next switch.
fn to_a_nic<'a>(
    site: &Site<'a>,
    switch: &'a Switch,
    port: &'a Port,
) -> Option<(Vec<(At<'a>, At<'a>)>, NicId)> {
    let (mut steps, mut at) = (Vec::new(), (switch, port));
    while steps.len() < HOPS_MAX {
        if let Some(end) = nic(at.1) {
            return Some((steps, end));
        }
        let next = peer(site, at.1)?;
        let out = onward(site, next.0, &next.1.name)?;
        steps.push((next, (next.0, out)));
        at = (next.0, out);
    }
    None
}

/// A route on which a packet passes `port` of `switch`, comes in there or goes out, and the place of that switch on it; none where no NIC
/// is reached by that port.
#[must_use]
pub fn through(site: &Site<'_>, switch: &Name, port: &Name, comes_in: bool) -> Option<(Route, usize)> {
    let switch = site.get(switch)?;
    let port = switch.port(port)?;
    let other = onward(site, switch, &port.name)?;
    let (before, after) = if comes_in { (port, other) } else { (other, port) };
    // What comes in by a port has come the way that leads to a NIC, backwards.
    let (back, from) = to_a_nic(site, switch, before)?;
    let (forth, to) = to_a_nic(site, switch, after)?;
    let hop = |switch: &Switch, come: &Port, go: &Port| Hop {
        switch: switch.name.clone(),
        in_port: come.name.clone(),
        out_port: go.name.clone(),
    };
    let mut hops: Vec<Hop> = back.iter().rev().map(|(near, far)| hop(near.0, far.1, near.1)).collect();
    let here = hops.len();
    hops.push(hop(switch, before, after));
    hops.extend(forth.iter().map(|(near, far)| hop(near.0, near.1, far.1)));
    Some((Route { from, hops, to }, here))
}
