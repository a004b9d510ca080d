//! What makes a fault.

use proto_profile::QosProfile;
use proto_random::Random;

use crate::{
    model::Port,
    state::{NicState, PortState, SwitchState},
};

/// What a mutation is made on.
pub(super) struct Site<'a> {
    pub(super) profile: &'a QosProfile,
    pub(super) port: &'a Port,
}

/// Changes a port; none where that would change nothing there.
pub(super) type PortChange = fn(&Site<'_>, &mut PortState, &mut Random) -> Option<()>;
/// Changes a switch.
pub(super) type WholeChange = fn(&Site<'_>, &mut SwitchState, &mut Random) -> Option<()>;
/// Changes a NIC.
pub(super) type NicChange = fn(&Site<'_>, &mut NicState, &mut Random) -> Option<()>;

/// Another number below `bound` than `not`.
pub(super) fn other(random: &mut Random, not: u8, bound: u8) -> u8 {
    let step = 1 + random.below(u64::from(bound) - 1);
    // Below 256, as `bound` is.
    ((u64::from(not) + step) % u64::from(bound)) as u8
}
