//! The etcd store against a real etcd that dies, falls silent, loses answers, fills up, forgets, and refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;
use tokio_stream::StreamExt;

use super::proxy::Proxy;
use crate::real_etcd::RealEtcd;
use crate::{Compare, EtcdOptions, EtcdStore, Event, Op, OpResult, Store, StoreError, Txn};

const SOON: Duration = Duration::from_secs(60);

async fn open(options: EtcdOptions) -> EtcdStore {
    EtcdStore::open(options).await.unwrap()
}

/// Waits until a write is taken.
async fn until_writable(store: &EtcdStore) {
    let begin = Instant::now();
    while let Err(error) = store.put("writable".into(), "again".into()).await {
        assert!(begin.elapsed() < SOON, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn next(watch: &mut crate::WatchStream) -> Result<crate::WatchBatch, StoreError> {
    tokio::time::timeout(SOON, watch.next()).await.expect("in time").expect("an open watch")
}

/// Counts one up, unless another was faster.
fn count(key: &str, from: u64, revision: u64) -> Txn {
    let compare = if from == 0 {
        Compare::absent(key.to_owned())
    } else {
        Compare::mod_revision(key.to_owned(), revision)
    };
    Txn::new().when(compare).then(Op::put(key.to_owned(), (from + 1).to_string()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_found_out_and_never_guessed() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let proxy = Proxy::start(&etcd).await;
    let mut options = EtcdOptions::new(vec![proxy.endpoint()]);
    options.deadline = Duration::from_millis(500);
    let store = open(options).await;
    store.put("a".into(), "1".into()).await.unwrap();
    store.put("gone/1".into(), "x".into()).await.unwrap();
    let before = store.put("gone/2".into(), "x".into()).await.unwrap();
    // It runs, and nobody hears of it.
    proxy.swallow_once();
    let txn = Txn::new()
        .when(Compare::value("a", "1"))
        .then(Op::get("a"))
        .then(Op::put("a", "2"))
        .then(Op::get("a"))
        .then(Op::delete_prefix("gone/"))
        .then(Op::delete("never"));
    let outcome = store.txn(txn.clone()).await.unwrap();
    assert_eq!((outcome.revision, outcome.succeeded), (before + 1, true));
    let [OpResult::Got(Some(old)), OpResult::Put, OpResult::Got(Some(new)), rest @ ..] = &outcome.results[..]
    else {
        panic!("{outcome:?}")
    };
    assert_eq!((&old.value[..], &new.value[..], new.mod_revision), (&b"1"[..], &b"2"[..], before + 1));
    assert_eq!(rest, [OpResult::Deleted(2), OpResult::Deleted(0)]);
    // The same again does not hold any more, also when the answer is lost: the condition is looked at once more.
    proxy.swallow_once();
    let outcome = store.txn(txn).await.unwrap();
    assert!(!outcome.succeeded);
    // Nothing but a deletion, of something and of nothing.
    for expected in [1, 0] {
        proxy.swallow_once();
        let outcome = store.txn(Txn::new().then(Op::delete("a"))).await.unwrap();
        assert_eq!(outcome.results, [OpResult::Deleted(expected)]);
    }
    assert!(proxy.swallowed() >= 4, "{}", proxy.swallowed());
}

/// How far somebody has come who counts up.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// What has been counted for certain.
    counted: u64,
    /// Calls that failed, or of which nobody knows what became.
    failed: u64,
}

/// Counts up until asked to stop, and looks after each failure what became of the call; gives the count.
async fn count_up(store: Arc<EtcdStore>, stop: Arc<AtomicBool>, progress: watch::Sender<Progress>) -> u64 {
    let (mut value, mut revision) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        match store.txn(count("n", value, revision)).await {
            Ok(outcome) => {
                assert!(outcome.succeeded, "only this task writes, and it knows what it wrote");
                (value, revision) = (value + 1, outcome.revision);
            }
            Err(error) => {
                progress.send_modify(|now| now.failed += 1);
                let is_unknown = matches!(error, StoreError::Unknown { .. });
                assert!(is_unknown || matches!(error, StoreError::Unavailable { .. }), "{error}");
                // What is read next is final.
                let now = loop {
                    match store.get("n".into()).await {
                        Ok(now) => break now,
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                };
                let read: u64 =
                    now.as_ref().map_or(0, |kv| String::from_utf8_lossy(&kv.value).parse().unwrap());
                assert!(read == value || (is_unknown && read == value + 1), "{read} after {value}: {error}");
                (value, revision) = (read, now.map_or(0, |kv| kv.mod_revision));
            }
        }
        progress.send_modify(|now| now.counted = value);
    }
    value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_while_etcd_is_killed_and_paused() {
    let Some(mut etcd) = RealEtcd::start(&[]) else { return };
    let mut options = etcd.options();
    options.deadline = Duration::from_millis(400);
    options.patience = Duration::from_millis(600);
    let store = Arc::new(open(options).await);
    let stop = Arc::new(AtomicBool::new(false));
    let (report, mut progress) = watch::channel(Progress::default());
    let counting = tokio::spawn(count_up(Arc::clone(&store), Arc::clone(&stop), report));
    let mut until = async |what: &str, reached: fn(Progress, Progress) -> bool| {
        let begin = *progress.borrow();
        let found = tokio::time::timeout(SOON, progress.wait_for(|now| reached(begin, *now))).await;
        *found.unwrap_or_else(|_| panic!("waited for: {what}")).expect("somebody counts")
    };
    let goes_on: fn(Progress, Progress) -> bool =
        |begin: Progress, now: Progress| now.counted >= begin.counted + 5;
    let fails: fn(Progress, Progress) -> bool = |begin: Progress, now: Progress| now.failed > begin.failed;
    for _ in 0..2 {
        until("it counts", goes_on).await;
        etcd.pause();
        until("a call fails while etcd is silent", fails).await;
        etcd.resume();
    }
    until("it counts after a pause", goes_on).await;
    // Shorter than a call's deadline: the pause is the fault, nothing is waited for.
    etcd.pause();
    tokio::time::sleep(Duration::from_millis(300)).await;
    etcd.resume();
    until("it counts after a short pause", goes_on).await;
    etcd = tokio::task::spawn_blocking(move || {
        etcd.kill();
        etcd
    })
    .await
    .unwrap();
    until("a call fails without etcd", fails).await;
    etcd.restart();
    let last = until("it counts again", goes_on).await;
    stop.store(true, Ordering::Relaxed);
    let sure = counting.await.unwrap();
    let stored = store.get("n".into()).await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&stored.value), sure.to_string());
    assert_eq!(stored.version, sure);
    assert!(sure >= last.counted && last.failed >= 3, "{sure}, {last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_live_through_a_broken_connection_and_are_told_of_compaction() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let proxy = Proxy::start(&etcd).await;
    let (far, near) = (open(EtcdOptions::new(vec![proxy.endpoint()])).await, open(etcd.options()).await);
    let mut watch = far.watch("w/".into(), 0).await.unwrap();
    let first = near.put("w/1".into(), "".into()).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().revision, first);
    proxy.cut();
    let second = near.put("w/2".into(), "".into()).await.unwrap();
    proxy.remediate();
    assert_eq!(next(&mut watch).await.unwrap().revision, second, "resumed, nothing lost");
    proxy.cut();
    near.put("w/3".into(), "".into()).await.unwrap();
    let last = near.delete("w/1".into()).await.unwrap();
    near.compact(last).await.unwrap();
    proxy.remediate();
    let reported = next(&mut watch).await.unwrap_err();
    let StoreError::Compacted { compact_revision } = reported else { panic!("{reported}") };
    assert!(compact_revision >= last);
    let now = far.range_all("w/".into()).await.unwrap();
    assert_eq!(now.items.len(), 2);
    let mut watch = far.watch("w/".into(), now.revision + 1).await.unwrap();
    let third = near.put("w/4".into(), "".into()).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().revision, third);
    // Another life of the process still finds the past that etcd has.
    let later = open(etcd.options()).await;
    let mut past = later.watch("w/".into(), third).await.unwrap();
    let batch = next(&mut past).await.unwrap();
    assert!(matches!(&batch.events[..], [Event::Put { kv, .. }] if kv.key == "w/4"), "{batch:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_watch_missed_is_found_by_a_listing() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let mut options = etcd.options();
    options.check_every = Duration::from_secs(1);
    let store = open(options).await;
    store.put("m/1".into(), "".into()).await.unwrap();
    let mut watch = store.watch("m/".into(), 0).await.unwrap();
    // As if etcd had never sent it.
    while !store.lose_sight_of(&"m/1".into()) {
        tokio::task::yield_now().await;
    }
    let reported = next(&mut watch).await.unwrap_err();
    assert!(matches!(reported, StoreError::Compacted { .. }), "{reported}");
    let now = store.range_all("m/".into()).await.unwrap();
    let mut watch = store.watch("m/".into(), now.revision + 1).await.unwrap();
    let revision = store.put("m/2".into(), "".into()).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().revision, revision);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_can_be_read_and_takes_writes_again_by_itself() {
    let Some(etcd) = RealEtcd::start(&["--quota-backend-bytes", "16777216"]) else { return };
    let store = open(etcd.options()).await;
    let mut stored = 0;
    let full = loop {
        match store.put(format!("fill/{stored}").into(), vec![7; 500_000].into()).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "it never became full");
    };
    assert!(matches!(&full, StoreError::Full { cause } if cause.contains("etcdctl")), "{full}");
    let all = store.range_all("fill/".into()).await.unwrap();
    assert_eq!(all.items.len(), stored, "what was acknowledged is there, what was refused is not");
    assert!(store.status().await.unwrap().write_failure.is_some());
    // Deleting works in a full etcd; the store does the rest.
    store.txn(Txn::new().then(Op::delete_prefix("fill/"))).await.unwrap();
    let begin = Instant::now();
    while let Err(error) = store.put("after".into(), "".into()).await {
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        assert!(begin.elapsed() < SOON, "it stays full");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(store.status().await.unwrap().write_failure, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_transactions_are_one_revision_within_etcds_defaults() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let store = open(etcd.options()).await;
    let most = store.limits().txn_ops;
    let mut watch = store.watch("many/".into(), 0).await.unwrap();
    let all = (0..most).fold(Txn::new(), |txn, n| txn.then(Op::put(format!("many/{n:05}"), "v")));
    let revision = store.txn(all).await.unwrap().revision;
    let seen = next(&mut watch).await.unwrap();
    assert_eq!((seen.revision, seen.events.len()), (revision, most), "whole, at once");
    let none = (0..most).fold(Txn::new(), |txn, n| txn.then(Op::delete(format!("many/{n:05}"))));
    let outcome = store.txn(none).await.unwrap();
    assert_eq!((outcome.revision, outcome.results.len()), (revision + 1, most));
    assert!(outcome.results.iter().all(|result| *result == OpResult::Deleted(1)));
    // The largest value, and one byte more than the request that etcd takes.
    let largest = vec![1u8; store.limits().value_bytes];
    store.put("large".into(), largest.clone().into()).await.unwrap();
    let two = Txn::new().then(Op::put("large", largest)).then(Op::put("more", vec![0; 64 * 1024]));
    assert!(matches!(store.txn(two).await, Err(StoreError::TxnTooLarge { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_compacted_and_a_gone_etcd_is_told_soon() {
    let Some(mut etcd) = RealEtcd::start(&[]) else { return };
    let mut options = etcd.options();
    options.keep_history = Some(Duration::from_secs(1));
    // An etcd that is slow to answer is waited for; one that refuses connections is soon given up.
    options.deadline = Duration::from_secs(30);
    options.patience = Duration::from_millis(600);
    let store = open(options).await;
    let first = store.put("h".into(), "1".into()).await.unwrap();
    let begin = Instant::now();
    loop {
        let then = crate::RangeRequest { revision: Some(first), ..crate::RangeRequest::prefix("h") };
        store.put("h".into(), "2".into()).await.unwrap();
        match store.range(then).await {
            Err(StoreError::Compacted { compact_revision }) => {
                assert!(compact_revision >= first);
                break;
            }
            other => assert!(other.is_ok(), "{other:?}"),
        }
        assert!(begin.elapsed() < SOON, "nobody compacts");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    etcd.kill();
    assert!(matches!(store.get("h".into()).await, Err(StoreError::Unavailable { .. })));
    let begin = Instant::now();
    let error = store.put("h".into(), "3".into()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. } | StoreError::Unknown { .. }), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert!(store.status().await.is_err());
    etcd.restart();
    until_writable(&store).await;
    let value: Bytes = store.get("h".into()).await.unwrap().unwrap().value;
    assert!(value == "2" || value == "3", "{value:?}");
}
