//! Licenses: never more than there are, planned as nodes are, and told as causes.

use std::collections::{BTreeMap, BTreeSet};

use controller_scheduler::Placer;
use proto_model::{Backfill, JobUid, LicenseName, Shape, Timestamp};
use proto_random::Random;

use super::world::{at, cluster, job, job_of, nodes, part, policy, queue_state, secs, tenant, uid};
use crate::{
    Budget, LicenseUse, Policy, QueueState, ReservationDef, ReservedNodes, TenantDef,
    trial::{Trial, TrialJob},
};

fn name(text: &str) -> LicenseName {
    LicenseName::new(text).unwrap()
}

fn with(licenses: &[(&str, u32)], mut job: TrialJob) -> TrialJob {
    job.entry.licenses = licenses.iter().map(|(text, count)| (name(text), *count)).collect();
    job
}

fn licensed(mut queue_state: QueueState, totals: &[(&str, u32)]) -> QueueState {
    for (text, total) in totals {
        queue_state.set_license(&name(text), Some(*total));
    }
    queue_state
}

fn starts(trial: &Trial, number: u64) -> Vec<Timestamp> {
    trial.rows[&uid(number)].starts.clone()
}

fn messages(queue_state: &QueueState, number: u64) -> Vec<String> {
    queue_state.why(uid(number)).iter().map(|reason| format!("{}: {}", reason.code, reason.message)).collect()
}

#[test]
fn a_job_waits_for_a_license_that_another_tenants_job_holds_and_others_pass() {
    let mut queue_state = licensed(queue_state(), &[("matlab", 4)]);
    queue_state.set_tenant(&tenant("u"), Some(TenantDef::default()));
    let mut trial = Trial::new(queue_state, cluster(&[4]));
    let jobs = [
        with(&[("matlab", 3)], job_of("u", 1, nodes(1), 0, 100)),
        with(&[("matlab", 2)], job(2, nodes(1), 1, 50)),
        with(&[("matlab", 3)], job(3, nodes(1), 2, 50)),
        with(&[("matlab", 1)], job(4, nodes(1), 3, 200)),
        job(5, nodes(1), 4, 300),
    ];
    trial.run_until(&jobs[..2], at(1));
    assert_eq!(
        messages(&trial.queue_state, 2),
        ["License: license matlab: 3 of 4 in use, the job asks for 2"]
    );
    let reason = &trial.queue_state.why(uid(2))[0];
    assert_eq!((reason.scope.as_str(), reason.count), ("license/matlab", 1));
    assert_eq!(trial.queue_state.eta(uid(2)).unwrap().planned, Some(at(100)));
    trial.run_until(&jobs[2..], at(4));
    let used = trial.queue_state.license_use(&name("matlab"));
    assert_eq!(used, LicenseUse { held: 4, running: 2, waiting: 2 });
    trial.run(&[]);
    assert_eq!(trial.faults, Vec::<String>::new());
    let first: Vec<Timestamp> = (1..=5).map(|number| starts(&trial, number)[0]).collect();
    assert_eq!(first, [at(0), at(100), at(150), at(3), at(4)]);
}

#[test]
fn a_smaller_job_passes_only_if_it_gives_back_what_it_holds_in_time() {
    for backfill in [Backfill::Conservative, Backfill::Easy] {
        let mut queue_state = licensed(QueueState::new(Policy { backfill, ..policy() }), &[("l", 4)]);
        queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
        let mut trial = Trial::new(queue_state, cluster(&[8]));
        let jobs = [
            with(&[("l", 3)], job(1, nodes(1), 0, 100)),
            with(&[("l", 4)], job(2, nodes(1), 1, 50)),
            with(&[("l", 1)], job(3, nodes(1), 2, 200)),
            with(&[("l", 1)], job(4, nodes(1), 3, 90)),
        ];
        trial.run(&jobs);
        assert_eq!(trial.faults, Vec::<String>::new());
        let first: Vec<Timestamp> = (1..=4).map(|number| starts(&trial, number)[0]).collect();
        assert_eq!(first, [at(0), at(100), at(150), at(3)], "{backfill}");
    }
}

#[test]
fn what_is_planned_for_others_is_told() {
    let mut trial = Trial::new(licensed(queue_state(), &[("l", 4)]), cluster(&[8]));
    let jobs = [
        with(&[("l", 3)], job(1, nodes(1), 0, 100)),
        with(&[("l", 4)], job(2, nodes(1), 1, 50)),
        with(&[("l", 1)], job(3, nodes(1), 2, 200)),
    ];
    trial.run_until(&jobs, at(2));
    let text = "License: license l: 3 of 4 in use, the job asks for 1, and jobs ahead of it are planned to hold the rest before it would end";
    assert_eq!(messages(&trial.queue_state, 3), [text]);
}

#[test]
fn a_lower_total_stops_nobody_and_a_higher_one_lets_jobs_start() {
    let mut trial = Trial::new(licensed(queue_state(), &[("l", 4)]), cluster(&[8]));
    let jobs = [
        with(&[("l", 3)], job(1, nodes(1), 0, 100)),
        with(&[("l", 3)], job(2, nodes(1), 1, 50)),
        with(&[("none", 1)], job(3, nodes(1), 1, 50)),
    ];
    trial.run_until(&jobs, at(1));
    trial.queue_state.set_license(&name("l"), Some(2));
    let mut placer = Placer::default();
    let acts = trial.queue_state.pass(&mut trial.snapshot, &mut placer, at(5), Budget::ALL);
    assert_eq!(acts, []);
    assert_eq!(
        messages(&trial.queue_state, 2),
        ["License: license l: the job asks for 3, there are 2 in all"]
    );
    assert_eq!(
        messages(&trial.queue_state, 3),
        ["License: license none: the job asks for 1, there are 0 in all"]
    );
    assert_eq!(trial.queue_state.eta(uid(2)), None);
    trial.queue_state.set_license(&name("l"), Some(6));
    trial.queue_state.set_license(&name("none"), Some(1));
    let acts = trial.queue_state.pass(&mut trial.snapshot, &mut placer, at(6), Budget::ALL);
    assert_eq!(acts.len(), 2);
    assert_eq!(crate::check::check(&trial.queue_state, &acts, at(6)), Ok(()));
    trial.queue_state.set_license(&name("l"), Some(5));
    let found = crate::check::check(&trial.queue_state, &acts, at(6)).unwrap_err();
    assert_eq!(found[0].to_string(), "6 of 5 licenses l would be held");
}

#[test]
fn who_holds_a_license_may_be_stopped_for_a_job_of_higher_priority() {
    let mut trial = Trial::new(licensed(queue_state(), &[("l", 2)]), cluster(&[8]));
    let mut jobs = [
        with(&[("l", 1)], job(1, nodes(1), 0, 100)),
        with(&[("l", 1)], job(2, nodes(1), 0, 100)),
        job(3, nodes(1), 0, 100),
        with(&[("l", 1)], job(4, nodes(1), 10, 50)),
    ];
    for job in &mut jobs[1..3] {
        (job.entry.priority, job.entry.preemption.preemptible) = (-1, true);
    }
    jobs[3].entry.priority = 5;
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    let all: Vec<Vec<Timestamp>> = (1..=4).map(|number| starts(&trial, number)).collect();
    assert_eq!(all, [vec![at(0)], vec![at(0), at(60)], vec![at(0)], vec![at(10)]]);
}

#[test]
fn a_guarantee_is_of_nodes_and_its_job_waits_for_a_license_as_others_do() {
    let mut queue_state = licensed(QueueState::new(policy()), &[("l", 1)]);
    let guaranteed = Shape { pods: 0, nodes: 2, gpus: 0 };
    queue_state.set_tenant(&tenant("a"), Some(TenantDef { guaranteed, ..TenantDef::default() }));
    queue_state.set_tenant(&tenant("b"), Some(TenantDef::default()));
    let mut trial = Trial::new(queue_state, cluster(&[4]));
    let jobs = [
        with(&[("l", 1)], job_of("b", 1, nodes(1), 0, 100)),
        with(&[("l", 1)], job_of("a", 2, nodes(2), 10, 50)),
        // Meanwhile its nodes are not kept.
        job_of("b", 3, nodes(3), 11, 60),
    ];
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    let first: Vec<Timestamp> = (1..=3).map(|number| starts(&trial, number)[0]).collect();
    assert_eq!(first, [at(0), at(100), at(11)]);
}

#[test]
fn a_job_of_a_reservation_waits_for_its_licenses_and_is_not_overtaken() {
    let mut queue_state = licensed(queue_state(), &[("l", 2)]);
    let reserved = proto_model::ReservationName::new("r").unwrap();
    let def = ReservationDef {
        nodes: ReservedNodes::Names([super::world::node(0)].into()),
        start: at(0),
        duration: secs(10_000),
        tenants: [tenant("t")].into(),
        maintenance: false,
        reason: String::new(),
    };
    queue_state.set_reservation(&reserved, Some(def));
    let mut trial = Trial::new(queue_state, cluster(&[4]));
    let mut jobs = [
        with(&[("l", 1)], job(1, nodes(1), 0, 100)),
        with(&[("l", 2)], job(2, nodes(1), 1, 50)),
        with(&[("l", 1)], job(3, nodes(1), 2, 200)),
    ];
    jobs[1].entry.reservation = Some(reserved);
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    let first: Vec<Timestamp> = (1..=3).map(|number| starts(&trial, number)[0]).collect();
    assert_eq!(first, [at(0), at(100), at(150)]);
}

#[test]
fn a_forecast_knows_when_licenses_come_back() {
    let mut trial = Trial::new(licensed(queue_state(), &[("l", 4)]), cluster(&[8]));
    let jobs = [
        with(&[("l", 3)], job(1, nodes(1), 0, 1000)),
        with(&[("l", 4)], job(2, nodes(1), 1, 500)),
        with(&[("l", 1)], job(3, nodes(1), 2, 2000)),
    ];
    trial.run_until(&jobs, at(2));
    trial.queue_state.forecast(&mut trial.snapshot, &mut Placer::default(), at(2));
    let start = |number| trial.queue_state.eta(uid(number)).unwrap().start;
    assert_eq!((start(2), start(3)), (at(1000), at(1500)));
}

/// What a planner that shares no code with the plan knows of a job: whole nodes of one pool, and two licenses.
#[derive(Clone, Copy)]
struct Plain {
    uid: JobUid,
    submitted: u64,
    limit: u64,
    length: u64,
    asks: [u64; 3],
}

const POOL: [u64; 3] = [8, 5, 3];

/// The first time at which a job fits for its whole limit beside what is taken.
fn earliest(taken: &[(u64, u64, [u64; 3])], job: &Plain, now: u64) -> u64 {
    let fits_at = |time: u64| {
        let inside = taken.iter().filter(|(from, to, _)| *from <= time && time < *to);
        let sum = inside.fold([0; 3], |sum, (.., asks)| [0, 1, 2].map(|at| sum[at] + asks[at]));
        (0..3).all(|at| sum[at] + job.asks[at] <= POOL[at])
    };
    let fits = |start: u64| {
        let inside = |time: &u64| (start..start + job.limit).contains(time);
        fits_at(start) && taken.iter().map(|(from, ..)| *from).filter(inside).all(fits_at)
    };
    let ends = taken.iter().map(|(_, to, _)| *to).filter(|to| *to > now);
    ends.chain([now]).filter(|start| fits(*start)).min().unwrap()
}

/// Conservative backfill, planned anew at every event, second by second.
fn planned(jobs: &[Plain]) -> BTreeMap<JobUid, u64> {
    let mut started: BTreeMap<JobUid, u64> = BTreeMap::new();
    let mut events: BTreeSet<u64> = jobs.iter().map(|job| job.submitted).collect();
    while let Some(now) = events.pop_first() {
        let runs = jobs.iter().filter_map(|job| Some((job, *started.get(&job.uid)?)));
        let runs = runs.filter(|(job, start)| start + job.length > now);
        let mut taken: Vec<(u64, u64, [u64; 3])> =
            runs.map(|(job, start)| (now, start + job.limit, job.asks)).collect();
        for job in jobs.iter().filter(|job| job.submitted <= now) {
            if started.contains_key(&job.uid) {
                continue;
            }
            let start = earliest(&taken, job, now);
            taken.push((start, start + job.limit, job.asks));
            if start == now {
                started.insert(job.uid, now);
                events.insert(now + job.length);
            }
        }
    }
    started
}

fn random(seed: u64, exact: bool) -> (Vec<TrialJob>, Vec<Plain>) {
    let (mut dice, mut now) = (Random::new(seed), 0);
    let each = (1..=80).map(|number| {
        now += dice.below(60);
        let limit = 1 + dice.below(300);
        let length = if exact { limit } else { 1 + dice.below(limit) };
        let asks = [1 + dice.below(4), dice.below(9).saturating_sub(3), dice.below(6).saturating_sub(2)];
        let mut job = job(number, nodes(asks[0] as u32), now, limit);
        job.length = secs(length);
        let asked = [("k", asks[1] as u32), ("l", asks[2] as u32)];
        let asked: Vec<(&str, u32)> = asked.into_iter().filter(|(_, count)| *count > 0).collect();
        (with(&asked, job), Plain { uid: uid(number), submitted: now, limit, length, asks })
    });
    each.unzip()
}

/// Never over the total (each pass is checked), nobody who could start waits, and nobody starts who delays one ahead: told by
/// another planner. Where all jobs take what they say, all start when they were told at their submit.
#[test]
fn another_planner_says_the_same_starts() {
    for seed in 0..40 {
        let exact = seed % 2 == 0;
        let (jobs, plain) = random(seed, exact);
        let mut queue_state = licensed(
            QueueState::new(Policy { fair_share: false, ..policy() }),
            &[("k", POOL[1] as u32), ("l", POOL[2] as u32)],
        );
        queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
        let mut trial = Trial::new(queue_state, cluster(&[POOL[0] as u32]));
        trial.run(&jobs);
        assert_eq!(trial.faults, Vec::<String>::new(), "seed {seed}");
        let expected = planned(&plain);
        for job in &plain {
            let start = trial.rows[&job.uid].starts.first().copied();
            assert_eq!(start, expected.get(&job.uid).map(|start| at(*start)), "seed {seed}: {}", job.uid);
        }
    }
}

#[test]
fn who_is_told_a_start_starts_then() {
    for seed in 0..12 {
        let (jobs, _) = random(seed, true);
        let mut queue_state = licensed(
            QueueState::new(Policy { fair_share: false, ..policy() }),
            &[("k", POOL[1] as u32), ("l", POOL[2] as u32)],
        );
        queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
        let mut trial = Trial::new(queue_state, cluster(&[POOL[0] as u32]));
        let (mut reported, mut placer) = (BTreeMap::new(), Placer::default());
        let mut left = &jobs[..];
        while let Some(first) = left.first() {
            let now = first.entry.submitted;
            let (new, rest) = left.split_at(left.partition_point(|job| job.entry.submitted <= now));
            trial.run_until(new, now);
            trial.queue_state.plan(&mut trial.snapshot, &mut placer, now, Budget::ALL);
            for job in new {
                let planned = trial.queue_state.eta(job.entry.uid).and_then(|eta| eta.planned);
                reported.insert(job.entry.uid, planned.unwrap_or(now));
            }
            let next = rest.first().map_or(Timestamp(u64::MAX), |next| next.entry.submitted);
            trial.run_until(&[], Timestamp(next.0.saturating_sub(1)));
            left = rest;
        }
        for (uid, start) in reported {
            assert_eq!(trial.rows[&uid].starts, [start], "seed {seed}: {uid}");
        }
    }
}

/// With parts of nodes, priorities, preemption and guarantees: the checkers of every pass find nothing, and every job starts.
#[test]
fn licenses_hold_beside_rights_and_preemption() {
    for seed in 0..60 {
        let mut dice = Random::new(seed + 7);
        let mut now = 0;
        let jobs = (0..60).map(|number| {
            now += dice.below(20);
            let who = ["a", "b", "c"][dice.below(3) as usize];
            let few = 1 + dice.below(3) as u32;
            let need = if dice.below(3) == 0 { part(few) } else { nodes(few) };
            let mut job = job_of(who, number + 1, need, now, 1 + dice.below(200));
            if dice.below(2) == 0 {
                job.length /= 1 + dice.below(3) as u32;
            }
            job.entry.priority = [0, 0, 0, 5, -5][dice.below(5) as usize];
            job.entry.preemption.preemptible = dice.below(3) == 0;
            job.entry.grace = secs(dice.below(3));
            match dice.below(4) {
                0 => with(&[("k", 1 + dice.below(4) as u32)], job),
                1 => with(&[("k", 1), ("l", 1 + dice.below(2) as u32)], job),
                _ => job,
            }
        });
        let jobs: Vec<TrialJob> = jobs.collect();
        let mut queue_state = licensed(QueueState::new(policy()), &[("k", 4), ("l", 2)]);
        for (who, nodes) in [("a", 3), ("b", 2), ("c", 0)] {
            let guaranteed = Shape { pods: 0, nodes, gpus: 0 };
            queue_state.set_tenant(&tenant(who), Some(TenantDef { guaranteed, ..TenantDef::default() }));
        }
        let mut trial = Trial::new(queue_state, cluster(&[4, 4]));
        trial.run(&jobs);
        assert_eq!(trial.faults, Vec::<String>::new(), "seed {seed}");
        for job in &jobs {
            assert!(!starts_of(&trial, job).is_empty(), "seed {seed}: {} never starts", job.entry.id);
        }
        for license in ["k", "l"] {
            assert_eq!(trial.queue_state.license_use(&name(license)), LicenseUse::default());
        }
    }
}

fn starts_of(trial: &Trial, job: &TrialJob) -> Vec<Timestamp> {
    trial.rows.get(&job.entry.uid).map(|row| row.starts.clone()).unwrap_or_default()
}
