//! Taking the lead, also anew, and reading everything that is stored. Who leads is decided by `controller_election::lead`.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use controller_core::{Config, State, Stored};
use controller_election::lead::{Action, Candidate, LeaderReport};
use controller_rows::format::{Format, FormatError};
use controller_store::{Compare, KeyValue, Op, Store, StoreError, Txn};
use prost::Message;
use proto_model::Timestamp;

use crate::{codec, error::StartError, keys, migrate, options::Options, records, rows};

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
    /// What the store said of the version of its rows when it was read last: it must still say so when the lead is taken.
    format: Option<Bytes>,
    /// There are no rows yet: their version is written with the leader key.
    is_new: bool,
    /// The rows are of a version that this program does not read.
    refused: Option<FormatError>,
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
        let seen = records::Leader::default();
        Self { candidate, action, own, seen, format: None, is_new: false, refused: None }
    }

    /// What the store says of the version of its rows; `is_new` where there are none.
    pub fn formatted(&mut self, stored: Option<Bytes>, is_new: bool) {
        self.refused = Format::of(stored.as_ref()).err();
        (self.format, self.is_new) = (stored, is_new);
    }

    /// The rows are of a version that this program does not read.
    pub fn refuse(&mut self, error: FormatError) {
        self.refused = Some(error);
    }

    /// That the rows have become of a version which this program does not read: it must not lead on them.
    ///
    /// # Errors
    /// They have.
    pub fn may_lead(&self) -> Result<(), StartError> {
        self.refused.clone().map_or(Ok(()), |refused| Err(refused.into()))
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
                // It would be taken over rows that this program does not know.
                Action::Claim if self.refused.is_some() => return Ok(Leadership::Contested),
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
        let format = match &self.format {
            Some(format) => Compare::value(keys::FORMAT, format.clone()),
            None => Compare::absent(keys::FORMAT),
        };
        let claim = Txn::new().when(Compare::absent(keys::LEADER)).when(format);
        let mut claim = claim.then(Op::put(keys::LEADER, record));
        let current = (self.is_new && self.format.is_none())
            .then(|| Bytes::from(Format::CURRENT.encode(&migrate::program())));
        if let Some(current) = &current {
            claim = claim.then(Op::put(keys::FORMAT, current.clone()));
        }
        let outcome = store.txn(claim).await?;
        if outcome.succeeded {
            self.format = current.or(self.format.take());
        } else {
            let stored = store.get(keys::FORMAT.into()).await?.map(|kv| kv.value);
            self.formatted(stored, false);
        }
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
        let settled = lead.settle(store, now).await?;
        lead.may_lead()?;
        match settled {
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
pub async fn read(store: &Arc<dyn Store>, lead: &mut Lead) -> Result<Read, StartError> {
    let listed = rows::all(store).await?;
    lead.formatted(listed.stored, rows::are_none(listed.rows.iter().map(|(key, _)| key)));
    let mut stored = Stored::default();
    for (_, (row, changed)) in listed.rows {
        row.sort_in(changed, &mut stored)?;
    }
    Ok(Read { stored, revision: listed.revision, is_current: listed.format.is_current() || lead.is_new })
}

/// All that is stored.
pub(crate) struct Read {
    pub stored: Stored,
    /// The revision that it is of.
    pub revision: u64,
    /// Nothing of it is to be migrated.
    pub is_current: bool,
}

/// The core's state of what is stored.
///
/// # Errors
/// [`StartError::Unsound`] names every contradiction.
pub fn build(config: &Config, epoch: u64, now: Timestamp, stored: Stored) -> Result<State, StartError> {
    State::load(config.clone(), epoch, now, stored).map_err(|error| StartError::Unsound(error.to_string()))
}

/// Brings the rows to the version of this program, for whoever leads with `epoch` and has not begun.
///
/// # Errors
/// As for [`migrate::run`].
pub async fn bring_up(store: &Arc<dyn Store>, lead: &mut Lead, epoch: u64) -> Result<(), StartError> {
    let stored = migrate::run(store, epoch).await?;
    lead.formatted(stored, false);
    Ok(())
}

/// Reads all and builds the state of it; answers also the revision that it is valid at.
///
/// # Errors
/// As for [`read`] and [`build`].
pub async fn load(
    store: &Arc<dyn Store>,
    lead: &mut Lead,
    config: &Config,
    epoch: u64,
    now: Timestamp,
) -> Result<(State, u64), StartError> {
    let read = read(store, lead).await?;
    Ok((build(config, epoch, now, read.stored)?, read.revision))
}

/// Whether nothing of a failed transaction was stored for sure.
#[must_use]
pub fn surely_not_stored(error: &StoreError) -> bool {
    !matches!(error, StoreError::Unknown { .. } | StoreError::Closed)
}
