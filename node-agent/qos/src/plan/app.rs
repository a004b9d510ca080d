//! Changes of the application table: which entries go and come, in an order that the driver takes.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Draft, ets_draft, pfc_draft};
use crate::{
    edit::{AppOp, Change},
    item::Item,
    observed::Settings,
    profile::QosProfile,
    settings::{AppEntry, AppTable, Pfc},
    vendor::{AppStyle, Aspect, TrustStyle, Vendor},
    wanted::{RESET_TO_DSCP, RESET_TO_PCP, Wanted, trust_follows},
    words::{Dscp, Priority, PrioritySet, Trust},
};

/// Selector and protocol: what an entry is about.
type Key = (u8, u16);

/// What brings the table and, where it follows, trust to what is wanted.
pub fn drafts(profile: &QosProfile, set: &Settings, vendor: &Vendor, differing: &[Item]) -> Vec<Draft> {
    let Some(table) = set.app.known() else { return Vec::new() };
    let wanted = Wanted::of(profile, vendor);
    let trust = trust_follows(vendor) && differing.contains(&Item::Trust);
    let entries = differing.iter().any(|item| matches!(item, Item::Dscp(_) | Item::RocePort));
    if !trust && !entries {
        return Vec::new();
    }
    let managed = |entry: &AppEntry| entry.is_dscp() || (vendor.roce_port_entry && entry.is_roce_port());
    let target: AppTable = table
        .iter()
        .filter(|entry| !managed(entry))
        .chain(&wanted.dscp)
        .chain(&wanted.roce_port)
        .copied()
        .collect();
    let mut drafts = before_switch(table, &target, set, vendor);
    let mut from = table.clone();
    if trust && has_dscp(table) == (wanted.trust == Trust::Dscp) {
        // Trust and entries contradict each other, which happens behind the driver's back: through the other state.
        let other: AppTable = if wanted.trust == Trust::Dscp {
            table.iter().filter(|entry| !entry.is_dscp()).copied().collect()
        } else {
            let one = AppEntry::dscp(Dscp::of(0), Priority::of(0));
            table.iter().copied().chain([one]).collect()
        };
        drafts.push(draft(&from, &other, vendor));
        from = other;
    }
    drafts.push(draft(&from, &target, vendor));
    drafts
}

/// A driver that puts ETS and PFC back when trust switches does so again when that is undone. What is set is therefore
/// put back first, by edits that have undos of their own.
fn before_switch(table: &AppTable, target: &AppTable, set: &Settings, vendor: &Vendor) -> Vec<Draft> {
    let mut drafts = Vec::new();
    if vendor.trust != TrustStyle::FollowsEntriesAndResets || has_dscp(table) == has_dscp(target) {
        return drafts;
    }
    if let Some(from) = set.pfc.known().filter(|pfc| !pfc.enabled.is_empty()) {
        drafts.push(pfc_draft(*from, Pfc { enabled: PrioritySet::EMPTY, delay: from.delay }));
    }
    let reset = if has_dscp(table) { RESET_TO_DSCP } else { RESET_TO_PCP };
    if let Some(from) = set.ets.known().filter(|ets| **ets != reset) {
        drafts.push(ets_draft(*from, reset));
    }
    drafts
}

fn has_dscp(table: &AppTable) -> bool {
    table.iter().any(AppEntry::is_dscp)
}

fn draft(from: &AppTable, to: &AppTable, vendor: &Vendor) -> Draft {
    let back = holdable(from, vendor.app);
    let (ops, undo_ops) = (operations(from, to, vendor.app), operations(to, &back, vendor.app));
    let undo = Change::App { from: to.clone(), to: back, ops: undo_ops.clone(), undo_ops: ops.clone() };
    let mut aspects = Vec::new();
    let changed: Vec<&AppEntry> = from.symmetric_difference(to).collect();
    if trust_follows(vendor) && has_dscp(from) != has_dscp(to) {
        aspects.push(Aspect::TrustSwitch);
    }
    if changed.iter().any(|entry| entry.is_dscp()) {
        aspects.push(Aspect::DscpEntry);
    }
    if changed.iter().any(|entry| entry.is_roce_port()) {
        aspects.push(Aspect::RocePort);
    }
    Draft { change: Change::App { from: from.clone(), to: to.clone(), ops, undo_ops }, undo, aspects }
}

/// `table` as this driver can hold it when it is set entry by entry: of two for one DSCP, the one that counts.
fn holdable(table: &AppTable, style: AppStyle) -> AppTable {
    if style == AppStyle::AddThenDelete {
        return table.clone();
    }
    let by_key: BTreeMap<Key, AppEntry> =
        table.iter().filter(|entry| entry.is_dscp()).map(|entry| (key(entry), *entry)).collect();
    table.iter().filter(|entry| !entry.is_dscp()).copied().chain(by_key.into_values()).collect()
}

const fn key(entry: &AppEntry) -> Key {
    (entry.selector, entry.protocol)
}

/// The steps from `from` to `to`. Deletions come as late as the driver allows, so that the last DSCP entry does not go
/// before another one is there.
pub fn operations(from: &AppTable, to: &AppTable, style: AppStyle) -> Vec<AppOp> {
    let keys: BTreeSet<Key> = from.symmetric_difference(to).map(key).collect();
    let of = |table: &AppTable, key: Key| -> Vec<AppEntry> {
        table.iter().filter(|entry| self::key(entry) == key).copied().collect()
    };
    let (mut new, mut replaced, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        let (old, now) = (of(from, key), of(to, key));
        let steps = match style {
            AppStyle::Replaces => replace(&old, &now),
            AppStyle::AddThenDelete => add_then_delete(&old, &now),
            AppStyle::DeleteThenAdd => delete_then_add(&old, &now),
        };
        match (old.is_empty(), now.is_empty()) {
            (true, _) => new.extend(steps),
            (false, false) => replaced.extend(steps),
            (false, true) => gone.extend(steps),
        }
    }
    // Additions before deletions over all keys where both may be there at once.
    if style == AppStyle::AddThenDelete {
        replaced.sort_by_key(|op| matches!(op, AppOp::Delete(_)));
    }
    new.into_iter().chain(replaced).chain(gone).collect()
}

/// A driver that replaces the entry that its hardware follows. Which of two that is, nobody can read: each wrong one is
/// set in turn, and so replaced by the next.
fn replace(old: &[AppEntry], now: &[AppEntry]) -> Vec<AppOp> {
    let wrong: Vec<AppEntry> = old.iter().filter(|entry| !now.contains(entry)).copied().collect();
    let mut ops = Vec::new();
    if old.len() > 1 {
        ops.extend(wrong.iter().map(|entry| AppOp::Set(*entry)));
    }
    if now.is_empty() {
        ops.extend(wrong.last().map(|entry| AppOp::Delete(*entry)));
    }
    ops.extend(now.iter().map(|entry| AppOp::Set(*entry)));
    ops
}

fn add_then_delete(old: &[AppEntry], now: &[AppEntry]) -> Vec<AppOp> {
    let add = now.iter().filter(|entry| !old.contains(entry)).map(|entry| AppOp::Set(*entry));
    let delete = old.iter().filter(|entry| !now.contains(entry)).map(|entry| AppOp::Delete(*entry));
    add.chain(delete).collect()
}

/// A driver that refuses a second entry, or whose hardware forgets the new one when the old one goes: where any entry
/// goes, the right one is set after it, also if it was there.
fn delete_then_add(old: &[AppEntry], now: &[AppEntry]) -> Vec<AppOp> {
    let delete = old.iter().map(|entry| AppOp::Delete(*entry));
    delete.chain(now.iter().map(|entry| AppOp::Set(*entry))).collect()
}
