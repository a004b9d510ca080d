//! Webhooks and what waits to be sent by them.

use std::sync::Arc;

use proto_model::{TenantName, Webhook, WebhookName};

use crate::{
    error::{nearest::nearest, refusal::CoreError},
    rows::webhooks::{Delivery, WebhookKey},
    tables::state::State,
};

impl State {
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
