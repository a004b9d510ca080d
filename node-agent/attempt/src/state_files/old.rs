//! The JSON files that agents and supervisors of release 0.1.0 have written. Agents are upgraded under running jobs, whose supervisors
//! go on writing this form until they end: it is read, and never written.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use node_agent_core::{Goal, Key, Life, Record};
use node_agent_os::process::Identity;
use proto_model::{JobId, JobName, TenantName};
use serde::Deserialize;

use super::supervisor::SupervisorState;
use crate::{
    places::Flaw,
    saved::{FirstCollective, SavedPeer, SavedSnapshot, load_peers},
    saved_certify::SavedCertify,
};

/// `state.json`.
#[derive(Debug, Deserialize)]
struct OldState {
    snapshot: SavedSnapshot,
    supervisor: Option<Identity>,
    engine: Option<Identity>,
    #[serde(default)]
    holder: Option<Identity>,
    ranks: BTreeMap<u32, Identity>,
    cgroups: Vec<PathBuf>,
    #[serde(default)]
    first_collective: Option<FirstCollective>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "goal", rename_all = "lowercase")]
enum OldGoal {
    Prepared,
    Running {
        peers: Vec<SavedPeer>,
        #[serde(default)]
        certify: Option<SavedCertify>,
    },
    Stopped {
        grace_ms: u64,
        #[serde(default)]
        signal: i32,
        reason: String,
    },
}

/// `record.json`.
#[derive(Debug, Deserialize)]
struct OldRecord {
    tenant: String,
    job: String,
    #[serde(flatten)]
    goal: OldGoal,
    snapshot: SavedSnapshot,
    trace_parent: String,
}

fn broken(error: impl std::fmt::Display) -> Flaw {
    Flaw::Broken(error.to_string())
}

/// The state in `state.json`.
///
/// # Errors
/// The text is no such JSON.
pub fn state(text: &[u8]) -> Result<SupervisorState, Flaw> {
    let old: OldState = serde_json::from_slice(text).map_err(broken)?;
    Ok(SupervisorState {
        snapshot: old.snapshot.into(),
        supervisor: old.supervisor,
        engine: old.engine,
        holder: old.holder,
        ranks: old.ranks,
        cgroups: old.cgroups,
        first_collective: old.first_collective,
    })
}

/// The record in `record.json`, of this attempt.
///
/// # Errors
/// The text is no such JSON, or names in it are no names.
pub fn record(text: &[u8], key: Key) -> Result<Record, Flaw> {
    let old: OldRecord = serde_json::from_slice(text).map_err(broken)?;
    let goal = match old.goal {
        OldGoal::Prepared => Goal::Prepared,
        OldGoal::Running { peers, certify } => {
            Goal::Running { peers: load_peers(peers), certify: certify.map(Into::into) }
        }
        OldGoal::Stopped { grace_ms, signal, reason } => {
            Goal::Stopped { grace: Duration::from_millis(grace_ms), signal, reason }
        }
    };
    let tenant = TenantName::new(&old.tenant).map_err(broken)?;
    let name = JobName::new(&old.job).map_err(broken)?;
    Ok(Record {
        key,
        id: JobId { tenant, name },
        goal,
        life: Life::None,
        seen: old.snapshot.into(),
        trace_parent: old.trace_parent,
    })
}
