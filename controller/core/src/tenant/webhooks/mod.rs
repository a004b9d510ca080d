//! Webhooks: receivers of a tenant that are told what becomes of its jobs. `select` finds what a step is to tell and to whom,
//! `apply` makes, changes and removes webhooks and takes in what became of deliveries, `retry` decides what follows from an attempt,
//! and `dispatcher` which delivery is tried when. All of it is a function of its arguments; the shell only sends.
//!
//! A delivery is a row of the store, written in the transaction of what it tells, and removed in that which counts its end.
//! How often it was tried is not stored: a controller that comes later attempts what waits at once, with the same id and for the
//! rest of the same 24 hours. A job that no webhook is for costs nothing.

mod apply;
pub mod dispatcher;
pub mod retry;
mod select;

pub use apply::{DeliveryReport, DeliveryResult};

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proto_model::{
    JobName, JobUid, Phase, QueueName, Reason, TenantName, Timestamp, Webhook, WebhookEvent, WebhookName,
};

use crate::{
    event::Write,
    state::{State, journal::Undo, load::Stored},
};

/// Webhooks of one tenant at most.
pub const MAX_OF_TENANT: usize = 16;
/// Webhooks at most.
pub const MAX_WEBHOOKS: usize = 4096;
/// Deliveries of one webhook that wait, at most; the oldest one makes room.
pub const QUEUE: usize = 256;
/// Deliveries that one step adds, at most: they share the transaction of what they tell. What is beyond is dropped, and counted.
pub const STEP: usize = 256;
/// Deliveries that go with their tenant at most: a transaction has bounds.
const WITH_TENANT: usize = 1024;

/// Whose, and which.
pub type WebhookKey = (TenantName, WebhookName);

/// Which delivery: of which webhook, and its number there. Numbers grow.
pub type DeliveryKey = (TenantName, WebhookName, u64);

/// One thing that a receiver is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Of which webhook.
    pub tenant: TenantName,
    /// Its name.
    pub webhook: WebhookName,
    /// Its uid.
    pub webhook_uid: String,
    /// Its number there.
    pub seq: u64,
    /// What has happened.
    pub event: WebhookEvent,
    /// When.
    pub time: Timestamp,
    /// To which job.
    pub job: JobName,
    /// Its uid.
    pub uid: JobUid,
    /// In which attempt.
    pub attempt: u32,
    /// Where it was then.
    pub phase: Phase,
    /// Its queue.
    pub queue: Option<QueueName>,
    /// Its nodes then; 0 while it had none.
    pub nodes: u32,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// The first cause of its phase, shortened.
    pub reason: Option<Reason>,
}

impl Delivery {
    /// The same however often it is tried and by whichever controller: receivers know by it what they have seen.
    #[must_use]
    pub fn id(&self) -> String {
        let (hook, job, attempt) = (&self.webhook_uid, self.uid, self.attempt);
        format!("msg_{hook}_{job}_{attempt}_{}_{}", self.event, self.time.0)
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> DeliveryKey {
        (self.tenant.clone(), self.webhook.clone(), self.seq)
    }
}

pub(crate) type Webhooks = BTreeMap<WebhookKey, Arc<Webhook>>;
pub(crate) type Deliveries = BTreeMap<DeliveryKey, Arc<Delivery>>;

impl State {
    pub(crate) fn set_webhook(&mut self, key: WebhookKey, new: Option<Arc<Webhook>>) {
        let old = self.swap_webhook(key.clone(), new);
        self.journal.undo.push(Undo::Webhook(key, old));
    }

    pub(crate) fn swap_webhook(
        &mut self,
        key: WebhookKey,
        new: Option<Arc<Webhook>>,
    ) -> Option<Arc<Webhook>> {
        match new {
            Some(new) => self.base.webhooks.insert(key, new),
            None => self.base.webhooks.remove(&key),
        }
    }

    pub(crate) fn set_delivery(&mut self, key: DeliveryKey, new: Option<Arc<Delivery>>) {
        let old = self.swap_delivery(key.clone(), new);
        self.journal.undo.push(Undo::Delivery(key, old));
    }

    pub(crate) fn swap_delivery(
        &mut self,
        key: DeliveryKey,
        new: Option<Arc<Delivery>>,
    ) -> Option<Arc<Delivery>> {
        match new {
            Some(new) => self.base.deliveries.insert(key, new),
            None => self.base.deliveries.remove(&key),
        }
    }

    /// What the changes since `mark` mean for the rows of webhooks and of their deliveries; each key once.
    pub(crate) fn webhook_writes(&self, mark: usize, writes: &mut Vec<Write>) {
        let (mut webhooks, mut deliveries) = (BTreeSet::new(), BTreeSet::new());
        for undo in &self.journal.undo[mark..] {
            match undo {
                Undo::Webhook(key, old) if webhooks.insert(key) => {
                    let deleted =
                        || old.is_some().then(|| Write::DeleteWebhook(key.0.clone(), key.1.clone()));
                    writes
                        .extend(self.base.webhooks.get(key).cloned().map(Write::PutWebhook).or_else(deleted));
                }
                Undo::Delivery(key, old) if deliveries.insert(key) => {
                    let (tenant, name, seq) = key;
                    let deleted =
                        || old.is_some().then(|| Write::DeleteDelivery(tenant.clone(), name.clone(), *seq));
                    writes.extend(
                        self.base.deliveries.get(key).cloned().map(Write::PutDelivery).or_else(deleted),
                    );
                }
                _ => {}
            }
        }
    }

    /// Takes in what is stored.
    pub(crate) fn load_webhooks(&mut self, stored: &mut Stored, findings: &mut Vec<String>) {
        for (webhook, version) in std::mem::take(&mut stored.webhooks) {
            let key = (webhook.tenant.clone(), webhook.name.clone());
            self.versions.insert(crate::event::Key::Webhook(key.0.clone(), key.1.clone()), version);
            self.swap_webhook(key, Some(webhook));
        }
        for delivery in std::mem::take(&mut stored.deliveries) {
            let (tenant, name) = (&delivery.tenant, &delivery.webhook);
            if self.webhook(tenant, name).is_none() {
                findings.push(format!("delivery {}: there is no webhook '{tenant}/{name}'", delivery.seq));
            }
            self.swap_delivery(delivery.key(), Some(delivery));
        }
    }

    /// A webhook.
    #[must_use]
    pub fn webhook(&self, tenant: &TenantName, name: &WebhookName) -> Option<&Arc<Webhook>> {
        self.base.webhooks.get(&(tenant.clone(), name.clone()))
    }

    /// All webhooks that there are.
    pub fn webhook_keys(&self) -> impl Iterator<Item = &WebhookKey> {
        self.base.webhooks.keys()
    }

    /// The webhooks of a tenant, in name order.
    pub fn webhooks_of<'a>(&'a self, tenant: &'a TenantName) -> impl Iterator<Item = &'a Arc<Webhook>> {
        let first = WebhookName::new("0").ok().map(|name| (tenant.clone(), name));
        // Every name is behind "0", the first that there can be.
        let all = first.into_iter().flat_map(|first| self.base.webhooks.range(first..));
        all.take_while(move |((owner, _), _)| owner == tenant).map(|(_, webhook)| webhook)
    }

    /// What waits to be sent by a webhook, the oldest first.
    pub fn deliveries_of(
        &self,
        tenant: &TenantName,
        name: &WebhookName,
    ) -> impl DoubleEndedIterator<Item = &Arc<Delivery>> {
        let key = |seq| (tenant.clone(), name.clone(), seq);
        self.base.deliveries.range(key(0)..=key(u64::MAX)).map(|(_, delivery)| delivery)
    }

    /// How much waits to be sent by a webhook.
    #[must_use]
    pub fn deliveries_queued(&self, tenant: &TenantName, name: &WebhookName) -> u32 {
        u32::try_from(self.deliveries_of(tenant, name).count()).unwrap_or(u32::MAX)
    }

    /// How much waits to be sent by all webhooks.
    #[must_use]
    pub fn all_deliveries_queued(&self) -> usize {
        self.base.deliveries.len()
    }
}
