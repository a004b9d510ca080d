//! The agent's process: one task that decides (`node-agent-core`), and tasks around it that listen and do.

mod check;
mod disk;
mod health;
pub mod identity;
pub mod inventory;
pub(crate) mod isolation;
mod link;
mod metrics;
mod prove;
pub mod ranks;
mod recover;
mod runner;
mod steps;
mod upload;
mod usage;
mod watch;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use node_agent_attempt::layout::DataDir;
use node_agent_host::InventoryFileError;
use node_agent_netlink::{
    Kernel, RealKernel,
    fake::{FakeKernel, Style},
};
use node_agent_os::files::{self, Durability};
use node_agent_qos_apply::{
    Modelled,
    data_class::DataClasses,
    desired,
    document::{ProfileFileError, profile},
    keep::{Faults, Keeping},
    keeper::KeeperError,
    modelled,
};
use node_agent_rank::{
    cgroup::{
        self, Available, hierarchy,
        limits::{RankGroups, Server},
    },
    user::RankUserError,
};
use proto_model::{Isolation, IsolationState, Nic, NodeName};
use proto_rpc::{
    Endpoint, Metrics, otlp,
    telemetry::{self, TelemetryError, TelemetryOptions},
};
use thiserror::Error;
use tokio::sync::watch::{Receiver, Sender, channel};

use crate::arguments::RunArguments;

/// Why the agent ended.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The data directory cannot be used.
    #[error("cannot use the data directory {}: {source}; give another --data-dir or mend its permissions", path.display())]
    DataDir {
        /// Path of the data directory.
        path: PathBuf,
        /// What the operating system answered.
        source: io::Error,
    },
    /// Another agent uses it.
    #[error("another rail-node-agent uses the data directory {}; one server has one agent", .0.display())]
    Locked(PathBuf),
    /// No engine to start jobs with.
    #[error("there is no rail-engine at {}; install it beside rail-node-agent or give --engine", .0.display())]
    NoEngine(PathBuf),
    /// The inventory file cannot be used.
    #[error(transparent)]
    Inventory(#[from] InventoryFileError),
    /// No certificate, and none could be got.
    #[error(transparent)]
    Identity(#[from] identity::IdentityError),
    /// Logs or traces could not be started.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Ranks cannot run as the user that was asked for.
    #[error(transparent)]
    RankUser(#[from] RankUserError),
    /// The profile of class of service cannot be used.
    #[error(transparent)]
    QosProfile(#[from] ProfileFileError),
    /// Class of service cannot be kept.
    #[error("cannot keep class of service: {0}")]
    Qos(#[from] KeeperError),
    /// The metrics address cannot be used.
    #[error("cannot serve metrics: {0}")]
    Metrics(String),
    /// Something else that the process needs.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

impl AgentError {
    /// True where the command line is to be fixed.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoEngine(_) | Self::Inventory(_) | Self::RankUser(_) | Self::QosProfile(_))
    }
}

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

/// Runs until SIGTERM or SIGINT; jobs go on.
///
/// # Errors
/// Why it could not begin.
pub fn run(arguments: RunArguments) -> Result<(), AgentError> {
    node_agent_os::process::hide();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let _telemetry = telemetry::init(&TelemetryOptions {
            service: "rail-node-agent",
            version: env!("CARGO_PKG_VERSION"),
            level: arguments.log.clone(),
            format: arguments.log_format,
            collector: otlp::from_env()?,
        })?;
        serve(arguments).await
    })
}

async fn serve(arguments: RunArguments) -> Result<(), AgentError> {
    let path = &arguments.data_dir;
    let unusable = |source| AgentError::DataDir { path: path.clone(), source };
    let data = DataDir::open(path).map_err(unusable)?;
    let lock = files::lock(&data.lock()).map_err(unusable)?;
    let _lock = lock.ok_or_else(|| AgentError::Locked(path.clone()))?;
    let program = std::env::current_exe()?;
    let beside = |name: &str| program.with_file_name(name);
    let engine = arguments.engine.clone().unwrap_or_else(|| beside("rail-engine"));
    let engine = std::path::absolute(engine)?;
    if !engine.is_file() {
        return Err(AgentError::NoEngine(engine));
    }
    let library = Some(beside("librail.so")).filter(|library| library.is_file());
    let ranks = ranks::arrange(&arguments.ranks, &data, &program, &engine)?;
    let registry = Metrics::new("rail-node-agent", env!("CARGO_PKG_VERSION"), SystemTime::now());
    let (faults, qos_faults) = channel(Faults::new());
    let host = inventory::host(&arguments.inventory);
    // A file that cannot be read should be seen at once, not when the controller asks.
    let discovery = host.discover()?;
    let qos_profile = arguments.qos_profile.as_deref().map(|path| profile(Some(path))).transpose()?;
    let nics = &discovery.inventory.nics;
    let kernel: Arc<dyn Kernel> = match arguments.qos_model {
        true => Arc::new(model(nics)),
        false => Arc::new(RealKernel::new()),
    };
    // Where it cannot be read, the keeper says so.
    let desired = desired::load(&desired::path(&arguments.data_dir)).ok().flatten();
    let data_classes = DataClasses::new(qos_profile.as_ref(), desired.as_ref());
    let qos = Keeping::start(&arguments.data_dir, kernel, nics, qos_profile, faults)?;
    let server = Server::read(Path::new("/"), arguments.inventory.inventory.is_none());
    let (cgroups, states) = say_cgroups(&arguments, &server, &data);
    let setup = Arc::new(Setup {
        disk: disk::Disk::start()?,
        isolation: isolation::found(ranks.features.iter().cloned().chain(states)),
        limiting: Limiting { cgroups, rank_groups: arguments.rank_groups, server },
        node: arguments.node.clone(),
        controller: arguments.controller.clone(),
        programs: Programs { engine, library, agent: program },
        log_bytes: arguments.log_bytes,
        ranks,
        counters: arguments
            .counters
            .clone()
            .or_else(|| arguments.inventory.inventory.is_none().then(|| PathBuf::from("/"))),
        authority: Sender::new(None),
        qos_faults,
        qos,
        data_classes,
        metrics: metrics::AgentMetrics::new(&registry),
        data,
    });
    if let Some(address) = arguments.metrics {
        let reported = setup.data.metrics();
        let served = metrics::serve(&registry, &setup.metrics, address, &reported);
        served.await.map_err(AgentError::Metrics)?;
    }
    let credentials = identity::obtain(&setup, &arguments).await?;
    let watch = match &arguments.inventory.inventory {
        Some(_) => check::Watch::file(host),
        None => check::Watch::machine(host),
    };
    runner::run(setup, watch, discovery, credentials).await;
    Ok(())
}

/// NICs in memory, of the inventory's names.
fn model(nics: &[Nic]) -> FakeKernel {
    let nic = |nic: &Nic| Modelled {
        netdev: nic.netdev.clone(),
        device: nic.device.clone(),
        pci: format!("0000:{:02x}:00.0", nic.rail + 0x10),
    };
    let nics: Vec<Modelled> = nics.iter().map(nic).collect();
    modelled(&nics, Style::Mlx5, "6.12.0")
}

/// Whether jobs get control groups, and what is said of the features that depend on them.
fn say_cgroups(arguments: &RunArguments, server: &Server, data: &DataDir) -> (bool, Vec<IsolationState>) {
    if arguments.no_cgroups {
        return (false, cgroup::unwanted());
    }
    let cpus = hierarchy::found().iter().map(|one| one.cpus.clone()).find(|cpus| !cpus.is_empty());
    let sample = arguments.rank_groups.sample(server, &cpus.unwrap_or_default());
    let Available { parents, states } = cgroup::available(&sample);
    for state in states.iter().filter(|state| !state.active) {
        tracing::warn!(feature = %state.feature, fix = state.fix, "jobs do not get it: {}", state.reason);
    }
    // What supervisors that were killed have left. Other agents' groups, beside ours, are not touched.
    for key in data.ended() {
        let name = cgroup::name(arguments.node.as_str(), key);
        parents.iter().for_each(|parent| cgroup::remove(&parent.join(&name)));
    }
    // For `railctl dev down`.
    if let Err(error) = files::write_json(&data.cgroups(), &parents, Durability::Process) {
        tracing::warn!(%error, "empty control groups may be left behind");
    }
    if let Some(first) = parents.first() {
        tracing::info!(parent = %first.display(), "jobs get control groups");
    }
    (!parents.is_empty(), states)
}
