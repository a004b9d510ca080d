//! Service classes: who is of which, what they may ask for and have, and why not more.

use std::time::Duration;

use proto_model::{
    ArraySpec, ClassMembers, ClassPreemption, JobLimits, Observed, Preemption, ReasonCode, Role,
    ServiceClass, UserLimits,
};

use super::*;
use crate::{ErrorKind, JobChange, JobUpdate};

const HOUR: Duration = Duration::from_secs(3600);

fn class(text: &str) -> ServiceClass {
    ServiceClass {
        name: text.parse().unwrap(),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        description: String::new(),
        members: ClassMembers::default(),
        default_class: false,
        job: JobLimits::default(),
        user: UserLimits::default(),
        preemption: ClassPreemption::default(),
    }
}

fn apply(class: ServiceClass) -> Event {
    Event::ApplyServiceClass { class: Box::new(class), dry_run: false }
}

fn of(class: &str, spec: JobSpec) -> JobSpec {
    JobSpec { service_class: Some(class.parse().unwrap()), ..spec }
}

fn user(text: &str) -> Authority {
    Authority { role: Role::User, user: text.to_owned() }
}

fn submit_by(who: &str, text: &str, spec: JobSpec) -> Event {
    let Event::Submit(mut made) = submit(text, spec) else { panic!() };
    made.by = user(who);
    Event::Submit(made)
}

/// The refusal of a submit, which a plan gives too.
fn over(w: &mut World, who: &str, spec: JobSpec) -> CoreError {
    let planned = w.state.plan(&tenant("red"), &user(who), &spec, w.now);
    let error = w.refused(submit_by(who, "refused", spec));
    assert_eq!(planned.unwrap_err(), error);
    error
}

fn short() -> ServiceClass {
    ServiceClass {
        job: JobLimits {
            priority_min: Some(-10),
            priority_max: Some(50),
            priority_default: Some(20),
            time_limit_max: Some(HOUR),
            nodes_max: Some(2),
            gpus_max: Some(6),
            grace_period_max: Some(Duration::from_secs(5)),
            ..JobLimits::default()
        },
        ..class("short")
    }
}

/// Two nodes and a spare.
fn with_spare(spec: &mut JobSpec) {
    (spec.gang, spec.placement.spares) = (Gang::new(2, 0, 1), 1);
    (spec.failure.replace, spec.failure.max_replacements) = (proto_model::Replace::Spares, 1);
}

#[test]
fn a_job_gets_what_its_class_gives_and_no_more() {
    let mut w = World::new();
    w.ok(apply(short()));
    w.ok(submit_by("ann", "a", of("short", spec(1, 1))));
    let given = &w.job("a").spec;
    assert_eq!((given.priority, given.time_limit), (20, Some(HOUR)));
    assert_eq!(given.grace_period, Duration::from_secs(5), "nobody asked for more");
    let asks = |change: fn(&mut JobSpec)| {
        let mut asked = of("short", spec(1, 1));
        change(&mut asked);
        asked
    };
    let wrong: [(JobSpec, &str, &str); 8] = [
        (asks(|spec| spec.priority = 51), "spec.priority", "allows -10 to 50"),
        (asks(|spec| spec.priority = -11), "spec.priority", "allows -10 to 50"),
        (
            asks(|spec| spec.time_limit = Some(2 * HOUR)),
            "spec.timeLimit",
            "7200 s; service class 'short' allows at most 3600 s",
        ),
        (asks(|spec| spec.expected = Some(2 * HOUR)), "spec.timeLimit", "7200 s"),
        (asks(|spec| spec.gang = Gang::new(3, 0, 1)), "spec.gang.nodes", "3 nodes"),
        (asks(with_spare), "spec.gang.nodes", "3 nodes"),
        (
            asks(|spec| spec.gang = Gang::new(2, 4, 1)),
            "spec.gang",
            "8 GPUs; service class 'short' allows at most 6",
        ),
        (asks(|spec| spec.grace_period = 2 * HOUR), "spec.gracePeriod", "allows at most 5 s"),
    ];
    for (asked, field, words) in wrong {
        let error = over(&mut w, "ann", asked.clone());
        let text = error.to_string();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "SERVICE_CLASS_LIMIT"), "{text}");
        assert!(text.starts_with(field) && text.contains(words), "{text}");
        let free = w.state.plan(&tenant("red"), &by(Role::Admin), &asked, w.now);
        assert!(free.is_ok(), "administrators go beyond it");
    }
    assert!(matches!(
        over(&mut w, "ann", of("shrot", spec(1, 1))),
        CoreError::ClassNotFound { nearest: Some(_), .. }
    ));
    // A class that does not say how high leaves it to the role.
    w.ok(apply(class("plain")));
    let high = JobSpec { priority: 1, ..of("plain", spec(1, 1)) };
    assert_eq!(over(&mut w, "ann", high).code(), "PRIORITY_TOO_HIGH");
}

#[test]
fn a_change_of_a_job_keeps_within_its_class() {
    let mut w = World::new();
    w.submit("full", spec(4, 4));
    w.ok(apply(short()));
    w.ok(submit_by("ann", "a", of("short", spec(1, 1))));
    let update = |role: Role, change: JobChange| {
        let by = Authority { role, user: "ann".to_owned() };
        let order = crate::JobOrder { by, ..super::holds::order("a", role) };
        Event::UpdateJob(Box::new(JobUpdate { order, change, if_version: 0 }))
    };
    let wrong = [
        JobChange { priority: Some(51), ..JobChange::default() },
        JobChange { time_limit: Some(Some(2 * HOUR)), ..JobChange::default() },
        JobChange { time_limit: Some(None), ..JobChange::default() },
        JobChange { nodes: Some(3), ..JobChange::default() },
    ];
    for change in wrong {
        assert_eq!(w.refused(update(Role::User, change.clone())).code(), "SERVICE_CLASS_LIMIT");
        w.ok(update(Role::Admin, change));
    }
    // What is beyond it by an administrator's word stays so while a user changes something else.
    w.ok(update(Role::User, JobChange { priority: Some(50), ..JobChange::default() }));
    assert_eq!((w.job("a").spec.time_limit, w.job("a").spec.gang.nodes), (None, 3));
}

#[test]
fn the_default_class_that_names_a_job_most_exactly_is_its_own() {
    let mut w = World::new();
    let default =
        |text: &str, members: ClassMembers| ServiceClass { members, default_class: true, ..class(text) };
    let none = ClassMembers::default();
    w.ok(apply(default("all", none.clone())));
    w.ok(apply(default("tenant", ClassMembers { tenants: [tenant("red")].into(), ..none.clone() })));
    w.ok(apply(default("role", ClassMembers { roles: [Role::TenantAdmin].into(), ..none.clone() })));
    w.ok(apply(default("user", ClassMembers { users: [(tenant("red"), "bob".to_owned())].into(), ..none })));
    let named = |w: &World, text: &str| w.job(text).spec.service_class.as_ref().unwrap().to_string();
    w.ok(submit_by("ann", "a", spec(1, 0)));
    w.ok(submit_by("bob", "b", spec(1, 0)));
    assert_eq!((named(&w, "a"), named(&w, "b")), ("tenant".to_owned(), "user".to_owned()));
    let Event::Submit(mut made) = submit("c", spec(1, 0)) else { panic!() };
    made.by = by(Role::TenantAdmin);
    w.ok(Event::Submit(made));
    assert_eq!(named(&w, "c"), "role");
    // Somebody else's class is none for a user, and an administrator's choice.
    let error = over(&mut w, "ann", of("user", spec(1, 0)));
    assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, "SERVICE_CLASS_NOT_ALLOWED"), "{error}");
    let blue = ClassMembers { tenants: [tenant("blue")].into(), ..ClassMembers::default() };
    w.ok(apply(ServiceClass { members: blue, ..class("blues") }));
    let error = over(&mut w, "ann", of("blues", spec(1, 0)));
    assert!(matches!(error, CoreError::ClassNotFound { nearest: None, .. }), "{error}");
    let Event::Submit(mut made) = submit("d", of("blues", spec(1, 0))) else { panic!() };
    made.by = by(Role::Admin);
    w.ok(Event::Submit(made));
    assert_eq!(named(&w, "d"), "blues");
}

#[test]
fn a_user_has_so_many_jobs_and_gpus_of_a_class_at_once() {
    let mut w = World::new();
    let user = UserLimits { jobs_running: Some(2), jobs_waiting: Some(3), gpus: None };
    w.ok(apply(ServiceClass { user, ..class("few") }));
    for n in 0..4 {
        w.ok(submit_by("ann", &format!("a{n}"), of("few", spec(1, 1))));
    }
    let phases = |w: &World, list: &[&str]| list.iter().filter(|text| w.phase(text).holds()).count();
    assert_eq!(phases(&w, &["a0", "a1", "a2", "a3"]), 2);
    let explained = w.state.explain(&id("a2"), w.now).unwrap();
    let reason = &explained.reasons[0];
    assert_eq!((reason.code.as_str(), reason.scope.as_str()), ("ServiceClassJobs", "service-class/few"));
    assert!(reason.message.contains("'ann' in service class 'few': 2 jobs"), "{reason}");
    assert!(explained.detail.unwrap().eta.is_some(), "it starts when one of them has ended");
    // Others are not concerned.
    w.ok(submit_by("bob", "b0", of("few", spec(1, 1))));
    w.ok(submit_by("ann", "other", spec(1, 1)));
    assert_eq!(phases(&w, &["b0", "other"]), 2);
    w.ok(submit_by("ann", "a4", of("few", spec(1, 1))));
    let error = over(&mut w, "ann", of("few", spec(1, 1)));
    assert_eq!((error.kind(), error.code()), (ErrorKind::Exhausted, "SERVICE_CLASS_LIMIT"));
    assert!(error.to_string().contains("'ann' has 3 of 3 waiting jobs"), "{error}");
    let array = JobSpec { array: Some(ArraySpec::new("0-3").unwrap()), ..of("few", spec(1, 1)) };
    assert_eq!(w.refused(submit_by("bob", "many", array)).code(), "SERVICE_CLASS_LIMIT");
    // GPUs are counted over all of the user's jobs of the class.
    let mut w = World::new();
    let gpus = UserLimits { gpus: Some(6), ..UserLimits::default() };
    w.ok(apply(ServiceClass { user: gpus, ..class("small") }));
    w.ok(submit_by("eve", "e0", of("small", spec(1, 4))));
    w.ok(submit_by("eve", "e1", of("small", spec(1, 3))));
    w.ok(submit_by("eve", "e2", of("small", spec(1, 2))));
    assert_eq!((w.phase("e0").holds(), w.phase("e1"), w.phase("e2").holds()), (true, Phase::Pending, true));
    let explained = w.state.explain(&id("e1"), w.now).unwrap();
    let reason = explained.reasons.iter().find(|reason| reason.code == ReasonCode::ServiceClassGpus).unwrap();
    // As it was when it was looked at, before the one behind it started.
    assert!(reason.message.contains("holds 4 of 6 GPUs") && reason.count == 1, "{reason}");
    assert_eq!(over(&mut w, "eve", of("small", spec(2, 4))).code(), "SERVICE_CLASS_LIMIT", "never");
    let used = w.state.class_use(&"small".parse().unwrap(), Some(&tenant("red")));
    assert_eq!((used.waiting, used.running, used.gpus), (1, 2, 6));
    let fresh = w.reload(8);
    assert_eq!((&fresh.index.classes, &fresh.base.classes), (&w.state.index.classes, &w.state.base.classes));
    w.ok(Event::Cancel { by: None, id: id("e0"), indices: Vec::new(), grace: None });
    w.all("e0", Observed::Ended);
    w.tick(Duration::from_millis(1));
    assert!(w.phase("e1").holds());
}

#[test]
fn whether_jobs_are_stopped_for_others_is_the_classes_word() {
    let low = |class: &str| {
        let priority = -100;
        JobSpec { priority, preemption: Preemption::of_priority(priority), ..of(class, spec(4, 4)) }
    };
    let preemption = |preempts, preemptible| ClassPreemption {
        preempts,
        preemptible,
        grace_period: Some(Duration::from_secs(7)),
    };
    let world = |low_class: ClassPreemption, high_class: ClassPreemption| {
        let mut w = World::new();
        w.ok(apply(ServiceClass { preemption: low_class, ..class("low") }));
        w.ok(apply(ServiceClass { preemption: high_class, ..class("high") }));
        w.submit("low", low("low"));
        w.run("low");
        w.submit("high", of("high", spec(4, 4)));
        w
    };
    let w = world(preemption(true, None), preemption(true, None));
    assert_eq!(w.phase("low"), Phase::Recovering);
    assert_eq!(w.job("low").spec.preemption.grace, Some(Duration::from_secs(7)));
    for (kept, waits) in [
        (preemption(true, Some(false)), preemption(true, None)),
        (preemption(true, None), preemption(false, None)),
    ] {
        let w = world(kept, waits);
        assert_eq!((w.phase("low"), w.phase("high")), (Phase::Running, Phase::Pending));
    }
}

#[test]
fn a_class_is_made_changed_and_removed() {
    let mut w = World::new();
    let Reply::ServiceClass(made) = w.ok(apply(short())) else { panic!() };
    assert_eq!((made.generation, made.uid.is_empty()), (1, false));
    let out = w.step(apply(short()));
    assert!(out.writes.is_empty(), "the same again is no change");
    let dry = Event::ApplyServiceClass { class: Box::new(class("dry")), dry_run: true };
    assert!(w.step(dry).writes.is_empty());
    let wider = ServiceClass { description: "wide".into(), ..short() };
    let Reply::ServiceClass(wider) = w.ok(apply(wider)) else { panic!() };
    assert_eq!((wider.generation, &wider.uid, wider.created), (2, &made.uid, made.created));
    w.ok(submit_by("ann", "a", of("short", spec(1, 1))));
    let delete = Event::DeleteServiceClass { name: "short".parse().unwrap() };
    assert!(matches!(w.refused(delete.clone()), CoreError::ClassBusy { jobs: 1, .. }));
    w.ok(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    w.all("a", Observed::Ended);
    w.ok(delete.clone());
    assert!(matches!(w.refused(delete), CoreError::ClassNotFound { .. }));
    assert!(w.state.base.classes.is_empty() && w.reload(8).base.classes.is_empty());
}

#[test]
fn a_class_for_one_tenant_is_not_for_everybody_when_that_is_gone() {
    let mut w = World::new();
    let both = ClassMembers { tenants: [tenant("red"), tenant("blue")].into(), ..ClassMembers::default() };
    let one = ClassMembers { tenants: [tenant("blue")].into(), ..ClassMembers::default() };
    w.ok(apply(ServiceClass { members: both, ..class("both") }));
    w.ok(apply(ServiceClass { members: one, ..class("one") }));
    let delete = Event::DeleteTenant { name: tenant("blue"), uid: None, dry_run: false };
    let error = w.refused(delete.clone());
    assert!(matches!(&error, CoreError::ClassOfTenant { class, .. } if class.as_str() == "one"), "{error}");
    w.ok(Event::DeleteServiceClass { name: "one".parse().unwrap() });
    w.ok(delete);
    let both = w.state.service_class(&"both".parse().unwrap()).unwrap();
    assert_eq!((both.members.tenants.len(), both.generation), (1, 2));
}
