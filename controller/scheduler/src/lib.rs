//! Which job runs where: a snapshot in, decisions with all their reasons out. No clock, no IO.
//!
//! Contracts:
//! 1. All or nothing: a placement holds the whole gang, or there is none.
//! 2. Every node of a placement has, on every rail in use, a NIC that is up, cabled and held by nobody else: the gang
//!    is rail-aligned. A job holds the NICs of its rails on its nodes alone.
//! 3. Fewest pods, then the least weighted cut for the job's pattern, then the leaves, the pod and the nodes that it fills
//!    best, then the least loaded uplinks; ranks in the order of places, so that a ring leaves each place once.
//! 4. A tenant's held GPUs never exceed its quota.
//! 5. [`check_placement`] shares no code with the choice and proves 1, 2 and 4 on every placement, in production too.
//! 6. Dry runs use the very same code: [`Pass::decide`].
//!
//! A decision reads the [`CapacityIndex`]: bitmaps of what nodes can give, in the order of places, changed by every event. The
//! [`Placer`] keeps, per kind of request, how many nodes each place offers, so that the best place is found without
//! looking at the others; it can be thrown away at any time.
//!
//! Order: priority, then age. The first job that waits for capacity keeps the nodes that it will need: later jobs
//! pass it on the others only, so that it cannot starve, and at most one gang's worth of nodes idles for it. A job
//! that waits for its tenant's quota holds back that tenant's later jobs that take GPUs, and nobody else's.

mod bins;
pub mod brute;
pub mod capacity;
pub mod capacity_index;
pub mod check;
pub mod choice;
pub mod decide;
pub mod exact;
pub mod explain;
mod host;
pub mod place;
#[cfg(test)]
mod plant;
pub mod proof;
pub mod rankmap;
pub mod reasons;
pub mod repair;
mod seen;
pub mod snapshot;
#[cfg(test)]
mod tests;
mod view;
#[cfg(test)]
mod world;

pub use capacity::{Allocated, Capacity, Gate};
pub use capacity_index::{CapacityIndex, Facts, Filter, Mark, Pick, Taint, Term, Toleration, Traits};
pub use check::{Violation, check_placement};
pub use choice::{Choice, Time};
pub use decide::{Blocked, Decision, GangRequest, Pass, QueueKey, Reservation, Wait, drained_reason, solve};
pub use explain::{
    Blocker, Cause, Change, Explanation, Holder, QueueFacts, Relaxation, WithheldNodes, explain,
};
pub use host::Host;
pub use place::{Arrange, ComponentNeed, Group, Hidden, Need, Pattern, Placer, RailNeed, Within};
pub use proof::{Flaw, Seen, World, choice_of, prove};
pub use repair::{FailureScope, Irreparable, RepairRequest, Repaired, Sources, Swap, prove_repair, repair};
pub use snapshot::{NodeSet, Snapshot, TenantUse};
