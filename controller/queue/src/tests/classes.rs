//! What users of service classes may have at once, and whether others are stopped for them.

use proto_model::{ClassUser, ServiceClassName};
use proto_random::Random;

use super::world::{at, cluster, job, nodes, part, policy, queue_state, tenant, uid};
use crate::{
    ClassDef, QueueState, TenantDef,
    trial::{Trial, TrialJob},
};

fn name(text: &str) -> ServiceClassName {
    ServiceClassName::new(text).unwrap()
}

fn of(class: &str, user: &str, mut job: TrialJob) -> TrialJob {
    let (class, tenant, user) = (name(class), job.entry.id.tenant.clone(), user.to_owned());
    job.entry.class = Some(ClassUser { class, tenant, admin: false, user });
    job
}

fn def(jobs: Option<u32>, gpus: Option<u32>, preempts: bool) -> ClassDef {
    ClassDef { jobs, gpus, preempts }
}

#[test]
fn a_users_further_job_waits_for_the_end_of_one_and_others_pass() {
    let mut queue_state = queue_state();
    queue_state.set_class(&name("c"), Some(def(Some(1), None, true)));
    let mut trial = Trial::new(queue_state, cluster(&[4]));
    let jobs = [
        of("c", "ann", job(1, nodes(1), 0, 100)),
        of("c", "ann", job(2, nodes(1), 1, 50)),
        of("c", "bob", job(3, nodes(1), 2, 50)),
        of("d", "ann", job(4, nodes(1), 3, 50)),
    ];
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    let starts: Vec<_> = (1..=4).map(|number| trial.rows[&uid(number)].starts[0]).collect();
    assert_eq!(starts, [at(0), at(100), at(2), at(3)]);
}

#[test]
fn gpus_of_a_user_are_counted_over_all_jobs_of_the_class() {
    let mut queue_state = queue_state();
    queue_state.set_class(&name("c"), Some(def(None, Some(6), true)));
    let mut trial = Trial::new(queue_state, cluster(&[4]));
    let jobs = [
        of("c", "ann", job(1, nodes(1), 0, 100)),
        of("c", "ann", job(2, part(3), 1, 50)),
        of("c", "ann", job(3, part(2), 2, 20)),
        // More than the user may ever have.
        of("c", "ann", job(4, nodes(2), 3, 50)),
    ];
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    let starts = |number| trial.rows[&uid(number)].starts.clone();
    assert_eq!((starts(1), starts(2), starts(3)), (vec![at(0)], vec![at(100)], vec![at(2)]));
    assert!(trial.rows.get(&uid(4)).is_none_or(|row| row.starts.is_empty()));
}

#[test]
fn nobody_is_stopped_for_a_class_that_does_not_preempt() {
    for preempts in [true, false] {
        let mut queue_state = queue_state();
        queue_state.set_class(&name("c"), Some(def(None, None, preempts)));
        let mut trial = Trial::new(queue_state, cluster(&[2]));
        let mut low = job(1, nodes(2), 0, 100);
        (low.entry.priority, low.entry.preemption.preemptible) = (-10, true);
        let mut high = of("c", "ann", job(2, nodes(2), 10, 50));
        high.entry.priority = 10;
        trial.run(&[low, high]);
        assert_eq!(trial.faults, Vec::<String>::new());
        let expected = if preempts { at(10) } else { at(100) };
        assert_eq!(trial.rows[&uid(2)].starts, [expected]);
    }
}

fn random(seed: u64) -> Vec<TrialJob> {
    let mut dice = Random::new(seed);
    let mut now = 0;
    let jobs = (0..50).map(|number| {
        now += dice.below(20);
        let need =
            if dice.below(3) == 0 { part(1 + dice.below(3) as u32) } else { nodes(1 + dice.below(2) as u32) };
        let mut job = job(number + 1, need, now, 1 + dice.below(200));
        if dice.below(2) == 0 {
            job.length /= 1 + dice.below(3) as u32;
        }
        job.entry.priority = [0, 0, 0, 5, -5][dice.below(5) as usize];
        job.entry.preemption.preemptible = dice.below(3) == 0;
        let class = ["c", "d", "e", "none"][dice.below(4) as usize];
        let user = ["ann", "bob"][dice.below(2) as usize];
        if class == "none" { job } else { of(class, user, job) }
    });
    jobs.collect()
}

/// The checker of the pass adds up anew, job by job, what every user has.
#[test]
fn limits_of_users_hold_and_every_job_starts() {
    for seed in 0..60 {
        let mut queue_state = QueueState::new(policy());
        queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
        queue_state.set_class(&name("c"), Some(def(Some(1), None, true)));
        queue_state.set_class(&name("d"), Some(def(Some(3), Some(8), false)));
        queue_state.set_class(&name("e"), Some(def(None, Some(9), true)));
        let jobs = random(seed);
        let mut trial = Trial::new(queue_state, cluster(&[3, 3]));
        trial.run(&jobs);
        assert_eq!(trial.faults, Vec::<String>::new(), "seed {seed}");
        for job in &jobs {
            let row = trial.rows.get(&job.entry.uid);
            assert!(
                row.is_some_and(|row| !row.starts.is_empty()),
                "seed {seed}: {} never starts",
                job.entry.id
            );
        }
    }
}
