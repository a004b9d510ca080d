//! Webhooks and what waits to be sent by them.

use std::{collections::BTreeSet, sync::Arc};

use proto_model::{TenantName, Webhook, WebhookName};

use crate::{
    error::{nearest::nearest, refusal::CoreError},
    rows::{
        webhooks::{Delivery, DeliveryKey, WebhookKey},
        write::{Key, Write},
    },
    tables::{journal::Undo, load::Stored, state::State},
};

impl State {
    /// Puts a webhook into its table, or takes it out; the journal can undo it.
    pub fn set_webhook(&mut self, key: WebhookKey, new: Option<Arc<Webhook>>) {
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

    /// Queues a delivery, or takes it out; the journal can undo it.
    pub fn set_delivery(&mut self, key: DeliveryKey, new: Option<Arc<Delivery>>) {
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
    pub fn webhook_writes(&self, mark: usize, writes: &mut Vec<Write>) {
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
    pub fn load_webhooks(&mut self, stored: &mut Stored, findings: &mut Vec<String>) {
        for (webhook, version) in std::mem::take(&mut stored.webhooks) {
            let key = (webhook.tenant.clone(), webhook.name.clone());
            self.versions.insert(Key::Webhook(key.0.clone(), key.1.clone()), version);
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

impl State {
    /// That there is no such webhook, with the name that may have been meant.
    #[must_use]
    pub fn webhook_missing(&self, tenant: &TenantName, name: &WebhookName) -> CoreError {
        let names: Vec<&WebhookName> = self.webhooks_of(tenant).map(|hook| &hook.name).collect();
        let nearest = nearest(name.as_str(), names.into_iter());
        CoreError::WebhookNotFound { tenant: tenant.clone(), webhook: name.clone(), nearest }
    }
}
