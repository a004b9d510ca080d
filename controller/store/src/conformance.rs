//! What every store must do, as one suite: a store's tests call [`store_conformance!`](crate::store_conformance)
//! with a way to make a rig. Each case works under its own prefix, and only with revisions relative to where it
//! began, so that a shared server can be tested too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation here is a failed test"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_stream::StreamExt;

use crate::{
    Compare, CompareOp, Event, LeaseId, Op, OpResult, RangeRequest, Store, StoreError, Target, Txn,
    WatchBatch, WatchStream,
};

/// A store under test and the hand on its clock.
#[async_trait]
pub trait Rig: Send + Sync {
    /// The store under test.
    fn store(&self) -> Arc<dyn Store>;
    /// Lets `by` pass for leases, and waits until the store has noticed.
    async fn advance(&self, by: Duration);
}

/// Makes one `#[tokio::test]` per case of the suite; the argument is an expression that makes a fresh [`Rig`],
/// or `None` where the store cannot be had here (it says why as a line `skipped: ...`).
#[macro_export]
macro_rules! store_conformance {
    ($rig:expr) => {
        $crate::store_conformance!(@ $rig;
            revisions_count_transactions, every_compare, transactions_are_whole, bad_requests_change_nothing,
            pages_are_one_revision, the_past_can_be_read, watches_see_everything_once, watches_resume,
            compaction_is_reported, leases_end_in_one_revision, leases_are_kept_and_moved, compare_and_swap_never_loses,
            resumed_watches_under_load);
    };
    (@ $rig:expr; $($case:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let Some(rig) = $rig else { return };
                $crate::conformance::$case(&rig).await;
            }
        )*
    };
}

/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(20);

fn key(prefix: &str, name: impl std::fmt::Display) -> Bytes {
    Bytes::from(format!("{prefix}/{name}"))
}

async fn next(stream: &mut WatchStream) -> Result<WatchBatch, StoreError> {
    tokio::time::timeout(SOON, stream.next()).await.expect("an event in time").expect("an open stream")
}

async fn put(store: &dyn Store, key: &Bytes, value: &str) -> u64 {
    store.put(key.clone(), Bytes::from(value.to_owned())).await.unwrap()
}

/// Revision, create and mod revision, and version move as in etcd.
pub async fn revisions_count_transactions(rig: &dyn Rig) {
    let store = rig.store();
    let k = key("rev", "a");
    assert_eq!(store.get(k.clone()).await.unwrap(), None);
    let start = store.range(RangeRequest::prefix("rev/")).await.unwrap().revision;
    let first = put(&*store, &k, "1").await;
    assert_eq!(first, start + 1);
    assert_eq!(put(&*store, &k, "2").await, start + 2);
    let kv = store.get(k.clone()).await.unwrap().unwrap();
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (first, first + 1, 2));
    assert_eq!((&kv.value[..], kv.lease), (&b"2"[..], None));
    assert_eq!(store.delete(k.clone()).await.unwrap(), start + 3);
    assert_eq!(store.delete(k.clone()).await.unwrap(), start + 3, "deleting nothing takes no revision");
    assert_eq!(put(&*store, &k, "3").await, start + 4);
    let kv = store.get(k).await.unwrap().unwrap();
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (start + 4, start + 4, 1));
    assert!(store.status().await.unwrap().revision >= start + 4);
}

/// Each target with each relation, on a present and on an absent key.
pub async fn every_compare(rig: &dyn Rig) {
    let store = rig.store();
    let (here, gone) = (key("cmp", "here"), key("cmp", "gone"));
    put(&*store, &here, "m").await;
    put(&*store, &here, "m").await;
    let kv = store.get(here.clone()).await.unwrap().unwrap();
    let number = |stored: u64, make: fn(u64) -> Target| {
        [(stored + 1, CompareOp::Less), (stored, CompareOp::Equal), (stored - 1, CompareOp::Greater)]
            .map(|(given, op)| (make(given), op))
    };
    let mut cases = Vec::new();
    cases.extend(number(kv.mod_revision, Target::ModRevision));
    cases.extend(number(kv.create_revision, Target::CreateRevision));
    cases.extend(number(kv.version, Target::Version));
    cases.extend(
        [("n", CompareOp::Less), ("m", CompareOp::Equal), ("l", CompareOp::Greater)]
            .map(|(v, op)| (Target::Value(Bytes::from(v)), op)),
    );
    let all = [CompareOp::Equal, CompareOp::NotEqual, CompareOp::Greater, CompareOp::Less];
    for (target, relation) in cases {
        for op in all {
            let compare = Compare { key: here.clone(), op, target: target.clone() };
            let expected = op == relation || (op == CompareOp::NotEqual && relation != CompareOp::Equal);
            let outcome = store.txn(Txn::new().when(compare)).await.unwrap();
            assert_eq!(outcome.succeeded, expected, "{target:?} {op:?}");
        }
    }
    for op in all {
        for target in [Target::ModRevision(0), Target::CreateRevision(0), Target::Version(0)] {
            let compare = Compare { key: gone.clone(), op, target: target.clone() };
            let outcome = store.txn(Txn::new().when(compare)).await.unwrap();
            assert_eq!(outcome.succeeded, op == CompareOp::Equal, "absent {target:?} {op:?}");
        }
        let compare = Compare { key: gone.clone(), op, target: Target::Value(Bytes::from("m")) };
        assert!(!store.txn(Txn::new().when(compare)).await.unwrap().succeeded, "absent value {op:?}");
    }
}

/// All operations of a branch in one revision, in order; the other branch not at all.
pub async fn transactions_are_whole(rig: &dyn Rig) {
    let store = rig.store();
    let [a, b, c] = ["a", "b", "c"].map(|name| key("txn", name));
    put(&*store, &key("txn", "doomed/1"), "x").await;
    let before = put(&*store, &key("txn", "doomed/2"), "x").await;
    let txn = Txn::new()
        .when(Compare::absent(a.clone()))
        .when(Compare::exists(key("txn", "doomed/1")))
        .then(Op::put(a.clone(), "1"))
        .then(Op::get(a.clone()))
        .then(Op::put(b.clone(), "2"))
        .then(Op::delete(c.clone()))
        .then(Op::delete_prefix(key("txn", "doomed/")))
        .then(Op::get(key("txn", "doomed/1")))
        .otherwise(Op::get(a.clone()));
    let outcome = store.txn(txn.clone()).await.unwrap();
    assert!(outcome.succeeded);
    assert_eq!(outcome.revision, before + 1);
    let OpResult::Got(Some(seen)) = &outcome.results[1] else { panic!("{outcome:?}") };
    assert_eq!((&seen.value[..], seen.mod_revision), (&b"1"[..], before + 1));
    assert_eq!(outcome.results[3..], [OpResult::Deleted(0), OpResult::Deleted(2), OpResult::Got(None)]);
    let items = store.range(RangeRequest::prefix("txn/")).await.unwrap().items;
    assert_eq!(items.iter().map(|kv| kv.key.clone()).collect::<Vec<_>>(), [a.clone(), b]);
    assert!(items.iter().all(|kv| kv.mod_revision == before + 1));
    let conflict = store.txn(txn).await.unwrap();
    assert!(!conflict.succeeded);
    assert_eq!(conflict.revision, before + 1, "reading takes no revision");
    assert!(matches!(&conflict.results[..], [OpResult::Got(Some(kv))] if kv.key == a));
}

/// Typed refusals, and no trace of the refused.
pub async fn bad_requests_change_nothing(rig: &dyn Rig) {
    let store = rig.store();
    let limits = store.limits();
    let k = key("bad", "k");
    let before = put(&*store, &k, "v").await;
    let twice = Txn::new().then(Op::put(k.clone(), "1")).then(Op::put(k.clone(), "2"));
    let swept = Txn::new().then(Op::put(k.clone(), "1")).then(Op::delete_prefix("bad/"));
    let many = (0..=limits.txn_ops).fold(Txn::new(), |txn, i| txn.then(Op::put(key("bad", i), "")));
    let large = Txn::new().then(Op::put(k.clone(), vec![0; limits.value_bytes + 1]));
    let long = Txn::new().then(Op::put(vec![b'k'; limits.key_bytes + 1], ""));
    let empty = Txn::new().then(Op::put("", "v"));
    let leased =
        Txn::new().then(Op::put(k.clone(), "1")).then(Op::put_leased(key("bad", "l"), "", LeaseId(u64::MAX)));
    assert!(matches!(store.txn(twice).await, Err(StoreError::DuplicateKey { .. })));
    assert!(matches!(store.txn(swept).await, Err(StoreError::DuplicateKey { .. })));
    assert!(matches!(store.txn(many).await, Err(StoreError::TooManyOps { .. })));
    assert!(matches!(store.txn(large).await, Err(StoreError::ValueTooLarge { .. })));
    assert!(matches!(store.txn(long).await, Err(StoreError::KeyLength { .. })));
    assert!(matches!(store.txn(empty).await, Err(StoreError::KeyLength { .. })));
    assert!(matches!(store.txn(leased).await, Err(StoreError::LeaseNotFound { .. })));
    assert!(matches!(store.get(Bytes::new()).await, Err(StoreError::KeyLength { .. })));
    let after = store.range(RangeRequest::prefix("bad/")).await.unwrap();
    assert_eq!((after.items.len(), &after.items[0].value[..]), (1, &b"v"[..]));
    assert_eq!(after.items[0].mod_revision, before);
}

/// Pages of a range show one revision, whatever is written in between; prefixes end where they end.
pub async fn pages_are_one_revision(rig: &dyn Rig) {
    let store = rig.store();
    for i in 0..10 {
        put(&*store, &key("page", format!("{i:02}")), "old").await;
    }
    for outside in [&b"page"[..], b"page.", b"page0", b"pagf/", b"page\xff"] {
        put(&*store, &Bytes::copy_from_slice(outside), "outside").await;
    }
    let mut request = RangeRequest { limit: 3, ..RangeRequest::prefix("page/") };
    let mut found = Vec::new();
    loop {
        let page = store.range(request.clone()).await.unwrap();
        assert_eq!(page.revision, *request.revision.get_or_insert(page.revision));
        request.after = page.items.last().map(|kv| kv.key.clone());
        found.extend(page.items);
        // Between the pages keys change, vanish and appear, before and after the cursor.
        put(&*store, &key("page", "00"), "new").await;
        store.delete(key("page", "09")).await.unwrap();
        put(&*store, &key("page", "055"), "new").await;
        if !page.more {
            break;
        }
    }
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|kv| &kv.value[..] == b"old"));
    assert!(found.windows(2).all(|pair| pair[0].key < pair[1].key));
    let all = store.range_all(Bytes::from("page/")).await.unwrap();
    assert_eq!((all.items.len(), all.more), (10, false));
    let (mut pages, mut paged) = (Arc::clone(&store).pages("page/".into()), Vec::new());
    let mut more = true;
    while let Some(page) = pages.recv().await {
        let page = page.unwrap();
        assert_eq!(page.revision, all.revision);
        paged.extend(page.items);
        more = page.more;
    }
    assert_eq!((paged, more), (all.items, false));
    let future = RangeRequest { revision: Some(all.revision + 1_000_000), ..RangeRequest::prefix("page/") };
    assert!(matches!(store.range(future).await, Err(StoreError::FutureRevision { .. })));
}

/// A range as of an older revision shows what was then.
pub async fn the_past_can_be_read(rig: &dyn Rig) {
    let store = rig.store();
    let k = key("past", "k");
    let first = put(&*store, &k, "1").await;
    put(&*store, &k, "2").await;
    let gone = store.delete(k.clone()).await.unwrap();
    put(&*store, &key("past", "l"), "x").await;
    for (revision, expected) in
        [(first - 1, vec![]), (first, vec!["1"]), (first + 1, vec!["2"]), (gone, vec![])]
    {
        let request = RangeRequest { revision: Some(revision), ..RangeRequest::prefix("past/") };
        let then = store.range(request).await.unwrap();
        assert_eq!(then.revision, revision);
        let values: Vec<_> = then.items.iter().map(|kv| kv.value.clone()).collect();
        assert_eq!(values, expected, "at {revision}");
    }
}

/// Live and past events, one batch per revision, only under the prefix, with what was before.
pub async fn watches_see_everything_once(rig: &dyn Rig) {
    let store = rig.store();
    let [a, b] = ["a", "b"].map(|name| key("watch", name));
    let first = put(&*store, &a, "1").await;
    let mut live = store.watch(Bytes::from("watch/"), 0).await.unwrap();
    let mut past = store.watch(Bytes::from("watch/"), first).await.unwrap();
    let mut future = store.watch(Bytes::from("watch/"), first + 3).await.unwrap();
    put(&*store, &key("elsewhere", "x"), "1").await;
    store.txn(Txn::new().then(Op::put(a.clone(), "2")).then(Op::put(b.clone(), "2"))).await.unwrap();
    store.txn(Txn::new().then(Op::delete_prefix("watch/"))).await.unwrap();
    let initial = next(&mut past).await.unwrap();
    assert_eq!(initial.revision, first);
    assert!(matches!(&initial.events[..], [Event::Put { kv, prev: None }] if kv.key == a));
    for stream in [&mut live, &mut past] {
        let both = next(stream).await.unwrap();
        assert_eq!(both.revision, first + 2);
        let [Event::Put { kv, prev: Some(prev) }, Event::Put { kv: other, prev: None }] = &both.events[..]
        else {
            panic!("{both:?}")
        };
        assert_eq!((&kv.value[..], &prev.value[..], &other.key), (&b"2"[..], &b"1"[..], &b));
    }
    for stream in [&mut live, &mut past, &mut future] {
        let deleted = next(stream).await.unwrap();
        assert_eq!((deleted.revision, deleted.events.len()), (first + 3, 2));
        assert!(matches!(&deleted.events[0], Event::Delete { key, prev: Some(_), .. } if *key == a));
    }
}

/// A watch broken off anywhere and resumed at the last seen revision + 1 misses nothing and repeats nothing.
pub async fn watches_resume(rig: &dyn Rig) {
    let store = rig.store();
    let start = put(&*store, &key("resume", "start"), "").await;
    for i in 0..20 {
        put(&*store, &key("resume", i % 3), &i.to_string()).await;
    }
    for stop in 0..20 {
        let mut seen = Vec::new();
        let mut from = start + 1;
        for take in [stop, 20 - stop] {
            let mut stream = store.watch(Bytes::from("resume/"), from).await.unwrap();
            for _ in 0..take {
                let batch = next(&mut stream).await.unwrap();
                from = batch.revision + 1;
                seen.push(batch.revision);
            }
        }
        assert_eq!(seen, (start + 1..=start + 20).collect::<Vec<_>>());
    }
}

/// What was compacted cannot be read or watched, and the answer says from where it can.
pub async fn compaction_is_reported(rig: &dyn Rig) {
    let store = rig.store();
    let k = key("compact", "k");
    let first = put(&*store, &k, "1").await;
    let last = put(&*store, &k, "2").await;
    let mut live = store.watch(Bytes::from("compact/"), 0).await.unwrap();
    store.compact(last).await.unwrap();
    store.compact(first).await.expect("compacting again is no error");
    let gone = store.watch(Bytes::from("compact/"), first).await;
    let reported = match gone {
        Err(error) => error,
        Ok(mut stream) => next(&mut stream).await.unwrap_err(),
    };
    assert!(
        matches!(reported, StoreError::Compacted { compact_revision } if compact_revision >= last),
        "{reported:?}"
    );
    let request = RangeRequest { revision: Some(first), ..RangeRequest::prefix("compact/") };
    assert!(matches!(store.range(request).await, Err(StoreError::Compacted { .. })));
    let now = store.range(RangeRequest::prefix("compact/")).await.unwrap();
    assert_eq!(&now.items[0].value[..], b"2");
    let mut again = store.watch(Bytes::from("compact/"), now.revision + 1).await.unwrap();
    let next_revision = put(&*store, &k, "3").await;
    assert_eq!(next(&mut again).await.unwrap().revision, next_revision);
    assert_eq!(
        next(&mut live).await.unwrap().revision,
        next_revision,
        "a watch that is up to date is not cut off"
    );
    let future = store.compact(next_revision + 1_000_000).await;
    assert!(matches!(future, Err(StoreError::FutureRevision { .. })));
}

/// All keys of an ended lease vanish in one revision, by expiry and by revocation.
pub async fn leases_end_in_one_revision(rig: &dyn Rig) {
    let store = rig.store();
    for (ttl, revoke) in [(2, false), (3600, true)] {
        let lease = store.lease_grant(Duration::from_secs(ttl)).await.unwrap().id;
        let txn = (0..3).fold(Txn::new(), |txn, i| txn.then(Op::put_leased(key("lease", i), "", lease)));
        let made = store.txn(txn.then(Op::put(key("lease", "stays"), ""))).await.unwrap().revision;
        assert_eq!(store.get(key("lease", 0)).await.unwrap().unwrap().lease, Some(lease));
        let mut stream = store.watch(Bytes::from("lease/"), made + 1).await.unwrap();
        if revoke {
            store.lease_revoke(lease).await.unwrap();
        } else {
            rig.advance(Duration::from_secs(ttl + 1)).await;
        }
        let batch = next(&mut stream).await.unwrap();
        assert_eq!(batch.events.len(), 3, "{batch:?}");
        assert!(batch.events.iter().all(|event| matches!(event, Event::Delete { .. })));
        let left = store.range(RangeRequest::prefix("lease/")).await.unwrap().items;
        assert_eq!(left.iter().map(|kv| kv.key.clone()).collect::<Vec<_>>(), [key("lease", "stays")]);
        let unknown = StoreError::LeaseNotFound { lease };
        assert_eq!(store.lease_keep_alive(lease).await.unwrap_err(), unknown);
        assert_eq!(store.lease_revoke(lease).await.unwrap_err(), unknown);
        let late = store.txn(Txn::new().then(Op::put_leased(key("lease", "late"), "", lease))).await;
        assert_eq!(late.unwrap_err(), unknown);
    }
    assert!(matches!(store.lease_grant(Duration::ZERO).await, Err(StoreError::LeaseTtl { .. })));
}

/// A lease lives while it is kept alive; a key follows the lease of its last put.
pub async fn leases_are_kept_and_moved(rig: &dyn Rig) {
    let store = rig.store();
    // Kept alive five times in its life: with a real clock a renewal may come some seconds late.
    let (life, step) = (Duration::from_secs(10), Duration::from_secs(2));
    let kept = store.lease_grant(life).await.unwrap().id;
    let lost = store.lease_grant(life).await.unwrap().id;
    assert_ne!(kept, lost);
    for name in ["moved", "freed", "lost"] {
        store.txn(Txn::new().then(Op::put_leased(key("keep", name), "", lost))).await.unwrap();
    }
    store.txn(Txn::new().then(Op::put_leased(key("keep", "moved"), "", kept))).await.unwrap();
    put(&*store, &key("keep", "freed"), "").await;
    let expected = [key("keep", "freed"), key("keep", "moved")];
    let mut left = Vec::new();
    // More than a life; a store with a real clock may end what is lost late.
    for steps in 1..=30 {
        rig.advance(step).await;
        assert_eq!(store.lease_keep_alive(kept).await.unwrap().ttl, life);
        let items = store.range(RangeRequest::prefix("keep/")).await.unwrap().items;
        left = items.into_iter().map(|kv| kv.key).collect::<Vec<_>>();
        if steps > 5 && left == expected {
            break;
        }
    }
    assert_eq!(left, expected);
}

/// Sixteen clients count one counter up by compare-and-swap; no count is lost.
pub async fn compare_and_swap_never_loses(rig: &dyn Rig) {
    let store = rig.store();
    let k = key("cas", "counter");
    put(&*store, &k, "0").await;
    let client = |store: Arc<dyn Store>, k: Bytes| async move {
        let mut revisions = Vec::new();
        while revisions.len() < 20 {
            let kv = store.get(k.clone()).await.unwrap().unwrap();
            let count: u64 = std::str::from_utf8(&kv.value).unwrap().parse().unwrap();
            let txn = Txn::new()
                .when(Compare::mod_revision(k.clone(), kv.mod_revision))
                .then(Op::put(k.clone(), (count + 1).to_string()));
            let outcome = store.txn(txn).await.unwrap();
            if outcome.succeeded {
                revisions.push(outcome.revision);
            }
        }
        revisions
    };
    let clients: Vec<_> = (0..16).map(|_| tokio::spawn(client(store.clone(), k.clone()))).collect();
    let mut revisions = BTreeSet::new();
    for client in clients {
        for revision in client.await.unwrap() {
            assert!(revisions.insert(revision), "revision {revision} was given twice");
        }
    }
    let kv = store.get(k).await.unwrap().unwrap();
    assert_eq!((&kv.value[..], kv.version, revisions.len()), (&b"320"[..], 321, 320));
}

/// While many write, a watcher that breaks off again and again sees each revision exactly once.
pub async fn resumed_watches_under_load(rig: &dyn Rig) {
    let store = rig.store();
    let start = put(&*store, &key("load", "start"), "").await;
    let writer = |store: Arc<dyn Store>, id: usize| async move {
        let mut acknowledged = Vec::new();
        for i in 0..50 {
            acknowledged.push(put(&*store, &key("load", id), &i.to_string()).await);
        }
        acknowledged
    };
    let writers: Vec<_> = (0..8).map(|id| tokio::spawn(writer(store.clone(), id))).collect();
    let mut seen = Vec::new();
    let mut from = start + 1;
    while seen.len() < 8 * 50 {
        let mut stream = store.watch(Bytes::from("load/"), from).await.unwrap();
        for _ in 0..(seen.len() % 7) + 1 {
            if seen.len() == 8 * 50 {
                break;
            }
            let batch = next(&mut stream).await.unwrap();
            assert!(batch.revision >= from);
            from = batch.revision + 1;
            seen.push(batch.revision);
        }
    }
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    acknowledged.sort_unstable();
    assert_eq!(seen, acknowledged);
}
