//! kill -9 of each process while it matters.

use std::{path::Path, time::Duration};

use integration_harness::{Cluster, Shape, eventually, procfs};

const SOON: Duration = Duration::from_secs(60);

/// Ids of the cluster's own processes whose command line has all of `words`.
fn processes(cluster: &Cluster, words: &[&str]) -> Vec<i32> {
    let dir = cluster.dir().display().to_string();
    let mut all = words.to_vec();
    all.push(&dir);
    procfs::find(&all)
}

/// Waits until `count` ranks of a job have written `NAME-RANK PID` into `log`, and gives their process ids.
fn rank_processes(log: &Path, name: &str, count: usize) -> Vec<i32> {
    let written = || {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with(&format!("{name}-")));
        (lines.count() == count).then_some(())
    };
    eventually("the ranks to write a line each", SOON, written).unwrap();
    // What a rank knows as its process id is that of its own namespace.
    let ranks =
        procfs::find_parents(&["/bin/sh -c", &format!("echo {name}-$RANK"), &log.display().to_string()]);
    assert_eq!(ranks.len(), count, "{ranks:?}");
    ranks
}

#[test]
fn a_killed_controller_loses_no_job_and_disturbs_none() {
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
    let gate = cluster.home().join("gate");
    let log = cluster.home().join("ran");
    // Each attempt appends a line, so that a second run of the same job would show.
    let script = |name: &str| {
        format!(
            "gang: {{nodes: 2, gpusPerNode: 1}}\ncommand: {{argv: [/bin/sh, -c, 'echo {name}-$RANK $$ >> {}; while ! test -e {}; do sleep 0.05; done']}}",
            log.display(),
            gate.display()
        )
    };
    cluster.submit("first", &script("first")).unwrap();
    cluster.wait_for("first", &["RUNNING"], SOON).unwrap();
    for index in 0..20 {
        cluster.submit(&format!("queued{index}"), &script(&format!("queued{index}"))).unwrap();
    }
    let ranks = rank_processes(&log, "first", 2);
    let controllers = processes(&cluster, &["rail-controller", "run"]);
    assert_eq!(controllers.len(), 1, "{controllers:?}");
    procfs::kill(controllers[0]).unwrap();
    cluster.revive().unwrap();
    let jobs = eventually("the controller to answer", SOON, || cluster.json(&["get", "jobs"]).ok()).unwrap();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 21);
    assert_eq!(cluster.job("first").unwrap()["status"]["phase"], "RUNNING");
    assert!(ranks.iter().all(|rank| procfs::lives(*rank)), "the running job was not disturbed");
    assert_eq!(rank_processes(&log, "first", 2), ranks, "nor started again");
    std::fs::write(&gate, "").unwrap();
    for name in (0..20).map(|index| format!("queued{index}")).chain(["first".to_owned()]) {
        let job = cluster.wait_for(&name, &["COMPLETED", "FAILED", "CANCELLED"], SOON).unwrap();
        assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}");
    }
    let ran = std::fs::read_to_string(&log).unwrap();
    let mut lines: Vec<&str> = ran.lines().filter_map(|line| Some(line.split_once(' ')?.0)).collect();
    lines.sort_unstable();
    let total = lines.len();
    lines.dedup();
    assert_eq!((total, lines.len()), (42, 42), "each rank of each job ran exactly once");
}

#[test]
fn a_killed_agent_finds_its_ranks_again_and_their_exit_codes() {
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
    let gate = cluster.home().join("gate");
    let log = cluster.home().join("ran");
    let spec = format!(
        "gang: {{nodes: 2, gpusPerNode: 1}}\ncommand: {{argv: [/bin/sh, -c, 'echo orphan-$RANK $$ >> {}; while ! test -e {}; do sleep 0.05; done; exit $((RANK * 5))']}}",
        log.display(),
        gate.display()
    );
    cluster.submit("orphan", &spec).unwrap();
    cluster.wait_for("orphan", &["RUNNING"], SOON).unwrap();
    let ranks = rank_processes(&log, "orphan", 2);
    let agents = processes(&cluster, &["rail-node-agent", "run"]);
    assert_eq!(agents.len(), 2, "{agents:?}");
    for agent in agents {
        procfs::kill(agent).unwrap();
    }
    assert!(ranks.iter().all(|rank| procfs::lives(*rank)), "ranks live on without their agents");
    // They end while nobody is there to see it.
    std::fs::write(&gate, "").unwrap();
    let gone = || ranks.iter().all(|rank| !procfs::lives(*rank)).then_some(());
    eventually("the ranks to end", SOON, gone).unwrap();
    cluster.revive().unwrap();
    let job = cluster.wait_for("orphan", &["COMPLETED", "FAILED", "CANCELLED"], SOON).unwrap();
    assert_eq!(job["status"]["phase"], "FAILED", "{job:#}");
    let exits = job["status"]["exits"].as_array().unwrap();
    assert!(exits.iter().any(|exit| exit["rank"] == 1 && exit["code"] == 5), "{job:#}");
}

#[test]
fn a_killed_engine_fails_the_job_everywhere_at_once() {
    // That a node is silent ends no job within the test.
    let env = vec![("RAIL_CONTROLLER_HEARTBEAT_LIMIT".to_owned(), "10m".to_owned())];
    let cluster = Cluster::up(&Shape { nodes: 3, rails: 2, gpus: 1, env, ..Shape::default() }).unwrap();
    let spec = "gang: {nodes: 3, gpusPerNode: 1}\ngracePeriod: 1s\ncommand: {argv: [sleep, '600']}";
    cluster.submit("lame", spec).unwrap();
    cluster.wait_for("lame", &["RUNNING"], SOON).unwrap();
    let engines = processes(&cluster, &["rail-engine", "run"]);
    assert_eq!(engines.len(), 3, "{engines:?}");
    procfs::kill(engines[0]).unwrap();
    let job = cluster.wait_for("lame", &["FAILED"], SOON).unwrap();
    assert!(job["status"]["reasons"].to_string().contains("Engine"), "the cause is named: {job:#}");
    assert_eq!(processes(&cluster, &["rail-engine", "run"]), Vec::<i32>::new());
}

#[test]
fn a_job_that_lost_an_engine_is_queued_again_where_its_policy_says_so() {
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
    let gate = cluster.home().join("gate");
    let spec = format!(
        "gang: {{nodes: 2, gpusPerNode: 1}}\ngracePeriod: 1s\nfailure: {{requeue: ON_INFRASTRUCTURE, maxRestarts: 2}}\ncommand: {{argv: [/bin/sh, -c, 'while ! test -e {}; do sleep 0.05; done']}}",
        gate.display()
    );
    cluster.submit("again", &spec).unwrap();
    cluster.wait_for("again", &["RUNNING"], SOON).unwrap();
    procfs::kill(processes(&cluster, &["rail-engine", "run"])[0]).unwrap();
    let running_again = || {
        cluster
            .job("again")
            .ok()
            .filter(|job| job["status"]["attempt"] == 2 && job["status"]["phase"] == "RUNNING")
    };
    eventually("the second attempt", SOON, running_again)
        .map_err(|error| format!("{error}\n{}", cluster.logs()))
        .unwrap();
    std::fs::write(&gate, "").unwrap();
    let job = cluster.wait_for("again", &["COMPLETED", "FAILED"], SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}");
}

/// What was so is told by the controller's successor as by itself, to the word: also once it is so no more.
#[test]
fn a_controller_that_starts_anew_explains_the_past() {
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, ..Shape::default() }).unwrap();
    let gate = cluster.home().join("gate");
    let spec = format!(
        "gang: {{nodes: 1, gpusPerNode: 1}}\ncommand: {{argv: [/bin/sh, -c, 'while ! test -e {}; do sleep 0.05; done']}}",
        gate.display()
    );
    cluster.submit("holder", &spec).unwrap();
    cluster.wait_for("holder", &["RUNNING"], SOON).unwrap();
    cluster.submit("waiter", &spec).unwrap();
    let now = || {
        let now = std::process::Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%S.%NZ"]).output().unwrap();
        String::from_utf8(now.stdout).unwrap().trim().to_owned()
    };
    let explain = |job: &str, at: &str| cluster.json(&["explain", "job", job, "--at", at]);
    let waits = || {
        let at = now();
        let reported = explain("waiter", &at).ok()?;
        reported["reasons"].to_string().contains("GangCapacity").then_some((at, reported))
    };
    let (then, before) = eventually("the reasons to be recorded", SOON, waits).unwrap();
    assert_eq!(before["phase"], "PENDING", "{before:#}");
    let held = explain("holder", &then).unwrap();

    let restart = || {
        let controllers = processes(&cluster, &["rail-controller", "run"]);
        assert_eq!(controllers.len(), 1, "{controllers:?}");
        procfs::kill(controllers[0]).unwrap();
        cluster.revive().unwrap();
    };
    restart();
    let again = eventually("the controller to answer", SOON, || explain("waiter", &then).ok()).unwrap();
    assert_eq!(again, before);
    std::fs::write(&gate, "").unwrap();
    cluster.wait_for("waiter", &["COMPLETED"], SOON).unwrap();
    let later = now();
    restart();
    eventually("the controller to answer", SOON, || explain("waiter", &later).ok()).unwrap();
    assert_eq!((explain("waiter", &then).unwrap(), explain("holder", &then).unwrap()), (before, held));
    let reported = explain("waiter", &later).unwrap();
    assert_eq!(reported["phase"], "COMPLETED", "{reported:#}");
    let placed = reported["decisions"].as_array().unwrap().iter().filter(|one| one["nodes"] == 1);
    assert!(placed.count() >= 1, "{reported:#}");
    let early = cluster.railctl(&["explain", "job", "waiter", "--at", "2020-01-01T00:00:00Z"]);
    assert!(early.code == 2 && early.stderr.contains("nothing is recorded"), "{early:?}");
}
