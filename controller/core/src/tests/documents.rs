//! Queues, reservations, labels and taints: what is taken, what is refused, and that a reload knows all of it.

use proto_model::{
    Dependency, DependencyWhen, Queue, QueueName, Reservation, ReservationName, ReservationNodes, Shape,
    Taint,
};

use super::*;
use crate::{ErrorKind, NodeChange};

const HOUR: Duration = Duration::from_secs(3600);

/// A new controller finds all of it, and an undone step leaves nothing.
fn kept(w: &World) {
    let (again, base) = (w.reload(8), &w.state.base);
    assert_eq!((&again.base.queues, &again.base.reservations), (&base.queues, &base.reservations));
    assert_eq!(again.base.tenants, base.tenants);
    let marks = |node: &Arc<proto_model::Node>| (node.labels.clone(), node.taints.clone());
    assert!(again.base.nodes.values().map(marks).eq(base.nodes.values().map(marks)));
    let mut other = w.state.clone();
    for event in [queue("z", None, 0, 0), apply(reservation("z", &[3], w.now.plus(9 * HOUR)))] {
        let event = super::attributed(&other, event);
        let out = step(&mut other, event, w.now, &mut |bytes| bytes.fill(7));
        assert!(out.reply.unwrap().is_ok() && !out.writes.is_empty());
    }
    assert!(!other.same(&w.state));
    other.rollback();
    assert!(other.same(&w.state));
}

fn queue_name(text: &str) -> QueueName {
    QueueName::new(text).unwrap()
}

fn queue(text: &str, parent: Option<&str>, nodes: u32, gpus: u32) -> Event {
    let queue = Queue {
        tenant: tenant("red"),
        name: queue_name(text),
        parent: parent.map(queue_name),
        guaranteed: Shape { pods: 0, nodes, gpus },
        limit: None,
        weight: 1,
        objective: None,
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
    };
    Event::ApplyQueue { queue: Box::new(queue), dry_run: false }
}

fn guarantee(text: &str, gpus: u32, nodes: u32) -> Event {
    let quota = Quota { guaranteed: Shape { nodes, ..Shape::default() }, ..Quota::new(gpus, 0) };
    Event::ApplyTenant {
        name: tenant(text),
        description: String::new(),
        quota,
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    }
}

fn field(error: CoreError) -> &'static str {
    match error {
        CoreError::Invalid { field, message } => {
            assert!(!message.is_empty());
            field
        }
        other => panic!("{other}"),
    }
}

pub(super) fn reservation(text: &str, nodes: &[usize], start: Timestamp) -> Reservation {
    Reservation {
        name: ReservationName::new(text).unwrap(),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        nodes: ReservationNodes::Names(nodes.iter().map(|n| name(*n)).collect()),
        start,
        duration: HOUR,
        tenants: vec![tenant("red")],
        maintenance: false,
        reason: String::new(),
    }
}

pub(super) fn apply(reservation: Reservation) -> Event {
    Event::ApplyReservation { reservation: Box::new(reservation), dry_run: false }
}

#[test]
fn queues_are_nested_and_share_what_is_above_them() {
    let mut w = World::new();
    // Four nodes of four GPUs: no more can be guaranteed, and no more than the quota.
    assert_eq!(field(w.refused(guarantee("red", 99, 5))), "spec.quota.guaranteed");
    assert_eq!(field(w.refused(guarantee("red", 7, 2))), "spec.quota.guaranteed");
    w.ok(guarantee("red", 16, 3));
    assert_eq!(field(w.refused(guarantee("blue", 16, 2))), "spec.quota.guaranteed");
    w.ok(guarantee("blue", 4, 1));
    assert_eq!(field(w.refused(queue("a", None, 4, 0))), "spec.guaranteed");
    let Reply::Queue(a) = w.ok(queue("a", None, 2, 0)) else { panic!() };
    assert_eq!((a.generation, a.uid.is_empty()), (1, false));
    let Reply::Queue(same) = w.ok(queue("a", None, 2, 0)) else { panic!() };
    assert_eq!(same, a, "nothing was changed");
    // What is left of nodes serves as GPUs.
    w.ok(queue("b", None, 0, 4));
    assert_eq!(field(w.refused(queue("c", None, 0, 1))), "spec.guaranteed");
    w.ok(queue("a1", Some("a"), 1, 0));
    assert_eq!(field(w.refused(queue("a2", Some("a"), 0, 5))), "spec.guaranteed");
    assert_eq!(field(w.refused(queue("a", None, 0, 3))), "spec.guaranteed");
    assert_eq!(field(w.refused(guarantee("red", 16, 2))), "spec.quota.guaranteed");
    kept(&w);
}

#[test]
fn parents_are_there_and_never_in_a_circle() {
    let mut w = World::new();
    let missing = w.refused(queue("a", Some("x"), 0, 0));
    assert!(matches!(missing, CoreError::QueueNotFound { .. }), "{missing}");
    w.ok(queue("a", None, 0, 0));
    w.ok(queue("b", Some("a"), 0, 0));
    w.ok(queue("c", Some("b"), 0, 0));
    let circle = w.refused(queue("a", Some("c"), 0, 0));
    assert!(circle.to_string().contains("a in c in b in a"), "{circle}");
    let near = w.refused(queue("d", Some("bb"), 0, 0)).to_string();
    assert!(near.contains("did you mean"), "{near}");
    let mut last = "c".to_owned();
    for n in 0..5 {
        let next = format!("d{n}");
        w.ok(queue(&next, Some(&last), 0, 0));
        last = next;
    }
    assert_eq!(field(w.refused(queue("e", Some(&last), 0, 0))), "spec.parent");
    let elsewhere = Event::DeleteQueue { tenant: tenant("blue"), name: queue_name("a") };
    assert!(matches!(w.refused(elsewhere), CoreError::QueueNotFound { .. }));
}

#[test]
fn a_queue_in_use_stays_and_jobs_know_their_queue() {
    let mut w = World::new();
    let remove = |text: &str| Event::DeleteQueue { tenant: tenant("red"), name: queue_name(text) };
    let in_queue = |text: &str| JobSpec { queue: Some(queue_name(text)), ..spec(1, 4) };
    let lost = w.refused(submit("j", in_queue("a")));
    assert!(matches!(lost, CoreError::QueueNotFound { .. }), "{lost}");
    w.ok(queue("a", None, 0, 0));
    w.ok(queue("b", Some("a"), 0, 0));
    assert!(matches!(w.refused(remove("a")), CoreError::QueueBusy { within: 1, .. }));
    w.submit("j", in_queue("b"));
    assert!(matches!(w.refused(remove("b")), CoreError::QueueBusy { jobs: 1, .. }));
    let usage = w.state.queue_usage(&tenant("red"), &queue_name("a"));
    assert_eq!((usage.gpus_used, usage.jobs_active), (4, 1), "what is within it counts");
    kept(&w);
    w.ok(Event::Cancel { by: None, id: id("j"), indices: Vec::new(), grace: None });
    w.report(0, w.seen("j", 0, Observed::Ended));
    w.ok(remove("b"));
    w.ok(remove("a"));
    assert!(w.stored.keys().all(|key| !matches!(key, Key::Queue(..))));
}

#[test]
fn reservations_are_of_known_nodes_at_a_time_to_come_and_never_twice() {
    let mut w = World::new();
    let start = w.now.plus(HOUR);
    let past = Timestamp(w.now.0 - 600_000);
    assert_eq!(field(w.refused(apply(reservation("r", &[0], past)))), "spec.start");
    let over = Reservation { duration: Duration::from_secs(1), ..reservation("r", &[0], past) };
    assert_eq!(field(w.refused(apply(over))), "spec.start");
    assert_eq!(field(w.refused(apply(reservation("r", &[9], start)))), "spec.nodes");
    let foreign = Reservation { tenants: vec![tenant("green")], ..reservation("r", &[0], start) };
    assert!(matches!(w.refused(apply(foreign)), CoreError::TenantUnknown { .. }));
    let count = |nodes, pods_at_most| ReservationNodes::Count { nodes, pods_at_most };
    let many = Reservation { nodes: count(5, 0), ..reservation("r", &[], start) };
    assert_eq!(field(w.refused(apply(many))), "spec.count");
    let pods = Reservation { nodes: count(1, 9), ..reservation("r", &[], start) };
    assert_eq!(field(w.refused(apply(pods))), "spec.podsAtMost");
    w.ok(apply(reservation("r", &[0, 1], start)));
    assert_eq!(field(w.refused(apply(reservation("s", &[1, 2], start)))), "spec.nodes");
    w.ok(apply(reservation("s", &[1, 2], start.plus(HOUR))));
    // At the same time no more nodes than there are; a reservation is not in its own way.
    let rest = |nodes| Reservation { nodes: count(nodes, 0), ..reservation("t", &[], start) };
    assert_eq!(field(w.refused(apply(rest(3)))), "spec.count");
    w.ok(apply(rest(2)));
    w.ok(apply(rest(1)));
    w.ok(apply(reservation("r", &[0, 1], start)));
    let Reply::Reservation(longer) =
        w.ok(apply(Reservation { reason: "firmware".into(), ..reservation("r", &[0, 1], start) }))
    else {
        panic!()
    };
    assert_eq!(longer.generation, 2);
    kept(&w);
}

#[test]
fn jobs_of_a_reservation_are_checked_against_it() {
    let mut w = World::new();
    let start = w.now.plus(HOUR);
    let inside =
        |text: &str| JobSpec { reservation: Some(ReservationName::new(text).unwrap()), ..spec(2, 4) };
    let unknown = w.refused(submit("j", inside("r")));
    assert!(matches!(unknown, CoreError::ReservationNotFound { .. }));
    w.ok(apply(reservation("r", &[0], start)));
    assert_eq!(field(w.refused(submit("j", inside("r")))), "spec.reservation");
    w.ok(apply(reservation("r", &[0, 1], start)));
    let late = JobSpec { begin: Some(start.plus(2 * HOUR)), ..inside("r") };
    assert_eq!(field(w.refused(submit("j", late))), "spec.beginTime");
    let closed = Reservation { maintenance: true, tenants: Vec::new(), ..reservation("m", &[2, 3], start) };
    w.ok(apply(closed));
    assert_eq!(field(w.refused(submit("j", inside("m")))), "spec.reservation");
    w.ok(submit("j", inside("r")));
    let remove = || Event::DeleteReservation { name: ReservationName::new("r").unwrap() };
    assert!(matches!(w.refused(remove()), CoreError::ReservationBusy { jobs: 1, .. }));
    w.ok(Event::Cancel { by: None, id: id("j"), indices: Vec::new(), grace: None });
    w.ok(remove());
    assert!(matches!(w.refused(remove()), CoreError::ReservationNotFound { .. }));
}

#[test]
fn a_spec_that_contradicts_itself_never_comes_in() {
    let mut w = World::new();
    let twice = Dependency { job: proto_model::JobName::new("x").unwrap(), when: DependencyWhen::Ended };
    let mut bad = spec(4, 1);
    bad.after = vec![twice.clone(), twice];
    let error = w.refused(submit("j", bad));
    assert_eq!((error.code(), error.kind()), ("INVALID_FIELD", ErrorKind::Invalid));
    assert!(error.to_string().starts_with("spec.after[1]"), "{error}");
}

#[test]
fn labels_and_taints_are_kept_and_seen_by_the_scheduler() {
    let mut w = World::new();
    let mark = |labels: &[(&str, &str)], taints: &[&str]| Event::UpdateNode {
        name: name(0),
        change: NodeChange {
            unschedulable: None,
            labels: Some(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
            taints: Some(
                taints.iter().map(|key| Taint { key: (*key).to_owned(), value: String::new() }).collect(),
            ),
        },
        if_version: 0,
    };
    let Reply::Node(node) = w.ok(mark(&[("disk", "nvme")], &["slow"])) else { panic!() };
    assert_eq!((node.generation, node.labels.len(), node.taints.len()), (2, 1, 1));
    let mut picky = spec(1, 4);
    picky.placement.selector = vec![proto_model::Term::Exists("disk".into())];
    w.submit("a", picky.clone());
    assert!(w.job("a").status.placement.is_none(), "the taint keeps it off");
    picky.placement.tolerations = vec![proto_model::Toleration { key: Some("slow".into()), value: None }];
    w.submit("b", picky);
    assert_eq!(w.job("b").status.placement.as_ref().unwrap().nodes[0].node, name(0));
    kept(&w);
    let Reply::Node(node) = w.ok(mark(&[], &[])) else { panic!() };
    assert_eq!(node.generation, 3);
}

#[test]
fn a_job_without_rails_runs_and_leaves_them_to_others() {
    let mut w = World::new();
    let alone =
        |gpus| JobSpec { rails: RailRequest { none: true, ..RailRequest::default() }, ..spec(1, gpus) };
    w.submit("a", alone(1));
    w.submit("b", alone(1));
    let placement = w.job("a").status.placement.clone().unwrap();
    assert!(placement.rails.is_empty() && placement.nodes[0].nics.is_empty(), "{placement:?}");
    assert_eq!(w.nodes("a"), w.nodes("b"), "they share a node");
    let n = w.nodes("a")[0];
    let without = |seen: Observation| Observation { endpoints: Vec::new(), ..seen };
    w.report(n, without(w.seen("a", n, Observed::Prepared)));
    assert_eq!(w.phase("a"), Phase::Running);
    w.report(n, without(w.seen("a", n, Observed::Running)));
    w.report(n, without(w.exited("a", n, 0)));
    assert_eq!(w.phase("a"), Phase::Completed);
}
