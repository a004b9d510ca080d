//! The embedded store's file: reopening, one process, and files that are not to be touched.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_stream::StreamExt;

use super::disks::{SickDisk, open_on, options};
use crate::embedded::disk::{Disk, check_header};
use crate::{
    EmbeddedOptions, EmbeddedStore, History, LeaseId, Limits, ManualClock, Op, RangeRequest, Store,
    StoreError, Txn,
};

fn open(dir: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(EmbeddedOptions::new(dir))
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let timed = EmbeddedOptions { clock: clock.clone(), ..EmbeddedOptions::new(dir.path()) };
    let (before, lease) = {
        let store = EmbeddedStore::open(timed.clone()).unwrap();
        let lease = store.lease_grant(Duration::from_secs(10)).await.unwrap().id;
        store.put(Bytes::from("a"), Bytes::from("1")).await.unwrap();
        store.txn(Txn::new().then(Op::put_leased("b", "2", lease)).then(Op::put("a", "3"))).await.unwrap();
        store.compact(2).await.unwrap();
        clock.advance(Duration::from_secs(9));
        (store.range(RangeRequest::default()).await.unwrap(), lease)
    };
    let store = EmbeddedStore::open(timed).unwrap();
    assert_eq!(store.range(RangeRequest::default()).await.unwrap(), before);
    assert!(matches!(store.watch(Bytes::new(), 2).await, Err(StoreError::Compacted { compact_revision: 2 })));
    let mut stream = store.watch(Bytes::new(), 3).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().events.len(), 2);
    // The lease starts anew: nine seconds of its ten were over before.
    clock.advance(Duration::from_secs(9));
    store.tick().await.unwrap();
    assert!(store.get(Bytes::from("b")).await.unwrap().is_some());
    clock.advance(Duration::from_secs(1));
    store.tick().await.unwrap();
    assert!(store.get(Bytes::from("b")).await.unwrap().is_none());
    assert!(
        store.lease_grant(Duration::from_secs(1)).await.unwrap().id > lease,
        "a lease id is never reused"
    );
    assert_eq!(store.lease_keep_alive(lease).await, Err(StoreError::LeaseNotFound { lease }));
    store.close();
    assert_eq!(store.put(Bytes::from("c"), Bytes::new()).await, Err(StoreError::Closed));
    assert_eq!(stream.next().await.unwrap().unwrap().revision, 4);
    assert_eq!(stream.next().await, Some(Err(StoreError::Closed)));
    assert_eq!(stream.next().await, None);
}

#[test]
fn one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    let Err(StoreError::InUse { pid, .. }) = open(dir.path()) else { panic!("opened twice") };
    assert_eq!(pid, Some(std::process::id()));
    drop(first);
    open(dir.path()).unwrap();
    let mode = fs::metadata(dir.path().join("state.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "only the owner reads the store");
}

/// Opening must fail with an error that `is_right` accepts, and leave every byte as it was.
fn refused_untouched(dir: &Path, is_right: impl Fn(&StoreError) -> bool) {
    let path = dir.join("state.db");
    let before = fs::read(&path).unwrap();
    let error = open(dir).unwrap_err();
    assert!(is_right(&error), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before, "{error}");
}

#[tokio::test]
async fn foreign_newer_and_damaged_files_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    for foreign in [&b""[..], b"SQLite format 3\0 and more", &[0; 8192], b"redb\x1A\x0A\xA9\x0D\x0A"] {
        fs::write(&path, foreign).unwrap();
        refused_untouched(dir.path(), |error| matches!(error, StoreError::Foreign { .. }));
    }
    fs::remove_file(&path).unwrap();
    {
        let store = open(dir.path()).unwrap();
        store.put(Bytes::from("precious"), Bytes::from("value-to-damage")).await.unwrap();
    }
    let good = fs::read(&path).unwrap();
    let mut newer = good.clone();
    newer[17] ^= 1;
    fs::write(&path, &newer).unwrap();
    refused_untouched(dir.path(), |error| matches!(error, StoreError::Corrupt { .. }));
    let header = crate::embedded::header_of_format(2);
    newer[..header.len()].copy_from_slice(&header);
    fs::write(&path, &newer).unwrap();
    refused_untouched(dir.path(), |error| {
        matches!(error, StoreError::NewerFormat { found: 2, supported: 1, .. })
    });
    fs::write(&path, &good[..4096]).unwrap();
    refused_untouched(dir.path(), |error| matches!(error, StoreError::Corrupt { .. }));
    // Every place where the value stands is damaged, so the current key and the history are both wrong.
    let mut damaged = good.clone();
    let needle = b"value-to-damage";
    for at in 0..damaged.len() - needle.len() {
        if &damaged[at..at + needle.len()] == needle {
            damaged[at] ^= 1;
        }
    }
    fs::write(&path, &damaged).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { key, .. } if key == "precious"), "{error}");
    fs::write(&path, &good).unwrap();
    assert!(open(dir.path()).unwrap().get(Bytes::from("precious")).await.unwrap().is_some());
}

#[test]
fn a_leftover_of_an_interrupted_creation_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("state.db.new"), b"half").unwrap();
    open(dir.path()).unwrap();
    assert!(!dir.path().join("state.db.new").exists());
}

/// Random damage anywhere in the file: an error or a store that opens, never a panic.
#[tokio::test]
async fn random_damage_never_panics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    {
        let store = open(dir.path()).unwrap();
        for i in 0..50 {
            store.put(Bytes::from(format!("k{i}")), Bytes::from(vec![i; 300])).await.unwrap();
        }
    }
    let good = fs::read(&path).unwrap();
    let used = good.len().min(256 * 1024);
    for round in 0..60usize {
        fs::write(&path, &good).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let at = (round * 7919 + 13) * 37 % used;
        let noise: Vec<u8> = (0..64).map(|i| (i * 31 + round) as u8).collect();
        file.write_all_at(&noise, at as u64).unwrap();
        drop(file);
        // A store that opens in spite of it must hold only what was written: the noise hit nothing that is used.
        if let Ok(store) = open(dir.path()) {
            for kv in store.range(RangeRequest::default()).await.unwrap().items {
                assert_eq!(kv.value.len(), 300, "round {round}");
            }
        }
    }
}

#[tokio::test]
async fn history_is_bounded_and_slow_watchers_are_told() {
    let disk = SickDisk::with_store();
    let history = History { revisions: 100, bytes: 1 << 20, watch_lag: 20 };
    let store = open_on(&disk, &crate::EmbeddedOptions { history, ..options() }).unwrap();
    let mut slow = store.watch(Bytes::from("k"), 0).await.unwrap();
    let mut quiet = store.watch(Bytes::from("other"), 0).await.unwrap();
    for i in 0..30 {
        store.put(Bytes::from("k"), Bytes::from(format!("{i}"))).await.unwrap();
    }
    assert_eq!(slow.next().await, Some(Err(StoreError::Lagged { resume_revision: 2 })));
    assert_eq!(slow.next().await, None);
    let mut resumed = store.watch(Bytes::from("k"), 2).await.unwrap();
    for revision in 2..=31 {
        assert_eq!(resumed.next().await.unwrap().unwrap().revision, revision);
    }
    for i in 0..500 {
        store.put(Bytes::from("k"), Bytes::from(format!("{i}"))).await.unwrap();
    }
    let status = store.status().await.unwrap();
    assert!(status.history_revisions <= 100 && status.history_revisions >= 89, "{status:?}");
    assert!(matches!(resumed.next().await, Some(Err(StoreError::Compacted { .. }))));
    let last = store.put(Bytes::from("other"), Bytes::new()).await.unwrap();
    assert_eq!(
        quiet.next().await.unwrap().unwrap().revision,
        last,
        "a quiet watch is not cut off by compaction"
    );
    for _ in 0..20 {
        store.put(Bytes::from("k"), Bytes::from(vec![0; 100_000])).await.unwrap();
    }
    assert!(store.status().await.unwrap().history_bytes <= 1 << 20);
    drop(store);
    let again = open_on(&disk, &crate::EmbeddedOptions { history, ..options() }).unwrap();
    assert!(again.status().await.unwrap().history_bytes <= 1 << 20);
}

#[tokio::test]
async fn the_byte_limit_refuses_growth_but_lets_shrink() {
    let disk = SickDisk::with_store();
    let limits = Limits { total_bytes: 1000, deletes: 3, ..Limits::default() };
    let store = open_on(&disk, &crate::EmbeddedOptions { limits, ..options() }).unwrap();
    store.put(Bytes::from("a"), Bytes::from(vec![0; 900])).await.unwrap();
    let error = store.put(Bytes::from("b"), Bytes::from(vec![0; 200])).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    store.put(Bytes::from("a"), Bytes::from(vec![0; 100])).await.unwrap();
    for key in ["b", "c1", "c2", "c3", "c4"] {
        store.put(Bytes::from(key), Bytes::from(vec![0; 10])).await.unwrap();
    }
    let sweep = |prefix: &'static str| Txn::new().then(Op::delete_prefix(prefix));
    assert_eq!(store.txn(sweep("c")).await, Err(StoreError::TooManyDeletes { limit: 3 }));
    store.txn(sweep("c4")).await.unwrap();
    store.txn(sweep("c")).await.unwrap();
    assert_eq!(store.status().await.unwrap().keys, 2);
}

#[tokio::test]
async fn a_full_queue_answers_in_time() {
    let disk = SickDisk::with_store();
    let tight = crate::EmbeddedOptions {
        queue_bytes: 16 * 1024,
        queue_timeout: Duration::from_millis(20),
        ..options()
    };
    let store = open_on(&disk, &tight).unwrap();
    let large = store.put(Bytes::from("k"), Bytes::from(vec![0; 40_000])).await;
    assert_eq!(large, Err(StoreError::Overloaded { waited_ms: 20 }));
    store.put(Bytes::from("k"), Bytes::from("small")).await.unwrap();
    assert_eq!(store.lease_revoke(LeaseId(9)).await, Err(StoreError::LeaseNotFound { lease: LeaseId(9) }));
    assert!(check_header(&*disk, Path::new("x")).is_ok() && disk.len().unwrap() > 4096);
}
