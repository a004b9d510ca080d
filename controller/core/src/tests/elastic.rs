//! Elastic jobs change their size: they are stopped with grace and go on with more nodes, or with fewer.

use std::time::Duration;

use proto_model::{Observed, Phase, Preemption};

use super::*;

const AFTER: Duration = Duration::from_secs(1800);

/// Of one to four nodes; stopped by signal 10 within 20 s.
fn elastic(priority: i32) -> JobSpec {
    let preemption =
        Preemption { grace: Some(Duration::from_secs(20)), signal: 10, ..Preemption::of_priority(priority) };
    let mut spec = JobSpec { preemption, priority, expected: Some(10 * AFTER), ..spec(4, 4) };
    spec.gang.min_nodes = 1;
    spec
}

/// All of its nodes were told to stop as it asks; they do.
fn stops(w: &mut World, text: &str) {
    let uid = w.job(text).uid;
    for n in w.nodes(text) {
        let (_, desired) = &w.desired[&(name(n), uid)];
        let DesiredState::Stopped { grace, signal, .. } = desired else { panic!("{desired:?}") };
        assert_eq!((*grace, *signal), (Duration::from_secs(20), 10));
    }
    w.all(text, Observed::Ended);
}

fn sizes(w: &World, text: &str) -> (usize, usize) {
    let placement = w.job(text).status.placement.as_ref().unwrap();
    (placement.nodes.len(), placement.ranks.len())
}

#[test]
fn an_elastic_job_grows_when_nodes_come_free_and_it_has_run_for_a_while() {
    let mut w = World::new();
    w.submit("other", spec(2, 4));
    w.run("other");
    w.submit("elastic", elastic(0));
    w.run("elastic");
    assert_eq!(sizes(&w, "elastic"), (2, 2));
    for n in w.nodes("other") {
        let end = w.exited("other", n, 0);
        w.report(n, end);
    }
    w.tick(AFTER - Duration::from_secs(1));
    assert_eq!(w.phase("elastic"), Phase::Running);
    w.tick(Duration::from_secs(2));
    assert_eq!(w.phase("elastic"), Phase::Recovering);
    assert_eq!(w.codes("elastic"), ["Resized", "Grown"]);
    stops(&mut w, "elastic");
    assert_eq!((w.phase("elastic"), sizes(&w, "elastic")), (Phase::Reserved, (4, 4)));
    let status = &w.job("elastic").status;
    assert_eq!((status.attempt, status.restarts, status.preempted), (2, 0, 0));
    w.run("elastic");
    w.tick(3 * AFTER);
    assert_eq!((w.phase("elastic"), w.job("elastic").status.attempt), (Phase::Running, 2));
}

#[test]
fn an_elastic_job_shrinks_for_a_job_of_higher_priority_at_once() {
    let mut w = World::new();
    w.submit("elastic", elastic(-5));
    w.run("elastic");
    w.submit("urgent", JobSpec { priority: 5, ..spec(1, 4) });
    assert_eq!((w.phase("elastic"), w.phase("urgent")), (Phase::Recovering, Phase::Pending));
    stops(&mut w, "elastic");
    w.tick(Duration::from_millis(1));
    assert_eq!((w.phase("urgent"), sizes(&w, "elastic")), (Phase::Reserved, (3, 3)));
    assert_eq!((w.job("elastic").status.preempted, w.job("elastic").status.restarts), (1, 0));
}

#[test]
fn an_elastic_job_that_has_run_for_a_while_shrinks_for_one_of_equal_priority() {
    let mut w = World::new();
    w.submit("elastic", elastic(0));
    w.run("elastic");
    w.submit("equal", spec(2, 4));
    assert_eq!((w.phase("elastic"), w.phase("equal")), (Phase::Running, Phase::Pending));
    w.tick(AFTER + Duration::from_secs(1));
    assert_eq!(w.codes("elastic"), ["Resized", "Shrunk"]);
    stops(&mut w, "elastic");
    w.tick(Duration::from_millis(1));
    // It goes first, being older, and does not take what it gave.
    assert_eq!((w.phase("equal"), sizes(&w, "elastic")), (Phase::Reserved, (2, 2)));
    w.run("elastic");
    w.run("equal");
    for n in w.nodes("equal") {
        let end = w.exited("equal", n, 0);
        w.report(n, end);
    }
    w.tick(AFTER + Duration::from_secs(1));
    assert_eq!(w.codes("elastic"), ["Resized", "Grown"]);
    stops(&mut w, "elastic");
    assert_eq!(sizes(&w, "elastic"), (4, 4));
}
