//! Calls of ranks on their way through the collective core: operands in, results or causes out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use node_agent_collective::units::Time;
use node_agent_collective::{Call, Region, Ticket};

use crate::first::First;

/// Where the bytes of an operand are in shared memory.
pub(crate) type Shared = (Arc<node_agent_ipc::Region>, usize);

/// A call of a local rank that is under way.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) token: usize,
    pub(crate) id: u64,
    pub(crate) call: Call,
    pub(crate) input: Region,
    pub(crate) output: Region,
    /// Where the result is copied to; none if it is there already.
    pub(crate) target: Option<Shared>,
    pub(crate) operand_bytes: u64,
    /// Its own limit, where the rank gave one.
    pub(crate) deadline: Option<Time>,
}

/// All calls under way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) pending: BTreeMap<Ticket, Pending>,
    pub(crate) deadlines: BTreeSet<(Time, Ticket)>,
    pub(crate) completed: u64,
    pub(crate) hurt: bool,
    /// The job's first collective.
    pub(crate) first: First,
}

impl Calls {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether any call failed because the communicator did.
    pub(crate) fn hurt(&self) -> bool {
        self.hurt
    }

    /// Operations completed, each counted once for all ranks of this node.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}
