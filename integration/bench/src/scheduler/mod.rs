//! The scheduler's figures C1 to C11 and J1 to J4: the production code in one process, without store and network; and J6, J7, documents of
//! large fabrics and random jobs through the real programs.

mod backfill;
mod bands;
mod bench;
mod churn;
mod documents;
mod dry;
mod explain;
mod live;
mod memory;
mod optimal;
mod philly;
mod random;
mod repair;
mod riddles;
mod sharing;
pub mod site;
mod sites;
mod strict;
mod trade;

use crate::report;
pub use bench::Bench;

/// A function that measures one row.
pub type MeasureRow = fn(&report::Row<'_>, &Bench) -> Result<(), String>;

/// The rows of this bench.
pub const ROWS: [(&str, MeasureRow); 17] = [
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
    ("J3", bands::bands),
    ("J4", trade::trade),
    ("J6", documents::documents),
    ("J7", live::live),
];
