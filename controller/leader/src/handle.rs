//! What the API holds of the loop: a cheap clone that carries requests in and answers out.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use controller_core::{
    AttachedWrite, Attributed, AuditNote, DeletedKey, DenialRecord, Event, Register, State,
    denials::ANONYMOUS_WAITING,
};
use controller_store::{Compare, Op, OpResult, Store, Txn, TxnOutcome};
use proto_audit::{Actor, Log};
use proto_model::{NodeName, ServerUsage, Timestamp};
use proto_rpc::{Identity, Outbound, PageKey, Revocations};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::{
    clock::Clock,
    error::Refusal,
    leader,
    logs::{LogBroker, StepBroker},
    metrics::LoopMetrics,
    options::Options,
    request::{Applied, Refused, Request, Shared, anonymous_places, refusal},
    sessions::{Messages, Sessions},
    tenancies::{Standing, Tenancies},
};

/// Told to callers whom the full queue turned away.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// How the store is, for health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreHealth {
    /// Whether writes are taken.
    pub writable: bool,
    /// Why writes are not taken; `None` while they are.
    pub cause: Option<String>,
    /// The newest revision that the loop committed.
    pub revision: u64,
}

/// The way into the loop. Clones are cheap.
#[derive(Clone)]
pub struct Handle {
    pub(crate) clients: mpsc::Sender<Request>,
    pub(crate) agents: mpsc::Sender<Request>,
    pub(crate) denials: mpsc::Sender<Refused>,
    /// Anonymous callers whose denials are on their way: few, so that they fill neither the queue nor the memory.
    pub(crate) anonymous: Arc<Semaphore>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) sessions: Sessions,
    pub(crate) logs: LogBroker,
    pub(crate) steps: StepBroker,
    pub(crate) metrics: LoopMetrics,
    pub(crate) clock: Clock,
    pub(crate) holder: Arc<str>,
    pub(crate) revocations: Revocations,
    pub(crate) tenancies: Tenancies,
    pub(crate) page_key: Arc<tokio::sync::OnceCell<PageKey>>,
    /// Sends the deliveries of webhooks.
    pub(crate) webhooks: Option<Outbound>,
    /// One at a time reads the list of revocations and writes to it.
    pub(crate) revoking: Arc<tokio::sync::Mutex<()>>,
}

impl Handle {
    /// For a controller that does not lead: reads of the store, which are as new as the leader's own. Whatever needs the
    /// loop is refused as [`Refusal::Stopped`].
    #[must_use]
    pub fn without_loop(store: Arc<dyn Store>, options: &Options, metrics: &LoopMetrics) -> Self {
        // Nobody holds the other ends.
        let ((clients, _), (agents, _), (denials, _)) =
            (mpsc::channel(1), mpsc::channel(1), mpsc::channel(1));
        Self {
            clients,
            agents,
            denials,
            anonymous: anonymous_places(),
            store,
            shared: Arc::default(),
            sessions: Sessions::new(metrics.clone()),
            logs: LogBroker::default(),
            steps: StepBroker::default(),
            metrics: metrics.clone(),
            clock: Clock::start(),
            holder: options.holder.as_str().into(),
            revocations: options.revocations.clone(),
            tenancies: options.tenancies.clone(),
            page_key: Arc::default(),
            revoking: Arc::default(),
            webhooks: None,
        }
    }

    /// Whether this controller may lead by it: there is a loop, or was.
    #[must_use]
    pub fn has_loop(&self) -> bool {
        self.epoch() != 0
    }

    /// Who leads by this loop, for people: host and process.
    #[must_use]
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// Carries what somebody asks for to the core; answers when its effects, and the record of it, are durable.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was stored then, except for [`Refusal::Unknown`].
    pub async fn apply(&self, actor: &Arc<Actor>, event: Event) -> Result<Applied, Refusal> {
        self.apply_with(actor, Vec::new(), event).await
    }

    /// As `apply`, with writes that the core only carries.
    ///
    /// # Errors
    /// As `apply`.
    pub async fn apply_with(
        &self,
        actor: &Arc<Actor>,
        beside: Vec<AttachedWrite>,
        event: Event,
    ) -> Result<Applied, Refusal> {
        let tenant = match &event {
            Event::ApplyTenant { name, dry_run: false, .. }
            | Event::DeleteTenant { name, dry_run: false, .. }
            | Event::Undelete { key: DeletedKey::Tenant(name), dry_run: false } => Some(name.clone()),
            _ => None,
        };
        let by = Event::Attributed(Box::new(Attributed { actor: Arc::clone(actor), beside, event }));
        let applied = self.ask(by).await?;
        if let Some(name) = tenant {
            // When this returns, this process lets in whom it should, and nobody else.
            if let Err(error) = self.tenancies.learn(self.store.as_ref(), name.as_str()).await {
                tracing::warn!(%error, tenant = %name, "the tenant cannot be looked up; its change is heard of a little later");
            }
        }
        Ok(applied)
    }

    /// Which tenants there are, for whoever lets callers in.
    #[must_use]
    pub fn tenancies(&self) -> &Tenancies {
        &self.tenancies
    }

    /// How a caller stands to its tenant. Nobody is turned away because a tenant was made just now.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn standing(&self, identity: &Identity) -> Result<Standing, Refusal> {
        let standing = self.tenancies.standing(identity);
        match identity.tenant().filter(|_| standing == Standing::Gone) {
            Some(tenant) => {
                self.tenancies.learn(self.store.as_ref(), tenant).await?;
                Ok(self.tenancies.standing(identity))
            }
            None => Ok(standing),
        }
    }

    /// Binds a user to the tenant that has its tenant's name now; `None` where there is none. Others stay as they are.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn bind(&self, identity: Identity) -> Result<Option<Identity>, Refusal> {
        let Some(tenant) = identity.tenant().map(str::to_owned) else { return Ok(Some(identity)) };
        if self.tenancies.get(&tenant).is_none() {
            self.tenancies.learn(self.store.as_ref(), &tenant).await?;
        }
        // A uid that could not be written into a certificate is no tenant's.
        Ok(self.tenancies.get(&tenant).and_then(|now| identity.of_tenant(&now.uid).ok()))
    }

    pub(crate) async fn ask(&self, event: Event) -> Result<Applied, Refusal> {
        let (sender, answer) = oneshot::channel();
        self.offer(Request::Event(Box::new(event), Some(sender.into())))?;
        answer.await.unwrap_or(Err(Refusal::Stopped { cause: "the controller is ending" }))
    }

    /// Records what is done beside the core, before it is done.
    ///
    /// # Errors
    /// As `apply`: it must not be done then.
    pub async fn note(
        &self,
        actor: &Arc<Actor>,
        kind: &'static str,
        name: String,
        tenant: &str,
    ) -> Result<(), Refusal> {
        let noted = AuditNote { kind, name, tenant: tenant.to_owned() };
        self.apply(actor, Event::AuditNote(noted)).await.map(|_| ())
    }

    /// Records that a call was refused for want of authority. Where many alike come at once they wait for one record.
    ///
    /// # Errors
    /// It could not be recorded: the caller gets that instead of the denial.
    pub async fn deny(&self, actor: &Arc<Actor>, reason: &str, detail: &str) -> Result<(), Refusal> {
        let full = |cause: &'static str, waiting: usize| {
            self.metrics.refused.inc([cause]);
            Refusal::Busy { waiting, retry_after: RETRY_AFTER }
        };
        // Held until the answer is there.
        let _place = if actor.is_anonymous() {
            let place = Arc::clone(&self.anonymous).try_acquire_owned();
            Some(place.map_err(|_| full("anonymous-denials-full", ANONYMOUS_WAITING))?)
        } else {
            None
        };
        let denied = DenialRecord { reason: reason.to_owned(), detail: detail.to_owned(), count: 1 };
        let (sender, answer) = oneshot::channel();
        let refused = (Arc::clone(actor), denied, sender.into());
        self.denials.try_send(refused).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => full("denials-full", self.denials.max_capacity()),
            mpsc::error::TrySendError::Closed(_) => Refusal::Stopped { cause: "the controller is ending" },
        })?;
        let reported = answer.await.unwrap_or(Err(Refusal::Stopped { cause: "the controller is ending" }));
        reported.map(|_| ())
    }

    /// Signs the heads of both audit logs, where they are not signed yet and there is a key: that of changes last, so that
    /// it covers the last denial.
    ///
    /// # Errors
    /// As `apply`.
    pub async fn seal(&self) -> Result<(), Refusal> {
        self.ask(Event::Sealed(Log::Denials, None)).await?;
        self.ask(Event::Sealed(Log::Changes, None)).await.map(|_| ())
    }

    /// Reads the committed state.
    ///
    /// # Errors
    /// [`Refusal::Busy`] and [`Refusal::Stopped`].
    pub async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&State, Timestamp) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (sender, answer) = oneshot::channel();
        self.offer(Request::Query(Box::new(move |state, now| {
            // Nobody waits any more if the caller went away.
            let _ = sender.send(question(state, now));
        })))?;
        answer.await.map_err(|_| Refusal::Stopped { cause: "the controller is ending" })
    }

    fn offer(&self, request: Request) -> Result<(), Refusal> {
        self.clients.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                self.metrics.refused.inc(["queue-full"]);
                Refusal::Busy { waiting: self.clients.max_capacity(), retry_after: RETRY_AFTER }
            }
            mpsc::error::TrySendError::Closed(_) => Refusal::Stopped { cause: "the controller is ending" },
        })
    }

    /// Opens an agent's connection. The first message that comes out of it is the Welcome.
    ///
    /// # Errors
    /// The core's refusal (a newer epoch rules), or the store takes no writes.
    pub async fn connect(&self, mut register: Register) -> Result<Session, Refusal> {
        let node = register.node.clone();
        let (number, messages) = self.sessions.open(&node);
        register.session = number;
        let session =
            Session { handle: self.clone(), node, number, messages: Some(messages), reported: false };
        let (sender, answer) = oneshot::channel();
        let event = Event::AgentConnected(Box::new(register));
        session.push_in(Request::Event(Box::new(event), Some(sender.into()))).await?;
        answer.await.unwrap_or(Err(Refusal::Stopped { cause: "the controller is ending" }))?;
        Ok(session)
    }

    /// A transaction beside the core (tokens), fenced like all others.
    ///
    /// # Errors
    /// The store's refusal, or [`Refusal::Stopped`] when another controller leads. A compare of the caller's that does
    /// not hold is no error: see `succeeded`.
    pub async fn fenced(&self, compares: Vec<Compare>, ops: Vec<Op>) -> Result<TxnOutcome, Refusal> {
        let mut epoch = self.epoch();
        loop {
            let fence = leader::fence(epoch);
            let mut txn = Txn::new().when(fence.clone()).otherwise(Op::get(fence.key.clone()));
            txn.compares.extend(compares.iter().cloned());
            txn.success.clone_from(&ops);
            let outcome = self.store.txn(txn).await.map_err(|error| refusal(&error))?;
            let leads = outcome.results.iter().any(|result| match result {
                OpResult::Got(found) => fence.holds(found.as_ref()),
                _ => false,
            });
            if outcome.succeeded || leads {
                return Ok(outcome);
            }
            // This controller may have taken the lead anew meanwhile, or be about to.
            let before = std::mem::replace(&mut epoch, self.epoch());
            if before == epoch {
                return Err(self.does_not_lead());
            }
        }
    }

    fn does_not_lead(&self) -> Refusal {
        // A loop that is too busy looks in its time, or has ended.
        let _ = self.clients.try_send(Request::CheckLeader);
        let cause = self.shared.cause.lock().unwrap_or_else(PoisonError::into_inner).clone();
        cause.map_or(Refusal::Stopped { cause: "another controller leads" }, |cause| Refusal::Unwritable {
            cause,
        })
    }

    /// The store, for reads and watches.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// This controller's fencing number.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::Relaxed)
    }

    /// How the store is.
    #[must_use]
    pub fn store_health(&self) -> StoreHealth {
        let cause = self.shared.cause.lock().unwrap_or_else(PoisonError::into_inner).clone();
        StoreHealth {
            writable: !self.shared.unwritable.load(Ordering::Relaxed),
            cause,
            revision: self.shared.revision.load(Ordering::Relaxed),
        }
    }

    /// Ends every agent's stream: the controller is ending, and they shall look for the next leader.
    pub fn end_streams(&self) {
        self.sessions.close_all();
    }

    /// The agents that are connected, with their streams.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Where readers of logs meet the agents that have them.
    #[must_use]
    pub fn logs(&self) -> &LogBroker {
        &self.logs
    }

    /// Where steps meet the agents that attend to them.
    #[must_use]
    pub fn steps(&self) -> &StepBroker {
        &self.steps
    }

    /// The time by the loop's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// One agent's connection. Dropping it reports to the core that the agent is gone.
pub struct Session {
    handle: Handle,
    node: NodeName,
    number: u64,
    messages: Option<Messages>,
    reported: bool,
}

impl Session {
    /// The node whose agent is connected.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// The connection's number, for the agent's events.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What is to be sent; once. It ends when the connection is replaced, too slow, or the controller ends.
    pub fn messages(&mut self) -> Option<Messages> {
        self.messages.take()
    }

    /// Carries what the agent said to the core. Waits while the loop is busy, which holds back this agent only.
    ///
    /// # Errors
    /// [`Refusal::Stopped`].
    pub async fn say(&self, event: Event) -> Result<(), Refusal> {
        self.push_in(Request::Event(Box::new(event), None)).await
    }

    /// As `say`, but what does not fit is dropped: for heartbeats, the next of which is as good.
    pub fn hint(&self, event: Event) {
        if self.handle.agents.try_send(Request::Event(Box::new(event), None)).is_err() {
            self.handle.metrics.refused.inc(["heartbeat"]);
        }
    }

    /// What the server uses: for whoever asks, and not for the loop.
    pub fn report_usage(&self, usage: ServerUsage) {
        self.handle.sessions.report_usage(&self.node, self.number, usage);
    }

    /// The agent's stream has ended.
    pub async fn end(mut self) {
        self.reported = true;
        self.handle.sessions.close(&self.node, self.number);
        // The loop may have ended before its agents.
        let _ = self.say(self.gone()).await;
    }

    fn gone(&self) -> Event {
        Event::AgentDisconnected { node: self.node.clone(), session: self.number }
    }

    async fn push_in(&self, request: Request) -> Result<(), Refusal> {
        let stopped = |_| Refusal::Stopped { cause: "the controller is ending" };
        self.handle.agents.send(request).await.map_err(stopped)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.reported {
            self.handle.sessions.close(&self.node, self.number);
            self.hint(self.gone());
        }
    }
}
