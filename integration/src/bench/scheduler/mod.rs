//! The scheduler's figures C1 to C11 and J1, J2: the production code in one process, without store and network; and J6, documents of
//! large fabrics through the real programs.

mod backfill;
mod churn;
mod documents;
mod dry;
mod explain;
mod memory;
mod optimal;
mod philly;
mod random;
mod repair;
mod riddles;
mod sharing;
pub mod site;
mod strict;

use crate::report;

/// Measures one row.
pub type MeasureRow = fn(&report::Row<'_>, &Bench) -> Result<(), String>;

/// The rows of this bench.
pub const ROWS: [(&str, MeasureRow); 14] = [
    ("C1", churn::placements),
    ("C2", churn::decisions),
    ("C3", memory::memory),
    ("C4", random::proven),
    ("C5", optimal::against_optimum),
    ("C6", philly::philly),
    ("C7", backfill::backfill),
    ("C8", explain::explanations),
    ("C9", dry::dry_runs),
    ("C10", sharing::sharing),
    ("C11", repair::repairs),
    ("J1", riddles::riddles),
    ("J2", strict::strict),
    ("J6", documents::documents),
];

/// What the command line chose.
pub struct Bench {
    /// Fewer repetitions.
    pub quick: bool,
    /// Random placements of row C4 in place of the usual number.
    pub placements: Option<u64>,
    /// Where the real traces of rows C6 and J2 are.
    pub traces: std::path::PathBuf,
}
