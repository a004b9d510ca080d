//! The limit of long small jobs: of all tenants together, planned as nodes are, told as a cause, and nothing to a guarantee.

use controller_scheduler::Placer;
use proto_model::{LongJobLimit, ReasonCode, Shape, Timestamp};
use proto_random::Random;

use super::world::{at, cluster, job, job_of, nodes, part, policy, secs, tenant, uid};
use crate::{
    Policy, QueueState, TenantDef,
    trial::{Trial, TrialJob},
};

/// Jobs of fewer than 8 GPUs that may run for 100 seconds or longer hold 8 together at most; tenants t and u.
fn limited(limit: u32) -> QueueState {
    let long_jobs = Some(LongJobLimit { length: secs(100), below_gpus: 8, gpus: limit });
    let mut queue_state = QueueState::new(Policy { long_jobs, ..policy() });
    for name in ["t", "u"] {
        queue_state.set_tenant(&tenant(name), Some(TenantDef::default()));
    }
    queue_state
}

fn first_starts(trial: &Trial, numbers: std::ops::RangeInclusive<u64>) -> Vec<Timestamp> {
    numbers.map(|number| trial.rows[&uid(number)].starts[0]).collect()
}

#[test]
fn a_long_small_job_waits_for_others_of_its_kind_and_short_or_large_ones_pass() {
    let mut trial = Trial::new(limited(8), cluster(&[8]));
    let mut jobs = [
        job_of("u", 1, nodes(1), 0, 100),
        job(2, part(3), 0, 200),
        job(3, part(2), 1, 150),
        // One second shorter, as large as is not small, and a small one that fits.
        job(4, part(2), 2, 99),
        job(5, nodes(2), 2, 500),
        job(6, part(1), 2, 100),
        // Without a time limit it may run for long.
        job(7, part(3), 3, 10),
    ];
    jobs[6].entry.limit = None;
    trial.run_until(&jobs, at(3));
    let reason = &trial.queue_state.why(uid(3))[0];
    assert_eq!((reason.code.clone(), reason.count), (ReasonCode::LongJobs, 2));
    assert_eq!(
        reason.message,
        "jobs of fewer than 8 GPUs that may run for 1m40s or longer hold 8 of the 8 GPUs that they may hold together, and the job, which is \
         one, asks for 2"
    );
    assert_eq!(trial.queue_state.eta(uid(3)).unwrap().planned, Some(at(100)));
    trial.queue_state.forecast(&mut trial.snapshot, &mut Placer::default(), at(3));
    assert_eq!(trial.queue_state.eta(uid(3)).unwrap().start, at(100));
    trial.run(&[]);
    assert_eq!(trial.faults, Vec::<String>::new());
    assert_eq!(first_starts(&trial, 1..=6), [at(0), at(0), at(100), at(2), at(2), at(2)]);
    assert_eq!(first_starts(&trial, 7..=7), [at(102)]);
}

#[test]
fn who_has_a_right_to_its_nodes_starts_whatever_long_jobs_hold_and_counts() {
    let mut queue_state = limited(8);
    let guaranteed = Shape { pods: 0, nodes: 2, gpus: 0 };
    queue_state.set_tenant(&tenant("a"), Some(TenantDef { guaranteed, ..TenantDef::default() }));
    let mut trial = Trial::new(queue_state, cluster(&[8]));
    let jobs = [
        job(1, nodes(1), 0, 100),
        job(2, nodes(1), 0, 300),
        job_of("a", 3, nodes(1), 10, 400),
        job_of("a", 4, nodes(1), 11, 100),
        // Eight are held by the second and the third when the first has ended: it waits for the second.
        job(5, nodes(1), 12, 100),
    ];
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    assert_eq!(first_starts(&trial, 1..=5), [at(0), at(0), at(10), at(11), at(300)]);
}

#[test]
fn one_may_be_stopped_for_another_of_higher_priority() {
    let mut trial = Trial::new(limited(8), cluster(&[8]));
    let mut jobs = [
        job_of("u", 1, nodes(1), 0, 100),
        job(2, nodes(1), 0, 200),
        job(3, nodes(1), 0, 99),
        job(4, nodes(1), 10, 100),
    ];
    for job in &mut jobs[..3] {
        (job.entry.priority, job.entry.preemption.preemptible) = (-1, true);
    }
    jobs[3].entry.priority = 5;
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    // The third is stopped for nothing: it is not long.
    assert_eq!(trial.rows[&uid(3)].starts, [at(0)]);
    assert_eq!(trial.rows[&uid(4)].starts, [at(10)]);
    let stopped = [1, 2].iter().filter(|number| trial.rows[&uid(**number)].starts.len() == 2).count();
    assert_eq!(stopped, 1);
}

fn random(seed: u64) -> Vec<TrialJob> {
    let (mut dice, mut now) = (Random::new(seed), 0);
    let each = (1..=120).map(|number| {
        now += dice.below(30);
        let limit = 1 + dice.below(300);
        let who = if dice.below(2) == 0 { "t" } else { "u" };
        let need = match dice.below(3) {
            0 => nodes(1 + dice.below(5) as u32),
            _ => part(1 + dice.below(3) as u32),
        };
        let mut job = job_of(who, number, need, now, limit);
        job.length = secs(1 + dice.below(limit));
        job
    });
    each.collect()
}

/// Each pass is checked; what long jobs hold is added up here once more, from the starts and the ends; and nobody starves.
#[test]
fn they_never_hold_more_and_all_of_them_run() {
    for seed in 0..30 {
        let jobs = random(seed);
        let mut trial = Trial::new(limited(8), cluster(&[4, 4]));
        trial.run(&jobs);
        assert_eq!(trial.faults, Vec::<String>::new(), "seed {seed}");
        let long = jobs
            .iter()
            .filter(|job| job.entry.gpus(job.entry.need.nodes) < 8 && job.entry.limit >= Some(secs(100)));
        let runs: Vec<(Timestamp, Timestamp, u64)> = long
            .map(|job| {
                let row = &trial.rows[&job.entry.uid];
                (row.starts[0], row.end.unwrap(), job.entry.gpus(job.entry.need.nodes))
            })
            .collect();
        let mut waited = false;
        for (start, ..) in &runs {
            let held: u64 =
                runs.iter().filter(|(from, to, _)| from <= start && start < to).map(|run| run.2).sum();
            assert!(held <= 8, "seed {seed}: {held} at {start:?}");
            waited |= held > 5;
        }
        assert!(waited, "seed {seed}: the limit was never near");
        let all = jobs.iter().all(|job| trial.rows[&job.entry.uid].end.is_some());
        assert!(all, "seed {seed}");
    }
}
