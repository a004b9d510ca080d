//! Random worlds: workloads come, are evicted, end and are deleted; allocations fail; nobody answers; and whoever works on a workload dies between
//! any two steps. What must hold is looked at after every step, and what must come about when the world is quiet.

use controller_kubernetes_kueue::{
    decide::Step,
    hold::{Hold, Stage},
};
use proto_random::Random;

use crate::cluster::{Cluster, reserve, set, uid, unreserve, workload};

const WORLDS: u64 = 400;
const EVENTS: usize = 300;
const STEPS: usize = 32;
const WORKLOADS: usize = 6;

#[test]
fn no_workload_holds_twice_and_none_that_is_gone_leaves_anything() {
    for seed in 0..WORLDS {
        let (mut cluster, mut random) = (Cluster::new(), Random::new(seed));
        for event in 0..EVENTS {
            happen(&mut cluster, &mut random);
            let at = uid(random.index(WORKLOADS));
            // One in three dies on the way.
            let lives = if random.below(3) == 0 { random.index(4) } else { STEPS };
            pass(&mut cluster, &at, lives, &format!("seed {seed}, event {event}"));
        }
        quiet(&mut cluster, seed);
    }
}

/// One pass of a worker that lives for so many steps.
fn pass(cluster: &mut Cluster, uid: &str, lives: usize, context: &str) {
    let mut plan = None;
    for _ in 0..lives {
        let decision = cluster.decide(uid, plan.as_ref());
        check(cluster, uid, &decision.step, context);
        let is_last = matches!(decision.step, Step::Wait(_) | Step::Report(_));
        let is_plan = matches!(decision.step, Step::Plan(_));
        let Ok(answer) = cluster.apply(uid, decision.step) else { return };
        plan = if is_plan { answer } else { None };
        let live = cluster.holds_of(uid).iter().filter(|hold| hold.stage != Stage::Over).count();
        assert!(live <= 1, "{context}: {live} allocations for {uid}");
        if is_last {
            return;
        }
    }
    assert!(lives < STEPS, "{context}: the pass over {uid} does not end");
}

/// What no step may do.
fn check(cluster: &Cluster, uid: &str, step: &Step, context: &str) {
    let present = cluster.workloads.get(uid).filter(|one| one.is_present());
    let state = present.and_then(|one| one.status.admission_checks.first()).map(|check| check.state.as_str());
    let runs = matches!(state, Some("Pending" | "Ready"));
    match step {
        Step::Release { key, .. } => {
            let admitted = present.filter(|one| one.is("Admitted"));
            assert!(
                admitted.is_none_or(|one| one.reserved() != Some(key.reserved)),
                "{context}: pods of {uid} may be on what is given back"
            );
            assert!(cluster.known, "{context}: it is not known what is held");
            assert!(cluster.labelled(uid).is_empty(), "{context}: nodes of {uid} still have labels");
            let is_present = present.is_some_and(|one| one.reserved() == Some(key.reserved));
            assert!(!is_present || !runs, "{context}: {uid} may run on what is given back");
        }
        Step::Unlabel(_) => {
            assert!(cluster.known || !runs, "{context}: it is not known what is held for {uid}")
        }
        Step::Create { .. } => {
            assert!(cluster.known && runs, "{context}: nobody needs what is held for {uid}")
        }
        Step::Label(nodes) => {
            let held: Vec<Hold> = cluster.holds_of(uid).into_iter().filter(|hold| hold.is_live()).collect();
            assert!(
                held.iter().any(|hold| nodes.keys().all(|node| hold.nodes.contains(node))),
                "{context}: {nodes:?}"
            );
        }
        Step::Plan(_) | Step::Report(_) | Step::Wait(_) => {}
    }
}

/// Something happens.
fn happen(cluster: &mut Cluster, random: &mut Random) {
    let uid = uid(random.index(WORKLOADS));
    let now = cluster.now;
    let holds: Vec<_> = cluster.holds.keys().cloned().collect();
    let one = (!holds.is_empty()).then(|| holds[random.index(holds.len())].clone());
    match (random.below(16), cluster.workloads.get_mut(&uid), one) {
        (0 | 1, None, _) => {
            let pods = u32::try_from(random.within(1, 5)).unwrap();
            cluster.workloads.insert(uid.clone(), workload(&uid, pods));
        }
        (0..=3, Some(one), _)
            if one.reserved().is_none() && one.spec.active != Some(false) && !one.is("Finished") =>
        {
            reserve(one, now);
        }
        (4, Some(one), _) if one.reserved().is_some() => set(one, "Evicted", true, now),
        (5, Some(one), _) if one.is("Evicted") && one.reserved().is_some() => unreserve(one, now),
        (6, Some(one), _) => set(one, "Finished", true, now),
        (7, Some(one), _) => one.metadata.deletion_timestamp = Some("2026-11-30T05:00:00Z".into()),
        (8, Some(one), _) if one.metadata.deletion_timestamp.is_some() => {
            cluster.workloads.remove(&uid);
        }
        (9..=11, _, Some(key)) => cluster.progress(&key),
        (12, _, Some(key)) if random.below(4) == 0 => cluster.requeue(&key),
        (12, _, Some(key)) if random.below(3) == 0 => {
            if let Some(hold) = cluster.holds.get_mut(&key) {
                hold.stage = if random.below(2) == 0 { Stage::Over } else { hold.stage.max(Stage::Ending) };
            }
        }
        (13, _, _) => match cluster.away_since {
            Some(_) => cluster.away_since = None,
            None if random.below(4) == 0 => cluster.away_since = Some(now),
            None => {}
        },
        (14, _, _) => cluster.known = cluster.away_since.is_none() && (cluster.known || random.below(2) == 0),
        (15, _, _) if random.below(8) == 0 => cluster.known = false,
        _ => cluster.now += random.within(0, 4),
    }
    cluster.kueue(&uid);
}

/// Nothing happens any more: all comes to its end, and stays so.
fn quiet(cluster: &mut Cluster, seed: u64) {
    (cluster.away_since, cluster.known) = (None, true);
    for round in 0..80 {
        for at in 0..WORKLOADS {
            let uid = uid(at);
            pass(cluster, &uid, STEPS, &format!("seed {seed}, quiet round {round}"));
            cluster.kueue(&uid);
        }
        for key in cluster.holds.keys().cloned().collect::<Vec<_>>() {
            cluster.progress(&key);
        }
        cluster.now += 5;
    }
    for at in 0..WORKLOADS {
        let uid = uid(at);
        let live: Vec<Hold> =
            cluster.holds_of(&uid).into_iter().filter(|hold| hold.stage != Stage::Over).collect();
        let labels = cluster.labelled(&uid);
        let Some(one) = cluster.workloads.get(&uid).filter(|one| one.is_present()) else {
            assert!(
                live.is_empty() && labels.is_empty(),
                "seed {seed}: {uid} is gone, and leaves {live:?} {labels:?}"
            );
            continue;
        };
        let check = &one.status.admission_checks[0];
        let evicted = one.is("Evicted") || one.metadata.deletion_timestamp.is_some();
        assert!(
            evicted || check.state == "Ready",
            "seed {seed}: {uid} is {} in the end: {}",
            check.state,
            check.message
        );
        if check.state == "Ready" && check.pod_set_updates.is_empty() {
            continue;
        }
        if !evicted {
            let said = &check.pod_set_updates[0].annotations["railyard.io/nodes"];
            let nodes: Vec<String> = live.iter().flat_map(|hold| hold.nodes.clone()).collect();
            let mut sorted = nodes.clone();
            sorted.sort();
            assert_eq!(labels.keys().cloned().collect::<Vec<_>>(), sorted, "seed {seed}: {uid}");
            assert_eq!(said, &nodes.join(","), "seed {seed}: {uid} runs on other servers than are held");
            assert!(!nodes.is_empty(), "seed {seed}: {uid} runs on nothing");
        }
    }
}
