//! Stores of older versions: opened by whoever leads they become what is recorded, whenever it dies meanwhile; newer ones are refused.

use std::sync::Arc;

use bytes::Bytes;
use controller_leader::{Gone, LoopMetrics, Options, Standby, StartError, codec, inspect, keys, records};
use controller_rows::{
    format::{CURRENT, Format, FormatError, rewrites},
    migrate,
};
use controller_store::{EmbeddedOptions, EmbeddedStore, EtcdStore, KeyValue, Store, real_etcd::RealEtcd};
use prost::Message;
use proto_model::Timestamp;
use proto_rpc::Metrics;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    dies::Dies,
    recorded::{Rows, held, next, recorded},
    rows,
    sample::{self, Pick},
    store::Moody,
    world::PATIENCE,
};

fn options(stop: &CancellationToken) -> (Options, LoopMetrics) {
    let metrics = Metrics::new("test", "0", std::time::SystemTime::UNIX_EPOCH);
    (Options::new("test", stop.clone()), LoopMetrics::new(&metrics))
}

/// One life of a controller on a store, which ends as soon as it leads.
async fn live(store: Arc<dyn Store>) -> Result<(), StartError> {
    let stop = CancellationToken::new();
    let (options, metrics) = options(&stop);
    let (_handle, running) = controller_leader::start(store, options, metrics).await?;
    stop.cancel();
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
    Ok(())
}

async fn fill(store: &dyn Store, rows: &Rows) {
    for (key, value) in rows {
        store.put(key.clone(), value.clone()).await.unwrap();
    }
}

fn without_format(rows: Rows) -> Rows {
    rows.into_iter().filter(|(key, _)| key != keys::FORMAT.as_bytes()).collect()
}

async fn format(store: &dyn Store) -> Result<Format, FormatError> {
    Format::of(store.get(keys::FORMAT.into()).await.unwrap().map(|kv| kv.value).as_ref())
}

#[tokio::test]
async fn a_store_of_each_older_version_becomes_what_is_recorded() {
    for version in 1..CURRENT {
        let store = Moody::new(128);
        fill(store.as_ref(), &recorded(version, "store")).await;
        let seen = inspect(store.as_ref(), Timestamp(1 << 41)).await.unwrap();
        assert!(seen.is_sound() && seen.version == version, "{seen:?}");
        assert!(seen.rows().contains(&format!("version {version}, which")), "{}", seen.rows());
        let watched = Dies::never(store.clone(), 128);
        live(watched.clone()).await.unwrap();
        assert_eq!(without_format(watched.migrated().unwrap()), next(version, "store"));
        let seen = inspect(store.as_ref(), Timestamp(1 << 41)).await.unwrap();
        assert!(seen.is_sound() && seen.version == CURRENT, "{seen:?}");
        // The next life has nothing to migrate.
        let watched = Dies::never(store, 128);
        live(watched.clone()).await.unwrap();
        assert!(watched.migrated().is_none());
    }
}

/// Lives that die at their fourth write, two of which take the lead, until one has migrated the store; answers what it was then, and how many
/// died.
async fn converge(ops: usize, is_done: bool, open: &mut dyn FnMut() -> Opened<'static>) -> (Rows, usize) {
    for lives in 0..200 {
        let store = Dies::new(open().await, 4, is_done, ops);
        let lived = live(store.clone()).await;
        if let Some(rows) = store.migrated() {
            return (without_format(rows), lives);
        }
        assert!(lived.is_err());
    }
    panic!("it never comes to an end");
}

type Opened<'a> = std::pin::Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + 'a>>;

#[tokio::test]
async fn whenever_a_leader_dies_the_next_ones_come_to_the_same_store() {
    for (is_done, ops) in [(true, 4), (false, 4), (true, 5), (false, 5)] {
        let store: Arc<dyn Store> = Moody::new(128);
        fill(store.as_ref(), &recorded(1, "store")).await;
        let (rows, died) = converge(ops, is_done, &mut || Box::pin(std::future::ready(store.clone()))).await;
        assert_eq!(rows, next(1, "store"));
        assert!(died >= 1, "{died} died");
    }
}

#[tokio::test]
async fn the_embedded_store_converges_although_it_is_closed_between_lives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = || Arc::new(EmbeddedStore::open(EmbeddedOptions::new(path.clone())).unwrap());
    fill(open().as_ref(), &recorded(1, "store")).await;
    for lives in 0..200 {
        let store = Dies::new(open(), 4, lives % 2 == 0, 4);
        let lived = live(store.clone()).await;
        if let Some(rows) = store.migrated() {
            assert_eq!(without_format(rows), next(1, "store"));
            assert!(lives > 1, "{lives} died");
            return;
        }
        assert!(lived.is_err());
    }
    panic!("it never comes to an end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_converges() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let store: Arc<dyn Store> = Arc::new(EtcdStore::open(etcd.options()).await.unwrap());
    fill(store.as_ref(), &recorded(1, "store")).await;
    let (rows, died) = converge(6, true, &mut || Box::pin(std::future::ready(store.clone()))).await;
    assert_eq!(rows, next(1, "store"));
    assert!(died >= 1, "{died} died");
}

#[tokio::test]
async fn a_new_store_is_of_this_version_from_its_first_write_on() {
    let store = Moody::new(128);
    store.put(keys::SEAL.into(), "0badc0de".into()).await.unwrap();
    live(store.clone()).await.unwrap();
    let kv = store.get(keys::FORMAT.into()).await.unwrap().unwrap();
    assert!(Format::of(Some(&kv.value)).unwrap().is_current());
    // Behind the seal came the leader key, and with it the version.
    let seal = store.get(keys::SEAL.into()).await.unwrap().unwrap();
    assert_eq!((kv.create_revision, kv.version), (seal.mod_revision + 1, 1));
}

/// What a later release would have written.
fn newer() -> Bytes {
    let (version, program) = (CURRENT + 1, "rail-controller 9.9.9".to_owned());
    records::Format { version, program, ..Default::default() }.encode_to_vec().into()
}

#[tokio::test]
async fn a_newer_store_is_refused_and_left_as_it_is() {
    let store = Moody::new(128);
    fill(store.as_ref(), &recorded(CURRENT, "store")).await;
    store.put(keys::FORMAT.into(), newer()).await.unwrap();
    let before = store.range_all(Bytes::new()).await.unwrap();
    let error = live(store.clone()).await.unwrap_err();
    assert!(matches!(error, StartError::Format(FormatError::Newer { .. })), "{error}");
    assert!(error.to_string().contains("rail-controller 9.9.9"), "{error}");
    let stop = CancellationToken::new();
    let (options, metrics) = options(&stop);
    assert!(Standby::begin(store.clone(), options, metrics).await.is_err());
    let seen = inspect(store.as_ref(), Timestamp(1)).await.unwrap();
    assert!(!seen.is_sound() && seen.faults[0].contains("rail-controller 9.9.9"), "{seen:?}");
    assert_eq!(store.range_all(Bytes::new()).await.unwrap(), before);
}

/// A key under the root that is no table of the store's version.
#[tokio::test]
async fn a_foreign_key_is_refused_before_anything_is_migrated() {
    let store = Moody::new(128);
    fill(store.as_ref(), &recorded(1, "store")).await;
    store.put("/rail/v1/odd".into(), "1".into()).await.unwrap();
    let before = store.range_all(Bytes::new()).await.unwrap();
    let error = live(store.clone()).await.unwrap_err();
    assert!(matches!(error, StartError::ForeignKey { .. }), "{error}");
    assert_eq!(store.range_all(Bytes::new()).await.unwrap(), before);
}

/// Another controller's leader key.
async fn led(store: &dyn Store) -> u64 {
    let record = records::Leader { holder: "other".into(), life: vec![1; 16], ..Default::default() };
    store.put(keys::LEADER.into(), record.encode_to_vec().into()).await.unwrap();
    store.get(keys::LEADER.into()).await.unwrap().unwrap().create_revision
}

#[tokio::test]
async fn a_standby_migrates_when_it_leads_and_not_before() {
    for version in 1..CURRENT {
        standby_migrates(version).await;
    }
}

async fn standby_migrates(version: u32) {
    let store = Moody::new(16);
    fill(store.as_ref(), &recorded(version, "store")).await;
    let epoch = led(store.as_ref()).await;
    let before = store.range_all(Bytes::new()).await.unwrap();
    let watched = Dies::never(store.clone(), 16);
    let stop = CancellationToken::new();
    let (options, metrics) = options(&stop);
    let standby = Standby::begin(watched.clone(), options, metrics).await.unwrap();
    let (seen, mut sees) = watch::channel(None);
    let (gone, mut evidence) = mpsc::channel(4);
    let leads =
        tokio::spawn(async move { standby.lead(&seen, &mut evidence).await.map(|led| led.0.epoch()) });
    sees.wait_for(|seen| seen.as_ref().is_some_and(|leader| leader.epoch == epoch)).await.unwrap();
    assert_eq!(store.range_all(Bytes::new()).await.unwrap(), before);
    gone.send(Gone(epoch)).await.unwrap();
    assert!(tokio::time::timeout(PATIENCE, leads).await.unwrap().unwrap().unwrap() > epoch);
    assert_eq!(without_format(watched.migrated().unwrap()), next(version, "store"));
    stop.cancel();
}

#[tokio::test]
async fn a_standby_of_an_older_release_never_leads_on_what_a_later_one_has_migrated() {
    for tells in [true, false] {
        let store = Moody::new(128);
        fill(store.as_ref(), &recorded(CURRENT, "store")).await;
        let epoch = led(store.as_ref()).await;
        let stop = CancellationToken::new();
        let (options, metrics) = options(&stop);
        let standby = Standby::begin(store.clone(), options, metrics).await.unwrap();
        let (seen, mut sees) = watch::channel(None);
        let (gone, mut evidence) = mpsc::channel(4);
        if tells {
            store.put(keys::FORMAT.into(), newer()).await.unwrap();
        }
        let leads = tokio::spawn(async move { standby.lead(&seen, &mut evidence).await.map(|_| ()) });
        if !tells {
            sees.wait_for(Option::is_some).await.unwrap();
            store.put(keys::FORMAT.into(), newer()).await.unwrap();
        }
        // The leader is gone as well: that must not tempt it.
        let _ = gone.send(Gone(epoch)).await;
        let error = tokio::time::timeout(PATIENCE, leads).await.unwrap().unwrap().unwrap_err();
        assert!(matches!(error, StartError::Format(FormatError::Newer { .. })), "{error}");
        let key = store.get(keys::LEADER.into()).await.unwrap();
        let holder = key.map(|kv| codec::decode::<records::Leader>(&kv).unwrap().holder);
        assert!(holder.is_none_or(|holder| holder == "other"));
        assert!(format(store.as_ref()).await.is_err());
    }
}

/// Every field of every table: what a step makes of it, and that the program of the next version reads it as it was, too: a standby answers
/// from the store before anybody has migrated it.
#[test]
fn rows_with_every_field_become_what_is_recorded_and_say_the_same() {
    let kinds = sample::rows(&mut Pick::new(1));
    let table = |key: &[u8]| key.split(|byte| *byte == b'/').take(5).map(<[u8]>::to_vec).collect::<Vec<_>>();
    for version in 1..CURRENT {
        let (old, new) = (recorded(version, "rows"), next(version, "rows"));
        assert_eq!(old.len(), new.len());
        let mut changed = 0;
        for ((key, before), (_, after)) in old.iter().zip(&new) {
            let row = migrate::step(version, key, before).unwrap();
            assert_eq!(row, after, "{key:?}");
            changed += usize::from(before != after);
            let of_it = |kv: &KeyValue| match version {
                _ if key.starts_with(keys::TOMBSTONES.as_bytes()) => table(&kv.key) == table(key),
                _ => table(&kv.key)[..4] == table(key)[..4],
            };
            let kind = kinds.iter().find(|write| of_it(&rows::stored(write))).unwrap();
            let read = |value: &Bytes| {
                let (key, value) = (key.clone(), value.clone());
                let kv =
                    KeyValue { key, value, create_revision: 1, mod_revision: 1, version: 1, lease: None };
                rows::read(kind, &kv).unwrap()
            };
            assert_eq!(read(before), read(after));
        }
        let enough = if rewrites(version) { changed > 20 } else { changed == 0 };
        assert!(enough, "{changed} of {} rows of version {version} have changed", old.len());
    }
}

#[test]
fn what_is_migrated_twice_is_the_same() {
    for kind in ["rows", "store"] {
        for (key, value) in next(1, kind) {
            assert_eq!(migrate::step(1, &key, &value), Ok(value), "{key:?}");
        }
    }
}

/// The rows of every kind, held by a store: what a controller makes of it is for `recorded` to say.
#[tokio::test]
async fn what_is_recorded_is_of_its_version() {
    let store = Moody::new(128);
    fill(store.as_ref(), &recorded(CURRENT, "store")).await;
    assert!(format(store.as_ref()).await.unwrap().is_current());
    live(store.clone()).await.unwrap();
    assert!(held(store.as_ref()).await.len() > 30);
}
