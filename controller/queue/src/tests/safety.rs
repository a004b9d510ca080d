//! A tenant never waits longer than it would alone in a cluster of its guarantee.

use std::collections::BTreeMap;

use proto_model::{Shape, TenantName};
use proto_random::Random;

use super::world::{at, cluster, job_of, nodes, part, policy, secs, tenant, uid};
use crate::{
    Policy, QueueState, TenantDef,
    trial::{Trial, TrialJob},
};

fn shape(pods: u32, nodes: u32, gpus: u32) -> Shape {
    Shape { pods, nodes, gpus }
}

fn shared(shapes: &[(&str, Shape)]) -> QueueState {
    let mut queue_state = QueueState::new(policy());
    for (name, guaranteed) in shapes {
        queue_state
            .set_tenant(&tenant(name), Some(TenantDef { guaranteed: *guaranteed, ..TenantDef::default() }));
    }
    queue_state
}

/// Each tenant's jobs alone in a cluster of its guarantee.
fn alone(trial: &Trial, who: &TenantName, jobs: &[TrialJob]) -> Option<Trial> {
    let site = trial.queue_state.site(who)?;
    let mut queue_state = QueueState::new(Policy { reclaim: false, grow_after: None, ..policy() });
    queue_state.set_tenant(who, Some(TenantDef::default()));
    let own: Vec<TrialJob> = jobs.iter().filter(|job| job.entry.id.tenant == *who).cloned().collect();
    let mut alone = Trial::new(queue_state, site.cluster());
    alone.run(&own);
    Some(alone)
}

/// Jobs that started later than alone, with the times.
fn anomalies(trial: &Trial, jobs: &[TrialJob]) -> Vec<String> {
    let tenants: BTreeMap<TenantName, ()> =
        jobs.iter().map(|job| (job.entry.id.tenant.clone(), ())).collect();
    let mut found = Vec::new();
    for (who, ()) in tenants {
        let Some(alone) = alone(trial, &who, jobs) else { continue };
        assert_eq!(alone.faults, Vec::<String>::new());
        for (uid, row) in &alone.rows {
            let Some(private) = row.starts.first() else { continue };
            let real = trial.rows[uid].starts.first();
            if real.is_none_or(|real| real > private) {
                found.push(format!("{who} {uid}: {real:?} in place of {private}"));
            }
        }
    }
    found
}

fn random(seed: u64, whole: bool) -> Vec<TrialJob> {
    let mut dice = Random::new(seed);
    let mut now = 0;
    (0..60)
        .map(|number| {
            now += dice.below(20);
            let who = ["a", "b", "c"][dice.below(3) as usize];
            let mut need = if !whole && dice.below(3) == 0 {
                part(1 + dice.below(3) as u32)
            } else {
                let most = if dice.below(6) == 0 { 6 } else { 3 };
                nodes(1 + dice.below(most) as u32)
            };
            if dice.below(6) == 0 {
                need.within = proto_model::Within::Pod;
            }
            let mut job = job_of(who, number + 1, need, now, 1 + dice.below(200));
            if dice.below(2) == 0 {
                job.length /= 1 + dice.below(3) as u32;
            }
            job.entry.priority = [0, 0, 0, 5, -5][dice.below(5) as usize];
            job.entry.preemption.preemptible = dice.below(3) == 0;
            job
        })
        .collect()
}

#[test]
fn a_borrower_yields_to_a_guarantee_and_starts_again() {
    let mut trial = Trial::new(shared(&[("a", shape(0, 2, 0)), ("b", shape(0, 2, 0))]), cluster(&[4]));
    let jobs =
        [job_of("a", 1, nodes(4), 0, 100), job_of("b", 2, nodes(2), 10, 50), job_of("a", 3, nodes(1), 12, 5)];
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    let starts = |number| trial.rows[&uid(number)].starts.clone();
    assert_eq!(starts(2), [at(10)]);
    assert_eq!(starts(1), [at(0), at(60)]);
    assert_eq!(starts(3), [at(12)]);
    assert_eq!(anomalies(&trial, &jobs), Vec::<String>::new());
}

#[test]
fn a_right_begins_where_the_job_runs_already() {
    // Tenant a's second job borrows; when the first ends its right begins, and it is not moved.
    let mut trial = Trial::new(shared(&[("a", shape(0, 2, 0)), ("b", shape(0, 2, 0))]), cluster(&[4]));
    let jobs =
        [job_of("a", 1, nodes(2), 0, 50), job_of("a", 2, nodes(2), 1, 200), job_of("b", 3, nodes(2), 60, 50)];
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    let starts = |number| trial.rows[&uid(number)].starts.clone();
    assert_eq!((starts(1), starts(2), starts(3)), (vec![at(0)], vec![at(1)], vec![at(60)]));
}

#[test]
fn the_cheapest_borrower_yields() {
    let mut trial = Trial::new(shared(&[("a", shape(0, 1, 0)), ("c", shape(0, 0, 0))]), cluster(&[4]));
    let mut jobs: Vec<TrialJob> =
        (1..=4).map(|number| job_of("c", number, nodes(1), number * 10, 1000)).collect();
    // The first has run longest, but has just saved its work.
    jobs[0].entry.preemption.checkpoint_every = Some(secs(1));
    jobs.push(job_of("a", 5, nodes(1), 100, 10));
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    let stopped: Vec<u64> = (1..=4).filter(|number| trial.rows[&uid(*number)].starts.len() > 1).collect();
    assert_eq!(stopped, [1]);
    assert_eq!(trial.rows[&uid(5)].starts, [at(100)]);
}

#[test]
fn nobody_waits_longer_than_alone() {
    let (seeds, mut all) = (150, Vec::new());
    for seed in 0..seeds {
        let mut dice = Random::new(seed + 99);
        let shapes = match dice.below(4) {
            0 => [("a", shape(1, 0, 0)), ("b", shape(0, 4, 0)), ("c", shape(0, 2, 0))],
            1 => [("a", shape(1, 1, 0)), ("b", shape(1, 0, 0)), ("c", shape(0, 0, 0))],
            2 => [("a", shape(0, 3, 2)), ("b", shape(0, 2, 1)), ("c", shape(1, 0, 0))],
            _ => [("a", shape(0, 5, 0)), ("b", shape(0, 5, 0)), ("c", shape(0, 2, 0))],
        };
        let jobs = random(seed, dice.below(2) == 0);
        let mut trial = Trial::new(shared(&shapes), cluster(&[4, 4, 4]));
        trial.run(&jobs);
        let found: Vec<String> = trial.faults.iter().cloned().chain(anomalies(&trial, &jobs)).collect();
        if !found.is_empty() {
            all.push(format!("seed {seed} {shapes:?}: {found:?}"));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
