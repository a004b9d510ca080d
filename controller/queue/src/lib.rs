//! Which waiting job starts next, when the others will, and which running job yields. No clock, no IO.
//!
//! The [`QueueState`] is an index over jobs, tenants, queues and reservations; a [`QueueState::pass`] looks at a cluster and says what
//! is to be done now. The same code serves the controller, plans, the simulator and replay.
//!
//! Contracts:
//! 1. A job starts only if that delays no start that was planned for a job ahead of it: conservative backfill, planned
//!    anew at every event from nothing but the tables, so that no history decides.
//! 2. No queue and no tenant holds more than its limit, and no license is held more often than it is there; [`check`]
//!    proves that with code of its own.
//! 3. A tenant never waits longer than it would alone in a cluster of its guarantee: each guarantee has such a cluster
//!    beside the real one, in which the same code runs (`QueueState::has_right`); a job that runs there has a right to run. A
//!    guarantee is of nodes: licenses that others hold are waited for.
//! 4. Only a job that helps is stopped, and the cheapest set of them.
//! 5. Every set is undone by its opposite; what passes change is a value ([`Marks`]).

mod bands;
pub mod check;
mod decide;
mod defs;
pub mod delays;
mod empty;
mod entry;
mod forecast;
mod foresee;
mod grid;
mod ground;
mod ledger;
mod license_use;
mod licenses;
mod line;
mod long_jobs;
mod measure;
mod objective;
mod order;
mod pass;
mod plan;
#[cfg(test)]
mod plant;
mod preempt;
mod private;
mod queue_state;
mod reserve;
mod resize;
pub mod riddle;
mod right;
mod room;
mod row;
mod standing;
mod start;
mod tables;
#[cfg(test)]
mod tests;
pub mod trial;
mod turn;
mod why;
mod wording;

pub use defs::{Act, Budget, ClassDef, Policy, QueueDef, ReservationDef, ReservedNodes, TenantDef};
pub use entry::{ArrayGroup, Entry, Run, State};
pub use ledger::{Ledger, Past};
pub use licenses::LicenseUse;
pub use preempt::price;
pub use private::Site;
pub use proto_model::Eta;
pub use standing::{Share, Standing};
pub use tables::Marks;
pub use tables::QueueState;
pub use why::{WaitCause, WaitReasons};
