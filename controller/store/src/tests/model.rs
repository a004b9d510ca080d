//! Random histories on both stores, beside a model that is simple enough to be believed: a full copy of all keys
//! per revision.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tokio_stream::StreamExt;

use super::disks::{SickDisk, open_on, options};
use crate::{
    Clock, Compare, CompareOp, EmbeddedStore, Event, History, KeyValue, LeaseId, Limits, ManualClock,
    MemoryStore, Op, OpResult, RangeRequest, Store, StoreError, Target, Txn,
};

/// Compares and operations as random numbers.
type Compares = Vec<(u8, u8, u8, u8)>;
type Ops = Vec<(u8, u8, u8)>;
type Keys = BTreeMap<Bytes, KeyValue>;

/// One step of a random history. Numbers that point somewhere are taken modulo what there is.
#[derive(Debug, Clone)]
enum Step {
    Txn { compares: Compares, success: Ops, failure: Ops },
    Range { prefix: u8, back: u8, limit: u8 },
    Watch { prefix: u8, back: u8, stop: u8 },
    Compact { back: u8 },
    Grant { ttl: u8 },
    KeepAlive { lease: u8 },
    Revoke { lease: u8 },
    Pass { seconds: u8 },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let op = || prop::collection::vec(any::<(u8, u8, u8)>(), 0..4);
    let compare = prop::collection::vec(any::<(u8, u8, u8, u8)>(), 0..3);
    let step = prop_oneof![
        8 => (compare, op(), op()).prop_map(|(compares, success, failure)| Step::Txn { compares, success, failure }),
        2 => any::<(u8, u8, u8)>().prop_map(|(prefix, back, limit)| Step::Range { prefix, back, limit }),
        2 => any::<(u8, u8, u8)>().prop_map(|(prefix, back, stop)| Step::Watch { prefix, back, stop }),
        1 => any::<u8>().prop_map(|back| Step::Compact { back }),
        1 => (1u8..9).prop_map(|ttl| Step::Grant { ttl }),
        1 => any::<u8>().prop_map(|lease| Step::KeepAlive { lease }),
        1 => any::<u8>().prop_map(|lease| Step::Revoke { lease }),
        1 => (0u8..5).prop_map(|seconds| Step::Pass { seconds }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..50)
}

fn key(n: u8) -> Bytes {
    Bytes::from(["a", "ab", "abc", "b", "b/1", "b/2", "\u{7f}"][n as usize % 7])
}

fn prefix(n: u8) -> Bytes {
    Bytes::from(["", "a", "ab", "b/", "zzz"][n as usize % 5])
}

/// The model: every revision is a full copy; `snapshots[i]` is revision `i + 1`.
struct Model {
    snapshots: Vec<Keys>,
    compacted: u64,
    leases: BTreeMap<u64, (Duration, Duration)>,
    granted: u64,
    now: Duration,
}

impl Model {
    fn revision(&self) -> u64 {
        self.snapshots.len() as u64
    }

    fn current(&self) -> &Keys {
        &self.snapshots[self.snapshots.len() - 1]
    }

    fn at(&self, revision: u64) -> &Keys {
        &self.snapshots[revision as usize - 1]
    }

    fn lease(&self, n: u8) -> LeaseId {
        LeaseId(u64::from(n) % (self.granted + 2) + 1)
    }

    fn txn(&self, compares: &Compares, success: &Ops, failure: &Ops) -> Txn {
        let compare = |&(k, op, target, value): &(u8, u8, u8, u8)| {
            let kv = self.current().get(&key(k));
            let near = |number: Option<u64>| (number.unwrap_or(0) + u64::from(value % 3)).saturating_sub(1);
            Compare {
                key: key(k),
                op: [CompareOp::Equal, CompareOp::NotEqual, CompareOp::Greater, CompareOp::Less]
                    [op as usize % 4],
                target: match target % 4 {
                    0 => Target::ModRevision(near(kv.map(|kv| kv.mod_revision))),
                    1 => Target::CreateRevision(near(kv.map(|kv| kv.create_revision))),
                    2 => Target::Version(near(kv.map(|kv| kv.version))),
                    _ => Target::Value(Bytes::from(vec![value % 4])),
                },
            }
        };
        let op = |&(kind, k, value): &(u8, u8, u8)| match kind % 8 {
            0..=2 => Op::put(key(k), vec![value % 4]),
            3 => Op::put_leased(key(k), vec![value % 4], self.lease(value)),
            4 | 5 => Op::delete(key(k)),
            6 => Op::delete_prefix(prefix(k)),
            _ => Op::get(key(k)),
        };
        Txn {
            compares: compares.iter().map(compare).collect(),
            success: success.iter().map(op).collect(),
            failure: failure.iter().map(op).collect(),
        }
    }

    /// Whether a branch writes a key twice, or deletes what it writes.
    fn clashes(ops: &[Op]) -> bool {
        let puts: Vec<_> =
            ops.iter().filter_map(|op| if let Op::Put { key, .. } = op { Some(key) } else { None }).collect();
        let twice = (0..puts.len()).any(|i| puts[..i].contains(&puts[i]));
        twice
            || ops.iter().any(|op| match op {
                Op::Delete { key } => puts.contains(&key),
                Op::DeletePrefix { prefix } => puts.iter().any(|key| key.starts_with(prefix)),
                _ => false,
            })
    }

    /// The outcome that the store must give, `None` for a refusal; on success the model moves on.
    fn run(&mut self, txn: &Txn) -> Option<(u64, bool, Vec<OpResult>)> {
        if Self::clashes(&txn.success) || Self::clashes(&txn.failure) {
            return None;
        }
        let mut keys = self.current().clone();
        let succeeded = txn.compares.iter().all(|compare| {
            let kv = keys.get(&compare.key);
            let (stored, given) = match &compare.target {
                Target::Value(value) => match kv {
                    None => return false,
                    Some(kv) => (kv.value.to_vec(), value.to_vec()),
                },
                Target::ModRevision(n) => (be(kv.map_or(0, |kv| kv.mod_revision)), be(*n)),
                Target::CreateRevision(n) => (be(kv.map_or(0, |kv| kv.create_revision)), be(*n)),
                Target::Version(n) => (be(kv.map_or(0, |kv| kv.version)), be(*n)),
            };
            match compare.op {
                CompareOp::Equal => stored == given,
                CompareOp::NotEqual => stored != given,
                CompareOp::Greater => stored > given,
                CompareOp::Less => stored < given,
            }
        });
        let next = self.revision() + 1;
        let mut results = Vec::new();
        let mut changed = false;
        for op in if succeeded { &txn.success } else { &txn.failure } {
            results.push(match op {
                Op::Put { key, value, lease } => {
                    if lease.is_some_and(|lease| !self.leases.contains_key(&lease.0)) {
                        return None;
                    }
                    let (create_revision, version) =
                        keys.get(key).map_or((next, 1), |kv| (kv.create_revision, kv.version + 1));
                    let (key, value, lease) = (key.clone(), value.clone(), *lease);
                    let kv = KeyValue {
                        key: key.clone(),
                        value,
                        create_revision,
                        mod_revision: next,
                        version,
                        lease,
                    };
                    keys.insert(key, kv);
                    changed = true;
                    OpResult::Put
                }
                Op::Delete { key } => {
                    let gone = keys.remove(key).is_some();
                    changed |= gone;
                    OpResult::Deleted(u64::from(gone))
                }
                Op::DeletePrefix { prefix } => {
                    let before = keys.len();
                    keys.retain(|key, _| !key.starts_with(prefix));
                    changed |= keys.len() != before;
                    OpResult::Deleted((before - keys.len()) as u64)
                }
                Op::Get { key } => OpResult::Got(keys.get(key).cloned()),
            });
        }
        if changed {
            self.snapshots.push(keys);
        }
        Some((self.revision(), succeeded, results))
    }

    fn end_lease(&mut self, id: u64) {
        self.leases.remove(&id);
        let mut keys = self.current().clone();
        keys.retain(|_, kv| kv.lease != Some(LeaseId(id)));
        if keys.len() != self.current().len() {
            self.snapshots.push(keys);
        }
    }

    fn expire(&mut self) {
        let due: Vec<u64> =
            self.leases.iter().filter(|(_, (_, end))| *end <= self.now).map(|(id, _)| *id).collect();
        due.into_iter().for_each(|id| self.end_lease(id));
    }

    /// What changed at `revision` under the prefix, by key.
    fn changes(&self, revision: u64, prefix: &[u8]) -> BTreeMap<Bytes, (Option<KeyValue>, Option<KeyValue>)> {
        let (before, after) = (self.at(revision - 1), self.at(revision));
        let keys = before.keys().chain(after.keys()).filter(|key| key.starts_with(prefix));
        keys.map(|key| (key.clone(), (before.get(key).cloned(), after.get(key).cloned())))
            .filter(|(_, (before, after))| before != after)
            .collect()
    }
}

fn be(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// A store and the way to reopen it and move its time.
trait Subject {
    fn store(&self) -> &dyn Store;
    async fn tick(&self);
    fn reopen(self) -> Self;
    fn survives(&self) -> bool;
}

struct Memory(MemoryStore);

impl Subject for Memory {
    fn store(&self) -> &dyn Store {
        &self.0
    }
    async fn tick(&self) {
        self.0.tick();
    }
    fn reopen(self) -> Self {
        self
    }
    fn survives(&self) -> bool {
        false
    }
}

struct Embedded {
    store: EmbeddedStore,
    disk: Arc<SickDisk>,
    options: crate::EmbeddedOptions,
}

impl Subject for Embedded {
    fn store(&self) -> &dyn Store {
        &self.store
    }
    async fn tick(&self) {
        self.store.tick().await.unwrap();
    }
    fn reopen(self) -> Self {
        drop(self.store);
        let disk = self.disk.cut_power(|| false);
        Self { store: open_on(&disk, &self.options).unwrap(), disk, options: self.options }
    }
    fn survives(&self) -> bool {
        true
    }
}

async fn play<S: Subject>(mut subject: S, clock: &ManualClock, steps: &[Step]) {
    let mut model = Model {
        snapshots: vec![Keys::new()],
        compacted: 0,
        leases: BTreeMap::new(),
        granted: 0,
        now: clock.now(),
    };
    for step in steps {
        model.expire();
        if let Step::Reopen = step {
            subject = subject.reopen();
            if subject.survives() {
                let now = model.now;
                model.leases.values_mut().for_each(|(ttl, end)| *end = now + *ttl);
            }
        } else if let Step::Pass { seconds } = step {
            let by = Duration::from_secs(u64::from(*seconds));
            clock.advance(by);
            model.now += by;
            model.expire();
            subject.tick().await;
        } else {
            play_one(subject.store(), &mut model, step).await;
        }
        let status = subject.store().status().await.unwrap();
        assert_eq!(status.revision, model.revision(), "after {step:?}");
        assert_eq!(status.leases, model.leases.len() as u64, "after {step:?}");
        let bytes: usize = model.current().values().map(|kv| kv.key.len() + kv.value.len()).sum();
        assert_eq!(status.bytes, bytes as u64, "after {step:?}");
    }
    let now = subject.store().range(RangeRequest::default()).await.unwrap();
    assert_eq!(now.items, model.current().values().cloned().collect::<Vec<_>>());
}

async fn play_one(store: &dyn Store, model: &mut Model, step: &Step) {
    match step {
        Step::Txn { compares, success, failure } => {
            let txn = model.txn(compares, success, failure);
            let expected = model.run(&txn);
            let outcome = store.txn(txn.clone()).await.map(|o| (o.revision, o.succeeded, o.results));
            assert_eq!(outcome.as_ref().ok(), expected.as_ref(), "{txn:?} gave {outcome:?}");
        }
        Step::Range { prefix: p, back, limit } => {
            let revision = model.revision().saturating_sub(u64::from(*back) % 20);
            let limit = usize::from(limit % 8);
            let request =
                RangeRequest { limit, revision: Some(revision), ..RangeRequest::prefix(prefix(*p)) };
            let result = store.range(request).await;
            if revision < model.compacted {
                assert_eq!(result, Err(StoreError::Compacted { compact_revision: model.compacted }));
                return;
            }
            let empty = Keys::new();
            let keys = if revision == 0 { &empty } else { model.at(revision) };
            let all: Vec<_> = keys.values().filter(|kv| kv.key.starts_with(&prefix(*p))).cloned().collect();
            let result = result.unwrap();
            let take = if limit == 0 { all.len() } else { limit.min(all.len()) };
            assert_eq!((&result.items[..], result.more), (&all[..take], take < all.len()));
        }
        Step::Watch { prefix: p, back, stop } => watch(store, model, &prefix(*p), (*back, *stop)).await,
        Step::Compact { back } => {
            let revision = model.revision().saturating_sub(u64::from(*back) % 10);
            store.compact(revision).await.unwrap();
            model.compacted = model.compacted.max(revision);
        }
        Step::Grant { ttl } => {
            let ttl = Duration::from_secs(u64::from(*ttl));
            model.granted += 1;
            assert_eq!(store.lease_grant(ttl).await.unwrap().id, LeaseId(model.granted));
            model.leases.insert(model.granted, (ttl, model.now + ttl));
        }
        Step::KeepAlive { lease } => {
            let (lease, now) = (model.lease(*lease), model.now);
            let kept = store.lease_keep_alive(lease).await;
            assert_eq!(kept.is_ok(), model.leases.contains_key(&lease.0));
            model.leases.entry(lease.0).and_modify(|(ttl, end)| *end = now + *ttl);
        }
        Step::Revoke { lease } => {
            let lease = model.lease(*lease);
            assert_eq!(store.lease_revoke(lease).await.is_ok(), model.leases.contains_key(&lease.0));
            if model.leases.contains_key(&lease.0) {
                model.end_lease(lease.0);
            }
        }
        Step::Pass { .. } | Step::Reopen => {}
    }
}

/// Watches from some way back, breaks off, resumes, and compares with what the model says happened.
async fn watch(store: &dyn Store, model: &Model, prefix: &Bytes, (back, stop): (u8, u8)) {
    let start = (model.revision() + 1).saturating_sub(u64::from(back) % 20).max(2);
    let mut from = start;
    if start <= model.compacted {
        let refused = store.watch(prefix.clone(), start).await.err();
        assert_eq!(refused, Some(StoreError::Compacted { compact_revision: model.compacted }));
        return;
    }
    let expected: Vec<_> = (start..=model.revision())
        .map(|revision| (revision, model.changes(revision, prefix)))
        .filter(|(_, changes)| !changes.is_empty())
        .collect();
    let mut stream = store.watch(prefix.clone(), from).await.unwrap();
    for (i, (revision, changes)) in expected.iter().enumerate() {
        if i % (usize::from(stop % 5) + 1) == 0 {
            stream = store.watch(prefix.clone(), from).await.unwrap();
        }
        let batch = stream.next().await.unwrap().unwrap();
        assert_eq!(batch.revision, *revision);
        from = batch.revision + 1;
        assert_eq!(batch.events.len(), changes.len(), "{batch:?}");
        for event in &batch.events {
            let (before, after) = &changes[event.key()];
            assert_eq!(event.prev(), before.as_ref());
            match event {
                Event::Put { kv, .. } => assert_eq!(Some(kv), after.as_ref()),
                Event::Delete { revision: at, .. } => assert_eq!((after, at), (&None, revision)),
            }
        }
    }
    let more = tokio::time::timeout(Duration::ZERO, stream.next()).await;
    assert!(more.is_err(), "more than happened: {more:?}");
}

fn run(steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let clock = Arc::new(ManualClock::default());
        let memory = MemoryStore::new(clock.clone(), Limits::default(), History::default());
        play(Memory(memory), &clock, steps).await;
        let clock = Arc::new(ManualClock::default());
        let disk = SickDisk::with_store();
        let options = crate::EmbeddedOptions { clock: clock.clone(), ..options() };
        let store = open_on(&disk, &options).unwrap();
        play(Embedded { store, disk, options }, &clock, steps).await;
    });
}

/// 96 histories, or as many as `PROPTEST_CASES` says.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(96);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn both_stores_do_what_the_model_does(steps in steps()) {
        run(&steps);
    }
}
