//! How true forecasts come. The bench's row C7 has the figures of a larger crowd.

use std::time::Duration;

use proto_model::{Eta, Timestamp};
use proto_random::Random;

use super::world::{at, cluster, job_of, nodes, part, secs, tenant};
use crate::{
    Policy, QueueState, TenantDef,
    trial::{Trial, TrialJob},
};

/// Jobs of four tenants with limits of `worst` times the truth at most.
fn crowd(count: u64, seed: u64, worst: impl Fn(&mut Random) -> u64) -> Vec<TrialJob> {
    let (mut dice, mut now) = (Random::new(seed), 1000);
    let job = |number| {
        let length = 300 * 2_u64.pow(dice.below(6) as u32) + dice.below(300);
        let who = ["a", "b", "c", "d"][dice.below(4) as usize];
        let need = if dice.below(8) == 0 { part(2) } else { nodes(1 << dice.below(4)) };
        let mut job = job_of(who, number + 1, need, now, length);
        job.entry.limit = Some(secs(length * worst(&mut dice)));
        now += dice.below(900);
        job
    };
    (0..count).map(job).collect()
}

fn replay(jobs: &[TrialJob], fair_share: bool) -> Vec<(Duration, Eta, Timestamp)> {
    let mut queue_state = QueueState::new(Policy { fair_share, ..Policy::default() });
    for name in ["a", "b", "c", "d"] {
        queue_state.set_tenant(&tenant(name), Some(TenantDef::default()));
    }
    let mut trial = Trial::new(queue_state, cluster(&[16, 16]));
    trial.forecasts = true;
    trial.run(jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    let rows = jobs.iter().filter_map(|job| {
        let row = &trial.rows[&job.entry.uid];
        let (reported, start) = (row.reported?, *row.starts.first()?);
        let wait = start.since(job.entry.submitted);
        (wait > secs(60)).then_some((wait, reported, start))
    });
    rows.collect()
}

#[test]
fn bands_hold_most_starts() {
    let (mut inside, mut all) = (0, 0);
    for seed in 0..2 {
        for (_, reported, start) in replay(&crowd(120, seed, |dice| 1 + dice.below(4)), true) {
            assert!(reported.earliest <= reported.start && reported.start <= reported.latest);
            all += 1;
            inside += u32::from(reported.earliest <= start && start <= reported.latest);
        }
    }
    assert!(inside * 2 > all, "{inside} of {all}");
}

/// What starts of others have taught does not reach before the time before which a job may not begin.
#[test]
fn no_start_is_predicted_before_a_job_s_begin_time() {
    let mut jobs = crowd(120, 3, |dice| 1 + dice.below(4));
    for job in jobs.iter_mut().step_by(3) {
        job.entry.not_before = Some(job.entry.submitted.plus(secs(14_400)));
    }
    let mut queue_state = QueueState::new(Policy::default());
    for name in ["a", "b", "c", "d"] {
        queue_state.set_tenant(&tenant(name), Some(TenantDef::default()));
    }
    let mut trial = Trial::new(queue_state, cluster(&[16, 16]));
    trial.forecasts = true;
    trial.run(&jobs);
    let mut seen = 0;
    for job in jobs.iter().step_by(3) {
        let (reported, begin) = (trial.rows[&job.entry.uid].reported, job.entry.not_before);
        let (Some(reported), Some(begin)) = (reported, begin) else { continue };
        assert!(
            begin <= reported.earliest
                && reported.earliest <= reported.start
                && reported.start <= reported.latest
        );
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn a_job_that_is_refused_says_so_until_it_is_looked_at_again() {
    let mut queue_state = super::world::queue_state();
    let job = super::world::job(1, nodes(1), 0, 10).entry;
    let uid = job.uid;
    queue_state.set_job(uid, Some(std::sync::Arc::new(job)));
    queue_state.refuse(uid, "the checker refused the placement".to_owned(), at(1));
    let why = queue_state.why(uid);
    assert_eq!((why.len(), why[0].code.as_str()), (1, "PlacementRefused"));
}

/// What is foretold without anybody asking: each minute at most, of each job once, and nothing that decides changes.
#[test]
fn forecasts_are_noted_now_and_then_and_held_against_the_starts() {
    let mut trial = Trial::new(super::world::queue_state(), cluster(&[4]));
    let jobs: Vec<TrialJob> =
        (1..=4).map(|number| super::world::job(number, nodes(4), number, 1000)).collect();
    trial.run_until(&jobs[..3], at(3));
    let uid = |number: usize| jobs[number - 1].entry.uid;
    let mut placer = controller_scheduler::Placer::default();
    let (snapshot, before) = (trial.snapshot.clone(), trial.queue_state.clone());
    assert!(trial.queue_state.note_forecast(&snapshot, &mut placer, at(5)));
    assert!(!trial.queue_state.is_predicted(uid(1)), "it runs");
    assert!(trial.queue_state.is_predicted(uid(2)) && trial.queue_state.is_predicted(uid(3)));
    for number in [2, 3] {
        assert_eq!(
            trial.queue_state.eta(uid(number)),
            before.eta(uid(number)),
            "what people see is as the pass left it"
        );
    }
    // Another one comes: it is noted when a minute is over, and the others are not noted again.
    trial.queue_state.set_job(uid(4), Some(std::sync::Arc::new(jobs[3].entry.clone())));
    assert!(!trial.queue_state.note_forecast(&snapshot, &mut placer, at(64)));
    assert!(
        trial.queue_state.note_forecast(&snapshot, &mut placer, at(65))
            && trial.queue_state.is_predicted(uid(4))
    );
    assert!(!trial.queue_state.note_forecast(&snapshot, &mut placer, at(200)), "nobody is new");
    // Who goes without a start teaches nothing; who starts is done with.
    trial.queue_state.set_job(uid(4), None);
    trial.run_until(&[], at(1002));
    assert!(
        !trial.queue_state.is_predicted(uid(4))
            && !trial.queue_state.is_predicted(uid(2))
            && trial.queue_state.is_predicted(uid(3))
    );
}
