//! Which rails a leaf serves, and which rail a row is on.

use std::collections::{BTreeMap, BTreeSet};

use controller_topology::RailSet;
use proto_model::NodeName;

use super::{Entry, Pods, Rails, Work, classes, most};
use crate::natural;

/// Kinds of servers whose order of NICs is told at most.
const TOLD: usize = 4;

/// The rails and plane of each leaf, and with them the rail of each row: those of the columns, or else leaves that share
/// names of NICs are one rail, and where leaves serve several NICs of a server these are numbered by their names. Rows that
/// say something else than their leaf's others are left out.
pub(super) fn rails(work: &mut Work, pods: &Pods) -> Rails {
    let mut planes: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for entry in &work.entries {
        planes.entry(&entry.leaf).or_default().push(entry.plane);
    }
    let planes: BTreeMap<String, u32> =
        planes.into_iter().filter_map(|(leaf, all)| Some((leaf.to_owned(), most(all)?.0))).collect();
    let plane = |leaf: &str| planes.get(leaf).copied().unwrap_or(0);
    let shared = shared(&work.entries);
    let rows = work.entries.iter().filter(|entry| shared.contains(&entry.leaf)).count();
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
            work.note(0, "RailsByOrder", message);
        }
    }
    disagree(work, &rails);
    rails
}

/// Leaves to which at least half of their servers have several NICs.
fn shared(entries: &[Entry]) -> BTreeSet<String> {
    let mut cables: Vec<(&str, &NodeName, &str)> =
        entries.iter().map(|entry| (entry.leaf.as_str(), &entry.node, entry.nic.as_str())).collect();
    cables.sort_unstable();
    cables.dedup();
    let several = |of_leaf: &&[(&str, &NodeName, &str)]| {
        let (mut all, mut several) = (0, 0);
        for nics in of_leaf.chunk_by(|a, b| a.1 == b.1) {
            all += 1;
            several += usize::from(nics.len() > 1);
        }
        several * 2 >= all
    };
    let leaves = cables.chunk_by(|a, b| a.0 == b.0).filter(several);
    leaves.filter_map(|of_leaf| of_leaf.first().map(|(leaf, ..)| (*leaf).to_owned())).collect()
}

/// The rails of each leaf by what its rows say: the most frequent one, and where the leaf is shared those that come at
/// least half as often.
fn settle(work: &Work, planes: &BTreeMap<String, u32>, shared: &BTreeSet<String>, rails: &mut Rails) {
    let mut said: BTreeMap<&str, BTreeMap<u32, usize>> = BTreeMap::new();
    for entry in &work.entries {
        let counts = said.entry(&entry.leaf).or_default();
        if let Some(rail) = entry.rail {
            *counts.entry(rail).or_default() += 1;
        }
    }
    for (leaf, counts) in said {
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
    let mut told = Vec::new();
    for (nics, count) in &whole {
        let mut names: Vec<&str> = nics.iter().copied().collect();
        names.sort_by(|a, b| natural::compare(a, b));
        for (rail, nic) in (0..).zip(&names) {
            *places.entry(nic).or_default().entry(rail).or_default() += count;
        }
        told.push(format!("{} ({count} servers)", names.join(", ")));
    }
    let rails: BTreeMap<String, u32> = places
        .into_iter()
        .filter_map(|(nic, counts)| {
            let (rail, _) = counts.into_iter().rev().max_by_key(|(_, count)| *count)?;
            Some((nic.to_owned(), rail))
        })
        .collect();
    let more = told.len().saturating_sub(TOLD);
    told.truncate(TOLD);
    let more = if more > 0 { format!("; and {more} more kinds of servers") } else { String::new() };
    let message = format!(
        "leaves have several NICs of a server, and no column says their rails: NICs are on rails 0, 1, 2, ... in the order of \
         their names: {}{more}",
        told.join("; ")
    );
    for entry in &mut work.entries {
        entry.rail = rails.get(&entry.nic).copied();
    }
    work.note(0, "RailsByOrder", message);
}

/// Rows whose rail or plane is not that of their leaf are left out; the others are on their leaf's rail.
fn disagree(work: &mut Work, rails: &Rails) {
    let mut faults = Vec::new();
    for entry in &mut work.entries {
        let Some((own, plane)) = rails.get(&entry.leaf) else { continue };
        let rail = match (entry.rail, &own[..]) {
            (None, [one]) => Some(*one),
            (said, _) => said,
        };
        let listed = || own.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let message = match rail {
            None => format!(
                "{} does not say its rail, and the leaf serves rails {}; it is left out",
                entry.told(),
                listed()
            ),
            Some(rail) if rail >= RailSet::MAX => {
                format!(
                    "{} would be on rail {rail}; a fabric has at most {}; it is left out",
                    entry.told(),
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
        work.fault(line, 0, "LeafRail", message);
    }
}

/// Of several NICs of a server on one rail those go that are named otherwise than most on the leaf; if that does not
/// tell, all of them.
pub(super) fn one_nic_per_rail(work: &mut Work) {
    let mut nic_rail: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut places: Vec<(&NodeName, u32, &Entry)> = Vec::new();
    for entry in &work.entries {
        let Some(rail) = entry.rail else { continue };
        nic_rail.entry(&entry.nic).or_default().push(rail);
        places.push((&entry.node, rail, entry));
    }
    let usual: BTreeMap<&str, u32> =
        nic_rail.into_iter().filter_map(|(nic, rails)| Some((nic, most(rails)?.0))).collect();
    let (mut faults, mut notes, mut out) = (Vec::new(), Vec::new(), BTreeSet::new());
    places.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    for place in places.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (node, rail, _) = &place[0];
        let odd: Vec<&Entry> = place
            .iter()
            .map(|(.., entry)| *entry)
            .filter(|entry| usual.get(entry.nic.as_str()) != Some(rail))
            .collect();
        if odd.is_empty() && place.len() == 1 {
            continue;
        }
        let entries: Vec<&Entry> = place.iter().map(|(.., entry)| *entry).collect();
        let nics: BTreeSet<&str> = entries.iter().map(|entry| entry.nic.as_str()).collect();
        if nics.len() == 1 {
            notes.extend(odd.iter().map(|entry| {
                let usual = usual.get(entry.nic.as_str()).copied().unwrap_or_default();
                (
                    entry.line,
                    format!(
                        "{} is on rail {rail}; NICs of that name are on rail {usual} elsewhere",
                        entry.told()
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
                entry.told()
            );
            faults.push((entry.line, message));
            out.insert(entry.line);
        }
    }
    for (line, message) in faults {
        work.fault(line, 0, "NicsOnOneRail", message);
    }
    for (line, message) in notes {
        work.note(line, "NicName", message);
    }
    work.leave_out(&out);
}
