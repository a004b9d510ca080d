//! Webhooks made, changed and removed; and what became of their deliveries.

use std::sync::Arc;

use controller_state::{CoreError, Delivery, DeliveryKey, WebhookKey};
use proto_model::{TenantName, Webhook, WebhookName, WebhookProgress, WebhookSecret, WebhookSpec};

use crate::{
    context::Step,
    event::{DeliveryReport, DeliveryResult, Reply},
    tenant::webhooks::{
        limits::{MAX_OF_TENANT, MAX_WEBHOOKS, WITH_TENANT},
        select::short,
    },
};

/// Bytes of a secret that is made here.
const SECRET: usize = 32;

impl Step<'_> {
    pub(crate) fn apply_webhook(&mut self, webhook: Webhook, dry_run: bool) -> Result<Reply, CoreError> {
        let key = (webhook.tenant.clone(), webhook.name.clone());
        self.tenant_quota(&webhook.tenant)?;
        let old = self.state.base.webhooks.get(&key).cloned();
        let mut spec = webhook.spec.clone();
        let made = old.is_none() && spec.secret.is_none();
        if let Some(old) = &old {
            spec.secret = spec.secret.or_else(|| old.spec.secret.clone());
        }
        if spec.secret.is_none() {
            spec.secret = WebhookSecret::new(&self.random::<SECRET>());
        }
        let wanted = match &old {
            Some(old) => self.changed_webhook(old, spec),
            None => {
                self.room_for_webhook(&key.0)?;
                let (uid, progress) = (self.random_uid(), WebhookProgress::default());
                Webhook { uid, generation: 1, created: self.now, spec, progress, ..webhook }
            }
        };
        let webhook = match old.filter(|old| **old == wanted) {
            Some(old) => old,
            None => {
                let wanted = Arc::new(wanted);
                if !dry_run {
                    self.store_webhook(key, &wanted);
                }
                wanted
            }
        };
        Ok(Reply::Webhook { webhook, secret_made: made && !dry_run })
    }

    fn changed_webhook(&self, old: &Webhook, spec: WebhookSpec) -> Webhook {
        let changed = u64::from(spec != old.spec);
        let progress = WebhookProgress { disabled: None, ..old.progress.clone() };
        Webhook { generation: old.generation + changed, spec, progress, ..old.clone() }
    }

    fn store_webhook(&mut self, key: WebhookKey, webhook: &Arc<Webhook>) {
        let mut webhook = Arc::clone(webhook);
        if !webhook.is_in_use() {
            let dropped = self.drop_deliveries(&key);
            Arc::make_mut(&mut webhook).progress.dropped += dropped;
        }
        self.state.put(webhook);
    }

    /// Removes what waits of a webhook, and says how much it was.
    fn drop_deliveries(&mut self, key: &WebhookKey) -> u64 {
        let waiting: Vec<DeliveryKey> =
            self.state.deliveries_of(&key.0, &key.1).map(|delivery| delivery.key()).collect();
        let count = waiting.len() as u64;
        waiting.into_iter().for_each(|key| self.state.remove::<Delivery>(&key));
        count
    }

    pub(crate) fn delete_webhook(
        &mut self,
        tenant: &TenantName,
        name: &WebhookName,
    ) -> Result<Reply, CoreError> {
        if self.state.webhook(tenant, name).is_none() {
            return Err(self.state.webhook_missing(tenant, name));
        }
        let key = (tenant.clone(), name.clone());
        self.drop_deliveries(&key);
        self.state.remove::<Webhook>(&key);
        Ok(Reply::Done)
    }

    /// A tenant's webhooks end with it.
    pub(crate) fn forget_webhooks(&mut self, tenant: &TenantName) -> Result<(), CoreError> {
        let names: Vec<WebhookName> = self.state.webhooks_of(tenant).map(|hook| hook.name.clone()).collect();
        let waiting: usize =
            names.iter().map(|name| self.state.deliveries_queued(tenant, name) as usize).sum();
        if waiting > WITH_TENANT {
            return Err(CoreError::DeliveriesWaiting { tenant: tenant.clone(), waiting });
        }
        for name in names {
            let key = (tenant.clone(), name);
            self.drop_deliveries(&key);
            self.state.remove::<Webhook>(&key);
        }
        Ok(())
    }

    /// Counts what became of deliveries. What is no more is nobody's.
    pub(crate) fn count_deliveries(&mut self, reports: Vec<DeliveryReport>) -> Reply {
        for DeliveryReport { key, webhook_uid, what } in reports {
            let hook_key = (key.0.clone(), key.1.clone());
            let Some(hook) = self.state.base.webhooks.get(&hook_key).filter(|hook| hook.uid == webhook_uid)
            else {
                continue;
            };
            let mut hook = (**hook).clone();
            let waits = self.state.base.deliveries.contains_key(&key);
            let progress = &mut hook.progress;
            match what {
                DeliveryResult::Delivered => {
                    progress.delivered += 1;
                    progress.last_success = Some(self.now);
                }
                DeliveryResult::Failed(error) => {
                    progress.last_error = Some((self.now, short(&error, Webhook::MAX_ERROR)));
                    self.state.put(Arc::new(hook));
                    continue;
                }
                DeliveryResult::GivenUp(error) => {
                    progress.failed += u64::from(waits);
                    progress.last_error = Some((self.now, short(&error, Webhook::MAX_ERROR)));
                }
                DeliveryResult::Gone(error) => {
                    progress.failed += u64::from(waits);
                    progress.last_error = Some((self.now, short(&error, Webhook::MAX_ERROR)));
                    progress.disabled = Some(self.now);
                }
            }
            if waits {
                self.state.remove::<Delivery>(&key);
            }
            self.store_webhook(hook_key, &Arc::new(hook));
        }
        Reply::Done
    }

    fn room_for_webhook(&self, tenant: &TenantName) -> Result<(), CoreError> {
        let remedy = "delete some that are not used";
        if self.state.webhooks_of(tenant).count() >= MAX_OF_TENANT {
            return Err(CoreError::Full { what: "webhooks of this tenant", limit: MAX_OF_TENANT, remedy });
        }
        if self.state.base.webhooks.len() >= MAX_WEBHOOKS {
            return Err(CoreError::Full { what: "webhooks", limit: MAX_WEBHOOKS, remedy });
        }
        Ok(())
    }
}
