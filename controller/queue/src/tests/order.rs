//! Order, backfill and what they promise.

use proto_model::ReasonCode;
use proto_random::Random;

use super::world::{at, cluster, job, job_of, nodes, part, policy, queue_state, secs, tenant, uid};
use crate::{
    Act, Budget, Policy, QueueState, TenantDef, WaitCause,
    trial::{Trial, TrialJob},
};

fn starts(trial: &Trial, number: u64) -> Vec<u64> {
    trial.rows[&uid(number)].starts.iter().map(|time| time.0 / 1000).collect()
}

fn run(trial: &mut Trial, jobs: &[TrialJob]) {
    trial.run(jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn a_job_passes_another_only_if_that_delays_nobody() {
    let jobs = [
        job(1, nodes(3), 0, 100),
        // Waits for the first.
        job(2, nodes(4), 1, 100),
        // Would end after the second could start.
        job(3, nodes(1), 2, 200),
        // Ends before.
        job(4, nodes(1), 3, 97),
        job(5, nodes(1), 4, 10),
    ];
    let mut trial = Trial::new(queue_state(), cluster(&[4]));
    trial.forecasts = true;
    run(&mut trial, &jobs);
    let all: Vec<Vec<u64>> = (1..=5).map(|number| starts(&trial, number)).collect();
    assert_eq!(all, [vec![0], vec![100], vec![200], vec![3], vec![200]]);
    // Every plan came true.
    for row in trial.rows.values() {
        let (planned, start) = (row.planned.unwrap(), row.starts[0]);
        assert!(planned.since(start).max(start.since(planned)) <= secs(4), "{planned} {start}");
    }
}

#[test]
fn parts_of_nodes_break_into_as_few_nodes_as_can_be() {
    let jobs = [
        job(1, part(2), 0, 100),
        job(2, part(2), 0, 100),
        job(3, part(1), 0, 50),
        job(4, nodes(1), 0, 100),
        // Two nodes are broken into; as a whole they are there at 100.
        job(5, nodes(2), 1, 100),
        job(6, part(3), 2, 98),
        job(7, part(3), 3, 1000),
    ];
    let mut trial = Trial::new(queue_state(), cluster(&[3]));
    run(&mut trial, &jobs);
    assert_eq!(starts(&trial, 4), [0]);
    assert_eq!(starts(&trial, 5), [100]);
    assert_eq!(starts(&trial, 6), [2]);
    assert!(starts(&trial, 7)[0] >= 50);
}

#[test]
fn a_gang_that_stays_in_one_pod_is_not_starved_by_those_that_do_not_care() {
    let mut pod = nodes(4);
    pod.within = proto_model::Within::Pod;
    let mut jobs = vec![job(1, nodes(2), 0, 60), job(2, nodes(2), 0, 90), job(3, pod, 1, 100)];
    jobs.extend((0..200).map(|at| job(10 + at, nodes(1), 2 + at, 150)));
    let mut trial = Trial::new(queue_state(), cluster(&[4, 4]));
    run(&mut trial, &jobs);
    assert!(starts(&trial, 3)[0] <= 91, "{:?}", starts(&trial, 3));
}

#[test]
fn higher_priority_goes_first_and_little_used_tenants_among_equals() {
    let mut queue_state = queue_state();
    queue_state.set_tenant(&tenant("u"), Some(TenantDef::default()));
    let mut jobs = vec![
        job(1, nodes(4), 0, 100),
        job(2, nodes(4), 1, 100),
        job_of("u", 3, nodes(4), 2, 100),
        job(4, nodes(4), 3, 100),
        job(5, nodes(4), 4, 100),
    ];
    jobs[4].entry.priority = 10;
    let mut trial = Trial::new(queue_state, cluster(&[4]));
    run(&mut trial, &jobs);
    let all: Vec<Vec<u64>> = (1..=5).map(|number| starts(&trial, number)).collect();
    assert_eq!(all, [vec![0], vec![300], vec![200], vec![400], vec![100]]);
}

#[test]
fn tenants_get_their_shares_by_weight() {
    let mut queue_state = queue_state();
    queue_state.set_tenant(&tenant("u"), Some(TenantDef { weight: 3, ..TenantDef::default() }));
    let mut jobs = Vec::new();
    for number in 0..400 {
        let who = if number % 2 == 0 { "t" } else { "u" };
        jobs.push(job_of(who, number, nodes(1), 0, 100));
    }
    let mut trial = Trial::new(queue_state, cluster(&[8]));
    trial.run_until(&jobs, at(1250));
    assert_eq!(trial.faults, Vec::<String>::new());
    let of = |odd: bool| {
        let rows = trial.rows.iter().filter(|(_, row)| !row.starts.is_empty());
        rows.filter(|(uid, _)| (0..400).any(|at| (at % 2 == 1) == odd && super::world::uid(at) == **uid))
            .count()
    };
    let (t, u) = (of(false), of(true));
    assert!(u > 2 * t && u < 4 * t, "{t} {u}");
}

/// Jobs of one tenant with true limits.
fn random(seed: u64, count: u64, sizes: u64) -> Vec<TrialJob> {
    let mut dice = Random::new(seed);
    let mut now = 0;
    (0..count)
        .map(|number| {
            now += dice.below(30);
            let need = if dice.below(4) == 0 {
                part(1 + dice.below(3) as u32)
            } else {
                nodes(1 + dice.below(sizes) as u32)
            };
            job(number + 1, need, now, 1 + dice.below(300))
        })
        .collect()
}

#[test]
fn a_later_job_never_delays_an_earlier_one() {
    for seed in 0..60 {
        let mut jobs = random(seed, 60, 8);
        jobs.retain(|job| job.entry.need.gpus == super::world::GPUS);
        let replay = |jobs: &[TrialJob]| {
            let mut trial = Trial::new(queue_state(), cluster(&[8, 8]));
            run(&mut trial, jobs);
            trial
        };
        let all = replay(&jobs);
        let mut dice = Random::new(seed + 1000);
        for _ in 0..4 {
            let until = dice.below(jobs.len() as u64) as usize;
            let some = replay(&jobs[..until]);
            for (uid, row) in &some.rows {
                assert_eq!(row.starts, all.rows[uid].starts, "seed {seed}, without those behind {until}");
            }
        }
    }
}

#[test]
fn plans_come_true_when_limits_are_true() {
    let (mut all, mut off) = (0, 0);
    for seed in 0..30 {
        let mut jobs = random(seed, 60, 8);
        jobs.retain(|job| job.entry.need.gpus == super::world::GPUS);
        let mut trial = Trial::new(queue_state(), cluster(&[8, 8]));
        trial.forecasts = true;
        run(&mut trial, &jobs);
        for entry in jobs.iter().map(|job| &job.entry) {
            let row = &trial.rows[&entry.uid];
            let (planned, start) = (row.planned.unwrap(), row.starts[0]);
            // Further ahead the plan's steps are wider, and a little can change who comes first.
            let missed = planned.since(start).max(start.since(planned));
            all += 1;
            off += usize::from(missed > secs(2) + start.since(entry.submitted) / 16);
        }
    }
    assert!(off * 20 <= all, "{off} of {all}");
}

#[test]
fn with_limits_that_are_too_long_nobody_starts_later_than_planned() {
    for seed in 0..30 {
        let mut dice = Random::new(seed + 77);
        let mut jobs = random(seed, 80, 8);
        for job in &mut jobs {
            job.length /= 1 + dice.below(4) as u32;
        }
        let mut trial = Trial::new(queue_state(), cluster(&[8, 8]));
        trial.forecasts = true;
        trial.run(&jobs);
        assert_eq!(trial.faults, Vec::<String>::new());
        for (uid, row) in &trial.rows {
            assert!(!row.starts.is_empty(), "seed {seed} {uid}");
        }
    }
}

#[test]
fn a_big_job_does_not_starve() {
    for seed in 0..20 {
        let mut dice = Random::new(seed);
        let mut jobs = vec![job(1, nodes(1), 0, 40), job(2, nodes(12), 1, 50)];
        // A stream that would fill the cluster for ever.
        for number in 0..400 {
            let need = if dice.below(2) == 0 {
                nodes(1 + dice.below(3) as u32)
            } else {
                part(1 + dice.below(3) as u32)
            };
            jobs.push(job(number + 10, need, 2 + number, 20 + dice.below(200)));
        }
        let mut trial = Trial::new(queue_state(), cluster(&[6, 6]));
        run(&mut trial, &jobs);
        assert_eq!(starts(&trial, 2), [40], "seed {seed}");
    }
}

#[test]
fn the_same_replay_twice_is_the_same() {
    for seed in 0..10 {
        let jobs = random(seed, 120, 6);
        let replay = || {
            let mut trial = Trial::new(queue_state(), cluster(&[6, 6]));
            trial.forecasts = true;
            run(&mut trial, &jobs);
            trial.rows
        };
        assert_eq!(replay(), replay());
    }
}

#[test]
fn a_look_changes_nothing_and_a_copy_decides_alike() {
    let jobs = random(3, 60, 6);
    let mut trial = Trial::new(queue_state(), cluster(&[6]));
    trial.run_until(&jobs, at(300));
    let (before, snapshot) = (trial.queue_state.clone(), trial.snapshot.clone());
    let mut placer = controller_scheduler::Placer::default();
    trial.queue_state.forecast(&mut trial.snapshot, &mut placer, at(301));
    assert_eq!(trial.queue_state, before);
    assert_eq!(trial.snapshot, snapshot);
    let mut copy = before.clone();
    let first = trial.queue_state.pass(&mut trial.snapshot, &mut placer, at(301), Budget::ALL);
    let again =
        copy.pass(&mut trial.snapshot, &mut controller_scheduler::Placer::default(), at(301), Budget::ALL);
    assert_eq!(first, again);
    assert_eq!(trial.snapshot, snapshot);
}

type Undo = Box<dyn Fn(&mut QueueState)>;

#[test]
fn every_set_is_undone_by_its_opposite() {
    let mut dice = Random::new(5);
    let jobs = random(9, 40, 4);
    let mut queue_state = queue_state();
    let mut undo: Vec<Undo> = Vec::new();
    let start = queue_state.clone();
    let marks = queue_state.marks();
    for _ in 0..400 {
        match dice.below(6) {
            0 => {
                let name = tenant(["t", "u"][dice.below(2) as usize]);
                let old = queue_state.tenants.get(&name).cloned();
                let def = (dice.below(3) > 0)
                    .then(|| TenantDef { limit: Some(dice.below(9) as u32), ..TenantDef::default() });
                queue_state.set_tenant(&name, def);
                undo.push(Box::new(move |queue_state| queue_state.set_tenant(&name, old.clone())));
            }
            _ => {
                let entry = jobs[dice.below(40) as usize].entry.clone();
                let uid = entry.uid;
                let old = queue_state.job(uid).cloned();
                let new = match dice.below(3) {
                    0 => None,
                    1 => Some(std::sync::Arc::new(entry)),
                    _ => Some(std::sync::Arc::new(entry.running(std::sync::Arc::default(), at(3)))),
                };
                if let Some(past) = old.as_ref().and_then(|old| crate::Past::of(old, at(9), true)) {
                    queue_state.remember(&past);
                }
                queue_state.set_job(uid, new);
                undo.push(Box::new(move |queue_state| queue_state.set_job(uid, old.clone())));
            }
        }
    }
    assert_ne!(queue_state, start);
    for step in undo.iter().rev() {
        step(&mut queue_state);
    }
    queue_state.restore(marks);
    assert_eq!(queue_state, start);
}

#[test]
fn limits_of_tenants_and_queues_hold_and_are_told() {
    use super::world::queue;
    use crate::QueueDef;
    let mut queue_state = queue_state();
    queue_state.set_tenant(&tenant("t"), Some(TenantDef { limit: Some(24), ..TenantDef::default() }));
    let def = |parent: Option<&str>, limit| QueueDef {
        parent: parent.map(queue),
        guaranteed: proto_model::Shape::default(),
        limit,
        ..QueueDef::default()
    };
    queue_state.set_queue(&tenant("t"), &queue("a"), Some(def(None, Some(16))));
    queue_state.set_queue(&tenant("t"), &queue("b"), Some(def(Some("a"), None)));
    let mut jobs: Vec<TrialJob> = (1..=6).map(|number| job(number, nodes(2), 0, 100)).collect();
    for job in &mut jobs[..3] {
        job.entry.queue = Some(queue("b"));
    }
    jobs.push(job(7, nodes(7), 1, 100));
    jobs.push(job(8, nodes(1), 1, 100));
    jobs[7].entry.queue = Some(queue("none"));
    let mut trial = Trial::new(queue_state, cluster(&[16]));
    trial.run_until(&jobs, at(50));
    let begun: Vec<u64> = (1..=8).filter(|number| !starts(&trial, *number).is_empty()).collect();
    assert_eq!(begun, [1, 2, 4]);
    let causes = |number| {
        let why = trial.queue_state.seen(uid(number)).unwrap();
        why.causes.iter().map(WaitCause::code).collect::<Vec<_>>()
    };
    assert_eq!(causes(3), [ReasonCode::QuotaExceeded, ReasonCode::QuotaExceeded]);
    assert_eq!(causes(5), [ReasonCode::QuotaExceeded]);
    assert_eq!(causes(7), [ReasonCode::QuotaTooSmall]);
    assert_eq!(causes(8), [ReasonCode::QueueUnknown]);
    assert_eq!(trial.queue_state.eta(uid(3)).unwrap().start, at(100));
    assert!(trial.queue_state.why(uid(3))[0].message.contains("queue/t/a holds 16 of its 16 GPUs"));
    assert_eq!(trial.faults, Vec::<String>::new());
}

#[test]
fn every_waiting_job_has_a_start_and_causes() {
    for seed in 0..10 {
        let jobs = random(seed, 200, 6);
        let mut trial = Trial::new(queue_state(), cluster(&[6, 6]));
        trial.run_until(&jobs, at(1500));
        let mut placer = controller_scheduler::Placer::default();
        trial.queue_state.forecast(&mut trial.snapshot, &mut placer, at(1500));
        for entry in trial.queue_state.jobs.values().filter(|entry| entry.run().is_none()) {
            let eta = trial.queue_state.eta(entry.uid).expect("a start");
            assert!(eta.earliest <= eta.start && eta.start <= eta.latest);
            assert!(
                !trial.queue_state.why(entry.uid).is_empty(),
                "seed {seed}: {:?}",
                trial.queue_state.seen(entry.uid)
            );
        }
    }
}

#[test]
fn lengths_are_learned_from_jobs_that_ended() {
    let mut jobs: Vec<TrialJob> = (0..40).map(|at| job(at + 1, nodes(2), at, 70 + at % 5)).collect();
    for job in &mut jobs {
        job.entry.limit = None;
    }
    let mut queue_state = QueueState::new(Policy { unknown: secs(5000), ..policy() });
    queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
    let mut trial = Trial::new(queue_state, cluster(&[8]));
    run(&mut trial, &jobs);
    let learned = trial.queue_state.ledger().length(&tenant("t"), 8).unwrap();
    assert!(learned >= secs(71) && learned <= secs(73));
    assert!(trial.queue_state.ledger().length(&tenant("t"), 32).is_some());
    assert!(trial.queue_state.ledger().length(&tenant("u"), 8).is_none());
}

#[test]
fn a_budget_cuts_a_pass_short() {
    let jobs: Vec<TrialJob> = (1..=8).map(|number| job(number, nodes(1), 0, 100)).collect();
    let mut queue_state = queue_state();
    for job in &jobs {
        queue_state.set_job(job.entry.uid, Some(std::sync::Arc::new(job.entry.clone())));
    }
    let mut placer = controller_scheduler::Placer::default();
    let mut snapshot = cluster(&[8]);
    let acts = queue_state.pass(&mut snapshot, &mut placer, at(1), Budget { jobs: usize::MAX, starts: 3 });
    assert_eq!(acts.len(), 3);
    assert!(acts.iter().all(|act| matches!(act, Act::Start { .. })));
    let acts = queue_state.pass(&mut snapshot, &mut placer, at(1), Budget { jobs: 2, starts: 9 });
    assert_eq!(acts.len(), 2);
}

#[test]
fn larger_jobs_have_a_head_start_and_no_more() {
    let jobs = [
        job(1, nodes(4), 0, 100),
        job(2, nodes(1), 5, 100),
        // Four times as large: two doublings, 20 s.
        job(3, nodes(4), 20, 100),
        job(4, nodes(4), 26, 100),
    ];
    let order = |head_start| {
        let mut queue_state = QueueState::new(Policy { head_start: secs(head_start), ..policy() });
        queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
        let mut trial = Trial::new(queue_state, cluster(&[4]));
        run(&mut trial, &jobs);
        (1..=4).flat_map(|number| starts(&trial, number)).collect::<Vec<_>>()
    };
    assert_eq!(order(0), [0, 100, 200, 300]);
    // The fourth job came 21 s after the second.
    assert_eq!(order(10), [0, 200, 100, 300]);
    assert_eq!(order(20), [0, 300, 100, 200]);
}
