//! What a driver does with a change, as a function: for proofs about plans, and to say what a step will leave.

use std::collections::BTreeMap;

use crate::{
    edit::{AppOp, Change},
    observed::{Observed, Reading, Settings},
    settings::{AppTable, CcParam, CcSide, DcbxMode, Pfc},
    vendor::{AppStyle, TrustStyle, Vendor},
    wanted::{RESET_TO_DSCP, RESET_TO_PCP},
    words::{PrioritySet, Trust},
};

/// `observed` after `change` on a device of `vendor`. What was not known stays unknown, and what the driver refuses as it was.
#[must_use]
pub fn apply(observed: &Observed, change: &Change, vendor: &Vendor) -> Observed {
    let mut after = observed.clone();
    let set = &mut after.settings;
    match change {
        Change::Dcbx { to, .. } => put(&mut set.dcbx, *to),
        Change::FirmwareLldp { to, .. } => {
            put(&mut set.firmware_lldp, *to);
            if let Some(mode) = set.dcbx.known_mut().filter(|_| vendor.dcbx.follows_firmware_lldp) {
                let (on, off) = if *to {
                    (DcbxMode::LLD_MANAGED, DcbxMode::HOST)
                } else {
                    (DcbxMode::HOST, DcbxMode::LLD_MANAGED)
                };
                mode.0 = mode.0 & !off | on;
            }
        }
        Change::Pause { to, .. } => put(&mut set.pause, *to),
        Change::Mtu { to, .. } => put(&mut set.mtu, *to),
        Change::Trust { to, .. } => put(&mut set.trust, *to),
        Change::App { ops, .. } => app(set, ops, vendor),
        // Refused, so it stays as it was.
        Change::Ets { to, .. } if vendor.starving_refused && to.starves_a_class() => {}
        Change::Ets { to, .. } => put(&mut set.ets, *to),
        Change::MaxRate { to, .. } => put(&mut set.max_rate, to.map(|rate| vendor.rate_kept(rate))),
        Change::Pfc { to, .. } => put(&mut set.pfc, *to),
        Change::Buffer { to, .. } => put(&mut set.buffer, *to),
        Change::PfcPrevention { to, .. } => put(&mut set.pfc_prevention, *to),
        Change::DefaultTos { to, .. } => put(&mut set.default_tos, *to),
        Change::DefaultMode { to, .. } => put(&mut set.default_mode, *to),
        Change::ForcedTos { to, .. } => put(&mut set.forced_tos, *to),
        _ => congestion(set, change),
    }
    after
}

fn congestion(set: &mut Settings, change: &Change) {
    let congestion = &mut set.congestion;
    match change {
        Change::CcEnable { side, priority, to, .. } => {
            let end = match side {
                CcSide::NotificationPoint => &mut congestion.notification,
                CcSide::ReactionPoint => &mut congestion.reaction,
            };
            if let Some(mask) = end.known_mut() {
                let bit = PrioritySet::only(*priority).0;
                mask.0 = if *to { mask.0 | bit } else { mask.0 & !bit };
            }
        }
        Change::CcDevice { to, .. } => {
            let all = if *to { PrioritySet(0xff) } else { PrioritySet::EMPTY };
            put(&mut congestion.notification, all);
            put(&mut congestion.reaction, all);
        }
        Change::CnpDscp { to, .. } => put(&mut congestion.cnp_dscp, *to),
        Change::CnpPriority { to, .. } => {
            put(&mut congestion.cnp_priority, *to);
            // mlx5's driver makes it the one that counts.
            if let Some(mode) = congestion.params.get_mut(&CcParam::CnpPrioMode) {
                put(mode, 0);
            }
        }
        Change::RoceDscp { to, .. } => put(&mut congestion.roce_dscp, *to),
        Change::RocePriority { to, .. } => put(&mut congestion.roce_priority, *to),
        Change::CcParam { param, to, .. } => {
            if let Some(reading) = congestion.params.get_mut(param) {
                put(reading, *to);
            }
        }
        _ => {}
    }
}

fn put<T>(reading: &mut Reading<T>, value: T) {
    if let Some(known) = reading.known_mut() {
        *known = value;
    }
}

/// The table after `ops`, step by step as the driver does them, and what trust becomes by it.
fn app(set: &mut Settings, ops: &[AppOp], vendor: &Vendor) {
    let Some(mut table) = set.app.known().cloned() else { return };
    let mut follows = Followed::of(&table);
    for op in ops {
        let before = has_dscp(&table);
        step(&mut table, &mut follows, *op, vendor.app);
        let now = has_dscp(&table);
        if before != now {
            switch(set, now, vendor);
        }
    }
    set.app = Reading::Known(table);
}

/// The priority that the hardware follows for each DSCP: the driver keeps it beside the kernel's table.
struct Followed(BTreeMap<u16, u8>);

impl Followed {
    fn of(table: &AppTable) -> Self {
        // Of two entries the kernel's helpers take the higher priority; the table is in order of priority.
        Self(
            table
                .iter()
                .filter(|entry| entry.is_dscp())
                .map(|entry| (entry.protocol, entry.priority))
                .collect(),
        )
    }
}

fn step(table: &mut AppTable, follows: &mut Followed, op: AppOp, style: AppStyle) {
    match (op, style) {
        (AppOp::Set(entry), AppStyle::Replaces) if entry.is_dscp() => {
            if let Some(old) = follows.0.insert(entry.protocol, entry.priority) {
                table.remove(&crate::settings::AppEntry { priority: old, ..entry });
            }
            table.insert(entry);
        }
        // One that does not match what the hardware follows is refused (ENOENT).
        (AppOp::Delete(entry), AppStyle::Replaces) if entry.is_dscp() => {
            if follows.0.get(&entry.protocol) == Some(&entry.priority) {
                follows.0.remove(&entry.protocol);
                table.remove(&entry);
            }
        }
        // A second entry for a DSCP is refused.
        (AppOp::Set(entry), AppStyle::DeleteThenAdd) if entry.is_dscp() => {
            if !table.iter().any(|other| other.is_dscp() && other.protocol == entry.protocol) {
                table.insert(entry);
            }
        }
        (AppOp::Set(entry), _) => {
            table.insert(entry);
        }
        (AppOp::Delete(entry), _) => {
            table.remove(&entry);
        }
    }
}

fn has_dscp(table: &AppTable) -> bool {
    table.iter().any(crate::settings::AppEntry::is_dscp)
}

/// The first DSCP entry came, or the last one went.
fn switch(set: &mut Settings, dscp: bool, vendor: &Vendor) {
    if !crate::wanted::trust_follows(vendor) {
        return;
    }
    put(&mut set.trust, if dscp { Trust::Dscp } else { Trust::Pcp });
    if vendor.trust != TrustStyle::FollowsEntriesAndResets {
        return;
    }
    put(&mut set.ets, if dscp { RESET_TO_DSCP } else { RESET_TO_PCP });
    if let Some(pfc) = set.pfc.known_mut().filter(|_| !dscp) {
        *pfc = Pfc { enabled: PrioritySet::EMPTY, delay: pfc.delay };
    }
}
