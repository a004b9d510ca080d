//! What the queue does with jobs of real processes: arrays, dependencies, preemption with grace, elastic sizes,
//! reservations, repair by spares.

use std::time::Duration;

use integration_harness::{Cluster, Shape, eventually, procfs};
use serde_json::Value;

use crate::jobs::number;

const SOON: Duration = Duration::from_secs(60);
const ENDED: [&str; 3] = ["COMPLETED", "FAILED", "CANCELLED"];

fn small(nodes: u32) -> Cluster {
    Cluster::up(&Shape { nodes, rails: 1, gpus: 1, ..Shape::default() }).unwrap()
}

fn phase(cluster: &Cluster, job: &str) -> String {
    let job = cluster.job(job).unwrap_or_default();
    job["status"]["phase"].as_str().unwrap_or("none").to_owned()
}

fn reasons(cluster: &Cluster, job: &str) -> String {
    cluster.job(job).map(|job| job["status"]["reasons"].to_string()).unwrap_or_default()
}

fn nodes(job: &Value) -> Vec<String> {
    let places = job["status"]["placement"]["nodes"].as_array().cloned().unwrap_or_default();
    places.iter().map(|place| place["node"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Ranks that wait until a file is there.
fn until(gate: &std::path::Path) -> String {
    format!("command: {{argv: [/bin/sh, -c, 'while ! test -e {}; do sleep 0.05; done']}}", gate.display())
}

/// Whether an array runs two elements at a time at most, in one submit, and what comes after it waits for all.
#[test]
fn an_array_runs_so_many_at_once_and_its_successor_waits_for_all() {
    let cluster = small(3);
    let log = cluster.home().join("ran");
    let gate = cluster.home().join("gate");
    let script = format!(
        "echo $RAIL_ARRAY_INDEX >> {}; while ! test -e {}; do sleep 0.05; done",
        log.display(),
        gate.display()
    );
    let spec = format!(
        "gang: {{nodes: 1}}\nrails: {{none: true}}\narray: '0-4%2'\ncommand: {{argv: [/bin/sh, -c, '{script}']}}"
    );
    cluster.submit("sweep", &spec).unwrap();
    let tail = "gang: {nodes: 1}\nafter: [{job: sweep, when: SUCCEEDED}]\ncommand: {argv: [/bin/true]}";
    cluster.submit("report", tail).unwrap();
    for name in ["sweep-0", "sweep-1"] {
        cluster.wait_for(name, &["RUNNING"], SOON).unwrap();
    }
    // A third server is free all the time.
    assert_eq!((phase(&cluster, "sweep-2"), phase(&cluster, "report")), ("PENDING".into(), "PENDING".into()));
    assert!(
        reasons(&cluster, "report").contains("until 'sweep' has succeeded"),
        "{}",
        reasons(&cluster, "report")
    );
    std::fs::write(&gate, "").unwrap();
    let job = cluster.wait_for("report", &ENDED, SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", cluster.logs());
    let ran = std::fs::read_to_string(&log).unwrap();
    let mut ran: Vec<&str> = ran.lines().collect();
    ran.sort_unstable();
    assert_eq!(ran, ["0", "1", "2", "3", "4"]);
}

#[test]
fn a_dependency_that_cannot_be_met_ends_the_job_and_circles_are_refused() {
    let cluster = small(1);
    cluster.submit("prepare", "gang: {nodes: 1}\ncommand: {argv: [/bin/false]}").unwrap();
    let after = |job: &str, when: &str| {
        format!("gang: {{nodes: 1}}\nafter: [{{job: {job}, when: {when}}}]\ncommand: {{argv: [/bin/true]}}")
    };
    cluster.submit("train", &after("prepare", "SUCCEEDED")).unwrap();
    cluster.submit("sorry", &after("prepare", "FAILED")).unwrap();
    let train = cluster.wait_for("train", &ENDED, SOON).unwrap();
    assert_eq!(train["status"]["phase"], "FAILED", "{train:#}");
    assert!(train["status"]["reasons"].to_string().contains("'prepare' has failed"), "{train:#}");
    assert_eq!(cluster.wait_for("sorry", &ENDED, SOON).unwrap()["status"]["phase"], "COMPLETED");
    let unknown = cluster.submit("x", &after("prepair", "ENDED")).unwrap_err();
    assert!(unknown.contains("did you mean 'prepare'"), "{unknown}");
    let circle = cluster.submit("x", &after("x", "ENDED")).unwrap_err();
    assert!(circle.contains("wait for itself"), "{circle}");
}

/// The victim is signalled, saves its work, and goes on from there once the urgent job is over.
#[test]
fn a_preempted_job_saves_its_work_and_resumes() {
    let cluster = small(2);
    let (saved, done, gate) =
        (cluster.home().join("saved"), cluster.home().join("done"), cluster.home().join("gate"));
    let script = format!(
        "if test -e {saved}; then echo resumed > {done}; exit 0; fi; trap \"echo step-7 > {saved}; exit 0\" TERM; while :; do sleep 0.05; done",
        saved = saved.display(),
        done = done.display()
    );
    let victim = format!(
        "gang: {{nodes: 2, gpusPerNode: 1}}\npriority: -10\nexpectedDuration: 3600s\npreemption: {{preemptible: true, gracePeriod: 20s}}\ncommand:\n  argv: [/bin/sh, -c, '{script}']"
    );
    cluster.submit("patient", &victim).unwrap();
    cluster.wait_for("patient", &["RUNNING"], SOON).unwrap();
    started(&cluster, "patient");
    cluster
        .submit("urgent", &format!("gang: {{nodes: 2, gpusPerNode: 1}}\npriority: 100\n{}", until(&gate)))
        .unwrap();
    cluster.wait_for("urgent", &["RUNNING"], SOON).unwrap();
    assert_eq!(std::fs::read_to_string(&saved).unwrap().trim(), "step-7", "it was let save its work");
    let job = cluster.job("patient").unwrap();
    assert_eq!(
        (job["status"]["phase"].as_str(), number(&job["status"]["preempted"])),
        (Some("PENDING"), 1),
        "{job:#}"
    );
    assert!(reasons(&cluster, "patient").contains("Preempted"), "{job:#}");
    std::fs::write(&gate, "").unwrap();
    let job = cluster.wait_for("patient", &ENDED, SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", cluster.logs());
    assert_eq!(number(&job["status"]["restarts"]), 0, "a preemption is no failure");
    assert_eq!(std::fs::read_to_string(&done).unwrap().trim(), "resumed");
}

/// A suspended job is signalled, saves its work and waits while another one has its place; resumed, it goes on from there.
#[test]
fn a_suspended_job_saves_its_work_and_goes_on_when_it_is_resumed() {
    let cluster = small(2);
    let (saved, done) = (cluster.home().join("saved"), cluster.home().join("done"));
    let script = format!(
        "if test -e {saved}; then echo resumed > {done}; exit 0; fi; trap \"echo step-7 > {saved}; exit 0\" TERM; while :; do sleep 0.05; done",
        saved = saved.display(),
        done = done.display()
    );
    let gang = "gang: {nodes: 2, gpusPerNode: 1}\n";
    cluster
        .submit("long", &format!("{gang}gracePeriod: 20s\ncommand:\n  argv: [/bin/sh, -c, '{script}']"))
        .unwrap();
    cluster.wait_for("long", &["RUNNING"], SOON).unwrap();
    started(&cluster, "long");
    let answer = cluster.railctl(&["suspend", "job", "long", "--reason", "demo"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let job = cluster.wait_for("long", &["PENDING"], SOON).unwrap();
    assert_eq!(std::fs::read_to_string(&saved).unwrap().trim(), "step-7", "it was let save its work");
    assert!(reasons(&cluster, "long").contains("Suspended"), "{job:#}");
    let reported = cluster.railctl(&["describe", "job", "long"]);
    assert!(reported.stdout.contains("suspended by") && reported.stdout.contains("demo"), "{reported:?}");
    cluster.submit("short", &format!("{gang}command: {{argv: [/bin/true]}}")).unwrap();
    cluster.wait_for("short", &ENDED, SOON).unwrap();
    assert_eq!(cluster.job("long").unwrap()["status"]["phase"], "PENDING");
    let answer = cluster.railctl(&["resume", "job", "long"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let job = cluster.wait_for("long", &ENDED, SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", cluster.logs());
    let status = &job["status"];
    assert_eq!(
        (number(&status["attempt"]), number(&status["restarts"]), number(&status["preempted"])),
        (2, 0, 0)
    );
    assert_eq!(std::fs::read_to_string(&done).unwrap().trim(), "resumed");
    let answer = cluster.railctl(&["requeue", "job", "long"]);
    assert!(answer.code != 0 && answer.stderr.contains("queued again"), "{answer:?}");
}

/// All ranks of a job have been started.
fn started(cluster: &Cluster, job: &str) {
    let is = || cluster.job(job).ok().filter(|job| job["status"]["startTime"].is_string());
    eventually("all ranks to be started", SOON, is).unwrap();
}

#[test]
fn an_elastic_job_starts_with_what_there_is() {
    let cluster = small(3);
    let gate = cluster.home().join("gate");
    cluster
        .submit(
            "other",
            &format!("gang: {{nodes: 1, gpusPerNode: 1}}\nexpectedDuration: 3600s\n{}", until(&gate)),
        )
        .unwrap();
    cluster.wait_for("other", &["RUNNING"], SOON).unwrap();
    let spec = "gang: {nodes: 3, minNodes: 2, gpusPerNode: 1}\ncommand: {argv: [/bin/sh, -c, 'echo $RANK of $WORLD_SIZE']}";
    cluster.submit("elastic", spec).unwrap();
    let job = cluster.wait_for("elastic", &ENDED, SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", cluster.logs());
    assert_eq!(nodes(&job).len(), 2, "{job:#}");
    let log = cluster.railctl(&["logs", "elastic"]);
    assert!(log.stdout.contains("0 of 2") && log.stdout.contains("1 of 2"), "{log:?}");
    std::fs::write(&gate, "").unwrap();
    cluster.wait_for("other", &ENDED, SOON).unwrap();
    cluster.submit("whole", spec).unwrap();
    let job = cluster.wait_for("whole", &ENDED, SOON).unwrap();
    assert_eq!(nodes(&job).len(), 3, "{job:#}");
}

fn apply(cluster: &Cluster, name: &str, text: &str) {
    let path = cluster.home().join(format!("{name}.yaml"));
    std::fs::write(&path, text).unwrap();
    let answer = cluster.railctl(&["apply", "-f", path.to_str().unwrap()]);
    assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
}

#[test]
fn a_reservation_keeps_its_servers_for_its_own_jobs() {
    let cluster = small(2);
    // Longer than a job is taken to run that has no limit: `outside` would delay `two` otherwise, which is planned for its end.
    let now = std::process::Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output().unwrap();
    let now = String::from_utf8(now.stdout).unwrap();
    let spec = format!(
        "nodes: [n1]\n  start: '{}'\n  duration: 7200s\n  tenants: [dev]\n  reason: demo",
        now.trim()
    );
    let text =
        format!("apiVersion: rail/v1\nkind: Reservation\nmetadata: {{name: window}}\nspec:\n  {spec}\n");
    apply(&cluster, "window", &text);
    let gate = cluster.home().join("gate");
    let wait = until(&gate);
    cluster.submit("two", &format!("gang: {{nodes: 2, gpusPerNode: 1}}\n{wait}")).unwrap();
    cluster.submit("outside", &format!("gang: {{nodes: 1, gpusPerNode: 1}}\n{wait}")).unwrap();
    cluster
        .submit("inside", &format!("gang: {{nodes: 1, gpusPerNode: 1}}\nreservation: window\n{wait}"))
        .unwrap();
    let outside = cluster.wait_for("outside", &["RUNNING"], SOON).unwrap();
    let inside = cluster.wait_for("inside", &["RUNNING"], SOON).unwrap();
    assert_eq!((nodes(&outside), nodes(&inside)), (vec!["n0".to_owned()], vec!["n1".to_owned()]));
    assert_eq!(phase(&cluster, "two"), "PENDING", "{}", reasons(&cluster, "two"));
    std::fs::write(&gate, "").unwrap();
    cluster.wait_for("outside", &ENDED, SOON).unwrap();
    cluster.wait_for("inside", &ENDED, SOON).unwrap();
    assert_eq!(phase(&cluster, "two"), "PENDING", "a server of the reservation is not for it");
    let answer = cluster.railctl(&["delete", "reservation", "window"]);
    assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
    cluster.wait_for("two", &["RUNNING", "COMPLETED"], SOON).unwrap();
}

#[test]
fn a_failed_server_is_replaced_by_the_spare_and_the_others_keep_their_ranks() {
    let cluster = small(4);
    let gate = cluster.home().join("gate");
    let spec = format!(
        "gang: {{nodes: 3, gpusPerNode: 1}}\ngracePeriod: 1s\nplacement: {{spares: 1}}\nfailure: {{replace: SPARES, maxReplacements: 2}}\n{}",
        until(&gate)
    );
    cluster.submit("hardy", &spec).unwrap();
    let before = cluster.wait_for("hardy", &["RUNNING"], SOON).unwrap();
    started(&cluster, "hardy");
    let spare = before["status"]["placement"]["spares"][0]["node"].as_str().unwrap_or_default().to_owned();
    let gang = nodes(&before);
    assert!(gang.len() == 3 && !spare.is_empty() && !gang.contains(&spare), "{before:#}");
    // The engine of the second server is killed: its supervisor says so, and that server is replaced.
    let dir = cluster.dir().join(&gang[1]).display().to_string();
    let engine = procfs::find(&["rail-engine", "run", &dir]);
    assert_eq!(engine.len(), 1, "{engine:?}");
    procfs::kill(engine[0]).unwrap();
    let again = || {
        cluster
            .job("hardy")
            .ok()
            .filter(|job| number(&job["status"]["attempt"]) == 2 && job["status"]["phase"] == "RUNNING")
    };
    let after = eventually("the second attempt", SOON, again)
        .map_err(|error| {
            format!("{error}\n{:#}\n{}", cluster.job("hardy").unwrap_or_default(), cluster.logs())
        })
        .unwrap();
    assert_eq!(nodes(&after), [gang[0].clone(), spare, gang[2].clone()], "{after:#}\n{}", cluster.logs());
    assert_eq!(
        (number(&after["status"]["replaced"]), number(&after["status"]["restarts"])),
        (1, 0),
        "{after:#}\n{}",
        cluster.logs()
    );
    std::fs::write(&gate, "").unwrap();
    let job = cluster.wait_for("hardy", &ENDED, SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}");
}
