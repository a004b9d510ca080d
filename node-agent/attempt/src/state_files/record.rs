//! The agent's record of one attempt, as it is saved.

use std::time::Duration;

use node_agent_core::{Goal, Key, Life, Record};
use prost::Message;
use proto_model::{JobId, JobName, NodeEndpoints, NodeName, TenantName};

use super::{
    form::{decode, load_endpoints, nanos, needed, save_endpoints},
    measured, schema,
    schema::attempt_record::Goal as SavedGoal,
    snapshot,
};
use crate::places::{Flaw, VERSION};

/// The bytes of a record. Its key is not among them: the folder's name says it.
#[must_use]
pub fn encode_record(record: &Record) -> Vec<u8> {
    let goal = match &record.goal {
        Goal::Prepared => SavedGoal::Prepared(schema::Prepared {}),
        Goal::Running { peers, certify } => SavedGoal::Running(schema::Running {
            peers: peers.iter().map(save_peer).collect(),
            certify: certify.as_ref().map(measured::save_certify),
        }),
        Goal::Stopped { grace, signal, reason } => SavedGoal::Stopped(schema::Stopped {
            grace_ns: nanos(*grace),
            signal: *signal,
            reason: reason.clone(),
        }),
    };
    let saved = schema::AttemptRecord {
        version: VERSION,
        tenant: record.id.tenant.to_string(),
        job: record.id.name.to_string(),
        goal: Some(goal),
        seen: Some(snapshot::save(&record.seen)),
        trace_parent: record.trace_parent.clone(),
    };
    saved.encode_to_vec()
}

/// The record of this attempt, of which no supervisor is known.
///
/// # Errors
/// A later release has written the bytes, or they are no record.
pub fn decode_record(bytes: &[u8], key: Key) -> Result<Record, Flaw> {
    let saved: schema::AttemptRecord = decode(bytes)?;
    let goal = match needed("the goal", saved.goal)? {
        SavedGoal::Prepared(_) => Goal::Prepared,
        SavedGoal::Running(running) => Goal::Running {
            peers: running.peers.into_iter().map(load_peer).collect::<Result<_, _>>()?,
            certify: running.certify.map(measured::load_certify),
        },
        SavedGoal::Stopped(stopped) => Goal::Stopped {
            grace: Duration::from_nanos(stopped.grace_ns),
            signal: stopped.signal,
            reason: stopped.reason,
        },
    };
    let tenant = TenantName::new(&saved.tenant).map_err(|error| Flaw::Broken(error.to_string()))?;
    let name = JobName::new(&saved.job).map_err(|error| Flaw::Broken(error.to_string()))?;
    Ok(Record {
        key,
        id: JobId { tenant, name },
        goal,
        life: Life::None,
        seen: snapshot::load(needed("the snapshot", saved.seen)?)?,
        trace_parent: saved.trace_parent,
    })
}

fn save_peer(peer: &NodeEndpoints) -> schema::Peer {
    schema::Peer { node: peer.node.to_string(), endpoints: save_endpoints(&peer.endpoints) }
}

fn load_peer(saved: schema::Peer) -> Result<NodeEndpoints, Flaw> {
    let node = NodeName::new(&saved.node).map_err(|error| Flaw::Broken(error.to_string()))?;
    Ok(NodeEndpoints { node, endpoints: load_endpoints(saved.endpoints)? })
}
