//! Jobs that yield within a limit, and elastic jobs that change their size.

use proto_model::{Reason, ReasonCode, Within};

use super::world::{at, cluster, job, job_of, nodes, policy, queue, queue_state, secs, tenant, uid};
use crate::{
    Policy, QueueDef, QueueState, TenantDef,
    trial::{Trial, TrialJob},
};

fn starts(trial: &Trial, number: u64) -> Vec<u64> {
    trial.rows[&uid(number)].starts.iter().map(|time| time.0 / 1000).collect()
}

fn low(mut job: TrialJob) -> TrialJob {
    job.entry.priority = -10;
    job.entry.preemption.preemptible = true;
    job
}

fn high(mut job: TrialJob) -> TrialJob {
    job.entry.priority = 100;
    job
}

fn limited(gpus: u32) -> QueueState {
    let mut queue_state = queue_state();
    queue_state.set_tenant(&tenant("t"), Some(TenantDef { limit: Some(gpus), ..TenantDef::default() }));
    queue_state.set_tenant(&tenant("u"), Some(TenantDef::default()));
    queue_state
}

/// Whichever the limit: nodes of four GPUs are free beside it, or they are not.
#[test]
fn a_tenant_at_its_limit_stops_its_own_job_of_lower_priority() {
    for limit in [8, 16] {
        let mut jobs = vec![low(job(1, nodes(limit / 4), 0, 500)), high(job(2, nodes(2), 50, 20))];
        jobs[0].entry.grace = secs(7);
        let mut trial = Trial::new(limited(limit), cluster(&[4]));
        trial.run(&jobs);
        assert_eq!((starts(&trial, 1), starts(&trial, 2)), (vec![0, 77], vec![57]), "limit {limit}");
        assert_eq!(trial.faults, Vec::<String>::new());
    }
}

/// A job of another tenant that is cheaper to stop frees nothing of the limit.
#[test]
fn only_those_who_fill_the_limit_are_stopped_for_it() {
    let jobs = vec![
        low(job(1, nodes(1), 0, 500)),
        low(job(2, nodes(1), 1, 500)),
        low(job_of("u", 3, nodes(1), 90, 500)),
        high(job(4, nodes(1), 100, 20)),
    ];
    let mut trial = Trial::new(limited(8), cluster(&[8]));
    trial.run(&jobs);
    // The younger of the two has lost less.
    assert_eq!(starts(&trial, 2), [1, 120]);
    assert_eq!((starts(&trial, 1), starts(&trial, 3), starts(&trial, 4)), (vec![0], vec![90], vec![100]));
    assert_eq!(trial.faults, Vec::<String>::new());
}

/// Limit and room are both missing: the own job frees the limit, another one of another tenant its node.
#[test]
fn a_limit_and_a_place_are_made_room_in_together() {
    let jobs = vec![
        low(job(1, nodes(1), 0, 500)),
        low(job_of("u", 2, nodes(2), 1, 500)),
        job_of("u", 3, nodes(1), 2, 500),
        high(job(4, nodes(2), 100, 20)),
    ];
    let mut trial = Trial::new(limited(8), cluster(&[4]));
    trial.run(&jobs);
    assert_eq!(starts(&trial, 4), [100]);
    assert_eq!((starts(&trial, 1).len(), starts(&trial, 2).len(), starts(&trial, 3).len()), (2, 2, 1));
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn a_queue_at_its_limit_stops_its_own_jobs_and_not_those_of_its_siblings() {
    let mut queue_state = limited(32);
    let def = |limit, parent: Option<&str>| QueueDef {
        parent: parent.map(queue),
        guaranteed: proto_model::Shape::default(),
        limit,
        ..QueueDef::default()
    };
    queue_state.set_queue(&tenant("t"), &queue("top"), Some(def(Some(8), None)));
    queue_state.set_queue(&tenant("t"), &queue("sub"), Some(def(None, Some("top"))));
    queue_state.set_queue(&tenant("t"), &queue("side"), Some(def(None, None)));
    let mut jobs =
        vec![low(job(1, nodes(2), 0, 500)), low(job(2, nodes(2), 90, 500)), high(job(3, nodes(1), 100, 20))];
    for (job, name) in jobs.iter_mut().zip(["sub", "side", "top"]) {
        job.entry.queue = Some(queue(name));
    }
    let mut trial = Trial::new(queue_state, cluster(&[8]));
    trial.run(&jobs);
    assert_eq!(
        (starts(&trial, 1), starts(&trial, 2), starts(&trial, 3)),
        (vec![0, 120], vec![90], vec![100])
    );
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn nobody_is_stopped_for_a_limit_that_stays_too_small() {
    let mut own = job(1, nodes(1), 0, 500);
    own.entry.preemption.preemptible = false;
    let jobs = vec![
        own,
        low(job(2, nodes(1), 1, 500)),
        low(job_of("u", 3, nodes(2), 2, 500)),
        high(job(4, nodes(2), 100, 20)),
    ];
    let mut trial = Trial::new(limited(8), cluster(&[4]));
    trial.run(&jobs);
    assert_eq!(starts(&trial, 2).len() + starts(&trial, 3).len(), 2);
    assert_eq!(starts(&trial, 4)[0] / 100, 5);
    assert_eq!(trial.faults, Vec::<String>::new());
}

fn elastic(number: u64, least: u32, most: u32, submitted: u64, length: u64) -> TrialJob {
    let mut job = job(number, nodes(most), submitted, length);
    job.entry.min_nodes = least;
    job
}

fn resizing(after: u64) -> QueueState {
    let mut queue_state = QueueState::new(Policy { grow_after: Some(secs(after)), ..policy() });
    queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
    queue_state.set_tenant(&tenant("u"), Some(TenantDef::default()));
    queue_state
}

fn held(trial: &Trial, number: u64) -> u32 {
    trial.queue_state.job(uid(number)).unwrap().nodes_held()
}

/// It is not preemptible; but what it does not need it gives up.
#[test]
fn an_elastic_job_gives_up_what_it_does_not_need_for_one_of_equal_priority() {
    let mut stretched = elastic(1, 2, 8, 0, 10_000);
    stretched.entry.grace = secs(5);
    let jobs = [stretched, job(2, nodes(3), 10, 500), job(3, nodes(4), 11, 500)];
    let mut trial = Trial::new(resizing(100), cluster(&[8]));
    trial.run_until(&jobs, at(99));
    assert_eq!((starts(&trial, 2), held(&trial, 1)), (vec![], 8));
    trial.run_until(&[], at(105));
    assert_eq!((starts(&trial, 1), starts(&trial, 2)), (vec![0, 105], vec![105]));
    assert_eq!(held(&trial, 1), 5, "no more than it was let keep");
    // The next one would leave it less than it needs.
    trial.run_until(&[], at(400));
    assert_eq!((starts(&trial, 1).len(), starts(&trial, 3)), (2, vec![]));
    trial.run_until(&[], at(610));
    assert_eq!((starts(&trial, 3), held(&trial, 1)), (vec![610], 4));
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn a_job_grows_beside_jobs_that_could_not_use_the_room() {
    let mut held_back = job(3, nodes(1), 1, 10);
    held_back.entry.hold = vec![Reason::new(ReasonCode::from_text("DependencyPending"), "waits for ever")];
    let large = job(4, nodes(9), 1, 10);
    let mut first = job(1, nodes(6), 0, 50);
    first.entry.priority = 1;
    let jobs = [first, elastic(2, 2, 8, 0, 10_000), held_back, large];
    let mut trial = Trial::new(resizing(20), cluster(&[8]));
    trial.run_until(&jobs, at(49));
    assert_eq!(held(&trial, 2), 2);
    trial.run_until(&[], at(50));
    assert_eq!((held(&trial, 2), starts(&trial, 2)), (8, vec![0, 50]));
    trial.run_until(&[], at(5_000));
    assert_eq!(starts(&trial, 2).len(), 2, "once is enough");
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn a_job_grows_no_further_than_its_limit_and_its_place() {
    let mut queue_state = resizing(20);
    queue_state.set_tenant(&tenant("t"), Some(TenantDef { limit: Some(16), ..TenantDef::default() }));
    let mut trial = Trial::new(queue_state, cluster(&[8]));
    let first = job_of("u", 1, nodes(5), 0, 50);
    trial.run_until(&[first.clone(), elastic(2, 1, 8, 0, 10_000)], at(1_000));
    assert_eq!((held(&trial, 2), starts(&trial, 2).len()), (4, 2));
    let mut within = elastic(2, 1, 8, 0, 10_000);
    within.entry.need.within = Within::Pod;
    let mut trial = Trial::new(resizing(20), cluster(&[3, 3, 3]));
    trial.run_until(&[first, within], at(1_000));
    assert_eq!((held(&trial, 2), starts(&trial, 2).len()), (3, 1));
    assert_eq!(trial.faults, Vec::<String>::new());
}
