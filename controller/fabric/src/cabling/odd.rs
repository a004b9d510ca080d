//! What a list says without contradicting itself, and what is odd all the same.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    number::grouped,
    work::{Entry, Work, lines, most},
};
use crate::FindingCode;

/// Small leaves for which the nearest name is looked for at most: each costs a look at all names.
const COMPARED: usize = 32;

/// Mbit/s by the names that vendors give to ports; 0 where the name does not tell.
pub(super) fn speed_of(port: &str) -> u64 {
    const NAMES: [(&str, u64); 10] = [
        ("EightHundredGig", 800_000),
        ("FourHundredGig", 400_000),
        ("TwoHundredGig", 200_000),
        ("HundredGig", 100_000),
        ("FiftyGig", 50_000),
        ("FortyGig", 40_000),
        ("TwentyFiveGig", 25_000),
        ("Twenty-FiveGig", 25_000),
        ("TenGig", 10_000),
        ("Ten-Gig", 10_000),
    ];
    NAMES.iter().find(|(name, _)| port.starts_with(name)).map_or(0, |(_, speed)| *speed)
}

/// The port's name with every number as `#`.
fn kind(port: &str) -> String {
    let mut kind = String::new();
    for c in port.chars() {
        if !c.is_ascii_digit() {
            kind.push(c);
        } else if !kind.ends_with('#') {
            kind.push('#');
        }
    }
    kind
}

/// The port without what divides it: `1/0/17` of `1/0/17:2`.
fn cage(port: &str) -> &str {
    let number = port.trim_start_matches(|c: char| !c.is_ascii_digit());
    number.split(':').next().unwrap_or(number)
}

/// Ports that are named otherwise than nearly all of their leaf, and servers on another port on one rail than on the
/// others.
pub(super) fn ports(work: &mut Work) {
    let faults = kinds(&work.entries);
    let odd: BTreeSet<usize> = faults.iter().map(|(line, _)| *line).collect();
    let reported = order(&work.entries, &odd);
    for (line, message) in faults {
        work.fault(line, 0, FindingCode::PortKind, message);
    }
    if let Some((line, message)) = reported {
        work.note(line, FindingCode::PortOrder, message);
    }
    for entry in work.entries.iter_mut().filter(|entry| odd.contains(&entry.line)) {
        entry.speed = 0;
    }
}

fn kinds(entries: &[Entry]) -> Vec<(usize, String)> {
    let nodes = grouped(entries, |at| at.node);
    // Few ports have names of their own.
    let kinds: Vec<String> = grouped(entries, |at| at.port)
        .iter()
        .map(|all| all.first().map_or_else(String::new, |entry| kind(&entry.port)))
        .collect();
    let kind = |entry: &Entry| kinds[entry.at.port as usize].as_str();
    let mut faults = Vec::new();
    for entries in &grouped(entries, |at| at.leaf) {
        let Some((usual, count)) = most(entries.iter().map(|entry| kind(entry))) else { continue };
        let leaf = &entries[0].leaf;
        // One in twenty may differ by mistake; more is a leaf with two kinds of ports.
        if (entries.len() - count) * 20 > entries.len() {
            continue;
        }
        for entry in entries.iter().filter(|entry| kind(entry) != usual) {
            let others: Vec<&&Entry> =
                nodes[entry.at.node as usize].iter().filter(|other| other.line != entry.line).collect();
            let elsewhere: Vec<String> =
                others.iter().map(|other| format!("{} (line {})", other.port, other.line)).collect();
            let cages: BTreeSet<&str> = others.iter().map(|other| cage(&other.port)).collect();
            let used = entries.iter().filter(|other| cages.contains(cage(&other.port)));
            let used: Vec<&str> = used.map(|other| other.port.as_str()).collect();
            let near = if used.is_empty() {
                String::new()
            } else {
                format!("; of that place on this leaf {} is in use", used.join(", "))
            };
            let message = format!(
                "port {} of {leaf} is not named as the other {count} of the leaf are ({usual}): NIC {} of {}; on its \
                 other leaves the server is on {}{near}. The cable is kept with this port, its speed as not known",
                entry.port,
                entry.nic,
                entry.node,
                elsewhere.join(", ")
            );
            faults.push((entry.line, message));
        }
    }
    faults
}

/// Servers on another port on one leaf than on the others, where nearly all are on the same everywhere.
fn order(entries: &[Entry], odd: &BTreeSet<usize>) -> Option<(usize, String)> {
    let nodes = grouped(entries, |at| at.node);
    let count = nodes.iter().filter(|own| !own.is_empty()).count();
    let mut moved: Vec<usize> = Vec::new();
    for entries in &nodes {
        let Some((usual, count)) = most(entries.iter().map(|entry| cage(&entry.port))) else { continue };
        if count * 2 <= entries.len() {
            moved.extend(entries.first().filter(|_| entries.len() > 1).map(|entry| entry.line));
        } else {
            let other = |entry: &&&Entry| cage(&entry.port) != usual && !odd.contains(&entry.line);
            moved.extend(entries.iter().find(other).map(|entry| entry.line));
        }
    }
    // Where many are, ports follow no such rule, and it says nothing.
    let first = moved.iter().copied().min().filter(|_| moved.len() * 5 < count)?;
    let message = format!(
        "{} servers are on another port on one leaf than on their others, which nearly all servers are not; the cables are kept: lines {}",
        moved.len(),
        lines(&moved)
    );
    Some((first, message))
}

/// Servers that lack a rail, and leaves with hardly a cable.
pub(super) fn servers(work: &mut Work) {
    let all: BTreeSet<u32> = work.entries.iter().filter_map(|entry| entry.rail).collect();
    let leaves: BTreeMap<&str, (usize, usize)> = grouped(&work.entries, |at| at.leaf)
        .into_iter()
        .filter_map(|all| Some((all.first()?.leaf.as_str(), (all.first()?.line, all.len()))))
        .collect();
    let mut notes = Vec::new();
    for entries in grouped(&work.entries, |at| at.node) {
        let Some(Entry { node, line, .. }) = entries.first() else { continue };
        let own: BTreeSet<u32> = entries.iter().filter_map(|entry| entry.rail).collect();
        if own.len() >= all.len() {
            continue;
        }
        let missing: Vec<String> = all.difference(&own).map(u32::to_string).collect();
        let message = format!(
            "{node} has {} of {} rails: no cable on rail {}",
            own.len(),
            all.len(),
            missing.join(", ")
        );
        notes.push((*line, FindingCode::PartialRails, message));
    }
    let typical = most(leaves.values().map(|(_, count)| *count)).map_or(0, |(count, _)| count);
    let small = leaves.iter().filter(|(_, (_, count))| count * 10 < typical);
    for (at, (leaf, (line, count))) in small.enumerate() {
        let near = leaves
            .keys()
            .filter(|other| *other != leaf && at < COMPARED)
            .min_by_key(|other| strsim::damerau_levenshtein(leaf, other))
            .map_or_else(String::new, |other| format!("; is it '{other}'?"));
        let message = format!("leaf {leaf} has {count} cables, others about {typical}{near}");
        notes.push((*line, FindingCode::SmallLeaf, message));
    }
    for (line, code, message) in notes {
        work.note(line, code, message);
    }
}
