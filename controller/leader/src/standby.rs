//! A controller that does not lead: it keeps a copy of what is stored, decoded, follows the leader key, and takes the lead when
//! the evidence says that the leader is gone. Evidence may be wrong; the guard is the fence ([`controller_election::lead`]).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use controller_core::Stored;
use controller_election::{
    lead::LeaderReport,
    mirror::{Mirror, Need},
};
use controller_rows::format::Format;
use controller_store::{Event, KeyValue, Op, Store, StoreError, Txn, WatchBatch, WatchStream};
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, spawn_blocking},
    time::Instant,
};
use tokio_stream::StreamExt as _;

use crate::{
    clock::Clock,
    codec,
    drive::Ended,
    error::StartError,
    handle::Handle,
    keys,
    leader::{self, Lead, Leadership},
    metrics::LoopMetrics,
    options::Options,
    records,
    rows::{self, Row},
    start::{Begin, launch, life, seed},
};

/// A leader that removes its own key mostly takes it anew at once: so long nobody else does.
const ABSENT: Duration = Duration::from_millis(150);
/// Wait after the store did not answer, and while several fight for the key.
const PAUSE: Duration = Duration::from_millis(100);
/// A watch may miss an event: the leader key is read so often, and the copy compared with all that is stored.
const READ_EVERY: Duration = Duration::from_secs(2);
const COMPARE_EVERY: Duration = Duration::from_secs(300);
/// Wait for a watch to bring what was stored before the lead was taken; then everything is listed, unless that takes longer.
const CATCH_UP: Duration = Duration::from_millis(500);
/// Longest wait for a write that is only to find out whether writes are taken.
const PROBE_TIME: Duration = Duration::from_millis(500);

/// The leader as the store names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The epoch of the leader's term.
    pub epoch: u64,
    /// Host and process, for people.
    pub holder: String,
    /// Where it is reached, `https://host:port`.
    pub endpoints: Vec<String>,
}

/// The leader of this epoch is gone, as far as the evidence goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone(pub u64);

/// A store as all parts of a controller share it.
pub type SharedStore = Arc<dyn Store>;

/// Who leads, as the store says.
///
/// # Errors
/// The store's own, and a value that cannot be read.
pub async fn leader(store: &dyn Store) -> Result<Option<Leader>, StartError> {
    let Some(kv) = store.get(keys::LEADER.into()).await? else { return Ok(None) };
    let record: records::Leader = codec::decode(&kv)?;
    let (holder, endpoints) = (record.holder, record.endpoints);
    Ok(Some(Leader { epoch: kv.create_revision, holder, endpoints }))
}

/// Removes a leader key that names `place`, for a process of that place that ends: it may have been asked to end between taking the key and
/// leading. True if there was one.
///
/// # Errors
/// The store's own, and a value that cannot be read.
pub async fn withdraw(store: &dyn Store, place: &[u8]) -> Result<bool, StartError> {
    let Some(kv) = store.get(keys::LEADER.into()).await? else { return Ok(false) };
    let record: records::Leader = codec::decode(&kv)?;
    if place.is_empty() || record.place != place {
        return Ok(false);
    }
    let gone = Txn::new().when(leader::fence(kv.create_revision)).then(Op::delete(keys::LEADER));
    Ok(store.txn(gone).await?.succeeded)
}

/// Whether the store takes writes of somebody who is not the leader, who leads on with this epoch meanwhile.
pub async fn takes_writes(store: &SharedStore, epoch: u64) -> bool {
    let value = Bytes::copy_from_slice(&epoch.to_be_bytes());
    let txn = Txn::new().when(leader::fence(epoch)).then(Op::put(keys::PROBE, value));
    let tried = tokio::time::timeout(PROBE_TIME, store.txn(txn)).await;
    matches!(tried, Ok(Ok(outcome)) if outcome.succeeded)
}

type Copy = Mirror<Bytes, Row>;

/// A controller that does not lead, with its copy of what is stored.
pub struct Standby {
    store: Arc<dyn Store>,
    options: Options,
    metrics: LoopMetrics,
    clock: Clock,
    rng: ChaCha20Rng,
    lead: Lead,
    copy: Copy,
    /// Of which version the rows are that the leader writes.
    format: Format,
    changes: Option<WatchStream>,
    /// How long the last listing took.
    listing: Duration,
}

impl Standby {
    /// Reads everything that is stored.
    ///
    /// # Errors
    /// As a leader's start: whatever this release cannot read is named, and nothing was written.
    pub async fn begin(
        store: Arc<dyn Store>,
        options: Options,
        metrics: LoopMetrics,
    ) -> Result<Self, StartError> {
        let clock = Clock::start_at(options.source.wall());
        let mut rng = ChaCha20Rng::from_seed(seed(options.source.as_ref())?);
        let lead = Lead::new(&options, life(&mut rng));
        let (copy, format, changes, listing) = (Copy::default(), Format::CURRENT, None, Duration::ZERO);
        let mut standby = Self { store, options, metrics, clock, rng, lead, copy, format, changes, listing };
        standby.list().await?;
        match standby.copy.take_first(|row| matches!(row, Row::Bad(_))) {
            Some(Row::Bad(error)) => Err(*error),
            _ => Ok(standby),
        }
    }

    /// Follows until it leads. `seen` gets every leader that is not this one; `gone` brings evidence.
    ///
    /// Dropping it between two polls loses nothing but the copy.
    ///
    /// # Errors
    /// What is stored cannot be read, or is not sound. Failures of the store are waited out.
    pub async fn lead(
        mut self,
        seen: &watch::Sender<Option<Leader>>,
        gone: &mut mpsc::Receiver<Gone>,
    ) -> Result<(Handle, JoinHandle<Ended>), StartError> {
        let mut silent = false;
        loop {
            // A leader of a later release has migrated the rows: this one can neither read them nor lead on them.
            self.lead.may_lead()?;
            match self.lead.settle(self.store.as_ref(), self.clock.now()).await {
                Ok(Leadership::Leading(epoch)) => return self.take_up(epoch).await,
                Ok(Leadership::Following(epoch)) if self.lead.was_here() => {
                    self.lead.report(LeaderReport::Gone(epoch))
                }
                Ok(Leadership::Following(epoch)) => {
                    let now = self.leader(epoch);
                    seen.send_if_modified(|before| {
                        let other = before.as_ref() != Some(&now);
                        if other {
                            *before = Some(now);
                        }
                        other
                    });
                    self.follow(epoch, gone).await;
                }
                Ok(Leadership::Contested) => tokio::time::sleep(PAUSE).await,
                Err(error) => {
                    if !std::mem::replace(&mut silent, true) {
                        tracing::warn!(%error, "the store does not say who leads; trying again");
                    }
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            }
            silent = false;
        }
    }

    fn leader(&self, epoch: u64) -> Leader {
        let record = self.lead.of_whom();
        Leader { epoch, holder: record.holder.clone(), endpoints: record.endpoints.clone() }
    }

    /// Keeps the copy fresh until there is something new about who leads.
    async fn follow(&mut self, epoch: u64, gone: &mut mpsc::Receiver<Gone>) {
        let mut read_at = Instant::now() + READ_EVERY;
        let mut compare_at = Instant::now() + COMPARE_EVERY;
        let mut absent_at = None;
        while self.lead.may_lead().is_ok() {
            let wake = absent_at.into_iter().chain([read_at, compare_at]).min().unwrap_or(read_at);
            tokio::select! {
                biased;
                evidence = gone.recv() => match evidence {
                    Some(Gone(of)) if of == epoch => return self.lead.report(LeaderReport::Gone(epoch)),
                    Some(_) => {}
                    // Nobody brings evidence any more; what the store shows is still followed.
                    None => tokio::time::sleep_until(read_at).await,
                },
                batch = next(&mut self.changes) => {
                    let Some(batch) = batch else { self.watch_again().await; continue };
                    match self.apply(batch) {
                        Some(Some(kv)) => return self.lead.found(Some(&kv)),
                        // Whoever leaves in good order says so besides.
                        Some(None) => absent_at = Some(Instant::now() + ABSENT),
                        None => {}
                    }
                }
                () = tokio::time::sleep_until(wake) => {
                    if absent_at.is_some_and(|at| at <= wake) {
                        return self.lead.found(None);
                    }
                    if compare_at <= wake {
                        compare_at = Instant::now() + COMPARE_EVERY;
                        self.compare().await;
                    }
                    if read_at <= wake {
                        read_at = Instant::now() + READ_EVERY;
                        match self.store.get(keys::LEADER.into()).await {
                            Ok(Some(kv)) if kv.create_revision == epoch => {}
                            Ok(found) => return self.lead.found(found.as_ref()),
                            // It is reported where leading depends on it.
                            Err(error) => tracing::debug!(%error, "the leader key cannot be read"),
                        }
                    }
                }
            }
        }
    }

    /// Takes in one revision; answers what it says of the leader key.
    fn apply(&mut self, batch: WatchBatch) -> Option<Option<KeyValue>> {
        let mut leader = None;
        self.follow_format(&batch);
        let format = &self.format;
        let rows = batch.events.into_iter().map(|event| {
            let (key, value) = match event {
                Event::Put { kv, .. } => (kv.key.clone(), Some(kv)),
                Event::Delete { key, .. } => (key, None),
            };
            let row = value.as_ref().map(|kv| Row::of(kv, format));
            if let Some(Row::Bad(error)) = &row {
                // It ends a controller that is to lead on it.
                tracing::error!(%error, "the leader has stored what this release cannot read");
            }
            if key == keys::LEADER.as_bytes() {
                leader = Some(value);
            }
            (key, row)
        });
        self.copy.changed(batch.revision, rows);
        leader
    }

    /// What this revision says of the version of the rows, which are then of it.
    fn follow_format(&mut self, batch: &WatchBatch) {
        let said = batch.events.iter().rev().find(|event| event.key() == keys::FORMAT.as_bytes());
        let stored = match said {
            Some(Event::Put { kv, .. }) => Some(kv.value.clone()),
            Some(Event::Delete { .. }) => None,
            None => return,
        };
        if let Ok(format) = Format::of(stored.as_ref()) {
            self.format = format;
        }
        self.lead.formatted(stored, false);
    }

    /// There is no watch, or no more.
    async fn watch_again(&mut self) {
        let begun = match self.copy.broken() {
            Need::Watch(from) => self.store.watch(keys::ROOT.into(), from).await,
            Need::List | Need::Nothing => Err(StoreError::Compacted { compact_revision: 0 }),
        };
        match begun {
            Ok(changes) => self.changes = Some(changes),
            Err(StoreError::Compacted { .. }) => {
                if let Err(error) = self.list().await {
                    tracing::debug!(%error, "the store cannot be listed; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the store cannot be watched; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn list(&mut self) -> Result<(), StartError> {
        self.changes = None;
        let begin = Instant::now();
        let listed = match rows::all(&self.store).await {
            Err(StartError::Format(error)) => {
                self.lead.refuse(error.clone());
                return Err(error.into());
            }
            listed => listed?,
        };
        self.listing = begin.elapsed();
        self.format = listed.format;
        self.lead.formatted(listed.stored, rows::are_none(listed.rows.iter().map(|(key, _)| key)));
        self.copy.listed(listed.revision, listed.rows.into_iter().collect());
        Ok(())
    }

    /// A watch is a hint: what it missed is found here.
    async fn compare(&mut self) {
        let Ok((list, revision)) = rows::revisions(&self.store).await else { return };
        let wrong = self.copy.differs(revision, &list);
        if let Some(first) = wrong.first() {
            let (key, count) = (first.escape_ascii(), wrong.len());
            tracing::error!(%key, count, "the watch of the store was wrong; everything is read anew");
            self.copy = Copy::default();
            self.changes = None;
        }
    }

    /// The leader key is this process's: nobody else writes any more, so the copy is whole once it has the key.
    async fn take_up(mut self, epoch: u64) -> Result<(Handle, JoinHandle<Ended>), StartError> {
        let until = Instant::now() + CATCH_UP.max(self.listing);
        while self.copy.at().is_none_or(|at| at < epoch) {
            match tokio::time::timeout_at(until, next(&mut self.changes)).await {
                Ok(Some(batch)) => _ = self.apply(batch),
                Ok(None) if Instant::now() < until => self.watch_again().await,
                Ok(None) | Err(_) => match self.list().await {
                    Ok(()) => {}
                    Err(StartError::Format(error)) => return Err(error.into()),
                    Err(error) => {
                        tracing::warn!(%error, "the store cannot be read; trying again");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
            }
        }
        self.lead.may_lead()?;
        let Self { store, options, metrics, clock, rng, mut lead, mut copy, format, .. } = self;
        if !format.is_current() {
            // What cannot be read is not to be written either.
            if let Some(Row::Bad(error)) = copy.take_first(|row| matches!(row, Row::Bad(_))) {
                return Err(*error);
            }
            leader::bring_up(&store, &mut lead, epoch).await?;
        }
        if format.rewrites() {
            let now = clock.now();
            let (state, revision) = leader::load(&store, &mut lead, &options.config, epoch, now).await?;
            return Ok(launch(Begin { state, epoch, revision, lead, store, options, metrics, clock, rng }));
        }
        let revision = copy.at().unwrap_or(epoch);
        let (config, now) = (options.config.clone(), clock.now());
        let few = copy.rows().len() <= rows::FEW;
        let build = move || {
            let mut stored = Stored::default();
            for (row, changed) in copy.into_rows().into_values() {
                row.sort_in(changed, &mut stored)?;
            }
            leader::build(&config, epoch, now, stored)
        };
        let state =
            if few { build()? } else { spawn_blocking(build).await.map_err(|_| StoreError::Closed)?? };
        Ok(launch(Begin { state, epoch, revision, lead, store, options, metrics, clock, rng }))
    }
}

/// The next revision of a watch; `None` when there is none, and from then on.
async fn next(changes: &mut Option<WatchStream>) -> Option<WatchBatch> {
    match changes.as_mut()?.next().await {
        Some(Ok(batch)) => Some(batch),
        Some(Err(error)) => {
            tracing::debug!(%error, "the watch of the store has ended");
            *changes = None;
            None
        }
        None => {
            *changes = None;
            None
        }
    }
}
