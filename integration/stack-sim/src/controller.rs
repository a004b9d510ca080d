//! One controller: the shipped loop of `controller_ha` over the etcd store, as `rail-controller --store etcd` runs it. Only
//! its sockets, its wall clock and its random bytes are of the simulation.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use controller_api::{ApiMetrics, fair::FairLimits, routes};
use controller_core::Event;
use controller_ha::{Observer, Replica, ReplicaConfig};
use controller_leader::{Handle, LoopMetrics, Options, Refusal, SharedStore, keys};
use controller_store::{EtcdOptions, EtcdStore};
use proto_audit::Actor;
use proto_model::NodeName;
use proto_rpc::{Authority, Ca, Credentials, Identity, Metrics, Standing};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{etcd::PREFIX, net, plant::Bug, reader::Reader, record::Record, source::Seeded};

/// The port of every controller.
pub const PORT: u16 = 7443;
/// The port of every member of etcd.
pub const ETCD_PORT: u16 = 2379;
/// The name of the cluster that every run simulates.
pub const CLUSTER: &str = "sim";
/// A leader without a heartbeat for longer is considered gone.
const SILENCE: Duration = Duration::from_millis(400);
/// How long a controller that has released the lead serves on, so that calls that wait reach the next leader.
const DRAIN: Duration = Duration::from_millis(200);
/// Pause before a server that could not join tries again.
const AGAIN: Duration = Duration::from_millis(200);

type Error = Box<dyn std::error::Error>;

/// All controllers of a run, by host.
#[derive(Clone, Default)]
pub struct Posts(Arc<Mutex<BTreeMap<String, Post>>>);

/// One controller, as the run knows it.
#[derive(Clone, Default)]
pub struct Post {
    /// How often its process was started.
    pub lives: u64,
    /// Cancelled to ask it to end, as SIGTERM does.
    pub asked: CancellationToken,
    /// Whether and how its process has ended.
    pub end: End,
    /// The way into its leader loop while it leads.
    pub leading: Option<Handle>,
    /// A reader of its store, once that is open.
    pub reader: Option<Reader>,
    /// Number of terms that it began.
    pub terms: u64,
}

impl Posts {
    /// Calls `check` with one controller, which may change it.
    pub fn with<T>(&self, name: &str, check: impl FnOnce(&mut Post) -> T) -> T {
        let mut posts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        check(posts.entry(name.to_owned()).or_default())
    }

    /// Number of terms of all controllers.
    #[must_use]
    pub fn terms(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().map(|post| post.terms).sum()
    }

    /// Controllers that are in a term, by their own account.
    #[must_use]
    pub fn leaders(&self) -> Vec<(String, Handle)> {
        let posts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        posts.iter().filter_map(|(name, post)| Some((name.clone(), post.leading.clone()?))).collect()
    }
}

/// Whether and how a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    /// It has not ended: it runs.
    #[default]
    Not,
    /// It has ended because it was asked to.
    InOrder,
    /// It could not go on.
    Failed,
}

/// What every life of a controller gets from the run.
#[derive(Clone)]
pub struct Setting {
    /// Name of its host.
    pub name: String,
    /// Members of etcd, the one that it asks first before the others.
    pub members: Vec<String>,
    /// Seed of its random bytes; each life derives its own.
    pub seed: u64,
    /// How far its wall clock is ahead of the simulation.
    pub ahead: Duration,
    /// Where it registers itself for the run.
    pub posts: Posts,
    /// The record of all events of the run.
    pub record: Record,
    /// The bug that is planted in this run, if any.
    pub bug: Option<Bug>,
}

/// The identity of the calls from a host.
fn identify(host: &str) -> Identity {
    if host.starts_with('c') {
        return Identity::Controller;
    }
    // A user's credentials name the uid of its tenant, which each run makes anew; who names no tenant means the default one.
    Identity::admin(host).unwrap_or(Identity::Anonymous)
}

/// One authority for all runs: nothing that it does is part of them.
fn authority() -> Result<Arc<Authority>, Error> {
    static CA: OnceLock<Arc<Authority>> = OnceLock::new();
    if CA.get().is_none() {
        let ca = Ca::create(CLUSTER, SystemTime::now(), Duration::from_secs(10 * 365 * 86400))?;
        let made = Arc::new(Authority::new(Standing::alone(ca))?);
        // Another thread's is as good.
        let _ = CA.set(made);
    }
    CA.get().cloned().ok_or_else(|| "no authority".into())
}

/// A server that has joined: jobs wait for it.
async fn join(handle: &Handle) -> Result<(), Refusal> {
    let Ok(node) = NodeName::new("n0") else { return Ok(()) };
    let found = handle.store().get(keys::node(&node)).await.map_err(|error| Refusal::read(&error))?;
    if found.is_none() {
        let actor = Arc::new(Actor { who: "admin/root".into(), rpc: "Join".into(), ..Actor::default() });
        let hash = [7; 32];
        let token = Event::CreateToken { node: node.clone(), hash, lifetime: None };
        handle.apply(&actor, token).await?;
        handle.apply(&actor, Event::Join { node, hash, csr: hash }).await?;
    }
    Ok(())
}

/// As an administrator does, who tries again where it did not work, until the term is over.
async fn join_in_time(handle: Handle) {
    while let Err(error) = join(&handle).await
        && !matches!(error, Refusal::Stopped { .. })
    {
        tokio::time::sleep(AGAIN).await;
    }
}

/// One life of a controller: ends only by being killed.
///
/// # Errors
/// None: that a process cannot go on is reported by [`End::Failed`].
pub async fn live(setting: Setting) -> turmoil::Result {
    let (asked, life) = setting.posts.with(&setting.name, |post| {
        let (lives, terms) = (post.lives + 1, post.terms);
        *post = Post { lives, terms, ..Post::default() };
        (post.asked.clone(), lives)
    });
    setting.record.report(&format!("{} starts, life {life}", setting.name));
    let source = Arc::new(Seeded::new(setting.seed ^ (life << 32), setting.ahead));
    match serve(&setting, source, &asked).await {
        Ok(()) => {
            setting.record.report(&format!("{} has ended", setting.name));
            setting.posts.with(&setting.name, |post| post.end = End::InOrder);
        }
        Err(error) => {
            setting.record.report(&format!("{} gives up: {error}", setting.name));
            setting.posts.with(&setting.name, |post| post.end = End::Failed);
        }
    }
    std::future::pending().await
}

fn etcd_options(setting: &Setting, source: Arc<Seeded>) -> Result<EtcdOptions, Error> {
    let address = |host: &String| format!("http://{host}:{ETCD_PORT}").parse();
    let mut options = EtcdOptions::new(setting.members.iter().map(address).collect::<Result<_, _>>()?);
    options.prefix = PREFIX.to_owned();
    options.plaintext = true;
    options.deadline = Duration::from_millis(600);
    options.patience = Duration::from_millis(1500);
    let long = Duration::from_secs(3600);
    let keepalive = (Duration::from_millis(400), Duration::from_millis(400));
    let no_keepalive = setting.bug == Some(Bug::NoKeepalive);
    (options.ping_every, options.pong_within) = if no_keepalive { (long, long) } else { keepalive };
    options.keep_history = Some(Duration::from_secs(3));
    options.check_every = Duration::from_secs(30);
    options.dial = Some(net::dial);
    options.source = source;
    Ok(options)
}

/// Serves until it is asked to end, and has.
async fn serve(setting: &Setting, source: Arc<Seeded>, asked: &CancellationToken) -> Result<(), Error> {
    let store: SharedStore = Arc::new(EtcdStore::open(etcd_options(setting, source.clone())?).await?);
    let mut options = Options::new(setting.name.clone(), CancellationToken::new());
    options.source = source;
    options.lead_check = Duration::from_millis(500);
    options.place = setting.name.clone().into_bytes();
    options.endpoints = vec![format!("https://{}:{PORT}", setting.name)];
    options.release = true;
    let metrics = Metrics::new("rail-controller", "0", SystemTime::UNIX_EPOCH);
    let reader = Reader::default();
    tokio::spawn(reader.clone().follow(Arc::clone(&store)));
    setting.posts.with(&setting.name, |post| post.reader = Some(reader));
    let mut replica = Replica::begin(ReplicaConfig {
        store,
        options,
        authority: authority()?,
        credentials: Credentials::over(net::dial),
        routes: Box::new(routes(authority()?, ApiMetrics::new(&metrics, FairLimits::default()), "0")),
        loop_metrics: LoopMetrics::new(&metrics),
        leader_silence: SILENCE,
        version: "0",
    })
    .await?;
    let router = replica.router(CancellationToken::new()).await?;
    let _serving = AbortOnDropHandle::new(tokio::spawn(net::serve(PORT, router, identify)));
    replica.run(asked, setting).await?;
    tokio::time::sleep(DRAIN).await;
    Ok(())
}

impl Observer for Setting {
    fn term_began(&self, leader: &Handle, _: &CancellationToken) {
        self.record.report(&format!("{} leads with epoch {}", self.name, leader.epoch()));
        self.posts.with(&self.name, |post| {
            post.leading = Some(leader.clone());
            post.terms += 1;
        });
        tokio::spawn(join_in_time(leader.clone()));
    }

    fn term_ended(&self, leader: &Handle) {
        self.record.report(&format!("{} leads no more with epoch {}", self.name, leader.epoch()));
        self.posts.with(&self.name, |post| post.leading = None);
    }

    fn handing_over(&self, _: &Handle, followers: usize) {
        self.record.report(&format!("{} lets the lead go, {followers} follow", self.name));
    }
}
