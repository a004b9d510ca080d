//! Which leaves make a pod, and which a rail.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::NodeName;

use super::{Entry, Pods, Rails, Work, most};
use crate::natural;

/// The pod of each leaf: that of the column, or else leaves that share at least half of their servers.
pub(super) fn pods(work: &mut Work) -> Pods {
    let given = work.entries.iter().any(|entry| entry.pod.is_some());
    let pods = if given { told(work) } else { shared(&work.entries) };
    // A server is where most of its cables go.
    let mut home: BTreeMap<&NodeName, Vec<&str>> = BTreeMap::new();
    for entry in &work.entries {
        home.entry(&entry.node).or_default().extend(pods.get(&entry.leaf).map(String::as_str));
    }
    let home: BTreeMap<NodeName, String> =
        home.into_iter().filter_map(|(node, pods)| Some((node.clone(), most(pods)?.0.to_owned()))).collect();
    let mut out = BTreeSet::new();
    let mut faults = Vec::new();
    for entry in &work.entries {
        let (Some(pod), Some(home)) = (pods.get(&entry.leaf), home.get(&entry.node)) else { continue };
        if pod != home {
            let message = format!(
                "{} leads to {pod}, the other cables of the server to {home}; it is left out",
                entry.told()
            );
            faults.push((entry.line, message));
            out.insert(entry.line);
        }
    }
    for (line, message) in faults {
        work.fault(line, 0, "OtherPod", message);
    }
    work.leave_out(&out);
    pods
}

/// What the column says of each leaf most often; rows that say something else are left out.
fn told(work: &mut Work) -> Pods {
    let mut leaves: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in &work.entries {
        leaves.entry(&entry.leaf).or_default().extend(entry.pod.as_deref());
    }
    let pods: Pods = leaves
        .into_iter()
        .map(|(leaf, pods)| {
            (leaf.to_owned(), most(pods).map_or_else(|| "pod".to_owned(), |(pod, _)| pod.to_owned()))
        })
        .collect();
    let odd = |entry: &&Entry| entry.pod.as_ref().is_some_and(|pod| pods.get(&entry.leaf) != Some(pod));
    let odd: Vec<(usize, String)> = work
        .entries
        .iter()
        .filter(odd)
        .map(|entry| {
            let pod = entry.pod.as_deref().unwrap_or_default();
            let right = &pods[&entry.leaf];
            (
                entry.line,
                format!("the row puts {} in pod {pod}, most rows in {right}; it is left out", entry.leaf),
            )
        })
        .collect();
    work.leave_out(&odd.iter().map(|(line, _)| *line).collect());
    for (line, message) in odd {
        work.fault(line, 0, "LeafPod", message);
    }
    pods
}

fn shared(entries: &[Entry]) -> Pods {
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.leaf.as_str()).collect();
    names.sort_by(|a, b| natural::compare(a, b));
    names.dedup();
    let at: BTreeMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let mut nodes: BTreeMap<&NodeName, BTreeSet<usize>> = BTreeMap::new();
    for entry in entries {
        nodes.entry(&entry.node).or_default().insert(at[entry.leaf.as_str()]);
    }
    let mut size = vec![0_usize; names.len()];
    let mut together: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for leaves in nodes.values() {
        for (place, a) in leaves.iter().enumerate() {
            size[*a] += 1;
            for b in leaves.iter().skip(place + 1) {
                *together.entry((*a, *b)).or_default() += 1;
            }
        }
    }
    let mut root: Vec<usize> = (0..names.len()).collect();
    for ((a, b), count) in together {
        if count * 2 >= size[a].min(size[b]) {
            let (a, b) = (root[a], root[b]);
            for at in &mut root {
                if *at == a.max(b) {
                    *at = a.min(b);
                }
            }
        }
    }
    let mut order = root.clone();
    order.sort_unstable();
    order.dedup();
    let width = order.len().to_string().len();
    let pod = |at: usize| format!("pod{:0width$}", order.binary_search(&root[at]).unwrap_or(0) + 1);
    names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), pod(at))).collect()
}

/// The rail and plane of each leaf: those of the columns, or else leaves that share names of NICs are one rail. Pods
/// that share no name with others are numbered by the order of their leaves' names.
pub(super) fn rails(work: &mut Work, pods: &Pods) -> Rails {
    let mut planes: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut given: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for entry in &work.entries {
        planes.entry(&entry.leaf).or_default().push(entry.plane);
        given.entry(&entry.leaf).or_default().extend(entry.rail);
    }
    let plane =
        |leaf: &str| planes.get(leaf).and_then(|all| most(all.iter().copied())).map_or(0, |(plane, _)| plane);
    let mut rails: Rails = BTreeMap::new();
    if given.values().any(|all| !all.is_empty()) {
        for (leaf, all) in &given {
            let rail = most(all.iter().copied()).map_or(0, |(rail, _)| rail);
            rails.insert((*leaf).to_owned(), (rail, plane(leaf)));
        }
    } else {
        let (classes, notes) = classes(&work.entries, pods, &plane);
        let (numbers, more) = numbered(&classes, pods, &plane);
        for leaf in given.keys() {
            rails.insert((*leaf).to_owned(), (numbers.get(*leaf).copied().unwrap_or(0), plane(leaf)));
        }
        for message in notes.into_iter().chain(more) {
            work.note(0, "RailsByOrder", message);
        }
    }
    disagree(work, &rails);
    rails
}

/// Rows whose rail or plane is not that of their leaf.
fn disagree(work: &mut Work, rails: &Rails) {
    let mut faults = Vec::new();
    for entry in &work.entries {
        let Some((rail, plane)) = rails.get(&entry.leaf) else { continue };
        if entry.rail.is_some_and(|own| own != *rail) || entry.plane != *plane {
            let own = entry.rail.unwrap_or(*rail);
            let message = format!(
                "the row puts {} on rail {own}, plane {}; most rows on rail {rail}, plane {plane}; it is left out",
                entry.leaf, entry.plane
            );
            faults.push((entry.line, message));
        }
    }
    work.leave_out(&faults.iter().map(|(line, _)| *line).collect());
    for (line, message) in faults {
        work.fault(line, 0, "LeafRail", message);
    }
}

/// The most frequent name.
fn lead<'a>(counts: &BTreeMap<&'a str, usize>) -> Option<&'a str> {
    counts.iter().rev().max_by_key(|(_, count)| **count).map(|(nic, _)| *nic)
}

/// A name of a NIC that stands for all that are used alike, per leaf.
fn classes(
    entries: &[Entry],
    pods: &Pods,
    plane: &dyn Fn(&str) -> u32,
) -> (BTreeMap<String, String>, Vec<String>) {
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for entry in entries {
        *counts.entry(&entry.leaf).or_default().entry(&entry.nic).or_default() += 1;
    }
    // Two names on one leaf, each in more than a row or two, are two kinds of servers, not a slip of the pen.
    let mut pairs: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for counts in counts.values() {
        let total: usize = counts.values().sum();
        let real: Vec<_> = counts.iter().filter(|(_, n)| **n >= 2 && **n * 20 >= total).collect();
        for (at, (a, n)) in real.iter().enumerate() {
            for (b, m) in real.iter().skip(at + 1) {
                *pairs.entry((a, b)).or_default() += (**n).min(**m);
            }
        }
    }
    let mut class: BTreeMap<&str, &str> =
        counts.values().flat_map(BTreeMap::keys).map(|nic| (*nic, *nic)).collect();
    let place = |class: &BTreeMap<&str, &str>| -> bool {
        // No two leaves of one pod and plane on one rail.
        let mut seen = BTreeSet::new();
        counts.iter().all(|(leaf, counts)| {
            lead(counts).is_none_or(|nic| seen.insert((pods.get(*leaf), plane(leaf), class[nic])))
        })
    };
    let mut notes = Vec::new();
    let sound = place(&class);
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(names, count)| (std::cmp::Reverse(*count), *names));
    for ((a, b), count) in pairs {
        let (old, new) = (class[a].max(class[b]), class[a].min(class[b]));
        let joined = class.iter().map(|(nic, own)| (*nic, if *own == old { new } else { *own })).collect();
        if !sound || place(&joined) {
            class = joined;
        } else {
            notes.push(format!(
                "NICs {a} and {b} are on the same leaves ({count} rows), but one rail for both would have two leaves in a pod; they are taken to be of different rails"
            ));
        }
    }
    let classes = counts
        .iter()
        .filter_map(|(leaf, counts)| Some(((*leaf).to_owned(), class[lead(counts)?].to_owned())))
        .collect();
    (classes, notes)
}

/// Numbers for the classes, in the order of the leaves of the first pod that has them.
fn numbered(
    classes: &BTreeMap<String, String>,
    pods: &Pods,
    plane: &dyn Fn(&str) -> u32,
) -> (BTreeMap<String, u32>, Vec<String>) {
    let mut by_pod: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for leaf in classes.keys() {
        by_pod.entry(pods.get(leaf).map_or("", String::as_str)).or_default().push(leaf);
    }
    let mut order: Vec<&str> = by_pod.keys().copied().collect();
    order.sort_by(|a, b| natural::compare(a, b));
    let mut number: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut numbers, mut notes) = (BTreeMap::new(), Vec::new());
    for pod in order {
        let mut leaves = by_pod[pod].clone();
        leaves.sort_by(|a, b| natural::compare(a, b));
        let mut taken: BTreeSet<(u32, u32)> = BTreeSet::new();
        let mut rest = Vec::new();
        for leaf in leaves {
            match number.get(classes[leaf].as_str()) {
                Some(rail) if taken.insert((*rail, plane(leaf))) => {
                    numbers.insert(leaf.to_owned(), *rail);
                }
                _ => rest.push(leaf),
            }
        }
        if !rest.is_empty() && !number.is_empty() {
            notes.push(format!(
                "the NICs on {} of {pod} are not named as in other pods: their rails are numbered by the order of the names",
                rest.join(", ")
            ));
        }
        for leaf in rest {
            let own = plane(leaf);
            let rail = (0..).find(|rail| taken.insert((*rail, own))).unwrap_or(0);
            number.entry(&classes[leaf]).or_insert(rail);
            numbers.insert(leaf.to_owned(), rail);
        }
    }
    (numbers, notes)
}

/// Of several NICs of a server on one rail those go that are named otherwise than most on the leaf; if that does not
/// tell, all of them.
pub(super) fn one_nic_per_rail(work: &mut Work, rails: &Rails) {
    let mut nic_rail: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut places: BTreeMap<(&NodeName, u32), Vec<&Entry>> = BTreeMap::new();
    for entry in &work.entries {
        let Some((rail, _)) = rails.get(&entry.leaf) else { continue };
        nic_rail.entry(&entry.nic).or_default().push(*rail);
        places.entry((&entry.node, *rail)).or_default().push(entry);
    }
    let usual: BTreeMap<&str, u32> =
        nic_rail.into_iter().filter_map(|(nic, rails)| Some((nic, most(rails)?.0))).collect();
    let (mut faults, mut notes, mut out) = (Vec::new(), Vec::new(), BTreeSet::new());
    for ((node, rail), entries) in &places {
        let nics: BTreeSet<&str> = entries.iter().map(|entry| entry.nic.as_str()).collect();
        let odd: Vec<&&Entry> =
            entries.iter().filter(|entry| usual.get(entry.nic.as_str()) != Some(rail)).collect();
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
        let wrong: Vec<&&Entry> = if odd.len() + 1 == entries.len() { odd } else { entries.iter().collect() };
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
