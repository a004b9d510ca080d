//! Who may start before jobs that wait ahead: told by a planner that shares no code with the plan.

use std::time::Duration;

use controller_scheduler::Placer;
use proto_model::{Backfill, Promise, Timestamp};
use proto_random::Random;

use super::world::{at, cluster, job, nodes, policy, secs, tenant};
use crate::{
    Policy, QueueState, TenantDef,
    delays::{Delays, Watch},
    trial::{Trial, TrialJob},
};

const NODES: u32 = 32;

/// Gangs of whole nodes that come a little faster than they are served, with limits of one to five times what they take.
fn gangs(count: u64, seed: u64) -> Vec<TrialJob> {
    let (mut dice, mut now) = (Random::new(seed), 0);
    let each = (1..=count).map(|number| {
        let size = match dice.below(8) {
            0..5 => 1 + dice.below(4),
            5 | 6 => 4 + dice.below(8),
            _ => 12 + dice.below(20),
        };
        let length = 1 + (60 << dice.below(9)) + dice.below(500);
        now += dice.below(size * length / 14);
        let mut job = job(number, nodes(size as u32), 0, length * (1 + dice.below(5)));
        job.entry.submitted = Timestamp(now * 1000 + dice.below(1000));
        job.length = Duration::from_millis(length * 1000 - dice.below(1000));
        job
    });
    each.collect()
}

fn replay(backfill: Backfill, slack: Duration, count: u64, seed: u64) -> Delays {
    let mut queue_state = QueueState::new(Policy { fair_share: false, backfill, step: secs(10), ..policy() });
    queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
    let mut trial = Trial::new(queue_state, cluster(&[NODES / 2, NODES / 2]));
    trial.watched = Some(Watch { nodes: NODES, slack });
    trial.run(&gangs(count, seed));
    assert_eq!(trial.faults, Vec::<String>::new());
    assert!(trial.rows.values().all(|row| row.end.is_some()));
    trial.delays
}

#[test]
fn no_backfill_delays_a_planned_start() {
    let mut backfills = 0;
    for seed in 0..4 {
        let delays = replay(Backfill::Conservative, Duration::ZERO, 300, seed);
        assert_eq!(delays.found, [], "seed {seed}");
        backfills += delays.backfills;
    }
    assert!(backfills > 300, "{backfills}");
}

#[test]
fn easy_backfill_delays_others_than_the_first() {
    let mut others = 0;
    for seed in 0..3 {
        let delays = replay(Backfill::Easy, Duration::ZERO, 300, seed);
        assert_eq!(delays.found.iter().find(|delay| delay.ahead == 0), None, "seed {seed}");
        others += delays.harmful;
    }
    assert!(others > 10, "{others}");
}

#[test]
fn slack_lets_others_delay_a_job_up_to_its_end_and_no_further() {
    let (slack, mut delayed) = (secs(7200), 0);
    for seed in 0..3 {
        // With its slack in its plan nobody is delayed; without it, the first in the queue up to where its slack ends.
        assert_eq!(replay(Backfill::Slack(slack), slack, 300, seed).found, [], "seed {seed}");
        let delays = replay(Backfill::Slack(slack), Duration::ZERO, 300, seed);
        for delay in delays.found.iter().filter(|delay| delay.ahead == 0) {
            assert!(delay.to <= delay.submitted.plus(slack), "seed {seed}: {delay:?}");
            delayed += 1;
        }
    }
    assert!(delayed > 2, "{delayed}");
}

#[test]
fn what_is_promised_says_by_which_rule() {
    for (backfill, promises) in [
        (Backfill::Conservative, [Promise::Conservative; 2]),
        (Backfill::Easy, [Promise::Easy, Promise::Estimate]),
        (Backfill::Slack(secs(60)), [Promise::Slack; 2]),
    ] {
        let mut queue_state = QueueState::new(Policy { backfill, ..policy() });
        queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
        let mut trial = Trial::new(queue_state, cluster(&[4]));
        let jobs = [job(1, nodes(4), 0, 100), job(2, nodes(3), 1, 50), job(3, nodes(2), 2, 50)];
        trial.run_until(&jobs, at(2));
        let mut placer = Placer::default();
        trial.queue_state.plan(&mut trial.snapshot, &mut placer, at(2), crate::Budget::ALL);
        let eta = |trial: &Trial, number: usize| trial.queue_state.eta(jobs[number].entry.uid).unwrap();
        let reported = [1, 2].map(|number| eta(&trial, number));
        assert_eq!(reported.map(|eta| eta.promise), promises, "{backfill}");
        assert_eq!(reported[0].planned, Some(at(100)), "{backfill}");
        let second = reported[1].planned;
        assert_eq!(second, if backfill == Backfill::Easy { None } else { Some(at(150)) }, "{backfill}");
        // A forecast tells an estimate beside what was promised.
        trial.queue_state.forecast(&mut trial.snapshot, &mut placer, at(3));
        assert_eq!([1, 2].map(|number| eta(&trial, number).promise), promises, "{backfill}");
        assert_eq!([1, 2].map(|number| eta(&trial, number).planned), [Some(at(100)), second], "{backfill}");
    }
}
