//! A node speaks of itself only. What it reports is taken apart here before anything is concluded from it:
//!
//! - **Its own** is taken over.
//! - **Stale or beside the point** (an attempt that is over, a rail that the job does not have, a result from a node without rank 0)
//!   is left out and counted: late, repeated and reordered reports are no offence.
//! - **Untrue** is what no honest agent can say at any time: a cause that only the controller may say, another node's rank, a peer or
//!   an endpoint that is not of this node, an epoch that never was, hardware that another node has. It is left out, and the node is
//!   quarantined with the evidence: no job is placed there until an administrator has seen to it (`railctl node return`). What runs
//!   there goes on, and nothing is concluded about any other node.

pub(crate) mod evidence;
mod hardware;
pub(crate) mod report;
pub(crate) mod untruth;
