//! What a step is to tell, and to whom: what jobs were before it and are behind it, and the webhooks that are for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_state::{Delivery, Own, Undo, WebhookKey};
use proto_model::{Job, JobUid, Phase, Reason, TenantName, Webhook, WebhookEvent};

use crate::{
    context::Step,
    tenant::webhooks::limits::{QUEUE, STEP},
};

/// Bytes of a cause's message that are told at most.
const MESSAGE: usize = 1024;

/// What has happened to a job between two looks, in order.
pub(super) fn happened(old: Option<&Job>, new: &Job) -> Vec<WebhookEvent> {
    let (before, after) = (old.map(|job| &job.status), &new.status);
    let mut events = Vec::new();
    let again = before.is_some_and(|before| after.attempt > before.attempt);
    if again {
        events.push(WebhookEvent::QueuedAgain);
    }
    if !after.holds.is_empty() && before.is_none_or(|before| before.holds.is_empty()) {
        events.push(WebhookEvent::Held);
    }
    if after.started.is_some() && before.is_none_or(|before| before.started.is_none() || again) {
        events.push(WebhookEvent::Started);
    }
    let ended = after.phase.is_terminal() && before.is_none_or(|before| !before.phase.is_terminal());
    events.extend(match after.phase {
        Phase::Completed if ended => Some(WebhookEvent::Succeeded),
        Phase::Failed if ended => Some(WebhookEvent::Failed),
        Phase::Cancelled if ended => Some(WebhookEvent::Cancelled),
        _ => None,
    });
    events
}

/// The first bytes of a text, whole characters.
pub(super) fn short(text: &str, most: usize) -> String {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

fn first_cause(job: &Job) -> Option<Reason> {
    let cause = job.status.reasons.first()?;
    Some(Reason::new(cause.code.clone(), short(&cause.message, MESSAGE)))
}

impl Step<'_> {
    /// Queues what this step has to tell.
    pub(crate) fn note_deliveries(&mut self, mark: usize) {
        if self.state.base.webhooks.is_empty() {
            return;
        }
        let mut seen: BTreeSet<JobUid> = BTreeSet::new();
        let mut happenings: Vec<(Arc<Job>, WebhookEvent)> = Vec::new();
        for undo in &self.state.journal.undo[mark..] {
            let Undo::Own(Own::Job(uid, old)) = undo else { continue };
            let Some(new) = self.state.base.jobs.get(uid).filter(|_| seen.insert(*uid)) else { continue };
            let old = old.as_ref().map(|old| &old.job);
            if old.is_some_and(|old| Arc::ptr_eq(old, &new.job)) {
                continue;
            }
            let events = happened(old.map(AsRef::as_ref), &new.job);
            happenings.extend(events.into_iter().map(|event| (Arc::clone(&new.job), event)));
        }
        let mut hooks: BTreeMap<TenantName, Vec<Arc<Webhook>>> = BTreeMap::new();
        let (mut added, mut dropped) = (0, BTreeMap::<WebhookKey, u64>::new());
        for (job, event) in happenings {
            let tenant = &job.id.tenant;
            let of = || self.state.webhooks_of(tenant).cloned().collect();
            for hook in hooks.entry(tenant.clone()).or_insert_with(of).iter() {
                let admits =
                    hook.spec.jobs.admits(job.id.name.as_str(), job.spec.queue.as_ref(), &job.labels);
                if !admits || !hook.wants(event) {
                    continue;
                }
                let lost = if added < STEP { self.queue_delivery(hook, &job, event) } else { 1 };
                added += 1;
                if lost > 0 {
                    *dropped.entry((hook.tenant.clone(), hook.name.clone())).or_default() += lost;
                }
            }
        }
        for (key, count) in dropped {
            let Some(hook) = self.state.base.webhooks.get(&key) else { continue };
            let mut changed = (**hook).clone();
            changed.progress.dropped += count;
            self.state.put(Arc::new(changed));
        }
    }

    /// Adds one, and says how many had to go for it.
    fn queue_delivery(&mut self, hook: &Webhook, job: &Job, event: WebhookEvent) -> u64 {
        let (tenant, name) = (&hook.tenant, &hook.name);
        let waiting = self.state.deliveries_queued(tenant, name) as usize;
        let excess = (waiting + 1).saturating_sub(QUEUE);
        let oldest: Vec<_> =
            self.state.deliveries_of(tenant, name).take(excess).map(|old| old.key()).collect();
        let last = self.state.deliveries_of(tenant, name).next_back().map_or(0, |last| last.seq);
        let status = &job.status;
        let nodes = status.placement.as_ref().filter(|_| status.phase != Phase::Pending);
        let delivery = Delivery {
            tenant: tenant.clone(),
            webhook: name.clone(),
            webhook_uid: hook.uid.clone(),
            // Behind what waits, and behind what was sent before by any clock that went on.
            seq: (last + 1).max(self.now.0.saturating_mul(1024)),
            event,
            time: self.now,
            job: job.id.name.clone(),
            uid: job.uid,
            attempt: status.attempt,
            phase: status.phase,
            queue: job.spec.queue.clone(),
            nodes: nodes.map_or(0, |placement| u32::try_from(placement.nodes.len()).unwrap_or(u32::MAX)),
            submitted: status.submitted,
            reason: first_cause(job),
        };
        self.state.put(Arc::new(delivery));
        let lost = oldest.len() as u64;
        oldest.into_iter().for_each(|key| self.state.remove::<Delivery>(&key));
        lost
    }
}
