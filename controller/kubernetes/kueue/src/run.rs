//! The tasks: what Kubernetes and Railyard say becomes the world, workers go through what has changed, and the topology is kept.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::Client;
use proto_rpc::{Jitter, RetryPolicy};
use thiserror::Error;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    feeds,
    kubernetes::{Kind, Kubernetes},
    queue::Outcome,
    railyard::{Connect, Railyard},
    settings::{Settings, SettingsError},
    topology,
    work::Work,
    worker::{Shared, pass},
    world::World,
};

/// Pauses while Railyard cannot be watched, or the topology or a check not be written.
const AGAIN: RetryPolicy = RetryPolicy {
    attempts: u32::MAX,
    first: Duration::from_millis(200),
    longest: Duration::from_secs(30),
    within: Duration::MAX,
};

/// Why it has ended.
#[derive(Debug, Error)]
pub enum Error {
    /// A setting cannot be.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A task has ended that should not.
    #[error("a task for Kueue has ended before its time: {0}")]
    Task(String),
}

/// Serves Kueue until `stop` is cancelled. What is held stays held.
///
/// # Errors
/// [`Error`] if it cannot begin, or a task ends.
pub async fn run(
    kube: Client,
    railyard: Connect,
    settings: Settings,
    stop: CancellationToken,
) -> Result<(), Error> {
    settings.check()?;
    let workers = settings.workers;
    let shared = Shared {
        world: Arc::new(Mutex::new(World::default())),
        kubernetes: Kubernetes::new(kube),
        railyard: Railyard::new(railyard),
        settings: Arc::new(settings),
    };
    let work = Work::default();
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        tasks.spawn(worker(shared.clone(), work.clone()));
    }
    let (workloads, checks) =
        (shared.kubernetes.all(Kind::Workload), shared.kubernetes.all(Kind::AdmissionCheck));
    let (namespaces, nodes) = (shared.kubernetes.namespaces(), shared.kubernetes.nodes());
    tasks.spawn(feeds::keep(feeds::Workloads::default(), workloads, shared.clone(), work.clone()));
    let (inactive, said) = watch::channel(Vec::new());
    tasks.spawn(feeds::keep(feeds::Checks::new(inactive), checks, shared.clone(), work.clone()));
    tasks.spawn(feeds::activate(shared.clone(), said, AGAIN));
    tasks.spawn(feeds::keep(feeds::Namespaces::default(), namespaces, shared.clone(), work.clone()));
    tasks.spawn(feeds::keep(feeds::Nodes::default(), nodes, shared.clone(), work.clone()));
    tasks.spawn(feeds::holds(shared.clone(), work.clone(), AGAIN));
    tasks.spawn(compare(shared.clone(), work));
    tasks.spawn(keep_topology(shared));
    tokio::select! {
        ended = tasks.join_next() => {
            let why = ended.and_then(Result::err).map_or_else(|| "it returned".to_owned(), |error| error.to_string());
            Err(Error::Task(why))
        }
        () = stop.cancelled() => Ok(()),
    }
}

/// Takes one workload after the other, for ever.
async fn worker(shared: Shared, work: Work) {
    loop {
        let uid = work.next().await;
        match pass(&shared, &uid).await {
            Ok(outcome) => {
                work.done(&uid, outcome);
            }
            Err(error) => {
                let failures = work.done(&uid, Outcome::Failed);
                if failures.is_power_of_two() {
                    tracing::warn!(uid, %error, failures, "a workload could not be worked on; it is tried again");
                }
            }
        }
    }
}

/// Compares all again, every so often: what was missed, and what is held for workloads that are gone.
async fn compare(shared: Shared, work: Work) {
    loop {
        tokio::time::sleep(shared.settings.every).await;
        let all = shared.world().all();
        work.add(all);
    }
}

/// Keeps the Topology and the ResourceFlavor as the fabric is.
async fn keep_topology(shared: Shared) {
    let Some(name) = shared.settings.topology.clone() else { return std::future::pending().await };
    let (mut jitter, mut failures) = (Jitter::from_os(), 0_u32);
    loop {
        let pause = match topology_once(&shared, &name).await {
            Ok(written) => {
                if written {
                    tracing::info!(name, "Topology and ResourceFlavor written");
                }
                failures = 0;
                shared.settings.every
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                if failures.is_power_of_two() {
                    tracing::warn!(
                        name,
                        error,
                        failures,
                        "Topology and ResourceFlavor are not as the fabric is; trying again"
                    );
                }
                let ceiling = AGAIN.backoff_ceiling(failures);
                ceiling / 2 + jitter.up_to(ceiling / 2)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn topology_once(shared: &Shared, name: &str) -> Result<bool, String> {
    let fabric = shared.railyard.fabric().await.map_err(|error| error.to_string())?;
    let Some(levels) = topology::levels(&fabric) else { return Ok(false) };
    let wanted = topology::topology(name, &levels);
    let kubernetes = &shared.kubernetes;
    let written = kubernetes.keep(Kind::Topology, name, &wanted).await.map_err(|error| error.to_string())?;
    let wanted = topology::flavor(name, &shared.settings.flavor_label);
    let also =
        kubernetes.keep(Kind::ResourceFlavor, name, &wanted).await.map_err(|error| error.to_string())?;
    Ok(written || also)
}
