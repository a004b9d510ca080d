//! What a gang has lost, where replacements come from, and what becomes of it.

use std::collections::BTreeMap;

use controller_topology::RailSet;
use proto_model::{NodeName, Placement, Reason};

use crate::{place::Need, snapshot::NodeSet};

/// What a node has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureScope {
    /// The node as a whole.
    Node,
    /// The NICs of these rails.
    Rails(RailSet),
}

/// Where replacements come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sources {
    /// From the job's own spares.
    pub spares: bool,
    /// From nodes that are free.
    pub free: bool,
}

impl From<proto_model::Replace> for Sources {
    fn from(replace: proto_model::Replace) -> Self {
        use proto_model::Replace;
        Self { spares: replace != Replace::Never, free: replace == Replace::Any }
    }
}

/// A gang that has lost something.
#[derive(Debug, Clone, Copy)]
pub struct RepairRequest<'a> {
    /// What the job asked for. How many nodes it has now is what the placement says.
    pub need: &'a Need,
    /// Where it is; held in the snapshot.
    pub placement: &'a Placement,
    /// What it has lost; nodes that are not its own do not matter.
    pub lost: &'a BTreeMap<NodeName, FailureScope>,
    /// Where replacements come from.
    pub sources: Sources,
    /// Nodes that are free and not for it: kept for others.
    pub kept: &'a NodeSet,
}

/// One node in the place of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// The node's place in rank order.
    pub position: u32,
    /// The node that failed.
    pub old: NodeName,
    /// The one that takes over its ranks.
    pub new: NodeName,
    /// It was a spare of the job.
    pub spare: bool,
}

/// A gang that is whole again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The new placement. Lost nodes are no longer in it, nor among its spares.
    pub placement: Placement,
    /// What was replaced, in rank order.
    pub swaps: Vec<Swap>,
    /// Spares that were lost.
    pub spares_lost: Vec<NodeName>,
    /// Rails that the gang no longer uses.
    pub rails_dropped: RailSet,
}

/// A gang that cannot be made whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Irreparable {
    /// Every reason why the gang cannot be made whole.
    pub reasons: Vec<Reason>,
    /// What could be done in place of it: the gang on one rail less, or without the rails that were lost.
    pub fewer_rails: Option<Box<Repaired>>,
}
