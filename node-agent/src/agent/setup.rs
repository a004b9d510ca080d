//! What every part of the agent knows.

use std::path::PathBuf;

use node_agent_attempt::layout::DataDir;
use node_agent_qos_apply::{
    data_class::DataClasses,
    keep::{Faults, Keeping},
};
use node_agent_rank::cgroup::limits::{RankGroups, Server};
use proto_model::{Isolation, NodeName};
use proto_rpc::Endpoint;
use tokio::sync::watch::{Receiver, Sender};

use super::{disk, metrics, ranks};

/// The programs and libraries that attempts are started with.
#[derive(Debug)]
pub(crate) struct Programs {
    /// rail-engine.
    pub engine: PathBuf,
    /// librail.so, where it lies beside the agent.
    pub library: Option<PathBuf>,
    /// The agent's own program, which is a supervisor's too.
    pub agent: PathBuf,
}

/// What ranks may use of this server.
#[derive(Debug)]
pub(crate) struct Limiting {
    /// Whether jobs get control groups.
    pub cgroups: bool,
    /// What ranks may use of it.
    pub rank_groups: RankGroups,
    /// What there is of it.
    pub server: Server,
}

/// What every part of the agent knows.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Writes what must survive a power cut.
    pub disk: disk::Disk,
    pub node: NodeName,
    pub data: DataDir,
    pub controller: Vec<Endpoint>,
    pub programs: Programs,
    pub log_bytes: u64,
    pub ranks: ranks::RankSetup,
    pub limiting: Limiting,
    /// Below it are the counters of NICs; `None` where there are none.
    pub counters: Option<PathBuf>,
    /// What is wrong with the class of service of NICs.
    pub qos_faults: Receiver<Faults>,
    /// How the agent keeps the class of service of NICs.
    pub qos: Keeping,
    /// The data classes of rails when the agent began.
    pub data_classes: DataClasses,
    pub metrics: metrics::AgentMetrics,
    /// How far jobs on this server are kept apart.
    pub isolation: Isolation,
    /// What the controller has said of the cluster's authority.
    pub authority: Sender<Option<proto_wire::v1::Authority>>,
}
