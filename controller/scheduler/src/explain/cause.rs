//! What can stand in the way of a gang, and what is known beside the cluster.

use proto_model::{Group, IsolationFeature, Taint, Term, Thing, Within};

use crate::snapshot::NodeSet;

/// A constraint that stands in a gang's way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The node has too few GPUs.
    GpuShape,
    /// Jobs hold too many of its GPUs.
    GpusHeld,
    /// The node has too few CPUs.
    CpuShape,
    /// Jobs hold too many of its CPUs.
    CpusHeld,
    /// Its agent does not report its CPUs, so that it has none to give.
    CpusUnknown,
    /// The node has too little memory.
    MemoryShape,
    /// Jobs hold too much of its memory.
    MemoryHeld,
    /// Its agent does not report its memory, so that it has none to give.
    MemoryUnknown,
    /// A job that wants nobody beside it holds the node.
    HeldAlone,
    /// The job wants nobody beside it, and somebody is there.
    Shared,
    /// Another tenant's job is there, and the node cannot keep the two apart.
    OtherTenant,
    /// The node does not give this, and the job must have it.
    Isolation(IsolationFeature),
    /// No cabled NIC on this rail; `None`: on too many rails.
    RailMissing(Option<u32>),
    /// The NIC of this rail is down; `None`: too many are.
    RailDown(Option<u32>),
    /// A job holds the NIC of this rail; `None`: of too many rails.
    RailHeld(Option<u32>),
    /// A rail that the job would use there is drained, or too many are, and it does not want drained ones.
    RailDrained,
    /// An administrator closed the node.
    Unschedulable,
    /// The node is not heard from.
    NotReady,
    /// Its agent is not connected.
    Away,
    /// It still ends processes of an older attempt.
    Draining,
    /// A condition on labels.
    Label(Term),
    /// Its GPUs are not all of models that will do, or it has none.
    GpuModel,
    /// Of some of its GPUs nobody knows the model.
    GpuModelUnknown,
    /// A taint that the job does not tolerate.
    Taint(Taint),
    /// The job does not want these nodes.
    Excluded,
    /// Nodes kept for others: a reservation, a maintenance window, a job ahead.
    Withheld(Thing),
    /// The gang must stay in one place.
    Confined(Within),
    /// Groups of the gang must not be split.
    Grouped(Group),
    /// All nodes must share their rails, and reach one another on them.
    Aligned,
    /// Nodes that are to idle beside the gang.
    Spares,
    /// The tenant's quota, in GPUs.
    Quota,
}

impl Cause {
    /// Whether it is about what jobs hold: an end of jobs removes it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(
            self,
            Self::GpusHeld
                | Self::CpusHeld
                | Self::MemoryHeld
                | Self::HeldAlone
                | Self::Shared
                | Self::OtherTenant
                | Self::RailHeld(_)
        )
    }

    /// Whether it is about the gang as a whole, not about single nodes.
    #[must_use]
    pub fn is_of_gang(&self) -> bool {
        matches!(self, Self::Confined(_) | Self::Grouped(_) | Self::Aligned | Self::Spares)
    }
}

/// A constraint with its counts; see the module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocker {
    /// The constraint that is in the way.
    pub cause: Cause,
    /// Nodes that it costs; GPUs for a quota.
    pub lost: u32,
    /// Nodes that it alone costs.
    pub alone: u32,
}

/// Free nodes that are not for this job.
#[derive(Debug, Clone, Copy)]
pub struct WithheldNodes<'a> {
    /// The job or reservation that they are withheld for.
    pub thing: &'a Thing,
    /// The nodes that are withheld.
    pub nodes: &'a NodeSet,
}

/// What the queue knows and the snapshot does not.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueFacts<'a> {
    /// Nodes kept for others.
    pub kept: &'a [WithheldNodes<'a>],
    /// GPUs that the tenant may still take; `None`: it may take any number.
    pub quota: Option<u64>,
}
