//! What is decided of gangs that run, and of names that others have taken.

use controller_kubernetes_kueue::{
    check::State,
    decide::{Plan, Step},
    hold::{Hold, Stage},
    workload::CheckState,
};
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    decisions::{admit, hold, key, one, report},
};

fn change(cluster: &mut Cluster, uid: &str, change: impl FnOnce(&mut Hold)) {
    let key = key(cluster, uid);
    change(cluster.holds.get_mut(&key).unwrap());
}

/// Labels go, and the check becomes Retry with this cause; what the gang holds stays until Kueue has taken its quota back.
fn is_lost(cluster: &mut Cluster, uid: &str, cause: &str) {
    let Step::Unlabel(nodes) = cluster.decide(uid, None).step else { panic!("labels stay") };
    cluster.apply(uid, Step::Unlabel(nodes)).unwrap();
    let (state, message, _) = report(cluster, uid, None);
    assert!(state == State::Retry && message.contains(cause), "{message}");
    let step = cluster.decide(uid, None).step;
    cluster.apply(uid, step).unwrap();
    assert_eq!(cluster.decide(uid, None).step, Step::Wait(None));
}

#[test]
fn a_gang_whose_allocation_waits_again_or_has_moved_is_queued_again() {
    let (mut cluster, uid) = one(2);
    admit(&mut cluster, &uid);
    change(&mut cluster, &uid, |hold| hold.stage = Stage::Waiting);
    is_lost(&mut cluster, &uid, "waits for servers again");
    for stage in [Stage::Preparing, Stage::Runs] {
        let (mut cluster, uid) = one(2);
        admit(&mut cluster, &uid);
        change(&mut cluster, &uid, |hold| hold.stage = stage);
        assert_eq!(cluster.decide(&uid, None).step, Step::Wait(None));
        change(&mut cluster, &uid, |hold| hold.nodes = vec!["n1".into(), "n4".into()]);
        is_lost(&mut cluster, &uid, "n1,n4");
    }
}

#[test]
fn what_pods_were_told_stays_however_the_workload_changes() {
    let (mut cluster, uid) = one(2);
    admit(&mut cluster, &uid);
    let one = cluster.workloads.get_mut(&uid).unwrap();
    for (name, value) in [("railyard.io/pods-per-node", "2"), ("railyard.io/within", "nowhere")] {
        one.metadata.annotations.insert(name.into(), value.into());
    }
    assert_eq!(cluster.decide(&uid, None).step, Step::Wait(None));
    // Kueue chooses nodes, of those with the label, once all checks are Ready.
    let one = cluster.workloads.get_mut(&uid).unwrap();
    one.metadata.annotations.clear();
    let assignment = json!({"name": "main", "count": 2, "topologyAssignment": {
        "levels": ["kubernetes.io/hostname"], "slices": [{"domainCount": 2,
            "valuesPerLevel": [{"individual": {"prefix": "n", "roots": ["0", "1"]}}], "podCounts": {"universal": 1}}]}});
    one.status.admission.as_mut().unwrap().pod_set_assignments =
        vec![serde_json::from_value(assignment).unwrap()];
    assert_eq!(cluster.decide(&uid, None).step, Step::Wait(None));
}

#[test]
fn an_allocation_of_another_tenant_is_not_used_and_stops_nobody() {
    let (mut cluster, uid) = one(2);
    hold(&mut cluster, &uid, Stage::Runs);
    cluster.tenant = "other".into();
    assert!(matches!(cluster.decide(&uid, None).step, Step::Plan(_)));
    assert!(matches!(cluster.decide(&uid, Some(&Plan::Fits)).step, Step::Create { .. }));
    // Whoever has no workload of this name leaves nothing there.
    cluster.workloads.clear();
    assert!(matches!(cluster.decide(&uid, None).step, Step::Release { .. }));
    // Pods that run go on where their namespace gets another tenant.
    let (mut cluster, uid) = one(2);
    admit(&mut cluster, &uid);
    cluster.tenant = "other".into();
    assert_eq!(cluster.decide(&uid, None).step, Step::Wait(None));
    change(&mut cluster, &uid, |hold| hold.nodes = vec!["n1".into(), "n4".into()]);
    is_lost(&mut cluster, &uid, "not there any more");
}

#[test]
fn servers_that_are_no_nodes_are_said_and_given_back() {
    let (mut cluster, uid) = one(2);
    hold(&mut cluster, &uid, Stage::Runs);
    cluster.absent = ["n1".to_owned()].into();
    let Step::Label(labels) = cluster.decide(&uid, None).step else { panic!() };
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["n0"]);
    cluster.apply(&uid, Step::Label(labels)).unwrap();
    let (state, message, after) = report(&cluster, &uid, None);
    assert_eq!((state, after), (State::Retry, Some(10)));
    assert!(message.contains("holds n1, and Kubernetes has no such node"), "{message}");
    // A gang that runs goes on without a node that is gone.
    let (mut cluster, uid) = one(2);
    admit(&mut cluster, &uid);
    cluster.labels.remove("n1");
    cluster.absent = ["n1".to_owned()].into();
    assert_eq!(cluster.decide(&uid, None).step, Step::Wait(None));
}

#[test]
fn all_of_our_checks_are_written() {
    let (mut cluster, uid) = one(2);
    cluster.checks.insert("also".into());
    let also = CheckState { name: "also".into(), state: "Pending".into(), ..CheckState::default() };
    let made = cluster.workloads.get_mut(&uid).unwrap();
    made.status.admission_checks.push(also);
    made.status.admission_checks[0].state = "Ready".into();
    hold(&mut cluster, &uid, Stage::Runs);
    let Step::Label(labels) = cluster.decide(&uid, None).step else { panic!() };
    cluster.apply(&uid, Step::Label(labels)).unwrap();
    let Step::Report(ready) = cluster.decide(&uid, None).step else { panic!() };
    let patch = ready.patch();
    let of = |at: usize| {
        let check = &patch["status"]["admissionChecks"][at];
        let updates = check["podSetUpdates"].as_array().map_or(9, Vec::len);
        (check["name"].clone(), check["state"].clone(), updates)
    };
    let expected = |name: &str, updates: usize| (Value::from(name), Value::from("Ready"), updates);
    assert_eq!((of(0), of(1)), (expected("also", 1), expected("railyard", 0)));
    // One that says Retry is enough for Kueue to take the quota back.
    cluster.workloads.get_mut(&uid).unwrap().status.admission_checks[1].state = "Retry".into();
    assert!(matches!(cluster.decide(&uid, None).step, Step::Unlabel(_)));
}
