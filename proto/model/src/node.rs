//! Servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{Claim, JobUid, NodeName, Reason, ReasonCode, Taint, Timestamp, inventory::Inventory};

/// A server and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name of the server, unique in the cluster.
    pub name: NodeName,
    /// Never reused, 16 random bytes as text.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When the server first joined.
    pub created: Timestamp,
    /// No new job is placed here.
    pub unschedulable: bool,
    /// Why no job may be placed, in the administrator's words; may be empty.
    pub unschedulable_reason: String,
    /// Key/value pairs that jobs select nodes by.
    pub labels: BTreeMap<String, String>,
    /// What keeps jobs off it unless they tolerate it.
    pub taints: BTreeSet<Taint>,
    /// Why no job is placed here until somebody vouches for it: it has failed too many.
    pub quarantined: Option<Reason>,
    /// Attempts that failed by it lately; a few of them bench it.
    pub strikes: Vec<Strike>,
    /// What it has said that cannot be true, oldest first. While there is any, no job is placed here, whatever it tolerates, and the
    /// server holds nothing that another one claims; only an administrator ends that.
    pub quarantine: Vec<Reason>,
    /// Of what it has, what another server claims that was away when this one came with it. If that one comes back with it, it is that
    /// one's.
    pub provisional: BTreeSet<Claim>,
    /// What its agent reported of its hardware.
    pub inventory: Arc<Inventory>,
    /// Whether heartbeats of its agent arrive.
    pub health: Health,
    /// Since when `health` is as it is.
    pub health_since: Timestamp,
    /// What is wrong with it, if anything.
    pub reasons: Vec<Reason>,
    /// Version of its agent.
    pub agent_version: String,
}

impl Node {
    /// Whether it has said what cannot be true, and nobody has vouched for it since.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        !self.quarantine.is_empty()
    }
}

/// One attempt of a job that failed by a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strike {
    /// When the attempt ended.
    pub time: Timestamp,
    /// The job whose attempt it was.
    pub uid: JobUid,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The code of what the node said; `None`: it said nothing.
    pub code: Option<ReasonCode>,
}

impl Strike {
    /// The code as programs read it; empty where the node said nothing.
    #[must_use]
    pub fn code_text(&self) -> &str {
        self.code.as_ref().map_or("", ReasonCode::as_str)
    }
}

/// Whether heartbeats of an agent arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Heartbeats of its agent arrive.
    Ready,
    /// No heartbeat for longer than the limit. "Not heard" is not "free": its jobs keep what they hold.
    NotReady,
}
