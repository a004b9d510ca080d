//! What nodes, ranks, rails and times are counted in, and the limits of a job.

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
/// Most rails of a job.
pub const MAX_RAILS: usize = 64;
/// Least chunk size in bytes.
pub const MIN_CHUNK: usize = 64;
/// Greatest chunk size in bytes.
pub const MAX_CHUNK: usize = 16 << 20;
/// Collectives that may be active (announced to peers) at once. This many later a new plan is in force.
pub const MAX_ACTIVE: u64 = 4;
/// Calls of one rank that may be outstanding.
pub const MAX_OUTSTANDING: usize = 1024;
/// Different (from, to, tag) that one machine remembers.
pub const MAX_PAIRS: usize = 1 << 16;
/// How far a notification to a peer may be from the first that the peer has not acknowledged; and, for each node of the job, how many may wait
/// to be handed to local ranks.
pub const MAX_NOTIFICATIONS: usize = 1 << 16;
/// Full capacity of a node over all its rails; what is left of it is told in these.
pub const FULL: u16 = 1024;
