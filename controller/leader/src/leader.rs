//! Taking the lead, also anew, and reading everything that is stored. Who leads is decided by `controller_election::lead`.

use std::{sync::Arc, time::Duration};

use controller_core::{Config, State, Stored};
use controller_election::lead::{Action, Candidate, LeaderReport};
use controller_store::{Compare, KeyValue, Op, Store, StoreError, Txn};
use prost::Message;
use proto_model::Timestamp;

use crate::{codec, error::StartError, keys, options::Options, records, rows};

/// How often a take-over tries again when the leader key changes under it.
const ATTEMPTS: u32 = 8;
/// Wait between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// Questions to the store until it is settled who leads; more only while others fight for the key.
const STEPS: u32 = 16;

/// Who leads, as the store says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// This process leads with this epoch.
    Leading(u64),
    /// Another process leads with this epoch.
    Following(u64),
    /// Not settled: several processes claim the key.
    Contested,
}

/// This process as a candidate: carries its questions to the store.
pub(crate) struct Lead {
    candidate: Candidate,
    action: Action,
    /// What it writes into the key; `since_ms` is of the writing.
    own: records::Leader,
    /// What the key held when it was read last.
    seen: records::Leader,
}

impl Lead {
    /// A candidate that has asked nothing yet. `life`, 16 random bytes, distinguishes this life of the process from every other one.
    pub fn new(options: &Options, life: [u8; 16]) -> Self {
        let (candidate, action) = Candidate::begin();
        let own = records::Leader {
            holder: options.holder.clone(),
            since_ms: 0,
            life: life.to_vec(),
            endpoints: options.endpoints.clone(),
            place: options.place.clone(),
        };
        Self { candidate, action, own, seen: records::Leader::default() }
    }

    /// The holder of the key as it was read last.
    pub fn of_whom(&self) -> &records::Leader {
        &self.seen
    }

    /// Whether that holder is a former life in this process's own data folder, which is gone for sure.
    pub fn was_here(&self) -> bool {
        !self.own.place.is_empty() && self.seen.place == self.own.place && self.seen.life != self.own.life
    }

    /// The epoch with which it leads, unless that is in doubt.
    pub fn leads(&self) -> Option<u64> {
        self.candidate.leads()
    }

    /// Who held the leader key when it was read last, for people.
    pub fn seen(&self) -> &str {
        &self.seen.holder
    }

    /// The leader key as it was read, whoever asked for it.
    pub fn found(&mut self, found: Option<&KeyValue>) {
        let record = found.map(|kv| codec::decode::<records::Leader>(kv).unwrap_or_default());
        let own = record.as_ref().is_some_and(|record| record.life == self.own.life);
        self.seen = record.unwrap_or_default();
        self.report(LeaderReport::Key(found.map(|kv| (kv.create_revision, own))));
    }

    /// Reports an event, or an answer of the store, to the candidate.
    pub fn report(&mut self, report: LeaderReport) {
        self.action = self.candidate.step(report);
    }

    /// Asks the store until it is known who leads. `now` is written into the key, for people.
    ///
    /// # Errors
    /// The store's own; called again, it goes on with reading the key.
    pub async fn settle(&mut self, store: &dyn Store, now: Timestamp) -> Result<Leadership, StoreError> {
        for _ in 0..STEPS {
            let answer = match self.action {
                Action::Lead(epoch) => return Ok(Leadership::Leading(epoch)),
                Action::Follow(epoch) => return Ok(Leadership::Following(epoch)),
                Action::Read => store.get(keys::LEADER.into()).await.map(|found| self.found(found.as_ref())),
                Action::Remove(epoch) => self.remove(store, epoch).await,
                Action::Claim => self.claim(store, now).await,
            };
            if let Err(error) = answer {
                self.report(LeaderReport::Failed);
                return Err(error);
            }
        }
        Ok(Leadership::Contested)
    }

    /// Lets the lead go, for whoever comes next.
    ///
    /// # Errors
    /// The store's own; the key may be there still.
    pub async fn release(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let Some(epoch) = self.leads() else { return Ok(()) };
        self.report(LeaderReport::Doubt);
        self.remove(store, epoch).await
    }

    async fn remove(&mut self, store: &dyn Store, epoch: u64) -> Result<(), StoreError> {
        let outcome = store.txn(Txn::new().when(fence(epoch)).then(Op::delete(keys::LEADER))).await?;
        self.report(LeaderReport::Removed(outcome.succeeded));
        Ok(())
    }

    async fn claim(&mut self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let record = records::Leader { since_ms: now.0, ..self.own.clone() }.encode_to_vec();
        let claim = Txn::new().when(Compare::absent(keys::LEADER)).then(Op::put(keys::LEADER, record));
        let outcome = store.txn(claim).await?;
        self.report(LeaderReport::Claimed(outcome.succeeded.then_some(outcome.revision)));
        Ok(())
    }
}

/// Takes the leader key at the start of the process and answers its create revision: the epoch.
///
/// That this process was started is the evidence that the holder of a key that is there is gone or is to go: in the
/// embedded store, which holds a lock on its directory, it is gone for sure. The fence is the revision, never the
/// key's presence.
///
/// # Errors
/// [`StartError::Taken`] if another process keeps taking it, and the store's own errors.
pub async fn take(store: &dyn Store, lead: &mut Lead, now: Timestamp) -> Result<u64, StartError> {
    let mut seen = 0;
    for again in 0..ATTEMPTS {
        if again > 1 {
            tokio::time::sleep(PAUSE).await;
        }
        match lead.settle(store, now).await? {
            Leadership::Leading(epoch) => return Ok(epoch),
            Leadership::Following(epoch) => {
                seen = epoch;
                lead.report(LeaderReport::Gone(epoch));
            }
            Leadership::Contested => {}
        }
    }
    Err(StartError::Taken { epoch: seen })
}

/// Every write of a leader compares this.
#[must_use]
pub fn fence(epoch: u64) -> Compare {
    Compare::create_revision(keys::LEADER, epoch)
}

/// Reads all that is stored; answers the revision that it is valid at.
///
/// # Errors
/// A value that cannot be read, a key that nobody of ours wrote, a contradiction: each names the key. Nothing is
/// ever overwritten then.
pub async fn read(store: &Arc<dyn Store>) -> Result<(Stored, u64), StartError> {
    let (rows, revision) = rows::all(store).await?;
    let mut stored = Stored::default();
    for (_, (row, changed)) in rows {
        row.sort_in(changed, &mut stored)?;
    }
    Ok((stored, revision))
}

/// The core's state of what is stored.
///
/// # Errors
/// [`StartError::Unsound`] names every contradiction.
pub fn build(config: &Config, epoch: u64, now: Timestamp, stored: Stored) -> Result<State, StartError> {
    State::load(config.clone(), epoch, now, stored).map_err(|error| StartError::Unsound(error.to_string()))
}

/// Reads all and builds the state of it; answers also the revision that it is valid at.
///
/// # Errors
/// As for [`read`] and [`build`].
pub async fn load(
    store: &Arc<dyn Store>,
    config: &Config,
    epoch: u64,
    now: Timestamp,
) -> Result<(State, u64), StartError> {
    let (stored, revision) = read(store).await?;
    Ok((build(config, epoch, now, stored)?, revision))
}

/// Whether nothing of a failed transaction was stored for sure.
#[must_use]
pub fn surely_not_stored(error: &StoreError) -> bool {
    !matches!(error, StoreError::Unknown { .. } | StoreError::Closed)
}
