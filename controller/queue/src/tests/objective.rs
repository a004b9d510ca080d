//! What the order of a queue is for, that nobody starves of it, and that it is in the tables alone.

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;
use proto_model::{Objective, Shape};
use proto_random::Random;

use super::world::{at, cluster, job, job_of, nodes, part, policy, queue, queue_state, secs, tenant, uid};
use crate::{
    Policy, QueueDef, QueueState, TenantDef,
    order::Order,
    trial::{Trial, TrialJob},
};

const DAY: u64 = 86_400;

fn mean_wait(seconds: u64) -> Option<Objective> {
    Some(Objective::mean_wait(secs(seconds)))
}

fn large_first(seconds: u64) -> Option<Objective> {
    Some(Objective::large_first(secs(seconds)))
}

fn with(objective: Option<Objective>) -> QueueDef {
    QueueDef { objective, ..QueueDef::default() }
}

fn queued(mut job: TrialJob) -> TrialJob {
    job.entry.queue = Some(queue("q"));
    job
}

/// A long job, a short one, and a large one.
fn three() -> Vec<TrialJob> {
    [job(1, nodes(1), 0, 2 * DAY), job(2, nodes(1), 10, 60), job(3, nodes(4), 20, 2 * DAY)].map(queued).into()
}

fn order(queue_state: &QueueState) -> Vec<u64> {
    let mut order = Order::new(queue_state, std::collections::BTreeSet::new(), at(100), (4, 4));
    let mut found = Vec::new();
    while let Some(entry) = order.next() {
        found.push((1..=9).find(|number| uid(*number) == entry.uid).unwrap());
    }
    found
}

fn filled(objective: Option<Objective>) -> QueueState {
    let mut queue_state = queue_state();
    queue_state.set_queue(&tenant("t"), &queue("q"), Some(with(objective)));
    for job in three() {
        queue_state.set_job(job.entry.uid, Some(Arc::new(job.entry)));
    }
    queue_state
}

#[test]
fn each_objective_has_its_order() {
    assert_eq!(order(&filled(None)), [1, 2, 3]);
    assert_eq!(order(&filled(Some(Objective::Fair))), [1, 2, 3]);
    assert_eq!(order(&filled(mean_wait(DAY))), [2, 1, 3]);
    assert_eq!(order(&filled(large_first(DAY))), [3, 1, 2]);
    // A job is worth no more than its objective's patience.
    assert_eq!(order(&filled(mean_wait(1))), [1, 2, 3]);
    assert_eq!(order(&filled(large_first(16))), [1, 2, 3]);
}

fn by_work(objective: Option<Objective>, gpu_hours: u32) -> Option<Objective> {
    objective.map(|objective| objective.with_gpu_hours(Some(gpu_hours)))
}

/// By GPU-hours the delay is the patience times the square of the part that a job asks for, and no more than the patience.
#[test]
fn gpu_hours_put_back_by_their_square() {
    let delay = |objective: Option<Objective>, asked: u32, hours: u64| {
        let queue_state = QueueState::new(Policy { objective, ..policy() });
        let entry = job(1, nodes(asked), 7, hours * 3600).entry;
        queue_state.turn_of(&entry).since(entry.submitted)
    };
    // Nodes of four GPUs.
    let mean = |gpu_hours| by_work(mean_wait(DAY), gpu_hours);
    let found = [2, 4, 8, 16].map(|nodes| delay(mean(64), nodes, 2));
    assert_eq!(found, [DAY / 16, DAY / 4, DAY, DAY].map(secs));
    // The largest that may be said: less than a millionth part is nothing.
    assert_eq!(delay(mean(Objective::GPU_HOURS_MAX), 1, 2), Duration::ZERO);
    // Beside the delay by GPUs: a job of four is two doublings ahead of one of a single GPU.
    let large = |gpu_hours| by_work(large_first(DAY), gpu_hours);
    assert_eq!(delay(large(32), 1, 2), secs(DAY / 16 * 14 + DAY / 16));
    assert_eq!(delay(large(16), 1, 2), secs(DAY), "at most by the patience");
    assert_eq!(order(&filled(by_work(mean_wait(DAY), 1000))), [2, 1, 3]);
    assert_eq!(order(&filled(by_work(large_first(DAY), 1_000_000))), [3, 1, 2]);
}

#[test]
fn the_nearest_queue_that_says_an_objective_counts_and_at_last_the_policy() {
    let mut queue_state = QueueState::new(Policy { objective: mean_wait(DAY), ..policy() });
    queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
    queue_state.set_queue(&tenant("t"), &queue("top"), Some(with(large_first(DAY))));
    let below = QueueDef { parent: Some(queue("top")), ..with(None) };
    queue_state.set_queue(&tenant("t"), &queue("q"), Some(below.clone()));
    for job in three() {
        queue_state.set_job(job.entry.uid, Some(Arc::new(job.entry)));
    }
    assert_eq!(order(&queue_state), [3, 1, 2], "the queue above it");
    queue_state.set_queue(
        &tenant("t"),
        &queue("q"),
        Some(QueueDef { objective: Some(Objective::Fair), ..below }),
    );
    assert_eq!(order(&queue_state), [1, 2, 3], "its own");
    queue_state.set_queue(&tenant("t"), &queue("q"), Some(with(None)));
    assert_eq!(order(&queue_state), [2, 1, 3], "the policy");
}

/// An objective that changes while jobs wait: they stand as if they had come after the change, and can be taken away.
#[test]
fn a_change_of_the_objective_moves_who_waits() {
    let mut queue_state = filled(None);
    for objective in [mean_wait(DAY), large_first(DAY), Some(Objective::Fair), None, large_first(DAY)] {
        queue_state.set_queue(&tenant("t"), &queue("q"), Some(with(objective)));
        assert_eq!(queue_state, filled(objective), "{objective:?}");
    }
    queue_state.set_tenant(&tenant("t"), None);
    for number in 1..=3 {
        queue_state.set_job(uid(number), None);
    }
    assert_eq!(queue_state.waiting(), 0, "no job is left behind in a row");
}

proptest! {
    /// Nobody starves: who came earlier by more than the patience stands ahead, whatever the two are.
    #[test]
    fn nobody_is_passed_by_who_comes_later_than_the_patience(
        patience in 1_u64..90 * DAY,
        is_mean in any::<bool>(),
        first in (1_u32..64, 1_u64..200 * DAY, 0_u64..DAY),
        second in (1_u32..64, 1_u64..200 * DAY, 1_u64..DAY),
        head_start in 0_u64..DAY,
        gpu_hours in proptest::option::of(1_u32..100_000),
    ) {
        let objective = if is_mean { mean_wait(patience) } else { large_first(patience) };
        let objective = objective.map(|objective| objective.with_gpu_hours(gpu_hours));
        let mut queue_state = QueueState::new(Policy { objective, head_start: secs(head_start), ..policy() });
        queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
        // A head start counts for the order by length too.
        let ahead = if is_mean { head_start * 24 } else { 0 };
        let later = first.2 + patience + ahead + second.2;
        let (one, two) = (job(1, nodes(first.0), first.2, first.1), job(2, nodes(second.0), later, second.1));
        let gap = queue_state.turn_of(&two.entry).since(queue_state.turn_of(&one.entry));
        prop_assert!(gap > Duration::ZERO);
        // And no turn is before its submit.
        prop_assert!(queue_state.turn_of(&one.entry) >= one.entry.submitted);
    }
}

/// Limits, guarantees and rights are those of the checkers whatever the order is for; and all jobs end.
#[test]
fn guarantees_and_limits_hold_under_every_objective() {
    for seed in 0..24 {
        let mut dice = Random::new(seed);
        let mut drawn = || match dice.below(6) {
            0 => None,
            1 => Some(Objective::Fair),
            2 => mean_wait(1 + dice.below(2000)),
            3 => large_first(16 + dice.below(2000)),
            4 => by_work(mean_wait(1 + dice.below(2000)), 1 + dice.below(4) as u32),
            _ => by_work(large_first(16 + dice.below(2000)), 1 + dice.below(4) as u32),
        };
        let objectives = [drawn(), drawn(), drawn()];
        let mut queue_state =
            QueueState::new(Policy { objective: objectives[0], grow_after: None, ..policy() });
        let guaranteed = Shape { nodes: 3, ..Shape::default() };
        queue_state.set_tenant(&tenant("a"), Some(TenantDef { guaranteed, ..TenantDef::default() }));
        queue_state.set_tenant(&tenant("b"), Some(TenantDef { limit: Some(32), ..TenantDef::default() }));
        queue_state.set_queue(&tenant("b"), &queue("x"), Some(with(objectives[1])));
        let limited = QueueDef { limit: Some(16), ..with(objectives[2]) };
        queue_state.set_queue(&tenant("b"), &queue("y"), Some(limited));
        let mut jobs = Vec::new();
        let mut now = 0;
        for number in 1..=80 {
            now += dice.below(40);
            let who = if dice.below(3) == 0 { "a" } else { "b" };
            let need = if dice.below(3) == 0 {
                part(1 + dice.below(3) as u32)
            } else {
                nodes(1 + dice.below(3) as u32)
            };
            let mut job = job_of(who, number, need, now, 5 + dice.below(300));
            job.entry.priority = [0, 0, 0, 5][dice.below(4) as usize];
            if who == "b" {
                job.entry.queue = [None, Some(queue("x")), Some(queue("y"))][dice.below(3) as usize].clone();
            }
            jobs.push(job);
        }
        let mut trial = Trial::new(queue_state, cluster(&[4, 4]));
        trial.run(&jobs);
        assert_eq!(trial.faults, Vec::<String>::new(), "seed {seed}, {objectives:?}");
        assert!(trial.rows.values().all(|row| row.end.is_some()), "seed {seed}");
    }
}
