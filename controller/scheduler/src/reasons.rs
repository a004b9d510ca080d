//! Every cause for which a gang cannot be placed, with counts: never only the first.

mod alike;
mod components;
mod host;

use proto_model::{JobId, Reason};

pub use alike::{capacity, reason, term_text};

use crate::{
    place::{Need, Placer},
    snapshot::{NodeSet, Snapshot},
};

/// Causes for which the job could never start on the cluster as it is described now: as if every node were ready and
/// idle and every NIC up. Each names the nearest right thing. Empty if it could.
#[must_use]
pub fn infeasible(snapshot: &Snapshot, need: &Need, placer: &mut Placer) -> Vec<Reason> {
    if need.components.is_empty() {
        alike::infeasible(snapshot, need, placer)
    } else {
        components::infeasible(snapshot, need, placer)
    }
}

/// Causes for which the gang cannot be placed now, although it could be on an idle cluster. Empty if there is room.
#[must_use]
pub fn not_now(snapshot: &Snapshot, need: &Need, reserved: Option<(&NodeSet, &JobId)>) -> Vec<Reason> {
    if need.components.is_empty() {
        alike::not_now(snapshot, need, reserved)
    } else {
        components::not_now(snapshot, need, reserved)
    }
}
