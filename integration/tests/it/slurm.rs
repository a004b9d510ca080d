//! Railyard beside a real Slurm: what its controller calls before and after each job, and nodes that both know.

use std::{path::Path, time::Duration};

use integration_harness::{
    Cluster, Shape, eventually,
    slurm::{Site, Slurm, Version, beside::hook, missing, programs},
};

const SOON: Duration = Duration::from_secs(60);
const NODES: [&str; 3] = ["n0", "n1", "n2"];

struct World {
    cluster: Cluster,
    slurm: Slurm,
}

impl World {
    fn start() -> Option<Self> {
        let version = Version::default();
        if programs(version).is_none() {
            println!("skipped: {}", missing(version));
            return None;
        }
        let cluster = Cluster::up(&Shape { nodes: 3, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
        let hooks = [
            ("PrologSlurmctld", hook(&cluster, "prolog --exclusive --timeout 20s").unwrap()),
            ("EpilogSlurmctld", hook(&cluster, "epilog").unwrap()),
        ];
        let slurm = Slurm::up(&Site { nodes: &NODES, hooks: &hooks, ..Site::default() }).unwrap();
        Some(Self { cluster, slurm })
    }

    /// Submits a job that runs until `gate` is there, and gives its number.
    fn batch(&self, arguments: &[&str], gate: &Path) -> String {
        let wait = format!("while ! test -e {}; do sleep 0.05; done", gate.display());
        let wrap = format!("--wrap={wait}");
        let mut all = vec!["--parsable", "--output=/dev/null"];
        all.extend(arguments);
        all.push(&wrap);
        self.slurm.run("sbatch", &all).unwrap()
    }

    fn phase(&self, name: &str) -> Option<String> {
        Some(self.cluster.job(name).ok()?["status"]["phase"].as_str()?.to_owned())
    }

    fn until(&self, name: &str, phases: &[&str]) {
        let is = || phases.contains(&self.phase(name)?.as_str()).then_some(());
        let why = || format!("{:?}\n{}", self.cluster.job(name), self.slurm.said());
        eventually(&format!("{name} to be {phases:?}"), SOON, is)
            .unwrap_or_else(|error| panic!("{error}: {}", why()));
    }

    /// `railctl slurm sync`, and what it says.
    fn sync(&self, arguments: &[&str]) -> String {
        let mut all = vec!["--tenant", "dev", "slurm", "sync"];
        all.extend(arguments);
        let output = self.cluster.command(&all).envs(self.slurm.environment()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    }

    fn node(&self, name: &str) -> String {
        let said =
            self.slurm.run("sinfo", &["--noheader", "--Node", "--nodes", name, "--format=%T %E"]).unwrap();
        // A star says that the node was not asked since it is back.
        said.replacen("* ", " ", 1)
    }
}

/// Servers of an allocation.
fn placed(job: &serde_json::Value) -> Vec<String> {
    let nodes = job["status"]["placement"]["nodes"].as_array().unwrap();
    nodes.iter().map(|place| place["node"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn servers_of_slurms_jobs_are_held_while_they_run() {
    let Some(world) = World::start() else { return };
    let gates = [world.slurm.folder().join("gate0"), world.slurm.folder().join("gate1")];
    let first = world.batch(&["--nodes=2", "--nodelist=n0,n2"], &gates[0]);
    let name = format!("slurm-{first}");
    world.until(&name, &["RUNNING"]);
    let job = world.cluster.job(&name).unwrap();
    assert_eq!(placed(&job), ["n0", "n2"], "the servers that Slurm has chosen");
    assert_eq!(job["metadata"]["labels"]["slurm/job"], first.as_str(), "{job:#}");
    assert_eq!(job["status"]["placement"]["rails"].as_array().unwrap().len(), 2, "with all rails");
    // Another one runs beside it, and both end when Slurm's do.
    let second = world.batch(&["--nodes=1"], &gates[1]);
    world.until(&format!("slurm-{second}"), &["RUNNING"]);
    assert_eq!(world.phase(&name).unwrap(), "RUNNING");
    for (gate, id) in gates.iter().zip([&first, &second]) {
        std::fs::write(gate, "").unwrap();
        world.until(&format!("slurm-{id}"), &["CANCELLED"]);
    }
    let empty = || world.slurm.run("squeue", &["--noheader"]).unwrap().is_empty().then_some(());
    eventually("Slurm's queue to be empty", SOON, empty).unwrap();
    assert_eq!(world.sync(&[]), "", "nothing is left");
}

#[test]
fn both_know_which_servers_are_unfit_and_what_is_no_longer_needed() {
    let Some(world) = World::start() else { return };
    let railctl = |arguments: &[&str]| {
        let answer = world.cluster.railctl(arguments);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
    };
    // Somebody has drained n0 for a reason of their own.
    world.slurm.run("scontrol", &["update", "NodeName=n0", "State=DRAIN", "Reason=new disk"]).unwrap();
    railctl(&["node", "cordon", "n0", "n1", "--reason", "fan 3"]);
    assert!(world.sync(&["--dry-run"]).contains("node n1 is drained in Slurm"));
    assert_eq!(world.node("n1"), "idle none");
    assert!(world.sync(&[]).contains("node n1 is drained in Slurm: railyard: cordoned: fan 3"));
    assert_eq!(
        (world.node("n1").as_str(), world.node("n2").as_str()),
        ("drained railyard: cordoned: fan 3", "idle none")
    );
    assert_eq!(world.sync(&[]), "", "once");
    railctl(&["node", "uncordon", "n0", "n1"]);
    assert!(world.sync(&[]).contains("node n1 is resumed in Slurm"));
    assert_eq!((world.node("n0").as_str(), world.node("n1").as_str()), ("drained new disk", "idle none"));
    // A prolog of a job that Slurm has forgotten since.
    let prolog = |id: &str, arguments: &[&str]| {
        let mut all = vec!["--tenant", "dev", "slurm", "prolog"];
        all.extend(arguments);
        let mut command = world.cluster.command(&all);
        let variables =
            [("SLURM_JOB_ID", id), ("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_JOB_NUM_NODES", "2")];
        command.envs(variables).output().unwrap()
    };
    let prolog_of = |restart: &str| {
        let all = ["--tenant", "dev", "slurm", "prolog", "--exclusive"];
        let variables = [
            ("SLURM_JOB_ID", "999"),
            ("SLURM_JOB_NODELIST", "n[1-2]"),
            ("SLURM_JOB_NUM_NODES", "2"),
            ("SLURM_JOB_RESTART_COUNT", restart),
        ];
        world.cluster.command(&all).envs(variables).output().unwrap()
    };
    for _ in 0..2 {
        let output = prolog_of("0");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(world.phase("slurm-999").unwrap(), "RUNNING");
    // It is started again, and nobody has said that the first start has ended.
    let output = prolog_of("1");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.until("slurm-999", &["CANCELLED"]);
    assert_eq!(world.phase("slurm-999-r1").unwrap(), "RUNNING");
    let said = world.sync(&[]);
    assert!(said.contains("dev/slurm-999-r1 is held for a job that Slurm no longer has"), "{said}");
    world.until("slurm-999-r1", &["CANCELLED"]);
    // A controller that is away: as the site says.
    let away = ["--controller", "https://127.0.0.1:9", "--timeout", "2s"];
    assert!(!prolog("1000", &away).status.success());
    assert!(prolog("1000", &[&away[..], &["--when-away", "allow"]].concat()).status.success());
}

#[test]
fn a_job_whose_servers_cannot_be_held_is_queued_again() {
    let Some(world) = World::start() else { return };
    // Slurm does not know yet.
    let answer = world.cluster.railctl(&["node", "cordon", "n1", "--reason", "fan"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let id = world.batch(&["--nodelist=n1"], Path::new("/nowhere"));
    let again = || {
        let job = world.slurm.run("scontrol", &["show", "job", &id]).ok()?;
        (job.contains("Restarts=1") && job.contains("JobState=PENDING")).then_some(())
    };
    eventually("Slurm to queue the job again", SOON, again)
        .unwrap_or_else(|error| panic!("{error}: {}", world.slurm.said()));
    world.until(&format!("slurm-{id}"), &["CANCELLED"]);
    world.slurm.run("scancel", &[&id]).unwrap();
}
