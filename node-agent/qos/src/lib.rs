//! Class of service of a server's NICs, decided: profile x what was read -> verdict, and ordered edits with their undo.
//!
//! Contracts:
//! 1. A [`QosProfile`] (`proto-profile`) does not contradict itself: every wrong field is named when it is made.
//! 2. What a NIC was read to be ([`Observed`]) is known, not supported, or not readable; missing is no default.
//! 3. [`diff()`] names each deviation and what it does to RDMA traffic; what cannot be known or set is a finding.
//! 4. [`plan()`] fixes every deviation that the driver can fix, from wherever an earlier plan stopped; its undos bring back
//!    what was. What harms traffic waits until the server is drained, and a lossless data class is changed as a whole.
//! 5. Drivers are tables ([`vendor`]): no code asks for a driver's name.
//! 6. An apply is a [`Journal`]: whoever dies, a port is in service only as it was before or as it is planned to be.

pub mod data_class;
pub mod diff;
pub mod document;
pub mod edit;
pub mod item;
pub mod journal;
pub mod model;
pub mod observed;
pub mod plan;
pub mod render;
pub mod vendor;
pub mod wanted;

pub use data_class::DataClass;
pub use diff::{Deviation, Finding, Verdict, diff};
pub use edit::{AppOp, Blast, Change, Edit, FileRoot, Via};
pub use item::Item;
pub use journal::{Journal, Service, Stage};
pub use observed::{Congestion, DcbAgent, Device, Observed, Reading, Settings};
pub use plan::{Options, Plan, PlanRefusal, Withheld, plan};
pub use proto_profile::{
    self as profile, Dcqcn, Flaw, ProfileError, ProfileSpec, QosProfile, settings, words,
};
#[cfg(test)]
mod tests;
pub mod trial;
