//! `run`: store, loop, API and servers in one process, from the first byte to the last.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use controller_api::{Api, Context};
use controller_ha::LOOP_END;
use controller_leader::{Ended, Handle, LoopMetrics};
use proto_rpc::{Authority, Metrics};
use thiserror::Error;
use tokio::{
    sync::watch,
    task::{JoinError, JoinHandle},
};

use crate::{
    args::Run,
    backups::Backups,
    ha, init, probes,
    process::{Opened, Stop, VERSION, asked_to_stop, counts, options, purge_tokens},
    ready,
    store_args::Kind,
    succession,
};

/// Why the controller ended although nobody asked it to.
#[derive(Debug, Error)]
pub enum RunError {
    /// This controller led, and another one leads now.
    #[error("another controller leads; this one has stopped")]
    Deposed,
    /// The leader loop ended without being asked to: a defect of this program.
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
    if run.store.store == Kind::Etcd {
        return ha::serve(run).await;
    }
    let ca = succession::authority(run)?;
    let metrics = Metrics::new("rail-controller", VERSION, SystemTime::now());
    let stop = Stop::default();
    let (handle, mut running) = lead(run, &ca, &metrics, &stop).await?;
    let opened = Opened::bind(run, &ca, &metrics, handle.revoked()).await?;

    let counts = counts(run, &metrics, &stop)?;
    let guard = controller_api::guard(&handle, ca.cluster(), &counts);
    let ending = stop.streams.clone();
    let context = Context { handle: handle.clone(), ca: Arc::clone(&ca), guard, version: VERSION, ending };
    let api = Api::new(context, &counts).await?;
    let (leading, leads) = watch::channel(Some(handle.clone()));
    let asked = asked_to_stop()?;
    let scraped = metrics.router(probes::checks(&leads, None, &stop.streams));
    let served = opened.serve(run, &ca, api.router.clone(), scraped, leads.clone(), &stop)?;
    tokio::spawn(purge_tokens(handle.clone(), stop.calls.clone()));
    succession::spawn(run, &ca, leads, stop.calls.clone())?;
    tracing::info!(epoch = handle.epoch(), "this controller leads");

    let ended = tokio::select! {
        () = asked => None,
        ended = &mut running => Some(ended),
    };
    served.goes();
    tracing::info!("ending: calls are let to their end, streams are closed");
    drop(leading);
    api.set_serving(false).await;
    stop.streams.cancel();
    handle.end_streams();
    stop.calls.cancel();
    let cut = served.servers.await.unwrap_or(0);
    stop.state.cancel();
    let ended = match ended {
        Some(ended) => Some(ended),
        None => tokio::time::timeout(LOOP_END, running).await.ok(),
    };
    // Nobody reads metrics of a process that is gone.
    let _ = served.scraper.await;
    tracing::info!(connections_cut = cut, "ended");
    verdict(ended).map_err(Into::into)
}

/// Opens the store, takes the lead, and makes what a new cluster needs.
async fn lead(
    run: &Run,
    ca: &Arc<Authority>,
    metrics: &Metrics,
    stop: &Stop,
) -> Result<(Handle, JoinHandle<Ended>), Box<dyn std::error::Error>> {
    let opened = run.store.open(&run.cluster.data_dir, &run.keys.guards()?).await?;
    stop.keep(opened.lock);
    // Only now is it sure that no other process serves from this folder.
    ready::clear(&run.cluster.data_dir)?;
    let options = options(run, ca, stop.state.clone())?;
    let (handle, running) =
        controller_leader::start(opened.store, options, LoopMetrics::new(metrics)).await?;
    controller_leader::bootstrap(&handle, VERSION).await?;
    if let Some(backups) = Backups::new(&run.backups, ca, opened.stored, metrics) {
        tokio::spawn(backups.run(stop.calls.clone()));
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
