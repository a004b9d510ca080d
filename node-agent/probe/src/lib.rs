//! Probes of rails before a job starts: what a node measures with one partner after the other, over UDP on the rails' addresses.
//!
//! [`Prober::run`] takes its turns in order: it begins a pair, or answers until the other end is done. Every packet carries a proof
//! of the job's key, must not be fragmented, and has the job's traffic class; all is bounded in number and time. What the probe
//! finds out goes through the kernel: a rail that is faster than [`CEILING_MBPS`] is reported as that fast and no faster, and nothing
//! is said of RDMA.

mod burst;
mod large;
mod limits;
mod listen;
pub mod packet;
mod port;
mod prober;
mod report;
mod settle;
mod small;
mod sys;
mod turn;

pub use limits::{CEILING_MBPS, Limits};
pub use prober::{Config, Peer, Prober, Rail, SERIES_ROUNDS, SetupError};
pub use report::{PairReport, PathMeasurement, PortReport, Report, RoundPart};
pub use sys::device_of;
