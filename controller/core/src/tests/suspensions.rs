//! Jobs that people suspend, resume and queue again.

use std::time::Duration;

use proto_model::{
    ArraySpec, Observed, Preemption, RailLoss, Reason, ReasonCode, Replace, Requeue, Role, Strike,
};

use super::{holds::order, *};
use crate::{Asked, ErrorKind, JobOrder};

const GRACE: Duration = Duration::from_secs(20);

fn suspend(text: &str, role: Role) -> Event {
    Event::SuspendJob { order: Box::new(order(text, role)), reason: "for the demo".into() }
}

fn resume(text: &str, role: Role) -> Event {
    Event::ReleaseJob(Box::new(order(text, role)))
}

fn again(text: &str) -> Event {
    Event::RequeueJob { order: Box::new(order(text, Role::User)), reason: "new image".into() }
}

fn asked(text: &str, request: &str, indices: &[u32]) -> Box<JobOrder> {
    let asked = Asked { request: RequestId::new(request).unwrap(), digest: [1; 32] };
    Box::new(JobOrder { asked: Some(asked), indices: indices.to_vec(), ..order(text, Role::User) })
}

/// Stopped by signal 10 within 20 s.
fn patient(nodes: u32) -> JobSpec {
    let preemption = Preemption { grace: Some(GRACE), signal: 10, ..Preemption::of_priority(0) };
    JobSpec { preemption, ..spec(nodes, 4) }
}

/// All of its nodes were told to stop, with its own grace and signal.
fn is_told_to_stop(w: &World, text: &str) -> bool {
    let uid = w.job(text).uid;
    w.nodes(text).into_iter().all(|n| {
        let (_, desired) = &w.desired[&(name(n), uid)];
        matches!(desired, DesiredState::Stopped { grace: GRACE, signal: 10, .. })
    })
}

fn counts(w: &World, text: &str) -> (u32, u32, u32) {
    let status = &w.job(text).status;
    (status.attempt, status.restarts, status.preempted)
}

#[test]
fn a_job_that_runs_is_stopped_as_for_another_and_goes_on_when_it_is_resumed() {
    let mut w = World::new();
    w.submit("a", patient(4));
    w.submit("b", spec(4, 4));
    w.submit("c", spec(4, 4));
    w.run("a");
    w.ok(suspend("a", Role::User));
    assert_eq!((w.phase("a"), w.codes("a")), (Phase::Recovering, vec!["SuspendRequested".to_owned()]));
    assert!(is_told_to_stop(&w, "a"));
    let reason = &w.job("a").status.reasons[0];
    assert!(reason.message.contains("user 'user' (for the demo)") && reason.since == Some(w.now), "{reason}");
    assert_eq!(w.state.usage(&tenant("red")).gpus_used, 16, "what it holds is not free before its end");
    // A new leader goes on with it.
    let fresh = w.reload(8);
    assert!(fresh.base.jobs[&w.job("a").uid].job.status.holds[0].suspended);
    w.all("a", Observed::Ended);
    assert_eq!((w.phase("a"), w.phase("b")), (Phase::Pending, Phase::Reserved), "its place is another's");
    assert_eq!(w.codes("a"), ["SuspendRequested", "Requeued", "Suspended"]);
    let reason = w.job("a").status.reasons[2].clone();
    assert!(reason.message.contains("suspended by user 'user' (for the demo)"), "{reason}");
    assert!(reason.message.contains("`railctl resume job a`"), "{reason}");
    let explained = w.state.explain(&id("a"), w.now).unwrap();
    assert_eq!(explained.reasons, w.job("a").status.reasons);
    assert!(explained.detail.is_none_or(|detail| detail.eta.is_none()), "nobody knows when it is resumed");
    assert!(w.reload(8).base.jobs[&w.job("a").uid].held);
    assert_eq!(counts(&w, "a"), (2, 0, 0), "no failure, no preemption");
    w.run("b");
    w.tick(Duration::from_secs(3600));
    assert_eq!(w.phase("a"), Phase::Pending);
    w.ok(resume("a", Role::User));
    assert!(w.job("a").status.holds.is_empty());
    assert!(!w.codes("a").contains(&"Suspended".to_owned()), "{:?}", w.codes("a"));
    w.ok(Event::Cancel { by: None, id: id("b"), indices: Vec::new(), grace: None });
    w.all("b", Observed::Ended);
    w.tick(Duration::from_millis(1));
    assert_eq!((w.phase("a"), w.phase("c")), (Phase::Reserved, Phase::Pending), "it has its age of old");
    w.run("a");
    assert_eq!((w.phase("a"), counts(&w, "a")), (Phase::Running, (2, 0, 0)));
}

#[test]
fn one_that_does_not_run_yet_is_stopped_too_and_one_that_waits_is_held() {
    let mut w = World::new();
    w.submit("a", patient(4));
    w.submit("b", spec(1, 1));
    assert_eq!(w.phase("a"), Phase::Reserved);
    w.ok(suspend("a", Role::User));
    assert!(w.phase("a") == Phase::Recovering && is_told_to_stop(&w, "a"));
    w.ok(suspend("b", Role::TenantAdmin));
    assert_eq!((w.phase("b"), w.codes("b")), (Phase::Pending, vec!["Suspended".to_owned()]));
    assert_eq!(w.job("b").status.attempt, 1);
    w.all("a", Observed::Ended);
    assert_eq!((w.phase("a"), w.phase("b")), (Phase::Pending, Phase::Pending));
    // The other verbs of a hold serve as well: it is one.
    w.ok(Event::ReleaseJob(Box::new(order("b", Role::TenantAdmin))));
    assert_eq!(w.phase("b"), Phase::Reserved);
    assert!(matches!(w.refused(suspend("nosuch", Role::User)), CoreError::JobNotFound { .. }));
    let long = Event::SuspendJob { order: Box::new(order("a", Role::User)), reason: "x".repeat(1025) };
    assert!(matches!(w.refused(long), CoreError::Invalid { field: "reason", .. }));
}

#[test]
fn a_user_does_not_resume_what_an_administrator_has_suspended() {
    let mut w = World::new();
    w.submit("a", patient(1));
    w.run("a");
    w.ok(suspend("a", Role::Admin));
    w.ok(suspend("a", Role::User));
    w.all("a", Observed::Ended);
    assert_eq!(w.codes("a").iter().filter(|code| *code == "Suspended").count(), 2);
    w.ok(resume("a", Role::User));
    let error = w.refused(resume("a", Role::User));
    assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, "HELD_ABOVE"), "{error}");
    assert_eq!(w.phase("a"), Phase::Pending);
    w.ok(resume("a", Role::Admin));
    assert_eq!(w.phase("a"), Phase::Reserved);
}

#[test]
fn a_hold_of_what_is_suspended_gives_another_reason_and_nothing_else() {
    let mut w = World::new();
    w.submit("a", patient(1));
    w.run("a");
    let hold = |reason: &str| {
        let order = Box::new(order("a", Role::User));
        Event::HoldJob { order, reason: reason.to_owned() }
    };
    w.ok(hold("for the demo"));
    assert!(!w.job("a").status.holds[0].suspended && w.phase("a") == Phase::Running);
    w.ok(suspend("a", Role::User));
    w.all("a", Observed::Ended);
    w.tick(Duration::from_secs(1));
    w.ok(hold("broken data"));
    let holds = &w.job("a").status.holds;
    assert!(holds.len() == 1 && holds[0].suspended, "{holds:?}");
    let last = w.job("a").status.reasons.last().unwrap();
    assert!(last.code == ReasonCode::Suspended && last.message.contains("(broken data)"), "{last}");
    assert_eq!(w.reload(8).base.jobs[&w.job("a").uid].job.status, w.job("a").status);
}

#[test]
fn a_suspension_that_is_repeated_changes_nothing_and_a_late_copy_neither() {
    let mut w = World::new();
    w.submit("a", patient(1));
    w.run("a");
    let first = Event::SuspendJob { order: asked("a", "s1", &[]), reason: String::new() };
    w.ok(first.clone());
    let out = w.step(first.clone());
    assert!(out.reply.unwrap().is_ok() && out.writes.is_empty() && out.pushes.is_empty(), "{:?}", out.writes);
    // Resumed while it is being stopped: it is queued again.
    w.ok(resume("a", Role::User));
    assert_eq!(w.phase("a"), Phase::Recovering);
    w.all("a", Observed::Ended);
    assert_eq!((w.phase("a"), w.job("a").status.attempt), (Phase::Reserved, 2));
    w.run("a");
    w.ok(first.clone());
    assert!(w.phase("a") == Phase::Running && w.job("a").status.holds.is_empty(), "the copy came late");
    // The same id for something else.
    let mut other = asked("a", "s1", &[]);
    other.asked.as_mut().unwrap().digest = [2; 32];
    let other = Event::RequeueJob { order: other, reason: String::new() };
    assert!(matches!(w.refused(other), CoreError::RequestIdReused { .. }));
    w.ok(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    w.ok(suspend("a", Role::User));
    w.all("a", Observed::Ended);
    assert_eq!(w.phase("a"), Phase::Cancelled, "what is cancelled stays so");
    assert!(w.job("a").status.holds.is_empty());
    for event in [suspend("a", Role::User), again("a")] {
        let error = w.refused(event);
        assert!(matches!(error, CoreError::JobEnded { phase: Phase::Cancelled, .. }), "{error}");
        assert_eq!((error.kind(), error.code()), (ErrorKind::Precondition, "JOB_ENDED"), "{error}");
    }
}

#[test]
fn how_a_suspended_try_ends_is_nobodys_failure() {
    let mut w = World::new();
    w.submit("a", requeue(patient(2), Requeue::OnAny, 1));
    for round in 1..=4_u32 {
        w.run("a");
        w.ok(suspend("a", Role::User));
        for n in w.nodes("a") {
            let cause = Reason::new(ReasonCode::EngineLost, "killed");
            let end = Observation { cause: Some(cause), ..w.exited("a", n, 1) };
            w.report(n, end);
        }
        assert_eq!((w.phase("a"), counts(&w, "a")), (Phase::Pending, (round + 1, 0, 0)));
        w.ok(resume("a", Role::User));
        assert_eq!(w.phase("a"), Phase::Reserved, "at once, without a back-off");
    }
    for n in 0..4 {
        let node = &w.state.base.nodes[&name(n)];
        assert_eq!((&node.strikes, &node.quarantined), (&Vec::<Strike>::new(), &None));
    }
    // A failure that came before it counts.
    w.run("a");
    let node = w.nodes("a")[0];
    let failed = w.exited("a", node, 1);
    w.report(node, failed);
    w.ok(suspend("a", Role::User));
    w.all("a", Observed::Ended);
    assert_eq!((w.phase("a"), counts(&w, "a")), (Phase::Pending, (6, 1, 0)));
    assert!(w.codes("a").contains(&"RankFailed".to_owned()), "{:?}", w.codes("a"));
    assert_eq!(w.codes("a").last().unwrap(), "Suspended");
}

#[test]
fn a_gang_that_would_be_mended_where_it_is_is_not_while_it_is_suspended() {
    let mut w = World::new();
    let mut gang = patient(2);
    gang.failure.replace = Replace::Any;
    gang.failure.max_replacements = 2;
    gang.failure.on_rail_loss = RailLoss::Move;
    w.submit("a", gang);
    w.run("a");
    let lost = w.nodes("a")[0];
    let cause = Reason::new(ReasonCode::EngineLost, "killed");
    let end = Observation { cause: Some(cause), ..w.exited("a", lost, 1) };
    w.report(lost, end);
    assert_eq!(w.phase("a"), Phase::Recovering);
    w.ok(suspend("a", Role::User));
    w.all("a", Observed::Ended);
    assert_eq!((w.phase("a"), counts(&w, "a")), (Phase::Pending, (2, 0, 0)));
    w.ok(resume("a", Role::User));
    assert_eq!(w.phase("a"), Phase::Reserved);
}

#[test]
fn a_job_is_queued_again_at_once() {
    let mut w = World::new();
    w.submit("a", patient(4));
    w.submit("b", spec(1, 1));
    w.run("a");
    let first = Event::RequeueJob { order: asked("a", "q1", &[]), reason: "new image".into() };
    w.ok(first.clone());
    assert!(w.phase("a") == Phase::Recovering && is_told_to_stop(&w, "a"));
    let reason = w.job("a").status.reasons[0].clone();
    assert!(reason.code == ReasonCode::RequeueRequested && reason.message.contains("'user'"), "{reason}");
    assert!(reason.message.ends_with("(new image)"), "{reason}");
    w.all("a", Observed::Ended);
    assert_eq!((w.phase("a"), w.phase("b")), (Phase::Reserved, Phase::Pending), "it has its age of old");
    assert_eq!(counts(&w, "a"), (2, 0, 0));
    w.run("a");
    w.ok(first);
    assert_eq!(w.phase("a"), Phase::Running, "the copy came late");
    // What waits stays as it is, and is not stopped by a late copy once it runs.
    let waits = Event::RequeueJob { order: asked("b", "q2", &[]), reason: String::new() };
    let Reply::Job { job, .. } = w.ok(waits.clone()) else { panic!() };
    assert_eq!((job.status.phase, job.status.attempt), (Phase::Pending, 1));
    w.ok(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    w.all("a", Observed::Ended);
    w.run("b");
    w.ok(waits);
    assert_eq!(w.phase("b"), Phase::Running);
    // One that is held is queued again, and waits.
    w.ok(Event::HoldJob { order: Box::new(order("b", Role::User)), reason: String::new() });
    w.ok(again("b"));
    w.all("b", Observed::Ended);
    assert_eq!(w.codes("b"), ["RequeueRequested", "Requeued", "HeldByUser"]);
}

#[test]
fn suspended_elements_leave_their_turn_to_others_and_take_another() {
    let mut w = World::new();
    w.submit("a", JobSpec { array: Some(ArraySpec::new("0-3%1").unwrap()), ..patient(1) });
    let cause = |w: &World| w.codes("a-0").last().cloned();
    w.run("a-0");
    w.ok(Event::SuspendJob { order: asked("a", "s1", &[0, 3]), reason: String::new() });
    assert_eq!((w.phase("a-0"), w.codes("a-3")), (Phase::Recovering, vec!["Suspended".to_owned()]));
    assert_eq!(w.phase("a-1"), Phase::Pending, "a-0 has not ended yet");
    w.all("a-0", Observed::Ended);
    w.tick(Duration::from_millis(1));
    assert_eq!((w.phase("a-0"), w.phase("a-1")), (Phase::Pending, Phase::Reserved));
    w.run("a-1");
    // Resumed, it waits for a turn: no more than one is under way.
    w.ok(resume("a-0", Role::User));
    w.tick(Duration::from_secs(60));
    assert_eq!((w.phase("a-0"), cause(&w)), (Phase::Pending, Some("ArrayTurn".to_owned())));
    let fresh = w.reload(8);
    assert_eq!(fresh.index.arrays, w.state.index.arrays);
    assert!(fresh.base.jobs[&w.job("a-0").uid].held);
    w.ok(again("a-1"));
    w.all("a-1", Observed::Ended);
    w.tick(Duration::from_millis(1));
    assert_eq!((w.phase("a-0"), w.phase("a-1")), (Phase::Pending, Phase::Reserved), "it has kept its turn");
    w.run("a-1");
    let node = w.nodes("a-1")[0];
    let end = w.exited("a-1", node, 0);
    w.report(node, end);
    w.tick(Duration::from_millis(1));
    assert_eq!(
        (w.phase("a-0"), w.phase("a-2")),
        (Phase::Reserved, Phase::Pending),
        "the first one goes first"
    );
    // The whole array: what has ended is left out.
    w.run("a-0");
    w.ok(suspend("a", Role::User));
    w.all("a-0", Observed::Ended);
    w.tick(Duration::from_secs(60));
    let phases = ["a-0", "a-1", "a-2", "a-3"].map(|text| w.phase(text));
    assert_eq!(phases, [Phase::Pending, Phase::Completed, Phase::Pending, Phase::Pending]);
    let ended = Event::SuspendJob { order: asked("a", "s2", &[1]), reason: String::new() };
    assert!(matches!(w.refused(ended), CoreError::JobEnded { .. } | CoreError::ElementsEnded { .. }));
    w.ok(resume("a", Role::User));
    w.tick(Duration::from_millis(1));
    let active = ["a-0", "a-2", "a-3"].into_iter().filter(|text| w.phase(text).holds()).count();
    assert_eq!(active, 1);
}

/// An element that failed and was held has its back-off before it takes a turn, and others do not wait for it meanwhile.
#[test]
fn a_turn_does_not_cut_a_back_off_short() {
    let mut w = World::new();
    let array = Some(ArraySpec::new("0-2%1").unwrap());
    w.submit("a", requeue(JobSpec { array, ..spec(1, 1) }, Requeue::OnAny, 3));
    w.run("a-0");
    w.ok(Event::HoldJob { order: Box::new(order("a-0", Role::User)), reason: String::new() });
    let node = w.nodes("a-0")[0];
    let failed = w.exited("a-0", node, 1);
    w.report(node, failed);
    w.tick(Duration::from_millis(1));
    assert_eq!((w.phase("a-0"), w.phase("a-1")), (Phase::Pending, Phase::Reserved));
    w.ok(resume("a-0", Role::User));
    w.run("a-1");
    let node = w.nodes("a-1")[0];
    let end = w.exited("a-1", node, 0);
    w.report(node, end);
    w.tick(Duration::from_millis(1));
    assert_eq!((w.phase("a-0"), w.phase("a-2")), (Phase::Pending, Phase::Reserved));
    w.run("a-2");
    w.tick(Duration::from_secs(60));
    assert_eq!(w.codes("a-0").last().unwrap(), "ArrayTurn");
}
