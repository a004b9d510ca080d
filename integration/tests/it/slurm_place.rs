//! Jobs of a real Slurm where Railyard would place them: `job_submit.lua`, the service that it asks, and Slurm's topology.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use integration_harness::{
    Cluster, Shape, eventually,
    slurm::{
        Version,
        beside::{JointSite, Options},
        missing, programs,
    },
};

const SOON: Duration = Duration::from_secs(60);
/// A job keeps the servers that it was given for as long as a test may take.
const PINNED: [&str; 4] = ["--every", "500ms", "--pin", "10m"];
/// It keeps them for a moment.
const HARDLY_PINNED: [&str; 4] = ["--every", "500ms", "--pin", "1s"];
const NODES: [&str; 8] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"];

struct World(JointSite);

impl World {
    fn start(version: Version) -> Option<Self> {
        if programs(version).is_none() {
            println!("skipped: {}", missing(version));
            return None;
        }
        // A machine that is busy with other tests is slower than slurmctld's own.
        let options = Options { version, nodes: &NODES, submit: "10s", prolog: "40s", serve: &PINNED };
        Some(Self(JointSite::up(&options).unwrap()))
    }

    fn gate(&self, name: &str) -> PathBuf {
        self.0.slurm.folder().join(name)
    }

    /// Submits a job that runs until `gate` is there; its number.
    fn batch(&self, arguments: &[&str], gate: &Path) -> Result<String, String> {
        let wait = format!("--wrap=while ! test -e {}; do sleep 0.05; done", gate.display());
        let all = [&["--parsable", "--output=/dev/null"], arguments, &[wait.as_str()]].concat();
        self.0.slurm.run("sbatch", &all)
    }

    fn field(&self, id: &str, name: &str) -> String {
        self.0.field(id, name).unwrap()
    }

    fn until_it_runs(&self, id: &str) {
        let is = || (self.field(id, "JobState") == "RUNNING").then_some(());
        eventually(&format!("job {id} to run"), SOON, is).unwrap_or_else(|error| {
            panic!(
                "{error}: {:?}\n{}",
                self.0.slurm.run("scontrol", &["show", "job", id]),
                self.0.slurm.said()
            )
        });
    }

    fn plan(&self, nodes: &str) -> std::process::Output {
        let socket = self.0.socket();
        let mut command =
            self.0.cluster.command(&["slurm", "place", "--timeout", "10s", "--nodes", nodes, "--socket"]);
        command.arg(socket).output().unwrap()
    }
}

#[test]
fn jobs_of_slurm_22_05_run_where_railyard_would_place_them() {
    run_where_railyard_would_place_them(Version::V22_05);
}

#[test]
fn jobs_of_slurm_24_11_run_where_railyard_would_place_them() {
    run_where_railyard_would_place_them(Version::V24_11);
}

fn run_where_railyard_would_place_them(version: Version) {
    let Some(mut world) = World::start(version) else { return };
    // Slurm learns which servers share their leaves.
    let learned = || {
        let said = world.0.slurm.run("scontrol", &["show", "topology"]).ok()?;
        (said.contains("Nodes=n[0-3]") && said.contains("Nodes=n[4-7]")).then_some(())
    };
    eventually("slurmctld to know the leaves", SOON, learned).unwrap();
    // One server of the first pod is taken: four that share their leaves are those of the other one.
    let gates = ["a", "b", "c"].map(|name| world.gate(name));
    let one = world.batch(&["--nodelist=n1"], &gates[0]).unwrap();
    world.until_it_runs(&one);
    let four = world.batch(&["--nodes=4"], &gates[1]).unwrap();
    assert_eq!(world.field(&four, "ReqNodeList"), "n[4-7]", "{}", world.0.slurm.said());
    // Another one that is submitted at once is given others, though Railyard holds none of either yet.
    let two = world.batch(&["--nodes=2"], &gates[1]).unwrap();
    world.until_it_runs(&four);
    world.until_it_runs(&two);
    assert_eq!(world.field(&four, "NodeList"), "n[4-7]");
    assert_eq!(world.field(&two, "NodeList"), world.field(&two, "ReqNodeList"));
    let left = ["n[0,2]", "n[0,3]", "n[2-3]"];
    assert!(left.contains(&world.field(&two, "NodeList").as_str()), "{}", world.field(&two, "NodeList"));
    // What cannot start now waits for servers that share their leaves, where they could.
    let waits = world.batch(&["--nodes=3"], &gates[2]).unwrap();
    assert_eq!(world.field(&waits, "ReqNodeList"), "(null)");
    assert!(
        world.field(&waits, "ReqSwitches") == "1"
            || world.0.slurm.run("scontrol", &["show", "job", &waits]).unwrap().contains("Switches=1@")
    );
    let large = world.batch(&["--nodes=6"], &gates[2]).unwrap();
    assert!(!world.0.slurm.run("scontrol", &["show", "job", &large]).unwrap().contains("Switches=1@"));
    // What users say themselves stays so.
    let own = world.batch(&["--nodes=1", "--nodelist=n5"], &gates[2]).unwrap();
    assert_eq!(
        (world.field(&own, "ReqNodeList"), world.field(&own, "AdminComment")),
        ("n5".into(), String::new())
    );
    world.0.slurm.run("scancel", &[&waits, &large, &own]).unwrap();
    for gate in &gates {
        std::fs::write(gate, "").unwrap();
    }
    let empty = || world.0.slurm.run("squeue", &["--noheader"]).unwrap().is_empty().then_some(());
    eventually("Slurm's queue to be empty", SOON, empty).unwrap();

    // Servers that are free here and not there: the job waits for them no longer than the site says.
    let gate = world.gate("d");
    let hidden = world.batch(&["--nodelist=n[0-3]"], &gate).unwrap();
    world.until_it_runs(&hidden);
    let answer = world.0.cluster.railctl(&["cancel", &format!("slurm-{hidden}"), "--yes"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let free = || (String::from_utf8_lossy(&world.plan("8").stdout).contains("nodes=")).then_some(());
    eventually("all servers to be free here", SOON, free).unwrap();
    // What it has proposed to the questions above is forgotten by one that begins anew.
    world.0.serve(&PINNED).unwrap();
    let freed = world.batch(&["--nodes=8"], &gate).unwrap();
    assert_eq!(world.field(&freed, "ReqNodeList"), "n[0-7]");
    world.0.serve(&HARDLY_PINNED).unwrap();
    let anywhere = || (world.field(&freed, "ReqNodeList") == "(null)").then_some(());
    eventually("the job to be let go anywhere", SOON, anywhere).unwrap();

    // Nobody answers: as the site says.
    world.0.silence();
    let alone = world.batch(&["--nodes=1"], &gate).unwrap();
    assert_eq!(world.field(&alone, "ReqNodeList"), "(null)");
    world.0.when_away("reject").unwrap();
    let refused = || world.batch(&["--nodes=1"], &gate).err();
    let why = eventually("slurmctld to read the script again", SOON, refused).unwrap();
    assert!(why.contains("Railyard does not say where this job may run"), "{why}");
    std::fs::write(&gate, "").unwrap();
}

#[test]
fn a_service_that_is_not_there_is_named_and_one_that_was_killed_is_followed() {
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, ..Shape::default() }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("place.sock");
    let place = || {
        let mut command = cluster.command(&["slurm", "place", "--nodes", "2", "--timeout", "5s", "--socket"]);
        command.arg(&socket).output().unwrap()
    };
    let said = place();
    assert!(!said.status.success());
    assert!(String::from_utf8_lossy(&said.stderr).contains("is `railctl slurm serve` running?"), "{said:?}");
    // Left over by one that was killed.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let mut command =
        cluster.command(&["--controller", "https://127.0.0.1:9", "slurm", "serve", "--every", "1h"]);
    command.arg("--socket").arg(&socket);
    let mut service = command.env("RAIL_DIE_WITH_PARENT", "1").stdin(Stdio::null()).spawn().unwrap();
    // No controller: whoever asks is told so, and why.
    let knows = || {
        let said = place();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        (!text.contains("running?")).then_some((said.status.success(), text))
    };
    let (well, text) = eventually("the service to answer", SOON, knows).unwrap();
    assert!(!well && text.contains("no controller has"), "{text}");
    // It may have ended by itself.
    let _ = service.kill();
    let _ = service.wait();
}
