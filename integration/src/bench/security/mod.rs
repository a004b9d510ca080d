//! Security: X2, what a flood of peers without an identity costs others.

mod flood;
mod flood_load;

use crate::report;

pub use flood_load::Flood;

/// Measures one row.
pub type Row = fn(&report::Row<'_>, bool) -> Result<(), String>;

/// The rows of this bench.
pub const ROWS: [(&str, Row); 1] = [("X2", flood::measure)];
