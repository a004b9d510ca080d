//! One controller, wired as `rail-controller --store etcd` is: the store, standby and leader, beats and evidence, the API
//! behind the door. Only its sockets, its wall clock and its random bytes are of the simulation.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use axum::Router;
use controller_api::{Api, ApiMetrics, Context, fair::FairLimits};
use controller_core::Event;
use controller_ha::{Beats, Contact, Contacts, Stand, Stands, contacts, stands};
use controller_reconciler::{
    Ended, Handle, LoopMetrics, Options, Refusal, SharedStore, Standby, bootstrap, bootstrap_later, keys,
    who_leads,
};
use controller_store::{EtcdOptions, EtcdStore};
use proto_audit::Actor;
use proto_model::NodeName;
use proto_rpc::{Authority, Ca, Credentials, Endpoint, Identity, Metrics, Standing};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{etcd::PREFIX, net, plant::Bug, reader::Reader, record::Record, source::Seeded};

/// The port of every controller.
pub const PORT: u16 = 7443;
/// The port of every member of etcd.
pub const ETCD_PORT: u16 = 2379;
/// The cluster's name.
pub const CLUSTER: &str = "sim";
/// A leader that is silent for longer is taken for gone.
const SILENCE: Duration = Duration::from_millis(400);
/// As in the controller's own wiring.
const EVIDENCE: usize = 4;
const REST: Duration = Duration::from_secs(2);
const LOOP_END: Duration = Duration::from_secs(10);
const SUCCESSOR: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_millis(10);
/// Before what a new cluster needs is tried again.
const AGAIN: Duration = Duration::from_millis(200);

type Error = Box<dyn std::error::Error>;

/// What the run knows of its controllers.
#[derive(Clone, Default)]
pub struct Posts(Arc<Mutex<BTreeMap<String, Post>>>);

/// One of them.
#[derive(Clone, Default)]
pub struct Post {
    /// How often its process was started.
    pub lives: u64,
    /// Asks it to end, as SIGTERM does.
    pub asked: CancellationToken,
    /// Whether it has ended.
    pub end: End,
    /// The way into its loop while it leads.
    pub leading: Option<Handle>,
    /// What a reader of its store sees, once that is open.
    pub reader: Option<Reader>,
    /// How often it began to lead.
    pub reigns: u64,
}

impl Posts {
    /// Looks at one, and may change it.
    pub fn with<T>(&self, name: &str, look: impl FnOnce(&mut Post) -> T) -> T {
        let mut posts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(posts.entry(name.to_owned()).or_default())
    }

    /// How often a controller began to lead.
    #[must_use]
    pub fn reigns(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().map(|post| post.reigns).sum()
    }

    /// Whoever leads, by its own word.
    #[must_use]
    pub fn leaders(&self) -> Vec<(String, Handle)> {
        let posts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        posts.iter().filter_map(|(name, post)| Some((name.clone(), post.leading.clone()?))).collect()
    }
}

/// How a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    /// It runs.
    #[default]
    Not,
    /// It was asked to end, and has.
    InOrder,
    /// It could not go on.
    Failed,
}

/// What every life of a controller is given.
#[derive(Clone)]
pub struct Setting {
    /// Its host.
    pub name: String,
    /// Members of etcd, the one that it asks first before the others.
    pub members: Vec<String>,
    /// Of this controller.
    pub seed: u64,
    /// Its clock is so far ahead.
    pub ahead: Duration,
    /// Where it is known.
    pub posts: Posts,
    /// What happens.
    pub record: Record,
    /// What is planted.
    pub bug: Option<Bug>,
}

/// What all times of leading of a life share.
struct Several {
    setting: Setting,
    store: SharedStore,
    options: Options,
    counts: ApiMetrics,
    loop_metrics: LoopMetrics,
    stands: Stands,
    leading: watch::Sender<Option<Handle>>,
    beats: Beats,
    left: CancellationToken,
}

/// One time of leading.
struct Reign {
    handle: Handle,
    running: JoinHandle<Ended>,
    streams: CancellationToken,
}

/// Who a host is.
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

/// The default tenant, and a server that has joined: jobs wait for it.
async fn furnish(handle: &Handle) -> Result<(), Refusal> {
    bootstrap(handle, "0").await?;
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

/// As an administrator does who was told that it did not work.
async fn join_later(handle: Handle) {
    while let Err(error) = furnish(&handle).await
        && !matches!(error, Refusal::Stopped { .. })
    {
        tokio::time::sleep(AGAIN).await;
    }
}

/// One life of a controller: ends only by being killed.
///
/// # Errors
/// None: that a process cannot go on is told to whoever starts it again.
pub async fn live(setting: Setting) -> turmoil::Result {
    let (asked, life) = setting.posts.with(&setting.name, |post| {
        let (lives, reigns) = (post.lives + 1, post.reigns);
        *post = Post { lives, reigns, ..Post::default() };
        (post.asked.clone(), lives)
    });
    setting.record.tell(&format!("{} starts, life {life}", setting.name));
    let source = Arc::new(Seeded::new(setting.seed ^ (life << 32), setting.ahead));
    let lived = match Several::open(&setting, source).await {
        Ok(several) => several.serve(&asked).await,
        Err(error) => Err(error),
    };
    match lived {
        Ok(()) => {
            setting.record.tell(&format!("{} has ended", setting.name));
            setting.posts.with(&setting.name, |post| post.end = End::InOrder);
        }
        Err(error) => {
            setting.record.tell(&format!("{} gives up: {error}", setting.name));
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

impl Several {
    async fn open(setting: &Setting, source: Arc<Seeded>) -> Result<Self, Error> {
        let store: SharedStore = Arc::new(EtcdStore::open(etcd_options(setting, source.clone())?).await?);
        let mut options = Options::new(setting.name.clone(), CancellationToken::new());
        options.source = source;
        options.lead_check = Duration::from_millis(500);
        options.place = setting.name.clone().into_bytes();
        options.endpoints = vec![format!("https://{}:{PORT}", setting.name)];
        options.release = true;
        let metrics = Metrics::new("rail-controller", "0", SystemTime::UNIX_EPOCH);
        let (leading, is_leading) = watch::channel(None);
        let left = CancellationToken::new();
        let reader = Reader::default();
        tokio::spawn(reader.clone().follow(Arc::clone(&store)));
        setting.posts.with(&setting.name, |post| post.reader = Some(reader));
        Ok(Self {
            setting: setting.clone(),
            store,
            options,
            counts: ApiMetrics::new(&metrics, FairLimits::default()),
            loop_metrics: LoopMetrics::new(&metrics),
            stands: stands(),
            leading,
            beats: Beats::new(is_leading, left.clone()),
            left,
        })
    }

    /// Follows and leads until it is asked to end.
    async fn serve(self, asked: &CancellationToken) -> Result<(), Error> {
        let mut contacts = self.contacts();
        let mut standby = Some(self.standby().await?);
        let reads = self.reads().await?;
        let router = controller_ha::router(self.stands.clone(), CLUSTER, self.beats.clone(), Some(reads));
        let serving = tokio::spawn(net::serve(PORT, router, identify));
        let _serving = tokio_util::task::AbortOnDropHandle::new(serving);
        while !asked.is_cancelled() {
            let next = match standby.take() {
                Some(standby) => standby,
                None => self.standby().await?,
            };
            let Some(mut reign) = self.follow(next, &mut contacts, asked).await? else { break };
            tokio::select! {
                biased;
                ended = &mut reign.running => self.deposed(&reign, ended?)?,
                () = asked.cancelled() => self.hand_over(reign).await,
            }
        }
        Ok(())
    }

    fn tell(&self, what: &str) {
        self.setting.record.tell(&format!("{} {what}", self.setting.name));
    }

    fn credentials() -> Credentials {
        Credentials::over(net::dial)
    }

    fn contacts(&self) -> Contacts {
        contacts(Contact {
            silence: SILENCE,
            holder: self.setting.name.clone(),
            credentials: Self::credentials(),
            store: Arc::clone(&self.store),
        })
    }

    async fn standby(&self) -> Result<Standby, Error> {
        let (store, options) = (Arc::clone(&self.store), self.options.clone());
        Ok(Standby::begin(store, options, self.loop_metrics.clone()).await?)
    }

    /// What this controller answers while it does not lead.
    async fn reads(&self) -> Result<Router, Error> {
        let handle = Handle::without_loop(Arc::clone(&self.store), &self.options, &self.loop_metrics);
        let guard = controller_api::guard(&handle, CLUSTER, &self.counts);
        let context =
            Context { handle, ca: authority()?, guard, version: "0", ending: CancellationToken::new() };
        Ok(Api::new(context, &self.counts).await?.router)
    }

    async fn follow(
        &self,
        standby: Standby,
        contacts: &mut Contacts,
        asked: &CancellationToken,
    ) -> Result<Option<Reign>, Error> {
        let (seen, sees) = watch::channel(None);
        let (gone, mut evidence) = mpsc::channel(EVIDENCE);
        let (handle, running) = tokio::select! {
            biased;
            led = standby.lead(&seen, &mut evidence) => led?,
            () = contacts.run(&self.stands, sees, gone) => return Err("nobody tells who leads".into()),
            () = asked.cancelled() => return Ok(None),
        };
        contacts.led();
        self.tell(&format!("leads with epoch {}", handle.epoch()));
        let streams = CancellationToken::new();
        if let Err(error) = furnish(&handle).await {
            self.tell(&format!("could not make what a new cluster needs: {error}"));
            tokio::spawn(bootstrap_later(handle.clone(), "0"));
            tokio::spawn(join_later(handle.clone()));
        }
        let guard = controller_api::guard(&handle, CLUSTER, &self.counts);
        let (ca, ending) = (authority()?, streams.clone());
        let context = Context { handle: handle.clone(), ca, guard, version: "0", ending };
        let api = Api::new(context, &self.counts).await?;
        self.setting.posts.with(&self.setting.name, |post| {
            post.leading = Some(handle.clone());
            post.reigns += 1;
        });
        self.leading.send_replace(Some(handle.clone()));
        self.stands.take(Stand::here(api.router));
        Ok(Some(Reign { handle, running, streams }))
    }

    fn leads_no_more(&self, reign: &Reign) {
        self.setting.posts.with(&self.setting.name, |post| post.leading = None);
        reign.streams.cancel();
        reign.handle.end_streams();
    }

    fn deposed(&self, reign: &Reign, ended: Ended) -> Result<(), Error> {
        self.tell(&format!("leads no more with epoch {}", reign.handle.epoch()));
        self.stands.take(Stand::Open);
        self.leading.send_replace(None);
        self.leads_no_more(reign);
        match ended {
            Ended::Deposed => Ok(()),
            Ended::Asked => Err("the leader loop ended by itself".into()),
        }
    }

    async fn hand_over(&self, mut reign: Reign) {
        let (epoch, followers) = (reign.handle.epoch(), self.beats.followers());
        self.tell(&format!("lets the lead go, {followers} follow"));
        self.stands.rest(REST).await;
        self.options.stop.cancel();
        // A loop that does not end in time ends with the process.
        let _ = tokio::time::timeout(LOOP_END, &mut reign.running).await;
        self.left.cancel();
        self.leads_no_more(&reign);
        let until = Instant::now() + SUCCESSOR;
        while followers > 0 && Instant::now() < until {
            if let Ok(Some(leader)) = who_leads(self.store.as_ref()).await
                && leader.epoch != epoch
            {
                let endpoints: Vec<Endpoint> =
                    leader.endpoints.iter().filter_map(|text| text.parse().ok()).collect();
                if let Some(client) = controller_ha::way(&endpoints, &Self::credentials(), SUCCESSOR) {
                    self.stands.take(Stand::There(leader.epoch, client));
                }
                // What waits goes there before the process ends.
                return tokio::time::sleep(ASK_EVERY * 20).await;
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
}
