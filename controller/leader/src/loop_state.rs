//! What the loop holds: the core's state, where requests come from, how sure the lead is, and what waits.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use controller_core::{Config, Event, State, denials::Denials, figures::Named};
use controller_election::assurance::Assurance;
use controller_store::{KeyValue, Store, StoreError};
use proto_model::{NodeName, Timestamp};
use rand_chacha::ChaCha20Rng;
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    clock::Clock,
    error::Refusal,
    keys,
    leader::Lead,
    metrics::LoopMetrics,
    request::{Answer, Applied, Refused, Request, Shared},
    seal::Seal,
    sessions::Sessions,
    webhooks::ChangedWebhooks,
};

/// A client's answer that was decided without a write.
pub(crate) type PendingAnswer = (Answer, Result<Applied, Refusal>);

/// The leader key, or why it cannot be read.
pub(crate) type Found = Result<Option<KeyValue>, StoreError>;

/// Reads the leader key, at most one read at a time.
#[derive(Default)]
pub(crate) struct LeaderCheck {
    pub(crate) asked: Option<JoinHandle<Found>>,
}

impl LeaderCheck {
    /// Begins to read the key; an earlier read is abandoned.
    pub fn begin(&mut self, store: &Arc<dyn Store>) {
        let store = Arc::clone(store);
        self.asked = Some(tokio::spawn(async move { store.get(keys::LEADER.into()).await }));
    }

    /// The key that was read; pending for ever if no read is in progress. Cancel safe.
    pub async fn answer(&mut self) -> Found {
        let Some(asked) = self.asked.as_mut() else { return std::future::pending().await };
        let found = asked.await.unwrap_or(Err(StoreError::Closed));
        self.asked = None;
        found
    }

    /// Abandons the read in progress.
    pub fn forget(&mut self) {
        self.asked = None;
    }
}

/// The store takes no writes.
pub(crate) struct Outage {
    pub next_probe: Instant,
    pub(crate) wait: Duration,
    /// The last commit's outcome is not known: read everything again first.
    pub(crate) reload: bool,
    /// What agents said meanwhile.
    pub(crate) held: VecDeque<Event>,
    /// Who was heard meanwhile, by which session: one heartbeat of each node.
    pub(crate) beats: BTreeMap<NodeName, u64>,
    /// More was said than could be held.
    pub(crate) overflow: bool,
}

/// That this controller leads, and how sure it is of that.
pub(crate) struct Leading {
    pub epoch: u64,
    pub lead: Lead,
    pub assurance: Assurance<PendingAnswer>,
    pub leader_check: LeaderCheck,
    /// What the last leader check has read.
    pub found: Option<Found>,
    /// Leadership is given up at the end.
    pub release: bool,
}

impl Leading {
    /// Of a lead that was just taken.
    pub fn new(epoch: u64, lead: Lead, assurance: Assurance<PendingAnswer>, release: bool) -> Self {
        Self { epoch, lead, assurance, leader_check: LeaderCheck::default(), found: None, release }
    }
}

/// Where requests come from.
pub(crate) struct Inbox {
    pub clients: mpsc::Receiver<Request>,
    pub agents: mpsc::Receiver<Request>,
    pub denials: mpsc::Receiver<Refused>,
}

/// The loop's part in the audit log.
pub(crate) struct AuditState {
    pub seal: Option<Seal>,
    /// Denials that wait for a record.
    pub flood: Denials<Answer>,
    /// The head of the audit log is not signed before.
    pub seal_after: Timestamp,
}

impl AuditState {
    /// Nothing waits.
    pub fn new(seal: Option<Seal>) -> Self {
        Self { seal, flood: Denials::default(), seal_after: Timestamp::default() }
    }
}

/// What the next steps have to heed.
#[derive(Default)]
pub(crate) struct Pacing {
    /// Sessions that ended because their agents did not keep up.
    pub gone: Vec<Event>,
    /// A node that has seen a later epoch than this one, and which.
    pub challenged: Option<(NodeName, u64)>,
    /// How many of the paces the step at work has tried.
    pub pace: usize,
    /// The step at work may place nothing.
    pub cut_short: bool,
    /// The state gets no `Tick` before this time; `None`: whenever it asks for one.
    pub tick_after: Option<Timestamp>,
}

/// What was counted for the metrics last.
pub(crate) struct Counting {
    pub counted: Instant,
    /// Who is counted by name.
    pub named: Named,
}

impl Default for Counting {
    fn default() -> Self {
        Self { counted: Instant::now(), named: Named::default() }
    }
}

/// What tells the sender of webhooks what to do.
pub(crate) struct WebhookSignals {
    /// Webhooks of which something was written.
    pub changed: ChangedWebhooks,
    /// Ends with the loop: who does not lead sends nothing.
    pub _sending: DropGuard,
}

pub(crate) struct Loop {
    pub state: State,
    pub config: Config,
    pub rng: ChaCha20Rng,
    pub clock: Clock,
    pub store: Arc<dyn Store>,
    pub shared: Arc<Shared>,
    pub sessions: Sessions,
    pub metrics: LoopMetrics,
    pub leading: Leading,
    pub inbox: Inbox,
    pub audit: AuditState,
    pub pacing: Pacing,
    pub counting: Counting,
    pub webhooks: WebhookSignals,
    /// While the store takes no writes.
    pub outage: Option<Outage>,
    pub stop: CancellationToken,
}
