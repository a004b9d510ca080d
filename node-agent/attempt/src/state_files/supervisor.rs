//! What a supervisor leaves on disk, as it is saved.

use std::{collections::BTreeMap, ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

use node_agent_core::Snapshot;
use node_agent_os::process::Identity;
use prost::Message;
use proto_model::Observed;

use super::{
    form::{decode, needed},
    schema, snapshot,
};
use crate::{
    places::{Flaw, VERSION},
    saved::FirstCollective,
};

/// What a supervisor leaves on disk: the snapshot, and the processes that it has started.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SupervisorState {
    /// What the supervisor knows of its attempt.
    pub snapshot: Snapshot,
    /// The supervisor's own process.
    pub supervisor: Option<Identity>,
    /// The engine's process; `None` where none was started.
    pub engine: Option<Identity>,
    /// The process that holds the attempt's namespaces.
    pub holder: Option<Identity>,
    /// The ranks; each leads a process group.
    pub ranks: BTreeMap<u32, Identity>,
    /// The ranks' control groups.
    pub cgroups: Vec<PathBuf>,
    /// For the trace, once it is known.
    pub first_collective: Option<FirstCollective>,
}

impl SupervisorState {
    /// Its ranks run, as far as it has written.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.snapshot.state == Observed::Running
    }

    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let first = |first: &FirstCollective| schema::FirstCollective {
            operation: first.operation.clone(),
            started_unix_ns: first.started_unix_ns,
            ended_unix_ns: first.ended_unix_ns,
        };
        let path = |path: &PathBuf| path.clone().into_os_string().into_vec();
        let saved = schema::SupervisorState {
            version: VERSION,
            snapshot: Some(snapshot::save(&self.snapshot)),
            supervisor: self.supervisor.map(save_process),
            engine: self.engine.map(save_process),
            holder: self.holder.map(save_process),
            ranks: self.ranks.iter().map(|(rank, id)| (*rank, save_process(*id))).collect(),
            cgroups: self.cgroups.iter().map(path).collect(),
            first_collective: self.first_collective.as_ref().map(first),
        };
        saved.encode_to_vec()
    }

    /// What the file says.
    ///
    /// # Errors
    /// A later release has written the bytes, or they are no state.
    pub fn decode(bytes: &[u8]) -> Result<Self, Flaw> {
        let saved: schema::SupervisorState = decode(bytes)?;
        let first = |first: schema::FirstCollective| FirstCollective {
            operation: first.operation,
            started_unix_ns: first.started_unix_ns,
            ended_unix_ns: first.ended_unix_ns,
        };
        Ok(Self {
            snapshot: snapshot::load(needed("the snapshot", saved.snapshot)?)?,
            supervisor: saved.supervisor.map(load_process),
            engine: saved.engine.map(load_process),
            holder: saved.holder.map(load_process),
            ranks: saved.ranks.into_iter().map(|(rank, id)| (rank, load_process(id))).collect(),
            cgroups: saved.cgroups.into_iter().map(|path| OsString::from_vec(path).into()).collect(),
            first_collective: saved.first_collective.map(first),
        })
    }
}

fn save_process(id: Identity) -> schema::Process {
    schema::Process { pid: id.pid, start: id.start }
}

fn load_process(saved: schema::Process) -> Identity {
    Identity { pid: saved.pid, start: saved.start }
}
