//! Jobs of a real Slurm where Railyard would place them: `job_submit.lua`, the service that it asks, and Slurm's topology.

use std::{
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use integration_harness::{
    Cluster, Shape, eventually,
    slurm::{Site, Slurm, programs},
};

use crate::slurm::hook;

const SOON: Duration = Duration::from_secs(60);
const NODES: [&str; 8] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"];
/// Before the service has said better.
const ONE_SWITCH: &str = "SwitchName=all Nodes=n[0-7]\n";

struct World {
    cluster: Cluster,
    slurm: Slurm,
    /// Folder of the service's socket.
    folder: tempfile::TempDir,
    service: Child,
}

impl Drop for World {
    fn drop(&mut self) {
        end(&mut self.service);
    }
}

fn end(service: &mut Child) {
    // It may have ended by itself.
    let _ = service.kill();
    let _ = service.wait();
}

/// The script as a site would set it up.
fn script(cluster: &Cluster, socket: &Path, when_away: &str) -> String {
    let text = include_str!("../../../deploy/slurm/job_submit.lua");
    let railctl = cluster.bin().join("railctl");
    let set = [
        ("\"/usr/bin/railctl\"", format!("{:?}", railctl.display().to_string())),
        ("\"/run/railyard-slurm/place.sock\"", format!("{:?}", socket.display().to_string())),
        // A machine that is busy with other tests is slower than slurmctld's own.
        ("\"500ms\"", "\"10s\"".to_owned()),
        ("WHEN_AWAY = \"allow\"", format!("WHEN_AWAY = {when_away:?}")),
    ];
    set.iter().fold(text.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text.replace(from, to)
    })
}

fn serve(cluster: &Cluster, slurm: &Slurm, socket: &Path) -> Child {
    let topology = slurm.folder().join("topology.conf");
    let mut command = cluster.command(&["--tenant", "dev", "slurm", "serve", "--exclusive"]);
    command.args(["--every", "500ms", "--pin", "3s", "--socket"]).arg(socket).arg("--topology").arg(topology);
    command.envs(slurm.environment()).env("RAIL_DIE_WITH_PARENT", "1");
    let service = command.stdin(Stdio::null()).spawn().unwrap();
    eventually("the service to listen", SOON, || socket.exists().then_some(())).unwrap();
    service
}

impl World {
    fn start() -> Option<Self> {
        if programs().is_none() {
            println!(
                "skipped: Slurm needs root, namespaces, and the packages slurmctld, slurmd, slurm-client and munge"
            );
            return None;
        }
        let cluster =
            Cluster::up(&Shape { nodes: 8, rails: 2, gpus: 1, pods: 2, ..Shape::default() }).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("place.sock");
        let hooks = [
            ("PrologSlurmctld", hook(&cluster, "prolog --exclusive --timeout 40s")),
            ("EpilogSlurmctld", hook(&cluster, "epilog")),
        ];
        let files = [
            ("topology.conf", ONE_SWITCH.to_owned()),
            ("job_submit.lua", script(&cluster, &socket, "allow")),
        ];
        let lines = "JobSubmitPlugins=lua\nTopologyPlugin=topology/tree\n";
        let slurm = Slurm::up(&Site { nodes: &NODES, hooks: &hooks, files: &files, lines }).unwrap();
        let service = serve(&cluster, &slurm, &socket);
        Some(Self { cluster, slurm, folder, service })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("place.sock")
    }

    fn gate(&self, name: &str) -> PathBuf {
        self.slurm.folder().join(name)
    }

    /// Submits a job that runs until `gate` is there; its number.
    fn batch(&self, arguments: &[&str], gate: &Path) -> Result<String, String> {
        let wait = format!("--wrap=while ! test -e {}; do sleep 0.05; done", gate.display());
        let all = [&["--parsable", "--output=/dev/null"], arguments, &[wait.as_str()]].concat();
        self.slurm.run("sbatch", &all)
    }

    /// A field of a job, as `scontrol show job` says it.
    fn field(&self, id: &str, name: &str) -> String {
        let said = self.slurm.run("scontrol", &["show", "job", id]).unwrap();
        let value = said.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_default().to_owned()
    }

    fn until_it_runs(&self, id: &str) {
        let is = || (self.field(id, "JobState") == "RUNNING").then_some(());
        eventually(&format!("job {id} to run"), SOON, is).unwrap_or_else(|error| {
            panic!("{error}: {:?}\n{}", self.slurm.run("scontrol", &["show", "job", id]), self.slurm.said())
        });
    }

    fn plan(&self, nodes: &str) -> std::process::Output {
        let socket = self.socket();
        let mut command =
            self.cluster.command(&["slurm", "place", "--timeout", "10s", "--nodes", nodes, "--socket"]);
        command.arg(socket).output().unwrap()
    }
}

#[test]
fn jobs_of_slurm_run_where_railyard_would_place_them() {
    let Some(mut world) = World::start() else { return };
    // Slurm learns which servers share their leaves.
    let learned = || {
        let said = world.slurm.run("scontrol", &["show", "topology"]).ok()?;
        (said.contains("Nodes=n[0-3]") && said.contains("Nodes=n[4-7]")).then_some(())
    };
    eventually("slurmctld to know the leaves", SOON, learned).unwrap();
    // One server of the first pod is taken: four that share their leaves are those of the other one.
    let gates = ["a", "b", "c"].map(|name| world.gate(name));
    let one = world.batch(&["--nodelist=n1"], &gates[0]).unwrap();
    world.until_it_runs(&one);
    let four = world.batch(&["--nodes=4"], &gates[1]).unwrap();
    assert_eq!(world.field(&four, "ReqNodeList"), "n[4-7]", "{}", world.slurm.said());
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
            || world.slurm.run("scontrol", &["show", "job", &waits]).unwrap().contains("Switches=1@")
    );
    let large = world.batch(&["--nodes=6"], &gates[2]).unwrap();
    assert!(!world.slurm.run("scontrol", &["show", "job", &large]).unwrap().contains("Switches=1@"));
    // What users say themselves stays so.
    let own = world.batch(&["--nodes=1", "--nodelist=n5"], &gates[2]).unwrap();
    assert_eq!(
        (world.field(&own, "ReqNodeList"), world.field(&own, "AdminComment")),
        ("n5".into(), String::new())
    );
    world.slurm.run("scancel", &[&waits, &large, &own]).unwrap();
    for gate in &gates {
        std::fs::write(gate, "").unwrap();
    }
    let empty = || world.slurm.run("squeue", &["--noheader"]).unwrap().is_empty().then_some(());
    eventually("Slurm's queue to be empty", SOON, empty).unwrap();

    // Servers that are free here and not there: the job waits for them no longer than the site says.
    let gate = world.gate("d");
    let hidden = world.batch(&["--nodelist=n[0-3]"], &gate).unwrap();
    world.until_it_runs(&hidden);
    let answer = world.cluster.railctl(&["cancel", &format!("slurm-{hidden}"), "--yes"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let free = || (String::from_utf8_lossy(&world.plan("8").stdout).contains("nodes=")).then_some(());
    eventually("all servers to be free here", SOON, free).unwrap();
    end(&mut world.service);
    world.service = serve(&world.cluster, &world.slurm, &world.socket());
    let freed = world.batch(&["--nodes=8"], &gate).unwrap();
    assert_eq!(world.field(&freed, "ReqNodeList"), "n[0-7]");
    let anywhere = || (world.field(&freed, "ReqNodeList") == "(null)").then_some(());
    eventually("the job to be let go anywhere", SOON, anywhere).unwrap();

    // Nobody answers: as the site says.
    end(&mut world.service);
    let alone = world.batch(&["--nodes=1"], &gate).unwrap();
    assert_eq!(world.field(&alone, "ReqNodeList"), "(null)");
    let lua = world.slurm.folder().join("job_submit.lua");
    std::fs::write(&lua, script(&world.cluster, &world.socket(), "reject")).unwrap();
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
    assert!(!well && text.contains("no controller has answered"), "{text}");
    end(&mut service);
}
