//! What the jobs of a node call the rails of its NICs.

use std::collections::BTreeSet;

use controller_topology::RailSet;
use proto_model::{NodeName, Placement, ReasonCode};

use crate::{
    rows::{
        job::JobEntry,
        records::{Attempt, Outcome},
    },
    tables::state::State,
};

/// What a node's jobs call the rails of its NICs, where that is not what its inventory says: (as in its inventory, as its job has it).
///
/// A NIC is one job's at most, and a remap gives new names only to what one job holds. So on one node no two NICs have the same name,
/// and what its agent is told of rails is in the names that are used there.
#[derive(Debug, Default)]
pub struct Names(Vec<(u32, u32)>);

impl Names {
    /// What the NIC of this rail of the inventory is called.
    pub fn of(&self, rail: u32) -> u32 {
        self.0.iter().find(|(own, _)| *own == rail).map_or(rail, |(_, name)| *name)
    }

    /// The same of several.
    pub fn of_all(&self, rails: RailSet) -> RailSet {
        if self.0.is_empty() { rails } else { rails.iter().map(|rail| self.of(rail)).collect() }
    }
}

impl State {
    /// What the jobs of a node call its NICs' rails.
    pub fn names(&self, node: &NodeName) -> Names {
        let mut names = Vec::new();
        for (uid, position) in self.index.holds.get(node).into_iter().flatten() {
            let placement = self.base.jobs.get(uid).and_then(|entry| entry.job.status.placement.as_ref());
            let place = placement.and_then(|placement| placement.nodes.get(*position as usize));
            let Some(place) = place.filter(|place| place.remapped && place.node == *node) else { continue };
            let Some(known) = self.base.nodes.get(node) else { continue };
            let own = |device: &str| known.inventory.nics.iter().find(|nic| nic.device == device);
            names.extend(place.nics.iter().filter_map(|nic| Some((own(&nic.device)?.rail, nic.rail))));
        }
        // An inventory that has been named otherwise since, and in part only: then nobody knows.
        let set = |of: fn(&(u32, u32)) -> u32| names.iter().map(of).collect::<BTreeSet<u32>>();
        let whole =
            set(|(own, _)| *own) == set(|(_, name)| *name) && set(|(own, _)| *own).len() == names.len();
        Names(if whole { names } else { Vec::new() })
    }
}

impl State {
    /// The placement of an attempt that has ended to begin again with other names of rails; nothing where more than names was wrong.
    pub fn renamed(&self, entry: &JobEntry, attempt: &Attempt) -> Option<Placement> {
        let ending = attempt.ending.as_ref().filter(|ending| ending.outcome == Outcome::Move)?;
        let remap = ending.causes.first().is_some_and(|cause| cause.code == ReasonCode::RailsRemapped);
        let placement = entry.job.status.placement.as_ref().filter(|_| remap)?;
        self.losses(entry, attempt).is_empty().then(|| Placement::clone(placement))
    }
}
