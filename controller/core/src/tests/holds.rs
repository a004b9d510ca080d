//! Jobs that people hold, release and change.

use std::time::Duration;

use proto_model::{ArraySpec, Authority, Dependency, DependencyWhen, Observed, Queue, Requeue, Role, Shape};

use super::*;
use crate::{Asked, ErrorKind, JobChange, JobOrder, JobUpdate};

pub(super) fn order(text: &str, role: Role) -> JobOrder {
    let by = Authority { role, user: role.to_string() };
    JobOrder { id: id(text), indices: Vec::new(), by, asked: None }
}

fn hold(text: &str, role: Role) -> Event {
    Event::HoldJob { order: Box::new(order(text, role)), reason: "later".into() }
}

fn release(text: &str, role: Role) -> Event {
    Event::ReleaseJob(Box::new(order(text, role)))
}

fn update(text: &str, role: Role, change: JobChange) -> Event {
    Event::UpdateJob(Box::new(JobUpdate { order: order(text, role), change, if_version: 0 }))
}

fn limit(seconds: u64) -> JobChange {
    JobChange { time_limit: Some(Some(Duration::from_secs(seconds))), ..JobChange::default() }
}

fn priority(priority: i32) -> JobChange {
    JobChange { priority: Some(priority), ..JobChange::default() }
}

/// A cluster whose four servers are taken by `full`.
fn full() -> World {
    let mut w = World::new();
    w.submit("full", spec(4, 4));
    w.run("full");
    w
}

fn end_of_full(w: &mut World) {
    w.ok(Event::Cancel { by: None, id: id("full"), indices: Vec::new(), grace: None });
    w.all("full", Observed::Ended);
    w.tick(Duration::from_millis(1));
}

#[test]
fn a_held_job_keeps_its_place_and_lets_others_pass() {
    let mut w = full();
    w.submit("a", spec(4, 4));
    w.submit("b", spec(4, 4));
    w.ok(hold("a", Role::User));
    assert_eq!(w.codes("a"), ["HeldByUser"]);
    let reason = &w.job("a").status.reasons[0];
    assert!(reason.message.contains("'user' (later)") && reason.since == Some(w.now), "{reason}");
    let explained = w.state.explain(&id("a"), w.now).unwrap();
    assert_eq!((explained.reasons[0].code.as_str(), explained.queue_position), ("HeldByUser", 0));
    assert!(explained.detail.is_none_or(|detail| detail.eta.is_none()), "nobody knows when it is released");
    // A new leader finds it held too.
    assert!(w.reload(8).base.jobs[&w.job("a").uid].held);
    end_of_full(&mut w);
    assert_eq!((w.phase("a"), w.phase("b")), (Phase::Pending, Phase::Reserved));
    w.submit("c", spec(4, 4));
    w.ok(release("a", Role::User));
    w.ok(Event::Cancel { by: None, id: id("b"), indices: Vec::new(), grace: None });
    w.all("b", Observed::Ended);
    w.tick(Duration::from_millis(1));
    assert_eq!((w.phase("a"), w.phase("c")), (Phase::Reserved, Phase::Pending), "it has its place of old");
    assert!(w.job("a").status.holds.is_empty());
}

#[test]
fn a_user_does_not_release_what_an_administrator_holds() {
    let mut w = full();
    w.submit("a", spec(1, 1));
    w.ok(hold("a", Role::Admin));
    w.ok(hold("a", Role::User));
    assert_eq!(w.codes("a"), ["HeldByAdministrator", "HeldByUser"]);
    // Its own hold it may take back, once.
    w.ok(release("a", Role::User));
    assert_eq!(w.codes("a"), ["HeldByAdministrator"]);
    for role in [Role::User, Role::TenantAdmin] {
        let error = w.refused(release("a", role));
        assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, "HELD_ABOVE"), "{error}");
        assert!(error.to_string().contains("only an administrator of the cluster"), "{error}");
    }
    end_of_full(&mut w);
    assert_eq!(w.phase("a"), Phase::Pending);
    w.ok(release("a", Role::Admin));
    assert_eq!(w.phase("a"), Phase::Reserved);
    w.ok(release("a", Role::User));
    assert!(matches!(w.refused(hold("nosuch", Role::User)), CoreError::JobNotFound { .. }));
}

#[test]
fn a_hold_that_is_repeated_changes_nothing_and_a_late_copy_neither() {
    let mut w = full();
    w.submit("a", spec(1, 1));
    let asked = Asked { request: RequestId::new("h1").unwrap(), digest: [1; 32] };
    let held = JobOrder { asked: Some(asked.clone()), ..order("a", Role::User) };
    let held = Event::HoldJob { order: Box::new(held), reason: String::new() };
    w.ok(held.clone());
    w.ok(release("a", Role::User));
    w.ok(held);
    assert!(w.job("a").status.holds.is_empty(), "the copy came late");
    let other = Asked { digest: [2; 32], ..asked };
    let other = JobOrder { asked: Some(other), ..order("a", Role::User) };
    assert!(matches!(w.refused(Event::ReleaseJob(Box::new(other))), CoreError::RequestIdReused { .. }));
    let out = w.step(release("a", Role::User));
    assert!(out.writes.is_empty(), "{:?}", out.writes);
}

/// The copy would hold the job when it is queued again, long after its client has released it.
#[test]
fn a_job_that_runs_is_held_when_it_is_queued_again_and_no_late_copy_holds_it() {
    let mut w = World::new();
    w.submit("a", spec(1, 1));
    w.run("a");
    let asked = Asked { request: RequestId::new("h1").unwrap(), digest: [1; 32] };
    let first = JobOrder { asked: Some(asked), ..order("a", Role::User) };
    let first = Event::HoldJob { order: Box::new(first), reason: String::new() };
    w.ok(first.clone());
    assert_eq!((w.phase("a"), w.job("a").status.holds.len()), (Phase::Running, 1), "it goes on");
    assert_eq!(w.reload(8).base.jobs[&w.job("a").uid].job.status.holds.len(), 1);
    w.ok(release("a", Role::User));
    w.ok(first);
    assert!(w.job("a").status.holds.is_empty(), "the copy came late");
    w.ok(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    w.all("a", Observed::Ended);
    let error = w.refused(hold("a", Role::User));
    assert!(matches!(error, CoreError::JobEnded { phase: Phase::Cancelled, .. }), "{error}");
}

#[test]
fn held_elements_let_their_array_go_on() {
    let mut w = World::new();
    let array = |text: &str| JobSpec { array: Some(ArraySpec::new(text).unwrap()), ..spec(1, 1) };
    w.submit("a", array("0-4%1"));
    let some = JobOrder { indices: vec![1, 2], ..order("a", Role::User) };
    w.ok(Event::HoldJob { order: Box::new(some), reason: String::new() });
    assert_eq!(w.codes("a-1"), ["HeldByUser"]);
    assert_eq!(w.reload(8).index.arrays, w.state.index.arrays);
    let end = |w: &mut World, text: &str| {
        w.run(text);
        let node = w.nodes(text)[0];
        let exit = w.exited(text, node, 0);
        w.report(node, exit);
        w.tick(Duration::from_millis(1));
    };
    end(&mut w, "a-0");
    assert_eq!((w.phase("a-1"), w.phase("a-3")), (Phase::Pending, Phase::Reserved), "it passes those held");
    // The whole array: those that wait.
    w.ok(hold("a", Role::TenantAdmin));
    end(&mut w, "a-3");
    assert_eq!(w.codes("a-4"), ["HeldByTenantAdministrator"]);
    w.ok(release("a", Role::TenantAdmin));
    w.tick(Duration::from_millis(1));
    assert_eq!(w.phase("a-1"), Phase::Reserved, "who may more releases a user's hold too");
    assert_eq!((w.phase("a-2"), w.phase("a-4")), (Phase::Pending, Phase::Pending));
    // One that had its turn and is held leaves it to the next.
    let mut w = full();
    w.submit("b", array("0-1%1"));
    let first = JobOrder { indices: vec![0], ..order("b", Role::User) };
    w.ok(Event::HoldJob { order: Box::new(first), reason: String::new() });
    end_of_full(&mut w);
    assert_eq!((w.phase("b-0"), w.phase("b-1")), (Phase::Pending, Phase::Reserved));
}

#[test]
fn a_held_job_is_cancelled_fails_and_waits_for_others_as_ever() {
    let mut w = full();
    let after = |spec: JobSpec| {
        let job = JobName::new("full").unwrap();
        JobSpec { after: vec![Dependency { job, when: DependencyWhen::Succeeded }], ..spec }
    };
    w.submit("a", after(spec(1, 1)));
    w.submit("b", spec(1, 1));
    w.ok(hold("a", Role::User));
    w.ok(hold("b", Role::User));
    assert_eq!(w.codes("a"), ["HeldByUser", "Dependency"]);
    w.ok(Event::Cancel { by: None, id: id("b"), indices: Vec::new(), grace: None });
    assert!(w.phase("b") == Phase::Cancelled && w.job("b").status.holds.is_empty());
    end_of_full(&mut w);
    assert_eq!((w.phase("a"), w.codes("a")), (Phase::Failed, vec!["DependencyNeverMet".to_owned()]));
}

#[test]
fn a_job_that_is_queued_again_is_held_and_keeps_its_back_off() {
    let mut w = World::new();
    w.submit("a", requeue(spec(1, 1), Requeue::OnAny, 3));
    w.run("a");
    let node = w.nodes("a")[0];
    let exit = w.exited("a", node, 1);
    w.report(node, exit);
    assert_eq!(w.phase("a"), Phase::Pending);
    w.ok(hold("a", Role::User));
    let codes = w.codes("a");
    assert_eq!(codes.last().unwrap(), "HeldByUser");
    assert!(codes.iter().any(|code| code == "Requeued"), "{codes:?}");
    w.ok(release("a", Role::User));
    assert_eq!(w.phase("a"), Phase::Pending, "its back-off is not over");
    w.ok(hold("a", Role::User));
    w.tick(Duration::from_secs(5));
    assert_eq!(w.phase("a"), Phase::Pending);
    assert!(w.reload(8).base.jobs[&w.job("a").uid].held);
    w.ok(release("a", Role::User));
    assert_eq!(w.phase("a"), Phase::Reserved);
}

#[test]
fn what_a_waiting_job_asks_for_is_changed() {
    let mut w = full();
    w.submit("a", spec(4, 4));
    w.submit("b", spec(4, 4));
    let Reply::Job { job, .. } = w.ok(update("b", Role::Admin, priority(5))) else { panic!() };
    assert_eq!((job.spec.priority, job.generation), (5, 2));
    let queue = Queue {
        tenant: tenant("red"),
        name: "q".parse().unwrap(),
        parent: None,
        guaranteed: Shape::default(),
        limit: None,
        weight: 1,
        objective: None,
        uid: String::new(),
        generation: 0,
        created: w.now,
    };
    w.ok(Event::ApplyQueue { queue: Box::new(queue), dry_run: false });
    let queued = |name: &str| JobChange { queue: Some(Some(name.parse().unwrap())), ..JobChange::default() };
    assert!(matches!(w.refused(update("b", Role::User, queued("r"))), CoreError::QueueNotFound { .. }));
    w.ok(update("b", Role::User, queued("q")));
    let used = w.state.usage(&tenant("red")).stored_bytes;
    w.ok(update("a", Role::User, JobChange { nodes: Some(2), ..JobChange::default() }));
    assert!(w.state.usage(&tenant("red")).stored_bytes < used, "it is counted with what it asks");
    let small = JobChange { nodes: Some(4), min_nodes: Some(2), ..JobChange::default() };
    w.ok(update("b", Role::User, small));
    let gang = w.job("b").spec.gang;
    assert_eq!((gang.nodes, gang.min_nodes, w.job("b").generation), (4, 2, 4));
    for (change, field) in [
        (priority(1001), "spec.priority"),
        (JobChange { min_nodes: Some(5), ..JobChange::default() }, "spec.gang.minNodes"),
        (JobChange::default(), "priority"),
    ] {
        let error = w.refused(update("b", Role::Admin, change));
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().starts_with(field), "{error}");
    }
    let wide = JobChange { nodes: Some(5), ..JobChange::default() };
    assert!(matches!(w.refused(update("b", Role::User, wide)), CoreError::Infeasible { .. }));
    // The same again is no change.
    let out = w.step(update("b", Role::Admin, priority(5)));
    assert!(out.reply.unwrap().is_ok() && w.job("b").generation == 4);
    let fresh = w.reload(8);
    assert_eq!((&fresh.index.queue, &fresh.index.tenants), (&w.state.index.queue, &w.state.index.tenants));
    end_of_full(&mut w);
    assert_eq!((w.phase("a"), w.phase("b")), (Phase::Pending, Phase::Reserved), "b goes first now");
}

#[test]
fn the_limit_of_a_running_job_is_shortened_by_users_and_extended_by_administrators() {
    let stopped =
        |w: &World| w.desired.values().any(|(_, desired)| matches!(desired, DesiredState::Stopped { .. }));
    let mut w = World::new();
    w.submit("a", JobSpec { time_limit: Some(Duration::from_secs(100)), ..spec(1, 1) });
    w.run("a");
    w.tick(Duration::from_secs(10));
    for role in [Role::User, Role::TenantAdmin] {
        let error = w.refused(update("a", role, limit(101)));
        assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, "TIME_LIMIT_EXTENDED"), "{error}");
    }
    let none = JobChange { time_limit: Some(None), ..JobChange::default() };
    assert_eq!(w.refused(update("a", Role::User, none.clone())).code(), "TIME_LIMIT_EXTENDED");
    let error = w.refused(update("a", Role::User, limit(5)));
    assert!(error.to_string().contains("has run for 10 s already"), "{error}");
    assert!(matches!(w.refused(update("a", Role::Admin, priority(1))), CoreError::JobNotWaiting { .. }));
    assert!(matches!(w.refused(update("a", Role::Admin, limit(0))), CoreError::Invalid { .. }));
    w.ok(update("a", Role::Admin, limit(200)));
    w.tick(Duration::from_secs(100));
    assert!(w.phase("a") == Phase::Running && !stopped(&w), "it goes on");
    w.ok(update("a", Role::User, limit(120)));
    w.tick(Duration::from_secs(11));
    assert!(w.phase("a") == Phase::Running && stopped(&w), "its time is over");
    // What is ending ends, whatever limit it has.
    w.ok(update("a", Role::Admin, none));
    w.all("a", Observed::Ended);
    assert_eq!((w.phase("a"), w.codes("a")), (Phase::Failed, vec!["TimeLimit".to_owned()]));
    let error = w.refused(update("a", Role::Admin, limit(10)));
    assert!(matches!(error, CoreError::JobNotWaiting { phase: Phase::Failed, .. }), "{error}");
}

#[test]
fn a_shorter_limit_takes_the_expected_time_along() {
    let mut w = full();
    let (expected, limit_of) = (Some(Duration::from_secs(90)), Some(Duration::from_secs(100)));
    w.submit("a", JobSpec { expected, time_limit: limit_of, ..spec(1, 1) });
    w.ok(update("a", Role::User, limit(50)));
    let changed = &w.job("a").spec;
    assert_eq!(
        (changed.expected, changed.time_limit),
        (Some(Duration::from_secs(50)), Some(Duration::from_secs(50)))
    );
    assert_eq!(changed.check(), Ok(()), "what is stored can be read again");
    let wide = JobChange { nodes: Some(3), ..JobChange::default() };
    w.state.0.config.max_gang_nodes = 4;
    w.submit(
        "b",
        JobSpec {
            placement: proto_model::PlacementRequest { spares: 1, ..Default::default() },
            failure: proto_model::FailurePolicy {
                replace: proto_model::Replace::Spares,
                max_replacements: 1,
                ..FailurePolicy::new(Requeue::Never, 0)
            },
            ..spec(1, 1)
        },
    );
    w.ok(update("b", Role::User, wide.clone()));
    let wider = JobChange { nodes: Some(4), ..wide };
    let error = w.refused(update("b", Role::User, wider));
    assert!(error.to_string().contains("4 nodes and 1 spares are more than the 4"), "{error}");
}

#[test]
fn a_change_of_what_was_changed_meanwhile_is_refused() {
    let mut w = full();
    w.submit("a", spec(1, 1));
    let version = w.state.version(&Key::Job(id("a"))).unwrap();
    let versioned = |if_version| {
        Event::UpdateJob(Box::new(JobUpdate {
            order: order("a", Role::User),
            change: priority(-3),
            if_version,
        }))
    };
    let error = w.refused(versioned(version + 1));
    assert!(matches!(error, CoreError::Conflict { current, .. } if current == version), "{error}");
    w.ok(versioned(version));
    assert_eq!(w.job("a").spec.priority, -3);
    assert!(w.job("a").spec.preemption.preemptible, "below 0 it may be stopped for others, as in a file");
    assert!(matches!(w.refused(versioned(version)), CoreError::Conflict { .. }));
    w.submit("b", JobSpec { array: Some(ArraySpec::new("0-3").unwrap()), ..spec(1, 1) });
    let several = JobUpdate { order: order("b", Role::User), change: priority(1), if_version: 7 };
    assert!(matches!(
        w.refused(Event::UpdateJob(Box::new(several))),
        CoreError::Invalid { field: "ifVersion", .. }
    ));
    w.ok(update("b", Role::Admin, priority(1)));
    assert!(w.state.array(&id("b")).all(|job| job.spec.priority == 1));
}

/// What is freed is for the first jobs of a long queue at once; those behind them are looked at once in a while.
#[test]
fn jobs_far_behind_in_a_long_queue_have_their_turn_within_a_second() {
    let mut w = World::new();
    for text in ["a", "b", "c", "d"] {
        w.submit(text, spec(1, 4));
        w.run(text);
    }
    for at in 0..=controller_queue::Budget::EVENT.jobs {
        w.submit(&format!("held{at}"), spec(1, 4));
        w.ok(hold(&format!("held{at}"), Role::User));
    }
    w.submit("x", spec(1, 4));
    w.tick(Duration::from_secs(5));
    // The cancel is a reason to look at the whole queue; what is freed then, in the same second, none any more.
    w.ok(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    w.all("a", Observed::Ended);
    w.tick(Duration::from_millis(1));
    assert_eq!(w.phase("x"), Phase::Pending);
    w.tick(Duration::from_millis(900));
    assert_eq!(w.phase("x"), Phase::Pending);
    w.tick(Duration::from_millis(200));
    assert_ne!(w.phase("x"), Phase::Pending);
}
