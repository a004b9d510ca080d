//! Class of service of a server's NICs, decided: desired x observed -> ordered edits, each with its undo.
//!
//! Contracts:
//! 1. A [`QosProfile`] does not contradict itself: every wrong field is named when it is made.
//! 2. What a NIC was read to be ([`Observed`]) is known, not supported, or not readable; missing is no default.

pub mod diff;
pub mod edit;
pub mod item;
pub mod model;
pub mod observed;
pub mod plan;
pub mod profile;
pub mod settings;
pub mod vendor;
pub mod wanted;
pub mod words;

pub use diff::{Deviation, Finding, Verdict, diff};
pub use edit::{AppOp, Blast, Change, Edit, FileRoot, Via};
pub use item::Item;
pub use observed::{Congestion, DcbAgent, Device, Observed, Reading, Settings};
pub use plan::{Options, Plan, PlanRefusal, Withheld, plan};
pub use profile::{Dcqcn, Flaw, ProfileError, ProfileSpec, QosProfile};
#[cfg(test)]
mod tests;
pub mod trial;
