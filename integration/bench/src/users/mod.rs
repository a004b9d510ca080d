//! What users of kubectl, nomad and Slurm meet here: what a new user met in a day (Y1), whether what they do works (Y2), what fuzzed
//! input does (Y3), and how long lists feel (Y4).

mod bench;
mod fuzz;
mod lists;
mod table;
mod things;
mod yaml;

use crate::report;
pub use bench::Bench;

/// A function that measures one row.
pub type Row = fn(&report::Row<'_>, &Bench) -> Result<(), String>;

/// The rows of this bench.
pub const ROWS: [(&str, Row); 4] = [
    ("Y1", things::measure_findings),
    ("Y2", things::measure),
    ("Y3", fuzz::measure),
    ("Y4", lists::measure),
];
