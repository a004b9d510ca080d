//! Starting the loop: lead, load, run, and what a new cluster needs.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use controller_core::{AttachedWrite, AuditNote, Event, State};
use controller_election::assurance::Assurance;
use controller_store::{Source, Store};
use prost::Message;
use proto_audit::Actor;
use proto_model::{Quota, TenantName};
use rand_chacha::{
    ChaCha20Rng,
    rand_core::{Rng as _, SeedableRng},
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    drive::Ended,
    error::{Refusal, StartError},
    handle::Handle,
    keys,
    leader::{self, Lead},
    logs::{LogBroker, StepBroker},
    loop_state::{AuditState, Counting, Inbox, Leading, Loop, Pacing, WebhookSignals},
    metrics::LoopMetrics,
    options::Options,
    records,
    request::Shared,
    revocations::follow_revocations,
    sessions::Sessions,
    tenancies::follow_tenancies,
    webhooks::{self, ChangedWebhooks},
};

/// The tenant that a new cluster has, so that a laptop needs nothing else.
pub const DEFAULT_TENANT: &str = "default";
/// Its quota of GPUs: more than a site without tenants has.
pub const DEFAULT_TENANT_GPUS: u32 = 65_536;

/// Before it is tried again to make what a new cluster needs.
const BOOTSTRAP_AGAIN: Duration = Duration::from_secs(1);

/// Revisions that a take-over itself makes: the old key goes, the new one comes.
const TAKE_OVER_REVISIONS: u64 = 2;

/// Takes the lead, reads everything, and starts the loop.
///
/// # Errors
/// [`StartError`] names what cannot be read; nothing was overwritten then but the leader key.
pub async fn start(
    store: Arc<dyn Store>,
    options: Options,
    metrics: LoopMetrics,
) -> Result<(Handle, JoinHandle<Ended>), StartError> {
    let clock = Clock::start_at(options.source.wall());
    let mut rng = ChaCha20Rng::from_seed(seed(options.source.as_ref())?);
    let mut lead = Lead::new(&options, life(&mut rng));
    // Read before leading: a store that cannot be read must not be written, not even its leader key.
    let read = leader::read(&store, &mut lead).await?;
    let epoch = leader::take(store.as_ref(), &mut lead, clock.now()).await?;
    let state = if read.is_current && epoch <= read.revision + TAKE_OVER_REVISIONS {
        leader::build(&options.config, epoch, clock.now(), read.stored)?
    } else {
        // Somebody else wrote between the reading and the taking, or the rows are of an older version.
        leader::bring_up(&store, &mut lead, epoch).await?;
        leader::load(&store, &mut lead, &options.config, epoch, clock.now()).await?.0
    };
    follow_callers(&store, &options, options.stop.clone()).await?;
    Ok(launch(Begin { state, epoch, revision: epoch, lead, store, options, metrics, clock, rng }))
}

/// Reads what is revoked and which tenants there are, and follows both until `stop`: whoever lets callers in asks them.
///
/// # Errors
/// They cannot be read now.
pub async fn follow_callers(
    store: &Arc<dyn Store>,
    options: &Options,
    stop: CancellationToken,
) -> Result<(), StartError> {
    follow_revocations(store, &options.revocations, stop.clone()).await?;
    follow_tenancies(store, &options.tenancies, stop).await
}

/// What distinguishes one life of a process from every other one.
pub(crate) fn life(rng: &mut ChaCha20Rng) -> [u8; 16] {
    let mut life = [0; 16];
    rng.fill_bytes(&mut life);
    life
}

/// All that a leader begins with.
pub(crate) struct Begin {
    pub state: State,
    pub epoch: u64,
    /// What the state is of.
    pub revision: u64,
    pub lead: Lead,
    pub store: Arc<dyn Store>,
    pub options: Options,
    pub metrics: LoopMetrics,
    pub clock: Clock,
    pub rng: ChaCha20Rng,
}

/// Starts the loop of a leader.
pub(crate) fn launch(begin: Begin) -> (Handle, JoinHandle<Ended>) {
    let Begin { state, epoch, revision, lead, store, options, metrics, clock, rng } = begin;
    let jobs = state.phases().iter().sum::<i64>();
    tracing::info!(epoch, jobs, nodes = state.nodes(None).count(), "leading");
    let shared = Arc::new(Shared::default());
    shared.epoch.store(epoch, Ordering::Relaxed);
    shared.revision.store(revision, Ordering::Relaxed);
    let (clients, client_requests) = mpsc::channel(options.client_queue);
    let (agents, agent_requests) = mpsc::channel(options.agent_queue);
    let (denials, denied) = mpsc::channel(options.denial_queue);
    let sessions = Sessions::new(metrics.clone());
    let changed_webhooks = ChangedWebhooks::default();
    let handle = Handle {
        clients,
        agents,
        denials,
        anonymous: crate::request::anonymous_places(),
        store: Arc::clone(&store),
        shared: Arc::clone(&shared),
        sessions: sessions.clone(),
        logs: LogBroker::default(),
        steps: StepBroker::default(),
        metrics: metrics.clone(),
        clock,
        holder: options.holder.as_str().into(),
        revocations: options.revocations,
        tenancies: options.tenancies,
        page_key: Arc::default(),
        revoking: Arc::default(),
        webhooks: options.webhooks,
    };
    let sending = CancellationToken::new();
    if handle.webhooks.is_some() {
        tokio::spawn(webhooks::run(handle.clone(), changed_webhooks.clone(), sending.clone()));
    }
    let assurance = Assurance::new(clock.now(), options.lead_check);
    metrics.lead(epoch);
    let mut begun = Loop {
        state,
        config: options.config,
        rng,
        clock,
        store,
        shared,
        sessions,
        metrics,
        leading: Leading::new(epoch, lead, assurance, options.release),
        inbox: Inbox { clients: client_requests, agents: agent_requests, denials: denied },
        audit: AuditState::new(options.seal),
        pacing: Pacing::default(),
        counting: Counting::default(),
        webhooks: WebhookSignals { changed: changed_webhooks, _sending: sending.drop_guard() },
        outage: None,
        stop: options.stop,
    };
    begun.count_jobs();
    (handle, tokio::spawn(begun.run()))
}

pub(crate) fn seed(source: &dyn Source) -> Result<[u8; 32], StartError> {
    let mut seed = [0; 32];
    if source.fill(&mut seed) { Ok(seed) } else { Err(StartError::NoRandom) }
}

/// Makes what a new cluster needs, once in its life: the default tenant.
///
/// # Errors
/// The store takes no writes.
pub async fn bootstrap(handle: &Handle, version: &str) -> Result<bool, Refusal> {
    let found = handle.store().get(keys::BOOTSTRAP.into()).await.map_err(|error| Refusal::read(&error))?;
    if found.is_some() {
        return Ok(false);
    }
    let Ok(name) = TenantName::new(DEFAULT_TENANT) else { return Ok(false) };
    let description = "Made with the cluster; for sites that need no other tenant.".to_owned();
    let quota = Quota::new(DEFAULT_TENANT_GPUS, 0);
    let actor = Arc::new(Actor { who: "controller".into(), rpc: "Bootstrap".into(), ..Actor::default() });
    handle
        .apply(
            &actor,
            Event::ApplyTenant {
                name,
                description,
                quota,
                isolation: proto_model::IsolationPolicy::BestEffort,
                dry_run: false,
            },
        )
        .await?;
    let record = records::Bootstrap { time_ms: handle.now().0, version: version.to_owned() };
    let beside = AttachedWrite { key: keys::BOOTSTRAP.into(), value: Some(record.encode_to_vec().into()) };
    let noted = AuditNote { kind: "cluster", name: "bootstrap".into(), tenant: String::new() };
    handle.apply_with(&actor, vec![beside], Event::AuditNote(noted)).await?;
    tracing::info!(tenant = DEFAULT_TENANT, "new cluster: the default tenant was made");
    Ok(true)
}

/// As [`bootstrap`], where the store took no writes: again and again, until it is made or the loop has ended.
pub async fn bootstrap_later(handle: Handle, version: &'static str) {
    loop {
        tokio::time::sleep(BOOTSTRAP_AGAIN).await;
        match bootstrap(&handle, version).await {
            Ok(_) | Err(Refusal::Stopped { .. }) => return,
            Err(error) => tracing::debug!(%error, "what a new cluster needs still cannot be made"),
        }
    }
}
