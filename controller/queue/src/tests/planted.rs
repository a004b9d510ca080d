//! A bug in the code that keeps limits and reservations is found by the check, which shares no code with it.

use std::sync::Arc;

use proto_model::{JobId, JobName, LicenseName, LongJobLimit, ReservationName};

use super::world::{at, cluster, job, node, nodes, queue, queue_state, secs, tenant, uid};
use crate::{
    Act, ArrayGroup, Budget, QueueDef, QueueState, ReservationDef, ReservedNodes, TenantDef,
    check::check,
    plant::{Bug, with},
};

/// What the check finds where one job runs on two of eight nodes, two of one node each wait, and the code has a bug;
/// with how many start.
fn found(bug: Option<Bug>, rules: fn(&mut QueueState)) -> (usize, Vec<String>) {
    let (mut queue_state, mut snapshot) = (queue_state(), cluster(&[8]));
    let mut placer = controller_scheduler::Placer::default();
    queue_state.set_job(uid(1), Some(Arc::new(job(1, nodes(2), 0, 100).entry)));
    let acts = queue_state.pass(&mut snapshot, &mut placer, at(0), Budget::ALL);
    let [Act::Start { placement, .. }] = &acts[..] else { panic!("{acts:?}") };
    snapshot.hold(&tenant("t"), placement);
    let running = queue_state.job(uid(1)).unwrap().running(Arc::new(placement.clone()), at(0));
    queue_state.set_job(uid(1), Some(Arc::new(running)));
    for number in [2, 3] {
        let mut entry = job(number, nodes(1), number, 50).entry;
        entry.queue = Some(queue("q"));
        let array = JobId { tenant: tenant("t"), name: JobName::new("a").unwrap() };
        entry.array = Some(ArrayGroup { array, at_once: 0 });
        queue_state.set_job(uid(number), Some(Arc::new(entry)));
    }
    limit_queue(&mut queue_state, None);
    rules(&mut queue_state);
    let acts = with(bug, || queue_state.pass(&mut snapshot, &mut placer, at(5), Budget::ALL));
    let starts = acts.iter().filter(|act| matches!(act, Act::Start { .. })).count();
    let breaches = check(&queue_state, &acts, at(5)).err().unwrap_or_default();
    (starts, breaches.iter().map(ToString::to_string).collect())
}

fn limit_tenant(queue_state: &mut QueueState, limit: Option<u32>, jobs: Option<u32>) {
    queue_state.set_tenant(&tenant("t"), Some(TenantDef { limit, jobs, ..TenantDef::default() }));
}

fn limit_queue(queue_state: &mut QueueState, limit: Option<u32>) {
    let def = QueueDef { limit, ..QueueDef::default() };
    queue_state.set_queue(&tenant("t"), &queue("q"), Some(def));
}

fn one_at_once(queue_state: &mut QueueState) {
    for number in [2, 3] {
        let mut entry = queue_state.job(uid(number)).unwrap().as_ref().clone();
        entry.array = entry.array.map(|group| ArrayGroup { at_once: 1, ..group });
        queue_state.set_job(uid(number), Some(Arc::new(entry)));
    }
}

/// One of two is left beside what the first job holds.
fn license(queue_state: &mut QueueState) {
    let name = LicenseName::new("l").unwrap();
    queue_state.set_license(&name, Some(2));
    for number in [1, 2, 3] {
        let mut entry = queue_state.job(uid(number)).unwrap().as_ref().clone();
        entry.licenses = [(name.clone(), 1)].into();
        queue_state.set_job(uid(number), Some(Arc::new(entry)));
    }
}

/// The first job is one, so that of the 12 GPUs 4 are left.
fn long_jobs(queue_state: &mut QueueState) {
    queue_state.policy.long_jobs = Some(LongJobLimit { length: secs(50), below_gpus: 16, gpus: 12 });
}

/// All nodes but one that the first job does not have.
fn reserve(queue_state: &mut QueueState) {
    let def = ReservationDef {
        nodes: ReservedNodes::Names((0..7).map(node).collect()),
        start: at(1),
        duration: secs(1000),
        tenants: [tenant("u")].into(),
        maintenance: false,
        reason: String::new(),
    };
    queue_state.set_reservation(&ReservationName::new("r").unwrap(), Some(def));
}

#[test]
fn the_check_finds_a_bug_in_the_code_itself() {
    type Rules = fn(&mut QueueState);
    let plants: [(Bug, Rules, &str); 12] = [
        (
            Bug::TenantLimit,
            |queue_state| limit_tenant(queue_state, Some(12), None),
            "tenant t, queue None would hold 16",
        ),
        (
            Bug::Running,
            |queue_state| limit_tenant(queue_state, Some(12), None),
            "tenant t, queue None would hold 16",
        ),
        (
            Bug::Started,
            |queue_state| limit_tenant(queue_state, Some(12), None),
            "tenant t, queue None would hold 16",
        ),
        (Bug::QueueLimit, |queue_state| limit_queue(queue_state, Some(4)), "would hold 8 GPUs of 4"),
        (
            Bug::JobsLimit,
            |queue_state| limit_tenant(queue_state, None, Some(2)),
            "3 jobs of tenant t would run, 2 may",
        ),
        (Bug::ArrayLimit, one_at_once, "2 jobs of array t/a would run, 1 may"),
        (Bug::Licenses, license, "3 of 2 licenses l would be held"),
        (Bug::Started, license, "3 of 2 licenses l would be held"),
        (Bug::LongJobs, long_jobs, "long jobs would hold 16 GPUs of 12"),
        (Bug::Running, long_jobs, "long jobs would hold 16 GPUs of 12"),
        (Bug::Started, long_jobs, "long jobs would hold 16 GPUs of 12"),
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
