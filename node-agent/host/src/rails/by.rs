//! Each kind of rule, as a function of what it looks at.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    error::RAILS_MOST,
    lldp::Switches,
    net::Subnets,
    rule::{Candidate, Served},
};
use crate::finding::{Finding, FindingKind};

type Rails = Vec<Option<Served>>;

fn served(rail: u32, reason: impl Into<String>) -> Served {
    Served { rail, reason: reason.into() }
}

pub(super) fn pattern(pattern: &str, candidates: &[Candidate<'_>]) -> Rails {
    let Some((before, after)) = pattern.split_once("{k}") else { return vec![None; candidates.len()] };
    let number = |name: &str| -> Option<Served> {
        let digits = name.strip_prefix(before)?.strip_suffix(after)?;
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let rail = plain.then(|| digits.parse().ok()).flatten().filter(|rail| *rail < RAILS_MOST)?;
        Some(served(rail, format!("name {name}")))
    };
    candidates.iter().map(|one| number(one.device).or_else(|| number(one.netdev))).collect()
}

/// `speeds` is what each candidate counts by.
pub(super) fn pci(candidates: &[Candidate<'_>], speeds: &[u64]) -> Rails {
    let rdma = || candidates.iter().zip(speeds).enumerate().filter(|(_, (one, _))| one.rdma);
    let fastest = rdma().map(|(_, (_, speed))| *speed).max().unwrap_or(0);
    let mut order: Vec<usize> =
        rdma().filter(|(_, (_, speed))| **speed == fastest).map(|(at, _)| at).collect();
    order.sort_by_key(|at| (candidates[*at].pci_address, candidates[*at].device));
    let mut rails = vec![None; candidates.len()];
    for (rail, at) in (0..RAILS_MOST).zip(order) {
        rails[at] = Some(served(rail, "PCI order"));
    }
    rails
}

pub(super) fn map(
    map: &BTreeMap<String, u32>,
    candidates: &[Candidate<'_>],
    findings: &mut Vec<Finding>,
) -> Rails {
    let is = |one: &Candidate<'_>, name: &str| match name.strip_prefix("slot/") {
        Some(slot) => !slot.is_empty() && one.slot == slot,
        None => [one.device, one.netdev, one.pci_address].contains(&name),
    };
    for name in map.keys().filter(|name| !candidates.iter().any(|one| is(one, name))) {
        let text = "the rail map names it, but this server has no such NIC";
        findings.push(Finding::new(FindingKind::RailUnknown, name, text));
    }
    let rail = |one: &Candidate<'_>| {
        let found = map.iter().find(|(name, _)| is(one, name.as_str()));
        found.map(|(name, rail)| served(*rail, format!("map {name}={rail}")))
    };
    candidates.iter().map(rail).collect()
}

pub(super) fn subnet(subnets: &Subnets, candidates: &[Candidate<'_>], findings: &mut Vec<Finding>) -> Rails {
    let all = |one: &Candidate<'_>| -> Vec<Served> {
        let found = one.addresses.iter().filter_map(|address| subnets.find(*address));
        found.map(|(net, rail)| served(rail, format!("subnet {net}"))).collect()
    };
    candidates.iter().map(|one| only(one, all(one), "its addresses are in subnets of", findings)).collect()
}

pub(super) fn switch(
    switches: &Switches,
    candidates: &[Candidate<'_>],
    findings: &mut Vec<Finding>,
) -> Rails {
    let all = |one: &Candidate<'_>| -> Vec<Served> {
        let found = one.switches.iter().filter_map(|name| Some((name, switches.find(name)?)));
        found.map(|(name, rail)| served(rail, format!("LLDP neighbour {name}"))).collect()
    };
    candidates.iter().map(|one| only(one, all(one), "it hears switches of", findings)).collect()
}

/// The rail, where all that was found agrees.
fn only(
    candidate: &Candidate<'_>,
    found: Vec<Served>,
    what: &str,
    findings: &mut Vec<Finding>,
) -> Option<Served> {
    let rails: BTreeSet<u32> = found.iter().map(|served| served.rail).collect();
    if rails.len() > 1 {
        let named: Vec<String> = rails.iter().map(u32::to_string).collect();
        let text = format!("{what} rails {}; the rule cannot tell which it serves", named.join(" and "));
        findings.push(Finding::new(FindingKind::RailUnclear, candidate.device, text));
        return None;
    }
    found.into_iter().next()
}
