//! How many durable transactions per second the embedded store acknowledges. A figure, and a floor far below it.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::{Compare, EmbeddedOptions, EmbeddedStore, Op, Store, Txn};

const CLIENTS: usize = 32;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn group_commit_shares_syncs() {
    let each: usize = std::env::var("STORE_BENCH_TXNS").ok().and_then(|n| n.parse().ok()).unwrap_or(50);
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::new(dir.path())).unwrap());
    let client = |store: Arc<EmbeddedStore>, id: usize| async move {
        let mut waits = Vec::with_capacity(each);
        for i in 0..each {
            let key = Bytes::from(format!("jobs/{id}/{i}"));
            let begun = Instant::now();
            let txn = Txn::new()
                .when(Compare::absent(key.clone()))
                .then(Op::put(key, vec![b'j'; 512]))
                .then(Op::put(format!("quota/{id}"), i.to_string()));
            assert!(store.txn(txn).await.unwrap().succeeded);
            waits.push(begun.elapsed());
        }
        waits
    };
    let begun = Instant::now();
    let clients: Vec<_> = (0..CLIENTS).map(|id| tokio::spawn(client(store.clone(), id))).collect();
    let mut waits = Vec::new();
    for client in clients {
        waits.extend(client.await.unwrap());
    }
    let seconds = begun.elapsed().as_secs_f64();
    waits.sort_unstable();
    let status = store.status().await.unwrap();
    let rate = waits.len() as f64 / seconds;
    println!(
        "{rate:.0} durable transactions/s, {CLIENTS} clients, {:.1} per commit, p50 {:?}, p99 {:?}",
        status.transactions as f64 / status.commits as f64,
        waits[waits.len() / 2],
        waits[waits.len() * 99 / 100],
    );
    assert!(status.commits < status.transactions, "transactions share commits");
}

/// How long a large store takes to open, after a clean end and after a crash (the file copied while it is open).
#[tokio::test]
async fn reopening_reads_everything() {
    let keys: usize = std::env::var("STORE_BENCH_KEYS").ok().and_then(|n| n.parse().ok()).unwrap_or(5_000);
    let (dir, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    {
        let store = EmbeddedStore::open(EmbeddedOptions::new(dir.path())).unwrap();
        for start in (0..keys).step_by(100) {
            let put = |txn: Txn, i| txn.then(Op::put(format!("jobs/{i:09}"), vec![b'j'; 512]));
            store.txn((start..keys.min(start + 100)).fold(Txn::new(), put)).await.unwrap();
        }
        std::fs::copy(dir.path().join("state.db"), crashed.path().join("state.db")).unwrap();
    }
    for (what, dir) in [("clean", &dir), ("crashed", &crashed)] {
        let begun = Instant::now();
        let store = EmbeddedStore::open(EmbeddedOptions::new(dir.path())).unwrap();
        let status = store.status().await.unwrap();
        println!(
            "{what}: {} keys, {} bytes of file in {:?}",
            status.keys,
            status.file_bytes,
            begun.elapsed()
        );
        assert_eq!(status.keys, keys as u64);
    }
}
