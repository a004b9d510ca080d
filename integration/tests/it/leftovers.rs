//! What must not be left behind or lying about: control groups after a cluster is down, tokens in logs and arguments.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use integration_harness::{Cluster, Shape, eventually, procfs};

const SOON: Duration = Duration::from_secs(60);

/// Control groups whose name has `part` in it.
fn groups(part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().contains(part) {
                    found.push(entry.path());
                }
                open.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn a_cluster_that_is_taken_down_leaves_no_control_group() {
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 1, gpus: 1, ..Shape::default() }).unwrap();
    if !cluster.dir().join("n0/cgroups").exists() {
        eprintln!("skipped: no control groups can be made here");
        return;
    }
    let spec = |seconds: u32| {
        format!(
            "gang: {{nodes: 2, gpusPerNode: 1}}\ngracePeriod: 1s\ncommand: {{argv: [sleep, '{seconds}']}}"
        )
    };
    cluster.submit("over", &spec(0)).unwrap();
    let over = cluster.wait_for("over", &["COMPLETED"], SOON).unwrap();
    cluster.submit("runs", &spec(600)).unwrap();
    let runs = cluster.wait_for("runs", &["RUNNING"], SOON).unwrap();
    let uid = |job: &serde_json::Value| job["metadata"]["uid"].as_str().unwrap().to_owned();
    let (over, runs) = (uid(&over), uid(&runs));
    // A running job's ranks are about to be started.
    let servers = || -> BTreeSet<_> {
        groups(&runs).iter().map(|group| group.file_name().unwrap().to_owned()).collect()
    };
    let made = || (servers().len() == 2).then_some(());
    eventually("a control group on each server", SOON, made).unwrap();
    // What a supervisor and an agent that were killed would have left, in each hierarchy.
    let around: BTreeSet<_> = groups(&runs).iter().map(|group| group.parent().unwrap().to_owned()).collect();
    for folder in &around {
        fs::create_dir(folder.join(format!("n0.{over}.1"))).unwrap();
    }
    let dir = cluster.dir().display().to_string();
    let answer = cluster.railctl(&["dev", "down", "--name", cluster.name(), "--dir", &dir]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert_eq!((groups(&runs), groups(&over)), (vec![], vec![]));
}

fn logs(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            logs(&path, found);
        } else if path.extension().is_some_and(|end| end == "log") {
            found.push(path);
        }
    }
}

#[test]
fn no_token_and_no_key_is_in_the_logs_or_arguments_of_a_talkative_cluster() {
    let env = ["RAIL_LOG", "RAIL_CONTROLLER_LOG_LEVEL"].map(|name| (name.to_owned(), "trace".to_owned()));
    let env = env.to_vec();
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 1, gpus: 1, env, ..Shape::default() }).unwrap();
    let spec = "gang: {nodes: 2, gpusPerNode: 1}\ncommand: {argv: [sh, -c, 'env; sleep 600']}";
    cluster.submit("open", spec).unwrap();
    cluster.wait_for("open", &["RUNNING"], SOON).unwrap();
    let mut keys = vec!["rail-join-v1.".to_owned(), "rail-user-v1.".to_owned(), "PRIVATE KEY".to_owned()];
    for file in ["controller/admin.key", "n0/identity/node.key", "n1/identity/node.key"] {
        let pem = fs::read_to_string(cluster.dir().join(file)).unwrap();
        keys.push(pem.lines().nth(1).unwrap().to_owned());
    }
    let mut places = Vec::new();
    logs(&cluster.dir(), &mut places);
    let named = |end: &str| places.iter().filter(|path| path.ends_with(end)).count();
    assert!(named("engine.log") == 2 && named("rank-0.log") == 1 && places.len() >= 7, "{places:?}");
    let talk = fs::read_to_string(cluster.dir().join("log/controller.log")).unwrap_or_default();
    assert!(talk.contains("TRACE"), "the controller says all that it can");
    let pids = procfs::find(&[&cluster.dir().display().to_string()]);
    assert!(pids.len() >= 7, "controller, agents, supervisors, engines: {pids:?}");
    places.extend(pids.iter().map(|pid| format!("/proc/{pid}/cmdline").into()));
    for place in places {
        let text = String::from_utf8_lossy(&fs::read(&place).unwrap_or_default()).into_owned();
        for key in &keys {
            assert!(!text.contains(key), "{} holds {key:.16}...", place.display());
        }
    }
}
