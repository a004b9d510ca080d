//! Programs of both releases beside each other, as an upgrade leaves them for a while: which of what users and operators do works.

use std::{fs, path::Path, time::SystemTime};

use integration_harness::Servers;
use proto_wire::v1::{self, job_status::Phase};
use serde_json::json;

use super::world::{Releases, World};
use crate::{
    command_job::text,
    report::{Cpu, Goal, Line, Row, Sample},
};

/// Servers of these small clusters: one whose agent is of the release before, one of this release.
const HAS: Servers = Servers { gpus: 2, rails: 2, first: 42 };

/// Things that were tried, and those that do not work, in words.
#[derive(Default)]
struct Tried {
    count: u64,
    failed: Vec<String>,
}

impl Tried {
    fn add(&mut self, what: &str, done: Result<bool, String>) {
        self.count += 1;
        match done {
            Ok(true) => {}
            Ok(false) => self.failed.push(format!("{what}: not as expected")),
            Err(error) => self.failed.push(format!("{what}: {error}")),
        }
    }
}

/// Controllers of either release with agents of both, asked by `railctl` of both; and agents that are exchanged under a job in both directions.
///
/// # Errors
/// What kept the cases from being measured, as text.
pub fn measure(row: &Row<'_>, releases: &Releases) -> Result<(), String> {
    for (release, bin) in [("before", &releases.old), ("now", &releases.new)] {
        let cpu = Cpu::start();
        let mut world = World::start(bin, 1, &[&releases.old, &releases.new], HAS)?;
        for (users, railctl) in [("before", &releases.old), ("now", &releases.new)] {
            let mut tried = use_it(&world, railctl, users)?;
            if railctl == &releases.new {
                plan_it(&world, railctl, &mut tried);
            }
            let case = format!(
                "things that do not work: controller of {release}, agents of before and of now, railctl of {users}"
            );
            report(row, &case, &tried, cpu.cores());
        }
        let tried = exchange(&mut world, releases);
        let case = format!(
            "things that do not work: agents exchanged under jobs, forth and back, controller of {release}"
        );
        report(row, &case, &tried, cpu.cores());
    }
    Ok(())
}

fn report(row: &Row<'_>, case: &str, tried: &Tried, cpu: f64) {
    let value = tried.failed.len() as f64;
    let peers = json!({"tried": tried.count, "failed": tried.failed});
    let (goal, sample) = (Goal::AtMost(0.0), Sample::new(vec![value]));
    row.line(&Line { case, value, unit: "things", goal, sample: &sample, cpu, peers });
}

/// What users and operators do in a day.
fn use_it(world: &World, bin: &Path, users: &str) -> Result<Tried, String> {
    let mut tried = Tried::default();
    let run = |arguments: &[&str]| world.railctl(bin, arguments);
    let names = |text: &str| format!("{text}-{users}");
    for arguments in [
        &["version"][..],
        &["health"],
        &["doctor"],
        &["get", "nodes", "-o", "wide"],
        &["describe", "node", "n0"],
        &["describe", "node", "n1"],
        &["top", "nodes"],
        &["whoami"],
        &["audit", "ls", "--limit", "5"],
        &["audit", "verify"],
    ] {
        tried.add(&arguments.join(" "), run(arguments).map(|_| true));
    }
    // Engines of both releases in one gang.
    let dir = tempfile::tempdir().map_err(text)?;
    let (job, file) = (names("sums"), dir.path().join("job.yaml"));
    let spec = "gang: {nodes: 2, gpusPerNode: 1}\n  collective: {op: ALL_REDUCE, bytes: 1048576, iterations: 10, verify: true}";
    let document = format!("apiVersion: rail/v1\nkind: Job\nmetadata: {{name: {job}}}\nspec:\n  {spec}\n");
    fs::write(&file, document).map_err(text)?;
    tried.add(
        "a gang of engines of both",
        run(&["submit", &file.display().to_string(), "--wait"]).map(|_| true),
    );
    let sums = world.job(&job).map(|status| status.result.is_some_and(|result| result.verified));
    tried.add("its sums", sums);
    tried.add("describe job", run(&["describe", "job", &job]).map(|_| true));
    for node in ["n0", "n1"] {
        let job = names(&format!("hello-{node}"));
        let submit = ["submit", "--name", &job, "-w", node, "--wait", "--wrap", "echo hello"];
        tried.add(&format!("a job on {node}"), run(&submit).map(|_| true));
        tried.add(&format!("its log on {node}"), run(&["logs", &job]).map(|log| log.contains("hello")));
        let job = names(&format!("stays-{node}"));
        tried
            .add("submit", run(&["submit", "--name", &job, "-w", node, "--wrap", "sleep 600"]).map(|_| true));
        let running = world.wait_job(&job, has_started);
        tried.add(&format!("a job that runs on {node}"), running.map(|_| true));
        let exec = run(&["exec", "-n", &job, "--", "/bin/echo", "within"]);
        tried.add(&format!("a step on {node}"), exec.map(|said| said.contains("within")));
        tried.add("cancel", run(&["cancel", &job, "--wait", "--timeout", "120s"]).map(|_| true));
        tried.add("drain", run(&["node", "drain", node, "--timeout", "120s"]).map(|_| true));
        tried.add("uncordon", run(&["node", "uncordon", node]).map(|_| true));
    }
    let tenant = names("t");
    for arguments in [
        &["tenant", "create", &tenant, "--gpus", "1"][..],
        &["get", "tenants", "-o", "json"],
        &["delete", "tenant", &tenant, "--yes"],
        &["get", "jobs", "-A", "-o", "json"],
        &["events", "--since", "10m"],
        &["audit", "export"],
    ] {
        tried.add(&arguments.join(" "), run(arguments).map(|_| true));
    }
    Ok(tried)
}

/// All ranks have been started, so that steps can be.
fn has_started(status: &v1::JobStatus) -> bool {
    status.phase() == Phase::Running && status.start_time.is_some()
}

/// Whoever is about to upgrade asks with the railctl of the release to go to.
fn plan_it(world: &World, bin: &Path, tried: &mut Tried) {
    for arguments in [&["upgrade", "status"][..], &["upgrade", "plan", "--without-backup"]] {
        tried.add(&arguments.join(" "), world.railctl(bin, arguments).map(|_| true));
    }
}

/// The agent of before becomes that of now under a job, and the other way round; then all is as it was.
fn exchange(world: &mut World, releases: &Releases) -> Tried {
    let mut tried = Tried::default();
    let both = [(0, "n0", [&releases.new, &releases.old]), (1, "n1", [&releases.old, &releases.new])];
    for (which, node, programs) in both {
        let job = format!("outlives-{node}");
        let railctl = releases.new.as_path();
        let submit = ["submit", "--name", &job, "-w", node, "--wrap", "sleep 600"];
        tried.add("submit", world.railctl(railctl, &submit).map(|_| true));
        let running = world.wait_job(&job, has_started);
        tried.add("a job that runs", running.map(|_| true));
        for (turn, program) in programs.into_iter().enumerate() {
            let gone = SystemTime::now();
            let back = world.agents.replace(which, program).and_then(|()| world.back_since(which, gone));
            tried.add(&format!("the agent of {node}, turn {turn}"), back.map(|()| true));
            let exec = world.railctl(railctl, &["exec", "-n", &job, "--", "/bin/echo", "within"]);
            tried.add(&format!("a step on {node}, turn {turn}"), exec.map(|said| said.contains("within")));
        }
        let still = world.job(&job).map(|status| status.phase() == Phase::Running && status.attempt == 1);
        tried.add(&format!("the job of {node} runs, in its first attempt"), still);
        let cancel = ["cancel", &job, "--wait", "--timeout", "120s"];
        tried.add("cancel", world.railctl(railctl, &cancel).map(|_| true));
    }
    tried
}
