//! One row of a table: a counter, where it is read, and what it counts.

use crate::counter_kind::CounterKind;

/// Where a counter is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// RDMA counters of the port: `class/infiniband/DEV/ports/N/counters/` of sysfs.
    Port,
    /// The driver's own RDMA counters: `class/infiniband/DEV/ports/N/hw_counters/`.
    Hardware,
    /// Counters of the network device: `class/net/IF/statistics/`.
    Netdev,
    /// Counters of the link's changes: files of `class/net/IF/` itself.
    Link,
    /// Private statistics of the network device (`ethtool -S`).
    Ethtool,
}

/// One counter, with all names that it had.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// The place from which the counter is read.
    pub source: Source,
    /// Its names, the preferred one first: only the first that is there is read. `{p}` stands for a priority, 0 to 7.
    pub names: &'static [&'static str],
    /// The counter kind that it counts.
    pub word: CounterKind,
    /// Bits after which it begins at 0 again.
    pub bits: u8,
    /// What one count is worth in the word's unit.
    pub scale: u8,
}

pub(super) const fn row(source: Source, names: &'static [&'static str], word: CounterKind, bits: u8) -> Row {
    Row { source, names, word, bits, scale: 1 }
}

pub(super) const fn hardware(names: &'static [&'static str], word: CounterKind, bits: u8) -> Row {
    row(Source::Hardware, names, word, bits)
}

pub(super) const fn ethtool(names: &'static [&'static str], word: CounterKind) -> Row {
    row(Source::Ethtool, names, word, 64)
}
