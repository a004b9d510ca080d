//! Cabling lists: one row per cable, as a site's records have them, made into a fabric document.
//!
//! A list names at least the server, its NIC, the leaf and the leaf's port. Which leaves make a pod and which a rail is
//! taken from columns of those names, or else from the list itself: leaves that share their servers are a pod, leaves
//! that share the names of NICs a rail. A leaf to which most of its servers have several NICs serves several rails: those
//! of the column, or else the NICs of a server are numbered in the order of their names. What the list does not say, or says in two ways, is a fault with its row; such
//! a row is left out, or kept without what is doubtful, and the fault says which.

mod classes;
mod number;
mod odd;
mod place;
mod rails;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, Leaf, Link, NodeName, Rail};

use crate::{Finding, Table, TableError, gather, natural};

/// What a list became. `rows == links + left_out`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// The document; free of faults by itself, its cables in groups.
    pub fabric: Fabric,
    /// Rows of the list, its header and blank lines apart.
    pub rows: usize,
    /// Blank lines of the list, which mean nothing.
    pub blank: usize,
    /// Cables of the document.
    pub links: usize,
    /// Rows that are not in the document.
    pub left_out: usize,
    /// What is wrong in the list, by line.
    pub faults: Vec<Finding>,
    /// What is odd, or was settled: nothing need be done.
    pub notes: Vec<Finding>,
}

/// A row that says all that a cable needs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    line: usize,
    node: NodeName,
    nic: String,
    leaf: String,
    port: String,
    /// In Mbit/s; 0 if not known.
    speed: u64,
    /// What the row says, and from [`rails::rails`] on what it is on.
    rail: Option<u32>,
    pod: Option<String>,
    plane: u32,
    /// Its names as numbers.
    at: number::At,
}

impl Entry {
    fn reported(&self) -> String {
        format!("NIC {} of {} to {} port {}", self.nic, self.node, self.leaf, self.port)
    }
}

/// The list while it becomes a document.
#[derive(Default)]
struct Work {
    entries: Vec<Entry>,
    faults: Vec<Finding>,
    notes: Vec<Finding>,
}

impl Work {
    fn fault(&mut self, line: usize, column: usize, code: &'static str, message: impl Into<String>) {
        self.faults.push(Finding { line, column, code, message: message.into() });
    }

    fn note(&mut self, line: usize, code: &'static str, message: impl Into<String>) {
        self.notes.push(Finding { line, column: 0, code, message: message.into() });
    }

    /// Takes out the entries of these lines.
    fn leave_out(&mut self, lines: &BTreeSet<usize>) {
        self.entries.retain(|entry| !lines.contains(&entry.line));
    }
}

/// Makes a document of a list.
///
/// # Errors
/// [`TableError`] where the text is not a table, or lacks a column without which no row means anything.
pub fn import(text: &[u8], name: &str) -> Result<Imported, TableError> {
    let table = Table::read(text)?;
    let mut work = Work::default();
    rows::read(&table, &mut work)?;
    let (rows, blank) = (table.rows.len(), table.blank);
    drop(table);
    number::number(&mut work.entries);
    rows::twice(&mut work);
    let pods = place::pods(&mut work);
    let rails = rails::rails(&mut work, &pods);
    rails::one_nic_per_rail(&mut work);
    odd::ports(&mut work);
    odd::servers(&mut work);
    let links = work.entries.len();
    let fabric = document(name, work.entries, &pods, &rails);
    work.faults.sort();
    work.notes.sort();
    Ok(Imported {
        fabric: gather(fabric),
        rows,
        blank,
        links,
        left_out: rows - links,
        faults: work.faults,
        notes: work.notes,
    })
}

/// Pod of each leaf.
type Pods = BTreeMap<String, String>;

/// Rails (at least one, ascending) and plane of each leaf.
type Rails = BTreeMap<String, (Vec<u32>, u32)>;

fn document(name: &str, entries: Vec<Entry>, pods: &Pods, rails: &Rails) -> Fabric {
    let mut leaves: Vec<Leaf> = number::leaves(&entries)
        .into_values()
        .map(|entry| {
            let leaf = &entry.leaf;
            let (own, plane) = rails.get(leaf).cloned().unwrap_or_default();
            let (rail, more_rails) = own.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
            let (name, pod) = (leaf.clone(), pods.get(leaf).cloned().unwrap_or_default());
            Leaf { name, rail, more_rails: more_rails.to_vec(), pod, plane, down: false }
        })
        .collect();
    leaves.sort_by(|a, b| {
        let key = |leaf: &Leaf| (leaf.rail, leaf.plane);
        natural::compare(&a.pod, &b.pod)
            .then(key(a).cmp(&key(b)))
            .then_with(|| natural::compare(&a.name, &b.name))
    });
    let count = leaves.iter().flat_map(Leaf::rails).map(|rail| rail + 1).max().unwrap_or(0);
    let several = number::by_leaf(&entries, |leaf| rails.get(leaf).map(|(rails, _)| rails.len() > 1));
    let links = entries.into_iter().map(|entry| Link {
        rail: entry.rail.filter(|_| several[entry.at.leaf as usize] == Some(true)),
        node: entry.node,
        nic: entry.nic,
        leaf: entry.leaf,
        port: entry.port,
        speed_mbps: entry.speed,
        down: false,
    });
    Fabric {
        name: name.to_owned(),
        rails: (0..count).map(|index| Rail { index, name: format!("rail{index}") }).collect(),
        leaves,
        links: links.collect(),
        ..Fabric::default()
    }
}

/// The most frequent value, of equal ones the first.
fn most<T: Ord + Clone>(values: impl IntoIterator<Item = T>) -> Option<(T, usize)> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count)
}

/// Line numbers in short: `3, 5-9`.
#[must_use]
pub fn lines(lines: &[usize]) -> String {
    let mut sorted = lines.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|a, b| a + 1 == *b);
    let mut texts: Vec<String> = runs
        .map(|run| match run {
            [one] => one.to_string(),
            run => format!("{}-{}", run[0], run[run.len() - 1]),
        })
        .collect();
    let more = texts.len().saturating_sub(12);
    texts.truncate(12);
    let tail = if more > 0 { format!(" and {more} more places") } else { String::new() };
    format!("{}{tail}", texts.join(", "))
}
