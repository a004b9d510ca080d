//! Which rail a NIC serves: by an explicit map, by its name, by its place on the PCI bus, by its subnet, or by the switch that it hears.

mod by;
mod error;
mod lldp;
mod net;
mod parse;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::finding::{Finding, FindingKind};

pub use error::{RAILS_MOST, RailRuleError};
pub use lldp::Switches;
pub use net::Subnets;
pub use rule::{Candidate, RailRule, Served};

/// What earlier passes found, by PCI address and device. A switch that restarts is silent for a while, and an address may be gone while a
/// link is down, and its speed is: the cable is still the same one, so a NIC keeps its rail until the rule finds another for it, or it
/// goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreviousFindings {
    rails: BTreeMap<Key, Served>,
    /// The fastest that each was seen, Mbit/s.
    speeds: BTreeMap<Key, u64>,
}

type Key = (String, String);

fn key(one: &Candidate<'_>) -> Key {
    (one.pci_address.to_owned(), one.device.to_owned())
}

impl RailRule {
    /// The addresses of a network device that may be its rail's: those in a rail's subnet, where rails are subnets and it has any.
    #[must_use]
    pub fn of_rails(&self, addresses: &[IpAddr]) -> Vec<IpAddr> {
        let Self::Subnet(subnets) = self else { return addresses.to_vec() };
        let within: Vec<IpAddr> =
            addresses.iter().copied().filter(|address| subnets.find(*address).is_some()).collect();
        if within.is_empty() { addresses.to_vec() } else { within }
    }

    /// The rail of each candidate, in their order; none for a NIC that serves no rail. What the rule asks for and
    /// is not there, and two NICs on one rail, are findings.
    pub fn assign(
        &self,
        candidates: &[Candidate<'_>],
        held: &mut PreviousFindings,
        findings: &mut Vec<Finding>,
    ) -> Vec<Option<Served>> {
        let rails = match self {
            Self::Auto => {
                let by_name = by::pattern("rail{k}", candidates);
                let named = by_name.iter().any(Option::is_some);
                if named { by_name } else { by::pci(candidates, &held.speeds(candidates, findings)) }
            }
            Self::PciOrder => by::pci(candidates, &held.speeds(candidates, findings)),
            Self::Pattern(pattern) => by::pattern(pattern, candidates),
            Self::Map(map) => by::map(map, candidates, findings),
            Self::Subnet(subnets) => {
                let rails = by::subnet(subnets, candidates, findings);
                held.fill(candidates, rails)
            }
            Self::Lldp(switches) => {
                let rails = by::switch(switches, candidates, findings);
                held.fill(candidates, rails)
            }
        };
        let mut owners: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for (candidate, served) in candidates.iter().zip(&rails) {
            if let Some(served) = served {
                owners.entry(served.rail).or_default().push(candidate.device);
            }
        }
        for (rail, devices) in owners.iter().filter(|(_, devices)| devices.len() > 1) {
            let text = format!("{} all serve rail {rail}; a job uses one of them", devices.join(", "));
            findings.push(Finding::new(FindingKind::RailShared, devices[0], text));
        }
        rails
    }
}

impl PreviousFindings {
    /// Keeps what was found, and fills in what was found before of NICs that are still there.
    fn fill(&mut self, candidates: &[Candidate<'_>], found: Vec<Option<Served>>) -> Vec<Option<Served>> {
        self.rails.retain(|known, _| candidates.iter().any(|one| key(one) == *known));
        let one = |(candidate, served): (&Candidate<'_>, Option<Served>)| match served {
            Some(served) => {
                self.rails.insert(key(candidate), served.clone());
                Some(served)
            }
            None => self
                .rails
                .get(&key(candidate))
                .map(|before| Served { rail: before.rail, reason: format!("as before: {}", before.reason) }),
        };
        candidates.iter().zip(found).map(one).collect()
    }
    /// The speed that each candidate counts by, Mbit/s: the fastest that it was ever seen, so that a link that is down or trained slowly
    /// moves no other NIC to another rail. One that was never seen with a link has the speed that most of its siblings have, the faster
    /// one of two that as many have; where these differ, that is a finding. 0 where nothing is known.
    fn speeds(&mut self, candidates: &[Candidate<'_>], findings: &mut Vec<Finding>) -> Vec<u64> {
        self.speeds.retain(|known, _| candidates.iter().any(|one| key(one) == *known));
        for one in candidates.iter().filter(|one| one.speed_mbps > 0) {
            let fastest = self.speeds.entry(key(one)).or_default();
            *fastest = one.speed_mbps.max(*fastest);
        }
        let seen: Vec<u64> =
            candidates.iter().map(|one| self.speeds.get(&key(one)).copied().unwrap_or(0)).collect();
        let of_siblings = |one: &Candidate<'_>| {
            let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
            let sibling =
                |other: &Candidate<'_>| other.rdma && other.kind == one.kind && one.kind != ("", "");
            for (_, speed) in
                candidates.iter().zip(&seen).filter(|(other, speed)| sibling(other) && **speed > 0)
            {
                *counts.entry(*speed).or_default() += 1;
            }
            counts
        };
        let mut speeds = seen.clone();
        for (one, speed) in candidates.iter().zip(&mut speeds).filter(|(one, speed)| one.rdma && **speed == 0)
        {
            let counts = of_siblings(one);
            *speed =
                counts.iter().max_by_key(|(speed, count)| (**count, **speed)).map_or(0, |(speed, _)| *speed);
            if counts.len() > 1 {
                let all: Vec<String> = counts.keys().map(u64::to_string).collect();
                let text = format!(
                    "its link is down, and NICs of its kind have {} Mbit/s; for the order of rails it counts as one of {speed}",
                    all.join(" and ")
                );
                findings.push(Finding::new(FindingKind::RailUnclear, one.device, text));
            }
        }
        speeds
    }
}
