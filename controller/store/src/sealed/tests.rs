//! What is written is sealed, what is read is plain; a lost, foreign or changed key or value is named.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use proptest::prelude::*;
use tokio_stream::StreamExt;

use super::{KeyRing, KeyRingError, SealedStore};
use crate::conformance::Rig;
use crate::{Event, History, Limits, ManualClock, MemoryStore, Op, Store, StoreError, Txn};

fn ring(folder: &Path, keys: usize) -> (KeyRing, PathBuf) {
    let path = folder.join("keys");
    for _ in 0..keys {
        KeyRing::add_key(&path).unwrap();
    }
    (KeyRing::open(&path).unwrap(), path)
}

fn memory() -> (Arc<MemoryStore>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Arc::new(MemoryStore::new(clock.clone(), Limits::default(), History::default())), clock)
}

struct SealedRig {
    memory: Arc<MemoryStore>,
    sealed: Arc<SealedStore>,
    clock: Arc<ManualClock>,
}

impl SealedRig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (memory, clock) = memory();
        // All cases but those that compare by value, which a sealed row cannot be.
        let prefixes = [
            "rev/", "txn/", "bad/", "page/", "past/", "watch/", "resume/", "compact/", "lease/", "keep/",
            "cas/", "load/",
        ];
        let sealed = Arc::new(SealedStore::new(memory.clone(), ring(folder.path(), 1).0, prefixes));
        Self { memory, sealed, clock }
    }
}

#[async_trait]
impl Rig for SealedRig {
    fn store(&self) -> Arc<dyn Store> {
        self.sealed.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.memory.tick();
    }
}

mod conformance {
    use super::SealedRig;
    crate::store_conformance!(Some(SealedRig::new()));
}

#[tokio::test]
async fn rows_under_the_prefix_are_sealed_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, _) = memory();
    memory.put("s/old".into(), "plain since before".into()).await.unwrap();
    let store = SealedStore::new(memory.clone(), ring(folder.path(), 1).0, ["s/"]);
    let mut watch = store.watch("".into(), 0).await.unwrap();
    let txn = Txn::new().then(Op::put("s/a", "the key of a job")).then(Op::put("t/a", "no secret"));
    store.txn(txn.then(Op::get("s/old"))).await.unwrap();
    let stored = memory.get("s/a".into()).await.unwrap().unwrap().value;
    assert!(KeyRing::sealed_with(&stored).unwrap().is_some());
    assert!(!stored.windows(5).any(|part| part == b"a job"), "{stored:?}");
    assert_eq!(memory.get("t/a".into()).await.unwrap().unwrap().value, "no secret");
    let read = store.range_all("".into()).await.unwrap().items;
    let values: Vec<_> = read.iter().map(|kv| kv.value.clone()).collect();
    assert_eq!(values, ["the key of a job", "plain since before", "no secret"]);
    let batch = watch.next().await.unwrap().unwrap();
    assert!(matches!(&batch.events[0], Event::Put { kv, prev: None } if kv.value == "the key of a job"));
    store.put("s/a".into(), "another".into()).await.unwrap();
    let batch = watch.next().await.unwrap().unwrap();
    assert!(
        matches!(&batch.events[0], Event::Put { prev: Some(prev), .. } if prev.value == "the key of a job")
    );
    let compared = store.txn(Txn::new().when(crate::Compare::value("s/a", "another"))).await;
    assert!(matches!(compared, Err(StoreError::Refused { cause }) if cause.contains("s/a")));
}

#[tokio::test]
async fn a_value_that_cannot_be_opened_is_named_and_ends_a_watch() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, _) = memory();
    let store = SealedStore::new(memory.clone(), ring(folder.path(), 1).0, ["s/"]);
    store.put("s/a".into(), "secret".into()).await.unwrap();
    let sealed = memory.get("s/a".into()).await.unwrap().unwrap().value;

    let keyless = SealedStore::new(memory.clone(), KeyRing::empty(), ["s/"]);
    let reported = keyless.get("s/a".into()).await.unwrap_err().to_string();
    assert!(reported.contains("s/a") && reported.contains("--store-keys"), "{reported}");
    keyless.put("s/plain".into(), "without keys".into()).await.unwrap();
    assert_eq!(store.get("s/plain".into()).await.unwrap().unwrap().value, "without keys");

    // The same bytes under another row's name, a changed bit, a cut, a format that is not known.
    let mut watch = store.watch("s/".into(), 0).await.unwrap();
    let changed = |at: usize| {
        let mut bytes = sealed.to_vec();
        bytes[at] ^= 1;
        Bytes::from(bytes)
    };
    for (row, value, named) in [
        ("s/b", sealed.clone(), "another row"),
        ("s/a", changed(sealed.len() - 1), "was changed"),
        ("s/a", changed(10), "was changed"),
        ("s/a", changed(3), "is not in"),
        ("s/a", changed(1), "does not know"),
        ("s/a", sealed.slice(..20), "does not know"),
    ] {
        memory.put(row.into(), value).await.unwrap();
        let reported = store.get(row.into()).await.unwrap_err();
        assert!(
            matches!(&reported, StoreError::Sealed { key, reason } if key == row && reason.contains(named)),
            "{reported}"
        );
    }
    assert!(matches!(watch.next().await, Some(Err(StoreError::Sealed { .. }))));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_new_key_in_front_is_learned_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, _) = memory();
    let (first, path) = ring(folder.path(), 1);
    let old = first.newest().unwrap();
    let standby = SealedStore::new(memory.clone(), first, ["s/"]);
    standby.put("s/a".into(), "one".into()).await.unwrap();
    let new = KeyRing::add_key(&path).unwrap();
    let leader = KeyRing::open(&path).unwrap();
    assert_eq!(leader.newest(), Some(new));
    let leader = SealedStore::new(memory.clone(), leader, ["s/"]);
    assert_eq!(leader.get("s/a".into()).await.unwrap().unwrap().value, "one", "{old} still opens");
    leader.put("s/a".into(), "two".into()).await.unwrap();
    let learned = async {
        // The file is read again at most once in a second.
        loop {
            if let Ok(Some(kv)) = standby.get("s/a".into()).await {
                break kv.value;
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(20), learned).await.unwrap(), "two");
}

#[test]
fn files_that_hold_something_else_are_named_by_line() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let write = |text: &str, mode: u32| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        KeyRing::open(&path).map(|_| ()).map_err(|error| error.to_string())
    };
    let (key, other) = ("0f".repeat(32), "F0".repeat(32));
    write(&format!("# comment\n\n{key} # the newest\n{other}\n"), 0o600).unwrap();
    for (text, mode, named) in [
        (String::new(), 0o600, "holds 0 keys"),
        (format!("{key}\n{key}\n"), 0o600, "line 2: key"),
        (format!("# x\n{}\n", &key[2..]), 0o600, "line 2: a key is 64 hex digits"),
        ("+f".repeat(32), 0o600, "line 1"),
        ("\u{e9}".repeat(32), 0o600, "line 1"),
        (key, 0o640, "chmod 600"),
    ] {
        let reported = write(&text, mode).unwrap_err();
        assert!(reported.contains(named), "{reported}");
    }
    assert!(matches!(KeyRing::open(&folder.path().join("none")), Err(KeyRingError::File(_))));
    let before = std::fs::read(&path).unwrap();
    assert!(KeyRing::add_key(&path).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

proptest! {
    #[test]
    fn whatever_is_sealed_opens_and_whatever_is_read_does_not_panic(row: Vec<u8>, value: Vec<u8>, noise: Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let (ring, _) = ring(folder.path(), 2);
        let value = Bytes::from(value);
        let sealed = ring.seal(&row, &value).unwrap();
        prop_assert_ne!(ring.seal(&row, &value).unwrap(), sealed.clone());
        prop_assert_eq!(ring.open_value(&row, &sealed).unwrap(), value);
        let _ = ring.open_value(&row, &Bytes::from(noise.clone()));
        let _ = ring.open_value(&row, &Bytes::from([&[0, 1], &noise[..]].concat()));
    }
}
