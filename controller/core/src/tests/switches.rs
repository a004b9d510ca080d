//! Switches: made, replaced and forgotten; the fabric stays as it is.

use proto_model::{SwitchAsic, SwitchConfig, SwitchName, SwitchNos, SwitchSpec};

use super::*;
use crate::{Effect, ErrorKind};

fn named(text: &str) -> SwitchName {
    SwitchName::new(text).unwrap()
}

fn switch(text: &str, asn: u32) -> SwitchConfig {
    SwitchConfig {
        name: named(text),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        spec: SwitchSpec {
            nos: SwitchNos::Sonic,
            version: String::new(),
            asic: Some(SwitchAsic::Spectrum4),
            loopback: None,
            asn,
            cable_m: 0,
            ports: Vec::new(),
            management: None,
            repair_drift: false,
        },
    }
}

fn apply(text: &str, asn: u32) -> Event {
    Event::ApplySwitch { switch: Box::new(switch(text, asn)), if_version: 0, dry_run: false }
}

fn only(text: &str, asn: u32, if_version: u64) -> Event {
    Event::ApplySwitch { switch: Box::new(switch(text, asn)), if_version, dry_run: false }
}

#[test]
fn a_switch_is_made_replaced_and_forgotten() {
    let mut w = World::new();
    let fabric = w.state.base.fabric.clone();
    let Reply::Switch(made) = w.ok(apply("leaf0", 0)) else { panic!() };
    assert_eq!((made.generation, made.uid.is_empty()), (1, false));
    assert!(w.step(apply("leaf0", 0)).writes.is_empty(), "the same again is no change");
    let dry = Event::ApplySwitch { switch: Box::new(switch("leaf0", 9)), if_version: 0, dry_run: true };
    let out = w.step(dry);
    let Some(Ok(Reply::Switch(would))) = out.reply else { panic!("{:?}", out.reply) };
    assert_eq!((would.generation, would.spec.asn, out.writes.is_empty()), (2, 9, true));
    let Reply::Switch(more) = w.ok(apply("leaf0", 65_001)) else { panic!() };
    assert_eq!((more.generation, &more.uid, more.created), (2, &made.uid, made.created));
    assert_eq!(w.reload(7).switch(&named("leaf0")), Some(&more));
    let near = w.refused(Event::DeleteSwitch(named("leaf1")));
    assert_eq!((near.kind(), near.code()), (ErrorKind::NotFound, "SWITCH_NOT_FOUND"));
    assert!(near.to_string().ends_with("did you mean 'leaf0'?"), "{near}");
    w.ok(Event::DeleteSwitch(named("leaf0")));
    assert!(w.state.switches().next().is_none() && w.reload(8).switches().next().is_none());
    assert_eq!(w.state.base.fabric, fabric, "the fabric document is never touched");
    // One of the same name is another one.
    let Reply::Switch(again) = w.ok(apply("leaf0", 65_001)) else { panic!() };
    assert_eq!(again.generation, 1);
    assert_ne!(again.uid, made.uid);
}

#[test]
fn a_switch_is_only_replaced_as_it_was_read() {
    let mut w = World::new();
    w.ok(apply("leaf0", 0));
    // What a controller reads has a revision; here all rows have that of 1.
    w.state = w.reload(7);
    let late = w.refused(only("leaf0", 9, 4));
    assert_eq!((late.kind(), late.code()), (ErrorKind::Conflict, "CONFLICT"));
    w.ok(only("leaf0", 9, 1));
    // Who has read one that is gone does not make another.
    assert!(matches!(w.refused(only("leaf1", 9, 1)), CoreError::Conflict { current: 0, .. }));
}

#[test]
fn an_undone_step_leaves_no_switch() {
    let mut w = World::new();
    w.ok(apply("leaf0", 1));
    let mut other = w.state.clone();
    for event in [apply("leaf0", 9), apply("leaf1", 1), Event::DeleteSwitch(named("leaf0"))] {
        let event = super::attributed(&other, event);
        assert!(step(&mut other, event, w.now, &mut |bytes| bytes.fill(7)).reply.unwrap().is_ok());
    }
    assert!(!other.same(&w.state));
    other.rollback();
    assert!(other.same(&w.state));
}

#[test]
fn switches_are_judged_together() {
    let mut w = World::new();
    w.ok(apply("leaf0", 1));
    let events = vec![apply("leaf0", 1), apply("leaf0", 2), apply("leaf1", 1)];
    let out = w.step(Event::DryRun(events));
    let Some(Ok(Reply::DryRun(replies))) = out.reply else { panic!("{:?}", out.reply) };
    let effects: Vec<Effect> = replies.into_iter().map(|one| one.unwrap().1).collect();
    assert_eq!(effects, [Effect::Unchanged, Effect::Changed, Effect::Created]);
    assert_eq!(w.state.switches().count(), 1);
}
