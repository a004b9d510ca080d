//! Leading, batching, and stopping at once when somebody else leads.

use std::{sync::atomic::Ordering, time::Duration};

use controller_core::{CoreError, Event};
use controller_leader::{Ended, Options, Refusal, keys};
use controller_store::Store;

use crate::{
    store::{Mood, Moody},
    world::{PATIENCE, World, delete, submit, who},
};

#[tokio::test]
async fn each_life_has_a_higher_epoch_and_finds_everything() {
    let store = Moody::new(128);
    let mut epochs = Vec::new();
    for life in 0..3 {
        let world = World::start(store.clone()).await;
        assert_eq!(world.jobs().await, life);
        if life == 0 {
            world.join("n0").await;
        }
        world.handle.apply(&who(), submit(&format!("job-{life}"), None)).await.unwrap();
        epochs.push(world.handle.epoch());
        world.stop.cancel();
        assert_eq!(tokio::time::timeout(PATIENCE, world.running).await.unwrap().unwrap(), Ended::Asked);
        let late = world.handle.apply(&who(), submit("late", None)).await.unwrap_err();
        assert!(matches!(late, Refusal::Stopped { .. }), "{late}");
    }
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
}

#[tokio::test]
async fn whatever_waits_while_the_store_syncs_shares_the_next_transaction() {
    let store = Moody::new(4096);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    store.set(Mood::Held);
    let submits: Vec<_> = (0..100)
        .map(|n| {
            let handle = world.handle.clone();
            tokio::spawn(async move {
                handle.apply(&who(), submit(&format!("j{n}"), Some(&format!("r{n}")))).await
            })
        })
        .collect();
    let before = store.txns.load(Ordering::Relaxed);
    world.until("a transaction is held", |_| store.txns.load(Ordering::Relaxed) > before).await;
    store.release();
    for submit in submits {
        submit.await.unwrap().unwrap();
    }
    let made = store.txns.load(Ordering::Relaxed) - before;
    assert!(made <= 10, "{made} transactions for 100 submits");
    assert_eq!(world.jobs().await, 100);
}

#[tokio::test]
async fn a_store_with_small_transactions_gets_small_transactions() {
    let store = Moody::new(6);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    store.set(Mood::Held);
    let before = store.txns.load(Ordering::Relaxed);
    let submits: Vec<_> = (0..50)
        .map(|n| {
            let handle = world.handle.clone();
            tokio::spawn(async move {
                handle.apply(&who(), submit(&format!("j{n}"), Some(&format!("r{n}")))).await
            })
        })
        .collect();
    world.until("a transaction is held", |_| store.txns.load(Ordering::Relaxed) > before).await;
    store.release();
    for submit in submits {
        let applied = submit.await.unwrap().unwrap();
        assert!(applied.version > 0);
    }
    assert!(store.largest.load(Ordering::Relaxed) <= 6, "{}", store.largest.load(Ordering::Relaxed));
    let kept = store.range_all(keys::JOBS.into()).await.unwrap();
    assert_eq!(kept.items.len(), 50);
    for kv in kept.items {
        let name = String::from_utf8_lossy(&kv.key).rsplit('/').next().unwrap().to_owned();
        let version = world.handle.query(move |state, _| {
            let id = proto_model::JobId {
                tenant: proto_model::TenantName::new("default").unwrap(),
                name: proto_model::JobName::new(name).unwrap(),
            };
            state.version(&controller_core::Key::Job(id))
        });
        assert_eq!(version.await.unwrap(), Some(kv.mod_revision), "the state knows the store's revisions");
    }
}

#[tokio::test]
async fn a_full_queue_turns_away_with_a_time_to_come_again() {
    let store = Moody::new(128);
    let world = World::start_with(store.clone(), |options| options.client_queue = 4).await;
    world.join("n0").await;
    store.set(Mood::Held);
    let mut waiting = Vec::new();
    let refused = loop {
        let n = waiting.len();
        let handle = world.handle.clone();
        let mut asked =
            tokio::spawn(async move { handle.apply(&who(), submit(&format!("j{n}"), None)).await });
        match tokio::time::timeout(Duration::from_millis(20), &mut asked).await {
            Ok(answer) => break answer.unwrap().unwrap_err(),
            Err(_) => waiting.push(asked),
        }
    };
    assert!(matches!(refused, Refusal::Busy { waiting: 4, .. }), "{refused}");
    store.release();
    for asked in waiting {
        asked.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn who_lost_the_lead_writes_nothing_more_and_stops() {
    let store = Moody::new(128);
    let old = World::start(store.clone()).await;
    old.join("n0").await;
    let new = World::start(store.clone()).await;
    assert!(new.handle.epoch() > old.handle.epoch());
    let revision = store.status().await.unwrap().revision;
    let refused = old.handle.apply(&who(), submit("split", None)).await.unwrap_err();
    assert!(matches!(refused, Refusal::Stopped { .. }), "{refused}");
    assert_eq!(tokio::time::timeout(PATIENCE, old.running).await.unwrap().unwrap(), Ended::Deposed);
    let beside =
        old.handle.fenced(Vec::new(), vec![controller_store::Op::put("/rail/v1/tokens/user/x", "y")]).await;
    assert!(matches!(beside, Err(Refusal::Stopped { .. })));
    assert_eq!(store.status().await.unwrap().revision, revision);
    new.handle.apply(&who(), submit("whole", None)).await.unwrap();
}

/// Looks often, and has nothing to write of a node that is silent.
fn watchful(options: &mut Options) {
    options.lead_check = Duration::from_millis(20);
    options.config.heartbeat_limit = PATIENCE * 10;
}

#[tokio::test]
async fn who_lost_the_lead_hears_of_it_without_writing() {
    let store = Moody::new(128);
    let old = World::start_with(store.clone(), watchful).await;
    let mut session = {
        old.join("n0").await;
        old.connect("n0").await
    };
    let mut messages = session.messages().unwrap();
    let new = World::start_with(store.clone(), watchful).await;
    let revision = store.status().await.unwrap().revision;
    assert_eq!(tokio::time::timeout(PATIENCE, old.running).await.unwrap().unwrap(), Ended::Deposed);
    assert_eq!(store.status().await.unwrap().revision, revision, "nothing was written for it");
    while messages.recv().await.is_some() {}
    let late = old.handle.query(|state, _| state.jobs(None).count()).await.unwrap_err();
    assert!(matches!(late, Refusal::Stopped { .. }), "{late}");
    new.handle.apply(&who(), submit("whole", None)).await.unwrap();
}

#[tokio::test]
async fn a_refused_token_makes_it_look_at_once() {
    let store = Moody::new(128);
    let old = World::start_with(store.clone(), |options| options.lead_check = PATIENCE * 10).await;
    let _new = World::start(store.clone()).await;
    let op = controller_store::Op::put("/rail/v1/tokens/user/x", "y");
    let refused = old.handle.fenced(Vec::new(), vec![op]).await;
    assert!(matches!(refused, Err(Refusal::Stopped { .. })));
    assert_eq!(tokio::time::timeout(PATIENCE, old.running).await.unwrap().unwrap(), Ended::Deposed);
}

#[tokio::test]
async fn a_leader_key_that_was_removed_is_taken_anew() {
    let store = Moody::new(128);
    for check in [Duration::from_millis(20), PATIENCE * 10] {
        let world = World::start_with(store.clone(), |options| options.lead_check = check).await;
        let epoch = world.handle.epoch();
        store.delete(keys::LEADER.into()).await.unwrap();
        if check > PATIENCE {
            // It does not look, but its next write does not hold.
            let refused = world.handle.apply(&who(), submit("refused", None)).await.unwrap_err();
            assert!(matches!(refused, Refusal::Unwritable { .. }), "{refused}");
        }
        world.until("a new epoch", |handle| handle.epoch() > epoch && handle.store_health().writable).await;
        world.join(&format!("n{epoch}")).await;
        world.handle.apply(&who(), submit(&format!("j{epoch}"), None)).await.unwrap();
        let stored = store.range_all(keys::JOBS.into()).await.unwrap().items.len();
        assert_eq!(world.jobs().await, stored);
        world.stop.cancel();
        assert_eq!(tokio::time::timeout(PATIENCE, world.running).await.unwrap().unwrap(), Ended::Asked);
    }
}

#[tokio::test]
async fn a_deposed_leader_refuses_nothing_by_what_it_knew() {
    let store = Moody::new(128);
    let old = World::start_with(store.clone(), |options| options.lead_check = PATIENCE * 10).await;
    let new = World::start(store.clone()).await;
    new.join("n0").await;
    new.handle.apply(&who(), submit("fresh", None)).await.unwrap();
    // It knows no such job, and is not to say so.
    let refused = old.handle.apply(&who(), delete("fresh")).await.unwrap_err();
    assert!(matches!(refused, Refusal::Stopped { cause: "another controller leads" }), "{refused}");
    assert_eq!(tokio::time::timeout(PATIENCE, old.running).await.unwrap().unwrap(), Ended::Deposed);
    let refused = new.handle.apply(&who(), delete("stale")).await.unwrap_err();
    assert!(matches!(&refused, Refusal::Core(CoreError::JobNotFound { .. })), "{refused}");
}

#[tokio::test]
async fn refusals_share_a_look_and_need_none_beside_a_write() {
    let store = Moody::new(4096);
    let world = World::start_with(store.clone(), |options| options.lead_check = PATIENCE * 10).await;
    world.join("n0").await;
    let ask = |event: Event| {
        let handle = world.handle.clone();
        tokio::spawn(async move { handle.apply(&who(), event).await })
    };
    let before = store.gets.load(Ordering::Relaxed);
    let asked: Vec<_> = (0..100).map(|n| ask(delete(&format!("j{n}")))).collect();
    for refused in asked {
        let refused = refused.await.unwrap().unwrap_err();
        assert!(matches!(&refused, Refusal::Core(CoreError::JobNotFound { .. })), "{refused}");
    }
    let looks = store.gets.load(Ordering::Relaxed) - before;
    assert!((1..=10).contains(&looks), "{looks} looks for 100 refusals");
    // Whatever waits while a transaction is held is decided in one batch, with one write among it.
    store.set(Mood::Held);
    let (txns, gets) = (store.txns.load(Ordering::Relaxed), store.gets.load(Ordering::Relaxed));
    let first = ask(submit("first", None));
    world.until("a transaction is held", |_| store.txns.load(Ordering::Relaxed) > txns).await;
    let (second, refused) = (ask(submit("second", None)), ask(delete("nothing")));
    tokio::task::yield_now().await;
    store.release();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    refused.await.unwrap().unwrap_err();
    assert_eq!(store.gets.load(Ordering::Relaxed), gets);
}
