//! Recorded stores, one of each version of the rows: as lines of a key and a value in hexadecimal, in the order of keys.
//!
//! `vN.store` is what a small cluster had, `vN.rows` rows with every field; `vN.store-next` and `vN.rows-next` are what the next version makes
//! of them. A new version adds its own by `RAIL_BLESS=1 cargo test -p controller-leader --test it recorded`; what is there is never changed.

use std::{fmt::Write as _, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use controller_core::{Register, Write};
use controller_leader::{codec, is_of_the_process, keys};
use controller_rows::{format::CURRENT, migrate};
use controller_store::{Op, Store};
use data_encoding::HEXLOWER;
use proto_model::{Fabric, Inventory, Isolation, IsolationSet, Leaf, Link, Nic, Rail, TenantName, Timestamp};
use proto_rpc::{Identity, Subject};

use crate::{
    sample::{self, Pick},
    store::Moody,
    world::{World, submit, who},
};

/// Rows with every field are made from so many seeds.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=6;

/// Keys with their values.
pub type Rows = Vec<(Bytes, Bytes)>;

fn path(version: u32, kind: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/stores/v{version}.{kind}"))
}

pub fn recorded(version: u32, kind: &str) -> Rows {
    let path = path(version, kind);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let row = |line: &str| {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        (Bytes::copy_from_slice(key.as_bytes()), HEXLOWER.decode(value.as_bytes()).unwrap().into())
    };
    text.lines().filter(|line| line.starts_with('/')).map(row).collect()
}

/// What the next version makes of what is recorded of this one.
pub fn next(version: u32, kind: &str) -> Rows {
    recorded(version, &format!("{kind}-next"))
}

/// Writes what is not there yet.
fn record(version: u32, kind: &str, rows: &Rows) {
    let path = path(version, kind);
    if std::env::var_os("RAIL_BLESS").is_none() || path.exists() {
        return;
    }
    let mut text = String::new();
    for (key, value) in rows {
        writeln!(text, "{} {}", std::str::from_utf8(key).unwrap(), HEXLOWER.encode(value)).unwrap();
    }
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// All that a store holds but what is of one process.
pub async fn held(store: &dyn Store) -> Rows {
    let all = store.range_all(Bytes::new()).await.unwrap().items;
    all.into_iter().filter(|kv| !is_of_the_process(&kv.key)).map(|kv| (kv.key, kv.value)).collect()
}

/// One server with one cable.
fn fabric() -> Fabric {
    let leaf = Leaf { name: "l0".into(), pod: "p0".into(), ..Leaf::default() };
    let (node, nic, leaf_name) = ("n1".parse().unwrap(), "mlx5_0".to_owned(), "l0".to_owned());
    let (port, speed_mbps, down, rail) = (String::new(), 400_000, false, None);
    Fabric {
        name: "lab".into(),
        generation: 3,
        rails: vec![Rail { index: 0, name: "rail0".into() }],
        leaves: vec![leaf],
        links: vec![Link { node, nic, leaf: leaf_name, port, speed_mbps, down, rail }],
        ..Fabric::default()
    }
}

fn inventory() -> Inventory {
    let mut full = Pick::new(3).node().inventory.as_ref().clone();
    full.nics = vec![Nic {
        device: "mlx5_0".into(),
        netdev: "rail0".into(),
        pci_address: "0000:18:00.0".into(),
        numa_node: Some(0),
        rail: 0,
        address: Some("10.0.3.7".parse().unwrap()),
        mtu: 9000,
        speed_mbps: 400_000,
        up: true,
        gid_index: Some(3),
        facts: None,
    }];
    full.health.clear();
    full.isolation = Isolation::with(IsolationSet::ALL);
    full
}

/// A row of each table that stands for itself, of a tenant of its own.
fn documents() -> Vec<Write> {
    use Write as W;
    let mut pick = Pick::new(31);
    let red = TenantName::new("red").unwrap();
    let of_red = |tenant: &mut TenantName| *tenant = red.clone();
    let mut row = pick.tenant_row();
    of_red(&mut row.name);
    let mut queue = pick.queue();
    of_red(&mut queue.tenant);
    queue.parent = None;
    queue.guaranteed = proto_model::Shape::default();
    let mut class = pick.class();
    (class.members, class.default_class) = (proto_model::ClassMembers::default(), false);
    let mut reservation = pick.reservation();
    reservation.start = Timestamp(1 << 43);
    let mut schedule = pick.schedule();
    of_red(&mut schedule.tenant);
    let mut secret = pick.values(proto_model::ValuesKind::Secret);
    of_red(&mut secret.id.tenant);
    let mut config = pick.values(proto_model::ValuesKind::Config);
    of_red(&mut config.id.tenant);
    let mut webhook = pick.webhook();
    of_red(&mut webhook.tenant);
    let mut delivery = pick.delivery();
    of_red(&mut delivery.tenant);
    (delivery.webhook, delivery.webhook_uid) = (webhook.name.clone(), webhook.uid.clone());
    let mut request = pick.request();
    of_red(&mut request.tenant);
    of_red(&mut request.id.tenant);
    vec![
        W::PutFabric(Arc::new(fabric())),
        W::PutTenant(Arc::new(row)),
        W::PutQueue(Arc::new(queue)),
        W::PutServiceClass(Arc::new(class)),
        W::PutLicense(Arc::new(pick.license())),
        W::PutReservation(Arc::new(reservation)),
        W::PutSchedule(Arc::new(schedule)),
        W::PutValues(Arc::new(secret)),
        W::PutValues(Arc::new(config)),
        W::PutWebhook(Arc::new(webhook)),
        W::PutDelivery(Arc::new(delivery)),
        W::PutRequest(Arc::new(request)),
        W::PutRestingName(Arc::new(pick.resting_name())),
        W::PutTombstone(Arc::new(pick.deleted_fabric())),
        W::PutTombstone(Arc::new(pick.deleted_tenant())),
        W::PutQos(Arc::new(pick.rollout())),
        W::PutDrain(Arc::new(pick.drain())),
        W::PutToken(Arc::new(pick.join_token())),
    ]
}

/// The store of a small cluster: those, and what a controller does.
async fn made() -> Rows {
    let store = Moody::new(128);
    for write in documents() {
        let Op::Put { key, value, .. } = codec::op(&write) else { panic!("{write:?}") };
        store.put(key, value).await.unwrap();
    }
    let world = World::start(store.clone()).await;
    let handle = &world.handle;
    world.join("n1").await;
    let register = Register {
        node: "n1".parse().unwrap(),
        session: 0,
        agent_version: "0.1.0".into(),
        inventory: Arc::new(inventory()),
        observations: Vec::new(),
        epoch: 0,
    };
    let _session = handle.connect(register).await.unwrap();
    for (name, request) in [("runs", Some("once")), ("waits", None)] {
        handle.apply(&who(), submit(name, request)).await.unwrap();
    }
    handle.deny(&who(), "ROLE_NOT_ALLOWED", "not a viewer's").await.unwrap();
    let years = Duration::from_secs(86_400 * 3650);
    let user = Identity::Admin { user: "root".into() };
    handle.issue_token(&who(), &user, "c", handle.now().plus(years)).await.unwrap();
    let lost = Subject::of(&Identity::Node { name: "n9".into() }).unwrap();
    handle.revoke(&who(), &lost, "lost", years, "c").await.unwrap();
    handle.page_key().await.unwrap();
    handle.seal().await.unwrap();
    held(store.as_ref()).await
}

/// Rows with every field, by key.
fn full() -> Rows {
    let rows = SEEDS.flat_map(|seed| sample::rows(&mut Pick::new(seed)));
    let rows = rows.map(|write| match codec::op(&write) {
        Op::Put { key, value, .. } => (key, value),
        other => panic!("{other:?}"),
    });
    rows.collect::<std::collections::BTreeMap<_, _>>().into_iter().collect()
}

#[tokio::test]
async fn every_version_has_its_recorded_store() {
    record(CURRENT, "store", &made().await);
    record(CURRENT, "rows", &full());
    for version in 1..CURRENT {
        for kind in ["store", "rows"] {
            let old = recorded(version, kind).into_iter().filter(|(key, _)| key != keys::FORMAT.as_bytes());
            let new = old.map(|(key, value)| (key.clone(), migrate::step(version, &key, &value).unwrap()));
            record(version, &format!("{kind}-next"), &new.collect());
        }
    }
    for version in 1..=CURRENT {
        for kind in ["store", "rows"] {
            assert!(recorded(version, kind).len() > 20, "{version} {kind}");
        }
    }
}
