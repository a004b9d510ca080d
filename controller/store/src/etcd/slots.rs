//! What became of a transaction whose answer did not come: found out, never guessed.
//!
//! Each transaction that writes goes through a *slot*: a key of this process. It runs only while the slot's revision is the
//! one that this process knows (the guard), and writes its number there (the mark). Each slot carries one transaction at
//! a time. When an answer is missing, a *barrier* deletes the slot if it still has that revision. Then either
//!
//! - the barrier held: the transaction had not run, and never will, because its guard cannot hold any more; or
//! - it did not hold, and the mark in the slot says that it ran, at which revision, and which branch.
//!
//! A deletion needs no space, so this works in a full etcd too. As long as no barrier got through, nobody learns
//! anything of the store: what is read or written next waits for the barrier first.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use etcd_client::{ResponseHeader, TxnOpResponse};

use super::ask;
use super::failure::{Failure, Kind};
use super::link::{Link, Trying};
use super::plan::{self, Guard};
use super::space::{Space, end_of};
use crate::hub::lock;
use crate::source::{Source, unix_seconds};

/// Slots that nobody used for so long belong to processes that are gone.
const FORGOTTEN_S: u64 = 24 * 3600;

/// One slot between two transactions.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    key: Bytes,
    revision: i64,
    number: u64,
}

impl Slot {
    /// The guard of the next transaction. `now`: seconds since 1970.
    pub fn guard(&mut self, now: u64) -> Guard {
        self.number += 1;
        Guard {
            key: self.key.clone(),
            revision: self.revision,
            then: format!("{} then {now}", self.number).into(),
            otherwise: format!("{} else {now}", self.number).into(),
        }
    }

    /// etcd's revision of it.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The transaction's mark was written.
    pub fn marked(&mut self, revision: i64) {
        self.revision = revision;
    }
}

/// A transaction whose outcome is not known yet.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub slot: Slot,
    /// A barrier was sent, so the slot may be gone because of us.
    barred: bool,
}

impl Pending {
    pub fn new(slot: Slot) -> Self {
        Self { slot, barred: false }
    }
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Settled {
    /// It ran, at this revision; the slot is as it left it, and `succeeded` says whether the conditions held.
    Ran { slot: Slot, revision: i64, succeeded: bool },
    /// It did not run and never will, or it changed nothing.
    Not,
    /// The slot is gone and not by us: nobody can know.
    Lost,
}

/// The slots of this process.
#[derive(Debug)]
pub(crate) struct Slots {
    writer: String,
    source: Arc<dyn Source>,
    next: AtomicU64,
    idle: Mutex<Vec<Slot>>,
    unsettled: Mutex<Vec<Pending>>,
    /// Length of `unsettled`, to be looked at without the lock.
    open: AtomicUsize,
    /// One at a time settles what is unsettled.
    settling: tokio::sync::Mutex<()>,
}

impl Slots {
    pub fn new(writer: String, source: Arc<dyn Source>) -> Self {
        Self {
            writer,
            source,
            next: AtomicU64::new(0),
            idle: Mutex::default(),
            unsettled: Mutex::default(),
            open: AtomicUsize::new(0),
            settling: tokio::sync::Mutex::default(),
        }
    }

    /// The time of the source, in seconds since 1970.
    pub fn now(&self) -> u64 {
        unix_seconds(self.source.as_ref())
    }

    /// An idle slot, or a new one.
    ///
    /// # Errors
    /// A new slot was needed and could not be made.
    pub async fn take(&self, link: &Link, space: &Space) -> Result<Slot, Failure> {
        let idle = lock(&self.idle).pop();
        match idle {
            Some(slot) => Ok(slot),
            None => self.make(link, space).await,
        }
    }

    /// Makes a new slot, whose key no process has used before.
    ///
    /// # Errors
    /// etcd refused it, or no member answered within the patience.
    pub async fn make(&self, link: &Link, space: &Space) -> Result<Slot, Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key: Bytes = format!("{}{}-{number}", space.writers(), self.writer).into();
        let value: Bytes = format!("0 new {}", self.now()).into();
        // Further in, where etcd's quota does not look: deletions need a slot too, also in a full etcd.
        let put = plan::group(&[plan::put(key.clone(), value, 0)]);
        let make = &ask::Txn { success: vec![put], ..ask::Txn::default() };
        // Repeating it does no harm: the key is nobody else's, and the last answer counts.
        let made = link.call(|session| async move { session.txn(make).await });
        let revision = made.await?.header().map_or(0, ResponseHeader::revision);
        Ok(Slot { key, revision, number: 0 })
    }

    /// Gives a slot back.
    pub fn put_back(&self, slot: Slot) {
        lock(&self.idle).push(slot);
    }

    /// Keeps what could not be settled, for [`Slots::settle_all`].
    pub fn keep(&self, pending: Pending) {
        let mut unsettled = lock(&self.unsettled);
        unsettled.push(pending);
        self.open.store(unsettled.len(), Ordering::SeqCst);
    }

    /// Settles what earlier transactions left open. Their callers got [`StoreError::Unknown`](crate::StoreError::Unknown).
    ///
    /// # Errors
    /// One of them could not be settled within the patience; it and those not yet tried stay open.
    pub async fn settle_all(&self, link: &Link) -> Result<(), Failure> {
        if self.open.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        let _one = self.settling.lock().await;
        loop {
            let Some(mut pending) = lock(&self.unsettled).last().cloned() else { return Ok(()) };
            let settled = self.settle(link, &mut pending).await;
            let mut unsettled = lock(&self.unsettled);
            unsettled.pop();
            match settled {
                Ok(Settled::Ran { slot, .. }) => self.put_back(slot),
                Ok(Settled::Not | Settled::Lost) => {}
                Err(failure) => {
                    unsettled.push(pending);
                    return Err(failure);
                }
            }
            self.open.store(unsettled.len(), Ordering::SeqCst);
        }
    }

    /// Finds out what became of a transaction, for as long as our patience lasts.
    ///
    /// # Errors
    /// etcd refused the barrier, or no member answered within the patience.
    pub async fn settle(&self, link: &Link, pending: &mut Pending) -> Result<Settled, Failure> {
        let mut trying = Trying::new(link);
        loop {
            match barrier(link, pending).await {
                Ok(settled) => return Ok(settled),
                Err(failure) => trying.again(link, failure).await?,
            }
        }
    }

    /// Removes slots of processes that are long gone.
    ///
    /// # Errors
    /// etcd refused a read or a deletion, or no member answered within the patience.
    pub async fn sweep(&self, link: &Link, space: &Space) -> Result<usize, Failure> {
        let writers = space.writers();
        let ask = &ask::Range {
            key: Bytes::from(writers.clone()),
            range_end: end_of(writers.as_bytes()),
            limit: 1000,
            ..ask::Range::default()
        };
        let found = link.call(|session| async move { session.range(ask).await });
        let now = self.now();
        let mut swept = 0;
        for kv in found.await?.take_kvs() {
            let forgotten = mark(kv.value()).is_none_or(|mark| mark.at.saturating_add(FORGOTTEN_S) < now);
            if !forgotten {
                continue;
            }
            let revision = kv.mod_revision();
            let key = Bytes::from(kv.into_key_value().0);
            let sweep = &bar(&Guard { key, revision, then: Bytes::new(), otherwise: Bytes::new() });
            let done = link.call(|session| async move { session.txn(sweep).await });
            swept += usize::from(done.await?.succeeded());
        }
        Ok(swept)
    }
}

/// Deletes the slot if it is as it was; else reads it.
fn bar(guard: &Guard) -> ask::Txn {
    ask::Txn {
        compare: vec![plan::untouched(guard)],
        success: vec![plan::delete(guard.key.clone(), Bytes::new())],
        failure: vec![plan::get(guard.key.clone())],
    }
}

async fn barrier(link: &Link, pending: &mut Pending) -> Result<Settled, Failure> {
    let slot = &pending.slot;
    let guard =
        Guard { key: slot.key.clone(), revision: slot.revision, then: Bytes::new(), otherwise: Bytes::new() };
    let request = &bar(&guard);
    let answer = link.once(|session| async move { session.txn(request).await });
    let answer = match answer.await {
        Ok(answer) => answer,
        Err(failure) => {
            pending.barred |= failure.doubt;
            // A quota that is used up does not hinder deletions, and nothing else may hold up a barrier for good.
            let kind = if failure.kind == Kind::NoSpace { Kind::Unreachable } else { failure.kind };
            return Err(Failure { kind, ..failure });
        }
    };
    if answer.succeeded() {
        return Ok(Settled::Not);
    }
    let found = answer.op_responses().into_iter().next().and_then(|response| match response {
        TxnOpResponse::Get(mut range) => range.take_kvs().into_iter().next(),
        _ => None,
    });
    Ok(match found {
        None if pending.barred => Settled::Not,
        None => Settled::Lost,
        Some(kv) => match mark(kv.value()) {
            Some(mark) if mark.number == slot.number => {
                let revision = kv.mod_revision();
                let slot = Slot { revision, ..slot.clone() };
                Settled::Ran { slot, revision, succeeded: mark.succeeded }
            }
            _ => Settled::Lost,
        },
    })
}

/// What a slot says.
struct Mark {
    number: u64,
    succeeded: bool,
    at: u64,
}

fn mark(value: &[u8]) -> Option<Mark> {
    let text = std::str::from_utf8(value).ok()?;
    let mut words = text.split(' ');
    let (number, branch, at) = (words.next()?, words.next()?, words.next()?);
    Some(Mark { number: number.parse().ok()?, succeeded: branch == "then", at: at.parse().ok()? })
}
