//! Faults of NICs.

use std::sync::Arc;

use proto_profile::words::{PrioritySet, Trust, Tsa};
use proto_random::Random;

use super::change::{NicChange, Site, other};
use crate::state::NicState;

/// Every fault by name.
pub(super) const CHANGES: &[(&str, NicChange)] = &[
    ("trust on layer 2", trust),
    ("a DSCP in another priority", dscp),
    ("data in another priority", data),
    ("a priority with or without PFC", pfc),
    ("another MTU", mtu),
    ("a priority in another class", class),
    ("another scheduler", scheduler),
    ("another share", share),
    ("ToS without ECT", not_ect),
    ("ToS of another DSCP", tos),
    ("CNP DSCP 4 or another", cnp_dscp),
    ("another priority of CNPs", cnp_priority),
    ("nobody answers marks", notification),
    ("nobody heeds CNPs", reaction),
    ("another speed", speed),
];

fn trust(_: &Site<'_>, nic: &mut NicState, _: &mut Random) -> Option<()> {
    nic.trust = Trust::Pcp;
    Some(())
}

fn remap(nic: &mut NicState, dscp: u8, random: &mut Random) -> Option<()> {
    let map = Arc::make_mut(&mut nic.dscp_to_priority);
    let to = other(random, map.get(&dscp).copied()?, 8);
    map.insert(dscp, to);
    Some(())
}

fn dscp(_: &Site<'_>, nic: &mut NicState, random: &mut Random) -> Option<()> {
    let dscp = u8::try_from(random.below(64)).ok()?;
    remap(nic, dscp, random)
}

fn data(site: &Site<'_>, nic: &mut NicState, random: &mut Random) -> Option<()> {
    remap(nic, site.profile.spec().data_dscp.get(), random)
}

fn pfc(_: &Site<'_>, nic: &mut NicState, random: &mut Random) -> Option<()> {
    nic.pfc = PrioritySet(nic.pfc.0 ^ 1 << random.below(8));
    Some(())
}

fn mtu(_: &Site<'_>, nic: &mut NicState, random: &mut Random) -> Option<()> {
    nic.mtu =
        if random.below(2) == 0 { nic.mtu + 1 } else { u32::try_from(random.within(576, 4000)).ok()? };
    Some(())
}

/// A priority that some DSCP has.
fn used(nic: &NicState, random: &mut Random) -> Option<usize> {
    let priorities: std::collections::BTreeSet<u8> = nic.dscp_to_priority.values().copied().collect();
    let all: Vec<u8> = priorities.into_iter().collect();
    all.get(random.index(all.len())).map(|one| usize::from(*one))
}

fn class(_: &Site<'_>, nic: &mut NicState, random: &mut Random) -> Option<()> {
    let priority = used(nic, random)?;
    nic.priority_tc[priority] = other(random, nic.priority_tc[priority], 8);
    Some(())
}

fn scheduler(_: &Site<'_>, nic: &mut NicState, random: &mut Random) -> Option<()> {
    let tc = usize::from(nic.priority_tc[used(nic, random)?]);
    nic.tsa[tc] = if nic.tsa[tc] == Tsa::Strict { Tsa::Ets } else { Tsa::Strict };
    Some(())
}

fn share(_: &Site<'_>, nic: &mut NicState, random: &mut Random) -> Option<()> {
    let tc = usize::from(nic.priority_tc[used(nic, random)?]);
    nic.bandwidth[tc] = (nic.bandwidth[tc] + 1) % 101;
    (nic.tsa[tc] == Tsa::Ets).then_some(())
}

fn not_ect(_: &Site<'_>, nic: &mut NicState, _: &mut Random) -> Option<()> {
    nic.tos &= !3;
    Some(())
}

fn tos(_: &Site<'_>, nic: &mut NicState, random: &mut Random) -> Option<()> {
    nic.tos = other(random, nic.tos >> 2, 64) << 2 | nic.tos & 3;
    Some(())
}

fn cnp_dscp(_: &Site<'_>, nic: &mut NicState, random: &mut Random) -> Option<()> {
    nic.cnp_dscp =
        if random.below(2) == 0 && nic.cnp_dscp != 4 { 4 } else { other(random, nic.cnp_dscp, 64) };
    Some(())
}

fn cnp_priority(_: &Site<'_>, nic: &mut NicState, random: &mut Random) -> Option<()> {
    nic.cnp_priority = other(random, nic.cnp_priority, 8);
    Some(())
}

fn notification(_: &Site<'_>, nic: &mut NicState, _: &mut Random) -> Option<()> {
    nic.notification = PrioritySet::EMPTY;
    Some(())
}

fn reaction(_: &Site<'_>, nic: &mut NicState, _: &mut Random) -> Option<()> {
    nic.reaction = PrioritySet::EMPTY;
    Some(())
}

fn speed(_: &Site<'_>, nic: &mut NicState, _: &mut Random) -> Option<()> {
    nic.speed /= 2;
    Some(())
}
