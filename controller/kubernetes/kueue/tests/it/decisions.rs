//! What is decided in cases that can be named.

use controller_kubernetes_kueue::{
    WhenAway,
    check::State,
    decide::{Plan, Step, pause},
    hold::{Hold, Stage},
    names::{HOLD, HoldKey},
};

use crate::cluster::{Cluster, reserve, set, uid, workload};

/// A cluster with one workload that has quota.
pub fn one(pods: u32) -> (Cluster, String) {
    let (mut cluster, uid) = (Cluster::new(), uid(1));
    let mut made = workload(&uid, pods);
    reserve(&mut made, cluster.now);
    cluster.workloads.insert(uid.clone(), made);
    (cluster, uid)
}

pub fn key(cluster: &Cluster, uid: &str) -> HoldKey {
    HoldKey { uid: uid.to_owned(), reserved: cluster.workloads[uid].reserved().unwrap() }
}

/// What is reported next.
pub fn report(cluster: &Cluster, uid: &str, plan: Option<&Plan>) -> (State, String, Option<u32>) {
    let decision = cluster.decide(uid, plan);
    let Step::Report(report) = decision.step else { panic!("{decision:?}") };
    (report.state, report.message, report.requeue_after)
}

/// A hold of this stage for its present reservation.
pub fn hold(cluster: &mut Cluster, uid: &str, stage: Stage) {
    let key = key(cluster, uid);
    let nodes = if stage >= Stage::Preparing { vec!["n1".to_owned(), "n0".into()] } else { Vec::new() };
    let hold = Hold {
        key: key.clone(),
        tenant: "t".into(),
        stage,
        nodes,
        causes: "a cause".into(),
        since: cluster.now,
        version: 1,
    };
    cluster.holds.insert(key, hold);
}

/// Its servers are held, and it is admitted on them.
pub fn admit(cluster: &mut Cluster, uid: &str) {
    hold(cluster, uid, Stage::Runs);
    for _ in 0..2 {
        let step = cluster.decide(uid, None).step;
        cluster.apply(uid, step).unwrap();
    }
    assert_eq!(cluster.decide(uid, None).step, Step::Wait(None));
}

#[test]
fn a_gang_is_planned_held_labelled_and_admitted() {
    let (mut cluster, uid) = one(2);
    let Step::Plan(job) = cluster.decide(&uid, None).step else { panic!() };
    let spec = job.spec.clone().unwrap();
    assert_eq!((spec.gang.unwrap().nodes, spec.placement.unwrap().nodes), (2, vec!["n[0-7]".to_owned()]));
    let Step::Create { key, job: created } = cluster.decide(&uid, Some(&Plan::Fits)).step else { panic!() };
    assert_eq!(created, job);
    hold(&mut cluster, &uid, Stage::Runs);
    let Step::Label(labels) = cluster.decide(&uid, None).step else { panic!() };
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["n0", "n1"]);
    cluster.apply(&uid, Step::Label(labels)).unwrap();
    let Step::Report(ready) = cluster.decide(&uid, None).step else { panic!() };
    let patch = ready.patch();
    let update = &patch["status"]["admissionChecks"][0]["podSetUpdates"][0];
    assert_eq!(update["nodeSelector"][format!("hold.railyard.io/{uid}")], "main");
    // In rank order.
    assert_eq!(
        (&update["annotations"]["railyard.io/nodes"], &update["annotations"][HOLD]),
        (&"n1,n0".into(), &key.name("kueue-").into())
    );
    cluster.apply(&uid, Step::Report(ready)).unwrap();
    assert_eq!(cluster.decide(&uid, None).step, Step::Wait(None));
}

#[test]
fn what_does_not_fit_is_tried_again_later_and_what_never_can_is_rejected() {
    let (mut cluster, uid) = one(2);
    let waits = |start| Plan::Waits { causes: "2 of 4 servers are held".into(), start };
    let (state, message, after) = report(&cluster, &uid, Some(&waits(None)));
    assert_eq!((state, after), (State::Retry, Some(10)));
    assert!(message.contains("2 of 4 servers"), "{message}");
    assert_eq!(report(&cluster, &uid, Some(&waits(Some(cluster.now + 90)))).2, Some(90));
    assert_eq!(report(&cluster, &uid, Some(&waits(Some(cluster.now + 9000)))).2, Some(300));
    // Servers may join.
    let (state, message, after) =
        report(&cluster, &uid, Some(&Plan::Infeasible { causes: "no server has 8 GPUs".into() }));
    assert_eq!((state, after), (State::Retry, Some(300)));
    assert!(message.contains("as the cluster is: no server has 8 GPUs"), "{message}");
    let (state, message, after) =
        report(&cluster, &uid, Some(&Plan::Refused { causes: "no such right".into() }));
    assert_eq!((state, after), (State::Retry, Some(10)));
    assert!(message.contains("no such right"), "{message}");
    let (state, message, _) = report(&cluster, &uid, Some(&Plan::Invalid { causes: "8 components".into() }));
    assert!(state == State::Rejected && message.contains("8 components"), "{message}");
    let pauses: Vec<u32> = (0..7).map(|retries| pause(retries, &cluster.policy)).collect();
    assert_eq!((pauses, pause(40, &cluster.policy)), (vec![10, 20, 40, 80, 160, 300, 300], 300));
    // More servers than Kubernetes has are not asked for: some may be closed at the moment.
    cluster.workloads.get_mut(&uid).unwrap().spec.pod_sets[0].count = 9;
    assert_eq!(report(&cluster, &uid, None).0, State::Retry);
    cluster.workloads.get_mut(&uid).unwrap().spec.pod_sets[0].count = 2000;
    assert_eq!(report(&cluster, &uid, None).0, State::Rejected);
}

#[test]
fn a_hold_that_does_not_come_about_is_given_up() {
    for (stage, limit) in [(Stage::Waiting, 10), (Stage::Preparing, 180)] {
        let (mut cluster, uid) = one(2);
        hold(&mut cluster, &uid, stage);
        assert_eq!(cluster.decide(&uid, None).step, Step::Wait(Some(cluster.now + 5)));
        cluster.now += 5;
        let (state, message, _) = report(&cluster, &uid, None);
        assert_eq!(state, State::Pending, "{message}");
        cluster.now += limit - 5;
        assert_eq!(report(&cluster, &uid, None).0, State::Retry);
        "Retry".clone_into(&mut cluster.workloads.get_mut(&uid).unwrap().status.admission_checks[0].state);
        assert!(matches!(cluster.decide(&uid, None).step, Step::Release { .. }));
    }
}

#[test]
fn a_workload_whose_hold_is_lost_is_queued_again() {
    let (mut cluster, uid) = one(2);
    hold(&mut cluster, &uid, Stage::Over);
    assert_eq!(report(&cluster, &uid, None).0, State::Retry);
    admit(&mut cluster, &uid);
    let key = key(&cluster, &uid);
    cluster.holds.get_mut(&key).unwrap().stage = Stage::Over;
    assert!(matches!(cluster.decide(&uid, None).step, Step::Unlabel(_)));
    cluster.labels.clear();
    let (state, message, _) = report(&cluster, &uid, None);
    assert!(state == State::Retry && message.contains("a cause"), "{message}");
    // Nobody who answers has said so.
    cluster.known = false;
    assert_eq!(cluster.decide(&uid, None).step, Step::Wait(None));
}

#[test]
fn while_nobody_answers_workloads_wait_or_run_without() {
    let (mut cluster, uid) = one(2);
    (cluster.away_since, cluster.known) = (Some(cluster.now), false);
    assert_eq!(cluster.decide(&uid, None).step, Step::Wait(Some(cluster.now + 10)));
    cluster.now += 10;
    assert_eq!(report(&cluster, &uid, None).0, State::Pending);
    cluster.policy.when_away = WhenAway::Open;
    assert_eq!(report(&cluster, &uid, None).0, State::Ready);
    let Step::Report(ready) = cluster.decide(&uid, None).step else { panic!() };
    cluster.apply(&uid, Step::Report(ready)).unwrap();
    (cluster.away_since, cluster.known) = (None, true);
    // It was admitted without a hold, and needs none.
    assert_eq!(cluster.decide(&uid, None).step, Step::Wait(None));
}

#[test]
fn one_that_is_evicted_keeps_its_servers_until_its_pods_are_gone() {
    let (mut cluster, uid) = one(2);
    admit(&mut cluster, &uid);
    let now = cluster.now;
    set(cluster.workloads.get_mut(&uid).unwrap(), "Evicted", true, now);
    assert_eq!(cluster.decide(&uid, None).step, Step::Wait(None));
    cluster.workloads.get_mut(&uid).unwrap().metadata.deletion_timestamp =
        Some("2026-11-30T05:00:00Z".into());
    set(cluster.workloads.get_mut(&uid).unwrap(), "Evicted", false, now);
    assert_eq!(cluster.decide(&uid, None).step, Step::Wait(None));
    set(cluster.workloads.get_mut(&uid).unwrap(), "QuotaReserved", false, now);
    assert!(matches!(cluster.decide(&uid, None).step, Step::Unlabel(_)));
    cluster.labels.clear();
    assert!(matches!(cluster.decide(&uid, None).step, Step::Release { .. }));
}

#[test]
fn nodes_that_kueue_has_chosen_are_held_as_they_are() {
    let (mut cluster, uid) = one(2);
    let assignment = serde_json::json!({"name": "main", "count": 2, "topologyAssignment": {
        "levels": ["kubernetes.io/hostname"], "slices": [{"domainCount": 2,
            "valuesPerLevel": [{"individual": {"prefix": "n", "roots": ["1", "0"]}}], "podCounts": {"universal": 1}}]}});
    let admission = cluster.workloads.get_mut(&uid).unwrap().status.admission.as_mut().unwrap();
    admission.pod_set_assignments = vec![serde_json::from_value(assignment).unwrap()];
    let Step::Plan(job) = cluster.decide(&uid, None).step else { panic!() };
    let named: proto_model::Names =
        proto_model::Names::new(&job.spec.unwrap().placement.unwrap().nodes[0]).unwrap();
    let mut named: Vec<String> = named.iter().map(|name| name.to_string()).collect();
    named.sort();
    assert_eq!(named, ["n0", "n1"]);
    // Kueue may choose others the next time.
    let never = Plan::Infeasible { causes: "n1 is no server".into() };
    assert_eq!(report(&cluster, &uid, Some(&never)).0, State::Retry);
    hold(&mut cluster, &uid, Stage::Runs);
    let Step::Report(ready) = cluster.decide(&uid, None).step else { panic!() };
    let patch = ready.patch();
    let update = &patch["status"]["admissionChecks"][0]["podSetUpdates"][0];
    assert!(ready.state == State::Ready && update["nodeSelector"].is_null(), "{update}");
}

#[test]
fn what_asks_for_nothing_is_admitted_and_what_is_gone_leaves_nothing() {
    let (mut cluster, uid) = one(2);
    cluster.workloads.get_mut(&uid).unwrap().spec.pod_sets[0].template = Default::default();
    assert_eq!(report(&cluster, &uid, None).0, State::Ready);
    hold(&mut cluster, &uid, Stage::Waiting);
    cluster.labels.insert("n3".into(), [(uid.clone(), "main".to_owned())].into());
    cluster.workloads.clear();
    // Labels of what Kubernetes does not have any more need nobody's word.
    cluster.known = false;
    assert!(matches!(cluster.decide(&uid, None).step, Step::Unlabel(_)));
    (cluster.known, cluster.labels) = (true, Default::default());
    assert!(matches!(cluster.decide(&uid, None).step, Step::Release { .. }));
}
