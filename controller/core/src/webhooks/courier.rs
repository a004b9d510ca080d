//! Which delivery is tried when, and how many at once: a copy of what waits, and the tries that are on their way.
//!
//! What is told of one job goes in order: nothing is tried while something earlier of the same job waits at the same webhook. Each
//! webhook has few tries on their way at a time, and one only while its receiver does not answer well; so that a slow receiver
//! holds up nobody but itself. The next place goes to the webhook that has the fewest tries on their way.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proto_model::{JobUid, Timestamp, Webhook};

use super::{
    Delivery, Told, ToldWhat, WebhookKey,
    retry::{Outcome, Verdict, decide},
};

/// Tries of one webhook on their way, while its receiver answers well.
pub const AT_ONCE: usize = 4;
/// Tries on their way in all.
pub const ALL_AT_ONCE: usize = 128;
/// The last error of a webhook is stored anew when it is another one, or after this time.
const ERROR_EVERY_MS: u64 = 60_000;

/// A try that is to be made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    /// By which webhook.
    pub webhook: Arc<Webhook>,
    /// What.
    pub delivery: Arc<Delivery>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    Waits,
    Flies,
    /// Its end is counted by the core, which then removes it.
    Over,
}

#[derive(Debug, Clone)]
struct Parcel {
    delivery: Arc<Delivery>,
    tries: u32,
    next: Timestamp,
    stand: Stand,
}

#[derive(Debug, Clone)]
struct Hook {
    webhook: Arc<Webhook>,
    parcels: BTreeMap<u64, Parcel>,
    flying: usize,
    /// Its last try has failed.
    ails: bool,
    /// Its receiver wants nothing before.
    rests: Timestamp,
}

impl Hook {
    fn room(&self) -> bool {
        self.flying < if self.ails { 1 } else { AT_ONCE }
    }

    /// What may be tried next, and when; the earliest one.
    fn first(&self) -> Option<(Timestamp, u64)> {
        let mut held: BTreeSet<JobUid> = BTreeSet::new();
        let waits = self.parcels.iter().filter(|(_, parcel)| parcel.stand != Stand::Over);
        let first = waits.filter(|(_, parcel)| held.insert(parcel.delivery.uid));
        let ready = first.filter(|(_, parcel)| parcel.stand == Stand::Waits);
        ready.map(|(seq, parcel)| (parcel.next.max(self.rests), *seq)).min()
    }
}

/// What is on its way and what waits.
#[derive(Debug, Clone, Default)]
pub struct Courier {
    hooks: BTreeMap<WebhookKey, Hook>,
    flying: usize,
}

impl Courier {
    /// Takes in a webhook as it is now, with all that waits of it.
    pub fn learn(&mut self, key: &WebhookKey, webhook: Option<Arc<Webhook>>, waiting: Vec<Arc<Delivery>>) {
        let old = self.hooks.remove(key);
        let Some(webhook) = webhook else {
            self.flying -= old.map_or(0, |old| old.flying);
            return;
        };
        let same = old.as_ref().is_some_and(|old| old.webhook.uid == webhook.uid);
        // Another URL is another receiver: what it is owed is tried at once.
        let anew = old.as_ref().is_none_or(|old| !same || old.webhook.spec != webhook.spec);
        let mut old = old.unwrap_or_else(|| Hook {
            webhook: Arc::clone(&webhook),
            parcels: BTreeMap::new(),
            flying: 0,
            ails: false,
            rests: Timestamp::default(),
        });
        let mut parcels = BTreeMap::new();
        for delivery in waiting {
            let known = old.parcels.remove(&delivery.seq).filter(|_| same);
            let mut parcel = known.unwrap_or(Parcel {
                delivery,
                tries: 0,
                next: Timestamp::default(),
                stand: Stand::Waits,
            });
            if anew {
                parcel.next = Timestamp::default();
            }
            let seq = parcel.delivery.seq;
            parcels.insert(seq, parcel);
        }
        let flying = parcels.values().filter(|parcel| parcel.stand == Stand::Flies).count();
        self.flying = self.flying - old.flying + flying;
        let (ails, rests) = if anew { (false, Timestamp::default()) } else { (old.ails, old.rests) };
        self.hooks.insert(key.clone(), Hook { webhook, parcels, flying, ails, rests });
    }

    /// What is to be tried now; it is on its way then.
    pub fn start(&mut self, now: Timestamp) -> Vec<Try> {
        let mut tries = Vec::new();
        while self.flying < ALL_AT_ONCE {
            let ready = self.hooks.iter().filter(|(_, hook)| hook.room()).filter_map(|(key, hook)| {
                let (at, seq) = hook.first().filter(|(at, _)| *at <= now)?;
                Some((hook.flying, at, key, seq))
            });
            let Some((_, _, key, seq)) = ready.min() else { break };
            let key = key.clone();
            let Some(hook) = self.hooks.get_mut(&key) else { break };
            let Some(parcel) = hook.parcels.get_mut(&seq) else { break };
            parcel.stand = Stand::Flies;
            parcel.tries += 1;
            hook.flying += 1;
            self.flying += 1;
            tries.push(Try { webhook: Arc::clone(&hook.webhook), delivery: Arc::clone(&parcel.delivery) });
        }
        tries
    }

    /// When there is something to be tried, as far as places are free; `None` while nothing waits for a time.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        let open = self.hooks.values().filter(|hook| self.flying < ALL_AT_ONCE && hook.room());
        open.filter_map(Hook::first).map(|(at, _)| at).min()
    }

    /// Tries on their way.
    #[must_use]
    pub fn flying(&self) -> usize {
        self.flying
    }

    /// A try has ended. What the core is to be told of it, if anything.
    pub fn ended(&mut self, tried: &Try, outcome: Outcome, now: Timestamp, seed: u64) -> Option<Told> {
        let delivery = &tried.delivery;
        let key = (delivery.tenant.clone(), delivery.webhook.clone());
        let told = |what| Some(Told { key: delivery.key(), webhook_uid: delivery.webhook_uid.clone(), what });
        let known = self.hooks.get_mut(&key).filter(|hook| hook.webhook.uid == delivery.webhook_uid);
        let parcel = known.and_then(|hook| {
            let Hook { webhook, parcels, flying, ails, rests } = hook;
            let parcel = parcels.get_mut(&delivery.seq).filter(|parcel| parcel.stand == Stand::Flies)?;
            *flying -= 1;
            Some((webhook, parcel, ails, rests))
        });
        let Some((webhook, parcel, ails, rests)) = parcel else {
            // It was dropped meanwhile. That it has arrived counts all the same.
            return if outcome == Outcome::Delivered { told(ToldWhat::Delivered) } else { None };
        };
        self.flying -= 1;
        let verdict = decide(&outcome, parcel.tries, delivery.time, now, seed);
        *ails = outcome != Outcome::Delivered;
        let error = match outcome {
            Outcome::Delivered => String::new(),
            Outcome::Gone => "it answered 410 Gone".to_owned(),
            Outcome::Later(_, error) => {
                if let Verdict::Again(next) = verdict {
                    *rests = next;
                }
                error
            }
            Outcome::Failed(error) => error,
        };
        parcel.stand = Stand::Over;
        match verdict {
            Verdict::Done => told(ToldWhat::Delivered),
            Verdict::GiveUp => told(ToldWhat::GivenUp(error)),
            Verdict::Disable => told(ToldWhat::Gone(error)),
            Verdict::Again(next) => {
                (parcel.stand, parcel.next) = (Stand::Waits, next);
                let news = webhook.progress.last_error.as_ref().is_none_or(|(time, last)| {
                    *last != super::select::short(&error, Webhook::MAX_ERROR)
                        || time.0.saturating_add(ERROR_EVERY_MS) <= now.0
                });
                if news { told(ToldWhat::Failed(error)) } else { None }
            }
        }
    }
}
