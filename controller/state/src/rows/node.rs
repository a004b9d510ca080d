//! A node's connection, and the taints that the scheduler sees of a node.

use std::{collections::BTreeSet, sync::Arc};

use controller_topology::RailSet;
use proto_model::{DesiredQos, JobUid, Node, RailProof, Taint, Timestamp};

/// A node's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// `None` while its agent is not connected.
    pub session: Option<u64>,
    /// When it was last heard; the controller's start if never.
    pub heard: Timestamp,
    /// When its silence must be looked at; `None` once it is NotReady.
    pub due: Option<Timestamp>,
    /// Attempts that run there although no desired state has them.
    pub foreign: BTreeSet<(JobUid, u32)>,
    /// Rails that its agent was told are drained.
    pub drained: RailSet,
    /// What its agent was told of its class of service.
    pub qos: Option<Arc<DesiredQos>>,
    /// The highest number of what it was told of it, in this session and before.
    pub qos_number: u64,
    /// Probes that its agent was told of.
    pub proofs: Vec<RailProof>,
}

impl Link {
    /// That of a node whose agent is not connected.
    pub fn absent(heard: Timestamp, due: Option<Timestamp>) -> Self {
        let (foreign, drained) = (BTreeSet::new(), RailSet::EMPTY);
        Self { session: None, heard, due, foreign, drained, qos: None, qos_number: 0, proofs: Vec::new() }
    }
}

/// The taint of a quarantined node; a job that tolerates it may run there all the same.
pub const QUARANTINED: &str = "railyard.io/quarantined";

/// The taint that drains a node: jobs that can be moved leave it, the others end there; no new one comes.
pub const DRAINED: &str = "railyard.io/drain";

/// The taints of a node as the scheduler sees them.
pub fn taints(node: &Node) -> std::collections::BTreeSet<Taint> {
    let mut taints = node.taints.clone();
    if node.quarantined.is_some() {
        taints.insert(Taint { key: QUARANTINED.to_owned(), value: String::new() });
    }
    taints
}

/// Whether an administrator wants a node's jobs to leave it.
pub fn is_drained(node: &Node) -> bool {
    node.taints.iter().any(|taint| taint.key == DRAINED)
}
