//! Routing of the fabric: unnumbered eBGP, an autonomous system for each leaf and one for each tier of spines, so that a path has one
//! number for each switch on it and no spine takes a route that has been at its tier (no valleys). The plan follows from names alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use thiserror::Error;

use crate::{
    model::{Name, Peer, Role, Switch},
    source::{Source, Sourced},
};

/// The first private number of two bytes (RFC 6996); tiers of spines take theirs from here.
const TWO_BYTES: u32 = 64_512;
/// Leaves from here on.
const LEAVES: u32 = 65_000;
/// How many leaves have numbers of two bytes.
const LEAVES_MAX: u32 = 534;
/// The first private number of four bytes (RFC 6996), for leaves of larger fabrics.
const FOUR_BYTES: u32 = 4_200_000_000;
/// Loopbacks that are planned are in this network of 2^16 addresses: 10.255.0.0/16.
const LOOPBACKS: u32 = 0x0aff_0000;

/// How fast a dead peer is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bfd {
    /// Time between packets that are sent, in ms.
    pub transmit_ms: u32,
    /// Time between packets that are expected, in ms.
    pub receive_ms: u32,
}

impl Bfd {
    /// Three times 100 ms: a dead spine was noticed after 0.38 s in the lab.
    pub const FAST: Self = Self { transmit_ms: 100, receive_ms: 100 };
}

/// Routing of one switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bgp {
    /// Number of its autonomous system.
    pub asn: Sourced<u32>,
    /// Its loopback, which is its router id as well.
    pub loopback: Sourced<Ipv4Addr>,
    /// Ports with a neighbour.
    pub neighbors: BTreeSet<Name>,
    /// How fast a dead one is noticed.
    pub bfd: Bfd,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BgpRefusal {
    /// More switches than addresses for loopbacks.
    #[error("{0} switches: loopbacks are planned for at most 65534")]
    TooMany(usize),
    /// Two switches of one name.
    #[error("{0}: two switches have this name")]
    Twice(Name),
    /// An address of two switches.
    #[error("{address}: is the loopback of {one} and of {other}")]
    Loopback {
        /// The address.
        address: Ipv4Addr,
        /// The first of them.
        one: Name,
        /// The other.
        other: Name,
    },
    /// A leaf does not take routes of another switch with its number, and has no session with a spine that has it.
    #[error("AS {asn}: of leaf {one} and of {other}; they would not take each other's routes")]
    Asn {
        /// The number.
        asn: u32,
        /// The first of them.
        one: Name,
        /// The other.
        other: Name,
    },
    /// Spines of a tier with different numbers take routes from each other's leaves.
    #[error("AS {asn}: {one} is of tier {tier}, whose number is {wanted}; valley paths would be taken")]
    Tier {
        /// The number.
        asn: u32,
        /// The spine.
        one: Name,
        /// Its tier.
        tier: u8,
        /// What the others have.
        wanted: u32,
    },
}

impl BgpRefusal {
    /// Whether it is about a switch of that name and tier.
    #[must_use]
    pub fn concerns(&self, name: &str, own_tier: u8) -> bool {
        match self {
            Self::TooMany(_) => true,
            Self::Twice(one) => one.as_str() == name,
            Self::Loopback { one, other, .. } | Self::Asn { one, other, .. } => {
                one.as_str() == name || other.as_str() == name
            }
            Self::Tier { tier, .. } => *tier == own_tier,
        }
    }
}

/// Routing of each switch, by its name.
///
/// # Errors
/// Every [`BgpRefusal`] at once.
pub fn plan(switches: &[Switch]) -> Result<BTreeMap<Name, Bgp>, Vec<BgpRefusal>> {
    let (plans, wrong) = plan_all(switches);
    if wrong.is_empty() { Ok(plans) } else { Err(wrong) }
}

/// Routing of each switch, by its name, and what does not go together.
#[must_use]
pub fn plan_all(switches: &[Switch]) -> (BTreeMap<Name, Bgp>, Vec<BgpRefusal>) {
    let by_name: BTreeMap<&Name, &Switch> = switches.iter().map(|switch| (&switch.name, switch)).collect();
    let mut wrong = Vec::new();
    if by_name.len() < switches.len() {
        let mut seen = BTreeSet::new();
        let twice = switches.iter().filter(|switch| !seen.insert(&switch.name));
        wrong.extend(twice.map(|switch| BgpRefusal::Twice(switch.name.clone())));
    }
    if switches.len() > 65_534 {
        return (BTreeMap::new(), vec![BgpRefusal::TooMany(switches.len())]);
    }
    let leaves = by_name.values().filter(|switch| switch.role == Role::Leaf).count();
    let (mut plans, mut leaf) = (BTreeMap::new(), 0);
    for (at, switch) in (1..).zip(by_name.values()) {
        let planned = planned_asn(switch.role, leaf, leaves);
        leaf += u32::from(switch.role == Role::Leaf);
        let given = |value| Sourced { value, source: Source::Fabric("the list of switches") };
        let loopback = switch.loopback.map_or(
            Sourced {
                value: Ipv4Addr::from_bits(LOOPBACKS + at),
                source: Source::Rule("by the order of names"),
            },
            |value| Sourced { value, source: Source::Fabric("the list of switches") },
        );
        let asn = switch.asn.map_or(planned, given);
        let neighbors = neighbors(switch);
        plans.insert(switch.name.clone(), Bgp { asn, loopback, neighbors, bfd: Bfd::FAST });
    }
    wrong.extend(conflicts(&by_name, &plans));
    (plans, wrong)
}

/// Ports of a switch with another one at their other end.
#[must_use]
pub fn neighbors(switch: &Switch) -> BTreeSet<Name> {
    let cabled = switch.ports.iter().filter(|port| matches!(port.peer, Peer::Switch { .. }));
    cabled.map(|port| port.name.clone()).collect()
}

fn planned_asn(role: Role, leaf: u32, leaves: usize) -> Sourced<u32> {
    const WHY: Source =
        Source::Rule("one for each leaf by the order of names, one for each tier of spines (RFC 7938)");
    let value = match role {
        Role::Spine(tier) => TWO_BYTES + u32::from(tier),
        Role::Leaf if leaves <= LEAVES_MAX as usize => LEAVES + leaf,
        Role::Leaf => FOUR_BYTES + leaf,
    };
    Sourced { value, source: WHY }
}

/// Numbers and addresses that are given and do not go together.
fn conflicts(switches: &BTreeMap<&Name, &Switch>, plans: &BTreeMap<Name, Bgp>) -> Vec<BgpRefusal> {
    let mut wrong = Vec::new();
    let (mut addresses, mut numbers, mut tiers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut spines: BTreeMap<u32, &Name> = BTreeMap::new();
    for (name, plan) in plans {
        let (address, asn) = (plan.loopback.value, plan.asn.value);
        if let Some(one) = addresses.insert(address, name) {
            wrong.push(BgpRefusal::Loopback { address, one: one.clone(), other: name.clone() });
        }
        match switches.get(name).map(|switch| switch.role) {
            Some(Role::Spine(tier)) => {
                let wanted = *tiers.entry(tier).or_insert(asn);
                if wanted != asn {
                    wrong.push(BgpRefusal::Tier { asn, one: name.clone(), tier, wanted });
                }
                spines.entry(asn).or_insert(name);
            }
            _ => {
                if let Some(one) = numbers.insert(asn, name) {
                    wrong.push(BgpRefusal::Asn { asn, one: Name::clone(one), other: name.clone() });
                }
            }
        }
    }
    for (asn, one) in numbers {
        if let Some(other) = spines.get(&asn) {
            wrong.push(BgpRefusal::Asn { asn, one: one.clone(), other: Name::clone(other) });
        }
    }
    wrong
}
