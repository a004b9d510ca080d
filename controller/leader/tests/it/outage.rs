//! The store takes no writes for a while.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use controller_core::{Event, Register};
use controller_leader::{Ended, Options, Refusal, keys};
use controller_store::Store;
use proto_model::Inventory;

use crate::{
    store::{Mood, Moody},
    world::{PATIENCE, World, delete, submit, who},
};

#[tokio::test]
async fn a_refused_submit_leaves_no_trace_and_writes_work_again_by_themselves() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    world.handle.apply(&who(), submit("before", None)).await.unwrap();
    store.set(Mood::Full);
    let revision = store.status().await.unwrap().revision;
    for name in ["a", "b"] {
        let refused = world.handle.apply(&who(), submit(name, Some(name))).await.unwrap_err();
        assert!(
            matches!(&refused, Refusal::Unwritable { cause } if cause.contains("No space left")),
            "{refused}"
        );
    }
    assert!(!world.handle.store_health().writable);
    assert_eq!((world.jobs().await, store.status().await.unwrap().revision), (1, revision));
    store.set(Mood::Well);
    world.until("the store is writable", |handle| handle.store_health().writable).await;
    world.handle.apply(&who(), submit("a", Some("a"))).await.unwrap();
    assert_eq!(world.jobs().await, 2);
}

#[tokio::test]
async fn an_unknown_outcome_is_read_back_and_the_repeated_submit_is_the_same_job() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    store.set(Mood::Unknown);
    let refused = world.handle.apply(&who(), submit("maybe", Some("once"))).await.unwrap_err();
    assert!(matches!(refused, Refusal::Unknown { .. }), "{refused}");
    store.set(Mood::Well);
    world.until("the store is writable", |handle| handle.store_health().writable).await;
    assert_eq!(world.jobs().await, 1, "it was stored after all");
    let again = world.handle.apply(&who(), submit("maybe", Some("once"))).await.unwrap();
    let controller_core::Reply::Job { existed, .. } = again.reply else { panic!("no job") };
    assert!(existed);
}

#[tokio::test]
async fn a_store_that_falls_silent_is_told_although_nobody_writes() {
    let store = Moody::new(128);
    let often = Duration::from_millis(20);
    let world = World::start_with(store.clone(), |options| options.lead_check = often).await;
    let epoch = world.handle.epoch();
    store.set(Mood::Silent);
    world.until("it is told", |handle| !handle.store_health().writable).await;
    let cause = world.handle.store_health().cause.unwrap();
    assert!(cause.contains("nobody answers"), "{cause}");
    assert_eq!(world.jobs().await, 0, "reads go on");
    store.set(Mood::Well);
    world.until("the store is writable", |handle| handle.store_health().writable).await;
    assert_eq!(world.handle.epoch(), epoch, "nothing was in doubt");
}

#[tokio::test]
async fn where_it_is_not_sure_who_leads_a_refusal_says_so() {
    let store = Moody::new(128);
    let rarely = |options: &mut Options| options.lead_check = PATIENCE * 10;
    let world = World::start_with(store.clone(), rarely).await;
    store.set(Mood::Silent);
    let refused = world.handle.apply(&who(), delete("none")).await.unwrap_err();
    assert!(
        matches!(&refused, Refusal::Unconfirmed { cause } if cause.contains("nobody answers")),
        "{refused}"
    );
    assert!(!world.handle.store_health().writable);
    let refused = world.handle.apply(&who(), delete("none")).await.unwrap_err();
    assert!(matches!(refused, Refusal::Unwritable { .. }), "{refused}");
    store.set(Mood::Well);
    world.until("the store is writable", |handle| handle.store_health().writable).await;
    let refused = world.handle.apply(&who(), delete("none")).await.unwrap_err();
    assert!(matches!(refused, Refusal::Core(_)), "{refused}");
}

#[tokio::test]
async fn a_write_that_comes_after_what_is_stored_was_read_changes_nothing() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    let epoch = world.handle.epoch();
    store.set(Mood::Late);
    let refused = world.handle.apply(&who(), submit("maybe", Some("once"))).await.unwrap_err();
    assert!(matches!(refused, Refusal::Unknown { .. }), "{refused}");
    store.set(Mood::Well);
    world.until("the store is writable", |handle| handle.store_health().writable).await;
    let late = store.come_late().await;
    assert!(!late.is_empty() && late.iter().all(|outcome| !outcome.succeeded), "{late:?}");
    assert!(world.handle.epoch() > epoch, "it has ended its own epoch");
    assert!(
        world
            .metrics
            .encode(proto_rpc::exposition::Exposition::Text)
            .contains(&format!("rail_epoch {}", world.handle.epoch()))
    );
    let stored = store.range_all(keys::JOBS.into()).await.unwrap();
    assert_eq!((stored.items.len(), world.jobs().await), (0, 0));
    let again = world.handle.apply(&who(), submit("maybe", Some("once"))).await.unwrap();
    let controller_core::Reply::Job { existed, .. } = again.reply else { panic!("no job") };
    assert!(!existed);
    // What is written beside the core has the new epoch too.
    let op = controller_store::Op::put("/rail/v1/tokens/user/x", "y");
    assert!(world.handle.fenced(Vec::new(), vec![op]).await.unwrap().succeeded);
}

#[tokio::test]
async fn who_was_replaced_while_an_outcome_was_not_known_reads_nothing_and_stops() {
    let store = Moody::new(128);
    let old = World::start(store.clone()).await;
    old.join("n0").await;
    store.set(Mood::Late);
    old.handle.apply(&who(), submit("maybe", None)).await.unwrap_err();
    store.set(Mood::Well);
    let new = World::start(store.clone()).await;
    assert_eq!(tokio::time::timeout(PATIENCE, old.running).await.unwrap().unwrap(), Ended::Deposed);
    assert!(store.come_late().await.iter().all(|outcome| !outcome.succeeded));
    new.handle.apply(&who(), submit("whole", None)).await.unwrap();
}

#[tokio::test]
async fn what_an_agent_said_is_said_again_and_its_stream_lives_on() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    let mut session = world.connect("n0").await;
    let mut messages = session.messages().unwrap();
    assert!(messages.recv().await.is_some(), "the Welcome");
    store.set(Mood::Full);
    world.handle.apply(&who(), submit("refused", None)).await.unwrap_err();
    let inventory = Inventory { cpus: 99, ..Inventory::default() };
    let node = session.node().clone();
    let said = Event::AgentInventory { node, session: session.number(), inventory: Arc::new(inventory) };
    session.say(said).await.unwrap();
    session.hint(Event::AgentHeartbeat { node: session.node().clone(), session: session.number() });
    store.set(Mood::Well);
    let heard = async {
        loop {
            let node = session.node().clone();
            let cpus = world.handle.query(move |state, _| state.node(&node).map(|node| node.inventory.cpus));
            if cpus.await.unwrap() == Some(99) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.unwrap();
    assert!(world.handle.sessions().is_connected(session.node()));
    let text = world.metrics.encode(proto_rpc::exposition::Exposition::Text);
    assert!(text.contains("rail_store_writable 1"), "{text}");
}

#[tokio::test]
async fn a_failed_probe_outside_of_an_outage_leaves_no_cause_behind() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    store.set(Mood::Full);
    let before = store.txns.load(Ordering::Relaxed);
    // An agent claims a newer epoch: the loop asks the store who leads, and gets no answer.
    let liar = Register {
        node: "n0".parse().unwrap(),
        session: 0,
        agent_version: String::new(),
        inventory: Arc::default(),
        observations: Vec::new(),
        epoch: u64::MAX,
    };
    assert!(world.handle.connect(liar).await.is_err());
    world.until("the probe", |_| store.txns.load(Ordering::Relaxed) > before).await;
    store.set(Mood::Well);
    // A read goes through the loop, so the probe's end is behind it.
    world.jobs().await;
    assert_eq!(world.handle.store_health().cause, None);
    assert!(world.handle.store_health().writable);
}

#[tokio::test]
async fn nodes_that_were_heard_during_a_long_outage_are_ready_after_it() {
    let store = Moody::new(128);
    let limit = Duration::from_secs(1);
    let world = World::start_with(store.clone(), |options| options.config.heartbeat_limit = limit).await;
    world.join("n0").await;
    let session = world.connect("n0").await;
    let revision = |world: &World| world.handle.store_health().revision;
    store.set(Mood::Full);
    world.handle.apply(&who(), submit("refused", None)).await.unwrap_err();
    let (begin, stored) = (std::time::Instant::now(), revision(&world));
    while begin.elapsed() < limit * 2 {
        session.hint(Event::AgentHeartbeat { node: session.node().clone(), session: session.number() });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    store.set(Mood::Well);
    world.until("the store is writable", |handle| handle.store_health().writable).await;
    let node = session.node().clone();
    let health = world.handle.query(move |state, _| state.node(&node).map(|node| node.health)).await;
    assert_eq!(health.unwrap(), Some(proto_model::Health::Ready));
    assert_eq!(revision(&world), stored, "not even for a moment was it anything else");
}

#[tokio::test]
async fn a_new_cluster_that_cannot_be_written_yet_gets_what_it_needs_later() {
    let store = Moody::new(128);
    let metrics = proto_rpc::Metrics::new("test", "0", std::time::SystemTime::UNIX_EPOCH);
    let stop = tokio_util::sync::CancellationToken::new();
    let options = Options::new("test", stop.clone());
    let metrics = controller_leader::LoopMetrics::new(&metrics);
    let (handle, running) = controller_leader::start(store.clone(), options, metrics).await.unwrap();
    store.set(Mood::Full);
    controller_leader::bootstrap(&handle, "0").await.unwrap_err();
    let later = tokio::spawn(controller_leader::bootstrap_later(handle.clone(), "0"));
    store.set(Mood::Well);
    tokio::time::timeout(PATIENCE, later).await.unwrap().unwrap();
    assert!(store.get(keys::BOOTSTRAP.into()).await.unwrap().is_some());
    handle.apply(&who(), submit("early", None)).await.unwrap_err();
    assert_eq!(handle.query(|state, _| state.tenants(None).count()).await.unwrap(), 1);
    // One that has nothing to wait for ends with the loop.
    stop.cancel();
    assert_eq!(tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap(), Ended::Asked);
    tokio::time::timeout(PATIENCE, controller_leader::bootstrap_later(handle, "0")).await.unwrap();
}
