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
