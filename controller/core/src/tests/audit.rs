//! The audit log: what leaves a record and what does not, batches that fail, what is dropped, and what was broken.

use std::{sync::Arc, time::Duration};

use proto_audit::{Actor, Content, Fault, Log, Record, Verifier};
use proto_model::{Quota, Timestamp};

use super::{World, fill, id, name, spec, stored, submit, tenant};
use crate::{
    AttachedWrite, Attributed, AuditNote, AuditRow, BadAudit, Config, DenialRecord, Event, Naming,
    NodeChange, State, StoredAudit, Write, event::Key, step,
};

/// What is stored, as it is read.
type Rows = Vec<StoredAudit>;

fn sign(message: &[u8]) -> Vec<u8> {
    message.iter().rev().map(|byte| byte ^ 0x5a).collect()
}

impl World {
    fn seal(&mut self) -> bool {
        self.seal_log(Log::Changes)
    }

    fn seal_log(&mut self, log: Log) -> bool {
        let Some(claim) = self.state.claim(log, self.now) else { return false };
        let signature = sign(&claim.message());
        self.step(Event::Sealed(log, Some(Box::new((claim, signature)))));
        true
    }

    fn of(&self, log: Log) -> Vec<Arc<Record>> {
        self.records().into_iter().filter(|record| record.log == log).collect()
    }

    fn rows(&self) -> Vec<Arc<AuditRow>> {
        let rows = self.stored.values().filter_map(|write| match write {
            Write::PutAudit(row) => Some(Arc::clone(row)),
            _ => None,
        });
        rows.collect()
    }

    fn records(&self) -> Vec<Arc<Record>> {
        self.rows().iter().flat_map(|row| row.records.clone()).collect()
    }

    fn check(&self) -> Result<u64, Fault> {
        let mut verifier = Verifier::new(|message: &[u8], signature: &[u8]| sign(message) == signature);
        for record in self.records() {
            verifier.take(&record).map_err(|broken| broken.fault)?;
        }
        verifier.finish_open().map(|sum| sum.records()).map_err(|broken| broken.fault)
    }
}

fn denied(count: u64) -> Event {
    Event::DenialRecord(DenialRecord { reason: "ROLE_NOT_ALLOWED".into(), detail: "no".into(), count })
}

fn quota(text: &str, gpus: u32, dry_run: bool) -> Event {
    let (name, description) = (tenant(text), String::new());
    Event::ApplyTenant {
        name,
        description,
        quota: Quota::new(gpus, 0),
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run,
    }
}

/// What the last record tells of, if there is a new one.
fn reported(world: &mut World, event: Event) -> Option<String> {
    let seen = |world: &World| Log::ALL.map(|log| world.of(log).len());
    let before = seen(world);
    let _ = world.step(event);
    let after = seen(world);
    assert!(after.iter().sum::<usize>() <= before.iter().sum::<usize>() + 1, "one event, one record");
    let log = if after[1] > before[1] { Log::Denials } else { Log::Changes };
    let records = world.of(log);
    records.get(before[log as usize]).map(|record| match &record.content {
        Content::Change(change) => format!("{} {}", change.object.kind, change.object.name),
        Content::Denial(denial) => format!("{} x{}", denial.reason, denial.count),
        other => panic!("{other:?}"),
    })
}

#[test]
fn every_change_by_authority_has_one_record_and_nothing_else_has() {
    let mut world = World::new();
    let world = &mut world;
    let session = world.state.session(&name(0)).unwrap();
    let generated = match submit("x", spec(1, 1)) {
        Event::Submit(mut submit) => {
            submit.name = Naming::Generate("gen-".to_owned());
            Event::Submit(submit)
        }
        other => other,
    };
    let cordon = NodeChange::unschedulable(true, "");
    let change = |change: NodeChange| Event::UpdateNode { name: name(3), change, if_version: 0 };
    let noted = AuditNote { kind: "certificate", name: "admin/x".into(), tenant: String::new() };
    let drain = |reason: &str| Event::DrainRail {
        target: "node/n1:0".into(),
        reason: reason.into(),
        by: "root".into(),
        force: false,
    };
    let undrain = || Event::UndrainRail { target: "node/n1:0".into() };
    let cancel = || Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None };
    let table: Vec<(Event, Option<&str>)> = vec![
        (submit("a", spec(1, 4)), Some("job a")),
        (submit("a", spec(1, 4)), None),
        (quota("red", 12, true), None),
        (quota("red", 12, false), Some("tenant red")),
        (quota("red", 12, false), None),
        (change(cordon.clone()), Some("node n3")),
        (change(cordon), None),
        (drain("broken"), Some("drain node/n1:0")),
        (drain("broken"), None),
        (undrain(), Some("drain node/n1:0")),
        (undrain(), None),
        (Event::ReturnNode { name: name(1) }, None),
        (cancel(), Some("job a")),
        (cancel(), None),
        (Event::DeleteJob { by: None, id: id("nobody"), indices: Vec::new() }, None),
        (Event::CreateToken { node: name(9), hash: [9; 32], lifetime: None }, Some("join-token n9")),
        (Event::Join { node: name(9), hash: [8; 32], csr: [1; 32] }, None),
        (Event::Join { node: name(9), hash: [9; 32], csr: [1; 32] }, Some("node n9")),
        (Event::Join { node: name(9), hash: [9; 32], csr: [1; 32] }, Some("node n9")),
        (Event::AuditNote(noted), Some("certificate admin/x")),
        (denied(3), Some("ROLE_NOT_ALLOWED x3")),
        (Event::DeleteNode { name: name(9), force: false, uid: None }, Some("node n9")),
        (Event::DeleteTenant { name: tenant("blue"), uid: None, dry_run: false }, Some("tenant blue")),
        (Event::AgentHeartbeat { node: name(0), session }, None),
        (Event::Tick, None),
        (Event::AgentDisconnected { node: name(0), session }, None),
    ];
    for (event, expected) in table {
        let what = format!("{event:?}");
        assert_eq!(reported(world, event).as_deref(), expected, "{what}");
    }
    let made = reported(world, generated).unwrap();
    assert!(made.starts_with("job gen-"), "{made}");
    let versions: Vec<u64> = world
        .records()
        .iter()
        .filter_map(|record| match &record.content {
            Content::Change(change) if change.object.name == "red" => Some(change.object.version),
            _ => None,
        })
        .collect();
    assert!(matches!(versions[..], [0, before] if before > 0), "{versions:?}");
    world.check().unwrap();
}

#[test]
fn who_asks_for_nothing_by_name_changes_nothing() {
    let mut world = World::new();
    let before = world.state.clone();
    let random = &mut 1;
    let out = step(&mut world.state, submit("a", spec(1, 1)), world.now, &mut |buffer| fill(random, buffer));
    assert_eq!(out.reply.unwrap().unwrap_err().code(), "UNATTRIBUTED");
    assert!(out.writes.is_empty() && world.state.same(&before));
}

#[test]
fn what_is_only_carried_is_written_with_its_record_or_not_at_all() {
    let mut world = World::new();
    let beside = vec![AttachedWrite { key: "/k".into(), value: Some(Arc::from(*b"v")) }];
    let actor = Arc::new(Actor::default());
    let by = |event| {
        Event::Attributed(Box::new(Attributed { actor: Arc::clone(&actor), beside: beside.clone(), event }))
    };
    let writes = |event, world: &mut World| -> Vec<Key> {
        let out = step(&mut world.state, event, world.now, &mut |buffer| buffer.fill(1));
        out.writes.iter().map(Write::key).collect()
    };
    let noted = Event::AuditNote(AuditNote { kind: "api-token", name: "t".into(), tenant: "red".into() });
    let keys = writes(by(noted), &mut world);
    assert!(matches!(&keys[..], [Key::Audit(..), Key::AttachedWrite(key)] if **key == *"/k"), "{keys:?}");
    let refused = Event::DeleteJob { by: None, id: id("nobody"), indices: Vec::new() };
    assert!(writes(by(refused), &mut world).is_empty());
}

#[test]
fn a_batch_shares_rows_and_one_that_fails_leaves_no_trace() {
    let mut world = World::new();
    let (before, random) = (world.state.clone(), &mut 5);
    let actor = Arc::new(Actor::default());
    let mut batch = |world: &mut World, count: usize| -> Vec<Write> {
        let mut last = std::collections::BTreeMap::new();
        for n in 0..count {
            let event = quota(&format!("t{n}"), 1, false).by(&actor);
            let out = step(&mut world.state, event, world.now, &mut |buffer| fill(random, buffer));
            last.extend(out.writes.into_iter().map(|write| (write.key(), write)));
        }
        last.into_values().collect()
    };
    batch(&mut world, 70);
    world.state.rollback();
    assert!(world.state.same(&before), "the chain goes back with the rest");
    let writes = batch(&mut world, 70);
    let rows: Vec<usize> = writes
        .iter()
        .filter_map(|write| match write {
            Write::PutAudit(row) => Some(row.records.len()),
            _ => None,
        })
        .collect();
    assert_eq!(rows, [32, 32, 6]);
    world.stored.extend(writes.into_iter().map(|write| (write.key(), write)));
    world.state.commit(99);
    assert!(world.check().unwrap() > 70);
    assert!(reported(&mut world, quota("later", 1, false)).is_some());
    assert_eq!(world.rows().last().unwrap().records.len(), 1, "a row is written by one transaction");
    assert_eq!(world.reload(8).audit_fault(), None);
}

#[test]
fn old_records_go_behind_a_checkpoint_and_the_rest_is_proved() {
    let mut world = World::new();
    world.state.0.config.max_audit = 40;
    world.state.0.config.seal_every = 10;
    let (mut seals, mut most) = (0, 0);
    for n in 0..400_u32 {
        world.ok(quota("red", 16 + n, false));
        if world.state.seal_due(Log::Changes).is_some_and(|due| due <= world.now) {
            assert!(world.seal());
            assert!(world.state.claim(Log::Changes, world.now).is_none(), "the head is a checkpoint");
            seals += 1;
        }
        most = most.max(world.records().len());
        world.check().unwrap();
    }
    assert!(most <= 45, "{most}");
    assert!((40..=200).contains(&seals), "{seals}");
    assert!(world.records()[0].seq > 300);
    // A new leader signs once it has something to say, and goes on where the former has ended.
    world.seal();
    world.state = world.reload(8);
    assert_eq!(world.state.seal_due(Log::Changes), None);
    world.ok(quota("red", 1, false));
    assert!(world.state.seal_due(Log::Changes).is_some_and(|due| due <= world.now), "the first of an epoch");
    assert!(world.seal());
    world.check().unwrap();
    // Then time is enough.
    world.ok(quota("red", 2, false));
    let within = Config::default().seal_within;
    assert_eq!(world.state.seal_due(Log::Changes), Some(world.now.plus(within)));
    world.now = world.now.plus(within + Duration::from_secs(1));
    let stale = world.state.claim(Log::Changes, world.now).unwrap();
    world.ok(quota("red", 3, false));
    let before = world.records().len();
    world.step(Event::Sealed(Log::Changes, Some(Box::new((stale, Vec::new())))));
    assert_eq!(world.records().len(), before, "a claim of another head changes nothing");
}

/// However many are refused, what was changed is still told; and what was dropped of the refusals is signed.
#[test]
fn denials_push_out_denials_and_never_a_change() {
    let mut world = World::new();
    (world.state.0.config.max_audit, world.state.0.config.max_denials) = (200, 40);
    world.state.0.config.seal_every = 10;
    let mut changes = Vec::new();
    for n in 0..1500_u32 {
        if n % 50 == 0 {
            world.ok(quota("red", 16 + n, false));
            changes.push(world.of(Log::Changes).last().unwrap().seq);
        }
        world.step(denied(1));
        for log in Log::ALL {
            if world.state.seal_due(log).is_some_and(|due| due <= world.now) {
                world.seal_log(log);
            }
        }
        if n % 100 == 99 {
            world.check().unwrap();
            world.state = world.reload(7);
            (world.state.0.config.max_audit, world.state.0.config.max_denials) = (200, 40);
            world.state.0.config.seal_every = 10;
        }
    }
    world.seal_log(Log::Denials);
    world.seal();
    let kept: Vec<u64> = world.of(Log::Changes).iter().map(|record| record.seq).collect();
    assert!(changes.iter().all(|seq| kept.contains(seq)), "a change is gone");
    let denials = world.of(Log::Denials);
    assert!(denials.len() <= 45 && denials[0].seq > 1000, "{} from {}", denials.len(), denials[0].seq);
    // Both chains are proved, and neither can be left out.
    world.check().unwrap();
    let refused = |log: Log| {
        let mut verifier = Verifier::new(|message: &[u8], signature: &[u8]| sign(message) == signature);
        world.of(log).iter().for_each(|record| verifier.take(record).unwrap());
        verifier.finish().unwrap_err().fault
    };
    assert!(matches!(refused(Log::Changes), Fault::CutOff { .. }));
    assert!(matches!(refused(Log::Denials), Fault::CutOff { .. }));
}

#[test]
fn what_was_broken_is_told_by_the_next_record_and_keeps_nobody_from_leading() {
    let mut world = World::new();
    for n in 0..80 {
        world.ok(quota("red", 16 + n, false));
    }
    let rows = world.stored.clone();
    let last = world.records().last().unwrap().seq;
    let load = |audit: &dyn Fn(&mut Rows)| {
        let mut stored = stored(&rows);
        audit(&mut stored.audit);
        State::load(Config::default(), 9, Timestamp(2_000_000), stored).unwrap()
    };
    assert_eq!(load(&|_| {}).audit_fault(), None);
    let missing = load(&|audit| drop(audit.remove(10)));
    assert!(
        missing.audit_fault().unwrap().contains("record 12 does not follow"),
        "{:?}",
        missing.audit_fault()
    );
    let changed = load(&|audit| {
        let row = Arc::make_mut(audit[10].as_mut().unwrap());
        Arc::make_mut(&mut row.records[0]).time_ms += 1;
    });
    assert!(changed.audit_fault().unwrap().contains("record 11 was changed"), "{:?}", changed.audit_fault());
    let unreadable = load(&|audit| {
        let first = audit.last().unwrap().as_ref().unwrap().first();
        *audit.last_mut().unwrap() =
            Err(BadAudit { log: Log::Changes, first, cause: "/rail/v1/audit/x cannot be read".to_owned() });
    });
    for (mut state, next) in [(missing, last + 1), (changed, last + 1), (unreadable, last + 33)] {
        let actor = Arc::new(Actor::default());
        let event = quota("red", 1, false).by(&actor);
        let out = step(&mut state, event, Timestamp(3_000_000), &mut |buffer| buffer.fill(1));
        let row = out.writes.iter().find_map(|write| match write {
            Write::PutAudit(row) => Some(Arc::clone(row)),
            _ => None,
        });
        let records = row.unwrap().records.clone();
        assert_eq!((records.len(), records[0].seq), (2, next));
        assert!(matches!(&records[0].content, Content::Resumed { cause } if !cause.is_empty()));
        state.commit(5);
        assert_eq!(state.audit_fault(), None);
        assert!(state.claim(Log::Changes, Timestamp(3_000_000)).is_some());
    }
}
