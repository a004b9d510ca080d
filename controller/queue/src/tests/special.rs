//! Preemption, reservations, arrays, elastic jobs, times; and faults that the check must find.

use std::sync::Arc;

use proto_model::{JobId, JobName, Reason, ReasonCode, ReservationName, Timestamp, Within};

use super::world::{
    at, cluster, job, job_of, node, nodes, part, policy, queue, queue_state, secs, tenant, uid,
};
use crate::{
    Act, ArrayGroup, Budget, Entry, Policy, QueueDef, QueueState, ReservationDef, ReservedNodes, TenantDef,
    WaitCause,
    check::{Breach, check},
    price,
    trial::{Trial, TrialJob},
};

fn starts(trial: &Trial, number: u64) -> Vec<u64> {
    trial.rows[&uid(number)].starts.iter().map(|time| time.0 / 1000).collect()
}

fn run(trial: &mut Trial, jobs: &[TrialJob]) {
    trial.run(jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
}

fn codes(trial: &Trial, number: u64) -> Vec<ReasonCode> {
    trial
        .queue_state
        .seen(uid(number))
        .map_or(Vec::new(), |why| why.causes.iter().map(WaitCause::code).collect())
}

fn low(mut job: TrialJob) -> TrialJob {
    job.entry.priority = -1;
    job.entry.preemption.preemptible = true;
    job
}

fn high(mut job: TrialJob) -> TrialJob {
    job.entry.priority = 5;
    job
}

#[test]
fn the_cheapest_jobs_that_help_are_stopped_with_their_grace() {
    let mut jobs: Vec<TrialJob> = (1..=4).map(|number| low(job(number, nodes(2), number, 500))).collect();
    for job in &mut jobs {
        job.entry.grace = secs(7);
    }
    // The youngest has lost least; the second saves its work every second.
    jobs[1].entry.preemption.checkpoint_every = Some(secs(1));
    // Stopped for nobody: it is worth as much as the one that waits.
    jobs[3].entry.preemption.preemptible = false;
    jobs.push(high(job(5, nodes(3), 100, 50)));
    let mut trial = Trial::new(queue_state(), cluster(&[8]));
    trial.run_until(&jobs, at(100));
    assert_eq!(codes(&trial, 5), [ReasonCode::GangCapacity, ReasonCode::PreemptionUnderWay]);
    let mut trial = Trial::new(queue_state(), cluster(&[8]));
    run(&mut trial, &jobs);
    assert_eq!(starts(&trial, 5), [107]);
    let stopped: Vec<u64> = (1..=4).filter(|number| starts(&trial, *number).len() > 1).collect();
    assert_eq!(stopped, [2, 3]);
}

#[test]
fn nobody_is_stopped_where_that_would_not_help() {
    let mut pod = nodes(4);
    pod.within = Within::Pod;
    let mut jobs =
        vec![low(job(1, nodes(2), 0, 300)), job(2, nodes(2), 0, 300), low(job(3, nodes(2), 0, 300))];
    jobs.push(job(4, nodes(2), 0, 300));
    // Both pods keep two nodes that nobody may take.
    jobs.push(high(job(5, pod, 10, 10)));
    let mut trial = Trial::new(queue_state(), cluster(&[4, 4]));
    run(&mut trial, &jobs);
    let more: usize = (1..=4).map(|number| starts(&trial, number).len()).sum();
    // If pods hold one of each kind nobody helps; if the best fit has put both low ones together they do.
    assert!(more == 4 || starts(&trial, 5) == [10]);
}

#[test]
fn a_job_is_stopped_so_often_and_no_more() {
    let mut jobs = vec![low(job(1, nodes(4), 0, 100))];
    jobs.extend((0..20).map(|number| high(job(number + 2, nodes(4), 10 + number * 20, 5))));
    let mut queue_state = QueueState::new(Policy { preemptions_max: 3, ..policy() });
    queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
    let mut trial = Trial::new(queue_state, cluster(&[4]));
    run(&mut trial, &jobs);
    assert_eq!(starts(&trial, 1).len(), 4);
}

#[test]
fn a_price_is_what_is_lost_and_what_a_restart_costs() {
    let placement = {
        let mut trial = Trial::new(queue_state(), cluster(&[2]));
        trial.run_until(&[job(1, nodes(2), 0, 1000)], at(0));
        trial.queue_state.job(uid(1)).unwrap().run().unwrap().placement.clone()
    };
    let mut entry = job(1, nodes(2), 0, 1000).entry.running(placement, at(0));
    let gpus = 8;
    assert_eq!(price(&entry, at(100)), 100 * gpus + 8);
    entry.preemption.checkpoint_every = Some(secs(30));
    assert_eq!(price(&entry, at(100)), 30 * gpus + 8);
    entry.preemption.restart_cost = Some(secs(60));
    assert_eq!(price(&entry, at(100)), 90 * gpus + 8);
    if let crate::State::Running(run) = &mut entry.state {
        run.saved = Some(at(95));
    }
    assert_eq!(price(&entry, at(100)), 65 * gpus + 8);
}

fn reservation(name: &str) -> ReservationName {
    ReservationName::new(name).unwrap()
}

fn window(nodes: ReservedNodes, start: u64, length: u64, who: &[&str]) -> ReservationDef {
    ReservationDef {
        nodes,
        start: at(start),
        duration: secs(length),
        tenants: who.iter().map(|name| tenant(name)).collect(),
        maintenance: who.is_empty(),
        reason: "new firmware".to_owned(),
    }
}

#[test]
fn nobody_runs_into_a_maintenance() {
    let mut queue_state = queue_state();
    let names = (0..2).map(node).collect();
    queue_state.set_reservation(&reservation("m"), Some(window(ReservedNodes::Names(names), 100, 50, &[])));
    let jobs = [
        job(1, nodes(4), 0, 99),
        job(2, nodes(2), 99, 500),
        job(3, nodes(1), 101, 500),
        job(4, nodes(1), 102, 10),
    ];
    let mut trial = Trial::new(queue_state, cluster(&[4]));
    trial.run_until(&jobs, at(102));
    assert!(codes(&trial, 3).contains(&ReasonCode::ReservationInTheWay), "{:?}", codes(&trial, 3));
    assert!(trial.queue_state.why(uid(3)).iter().any(|reason| reason.message.contains("new firmware")));
    let names: std::collections::BTreeSet<String> = trial
        .queue_state
        .job(uid(2))
        .unwrap()
        .run()
        .unwrap()
        .placement
        .nodes
        .iter()
        .map(|n| n.node.to_string())
        .collect();
    assert!(!names.contains("n0000") && !names.contains("n0001"));
    trial.run(&[]);
    assert_eq!((starts(&trial, 3), starts(&trial, 4)), (vec![150], vec![150]));
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn a_reservation_is_for_its_tenants_jobs_that_name_it() {
    let mut queue_state = queue_state();
    queue_state.set_tenant(&tenant("u"), Some(TenantDef::default()));
    let count = ReservedNodes::Count { nodes: 3, pods_at_most: 1 };
    queue_state.set_reservation(&reservation("r"), Some(window(count, 50, 100, &["t"])));
    let mut jobs = vec![
        job(1, nodes(3), 0, 40),
        job_of("u", 2, nodes(3), 0, 20),
        job(3, nodes(6), 10, 200),
        job(4, nodes(3), 11, 30),
    ];
    jobs[0].entry.reservation = Some(reservation("r"));
    jobs[1].entry.reservation = Some(reservation("r"));
    jobs[3].entry.reservation = Some(reservation("none"));
    let mut trial = Trial::new(queue_state, cluster(&[3, 4]));
    trial.run_until(&jobs, at(20));
    assert_eq!(codes(&trial, 1), [ReasonCode::ReservationNotBegun]);
    assert_eq!(trial.queue_state.eta(uid(1)).unwrap().start, at(50));
    assert_eq!(codes(&trial, 2), [ReasonCode::ReservationClosed]);
    assert_eq!(codes(&trial, 4), [ReasonCode::ReservationUnknown]);
    trial.run(&[]);
    assert_eq!(starts(&trial, 1), [50]);
    assert_eq!(starts(&trial, 3), [150]);
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn arrays_run_so_many_at_a_time() {
    let array = JobId { tenant: tenant("t"), name: JobName::new("many").unwrap() };
    let mut jobs: Vec<TrialJob> = (1..=9).map(|number| job(number, nodes(1), 0, 10)).collect();
    for job in &mut jobs {
        job.entry.array = Some(ArrayGroup { array: array.clone(), at_once: 3 });
    }
    let mut trial = Trial::new(queue_state(), cluster(&[8]));
    trial.run_until(&jobs, at(5));
    assert_eq!(codes(&trial, 4), [ReasonCode::ArrayLimit]);
    assert_eq!(trial.queue_state.eta(uid(4)).map(|eta| eta.start), Some(at(10)));
    trial.run(&[]);
    let all: Vec<u64> = (1..=9).flat_map(|number| starts(&trial, number)).collect();
    assert_eq!(all, [0, 0, 0, 10, 10, 10, 20, 20, 20]);
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn an_elastic_job_starts_with_what_there_is_shrinks_for_others_and_grows_again() {
    let mut elastic = low(job(2, nodes(8), 1, 400));
    elastic.entry.min_nodes = 2;
    let jobs = [job(1, nodes(3), 0, 50), elastic, high(job(3, nodes(4), 100, 50))];
    let mut queue_state = QueueState::new(Policy { grow_after: Some(secs(20)), ..policy() });
    queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
    let mut trial = Trial::new(queue_state, cluster(&[8]));
    trial.run_until(&jobs, at(1));
    assert_eq!(trial.queue_state.job(uid(2)).unwrap().nodes_held(), 5);
    trial.run_until(&[], at(60));
    assert_eq!(trial.queue_state.job(uid(2)).unwrap().nodes_held(), 8);
    let mut rest = Trial::new(trial.queue_state.clone(), trial.snapshot.clone());
    std::mem::swap(&mut rest, &mut trial);
    let mut trial = rest;
    trial.run_until(&jobs[2..], at(100));
    assert_eq!(starts(&trial, 3), [100]);
    assert_eq!(trial.queue_state.job(uid(2)).unwrap().nodes_held(), 4);
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn times_and_holds_are_kept_and_told() {
    let mut jobs = vec![job(1, nodes(1), 0, 30), job(2, nodes(1), 0, 10), job(3, nodes(1), 0, 10)];
    jobs[1].entry.not_before = Some(at(25));
    jobs[2].entry.hold = vec![Reason::new(ReasonCode::from_text("DependencyPending"), "waits for job 1")];
    jobs[2].entry.after = vec![uid(1)];
    let mut trial = Trial::new(queue_state(), cluster(&[4]));
    trial.run_until(&jobs, at(1));
    assert_eq!(codes(&trial, 2), [ReasonCode::NotBefore]);
    assert_eq!(trial.queue_state.why(uid(3))[0].code, ReasonCode::from_text("DependencyPending"));
    assert_eq!(trial.queue_state.eta(uid(2)).unwrap().start.0 / 1000, 25);
    assert_eq!(trial.queue_state.eta(uid(3)).unwrap().start.0 / 1000, 30);
    trial.run(&[]);
    assert_eq!(starts(&trial, 2), [25]);
    assert!(starts(&trial, 3).is_empty());
}

#[test]
fn a_queue_below_its_guarantee_takes_back_what_its_sibling_borrowed() {
    let mut queue_state = queue_state();
    let def = |nodes| QueueDef {
        guaranteed: proto_model::Shape { pods: 0, nodes, gpus: 0 },
        ..QueueDef::default()
    };
    queue_state.set_queue(&tenant("t"), &queue("a"), Some(def(2)));
    queue_state.set_queue(&tenant("t"), &queue("b"), Some(def(2)));
    let mut jobs: Vec<TrialJob> = (1..=6).map(|number| job(number, nodes(1), number, 500)).collect();
    for (at, job) in jobs.iter_mut().enumerate() {
        job.entry.queue = Some(queue(if at < 4 { "a" } else { "b" }));
        job.entry.submitted = super::world::at(if at < 4 { 0 } else { 10 * at as u64 });
    }
    let mut trial = Trial::new(queue_state, cluster(&[4]));
    trial.run_until(&jobs, at(60));
    assert_eq!((starts(&trial, 5), starts(&trial, 6)), (vec![40], vec![50]));
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn spares_count_and_exclusive_jobs_are_alone() {
    let mut alone = part(1);
    alone.exclusive = true;
    let mut spared = nodes(2);
    spared.spares = 1;
    let jobs = [job(1, spared, 0, 50), job(2, alone, 1, 50), job(3, part(1), 2, 10), job(4, nodes(1), 3, 10)];
    let mut trial = Trial::new(queue_state(), cluster(&[4]));
    run(&mut trial, &jobs);
    assert_eq!(starts(&trial, 1), [0]);
    assert_eq!(starts(&trial, 2), [1]);
    assert_eq!(starts(&trial, 3)[0], 50);
}

/// A book where the pass is right, with the acts of that pass.
fn right() -> (QueueState, Vec<Act>) {
    let mut queue_state = queue_state();
    queue_state
        .set_tenant(&tenant("t"), Some(TenantDef { limit: Some(16), jobs: Some(4), ..TenantDef::default() }));
    for number in 1..=3 {
        let job = job(number, nodes(2), 0, 100);
        queue_state.set_job(uid(number), Some(Arc::new(job.entry)));
    }
    let mut snapshot = cluster(&[8]);
    let mut placer = controller_scheduler::Placer::default();
    let acts = queue_state.pass(&mut snapshot, &mut placer, at(1), Budget::ALL);
    assert_eq!(acts.len(), 2);
    assert_eq!(check(&queue_state, &acts, at(1)), Ok(()));
    (queue_state, acts)
}

#[test]
fn the_check_finds_planted_faults() {
    let (mut queue_state, acts) = right();
    // A quota that the pass did not look at: as if limits were read as twice what they are.
    queue_state.set_tenant(&tenant("t"), Some(TenantDef { limit: Some(15), ..TenantDef::default() }));
    assert!(matches!(
        check(&queue_state, &acts, at(1)).unwrap_err()[..],
        [Breach::Limit { held: 16, limit: 15, .. }]
    ));
    queue_state.set_tenant(&tenant("t"), Some(TenantDef { jobs: Some(1), ..TenantDef::default() }));
    assert!(matches!(
        check(&queue_state, &acts, at(1)).unwrap_err()[..],
        [Breach::Count { running: 2, limit: 1, .. }]
    ));
    queue_state.set_tenant(&tenant("t"), None);
    assert!(check(&queue_state, &acts, at(1)).unwrap_err().contains(&Breach::Homeless(uid(1))));
    let (queue_state, acts) = right();
    // As if the third had been forgotten to be counted.
    let Act::Start { placement, .. } = &acts[0] else { panic!() };
    let mut more = acts.clone();
    more.push(Act::Start { uid: uid(3), placement: placement.clone() });
    assert!(matches!(check(&queue_state, &more, at(1)).unwrap_err()[..], [Breach::Limit { held: 24, .. }]));
    let twice = vec![acts[0].clone(), acts[0].clone()];
    assert!(check(&queue_state, &twice, at(1)).unwrap_err().contains(&Breach::Twice(uid(1))));
    let unjust =
        vec![Act::Preempt { victim: uid(1), by: uid(3), grace: secs(0), signal: 15, reasons: Vec::new() }];
    assert!(check(&queue_state, &unjust, at(1)).unwrap_err().contains(&Breach::NotRunning(uid(1))));
}

#[test]
fn the_check_finds_stopped_jobs_that_nobody_had_a_claim_on() {
    let (mut queue_state, acts) = right();
    let Act::Start { placement, .. } = &acts[0] else { panic!() };
    let entry = queue_state.job(uid(1)).unwrap().running(Arc::new(placement.clone()), at(1));
    queue_state.set_job(uid(1), Some(Arc::new(entry)));
    let stop = |by| {
        vec![Act::Preempt { victim: uid(1), by: uid(by), grace: secs(0), signal: 15, reasons: Vec::new() }]
    };
    assert_eq!(
        check(&queue_state, &stop(3), at(1)).unwrap_err(),
        [Breach::Unjust { victim: uid(1), by: uid(3) }]
    );
}

#[test]
fn absurd_jobs_break_nothing() {
    let mut queue_state = queue_state();
    let mut odd: Vec<Entry> = Vec::new();
    for (number, count, gpus) in [(1, 0, 4), (2, u32::MAX, u32::MAX), (3, 1, 65), (4, 3, 0), (5, 1, 0)] {
        let mut need = nodes(count);
        need.gpus = gpus;
        odd.push(job(number, need, 0, 0).entry);
    }
    odd.push(Entry { limit: Some(std::time::Duration::MAX), ..job(6, nodes(2), 0, 1).entry });
    odd.push(Entry { not_before: Some(Timestamp(u64::MAX)), ..job(7, nodes(2), 0, 1).entry });
    odd.push(Entry { min_nodes: 9, ..job(8, nodes(2), 0, 1).entry });
    for entry in odd {
        queue_state.set_job(entry.uid, Some(Arc::new(entry)));
    }
    queue_state.set_reservation(
        &reservation("odd"),
        Some(window(ReservedNodes::Count { nodes: u32::MAX, pods_at_most: 1 }, 50, u64::MAX / 2000, &["t"])),
    );
    let mut placer = controller_scheduler::Placer::default();
    for mut snapshot in [cluster(&[2]), cluster(&[]), cluster(&[1, 1, 1])] {
        let acts = queue_state.pass(&mut snapshot, &mut placer, at(1), Budget::ALL);
        assert_eq!(check(&queue_state, &acts, at(1)), Ok(()));
        queue_state.forecast(&mut snapshot, &mut placer, at(2));
    }
}
