//! Which delivery is attempted when, and how many at once: a copy of what waits, and the attempts that are in flight.
//!
//! What is reported of one job goes in order: nothing is attempted while something earlier of the same job waits at the same webhook. Each
//! webhook has few attempts in flight at a time, and one only while its receiver does not answer well; so that a slow receiver
//! holds up nobody but itself. The next place goes to the webhook that has the fewest attempts in flight.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_state::{Delivery, WebhookKey};
use proto_model::{JobUid, Timestamp, Webhook};

use crate::{
    event::{DeliveryReport, DeliveryResult},
    tenant::webhooks::{
        retry::{Outcome, Verdict, decide},
        select::short,
    },
};

/// Attempts of one webhook in flight, while its receiver answers well.
pub const MAX_IN_FLIGHT: usize = 4;
/// Attempts in flight in all.
pub const MAX_IN_FLIGHT_IN_ALL: usize = 128;
/// The last error of a webhook is stored anew when it is another one, or after this time.
const ERROR_EVERY_MS: u64 = 60_000;

/// An attempt that is to be made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// By which webhook.
    pub webhook: Arc<Webhook>,
    /// What is to be sent.
    pub delivery: Arc<Delivery>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingState {
    Queued,
    InFlight,
    /// The core is told of its end, and then removes it.
    Finished,
}

#[derive(Debug, Clone)]
struct Pending {
    delivery: Arc<Delivery>,
    attempts: u32,
    next: Timestamp,
    state: PendingState,
}

#[derive(Debug, Clone)]
struct WebhookQueue {
    webhook: Arc<Webhook>,
    pending: BTreeMap<u64, Pending>,
    in_flight: usize,
    /// Its last attempt has failed.
    failing: bool,
    /// Its receiver wants nothing before.
    not_before: Timestamp,
}

impl WebhookQueue {
    fn room(&self) -> bool {
        self.in_flight < if self.failing { 1 } else { MAX_IN_FLIGHT }
    }

    /// What may be attempted next, and when; the earliest one.
    fn first(&self) -> Option<(Timestamp, u64)> {
        let mut held: BTreeSet<JobUid> = BTreeSet::new();
        let waits = self.pending.iter().filter(|(_, one)| one.state != PendingState::Finished);
        let first = waits.filter(|(_, one)| held.insert(one.delivery.uid));
        let ready = first.filter(|(_, one)| one.state == PendingState::Queued);
        ready.map(|(seq, one)| (one.next.max(self.not_before), *seq)).min()
    }

    /// What it has due, if it may have one more attempt in flight.
    fn due(&self, key: &WebhookKey, now: Timestamp) -> Option<Due> {
        let (at, seq) = self.first().filter(|(at, _)| self.room() && *at <= now)?;
        Some((self.in_flight, at, key.clone(), seq))
    }
}

/// What is due: how many attempts of its webhook are in flight, since when, of which webhook, and its number there.
type Due = (usize, Timestamp, WebhookKey, u64);

/// What is in flight and what waits.
#[derive(Debug, Clone, Default)]
pub struct Dispatcher {
    queues: BTreeMap<WebhookKey, WebhookQueue>,
    in_flight: usize,
}

impl Dispatcher {
    /// Takes in a webhook as it is now, with all that waits of it.
    pub fn update(&mut self, key: &WebhookKey, webhook: Option<Arc<Webhook>>, waiting: Vec<Arc<Delivery>>) {
        let old = self.queues.remove(key);
        let Some(webhook) = webhook else {
            self.in_flight -= old.map_or(0, |old| old.in_flight);
            return;
        };
        let same = old.as_ref().is_some_and(|old| old.webhook.uid == webhook.uid);
        // Another URL is another receiver: what it is owed is attempted at once.
        let anew = old.as_ref().is_none_or(|old| !same || old.webhook.spec != webhook.spec);
        let mut old = old.unwrap_or_else(|| WebhookQueue {
            webhook: Arc::clone(&webhook),
            pending: BTreeMap::new(),
            in_flight: 0,
            failing: false,
            not_before: Timestamp::default(),
        });
        let mut pending = BTreeMap::new();
        for delivery in waiting {
            let known = old.pending.remove(&delivery.seq).filter(|_| same);
            let mut one = known.unwrap_or(Pending {
                delivery,
                attempts: 0,
                next: Timestamp::default(),
                state: PendingState::Queued,
            });
            if anew {
                one.next = Timestamp::default();
            }
            let seq = one.delivery.seq;
            pending.insert(seq, one);
        }
        let in_flight = pending.values().filter(|one| one.state == PendingState::InFlight).count();
        self.in_flight = self.in_flight - old.in_flight + in_flight;
        let (failing, not_before) =
            if anew { (false, Timestamp::default()) } else { (old.failing, old.not_before) };
        self.queues.insert(key.clone(), WebhookQueue { webhook, pending, in_flight, failing, not_before });
    }

    /// What is to be attempted now; it is in flight then. The next place goes to the webhook with the fewest attempts in flight.
    pub fn start(&mut self, now: Timestamp) -> Vec<DeliveryAttempt> {
        let mut attempts = Vec::new();
        let mut due: BTreeSet<Due> =
            self.queues.iter().filter_map(|(key, queue)| queue.due(key, now)).collect();
        while self.in_flight < MAX_IN_FLIGHT_IN_ALL {
            let Some((_, _, key, seq)) = due.pop_first() else { break };
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            let Some(one) = queue.pending.get_mut(&seq) else { continue };
            one.state = PendingState::InFlight;
            one.attempts += 1;
            let delivery = Arc::clone(&one.delivery);
            queue.in_flight += 1;
            self.in_flight += 1;
            attempts.push(DeliveryAttempt { webhook: Arc::clone(&queue.webhook), delivery });
            due.extend(queue.due(&key, now));
        }
        attempts
    }

    /// When there is something to be attempted, as far as places are free; `None` while nothing waits for a time.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        let open = self.queues.values().filter(|queue| self.in_flight < MAX_IN_FLIGHT_IN_ALL && queue.room());
        open.filter_map(WebhookQueue::first).map(|(at, _)| at).min()
    }

    /// Attempts in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// An attempt has ended. What the core is to be told of it, if anything.
    pub fn ended(
        &mut self,
        attempt: &DeliveryAttempt,
        outcome: Outcome,
        now: Timestamp,
        seed: u64,
    ) -> Option<DeliveryReport> {
        let delivery = &attempt.delivery;
        let key = (delivery.tenant.clone(), delivery.webhook.clone());
        let report = |what| {
            Some(DeliveryReport { key: delivery.key(), webhook_uid: delivery.webhook_uid.clone(), what })
        };
        let known = self.queues.get_mut(&key).filter(|queue| queue.webhook.uid == delivery.webhook_uid);
        let one = known.and_then(|queue| {
            let WebhookQueue { webhook, pending, in_flight, failing, not_before } = queue;
            let one = pending.get_mut(&delivery.seq).filter(|one| one.state == PendingState::InFlight)?;
            *in_flight -= 1;
            Some((webhook, one, failing, not_before))
        });
        let Some((webhook, one, failing, not_before)) = one else {
            // It was dropped meanwhile. That it has arrived counts all the same.
            return if outcome == Outcome::Delivered { report(DeliveryResult::Delivered) } else { None };
        };
        self.in_flight -= 1;
        let verdict = decide(&outcome, one.attempts, delivery.time, now, seed);
        *failing = outcome != Outcome::Delivered;
        let error = match outcome {
            Outcome::Delivered => String::new(),
            Outcome::Gone => "it answered 410 Gone".to_owned(),
            Outcome::Later(_, error) => {
                if let Verdict::Again(next) = verdict {
                    *not_before = next;
                }
                error
            }
            Outcome::Failed(error) => error,
        };
        one.state = PendingState::Finished;
        match verdict {
            Verdict::Done => report(DeliveryResult::Delivered),
            Verdict::GiveUp => report(DeliveryResult::GivenUp(error)),
            Verdict::Disable => report(DeliveryResult::Gone(error)),
            Verdict::Again(next) => {
                (one.state, one.next) = (PendingState::Queued, next);
                let news = webhook.progress.last_error.as_ref().is_none_or(|(time, last)| {
                    *last != short(&error, Webhook::MAX_ERROR)
                        || time.0.saturating_add(ERROR_EVERY_MS) <= now.0
                });
                if news { report(DeliveryResult::Failed(error)) } else { None }
            }
        }
    }
}
