//! The engine's figures B1 to B11: ours and other libraries side by side on the same shaped rails, in the same minute.
//!
//! All programs that are compared live through the whole bench and wait without using a processor; their repetitions
//! alternate, so that a noisy moment hits all alike. Ratios are taken within one repetition.

mod bandwidth;
mod bench;
mod children;
mod faults;
mod group;
mod key;
mod lab;
mod latency;
mod meter;
mod ours;
pub mod peers;
mod plot;
mod roof;
mod series;
mod simulated;
mod training;

use clap::Subcommand;

use crate::report;
pub use bench::{Bench, Settings};
pub use children::ended;
pub use key::{Environment, Key, Who};
pub use lab::{Cut, Lab};
pub use ours::{Engines, JOB_UID, engines};
pub use plot::plot;
pub use roof::measure as measure_roof;

/// A function that measures one row.
pub type Row = fn(&report::Row<'_>, &Bench) -> Result<(), String>;

/// The rows of this bench.
pub const ROWS: [(&str, Row); 11] = [
    ("B1", bandwidth::large),
    ("B2", bandwidth::small),
    ("B3", bandwidth::unequal),
    ("B4", faults::cuts),
    ("B5", faults::degraded),
    ("B6", faults::back),
    ("B7", latency::small),
    ("B8", latency::server),
    ("B9", simulated::same_bits),
    ("B10", training::training),
    ("B11", simulated::deadlines),
];

/// Programs that the bench starts of itself.
#[derive(Subcommand)]
pub enum Helper {
    /// Removes the namespaces of a bench when standard input ends.
    #[command(hide = true)]
    Guard(lab::GuardArgs),
    /// One host's plain TCP streams.
    #[command(hide = true)]
    Roof(roof::HostArgs),
}

impl Helper {
    /// Runs to its end.
    ///
    /// # Errors
    /// The error of the helper.
    pub fn run(&self) -> Result<(), String> {
        match self {
            Self::Guard(args) => lab::guard(args),
            Self::Roof(args) => roof::host(args),
        }
    }
}
