//! Which rails a leaf serves, and which rail a row is on.

use std::collections::{BTreeMap, BTreeSet};

use controller_topology::RailSet;
use proto_model::NodeName;

use super::{
    classes,
    number::{by_leaf, grouped, leaves, sorted},
    work::{Entry, Pods, Rails, Work, most},
};
use crate::{FindingCode, natural};

/// Kinds of servers whose order of NICs is shown at most.
const REPORTED: usize = 4;

/// The rails and plane of each leaf, and with them the rail of each row: those of the columns, or else leaves that share
/// names of NICs are one rail, and where leaves serve several NICs of a server these are numbered by their names. Rows that
/// say something else than their leaf's others are left out.
pub(super) fn rails(work: &mut Work, pods: &Pods) -> Rails {
    let planes: BTreeMap<String, u32> = grouped(&work.entries, |at| at.leaf)
        .into_iter()
        .filter_map(|all| Some((all.first()?.leaf.clone(), most(all.iter().map(|entry| entry.plane))?.0)))
        .collect();
    let plane = |leaf: &str| planes.get(leaf).copied().unwrap_or(0);
    let shared = shared(&work.entries);
    let rows = grouped(&work.entries, |at| at.leaf);
    let rows = rows.iter().filter(|all| all.first().is_some_and(|first| shared.contains(&first.leaf)));
    let rows: usize = rows.map(Vec::len).sum();
    let mut rails: Rails = BTreeMap::new();
    if work.entries.iter().any(|entry| entry.rail.is_some()) {
        settle(work, &planes, &shared, &mut rails);
    } else if rows * 20 > work.entries.len() {
        by_order(work);
        settle(work, &planes, &shared, &mut rails);
    } else {
        let (classes, notes) = classes::classes(&work.entries, pods, &plane);
        let (numbers, more) = classes::numbered(&classes, pods, &plane);
        for leaf in planes.keys() {
            rails.insert(leaf.clone(), (vec![numbers.get(leaf).copied().unwrap_or(0)], plane(leaf)));
        }
        for message in notes.into_iter().chain(more) {
            work.note(0, FindingCode::RailsByOrder, message);
        }
    }
    disagree(work, &rails);
    rails
}

/// Leaves to which at least half of their servers have several NICs.
fn shared(entries: &[Entry]) -> BTreeSet<String> {
    let names = leaves(entries);
    let mut cables: Vec<(u32, u32, u32)> =
        entries.iter().map(|entry| (entry.at.leaf, entry.at.node, entry.at.nic)).collect();
    cables.sort_unstable();
    cables.dedup();
    let several = |of_leaf: &&[(u32, u32, u32)]| {
        let (mut all, mut several) = (0, 0);
        for nics in of_leaf.chunk_by(|a, b| a.1 == b.1) {
            all += 1;
            several += usize::from(nics.len() > 1);
        }
        several * 2 >= all
    };
    let found = cables.chunk_by(|a, b| a.0 == b.0).filter(several);
    found.filter_map(|of_leaf| Some(names.get(&of_leaf.first()?.0)?.leaf.clone())).collect()
}

/// The rails of each leaf by what its rows say: the most frequent one, and where the leaf is shared those that come at
/// least half as often.
fn settle(work: &Work, planes: &BTreeMap<String, u32>, shared: &BTreeSet<String>, rails: &mut Rails) {
    for all in grouped(&work.entries, |at| at.leaf) {
        let Some(leaf) = all.first().map(|entry| entry.leaf.as_str()) else { continue };
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for rail in all.iter().filter_map(|entry| entry.rail) {
            *counts.entry(rail).or_default() += 1;
        }
        let top = counts.values().copied().max().unwrap_or(0);
        let often = counts.iter().filter(|(_, count)| *count * 2 >= top).map(|(rail, _)| *rail);
        let own = if shared.contains(leaf) {
            often.collect()
        } else {
            let first = counts.iter().rev().max_by_key(|(_, count)| **count);
            first.map(|(rail, _)| *rail).into_iter().collect::<Vec<u32>>()
        };
        let own = if own.is_empty() { vec![0] } else { own };
        rails.insert(leaf.to_owned(), (own, planes.get(leaf).copied().unwrap_or(0)));
    }
}

/// Numbers the NICs of each server in the order of their names. Servers that lack some of the NICs of a kind of servers are
/// of that kind.
fn by_order(work: &mut Work) {
    let mut nodes: BTreeMap<&NodeName, BTreeSet<&str>> = BTreeMap::new();
    for entry in &work.entries {
        nodes.entry(&entry.node).or_default().insert(&entry.nic);
    }
    let mut kinds: BTreeMap<&BTreeSet<&str>, usize> = BTreeMap::new();
    for nics in nodes.values() {
        *kinds.entry(nics).or_default() += 1;
    }
    let mut order: Vec<(&BTreeSet<&str>, usize)> = kinds.into_iter().collect();
    order.sort_by_key(|(nics, count)| (std::cmp::Reverse((nics.len(), *count)), *nics));
    let mut whole: Vec<(&BTreeSet<&str>, usize)> = Vec::new();
    for (nics, count) in order {
        if !whole.iter().any(|(all, _)| nics.is_subset(all)) {
            whole.push((nics, count));
        }
    }
    // A name means the same everywhere: what it is on most servers.
    let mut places: BTreeMap<&str, BTreeMap<u32, usize>> = BTreeMap::new();
    let mut reported = Vec::new();
    for (nics, count) in &whole {
        let mut names: Vec<&str> = nics.iter().copied().collect();
        names.sort_by(|a, b| natural::compare(a, b));
        for (rail, nic) in (0..).zip(&names) {
            *places.entry(nic).or_default().entry(rail).or_default() += count;
        }
        reported.push(format!("{} ({count} servers)", names.join(", ")));
    }
    let rails: BTreeMap<String, u32> = places
        .into_iter()
        .filter_map(|(nic, counts)| {
            let (rail, _) = counts.into_iter().rev().max_by_key(|(_, count)| *count)?;
            Some((nic.to_owned(), rail))
        })
        .collect();
    let more = reported.len().saturating_sub(REPORTED);
    reported.truncate(REPORTED);
    let more = if more > 0 { format!("; and {more} more kinds of servers") } else { String::new() };
    let message = format!(
        "leaves have several NICs of a server, and no column says their rails: NICs are on rails 0, 1, 2, ... in the order of \
         their names: {}{more}",
        reported.join("; ")
    );
    for entry in &mut work.entries {
        entry.rail = rails.get(&entry.nic).copied();
    }
    work.note(0, FindingCode::RailsByOrder, message);
}

/// Rows whose rail or plane is not that of their leaf are left out; the others are on their leaf's rail.
fn disagree(work: &mut Work, rails: &Rails) {
    let mut faults = Vec::new();
    let of_leaf = by_leaf(&work.entries, |leaf| rails.get(leaf));
    for entry in &mut work.entries {
        let Some((own, plane)) = of_leaf[entry.at.leaf as usize] else { continue };
        let rail = match (entry.rail, &own[..]) {
            (None, [one]) => Some(*one),
            (said, _) => said,
        };
        let listed = || own.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let message = match rail {
            None => format!(
                "{} does not say its rail, and the leaf serves rails {}; it is left out",
                entry.reported(),
                listed()
            ),
            Some(rail) if rail >= RailSet::MAX => {
                format!(
                    "{} would be on rail {rail}; a fabric has at most {}; it is left out",
                    entry.reported(),
                    RailSet::MAX
                )
            }
            Some(rail) if !own.contains(&rail) || entry.plane != *plane => format!(
                "the row puts {} on rail {rail}, plane {}; most rows on rail {}, plane {plane}; it is left out",
                entry.leaf,
                entry.plane,
                listed()
            ),
            rail => {
                entry.rail = rail;
                continue;
            }
        };
        faults.push((entry.line, message));
    }
    work.leave_out(&faults.iter().map(|(line, _)| *line).collect());
    for (line, message) in faults {
        work.fault(line, 0, FindingCode::LeafRail, message);
    }
}

/// Of several NICs of a server on one rail those go that are named otherwise than most on the leaf; if that does not
/// tell, all of them.
pub(super) fn one_nic_per_rail(work: &mut Work) {
    let usual: Vec<Option<u32>> = grouped(&work.entries, |at| at.nic)
        .into_iter()
        .map(|all| Some(most(all.iter().filter_map(|entry| entry.rail))?.0))
        .collect();
    let usual = |entry: &Entry| usual[entry.at.nic as usize];
    let railed = work.entries.iter().filter(|entry| entry.rail.is_some());
    let places = sorted(railed, |entry| (entry.at.node, entry.rail));
    let (mut faults, mut notes, mut out) = (Vec::new(), Vec::new(), BTreeSet::new());
    for place in places.chunk_by(|a, b| a.0 == b.0) {
        let (node, rail) = (&place[0].1.node, place[0].1.rail.unwrap_or_default());
        let odd: Vec<&Entry> =
            place.iter().map(|(.., entry)| *entry).filter(|entry| usual(entry) != Some(rail)).collect();
        if odd.is_empty() && place.len() == 1 {
            continue;
        }
        let entries: Vec<&Entry> = place.iter().map(|(.., entry)| *entry).collect();
        let nics: BTreeSet<&str> = entries.iter().map(|entry| entry.nic.as_str()).collect();
        if nics.len() == 1 {
            notes.extend(odd.iter().map(|entry| {
                let usual = usual(entry).unwrap_or_default();
                (
                    entry.line,
                    format!(
                        "{} is on rail {rail}; NICs of that name are on rail {usual} elsewhere",
                        entry.reported()
                    ),
                )
            }));
            continue;
        }
        let wrong: Vec<&Entry> = if odd.len() + 1 == entries.len() { odd } else { entries };
        for entry in wrong {
            let names: Vec<&str> = nics.iter().copied().collect();
            let message = format!(
                "{node} has NICs {} on rail {rail}, and a rail takes one; {} is left out",
                names.join(" and "),
                entry.reported()
            );
            faults.push((entry.line, message));
            out.insert(entry.line);
        }
    }
    for (line, message) in faults {
        work.fault(line, 0, FindingCode::NicsOnOneRail, message);
    }
    for (line, message) in notes {
        work.note(line, FindingCode::NicName, message);
    }
    work.leave_out(&out);
}
