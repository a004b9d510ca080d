//! The audit log in the store: in one transaction with what it tells of, before the answer, and never in the way.

use std::sync::Arc;

use controller_core::{AuditRow, Event};
use controller_leader::{Options, Refusal, Seal, codec, inspect, keys};
use controller_store::{MemoryStore, Op, Store, Txn};
use proto_audit::{Content, Log, Record, Summary, Verifier};
use proto_model::Timestamp;
use proto_rpc::Identity;

use crate::{
    store::{Mood, Moody},
    world::{World, delete, submit, who},
};

fn sign(message: &[u8]) -> Vec<u8> {
    message.iter().map(|byte| byte ^ 0x33).collect()
}

fn sealing(options: &mut Options) {
    options.seal = Some(Seal::new(|message| Some(sign(message))));
}

async fn rows(store: &dyn Store) -> Vec<(AuditRow, u64)> {
    let mut rows = Vec::new();
    for log in Log::ALL {
        let found = store.range_all(keys::audit_of(log).into()).await.unwrap();
        rows.extend(found.items.iter().map(|kv| (codec::audit(kv).unwrap(), kv.mod_revision)));
    }
    rows
}

async fn records(store: &dyn Store) -> Vec<Arc<Record>> {
    rows(store).await.into_iter().flat_map(|(row, _)| row.records).collect()
}

async fn check(store: &dyn Store) -> Summary {
    let mut verifier = Verifier::new(|message: &[u8], signature: &[u8]| sign(message) == signature);
    for record in records(store).await {
        verifier.take(&record).unwrap();
    }
    let both = verifier.finish_open().unwrap();
    assert!(both.denials.records == 0 || both.denials.last > 0);
    both.changes
}

/// What the last record tells of, and the revision of its row.
async fn last(store: &dyn Store) -> (String, u64) {
    let rows = rows(store).await;
    let (row, revision) = rows.iter().max_by_key(|(_, revision)| *revision).unwrap();
    let reported = match &row.records.last().unwrap().content {
        Content::Change(change) => format!("{} {}", change.object.kind, change.object.name),
        Content::Denial(denial) => format!("{} x{}", denial.reason, denial.count),
        other => format!("{other:?}"),
    };
    (reported, *revision)
}

#[tokio::test]
async fn a_change_and_its_record_are_one_transaction() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    let made = world.handle.apply(&who(), submit("a", None)).await.unwrap();
    assert_eq!(last(store.as_ref()).await, ("job a".to_owned(), made.version));
    let identity = Identity::admin("ann").unwrap();
    let expires = world.handle.now().plus(std::time::Duration::from_secs(60));
    let token = world.handle.issue_token(&who(), &identity, "test", expires).await.unwrap();
    let stored = store.get(keys::user_token(token.id())).await.unwrap().unwrap();
    let (reported, revision) = last(store.as_ref()).await;
    assert!(
        reported.starts_with(&format!("api-token {}", token.id())) && !reported.contains(&token.reveal()),
        "{reported}"
    );
    assert_eq!(revision, stored.mod_revision);
    let before = records(store.as_ref()).await.len();
    world.handle.apply(&who(), delete("nobody")).await.unwrap_err();
    assert_eq!(records(store.as_ref()).await.len(), before, "what changed nothing is not told");
    check(store.as_ref()).await;
}

#[tokio::test]
async fn a_denial_is_recorded_before_it_is_told_or_not_told() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    world.handle.deny(&who(), "ROLE_NOT_ALLOWED", "no").await.unwrap();
    assert_eq!(last(store.as_ref()).await.0, "ROLE_NOT_ALLOWED x1");
    store.set(Mood::Full);
    let refused = world.handle.deny(&who(), "ROLE_NOT_ALLOWED", "no").await.unwrap_err();
    assert!(matches!(refused, Refusal::Unwritable { .. }), "{refused}");
    world.handle.apply(&who(), submit("a", None)).await.unwrap_err();
    store.set(Mood::Well);
    world.until("writable again", |handle| handle.store_health().writable).await;
    world.handle.apply(&who(), submit("b", None)).await.unwrap();
    check(store.as_ref()).await;
}

#[tokio::test]
async fn a_flood_of_denials_makes_few_records_that_count_every_one() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    let calls: Vec<_> = (0..600)
        .map(|_| {
            let handle = world.handle.clone();
            tokio::spawn(async move { handle.deny(&who(), "NO_CREDENTIALS", "none was given").await })
        })
        .collect();
    world.handle.apply(&who(), submit("a", None)).await.unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let records = records(store.as_ref()).await;
    let counts: Vec<u64> = records
        .iter()
        .filter_map(|record| match &record.content {
            Content::Denial(denial) => Some(denial.count),
            _ => None,
        })
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 600);
    assert!(counts.len() <= 27, "{counts:?}");
    check(store.as_ref()).await;
}

#[tokio::test]
async fn the_head_is_signed_by_every_leader_and_old_records_go_behind_it() {
    let inner = Arc::new(MemoryStore::default());
    for life in 0..3 {
        let world = World::start_with(inner.clone(), |options| {
            sealing(options);
            options.config.max_audit = 20;
        })
        .await;
        if life == 0 {
            world.join("n0").await;
        }
        for n in 0..40 {
            world.handle.apply(&who(), submit(&format!("j{life}-{n}"), None)).await.unwrap();
        }
        world.handle.seal().await.unwrap();
        let sum = check(inner.as_ref()).await;
        assert_eq!((sum.unsigned, sum.records <= 22), (0, true), "{sum:?}");
        world.handle.seal().await.unwrap();
        assert_eq!(check(inner.as_ref()).await, sum, "a head that is signed is not signed again");
        world.stop.cancel();
        world.running.await.unwrap();
    }
    assert!(check(inner.as_ref()).await.first > 90);
}

#[tokio::test]
async fn a_broken_log_is_named_and_goes_on_and_keeps_nobody_from_leading() {
    let store = Arc::new(MemoryStore::default());
    let world = World::start_with(store.clone(), sealing).await;
    world.join("n0").await;
    for n in 0..3 {
        world.handle.apply(&who(), submit(&format!("j{n}"), None)).await.unwrap();
    }
    world.stop.cancel();
    world.running.await.unwrap();
    let found = store.range_all(keys::AUDIT.into()).await.unwrap().items;
    let broken = found[found.len() - 2].key.clone();
    store.txn(Txn::new().then(Op::put(broken, "garbage"))).await.unwrap();
    let inspection = inspect(store.as_ref(), Timestamp(1)).await.unwrap();
    assert!(inspection.is_sound());
    assert!(inspection.audit.unwrap().contains("cannot be read"));
    let world = World::start_with(store.clone(), sealing).await;
    let before = world.handle.apply(&who(), submit("later", None)).await.unwrap();
    assert!(before.version > 0);
    let found = store.range_all(keys::AUDIT.into()).await.unwrap().items;
    let resumed = found.iter().filter_map(|kv| codec::audit(kv).ok()).flat_map(|row| row.records);
    let resumed = resumed.filter(|record| matches!(record.content, Content::Resumed { .. }));
    assert_eq!(resumed.count(), 1);
}

#[tokio::test]
async fn nobody_changes_anything_without_a_name() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    // Only agents speak for themselves.
    let session = {
        world.join("n0").await;
        world.connect("n0").await
    };
    let before = records(store.as_ref()).await.len();
    session.say(Event::DeleteFabric { name: "f".to_owned(), if_version: 0, dry_run: false }).await.unwrap();
    session
        .say(Event::AgentHeartbeat { node: "n0".parse().unwrap(), session: session.number() })
        .await
        .unwrap();
    assert_eq!(world.jobs().await, 0);
    assert_eq!(records(store.as_ref()).await.len(), before);
}
