//! The invariants. Each is checked when something that it speaks of changes, so that after every event all hold.

mod events;

use std::collections::{BTreeMap, BTreeSet};

use controller_core::Write;
use node_agent_core::Key as Try;
use proto_model::{Job, JobId, JobUid, NodeName, TenantName};

use crate::{audit::Recorded, usage::Usage};

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Checks {
    /// Jobs whose submit was acknowledged.
    acked: BTreeMap<JobId, JobUid>,
    /// Jobs that somebody has asked to remove.
    pub deleting: BTreeSet<JobId>,
    /// Attempts that were stored as Running.
    running: BTreeSet<(JobUid, u32)>,
    /// Attempts that became Running, also where one transaction has taken them further.
    ran: BTreeSet<(JobUid, u32)>,
    /// GPUs (false) and rails (true) of nodes, as stored jobs hold them.
    held: BTreeMap<(NodeName, bool, u32), JobUid>,
    /// Attempts of which a job has given up its part on a silent node.
    given_up: BTreeSet<(Try, NodeName)>,
    /// GPUs that tenants hold.
    used: BTreeMap<TenantName, u64>,
    /// GPUs that they may hold, when nobody has lowered that.
    pub quotas: BTreeMap<TenantName, u32>,
    /// Attempts that were stored at any time, and jobs of which an attempt has ended.
    attempts: BTreeSet<(JobUid, u32)>,
    ended: BTreeSet<JobUid>,
    /// Attempts that end because a rail was lost, and those that somebody has asked to stop.
    without_rail: BTreeSet<(JobUid, u32)>,
    on_request: BTreeSet<(JobUid, u32)>,
    /// Names of jobs by identity.
    ids: BTreeMap<JobUid, JobId>,
    /// What the audit log says.
    pub recorded: Recorded,
    /// What attempts held.
    pub usage: Usage,
    /// When the faults ended.
    pub calm_since: u64,
}

fn job(write: Option<&Write>) -> Option<&Job> {
    match write {
        Some(Write::PutJob(job)) => Some(job),
        _ => None,
    }
}
