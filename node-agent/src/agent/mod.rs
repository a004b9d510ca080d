//! The agent's process: one task that decides (`node-agent-core`), and tasks around it that listen and do.

mod check;
mod disk;
mod error;
mod health;
pub mod identity;
pub mod inventory;
pub(crate) mod isolation;
mod link;
mod metrics;
mod notifications;
mod prove;
pub mod ranks;
mod recover;
mod runner;
mod setup;
mod steps;
mod upload;
mod usage;
mod watch;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use node_agent_attempt::layout::DataDir;
use node_agent_netlink::{
    Kernel, RealKernel,
    fake::{FakeKernel, Style},
};
use node_agent_os::files::{self, Durability};
use node_agent_qos_apply::{
    Modelled,
    data_class::DataClasses,
    desired,
    document::profile,
    keep::{Faults, Keeping},
    modelled,
};
use node_agent_rank::cgroup::{self, Available, hierarchy, limits::Server};
use proto_model::{IsolationState, Nic};
use proto_rpc::{
    Metrics, otlp,
    telemetry::{self, TelemetryOptions},
};
use tokio::sync::watch::{Sender, channel};

pub use error::{AgentError, IdentityError};
pub(crate) use setup::{Limiting, Programs, Setup};

use crate::arguments::RunArguments;

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
