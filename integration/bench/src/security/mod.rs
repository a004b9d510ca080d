//! Security: X1, what gives way to the attack suite; X2, what a flood of peers without an identity costs others; X3, what isolation costs a
//! start; X4, what jobs of two tenants on shared servers read of each other and leave behind.

mod flood;
mod flood_load;
mod isolation;
mod shared;
mod suite;

use crate::report;

pub use flood_load::Flood;

/// A function that measures one row; the flag asks for fewer repetitions.
pub type Row = fn(&report::Row<'_>, bool) -> Result<(), String>;

/// The rows of this bench.
pub const ROWS: [(&str, Row); 4] =
    [("X1", suite::measure), ("X2", flood::measure), ("X3", isolation::measure), ("X4", shared::measure)];
