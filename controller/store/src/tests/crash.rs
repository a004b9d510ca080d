//! A child process that writes is killed at random moments; everything that it had acknowledged is there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::{EmbeddedOptions, EmbeddedStore, Op, RangeRequest, Store, Txn};

const DIR: &str = "STORE_CRASH_TEST_DIR";
const ROUNDS: usize = 12;

/// The child: eight clients write pairs of keys and say each acknowledged revision.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::new(dir)).unwrap());
        let client = |store: Arc<EmbeddedStore>, id: usize| async move {
            for i in 0u64.. {
                let name = format!("{}/{id}/{i}", std::process::id());
                let txn = Txn::new()
                    .then(Op::put(format!("l/{name}"), vec![b'x'; 200]))
                    .then(Op::put(format!("r/{name}"), name.clone()))
                    .then(Op::delete(format!("l/{}/{id}/{}", std::process::id(), i.wrapping_sub(50))))
                    .then(Op::delete(format!("r/{}/{id}/{}", std::process::id(), i.wrapping_sub(50))));
                let revision = store.txn(txn).await.unwrap().revision;
                // One write call per line, so a line is whole or not there.
                let line = format!("ack {revision} {name}\n");
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        };
        let clients: Vec<_> = (0..8).map(|id| tokio::spawn(client(store.clone(), id))).collect();
        for client in clients {
            client.await.unwrap();
        }
    });
}

#[tokio::test]
async fn killed_at_random_moments() {
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let dir = tempfile::tempdir().unwrap();
    let mut total = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::crash::child", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut acknowledged = BTreeMap::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let enough = 20 + rng.next_u32() % 400;
        let note = |line: std::io::Result<String>, acknowledged: &mut BTreeMap<u64, String>| {
            let line = line.unwrap();
            if let Some((revision, name)) = line.strip_prefix("ack ").and_then(|rest| rest.split_once(' ')) {
                acknowledged.insert(revision.parse().unwrap(), name.to_owned());
            }
        };
        while acknowledged.len() < enough as usize {
            note(lines.next().expect("the child lives"), &mut acknowledged);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines {
            note(line, &mut acknowledged);
        }
        total += acknowledged.len();
        let store = EmbeddedStore::open(EmbeddedOptions::new(dir.path())).unwrap();
        let lefts = store.range_all(Bytes::from("l/")).await.unwrap();
        let newest = *acknowledged.keys().next_back().unwrap();
        assert!(lefts.revision >= newest, "round {round}: {} < {newest}", lefts.revision);
        for (revision, name) in &acknowledged {
            // Older pairs were deleted by the same client; read the key as of its own revision.
            let at = RangeRequest { revision: Some(*revision), ..RangeRequest::prefix(format!("r/{name}")) };
            let kv =
                store.range(at).await.unwrap().items.into_iter().find(|kv| kv.key.ends_with(name.as_bytes()));
            assert_eq!(kv.unwrap().mod_revision, *revision, "round {round}");
        }
        let rights = store.range_all(Bytes::from("r/")).await.unwrap();
        let bare = |items: &[crate::KeyValue]| {
            items.iter().map(|kv| (kv.key.slice(2..), kv.mod_revision)).collect::<Vec<_>>()
        };
        assert_eq!(bare(&lefts.items), bare(&rights.items), "round {round}: a transaction is there by half");
    }
    println!("{total} acknowledged transactions over {ROUNDS} kills, all there");
}
