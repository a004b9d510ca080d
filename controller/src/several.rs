//! `run --store etcd`: one of several controllers. It follows whoever leads, hands calls on to it, and leads itself when that
//! one is gone; and when it is to end, another one leads before it does.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use aws_lc_rs::rand;
use axum::Router;
use controller_api::{Api, ApiMetrics, Context};
use controller_ha::{Beats, Contact, Contacts, Stand, Stands, contacts, stands};
use controller_reconciler::{
    Ended, Handle, LoopMetrics, Options, SharedStore, Standby, bootstrap_later, follow_callers, who_leads,
    withdraw,
};
use proto_rpc::{Authority, Credentials, Endpoint, Listen, Metrics, files, tls::Trust};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    args::Run,
    probes, ready,
    run::{LOOP_END, Opened, Stop, VERSION, asked_to_stop, bootstrap, holder, host, options, purge_tokens},
    succession,
};

/// 32 hex digits: which data folder this is.
const PLACE: &str = "place";
/// Evidence that nobody has listened to yet.
const EVIDENCE: usize = 4;
/// Time for calls at work to end before the lead is let go.
const REST: Duration = Duration::from_secs(2);
/// A question to the store that was on its way when this controller was asked to end.
const LATE_CLAIM: Duration = Duration::from_millis(100);
/// Longest wait for the store when a lead that was never used is let go.
const WITHDRAWAL: Duration = Duration::from_secs(2);
/// Longest wait for the next leader where standbys were there, and how often the store is asked.
const SUCCESSOR: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_millis(10);

type Error = Box<dyn std::error::Error>;

/// What all lives of the process as leader or standby share.
struct Several {
    store: SharedStore,
    options: Options,
    ca: Arc<Authority>,
    credentials: Credentials,
    counts: ApiMetrics,
    loop_metrics: LoopMetrics,
    stands: Stands,
    leading: watch::Sender<Option<Handle>>,
    beats: Beats,
}

/// One time of leading.
struct Reign {
    handle: Handle,
    running: JoinHandle<Ended>,
    streams: CancellationToken,
}

/// Serves until SIGTERM or SIGINT.
pub async fn serve(run: &Run) -> Result<(), Error> {
    let data_dir = &run.cluster.data_dir;
    let ca = succession::authority(run)?;
    let metrics = Metrics::new("rail-controller", VERSION, SystemTime::now());
    let stop = Stop::default();
    let (store, lock) = run.store.open(data_dir, &run.keys.guards()?).await?;
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
    let (leading, is_leading) = watch::channel(None);
    let left = CancellationToken::new();
    let several = Several {
        store,
        options,
        ca: Arc::clone(&ca),
        credentials,
        counts: ApiMetrics::new(&metrics, run.limits.fair()),
        loop_metrics: LoopMetrics::new(&metrics),
        stands: stands(),
        leading,
        beats: Beats::new(is_leading, left.clone()),
    };
    let mut contacts = several.contacts(run.leader_silence);
    // What cannot be read is told before anything is served.
    let mut standby = Some(several.standby().await?);
    let reads = several.reads(stop.streams.clone()).await?;
    let router =
        controller_ha::router(several.stands.clone(), ca.cluster(), several.beats.clone(), Some(reads));
    let leads = several.leading.subscribe();
    succession::spawn(run, &ca, leads.clone(), stop.calls.clone())?;
    let (told, asked) = (asked_to_stop()?, CancellationToken::new());
    let scraped = metrics.router(probes::checks(&leads, Some(&several.stands), &stop.streams));
    let served = opened.serve(run, &ca, router, scraped, leads, &stop)?;
    let asks = tokio::spawn({
        let asked = asked.clone();
        async move {
            told.await;
            asked.cancel();
        }
    });

    while !asked.is_cancelled() {
        let next = match standby.take() {
            Some(standby) => standby,
            None => several.standby().await?,
        };
        let Some(mut reign) = several.follow(next, &mut contacts, &asked).await? else { break };
        tokio::select! {
            ended = &mut reign.running => several.deposed(&reign, ended?)?,
            () = asked.cancelled() => {
                served.goes();
                several.hand_over(reign, &stop, &left).await;
            }
        }
    }
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

impl Several {
    fn contacts(&self, silence: Duration) -> Contacts {
        contacts(Contact {
            silence,
            holder: holder(),
            credentials: self.credentials.clone(),
            store: Arc::clone(&self.store),
        })
    }

    async fn standby(&self) -> Result<Standby, Error> {
        let (store, options) = (Arc::clone(&self.store), self.options.clone());
        Ok(Standby::begin(store, options, self.loop_metrics.clone()).await?)
    }

    /// No leader key is left behind that names this controller: others would wait for evidence that it is gone.
    async fn withdraw(&self) {
        // What was asked before it was told to end may still come.
        tokio::time::sleep(LATE_CLAIM).await;
        let removed = withdraw(self.store.as_ref(), &self.options.place);
        match tokio::time::timeout(WITHDRAWAL, removed).await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => tracing::info!("the lead, taken and not used any more, is let go"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the lead could not be looked after; others wait for evidence")
            }
            Err(_) => tracing::warn!("the store does not answer; others wait for evidence"),
        }
    }

    /// What this controller answers while it does not lead.
    async fn reads(&self, ending: CancellationToken) -> Result<Router, Error> {
        let handle = Handle::without_loop(Arc::clone(&self.store), &self.options, &self.loop_metrics);
        let guard = controller_api::guard(&handle, self.ca.cluster(), &self.counts);
        let context = Context { handle, ca: Arc::clone(&self.ca), guard, version: VERSION, ending };
        Ok(Api::new(context, &self.counts).await?.router)
    }

    /// Follows until this controller leads; `None`: it was asked to end.
    async fn follow(
        &self,
        standby: Standby,
        contacts: &mut Contacts,
        asked: &CancellationToken,
    ) -> Result<Option<Reign>, Error> {
        let (seen, sees) = watch::channel(None);
        let (gone, mut evidence) = mpsc::channel(EVIDENCE);
        let (handle, running) = tokio::select! {
            led = standby.lead(&seen, &mut evidence) => led?,
            () = contacts.run(&self.stands, sees, gone) => return Err("nobody tells who leads: a defect".into()),
            () = asked.cancelled() => {
                self.withdraw().await;
                return Ok(None);
            }
        };
        contacts.led();
        if let Err(error) = bootstrap(&handle).await {
            // A store without space: what there is is served all the same.
            tracing::error!(%error, "what a new cluster needs could not be made; it is tried again");
            tokio::spawn(bootstrap_later(handle.clone(), VERSION));
        }
        let streams = CancellationToken::new();
        let guard = controller_api::guard(&handle, self.ca.cluster(), &self.counts);
        let (ca, ending) = (Arc::clone(&self.ca), streams.clone());
        let context = Context { handle: handle.clone(), ca, guard, version: VERSION, ending };
        let api = Api::new(context, &self.counts).await?;
        tokio::spawn(purge_tokens(handle.clone(), streams.clone()));
        self.leading.send_replace(Some(handle.clone()));
        self.stands.take(Stand::here(api.router));
        Ok(Some(Reign { handle, running, streams }))
    }

    /// Another controller leads, or the loop broke.
    fn deposed(&self, reign: &Reign, ended: Ended) -> Result<(), Error> {
        self.stands.take(Stand::Open);
        self.leading.send_replace(None);
        reign.streams.cancel();
        reign.handle.end_streams();
        match ended {
            Ended::Deposed => {
                tracing::warn!(epoch = reign.handle.epoch(), "this controller leads no more; it follows");
                Ok(())
            }
            Ended::Asked => Err("the leader loop ended by itself: a defect".into()),
        }
    }

    /// Another controller leads before this one ends. No call is refused meanwhile: it waits for the next leader.
    async fn hand_over(&self, reign: Reign, stop: &Stop, left: &CancellationToken) {
        let Reign { handle, running, streams } = reign;
        let (epoch, followers) = (handle.epoch(), self.beats.followers());
        tracing::info!(epoch, followers, "letting the lead go");
        self.stands.rest(REST).await;
        stop.state.cancel();
        if tokio::time::timeout(LOOP_END, running).await.is_err() {
            tracing::error!("the leader loop did not end in time");
        }
        left.cancel();
        streams.cancel();
        handle.end_streams();
        let until = Instant::now() + SUCCESSOR;
        while followers > 0 && Instant::now() < until {
            match who_leads(self.store.as_ref()).await {
                Ok(Some(leader)) if leader.epoch != epoch => return self.hand_on(&leader),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "the store does not say who leads next"),
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        if followers > 0 {
            tracing::warn!("no standby has taken the lead");
        }
    }

    /// What waits, and what comes until the end, goes to the next leader.
    fn hand_on(&self, leader: &controller_reconciler::Leader) {
        tracing::info!(epoch = leader.epoch, holder = leader.holder, "another controller leads");
        let endpoints: Vec<Endpoint> = leader.endpoints.iter().filter_map(|text| text.parse().ok()).collect();
        if let Some(client) = controller_ha::way(&endpoints, &self.credentials, SUCCESSOR) {
            self.stands.take(Stand::There(leader.epoch, client));
        }
    }
}

/// Which data folder this is, on which machine: a folder that was copied is another one.
fn place(data_dir: &Path) -> Result<Vec<u8>, Error> {
    let path = data_dir.join(PLACE);
    if !path.exists() {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).map_err(|_| "the system gave no random bytes")?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
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

/// Where others reach this controller.
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
