//! A model of etcd of which the members are servers of etcd's own calls: the rows are one truth, as if Raft had agreed on
//! them; members, their network and the times without a leader fail.

pub mod calls;
pub mod rows;
pub mod watch;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use integration_sim::rng::Rng;
use tokio::sync::Notify;
use tonic::Status;

use self::rows::{Refused, Rows};
use crate::{
    plant::Bug,
    record::Record,
    wire::{Compare, Event, KeyValue, Request, TargetUnion, TxnRequest, TxnResponse},
};

/// The prefix of the store under test, as in its options.
pub const PREFIX: &str = "/railyard";
/// Its keys, without the prefix.
const DATA: &str = "/railyard/data";
const LEADER: &str = "/railyard/data/rail/v1/leader";
/// The version of the rows.
const FORMAT: &str = "/railyard/data/rail/v1/format";
const PROBE: &str = "/railyard/data/rail/v1/probe";
const WRITERS: &str = "/railyard/meta/writers/";
/// Longest wait of etcd for its own leader.
const RAFT_TIMEOUT_MS: u64 = 1500;

/// How a member is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mood {
    /// Answers come so many milliseconds late, at most.
    pub slow_ms: u64,
    /// Of a thousand calls so many lose their answer, or time out and are done later, or never.
    pub lossy: u64,
}

/// What the members share.
pub struct Etcd {
    inner: Mutex<Inner>,
    /// Rows, or who leads, have changed.
    changed: Notify,
    record: Record,
    bug: Option<Bug>,
}

/// The truth, and what is wrong with who serves it.
pub struct Inner {
    /// The rows that all members serve.
    pub rows: Rows,
    /// The members have no leader before this time, in simulated milliseconds.
    pub leaderless_until_ms: u64,
    /// What is wrong with each member, by number.
    pub moods: Vec<Mood>,
    /// Watches' events come so many milliseconds late, at most.
    pub watch_lag_ms: u64,
    /// Whose the leader key is: the writer that put it.
    leader: Option<String>,
    rng: Rng,
    /// Transactions that changed something.
    pub commits: u64,
}

/// What becomes of a call.
enum Fate {
    Well,
    /// Done, and the answer is lost: it never comes, or an error does.
    LoseAnswer {
        silent: bool,
    },
    /// Lost on the way, in silence.
    LoseCall,
    /// Told to have timed out, and done so much later.
    Late(u64),
}

impl Etcd {
    /// An etcd of so many members, without rows.
    #[must_use]
    pub fn new(members: usize, rng: Rng, record: Record, bug: Option<Bug>) -> Arc<Self> {
        let inner = Inner {
            rows: Rows::default(),
            leaderless_until_ms: 0,
            moods: vec![Mood::default(); members],
            watch_lag_ms: 0,
            leader: None,
            rng,
            commits: 0,
        };
        Arc::new(Self { inner: Mutex::new(inner), changed: Notify::new(), record, bug })
    }

    /// Locks what all members share.
    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everybody who waits looks again.
    pub fn stir(&self) {
        self.changed.notify_waiters();
    }

    fn draw(&self, member: usize) -> (u64, Fate) {
        let mut inner = self.inner();
        let mood = inner.moods[member];
        let rng = &mut inner.rng;
        let delay = if mood.slow_ms > 0 { rng.range(0..mood.slow_ms) } else { 0 };
        let fate = if mood.lossy > 0 && rng.chance(mood.lossy) {
            match rng.below(4) {
                0 => Fate::LoseCall,
                1 => Fate::Late(rng.range(50..2500)),
                silent => Fate::LoseAnswer { silent: silent == 2 },
            }
        } else {
            Fate::Well
        };
        (delay, fate)
    }

    /// Milliseconds until there is a leader again.
    fn leaderless_ms(&self) -> u64 {
        let now = self.record.now_ms();
        self.inner().leaderless_until_ms.saturating_sub(now)
    }

    /// A call that is agreed on, at one member. `work` is done at most once, whatever becomes of the caller.
    async fn agreed<T: Send + 'static>(
        self: &Arc<Self>,
        member: usize,
        work: impl FnOnce(&Self) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Status> {
        let (delay, fate) = self.draw(member);
        pause(delay).await;
        let without = self.leaderless_ms();
        if without > 0 {
            let (proposed, done) = {
                let mut inner = self.inner();
                (inner.rng.chance(500), inner.rng.chance(500))
            };
            if !proposed {
                return Err(Status::unavailable("etcdserver: no leader"));
            }
            pause(without.min(RAFT_TIMEOUT_MS)).await;
            if done {
                let etcd = Arc::clone(self);
                tokio::spawn(async move {
                    etcd.leader_returns().await;
                    let _ = work(&etcd);
                });
            }
            return Err(Status::unavailable("etcdserver: request timed out"));
        }
        match fate {
            Fate::Well => work(self).map_err(refuse),
            Fate::LoseCall => std::future::pending().await,
            Fate::LoseAnswer { silent } => {
                let _ = work(self);
                if self.bug == Some(Bug::UnknownIsRefused) {
                    return Err(Status::unimplemented("etcdserver: not capable"));
                }
                if silent {
                    return std::future::pending().await;
                }
                Err(Status::unavailable("etcdserver: leader changed"))
            }
            Fate::Late(ms) => {
                let etcd = Arc::clone(self);
                tokio::spawn(async move {
                    pause(ms).await;
                    etcd.leader_returns().await;
                    let _ = work(&etcd);
                });
                if self.bug == Some(Bug::UnknownIsRefused) {
                    return Err(Status::unimplemented("etcdserver: not capable"));
                }
                Err(Status::unavailable("etcdserver: request timed out, possibly due to connection lost"))
            }
        }
    }

    async fn leader_returns(&self) {
        loop {
            match self.leaderless_ms() {
                0 => return,
                without => pause(without).await,
            }
        }
    }

    /// Applies a transaction, and checks that nobody but the leader has written.
    fn apply(&self, txn: &TxnRequest) -> Result<TxnResponse, Refused> {
        let weakened = self.weaken(txn);
        let mut inner = self.inner();
        let before = inner.rows.revision;
        let outcome = inner.rows.txn(weakened.as_ref().unwrap_or(txn));
        if inner.rows.revision > before {
            inner.commits += 1;
            self.look_at(&mut inner, txn);
        }
        drop(inner);
        self.stir();
        outcome
    }

    /// What a transaction would answer, without storing anything: a planted bug.
    fn pretend(&self, txn: &TxnRequest) -> Result<TxnResponse, Status> {
        let mut rows = self.inner().rows.clone();
        rows.txn(txn).map_err(refuse)
    }

    /// A planted bug drops conditions.
    fn weaken(&self, txn: &TxnRequest) -> Option<TxnRequest> {
        let drops = |compare: &Compare| match self.bug {
            Some(Bug::NoFence) => compare.key == LEADER.as_bytes() && fence(compare).is_some_and(|of| of > 0),
            Some(Bug::NoGuard) => compare.key.starts_with(WRITERS.as_bytes()),
            _ => false,
        };
        matches!(self.bug, Some(Bug::NoFence | Bug::NoGuard)).then(|| without(txn, &drops))
    }

    fn look_at(&self, inner: &mut Inner, txn: &TxnRequest) {
        let revision = inner.rows.revision;
        let events = inner.rows.log.get(&revision).map_or(&[][..], Vec::as_slice);
        let (mut data, mut leader) = (None, None);
        // Who takes the lead of a store that has no rows says in the same transaction in which version it will write them.
        let taken = |kv: &KeyValue| kv.key == LEADER.as_bytes() && kv.create_revision == revision;
        let takes_the_lead = events.iter().any(|event| event.kv.as_ref().is_some_and(taken));
        let mut line = format!("etcd: revision {revision}");
        for event in events {
            let Some(kv) = &event.kv else { continue };
            self.record.add(&kv.value);
            line.push_str(if event.r#type == 0 { " +" } else { " -" });
            line.push_str(&kv.key.escape_ascii().to_string());
            if kv.key == LEADER.as_bytes() {
                leader = Some(event.r#type == 0);
            } else if takes_the_lead && kv.key == FORMAT.as_bytes() {
                // Whether there was a leader is compared in the same transaction.
            } else if kv.key.starts_with(DATA.as_bytes()) && kv.key != PROBE.as_bytes() {
                data = Some(kv.key.clone());
            }
        }
        let writer = writer(events);
        self.record.report(&line);
        let key = inner.rows.rows.get(LEADER.as_bytes()).map_or(0, |kv| kv.create_revision);
        if let Some(key_written) = data {
            let said = txn.compare.iter().find(|one| one.key == LEADER.as_bytes()).and_then(fence);
            if inner.leader.is_none() || inner.leader != writer || said != Some(key) {
                let (leads, wrote) = (inner.leader.as_deref().unwrap_or("nobody"), writer.as_deref());
                self.record.fail(format!(
                    "revision {revision}: {} was written by {} with epoch {said:?}, but {leads} leads with epoch {key}",
                    key_written.escape_ascii(),
                    wrote.unwrap_or("somebody"),
                ));
            }
        }
        match leader {
            Some(true) => inner.leader = writer,
            Some(false) => inner.leader = None,
            None => {}
        }
    }

    /// Forgets all history but the newest.
    pub fn compact_all(&self) {
        let mut inner = self.inner();
        let revision = inner.rows.revision;
        // Compacted already is as good.
        let _ = inner.rows.compact(revision);
        drop(inner);
        self.stir();
    }

    /// Keys and values of the store under test, without its prefix.
    #[must_use]
    pub fn data(&self) -> Vec<KeyValue> {
        let inner = self.inner();
        let ours = inner.rows.rows.range(DATA.as_bytes().to_vec()..);
        let ours = ours.take_while(|(key, _)| key.starts_with(DATA.as_bytes()));
        ours.map(|(key, kv)| KeyValue { key: key[DATA.len()..].to_vec(), ..kv.clone() }).collect()
    }
}

/// Who wrote: the name in the slot that the transaction marks.
fn writer(events: &[Event]) -> Option<String> {
    let keys = events.iter().filter_map(|event| event.kv.as_ref());
    let slot = keys.filter_map(|kv| kv.key.strip_prefix(WRITERS.as_bytes())).next()?;
    let slot = std::str::from_utf8(slot).ok()?;
    Some(slot.split('-').next()?.to_owned())
}

fn fence(compare: &Compare) -> Option<i64> {
    match compare.target_union {
        Some(TargetUnion::CreateRevision(of)) => Some(of),
        _ => None,
    }
}

fn without(txn: &TxnRequest, drops: &dyn Fn(&Compare) -> bool) -> TxnRequest {
    let mut txn = txn.clone();
    txn.compare.retain(|compare| !drops(compare));
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        if let Some(Request::RequestTxn(inner)) = &mut op.request {
            *inner = without(inner, drops);
        }
    }
    txn
}

/// etcd's answer to what it refuses.
fn refuse(refused: Refused) -> Status {
    let words = refused.words();
    match refused {
        Refused::Compacted | Refused::Future => Status::out_of_range(words),
        Refused::NoSpace => Status::resource_exhausted(words),
        Refused::NoLease => Status::not_found(words),
        Refused::LeaseExists => Status::failed_precondition(words),
    }
}

async fn pause(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
