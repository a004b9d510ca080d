//! The rows of a cabling list while they become a fabric, and what is found on the way.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::NodeName;

use super::work;
use crate::{Finding, FindingCode};

/// The places of an entry's names among all names of their kind, in the order of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct At {
    pub(crate) node: u32,
    pub(crate) nic: u32,
    pub(crate) leaf: u32,
    pub(crate) port: u32,
}

/// A row that says all that a cable needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) line: usize,
    pub(crate) node: NodeName,
    pub(crate) nic: String,
    pub(crate) leaf: String,
    pub(crate) port: String,
    /// In Mbit/s; 0 if not known.
    pub(crate) speed: u64,
    /// What the row says, and from [`rails::rails`] on what it is on.
    pub(crate) rail: Option<u32>,
    pub(crate) pod: Option<String>,
    pub(crate) plane: u32,
    /// Its names as numbers.
    pub(crate) at: work::At,
}

impl Entry {
    pub(crate) fn reported(&self) -> String {
        format!("NIC {} of {} to {} port {}", self.nic, self.node, self.leaf, self.port)
    }
}

/// The list while it becomes a document.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) entries: Vec<Entry>,
    pub(crate) faults: Vec<Finding>,
    pub(crate) notes: Vec<Finding>,
}

impl Work {
    pub(crate) fn fault(
        &mut self,
        line: usize,
        column: usize,
        code: FindingCode,
        message: impl Into<String>,
    ) {
        self.faults.push(Finding { line, column, code, message: message.into() });
    }

    pub(crate) fn note(&mut self, line: usize, code: FindingCode, message: impl Into<String>) {
        self.notes.push(Finding { line, column: 0, code, message: message.into() });
    }

    /// Takes out the entries of these lines.
    pub(crate) fn leave_out(&mut self, lines: &BTreeSet<usize>) {
        self.entries.retain(|entry| !lines.contains(&entry.line));
    }
}

/// Pod of each leaf.
pub(crate) type Pods = BTreeMap<String, String>;

/// Rails (at least one, ascending) and plane of each leaf.
pub(crate) type Rails = BTreeMap<String, (Vec<u32>, u32)>;

/// The most frequent value, of equal ones the first.
pub(crate) fn most<T: Ord + Clone>(values: impl IntoIterator<Item = T>) -> Option<(T, usize)> {
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
