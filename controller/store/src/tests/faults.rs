//! Full and broken disks: exactly the affected transactions fail, reads go on, memory and disk stay the same, and
//! writing resumes by itself. And power cuts: what was acknowledged is there, and nothing half.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::disks::{Illness, SickDisk, open_on, options};
use crate::{Compare, EmbeddedStore, Op, RangeRequest, RangeResult, Store, StoreError, Txn};

async fn everything(store: &EmbeddedStore) -> RangeResult {
    store.range(RangeRequest::default()).await.unwrap()
}

/// Writes until it works again; the store tries the disk by itself, so this needs only patience.
async fn until_it_writes(store: &EmbeddedStore, key: &str) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match store.put(Bytes::from(key.to_owned()), Bytes::from("back")).await {
            Ok(revision) => return revision,
            Err(error) if Instant::now() < deadline => assert!(error.is_transient(), "{error}"),
            Err(error) => panic!("still refused: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_nothing_else() {
    let disk = SickDisk::with_store();
    let store = open_on(&disk, &options()).unwrap();
    let lease = store.lease_grant(Duration::from_secs(3600)).await.unwrap().id;
    store.put(Bytes::from("a"), Bytes::from("1")).await.unwrap();
    for illness in [Illness::Full { after: 0 }, Illness::Full { after: 5000 }, Illness::Dead] {
        let before = everything(&store).await;
        disk.falls_ill(illness);
        for _ in 0..3 {
            let error = store.put(Bytes::from("b"), Bytes::from(vec![7; 100_000])).await.unwrap_err();
            match illness {
                Illness::Full { .. } => assert!(matches!(error, StoreError::Full { .. }), "{error}"),
                _ => assert!(matches!(error, StoreError::Io { .. } | StoreError::Unknown { .. }), "{error}"),
            }
        }
        // Reads, keep-alives, and transactions that change nothing are answered from what is committed.
        assert_eq!(everything(&store).await, before);
        store.lease_keep_alive(lease).await.unwrap();
        let lost = Txn::new().when(Compare::exists("b")).then(Op::put("a", "2")).otherwise(Op::get("a"));
        assert!(!store.txn(lost).await.unwrap().succeeded);
        assert!(store.status().await.unwrap().write_failure.is_some());
        disk.falls_ill(Illness::None);
        // Nobody writes: the store finds out by itself.
        let deadline = Instant::now() + Duration::from_secs(20);
        while store.status().await.unwrap().write_failure.is_some() {
            assert!(Instant::now() < deadline, "still ill");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        until_it_writes(&store, "c").await;
        store.txn(Txn::new().then(Op::delete("c"))).await.unwrap();
        let now = everything(&store).await;
        assert_eq!(now.items, before.items);
        let cut = disk.cut_power(|| false);
        assert_eq!(everything(&open_on(&cut, &options()).unwrap()).await, now, "disk and memory differ");
    }
}

/// The sync of a commit fails when everything of it is already written: the outcome is open until the file is
/// opened anew; then it is taken back, and never comes back.
#[tokio::test]
async fn a_failed_sync_is_taken_back() {
    let disk = SickDisk::with_store();
    let store = open_on(&disk, &options()).unwrap();
    store.put(Bytes::from("a"), Bytes::from("1")).await.unwrap();
    for round in 0..5 {
        let before = everything(&store).await;
        disk.falls_ill(Illness::NoSync);
        let txn = Txn::new().then(Op::put("a", "wrong")).then(Op::put(format!("wrong{round}"), ""));
        let error = store.txn(txn).await.unwrap_err();
        assert!(matches!(error, StoreError::Unknown { .. } | StoreError::Io { .. }), "{error}");
        let refused = store.lease_grant(Duration::from_secs(9)).await;
        assert!(refused.is_err());
        assert_eq!(everything(&store).await, before);
        disk.falls_ill(Illness::None);
        let revision = until_it_writes(&store, "back").await;
        assert_eq!(revision, before.revision + 1, "the refused transaction took no revision");
        let now = everything(&store).await;
        assert!(!now.items.iter().any(|kv| kv.key.starts_with(b"wrong") || &kv.value[..] == b"wrong"));
        let again = open_on(&disk.cut_power(|| false), &options()).unwrap();
        assert_eq!(everything(&again).await, now, "disk and memory differ");
        assert_eq!(again.status().await.unwrap().leases, 0);
    }
}

/// Concurrent writers while the disk fills and empties: each acknowledged write is there, each refused is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_the_refused_are_missing() {
    let disk = SickDisk::with_store();
    let store = Arc::new(open_on(&disk, &options()).unwrap());
    let attempts = Arc::new(AtomicUsize::new(0));
    let writer = |store: Arc<EmbeddedStore>, attempts: Arc<AtomicUsize>, id: usize| async move {
        let mut outcomes = Vec::new();
        for i in 0..60 {
            attempts.fetch_add(1, Ordering::Relaxed);
            let key = Bytes::from(format!("{id}/{i}"));
            let outcome = store.put(key.clone(), Bytes::from(vec![1; 2000])).await;
            if outcome.is_err() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            outcomes.push((key, outcome));
        }
        outcomes
    };
    let writers: Vec<_> =
        (0..8).map(|id| tokio::spawn(writer(store.clone(), attempts.clone(), id))).collect();
    // The disk changes as the writers come along, not as time does: twelve times in their 480 attempts.
    let until = |count: usize| {
        let attempts = attempts.clone();
        async move {
            while attempts.load(Ordering::Relaxed) < count {
                tokio::task::yield_now().await;
            }
        }
    };
    for round in 0..6 {
        until(72 * round + 36).await;
        disk.falls_ill(Illness::Full { after: round as u64 * 9000 });
        until(72 * round + 72).await;
        disk.falls_ill(Illness::None);
    }
    let mut refused = 0;
    for writer in writers {
        for (key, outcome) in writer.await.unwrap() {
            let stored = store.get(key).await.unwrap();
            match outcome {
                Ok(revision) => assert_eq!(stored.unwrap().mod_revision, revision),
                Err(error) => {
                    assert!(matches!(error, StoreError::Full { .. }), "{error}");
                    assert_eq!(stored, None);
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0, "the disk was never full");
    until_it_writes(&store, "end").await;
    let now = everything(&store).await;
    assert_eq!(everything(&open_on(&disk.cut_power(|| false), &options()).unwrap()).await, now);
}

/// Power cuts at random moments, each unsynced block kept or lost at random.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_survives_power_cuts() {
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut disk = SickDisk::with_store();
    for boot in 0..25u32 {
        let store = Arc::new(open_on(&disk, &options()).unwrap());
        let start = everything(&store).await;
        let syncs = disk.syncs();
        let writer = |store: Arc<EmbeddedStore>, id: u32| async move {
            let mut revision = 0;
            for i in 0..(5 + id) {
                let txn = Txn::new()
                    .then(Op::put(format!("{boot}/{id}/{i}/left"), vec![id as u8; 50]))
                    .then(Op::put(format!("{boot}/{id}/{i}/right"), ""));
                revision = store.txn(txn).await.unwrap().revision;
            }
            revision
        };
        let writers: Vec<_> = (0..8).map(|id| tokio::spawn(writer(store.clone(), id))).collect();
        // The power goes while the others still write: the first writer's last word was acknowledged.
        let mut acknowledged = 0;
        for writer in writers.into_iter().take(1 + boot as usize % 8) {
            acknowledged = acknowledged.max(writer.await.unwrap());
        }
        let next = disk.cut_power(|| rng.next_u32().is_multiple_of(2));
        assert!(disk.syncs() > syncs);
        let after = everything(&open_on(&next, &options()).unwrap()).await;
        assert!(after.revision >= acknowledged, "boot {boot}: {} < {acknowledged}", after.revision);
        assert!(after.items.len() as u64 == start.items.len() as u64 + 2 * (after.revision - start.revision));
        drop(store);
        disk = next;
    }
}

/// A real file system that is really full, where this process may mount one.
#[tokio::test]
async fn a_really_full_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("small");
    std::fs::create_dir(&mount).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"])
        .arg(&mount)
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: this process may not mount a file system");
        return;
    }
    let outcome = tokio::spawn(fill_and_free(mount.clone())).await;
    let unmounted = std::process::Command::new("umount").arg(&mount).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    outcome.unwrap();
}

async fn fill_and_free(mount: std::path::PathBuf) {
    let ballast = mount.join("ballast");
    std::fs::write(&ballast, vec![0; 1024 * 1024]).unwrap();
    let store = EmbeddedStore::open(crate::EmbeddedOptions::new(mount.join("store"))).unwrap();
    let mut acknowledged = 0;
    let refusal = loop {
        let key = Bytes::from(format!("k{acknowledged:05}"));
        match store.put(key, Bytes::from(vec![acknowledged as u8; 20_000])).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, StoreError::Full { .. }), "{refusal}");
    assert_eq!(everything(&store).await.items.len(), acknowledged);
    std::fs::remove_file(&ballast).unwrap();
    until_it_writes(&store, "z").await;
    let now = everything(&store).await;
    assert_eq!(now.items.len(), acknowledged + 1);
    drop(store);
    let again = EmbeddedStore::open(crate::EmbeddedOptions::new(mount.join("store"))).unwrap();
    assert_eq!(everything(&again).await, now);
}
