//! Documents judged together: each as if those before it were there, and nothing of it remains.

use proto_model::{
    ClassMembers, ClassPreemption, JobLimits, License, Queue, QueueName, ServiceClass, Shape, UserLimits,
};

use super::*;
use crate::{DryRunResult, Effect};

fn quota(text: &str, gpus: u32) -> Event {
    Event::ApplyTenant {
        name: tenant(text),
        description: String::new(),
        quota: Quota::new(gpus, 0),
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    }
}

fn queue(owner: &str, text: &str, parent: Option<&str>) -> Event {
    let named = |text: &str| QueueName::new(text).unwrap();
    let queue = Queue {
        tenant: tenant(owner),
        name: named(text),
        parent: parent.map(named),
        guaranteed: Shape::default(),
        limit: None,
        weight: 1,
        objective: None,
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
    };
    Event::ApplyQueue { queue: Box::new(queue), dry_run: false }
}

fn class(text: &str) -> Event {
    let class = ServiceClass {
        name: text.parse().unwrap(),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        description: String::new(),
        members: ClassMembers { tenants: [tenant("nlp")].into(), ..ClassMembers::default() },
        default_class: false,
        job: JobLimits::default(),
        user: UserLimits::default(),
        preemption: ClassPreemption::default(),
    };
    Event::ApplyServiceClass { class: Box::new(class), dry_run: false }
}

fn license(text: &str, total: u32) -> Event {
    let license = License {
        name: text.parse().unwrap(),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        description: String::new(),
        total,
    };
    Event::ApplyLicense(Box::new(license), false)
}

/// A job of the new tenant that asks for all of it.
fn job(text: &str) -> Event {
    let spec = JobSpec {
        queue: Some(QueueName::new("research").unwrap()),
        service_class: Some("short".parse().unwrap()),
        licenses: [("matlab".parse().unwrap(), 2)].into(),
        ..spec(1, 1)
    };
    submit_as("nlp", text, spec, None)
}

/// What is answered; the state is as before, and nothing is written or told to anybody.
fn dry_run(w: &mut World, events: Vec<Event>) -> Vec<DryRunResult> {
    let before = w.state.clone();
    let out = w.step(Event::DryRun(events));
    assert!(w.state.same(&before), "something remains");
    assert!(out.writes.is_empty() && out.pushes.is_empty() && out.transitions.is_empty());
    match out.reply {
        Some(Ok(Reply::DryRun(reported))) => reported,
        other => panic!("{other:?}"),
    }
}

fn effects(reported: &[DryRunResult]) -> Vec<Result<Effect, &'static str>> {
    reported.iter().map(|one| one.as_ref().map(|(_, effect)| *effect).map_err(CoreError::code)).collect()
}

#[test]
fn documents_that_refer_to_one_another_are_judged_as_if_each_were_there() {
    let mut w = World::new();
    let all = vec![
        quota("nlp", 4),
        queue("nlp", "all", None),
        queue("nlp", "research", Some("all")),
        class("short"),
        license("matlab", 2),
        job("a"),
    ];
    let reported = dry_run(&mut w, all.clone());
    assert_eq!(effects(&reported), [Ok(Effect::Created); 6]);
    // Alone, none of the last is right.
    for (at, code) in [(1, "TENANT_UNKNOWN"), (2, "TENANT_UNKNOWN"), (5, "TENANT_UNKNOWN")] {
        assert_eq!(effects(&dry_run(&mut w, vec![all[at].clone()])), [Err(code)]);
    }
    // What it says comes true.
    for event in all.clone() {
        w.ok(event);
    }
    let mut again = effects(&dry_run(&mut w, all));
    assert_eq!(again.pop(), Some(Err("NAME_TAKEN")));
    assert_eq!(again, [Ok(Effect::Unchanged); 5]);
    let reported = dry_run(&mut w, vec![quota("nlp", 8), license("matlab", 3), license("matlab", 3)]);
    assert_eq!(effects(&reported), [Ok(Effect::Changed), Ok(Effect::Changed), Ok(Effect::Unchanged)]);
}

#[test]
fn what_is_refused_is_not_there_for_those_after_it() {
    let mut w = World::new();
    let reported = dry_run(
        &mut w,
        vec![
            quota("nlp", 4),
            queue("nlp", "research", Some("nowhere")),
            class("short"),
            license("matlab", 1),
            job("a"),
            queue("nlp", "research", None),
            job("a"),
            license("matlab", 2),
            job("a"),
            job("a"),
        ],
    );
    let expected = [
        Ok(Effect::Created),
        Err("QUEUE_NOT_FOUND"),
        Ok(Effect::Created),
        Ok(Effect::Created),
        Err("QUEUE_NOT_FOUND"),
        Ok(Effect::Created),
        Err("LICENSE_TOO_FEW"),
        Ok(Effect::Changed),
        Ok(Effect::Created),
        Err("NAME_TAKEN"),
    ];
    assert_eq!(effects(&reported), expected);
    assert_eq!(effects(&dry_run(&mut w, vec![job("a")])), [Err("TENANT_UNKNOWN")]);
}

#[test]
fn what_was_told_to_the_core_before_in_the_same_batch_stays() {
    let mut w = World::new();
    let random = &mut 5;
    let mut state = w.state.clone();
    let event = attributed(&state, quota("nlp", 4));
    step(&mut state, event, w.now, &mut |buffer| fill(random, buffer));
    let (reported, dirty) = (state.clone(), state.is_dirty());
    let out = step(&mut state, Event::DryRun(vec![queue("nlp", "q", None)]), w.now, &mut |buffer| {
        fill(random, buffer);
    });
    assert!(matches!(out.reply, Some(Ok(Reply::DryRun(reported))) if reported[0].is_ok()));
    assert!(dirty && state.same(&reported) && state.is_dirty());
    state.rollback();
    assert!(state.same(&w.state));
    w.ok(quota("nlp", 4));
}
