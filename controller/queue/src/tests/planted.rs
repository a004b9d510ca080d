//! A bug in the code that keeps limits and reservations is found by the check, which shares no code with it.

use std::sync::Arc;

use proto_model::{JobId, JobName, LicenseName, ReservationName};

use super::world::{at, book, cluster, job, node, nodes, queue, secs, tenant, uid};
use crate::{
    Act, ArrayGroup, Book, Budget, QueueDef, ReservationDef, ReservedNodes, TenantDef,
    check::check,
    plant::{Bug, with},
};

/// What the check finds where one job runs on two of eight nodes, two of one node each wait, and the code has a bug;
/// with how many start.
fn found(bug: Option<Bug>, rules: fn(&mut Book)) -> (usize, Vec<String>) {
    let (mut book, mut snapshot) = (book(), cluster(&[8]));
    let mut placer = controller_scheduler::Placer::default();
    book.set_job(uid(1), Some(Arc::new(job(1, nodes(2), 0, 100).entry)));
    let acts = book.pass(&mut snapshot, &mut placer, at(0), Budget::ALL);
    let [Act::Start { placement, .. }] = &acts[..] else { panic!("{acts:?}") };
    snapshot.hold(&tenant("t"), placement);
    let running = book.job(uid(1)).unwrap().running(Arc::new(placement.clone()), at(0));
    book.set_job(uid(1), Some(Arc::new(running)));
    for number in [2, 3] {
        let mut entry = job(number, nodes(1), number, 50).entry;
        entry.queue = Some(queue("q"));
        let array = JobId { tenant: tenant("t"), name: JobName::new("a").unwrap() };
        entry.array = Some(ArrayGroup { array, at_once: 0 });
        book.set_job(uid(number), Some(Arc::new(entry)));
    }
    limit_queue(&mut book, None);
    rules(&mut book);
    let acts = with(bug, || book.pass(&mut snapshot, &mut placer, at(5), Budget::ALL));
    let starts = acts.iter().filter(|act| matches!(act, Act::Start { .. })).count();
    let breaches = check(&book, &acts, at(5)).err().unwrap_or_default();
    (starts, breaches.iter().map(ToString::to_string).collect())
}

fn limit_tenant(book: &mut Book, limit: Option<u32>, jobs: Option<u32>) {
    book.set_tenant(&tenant("t"), Some(TenantDef { limit, jobs, ..TenantDef::default() }));
}

fn limit_queue(book: &mut Book, limit: Option<u32>) {
    let def = QueueDef { limit, ..QueueDef::default() };
    book.set_queue(&tenant("t"), &queue("q"), Some(def));
}

fn one_at_once(book: &mut Book) {
    for number in [2, 3] {
        let mut entry = book.job(uid(number)).unwrap().as_ref().clone();
        entry.array = entry.array.map(|group| ArrayGroup { at_once: 1, ..group });
        book.set_job(uid(number), Some(Arc::new(entry)));
    }
}

/// One of two is left beside what the first job holds.
fn license(book: &mut Book) {
    let name = LicenseName::new("l").unwrap();
    book.set_license(&name, Some(2));
    for number in [1, 2, 3] {
        let mut entry = book.job(uid(number)).unwrap().as_ref().clone();
        entry.licenses = [(name.clone(), 1)].into();
        book.set_job(uid(number), Some(Arc::new(entry)));
    }
}

/// All nodes but one that the first job does not have.
fn reserve(book: &mut Book) {
    let def = ReservationDef {
        nodes: ReservedNodes::Names((0..7).map(node).collect()),
        start: at(1),
        duration: secs(1000),
        tenants: [tenant("u")].into(),
        maintenance: false,
        reason: String::new(),
    };
    book.set_reservation(&ReservationName::new("r").unwrap(), Some(def));
}

#[test]
fn the_check_finds_a_bug_in_the_code_itself() {
    type Rules = fn(&mut Book);
    let plants: [(Bug, Rules, &str); 9] = [
        (Bug::TenantLimit, |book| limit_tenant(book, Some(12), None), "tenant t, queue None would hold 16"),
        (Bug::Running, |book| limit_tenant(book, Some(12), None), "tenant t, queue None would hold 16"),
        (Bug::Started, |book| limit_tenant(book, Some(12), None), "tenant t, queue None would hold 16"),
        (Bug::QueueLimit, |book| limit_queue(book, Some(4)), "would hold 8 GPUs of 4"),
        (Bug::JobsLimit, |book| limit_tenant(book, None, Some(2)), "3 jobs of tenant t would run, 2 may"),
        (Bug::ArrayLimit, one_at_once, "2 jobs of array t/a would run, 1 may"),
        (Bug::Licenses, license, "3 of 2 licenses l would be held"),
        (Bug::Started, license, "3 of 2 licenses l would be held"),
        (Bug::Reserved, reserve, "which is kept"),
    ];
    for (bug, rules, what) in plants {
        assert_eq!(found(None, rules), (1, Vec::new()), "{bug:?}: without it");
        let (_, breaches) = found(Some(bug), rules);
        assert!(breaches.iter().any(|breach| breach.contains(what)), "{bug:?}: {breaches:?}");
    }
    // Without any rule both start.
    assert_eq!(found(None, |_| ()), (2, Vec::new()));
}
