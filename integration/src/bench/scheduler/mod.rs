//! The scheduler's figures C1 to C5: the production code in one process, without store and network.

mod churn;
mod memory;
mod optimal;
mod random;
mod site;

use crate::report;

/// Measures one row.
pub type MeasureRow = fn(&report::Row<'_>, &Bench) -> Result<(), String>;

/// The rows of this bench.
pub const ROWS: [(&str, MeasureRow); 5] = [
    ("C1", churn::placements),
    ("C2", churn::decisions),
    ("C3", memory::memory),
    ("C4", random::proven),
    ("C5", optimal::against_optimum),
];

/// What the command line chose.
pub struct Bench {
    /// Fewer repetitions.
    pub quick: bool,
    /// Random placements of row C4 in place of the usual number.
    pub placements: Option<u64>,
}
