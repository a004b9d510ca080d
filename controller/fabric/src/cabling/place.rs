//! Which leaves make a pod.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    number::{by_leaf, grouped, leaves},
    work::{Entry, Pods, Work, most},
};
use crate::{FindingCode, natural};

/// The pod of each leaf: that of the column, or else leaves that share at least half of their servers.
pub(super) fn pods(work: &mut Work) -> Pods {
    let given = work.entries.iter().any(|entry| entry.pod.is_some());
    let pods = if given { reported(work) } else { shared(&work.entries) };
    // A server is where most of its cables go.
    let of_leaf = by_leaf(&work.entries, |leaf| pods.get(leaf).map(String::as_str));
    let pod = |entry: &Entry| of_leaf[entry.at.leaf as usize];
    let home = grouped(&work.entries, |at| at.node);
    let home: Vec<Option<&str>> =
        home.into_iter().map(|entries| Some(most(entries.into_iter().filter_map(pod))?.0)).collect();
    let mut out = BTreeSet::new();
    let mut faults = Vec::new();
    for entry in &work.entries {
        let (Some(pod), Some(home)) = (pod(entry), home[entry.at.node as usize]) else { continue };
        if pod != home {
            let message = format!(
                "{} leads to {pod}, the other cables of the server to {home}; it is left out",
                entry.reported()
            );
            faults.push((entry.line, message));
            out.insert(entry.line);
        }
    }
    for (line, message) in faults {
        work.fault(line, 0, FindingCode::OtherPod, message);
    }
    work.leave_out(&out);
    pods
}

/// What the column says of each leaf most often; rows that say something else are left out.
fn reported(work: &mut Work) -> Pods {
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
        work.fault(line, 0, FindingCode::LeafPod, message);
    }
    pods
}

fn shared(entries: &[Entry]) -> Pods {
    let mut names: Vec<&str> = leaves(entries).into_values().map(|entry| entry.leaf.as_str()).collect();
    names.sort_by(|a, b| natural::compare(a, b));
    let at: BTreeMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let at = by_leaf(entries, |leaf| at.get(leaf).copied());
    // Most servers are cabled as others are.
    let mut nodes: Vec<Vec<usize>> = grouped(entries, |at| at.node)
        .into_iter()
        .map(|own| {
            let mut own: Vec<usize> = own.iter().filter_map(|entry| at[entry.at.leaf as usize]).collect();
            own.sort_unstable();
            own.dedup();
            own
        })
        .collect();
    nodes.sort_unstable();
    let mut size = vec![0_usize; names.len()];
    let mut together: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for alike in nodes.chunk_by(|a, b| a == b) {
        for (place, a) in alike[0].iter().enumerate() {
            size[*a] += alike.len();
            for b in alike[0].iter().skip(place + 1) {
                *together.entry((*a, *b)).or_default() += alike.len();
            }
        }
    }
    let mut root: Vec<usize> = (0..names.len()).collect();
    for ((a, b), count) in together {
        if count * 2 >= size[a].min(size[b]) {
            let (a, b) = (find(&mut root, a), find(&mut root, b));
            root[a.max(b)] = a.min(b);
        }
    }
    for at in 0..root.len() {
        root[at] = find(&mut root, at);
    }
    let mut order = root.clone();
    order.sort_unstable();
    order.dedup();
    let width = order.len().to_string().len();
    let pod = |at: usize| format!("pod{:0width$}", order.binary_search(&root[at]).unwrap_or(0) + 1);
    names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), pod(at))).collect()
}

/// The smallest leaf of a pod stands for it.
fn find(root: &mut [usize], mut at: usize) -> usize {
    while root[at] != at {
        root[at] = root[root[at]];
        at = root[at];
    }
    at
}
