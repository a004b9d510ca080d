//! `run --store etcd`: one of several controllers. The loop is `controller_ha`'s; here is what this process gives it.

use std::{path::Path, sync::Arc, time::SystemTime};

use aws_lc_rs::rand;
use controller_api::routes;
use controller_ha::{Observer, Replica, ReplicaConfig};
use controller_leader::{Handle, LoopMetrics, follow_callers};
use data_encoding::HEXLOWER;
use proto_rpc::{Credentials, Listen, Metrics, files, tls::Trust};
use tokio_util::sync::CancellationToken;

use crate::{
    args::Run,
    backups::Backups,
    probes,
    process::{Opened, Served, Stop, VERSION, asked_to_stop, counts, host, options, purge_tokens},
    ready,
    store_args::OpenStore,
    succession,
};

/// The file that identifies this data folder: 32 hex digits.
const PLACE: &str = "place";

type Error = Box<dyn std::error::Error>;

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If the authority, the store or a socket cannot be used, another process serves from the data folder, or the leader loop breaks.
pub async fn serve(run: &Run) -> Result<(), Error> {
    let data_dir = &run.cluster.data_dir;
    let ca = succession::authority(run)?;
    let metrics = Metrics::new("rail-controller", VERSION, SystemTime::now());
    let stop = Stop::default();
    let OpenStore { store, stored, lock } = run.store.open(data_dir, &run.keys.guards()?).await?;
    stop.keep(lock);
    // Only now is it sure that no other process serves from this folder.
    ready::clear(data_dir)?;
    let mut options = options(run, &ca, stop.state.clone())?;
    follow_callers(&store, &options, stop.calls.clone()).await?;
    let opened = Opened::bind(run, &ca, &metrics, &options.revocations).await?;
    options.place = place(data_dir)?;
    options.endpoints = advertised(run, &opened.addresses()?);
    options.release = true;
    let credentials = Credentials::new(Trust::Slot(ca.trust().clone())).with_certificate(opened.slot.clone());
    // Stored state that cannot be read is reported before anything is served.
    let mut replica = Replica::begin(ReplicaConfig {
        store,
        options,
        authority: Arc::clone(&ca),
        credentials,
        routes: Box::new(routes(ca.clone(), counts(run, &metrics, &stop)?, VERSION)),
        loop_metrics: LoopMetrics::new(&metrics),
        leader_silence: run.leader_silence,
        version: VERSION,
    })
    .await?;
    let router = replica.router(stop.streams.clone()).await?;
    let leads = replica.leading();
    succession::spawn(run, &ca, leads.clone(), stop.calls.clone())?;
    let (signal, asked) = (asked_to_stop()?, CancellationToken::new());
    let scraped = metrics.router(probes::checks(&leads, Some(replica.leadership()), &stop.streams));
    let served = opened.serve(run, &ca, router, scraped, leads, &stop)?;
    let asks = tokio::spawn({
        let asked = asked.clone();
        async move {
            signal.await;
            asked.cancel();
        }
    });
    let backups = Backups::new(&run.backups, &ca, stored, &metrics);
    replica.run(&asked, &Process { served: &served, backups }).await?;
    served.goes();
    tracing::info!("ending: calls are let to their end, streams are closed");
    stop.streams.cancel();
    stop.calls.cancel();
    let cut = served.servers.await.unwrap_or(0);
    stop.state.cancel();
    // Nobody reads metrics of a process that is gone.
    let _ = served.scraper.await;
    asks.await?;
    tracing::info!(connections_cut = cut, "ended");
    Ok(())
}

/// What this process does when a term begins, and when it hands the lead over.
struct Process<'a> {
    served: &'a Served,
    backups: Option<Arc<Backups>>,
}

impl Observer for Process<'_> {
    fn term_began(&self, leader: &Handle, ending: &CancellationToken) {
        tokio::spawn(purge_tokens(leader.clone(), ending.clone()));
        if let Some(backups) = &self.backups {
            tokio::spawn(Arc::clone(backups).run(ending.clone()));
        }
    }

    fn term_ended(&self, _: &Handle) {}

    fn handing_over(&self, _: &Handle, _: usize) {
        self.served.goes();
    }
}

/// Identifies this data folder on this machine: a copied folder is another one.
///
/// # Errors
/// The file cannot be read or written, or holds something else.
fn place(data_dir: &Path) -> Result<Vec<u8>, Error> {
    let path = data_dir.join(PLACE);
    if !path.exists() {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).map_err(|_| "the system gave no random bytes")?;
        let text = HEXLOWER.encode(&bytes);
        files::write_public(&path, &format!("{text}\n"))?;
    }
    let text = files::read_text(&path)?;
    let text = text.trim();
    let whole = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !whole {
        let path = path.display();
        return Err(format!("{path} is not 32 hex digits; remove it, and it is made anew").into());
    }
    let folder = data_dir.canonicalize()?;
    Ok(format!("{text} {} {}", host().unwrap_or_default(), folder.display()).into_bytes())
}

/// The endpoints at which other controllers reach this one.
fn advertised(run: &Run, addresses: &[Listen]) -> Vec<String> {
    if !run.advertise.is_empty() {
        return run.advertise.iter().map(ToString::to_string).collect();
    }
    let name = host().unwrap_or_default();
    let reached = addresses.iter().filter_map(|listen| match listen {
        Listen::Tcp(address) if address.ip().is_unspecified() => {
            Some(format!("https://{}:{}", name, address.port()))
        }
        Listen::Tcp(address) => Some(format!("https://{address}")),
        Listen::Unix(_) => None,
    });
    reached.collect()
}
