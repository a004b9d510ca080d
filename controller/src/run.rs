//! `run`: store, loop, API and servers in one process, from the first byte to the last.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use controller_api::{Api, Context};
use controller_reconciler::{Ended, Handle, LoopMetrics, Options};
use controller_store::Lock;
use proto_rpc::{
    Listen, Metrics,
    server::{Limits, Server, ServerMetrics, ServerTls},
};
use thiserror::Error;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::{JoinError, JoinHandle},
};
use tokio_util::sync::CancellationToken;

use crate::{args::Run, certificates, init, ready};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Time for calls to end.
const DRAIN: Duration = Duration::from_secs(5);
/// Time for the loop to end after the servers.
const LOOP_END: Duration = Duration::from_secs(10);
/// How often expired tokens are removed.
const TOKEN_PURGE: Duration = Duration::from_secs(3600);

/// Why the controller ended although nobody asked it to.
#[derive(Debug, Error)]
pub enum RunError {
    /// Another one leads.
    #[error("another controller leads; this one has stopped")]
    Deposed,
    /// A defect.
    #[error("the leader loop broke: {0}")]
    Broken(String),
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Whatever kept it from starting or made it end.
pub fn run(run: &Run) -> Result<(), Box<dyn std::error::Error>> {
    let _telemetry = init::telemetry(&run.logs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(run));
    // Handlers that still hang on something must not hold the process.
    runtime.shutdown_timeout(Duration::from_secs(2));
    result
}

async fn serve(run: &Run) -> Result<(), Box<dyn std::error::Error>> {
    let data_dir = &run.cluster.data_dir;
    init::folder(data_dir)?;
    let ca = Arc::new(init::authority(&run.cluster)?);
    let metrics = Metrics::new("rail-controller", VERSION, SystemTime::now());
    let stop = Stop::default();
    let (handle, mut running) = lead(run, &metrics, &stop).await?;

    let mut listen = run.listen.clone();
    listen.extend(run.listen_unix.clone().map(Listen::Unix));
    let names = certificates::names(&listen, &run.server_name);
    let slot = certificates::first(&ca, &names)?;
    let tls = ServerTls {
        ca_pem: ca.certificate_pem().to_owned(),
        cluster: ca.cluster().to_owned(),
        slot: slot.clone(),
    };
    let limits = Limits { drain: DRAIN, ..Limits::default() };
    let server_metrics = ServerMetrics::new(&metrics);
    let server = Server::bind(&listen, &tls, limits, server_metrics.clone()).await?;
    let plain = Server::bind_plain(run.metrics, limits, server_metrics).await?;
    let (serving, scraped) = (server.addresses()?, plain.addresses()?);

    let guard = controller_api::guard(&handle, ca.cluster(), &metrics);
    let ending = stop.streams.clone();
    let context = Context { handle: handle.clone(), ca: Arc::clone(&ca), guard, version: VERSION, ending };
    let api = Api::new(context, &metrics).await?;
    let servers = tokio::spawn(server.serve(api.router.clone(), stop.calls.clone()));
    let scraper = tokio::spawn(plain.serve(metrics.router(), stop.state.clone()));
    tokio::spawn(certificates::renew(Arc::clone(&ca), names, slot, stop.calls.clone()));
    tokio::spawn(purge_tokens(handle.clone(), stop.calls.clone()));
    let announced = ready::announce(data_dir, &serving, &scraped, ca.cluster(), &ca.pin().to_string())?;
    let addresses: Vec<String> = serving.iter().map(ToString::to_string).collect();
    tracing::info!(addresses = addresses.join(", "), epoch = handle.epoch(), version = VERSION, "serving");

    let ended = tokio::select! {
        asked = asked_to_stop() => { asked?; None }
        ended = &mut running => Some(ended),
    };
    drop(announced);
    tracing::info!("ending: calls are let to their end, streams are closed");
    api.set_serving(false).await;
    stop.streams.cancel();
    handle.end_streams();
    stop.calls.cancel();
    let cut = servers.await.unwrap_or(0);
    stop.state.cancel();
    let ended = match ended {
        Some(ended) => Some(ended),
        None => tokio::time::timeout(LOOP_END, running).await.ok(),
    };
    // Nobody reads metrics of a process that is gone.
    let _ = scraper.await;
    tracing::info!(connections_cut = cut, "ended");
    verdict(ended).map_err(Into::into)
}

/// Opens the store, takes the lead, and makes what a new cluster needs.
async fn lead(
    run: &Run,
    metrics: &Metrics,
    stop: &Stop,
) -> Result<(Handle, JoinHandle<Ended>), Box<dyn std::error::Error>> {
    let (store, lock) = run.store.open(&run.cluster.data_dir).await?;
    stop.keep(lock);
    // Only now is it sure that no other process serves from this folder.
    ready::clear(&run.cluster.data_dir)?;
    let mut options = Options::new(holder(), stop.state.clone());
    options.lead_check = run.lead_check;
    options.config.heartbeat_interval = run.heartbeat_interval;
    options.config.heartbeat_limit = run.heartbeat_limit;
    options.config.resize_after = run.resize_after.0;
    options.config.head_start = run.head_start.0.unwrap_or_default();
    let (handle, running) = controller_reconciler::start(store, options, LoopMetrics::new(metrics)).await?;
    if controller_reconciler::bootstrap(&handle, VERSION).await? {
        tracing::info!(
            tenant = controller_reconciler::DEFAULT_TENANT,
            "new cluster: the default tenant was made"
        );
    }
    Ok((handle, running))
}

fn verdict(ended: Option<Result<Ended, JoinError>>) -> Result<(), RunError> {
    match ended {
        Some(Ok(Ended::Asked)) => Ok(()),
        Some(Ok(Ended::Deposed)) => Err(RunError::Deposed),
        Some(Err(error)) => Err(RunError::Broken(error.to_string())),
        None => Err(RunError::Broken("it did not end in time".to_owned())),
    }
}

/// What ends when: long streams first, then calls, then the state under them.
#[derive(Default)]
struct Stop {
    streams: CancellationToken,
    calls: CancellationToken,
    state: CancellationToken,
    /// Held to the end of the process.
    lock: std::sync::Mutex<Option<Lock>>,
}

impl Stop {
    fn keep(&self, lock: Option<Lock>) {
        *self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = lock;
    }
}

async fn asked_to_stop() -> std::io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

async fn purge_tokens(handle: Handle, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TOKEN_PURGE) => {}
        }
        match handle.drop_expired_tokens().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "expired API tokens were removed"),
            Err(error) => tracing::warn!(%error, "expired API tokens could not be removed"),
        }
    }
}

/// Who leads, for people who look into the store.
fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}
