//! The loop on a real etcd that falls silent in the middle of a write.

use std::{sync::Arc, time::Duration};

use controller_leader::{Refusal, keys};
use controller_store::{Compare, EtcdOptions, EtcdStore, Op, Store, Txn, real_etcd::RealEtcd};

use crate::world::{World, submit, who};

async fn open(etcd: &RealEtcd) -> Arc<EtcdStore> {
    let (deadline, patience) = (Duration::from_millis(300), Duration::from_millis(600));
    let options = EtcdOptions { deadline, patience, ..etcd.options() };
    Arc::new(EtcdStore::open(options).await.unwrap())
}

/// A transaction that a leader of that epoch sent, as it comes after all.
async fn comes_late(store: &dyn Store, epoch: u64) -> bool {
    let fence = Compare::create_revision(keys::LEADER, epoch);
    store.txn(Txn::new().when(fence).then(Op::put(keys::PROBE, "late"))).await.unwrap().succeeded
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_ends_with_a_write_whose_outcome_is_not_known() {
    let Some(etcd) = RealEtcd::start(&[]) else { return };
    let store = open(&etcd).await;
    let world = World::start_with(store.clone(), |_| {}).await;
    world.join("n0").await;
    world.handle.apply(&who(), submit("before", None)).await.unwrap();
    let epoch = world.handle.epoch();
    etcd.pause();
    let refused = world.handle.apply(&who(), submit("maybe", Some("once"))).await.unwrap_err();
    assert!(matches!(refused, Refusal::Unknown { .. }), "{refused}");
    etcd.resume();
    world.until("the store is writable", |handle| handle.store_health().writable).await;
    let now = world.handle.epoch();
    let key = store.get(keys::LEADER.into()).await.unwrap().unwrap();
    assert!(now > epoch && key.create_revision == now, "{epoch}, {now}, {key:?}");
    assert!(!comes_late(open(&etcd).await.as_ref(), epoch).await);
    // The state is what is stored, whatever became of the write; and the write is there once.
    let stored = store.range_all(keys::JOBS.into()).await.unwrap().items.len();
    assert_eq!(world.jobs().await, stored);
    world.handle.apply(&who(), submit("maybe", Some("once"))).await.unwrap();
    assert_eq!(store.range_all(keys::JOBS.into()).await.unwrap().items.len(), 2);
}
