//! Elastic jobs of real processes: they grow when servers come free, and give servers up for jobs that need them; each
//! time their ranks are told first, save their work, and go on with another WORLD_SIZE.

use std::{path::PathBuf, time::Duration};

use integration_harness::{Cluster, Shape, eventually};
use serde_json::Value;

use crate::jobs::number;

const SOON: Duration = Duration::from_secs(60);
const ENDED: [&str; 3] = ["COMPLETED", "FAILED", "CANCELLED"];

/// A cluster whose elastic jobs may change their size every second.
fn elastic(nodes: u32) -> Cluster {
    let env = vec![("RAIL_CONTROLLER_RESIZE_AFTER".to_owned(), "1s".to_owned())];
    Cluster::up(&Shape { nodes, rails: 1, gpus: 1, env, ..Shape::default() }).unwrap()
}

/// The gate at which a job's ranks wait, and what they write.
struct Files {
    gate: PathBuf,
    log: PathBuf,
}

impl Files {
    fn of(cluster: &Cluster) -> Self {
        Self { gate: cluster.home().join("gate"), log: cluster.home().join("log") }
    }

    /// One to three servers. Each rank says when it starts, how many there are and what try it is; on its signal it
    /// takes its time and says that it has saved.
    fn job(&self, priority: i32) -> String {
        let log = self.log.display();
        let script = format!(
            "trap \"sleep 0.2; echo saved $RAIL_ATTEMPT $RANK >> {log}; exit 0\" USR1; echo began $RAIL_ATTEMPT $RANK of $WORLD_SIZE >> {log}; while ! test -e {}; do sleep 0.05; done",
            self.gate.display()
        );
        format!(
            "gang: {{nodes: 3, minNodes: 1, gpusPerNode: 1}}\npriority: {priority}\nexpectedDuration: 3600s\npreemption: {{preemptible: true, gracePeriod: 20s, signal: SIGUSR1}}\ncommand:\n  argv: [/bin/sh, -c, '{script}']"
        )
    }

    /// What all ranks of an attempt have written, in order; waits until there are so many lines of it.
    fn lines(&self, what: &str, attempt: u64, count: usize) -> Vec<String> {
        let written = || {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let of = text.lines().filter(|line| line.starts_with(&format!("{what} {attempt} ")));
            let mut lines: Vec<String> = of.map(str::to_owned).collect();
            lines.sort_unstable();
            (lines.len() == count).then_some(lines)
        };
        eventually(&format!("{count} ranks of attempt {attempt}: {what}"), SOON, written).unwrap_or_else(
            |error| panic!("{error}: {}", std::fs::read_to_string(&self.log).unwrap_or_default()),
        )
    }
}

fn attempt(cluster: &Cluster, job: &str, attempt: u64) -> Value {
    let runs = || {
        let job = cluster.job(job).ok()?;
        let same = number(&job["status"]["attempt"]) == attempt && job["status"]["phase"] == "RUNNING";
        (same && job["status"]["startTime"].is_string()).then_some(job)
    };
    eventually(&format!("attempt {attempt} of {job}"), SOON, runs).unwrap_or_else(|error| {
        panic!("{error}\n{:#}\n{}", cluster.job(job).unwrap_or_default(), cluster.logs())
    })
}

fn size(job: &Value) -> usize {
    job["status"]["placement"]["nodes"].as_array().map_or(0, Vec::len)
}

/// Jobs that hold servers until a file is there.
fn until(gate: &std::path::Path, nodes: u32, priority: i32) -> String {
    format!(
        "gang: {{nodes: {nodes}, gpusPerNode: 1}}\npriority: {priority}\nexpectedDuration: 3600s\ncommand: {{argv: [/bin/sh, -c, 'while ! test -e {}; do sleep 0.05; done']}}",
        gate.display()
    )
}

#[test]
fn an_elastic_job_grows_when_servers_come_free_and_shrinks_for_a_job_that_needs_them() {
    let cluster = elastic(3);
    let (files, first, urgent) =
        (Files::of(&cluster), cluster.home().join("first"), cluster.home().join("urgent"));
    cluster.submit("first", &until(&first, 2, 0)).unwrap();
    cluster.wait_for("first", &["RUNNING"], SOON).unwrap();
    cluster.submit("elastic", &files.job(-10)).unwrap();
    assert_eq!(size(&attempt(&cluster, "elastic", 1)), 1);
    assert_eq!(files.lines("began", 1, 1), ["began 1 0 of 1"]);

    // Two servers come free.
    std::fs::write(&first, "").unwrap();
    let job = attempt(&cluster, "elastic", 2);
    assert_eq!((size(&job), number(&job["status"]["restarts"])), (3, 0), "{job:#}");
    assert_eq!(files.lines("saved", 1, 1), ["saved 1 0"]);
    assert_eq!(files.lines("began", 2, 3), ["began 2 0 of 3", "began 2 1 of 3", "began 2 2 of 3"]);

    // Two are needed.
    cluster.submit("urgent", &until(&urgent, 2, 100)).unwrap();
    cluster.wait_for("urgent", &["RUNNING"], SOON).unwrap();
    assert_eq!(files.lines("saved", 2, 3), ["saved 2 0", "saved 2 1", "saved 2 2"]);
    let job = attempt(&cluster, "elastic", 3);
    assert_eq!((size(&job), number(&job["status"]["restarts"])), (1, 0), "{job:#}");
    assert_eq!(files.lines("began", 3, 1), ["began 3 0 of 1"]);

    std::fs::write(&files.gate, "").unwrap();
    std::fs::write(&urgent, "").unwrap();
    for name in ["elastic", "urgent"] {
        let job = cluster.wait_for(name, &ENDED, SOON).unwrap();
        assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}");
    }
}

#[test]
fn an_elastic_job_shrinks_for_one_of_equal_priority_and_does_not_take_back_what_it_gave() {
    let cluster = elastic(3);
    let (files, gate) = (Files::of(&cluster), cluster.home().join("equal"));
    cluster.submit("elastic", &files.job(0)).unwrap();
    assert_eq!(size(&attempt(&cluster, "elastic", 1)), 3);
    files.lines("began", 1, 3);
    cluster.submit("equal", &until(&gate, 1, 0)).unwrap();
    cluster.wait_for("equal", &["RUNNING"], SOON).unwrap();
    files.lines("saved", 1, 3);
    let job = attempt(&cluster, "elastic", 2);
    assert_eq!(size(&job), 2, "{job:#}");
    assert_eq!(files.lines("began", 2, 2), ["began 2 0 of 2", "began 2 1 of 2"]);
    std::fs::write(&files.gate, "").unwrap();
    assert_eq!(cluster.wait_for("elastic", &ENDED, SOON).unwrap()["status"]["phase"], "COMPLETED");
    std::fs::write(&gate, "").unwrap();
    cluster.wait_for("equal", &ENDED, SOON).unwrap();
}

/// Its tenant may hold what the cluster has, or less: either way the own lower job yields.
#[test]
fn a_tenant_at_its_limit_has_its_own_lower_job_yield() {
    let cluster = elastic(3);
    for (limit, nodes) in [(3, 3), (2, 2)] {
        let quota = format!("{limit}");
        let answer = cluster.railctl(&["tenant", "create", &format!("team{limit}"), "--gpus", &quota]);
        assert_eq!(answer.code, 0, "{answer:?}");
        let tenant = format!("team{limit}");
        let gate = cluster.home().join(&tenant);
        let submit = |name: &str, spec: &str| {
            let path = cluster.home().join(format!("{tenant}-{name}.yaml"));
            let spec = spec.replace('\n', "\n  ");
            let text =
                format!("apiVersion: rail/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n");
            std::fs::write(&path, text).unwrap();
            let answer = cluster.railctl(&["submit", "--tenant", &tenant, path.to_str().unwrap()]);
            assert_eq!(answer.code, 0, "{answer:?}");
        };
        let phase = |name: &str, wanted: &'static str| {
            let is = || {
                let job = cluster.json(&["get", "jobs", name, "--tenant", &tenant]).ok()?;
                (job["status"]["phase"] == wanted).then_some(job)
            };
            eventually(&format!("{tenant}/{name} {wanted}"), SOON, is)
                .unwrap_or_else(|error| panic!("{error}\n{}", cluster.logs()))
        };
        submit(
            "patient",
            &format!("{}\npreemption: {{preemptible: true, gracePeriod: 5s}}", until(&gate, nodes, -10)),
        );
        phase("patient", "RUNNING");
        submit("urgent", &until(&gate, 1, 100));
        phase("urgent", "RUNNING");
        let patient = phase("patient", "PENDING");
        assert!(patient["status"]["reasons"].to_string().contains("Preempted"), "{patient:#}");
        std::fs::write(&gate, "").unwrap();
        phase("urgent", "COMPLETED");
        phase("patient", "COMPLETED");
    }
}
