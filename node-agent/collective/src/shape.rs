//! Who takes part: nodes, ranks and rails, and the sizes that all nodes must agree on.

use crate::error::ConfigError;
use crate::memory::Region;

/// Index of a node in the job.
pub type Node = u16;
/// Rank of a process in the job.
pub type Rank = u32;
/// Index of a rail.
pub type Rail = u16;
/// A point in time: since any fixed origin, never going back.
pub type Time = std::time::Duration;

/// Most nodes of a job.
pub const MAX_NODES: usize = 1024;
/// Most rails.
pub const MAX_RAILS: usize = 64;
/// Least chunk size in bytes.
pub const MIN_CHUNK: usize = 64;
/// Greatest chunk size in bytes.
pub const MAX_CHUNK: usize = 16 << 20;
/// Collectives that may be active (announced to peers) at once.
pub const MAX_ACTIVE: u64 = 8;

/// What a [`crate::Machine`] must know of its job. `ranks`, `nodes`, `rails` and `chunk_bytes` must be equal on all
/// nodes; a node that differs is found out by its first frame.
#[derive(Debug, Clone)]
pub struct Config {
    /// This node.
    pub node: Node,
    /// Number of nodes.
    pub nodes: usize,
    /// `ranks[r]` is the node of rank r.
    pub ranks: Vec<Node>,
    /// Number of rails.
    pub rails: usize,
    /// Greatest payload of one data frame, in bytes.
    pub chunk_bytes: usize,
    /// Time that an operation has from its first local post to its completion.
    pub op_timeout: Time,
    /// Fencing number of the job attempt; frames of another epoch are refused.
    pub epoch: u32,
    /// Region for staging, at least [`Config::scratch_bytes`] long; used by the machine alone.
    pub scratch: Region,
}

impl Config {
    /// Bytes of scratch that a machine of this configuration needs.
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        0
    }
}
