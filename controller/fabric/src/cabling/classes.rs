//! Rails by the names of NICs, where each leaf serves one.

use std::collections::{BTreeMap, BTreeSet};

use super::work::{Entry, Pods};
use crate::natural;

/// The most frequent name, of equally frequent ones the first in order; `None`: there is none.
fn lead<'a>(counts: &BTreeMap<&'a str, usize>) -> Option<&'a str> {
    counts.iter().rev().max_by_key(|(_, count)| **count).map(|(nic, _)| *nic)
}

/// A name of a NIC that stands for all that are used alike, per leaf.
pub(super) fn classes(
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
pub(super) fn numbered(
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
