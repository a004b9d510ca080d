//! The numbers of tenants and queues: true to the jobs whatever happens to them, and bounded.

use super::*;
use crate::figures::{Figure, MAX_QUEUES, MAX_TENANTS, Move, NO_QUEUE, OTHER};

fn queue_of(owner: &str, name: &str) -> Event {
    let queue = proto_model::Queue {
        tenant: tenant(owner),
        name: name.parse().unwrap(),
        parent: None,
        guaranteed: proto_model::Shape::default(),
        limit: None,
        weight: 1,
        objective: None,
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
    };
    Event::ApplyQueue { queue: Box::new(queue), dry_run: false }
}

fn figure(waiting: u64, gpus_asked: u64, placed: u64, gpus_held: u64) -> Figure {
    Figure { waiting, gpus_asked, placed, gpus_held }
}

fn of_queue(w: &World, owner: &str, name: &str) -> Figure {
    w.state.figures().queues.get(&[owner.to_owned(), name.to_owned()]).copied().unwrap_or_default()
}

#[test]
fn what_jobs_hold_and_wait_for_is_counted_by_tenant_and_queue() {
    let mut w = World::new();
    w.ok(queue_of("red", "fast"));
    assert_eq!(of_queue(&w, "red", "fast"), Figure::default());
    let fast = |nodes, gpus| JobSpec { queue: Some("fast".parse().unwrap()), ..spec(nodes, gpus) };
    w.submit("a", fast(1, 2));
    w.submit("b", spec(1, 1));
    w.tick(Duration::from_secs(1));
    assert_eq!(of_queue(&w, "red", "fast"), figure(0, 0, 1, 2));
    assert_eq!(of_queue(&w, "red", NO_QUEUE), figure(0, 0, 1, 1));
    // Two of its four nodes are in use.
    w.submit("c", fast(4, 3));
    w.tick(Duration::from_secs(1));
    assert_eq!(of_queue(&w, "red", "fast"), figure(1, 12, 1, 2));
    assert_eq!(w.state.figures().tenants["red"], figure(1, 12, 2, 3));
    assert_eq!(w.state.figures().tenants["blue"], Figure::default());
    // A state that is loaded counts alike.
    assert_eq!(w.reload(9).figures(), w.state.figures());
    w.ok(Event::Cancel { id: id("c"), indices: Vec::new(), grace: None, by: None });
    assert_eq!(of_queue(&w, "red", "fast"), figure(0, 0, 1, 2));
}

fn moves(w: &World, output: &Output) -> Vec<Move> {
    output
        .transitions
        .iter()
        .filter_map(|moved| w.state.moved(moved, w.now))
        .map(|moved| moved.what)
        .collect()
}

#[test]
fn starts_tell_how_long_the_job_waited_and_preemptions_are_told() {
    let mut w = World::new();
    let begin = Some(w.now.plus(Duration::from_secs(30)));
    let preemption = proto_model::Preemption {
        preemptible: true,
        grace: Some(Duration::from_secs(20)),
        ..proto_model::Preemption::of_priority(-5)
    };
    let low = JobSpec { begin, preemption, priority: -5, ..requeue(spec(4, 4), Requeue::OnAny, 0) };
    w.submit("low", low);
    w.tick(Duration::from_secs(31));
    let mut reported = Vec::new();
    for state in [Observed::Prepared, Observed::Running] {
        for n in w.nodes("low") {
            let observation = w.seen("low", n, state);
            let output = w.report(n, observation);
            reported.extend(moves(&w, &output));
        }
    }
    assert_eq!(reported, [Move::Started(Some(Duration::from_secs(31)))]);
    w.tick(Duration::from_secs(5));
    let output = w.step(submit("high", JobSpec { priority: 50, ..spec(2, 4) }));
    let mut reported = moves(&w, &output);
    for _ in 0..20 {
        if w.state.next_tick().is_some_and(|time| time <= w.now) {
            let output = w.step(Event::Tick);
            reported.extend(moves(&w, &output));
        }
    }
    assert_eq!((reported, w.phase("low")), (vec![Move::Preempted], Phase::Recovering));
}

#[test]
fn who_came_last_goes_with_the_others() {
    let mut w = World::new();
    for n in 0..MAX_TENANTS {
        w.now = w.now.plus(Duration::from_secs(1));
        let name = format!("t{:03}", 999 - n);
        w.ok(Event::ApplyTenant {
            name: tenant(&name),
            description: String::new(),
            quota: proto_model::Quota::new(1, 0),
            isolation: proto_model::IsolationPolicy::BestEffort,
            dry_run: false,
        });
    }
    let figures = w.state.figures();
    assert_eq!(figures.tenants.len(), MAX_TENANTS + 1);
    assert!(figures.tenants.contains_key(OTHER) && figures.tenants.contains_key("t999"));
    let last = tenant(&format!("t{:03}", 999 - (MAX_TENANTS - 1)));
    assert_eq!((figures.named.tenant(&last), figures.named.queue(&last, None)), (OTHER, [OTHER, NO_QUEUE]));
    for n in 0..=MAX_QUEUES {
        w.now = w.now.plus(Duration::from_secs(1));
        w.ok(queue_of("red", &format!("q{n:04}")));
    }
    let figures = w.state.figures();
    assert_eq!(figures.queues.len(), MAX_QUEUES + 1);
    assert!(figures.queues.contains_key(&["red".to_owned(), OTHER.to_owned()]));
}
