//! What a profile comes to on a driver: where the drivers differ in what a number means, the meaning is kept.

use crate::{
    profile::QosProfile,
    settings::{AppEntry, AppTable, DcbxMode, Ets, Pause},
    vendor::{DelayMeaning, TrustStyle, Vendor},
    words::{Priority, PrioritySet, Trust, Tsa},
};

/// The values that a port of this driver should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What the priority of a packet is read from.
    pub trust: Trust,
    /// The entries that map DSCPs to priorities.
    pub dscp: AppTable,
    /// The entry for RoCE v2's port, where the driver needs one.
    pub roce_port: Option<AppEntry>,
    /// How traffic classes share the link (ETS).
    pub ets: Ets,
    /// Priorities with flow control.
    pub pfc: PrioritySet,
    /// The length of the cable, where the driver takes it.
    pub delay: Option<u16>,
}

impl Wanted {
    /// The values that `profile` means for a port of `vendor`.
    #[must_use]
    pub fn of(profile: &QosProfile, vendor: &Vendor) -> Self {
        let spec = profile.spec();
        let mut ets = profile.ets();
        let classes = vendor.data_classes_are_classes && spec.trust == Trust::Dscp;
        // Where priorities are classes, the class takes the priority's place.
        let data_class = |priority: Priority| {
            if classes { Priority::of(spec.prio_tc[priority.index()]) } else { priority }
        };
        if classes {
            ets.prio_tc = [0, 1, 2, 3, 4, 5, 6, 7];
        }
        if vendor.starving_refused {
            ets = fed(ets);
        }
        let entry = |found: &AppEntry| AppEntry {
            priority: data_class(Priority::of(found.priority)).get(),
            ..*found
        };
        let pfc = spec.pfc.iter().fold(PrioritySet::EMPTY, |set, priority| set.with(data_class(priority)));
        Self {
            trust: spec.trust,
            dscp: profile.dscp_entries().iter().map(entry).collect(),
            roce_port: vendor.roce_port_entry.then(|| AppEntry::roce_port(spec.lossless_priority)),
            ets,
            pfc,
            delay: (vendor.delay == DelayMeaning::Metres).then_some(spec.cable_length),
        }
    }
}

/// ETS in which no class starves. A class that no priority is in becomes strict, since nothing is in it that would be served first; one
/// with priorities would be, so it has the least share that there is, of the greatest one.
fn fed(mut ets: Ets) -> Ets {
    for tc in 0..8 {
        if ets.tsa[tc] != Tsa::Ets || ets.bandwidth[tc] > 0 {
            continue;
        }
        if !ets.prio_tc.iter().any(|of| usize::from(*of) == tc) {
            ets.tsa[tc] = Tsa::Strict;
            continue;
        }
        let shared = (0..8).filter(|other| ets.tsa[*other] == Tsa::Ets && ets.bandwidth[*other] > 1);
        // Of equal ones the first, which is more often that of ordinary traffic than the last is.
        if let Some(greatest) = shared.rev().max_by_key(|other| ets.bandwidth[*other]) {
            ets.bandwidth[greatest] -= 1;
            ets.bandwidth[tc] = 1;
        }
    }
    ets
}

/// The mode in which the host owns DCBX, from `found`.
#[must_use]
pub const fn host_mode(found: DcbxMode, vendor: &Vendor) -> DcbxMode {
    if vendor.dcbx.keeps_versions {
        return DcbxMode(found.0 & !DcbxMode::LLD_MANAGED | DcbxMode::HOST | DcbxMode::VER_IEEE);
    }
    DcbxMode(DcbxMode::HOST_IEEE.0 | found.0 & DcbxMode::STATIC)
}

/// Global pause as it should be, from `found`: what is negotiated is left to the link's settings.
#[must_use]
pub const fn pause(found: Pause, profile: &QosProfile) -> Pause {
    let wanted = profile.pause();
    Pause { autoneg: found.autoneg, rx: wanted.rx, tx: wanted.tx }
}

/// ETS as the driver has it when it is set to trust the VLAN tag; for those that put it back.
pub const RESET_TO_PCP: Ets = Ets {
    willing: true,
    tsa: {
        let mut tsa = [Tsa::Strict; 8];
        tsa[0] = Tsa::Ets;
        tsa
    },
    bandwidth: [100, 0, 0, 0, 0, 0, 0, 0],
    prio_tc: [0; 8],
};

/// ETS as the driver has it when it is set to trust DSCPs; for those that put it back.
pub const RESET_TO_DSCP: Ets = Ets {
    willing: false,
    tsa: [Tsa::Ets; 8],
    bandwidth: [100, 0, 0, 0, 0, 0, 0, 0],
    prio_tc: [0, 1, 2, 3, 4, 5, 6, 7],
};

/// Whether entries switch trust on this driver.
#[must_use]
pub const fn trust_follows(vendor: &Vendor) -> bool {
    matches!(vendor.trust, TrustStyle::FollowsEntries | TrustStyle::FollowsEntriesAndResets)
}
