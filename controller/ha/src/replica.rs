//! One of several controllers that share a store. It follows whoever leads and hands calls on to that one, and it leads
//! itself when the leader is gone. When it is asked to end while it leads, it waits until a standby has taken the lead.
//!
//! The program and the simulator of the whole stack both run this loop; what differs between them is given in [`ReplicaConfig`]
//! and reported to an [`Observer`].

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::Router;
use controller_leader::{
    Ended, Handle, Leader, LoopMetrics, Options, SharedStore, Standby, StartError, bootstrap,
    bootstrap_later, who_leads, withdraw,
};
use proto_rpc::{Authority, Credentials, Endpoint};
use thiserror::Error;
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, JoinHandle},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    door,
    heartbeats::Heartbeats,
    leadership::{Leadership, LeadershipWatch},
    monitor::{LeaderMonitor, MonitorConfig, leader_client},
};

/// Longest wait for the leader loop to end once it is asked to.
pub const LOOP_END: Duration = Duration::from_secs(10);
/// Capacity of the channel that brings evidence that the leader is gone; evidence beyond it is repeated later.
const EVIDENCE: usize = 4;
/// Longest wait for calls in progress before the lead is released.
const CALLS_END: Duration = Duration::from_secs(2);
/// How long a request to the store that was sent before this controller was asked to end may take to arrive.
const LATE_CLAIM: Duration = Duration::from_millis(100);
/// Longest wait for the store when a lead that was taken and never used is released.
const WITHDRAWAL: Duration = Duration::from_secs(2);
/// Longest wait for the next leader if standbys follow, and how often the store is asked who that is.
const SUCCESSOR: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_millis(10);

/// Why a replica cannot go on.
#[derive(Debug, Error)]
pub enum HaError {
    /// What is stored cannot be read, or is not sound.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The API cannot be built.
    #[error(transparent)]
    Api(#[from] Box<dyn std::error::Error + Send + Sync>),
    /// The task of the leader loop panicked or was cancelled.
    #[error("the leader loop broke: {0}")]
    Broken(#[from] JoinError),
    /// A state that the code excludes.
    #[error("{0}: a defect")]
    Defect(&'static str),
}

/// Makes the routes over the loop of a term, or over one that only reads the store; what is cancelled closes their long answers.
pub type MakeRoutes = dyn Fn(Handle, CancellationToken) -> Pin<Box<dyn Future<Output = Result<Router, RoutesError>> + Send>>
    + Send
    + Sync;
type RoutesError = Box<dyn std::error::Error + Send + Sync>;

/// What a replica is built from.
pub struct ReplicaConfig {
    /// The store that all controllers of the cluster share.
    pub store: SharedStore,
    /// Options of the leader loop. `options.holder` names this controller to people, `options.stop` is cancelled when the
    /// replica releases its lead in order to end.
    pub options: Options,
    /// The cluster's certificate authority.
    pub authority: Arc<Authority>,
    /// A controller's certificate and whom it trusts: used for connections to other controllers.
    pub credentials: Credentials,
    /// What answers calls: `controller_api::routes`.
    pub routes: Box<MakeRoutes>,
    /// Metrics of the leader loop, shared by all terms.
    pub loop_metrics: LoopMetrics,
    /// A leader that is silent for longer is taken for gone.
    pub leader_silence: Duration,
    /// The release, as the API reports it.
    pub version: &'static str,
}

/// Is notified of this controller's terms as leader. All methods return at once.
pub trait Observer: Send + Sync {
    /// A term begins: calls are about to be answered here. `ending` is cancelled when the term is over.
    fn term_began(&self, leader: &Handle, ending: &CancellationToken);
    /// A term is over: another controller leads, or this one has released the lead.
    fn term_ended(&self, leader: &Handle);
    /// This controller was asked to end and is about to release the lead; `followers` standbys follow it.
    fn handing_over(&self, leader: &Handle, followers: usize);
}

/// One of several controllers.
pub struct Replica {
    shared: Shared,
    monitor: LeaderMonitor,
    /// Begun before anything is served; taken by the first iteration of [`Replica::run`].
    standby: Option<Standby>,
}

/// What all terms of the process share.
struct Shared {
    config: ReplicaConfig,
    leadership: LeadershipWatch,
    leading: watch::Sender<Option<Handle>>,
    heartbeats: Heartbeats,
    left: CancellationToken,
}

/// One term as leader.
struct LeadershipTerm {
    handle: Handle,
    running: JoinHandle<Ended>,
    streams: CancellationToken,
}

impl Replica {
    /// Reads everything that is stored.
    ///
    /// # Errors
    /// [`HaError::Start`]: what is stored cannot be read, so that nothing is served.
    pub async fn begin(config: ReplicaConfig) -> Result<Self, HaError> {
        let (leading, is_leading) = watch::channel(None);
        let left = CancellationToken::new();
        let monitor = LeaderMonitor::new(MonitorConfig {
            silence: config.leader_silence,
            holder: config.options.holder.clone(),
            credentials: config.credentials.clone(),
            store: Arc::clone(&config.store),
        });
        let heartbeats = Heartbeats::new(is_leading, left.clone());
        let shared = Shared { config, leadership: LeadershipWatch::new(), leading, heartbeats, left };
        let standby = Some(shared.standby().await?);
        Ok(Self { shared, monitor, standby })
    }

    /// The router of this controller, whether it leads or not. `ending` closes long answers to calls that only read the store.
    ///
    /// # Errors
    /// [`HaError::Api`].
    pub async fn router(&self, ending: CancellationToken) -> Result<Router, HaError> {
        let Shared { config, leadership, heartbeats, .. } = &self.shared;
        let handle = Handle::without_loop(Arc::clone(&config.store), &config.options, &config.loop_metrics);
        let reads = (config.routes)(handle, ending).await?;
        Ok(door::router(leadership.clone(), config.authority.cluster(), heartbeats.clone(), Some(reads)))
    }

    /// The way into the leader loop while this controller leads, else `None`.
    #[must_use]
    pub fn leading(&self) -> watch::Receiver<Option<Handle>> {
        self.shared.leading.subscribe()
    }

    /// Who answers the calls that this controller receives, now and whenever it changes.
    #[must_use]
    pub fn leadership(&self) -> &LeadershipWatch {
        &self.shared.leadership
    }

    /// Follows and leads until `asked` is cancelled. When it returns, calls that wait are handed on to the next leader, if
    /// that is known, for as long as this replica is served.
    ///
    /// # Errors
    /// All of [`HaError`]. Failures of the store are waited out.
    pub async fn run(&mut self, asked: &CancellationToken, observer: &impl Observer) -> Result<(), HaError> {
        let Self { shared, monitor, standby } = self;
        while !asked.is_cancelled() {
            let next = match standby.take() {
                Some(standby) => standby,
                None => shared.standby().await?,
            };
            let Some(mut term) = shared.follow(next, monitor, asked, observer).await? else { break };
            tokio::select! {
                biased;
                ended = &mut term.running => shared.deposed(&term, ended?, observer)?,
                () = asked.cancelled() => shared.hand_over(term, observer).await,
            }
        }
        Ok(())
    }
}

impl Shared {
    async fn standby(&self) -> Result<Standby, StartError> {
        let (store, options) = (Arc::clone(&self.config.store), self.config.options.clone());
        Standby::begin(store, options, self.config.loop_metrics.clone()).await
    }

    /// Removes a leader key that names this controller: other controllers would wait for evidence that it is gone.
    async fn withdraw(&self) {
        // A claim that was sent before this controller was asked to end may still arrive.
        tokio::time::sleep(LATE_CLAIM).await;
        let removed = withdraw(self.config.store.as_ref(), &self.config.options.place);
        match tokio::time::timeout(WITHDRAWAL, removed).await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => tracing::info!("the lead, taken and never used, is released"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the leader key could not be removed; others wait for evidence");
            }
            Err(_) => tracing::warn!("the store does not answer; others wait for evidence"),
        }
    }

    /// Follows until this controller leads; `None`: it was asked to end.
    async fn follow(
        &self,
        standby: Standby,
        monitor: &mut LeaderMonitor,
        asked: &CancellationToken,
        observer: &impl Observer,
    ) -> Result<Option<LeadershipTerm>, HaError> {
        let (seen, sees) = watch::channel(None);
        let (gone, mut evidence) = mpsc::channel(EVIDENCE);
        let (handle, running) = tokio::select! {
            biased;
            led = standby.lead(&seen, &mut evidence) => led?,
            () = monitor.run(&self.leadership, sees, gone) => {
                return Err(HaError::Defect("nobody reports who leads"));
            }
            () = asked.cancelled() => {
                self.withdraw().await;
                return Ok(None);
            }
        };
        monitor.led();
        let version = self.config.version;
        if let Err(error) = bootstrap(&handle, version).await {
            // A store without space: what there is is served all the same.
            tracing::error!(%error, "what a new cluster needs could not be made; it is tried again");
            tokio::spawn(bootstrap_later(handle.clone(), version));
        }
        let streams = CancellationToken::new();
        let router = (self.config.routes)(handle.clone(), streams.clone()).await?;
        observer.term_began(&handle, &streams);
        self.leading.send_replace(Some(handle.clone()));
        self.leadership.set(Leadership::local(router));
        Ok(Some(LeadershipTerm { handle, running, streams }))
    }

    /// Another controller leads, or the loop broke.
    fn deposed(&self, term: &LeadershipTerm, ended: Ended, observer: &impl Observer) -> Result<(), HaError> {
        self.leadership.set(Leadership::Unknown);
        self.leading.send_replace(None);
        term.end(observer);
        match ended {
            Ended::Deposed => {
                tracing::warn!(epoch = term.handle.epoch(), "this controller leads no more; it follows");
                Ok(())
            }
            Ended::Asked => Err(HaError::Defect("the leader loop ended by itself")),
        }
    }

    /// Another controller leads before this one ends. No call is refused meanwhile: it waits for the next leader.
    async fn hand_over(&self, mut term: LeadershipTerm, observer: &impl Observer) {
        let (epoch, followers) = (term.handle.epoch(), self.heartbeats.followers());
        tracing::info!(epoch, followers, "releasing the lead");
        observer.handing_over(&term.handle, followers);
        self.leadership.drain(CALLS_END).await;
        self.config.options.stop.cancel();
        if tokio::time::timeout(LOOP_END, &mut term.running).await.is_err() {
            tracing::error!("the leader loop did not end in time");
        }
        self.left.cancel();
        term.end(observer);
        let until = Instant::now() + SUCCESSOR;
        while followers > 0 && Instant::now() < until {
            match who_leads(self.config.store.as_ref()).await {
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

    /// Calls that wait, and those that come until the end, go to the next leader.
    fn hand_on(&self, leader: &Leader) {
        tracing::info!(epoch = leader.epoch, holder = leader.holder, "another controller leads");
        let endpoints: Vec<Endpoint> = leader.endpoints.iter().filter_map(|text| text.parse().ok()).collect();
        if let Some(client) = leader_client(&endpoints, &self.config.credentials, SUCCESSOR) {
            self.leadership.set(Leadership::Remote(leader.epoch, client));
        }
    }
}

impl LeadershipTerm {
    /// Closes every stream that the term has opened.
    fn end(&self, observer: &impl Observer) {
        self.streams.cancel();
        self.handle.end_streams();
        observer.term_ended(&self.handle);
    }
}
