//! Certification of a gang before its ranks start: who measures whom, and what the measurements show.
//!
//! [`plan()`] draws rounds of disjoint pairs, so that no measurement disturbs another; [`judge`] reads what the nodes have
//! measured. A pair has two ends: what is wrong with a pair is blamed on the end that most of its pairs have in common, and on
//! nobody where both ends are as likely, as in a gang of two. What was not observed is said; it is never taken for good.
//! What only looks slow or lossy may be a server's want of processors for a moment: it is measured a second time, and counts if
//! it is so both times ([`judge_again`]).
//! [`model`] is a gang with noise and faults in virtual time.

mod blame;
mod crossing;
mod finding;
mod judge;
mod limits;
pub mod model;
mod plan;
mod robust;
mod sums;
#[cfg(test)]
mod tests;

pub use finding::{Certificate, Finding, Kind, RailSummary, Remap, Subject, Verdict};
pub use judge::{judge, judge_again};
pub use limits::Limits;
pub use plan::{Budget, Gang, Pair, Plan, plan};
pub use proto_model::{Measured, PairReport, PathMeasurement, PortGid, PortReport, PriorityBytes, RoundPart};
pub use sums::NodeReport;
