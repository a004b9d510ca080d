//! Row P2: a cluster of the release before becomes one of this release, process after process, under load and with jobs that run; and programs of
//! both releases beside each other.
//!
//! The programs of the release before are in the folder that `RAIL_BENCH_RELEASED` names: `cargo xtask bench faces --row P2` builds them from the
//! commit in `proto/released/commits`.

mod judge;
mod load;
mod rank;
mod roll;
mod skew;
mod world;

use std::path::PathBuf;

use integration_harness::{Etcd, binaries};

pub use rank::Rank;

use crate::report::Row;
use world::Releases;

/// Measures row P2, with fewer servers if `quick`.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let Some(old) = std::env::var_os("RAIL_BENCH_RELEASED").map(PathBuf::from) else {
        row.void(judge::CASE, "RAIL_BENCH_RELEASED names no programs of the release before");
        return Ok(());
    };
    if Etcd::program().is_none() {
        row.void(judge::CASE, "there is no etcd");
        return Ok(());
    }
    let releases = Releases { old, new: binaries::directory()?.to_owned() };
    skew::measure(row, &releases)?;
    roll::measure(row, &releases, quick)
}
