//! Jobs that must start, or have ended, by a time.

use std::time::Duration;

use proto_model::{Observed, ReasonCode, Requeue};

use super::*;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn full() -> World {
    let mut w = World::new();
    w.submit("full", spec(4, 4));
    w.run("full");
    w
}

#[test]
fn a_job_that_cannot_start_in_time_fails_as_such() {
    let mut w = full();
    let before = |w: &World, after: u64| Some(w.now.plus(secs(after)));
    w.submit("late", JobSpec { start_before: before(&w, 100), ..spec(1, 1) });
    w.submit("long", JobSpec { deadline: before(&w, 100), time_limit: Some(secs(70)), ..spec(1, 1) });
    w.submit("free", JobSpec { deadline: before(&w, 40), ..spec(1, 1) });
    let explained = w.state.explain(&id("long"), w.now).unwrap();
    let reason = explained.reasons.iter().find(|reason| reason.code == ReasonCode::LatestStart).unwrap();
    assert!(reason.message.contains("in 30 s"), "{reason}");
    w.tick(secs(29));
    assert!(["late", "long", "free"].iter().all(|text| w.phase(text) == Phase::Pending));
    w.tick(secs(1));
    assert_eq!((w.phase("long"), w.codes("long")), (Phase::Failed, vec!["DeadlinePassed".to_owned()]));
    assert!(w.job("long").status.reasons[0].message.contains("takes 70 s"));
    // Held jobs too, and those that a new leader finds.
    let order = super::holds::order("late", proto_model::Role::User);
    w.ok(Event::HoldJob { order: Box::new(order), reason: String::new() });
    w.state = w.reload(8);
    w.now = w.now.plus(secs(80));
    for _ in 0..5 {
        let out = step(&mut w.state, Event::Tick, w.now, &mut |bytes| bytes.fill(7));
        w.state.commit(99);
        assert!(out.reply.is_none_or(|reply| reply.is_ok()));
    }
    assert_eq!((w.phase("late"), w.codes("late")), (Phase::Failed, vec!["StartTooLate".to_owned()]));
    assert_eq!(w.codes("free"), ["DeadlinePassed"]);
    assert!(w.job("late").status.holds.is_empty());
}

#[test]
fn a_running_job_ends_at_its_deadline_and_is_not_tried_again() {
    let mut w = World::new();
    let deadline = Some(w.now.plus(secs(50)));
    w.submit("a", JobSpec { deadline, ..requeue(spec(1, 1), Requeue::OnAny, 5) });
    w.run("a");
    w.submit("b", JobSpec { deadline, time_limit: Some(secs(20)), ..spec(1, 1) });
    w.run("b");
    w.tick(secs(21));
    w.all("b", Observed::Ended);
    assert_eq!((w.phase("b"), w.codes("b")), (Phase::Failed, vec!["TimeLimit".to_owned()]));
    assert_eq!(w.phase("a"), Phase::Running);
    assert_eq!(w.reload(8).base.jobs[&w.job("a").uid].due, deadline);
    w.tick(secs(30));
    w.all("a", Observed::Ended);
    assert_eq!((w.phase("a"), w.codes("a")), (Phase::Failed, vec!["DeadlinePassed".to_owned()]));
}

#[test]
fn a_job_that_is_queued_again_too_late_fails() {
    let mut w = World::new();
    let deadline = Some(w.now.plus(secs(50)));
    let asked = JobSpec { deadline, time_limit: Some(secs(40)), ..requeue(spec(1, 1), Requeue::OnAny, 5) };
    w.submit("a", asked);
    w.run("a");
    w.tick(secs(15));
    let node = w.nodes("a")[0];
    let exit = w.exited("a", node, 1);
    w.report(node, exit);
    w.tick(Duration::ZERO);
    assert_eq!((w.phase("a"), w.codes("a")), (Phase::Failed, vec!["DeadlinePassed".to_owned()]));
}

#[test]
fn what_is_over_when_it_is_asked_for_is_refused() {
    let mut w = World::new();
    let at = |w: &World, after: u64| Some(w.now.plus(secs(after)));
    let wrong = [
        (JobSpec { start_before: Some(w.now), ..spec(1, 1) }, "spec.startBefore"),
        (JobSpec { deadline: at(&w, 100), time_limit: Some(secs(100)), ..spec(1, 1) }, "spec.deadline"),
        (JobSpec { begin: at(&w, 50), start_before: at(&w, 50), ..spec(1, 1) }, "spec.startBefore"),
        (
            JobSpec { begin: at(&w, 50), deadline: at(&w, 90), expected: Some(secs(60)), ..spec(1, 1) },
            "spec.deadline",
        ),
    ];
    for (asked, field) in wrong {
        let planned = w.state.plan(&tenant("red"), &by(Role::User), &asked, w.now).unwrap_err();
        let error = w.refused(submit("x", asked));
        assert!(error.to_string().starts_with(field) && planned == error, "{error}");
    }
    w.submit(
        "x",
        JobSpec { begin: at(&w, 50), deadline: at(&w, 90), expected: Some(secs(30)), ..spec(1, 1) },
    );
}
