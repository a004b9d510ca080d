//! The same with the real programs, where they have been built beside railctl; else these tests say so and end.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{railctl, run};

const JOB: &str = "apiVersion: rail/v1\nkind: Job\nmetadata: {name: NAME}\nspec:\n  gang: {nodes: 2, gpusPerNode: 1}\n  \
                   command: {argv: [sh, -c, SCRIPT]}\n";

/// A cluster that is gone when the test is, however it ends: its owner is this process.
pub(crate) struct Cluster {
    pub(crate) home: tempfile::TempDir,
    _owner: std::process::ChildStdin,
}

impl Cluster {
    /// None where the programs are not there.
    pub(crate) fn up(name: &str, flags: &[&str]) -> Option<Self> {
        let bin = Path::new(env!("CARGO_BIN_EXE_railctl")).parent().unwrap();
        if !["rail-controller", "rail-node-agent", "rail-engine"]
            .iter()
            .all(|program| bin.join(program).exists())
        {
            eprintln!("skipped: rail-controller, rail-node-agent and rail-engine are not built");
            return None;
        }
        // Short, for the sake of the sockets' paths.
        let home = tempfile::Builder::new().prefix("rc").tempdir_in("/tmp").unwrap();
        let mut command = railctl(home.path());
        command
            .args(["dev", "up", "--name", name, "--owner-stdin"])
            .args(flags)
            .arg("--dir")
            .arg(home.path().join("d"));
        let mut child =
            command.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let owner = child.stdin.take().unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self { home, _owner: owner })
    }

    pub(crate) fn run(&self, args: &[&str]) -> (i32, String, String) {
        run(self.home.path(), args)
    }

    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let (code, out, err) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {err}");
        out
    }

    pub(crate) fn job(&self, name: &str, script: &str) -> String {
        let path = self.home.path().join(format!("{name}.yaml"));
        let script = serde_json::Value::from(script).to_string();
        fs::write(&path, JOB.replace("NAME", name).replace("SCRIPT", &script)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("d")
    }

    fn pid(&self, role: &str) -> i32 {
        let text =
            self.ok(&["dev", "status", "--name", "t", "--dir", self.dir().to_str().unwrap(), "-o", "json"]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let found = value["processes"].as_array().unwrap().iter().find(|one| one["role"] == role);
        found.and_then(|one| one["pid"].as_i64()).and_then(|pid| i32::try_from(pid).ok()).unwrap()
    }
}

#[test]
fn a_cluster_lives_and_ends() {
    let Some(cluster) = Cluster::up("t", &["--nodes", "2", "--rails", "2", "--gpus", "2"]) else { return };
    let nodes = cluster.ok(&["get", "nodes"]);
    assert_eq!(nodes.matches("Ready").count(), 2, "{nodes}");
    assert!(cluster.ok(&["whoami"]).contains("admin"));
    cables_are_where_they_belong_until_the_document_changes(&cluster);

    let good = cluster.job("good", "echo I am $RANK of $WORLD_SIZE");
    assert_eq!(cluster.ok(&["submit", &good]), "job/t/good\n".replace("/t/", "/dev/"));
    assert_eq!(cluster.run(&["submit", &good]).0, 5, "the name is taken");
    let bad = cluster.job("bad", "exit 3");
    let (code, _, err) = cluster.run(&["submit", &bad, "--wait", "--timeout", "60s"]);
    assert!(code == 1 && err.contains("ended as Failed"), "{code} {err}");
    let long = cluster.job("long", "echo begun; exec sleep 1000");
    let (code, _, err) = cluster.run(&["submit", &long, "--wait", "--timeout", "300ms"]);
    assert!(code == 7 && err.contains("goes on"), "{code} {err}");
    let phases = cluster.ok(&["get", "jobs", "--phase", "running,pending,reserved,preparing", "-o", "name"]);
    assert_eq!(phases, "job/dev/long\n");

    // What dies is started again, and nothing is forgotten.
    for role in ["controller", "agent-n1"] {
        let pid = rustix::process::Pid::from_raw(cluster.pid(role)).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    cluster.ok(&["dev", "up", "--name", "t", "--dir", cluster.dir().to_str().unwrap()]);
    let (code, _, err) =
        cluster.run(&["dev", "up", "--name", "t", "--nodes", "3", "--dir", cluster.dir().to_str().unwrap()]);
    assert!(code == 2 && err.contains("2 nodes"), "{code} {err}");
    cluster.ok(&["cancel", "long", "--grace", "1s", "--wait", "--timeout", "60s"]);
    assert_eq!(cluster.ok(&["get", "jobs", "--phase", "cancelled", "-o", "name"]), "job/dev/long\n");
    assert_eq!(cluster.run(&["get", "jobs", "nobody"]).0, 3);
    cluster.ok(&["delete", "job", "long", "bad"]);
    an_array_is_one_thing(&cluster);
    what_is_asked_for_again_or_wrongly_is_told(&cluster);
    documents_of_one_file_see_each_other_in_a_dry_run(&cluster);
    a_switch_is_made_by_a_file_shown_rendered_and_forgotten(&cluster);
    what_destroys_is_named_told_and_confirmed(&cluster);

    let dir = cluster.dir();
    cluster.ok(&["dev", "down", "--name", "t", "--dir", dir.to_str().unwrap()]);
    assert!(!dir.exists());
    assert_eq!(cluster.run(&["get", "jobs"]).0, 2, "the context went with the cluster");
}

/// It is submitted, waited for, shown, read and ended by one name, and has failed if any of its elements has.
fn an_array_is_one_thing(cluster: &Cluster) {
    let file = cluster.job("sweep", "test $RAIL_ARRAY_INDEX -lt 10 && echo element $RAIL_ARRAY_INDEX");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("spec:\n", "spec:\n  array: 0-11\n").replace("nodes: 2", "nodes: 1"))
        .unwrap();
    let (code, _, err) = cluster.run(&["submit", &file, "--wait", "--timeout", "120s"]);
    assert!(
        code == 1 && err.contains("2 of the 12 elements of array dev/sweep did not complete"),
        "{code} {err}"
    );
    assert!(err.contains("sweep[10]: ") && err.contains("12 of 12 have ended"), "{err}");
    let listed = cluster.ok(&["get", "jobs", "sweep", "-o", "name"]);
    let names: Vec<&str> = listed.lines().collect();
    assert_eq!((names.len(), names[2], names[10]), (12, "job/dev/sweep-2", "job/dev/sweep-10"), "{listed}");
    let reported = cluster.ok(&["describe", "job", "sweep"]);
    assert!(
        reported.contains("12 elements: 10 Completed, 2 Failed") && reported.contains("  sweep[10]: "),
        "{reported}"
    );
    assert!(cluster.ok(&["describe", "job", "sweep[3]"]).contains("sweep-3"));
    let (code, out, err) = cluster.run(&["logs", "sweep[2,9]"]);
    assert!(code == 0 && out.contains("element 2\n") && out.contains("element 9\n"), "{code} {out} {err}");
    assert!(err.contains("==> sweep[2] <=="), "{err}");
    assert!(cluster.ok(&["explain", "job", "sweep[11]"]).contains("Failed"));
    let (code, _, err) = cluster.run(&["explain", "job", "sweep"]);
    assert!(code == 2 && err.contains("sweep[0]"), "{code} {err}");
    let (code, _, err) = cluster.run(&["logs", "sweep[12]"]);
    assert!(code == 3 && err.contains("12 from 0 to 11"), "{code} {err}");
    // Waiting for the end of all of it, not of the first.
    let file = cluster.job("slow", "exec sleep 1000");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("spec:\n", "spec:\n  array: 0-2\n").replace("nodes: 2", "nodes: 1"))
        .unwrap();
    assert_eq!(cluster.ok(&["submit", &file]), "array/dev/slow\n");
    let (code, _, err) = cluster.run(&["apply", "-f", &file]);
    assert!(code == 5 && err.contains("exists already"), "the name is an array's: {code} {err}");
    let (code, _, err) = cluster.run(&["cancel", "slow", "--grace", "1s", "--wait", "--timeout", "60s"]);
    assert!(
        code == 0 && err.contains("3 elements of array dev/slow have ended: 3 Cancelled"),
        "{code} {err}"
    );
    cluster.ok(&["delete", "job", "slow"]);
}

/// What is named and is not there, or could not be there, is told; what is there as it is asked for is no error.
fn what_is_asked_for_again_or_wrongly_is_told(cluster: &Cluster) {
    let (code, _, err) = cluster.run(&["get", "jobs", "--tenant", "nosuch"]);
    assert!(code == 3 && err.contains("there is no tenant 'nosuch'"), "{code} {err}");
    let file = cluster.job("again", "exit 0");
    cluster.ok(&["submit", &file, "--wait", "--timeout", "60s"]);
    assert_eq!(cluster.ok(&["apply", "-f", &file]), "job/dev/again unchanged\n");
    let other = cluster.job("again", "exit 1");
    let (code, _, err) = cluster.run(&["apply", "-f", &other]);
    assert!(code == 5 && err.contains("exists already"), "{code} {err}");
    cluster.ok(&["delete", "job", "again"]);
    fs::write(&other, fs::read_to_string(&other).unwrap().replace("again", "'../../etc/passwd'")).unwrap();
    for command in [&["plan"][..], &["submit", "--dry-run"]] {
        let (code, _, err) = cluster.run(&[command, &[other.as_str()]].concat());
        assert!(code == 2 && err.contains("etc/passwd"), "{code} {err}");
    }
}

/// A file that makes a tenant, its queue, a class, a license and a job of them is judged as it would be applied.
fn documents_of_one_file_see_each_other_in_a_dry_run(cluster: &Cluster) {
    let text = "apiVersion: rail/v1\nkind: Queue\nmetadata: {name: nightly, tenant: dev}\nspec: {}\n---\n\
                apiVersion: rail/v1\nkind: ServiceClass\nmetadata: {name: short}\nspec: {}\n---\n\
                apiVersion: rail/v1\nkind: License\nmetadata: {name: matlab}\nspec: {total: 2}\n---\n\
                apiVersion: rail/v1\nkind: Tenant\nmetadata: {name: nlp}\nspec: {quota: {gpus: 2}}\n---\n\
                apiVersion: rail/v1\nkind: Queue\nmetadata: {name: q, tenant: nlp}\nspec: {}\n---\n\
                apiVersion: rail/v1\nkind: Job\nmetadata: {name: together}\nspec:\n  queue: nightly\n  \
                serviceClass: short\n  licenses: {matlab: 2}\n  gang: {nodes: 2, gpusPerNode: 1}\n  \
                command: {argv: [sh, -c, 'exit 0']}\n";
    let path = cluster.home.path().join("together.yaml");
    fs::write(&path, text).unwrap();
    let file = path.to_str().unwrap();
    let reported = cluster.ok(&["apply", "--dry-run", "-f", file]);
    let expected = "queue/dev/nightly would be created (dry run)\nservice-class/short would be created (dry run)\n\
                    license/matlab would be created (dry run)\ntenant/nlp would be created (dry run)\n\
                    queue/nlp/q would be created (dry run)\njob/dev/together would be submitted (dry run)\n";
    assert_eq!(reported, expected);
    let (code, out, err) = cluster.run(&["diff", "-f", file]);
    assert!(code == 1 && err.contains("6 documents would change something"), "{code} {err}");
    assert!(out.contains("+++ queue/nlp/q") && out.contains("+++ job/dev/together"), "{out}");
    // Nothing of it is there, and what is wrong is told with its place, however many there are.
    assert_eq!(cluster.run(&["get", "tenants", "nlp"]).0, 3);
    fs::write(
        &path,
        text.replace("total: 2", "total: 1").replace("name: q, tenant: nlp", "name: q, tenant: nlq"),
    )
    .unwrap();
    let (code, out, err) = cluster.run(&["apply", "--dry-run", "-f", file]);
    assert_eq!((code, out.lines().count()), (3, 4), "{out} {err}");
    assert!(err.contains("'nlq'") && err.contains("together.yaml:") && err.contains("matlab"), "{err}");
    fs::write(&path, text).unwrap();
    let made = cluster.ok(&["apply", "-f", file]);
    assert_eq!(made.matches("applied\n").count(), 5, "{made}");
    let reported = cluster.ok(&["apply", "--dry-run", "-f", file]);
    assert_eq!(reported.matches(" unchanged (dry run)\n").count(), 6, "{reported}");
    assert_eq!(cluster.run(&["diff", "-f", file]).0, 0);
    cluster.ok(&["wait", "job/together", "--for", "completed", "--timeout", "60s"]);
    cluster.ok(&["delete", "job", "together"]);
    what_was_deleted_comes_back(cluster);
    cluster.ok(&["delete", "tenant", "nlp", "--yes"]);
    cluster.ok(&["delete", "queue", "nightly"]);
    cluster.ok(&["delete", "service-class", "short"]);
    cluster.ok(&["delete", "license", "matlab"]);
}

/// What the fabric document does not say of one of its leaves.
fn a_switch_is_made_by_a_file_shown_rendered_and_forgotten(cluster: &Cluster) {
    let text = "apiVersion: rail/v1\nkind: Switch\nmetadata: {name: p0-rail0}\nspec: {nos: SONIC, asic: spectrum-4}\n";
    let path = cluster.home.path().join("switch.yaml");
    fs::write(&path, text).unwrap();
    let file = path.to_str().unwrap();
    assert_eq!(
        cluster.ok(&["apply", "--dry-run", "-f", file]),
        "switch/p0-rail0 would be created (dry run)\n"
    );
    assert_eq!(cluster.ok(&["apply", "-f", file]), "switch/p0-rail0 applied\n");
    let list = cluster.ok(&["get", "switches"]);
    let row: Vec<&str> = list.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..7], ["p0-rail0", "leaf", "0", "p0", "SONIC", "spectrum-4", "no"], "{list}");
    assert_eq!(cluster.ok(&["get", "switches", "-o", "name"]), "switch/p0-rail0\n");
    assert!(cluster.ok(&["describe", "switch", "p0-rail0"]).contains("spectrum-4"));
    assert_eq!(cluster.run(&["diff", "-f", file]).0, 0);
    // Headroom follows from speed, which the document of this cluster does not say.
    let (code, _, err) = cluster.run(&["switch", "render", "p0-rail0"]);
    assert!(code == 6 && err.contains("does not say how fast the cable is"), "{code} {err}");
    // Routing does not, and is all that Linux has.
    fs::write(&path, text.replace("SONIC, asic: spectrum-4", "LINUX")).unwrap();
    cluster.ok(&["apply", "-f", file]);
    assert!(cluster.ok(&["switch", "render", "p0-rail0"]).contains("router bgp"));
    fs::write(&path, text.replace("spectrum-4", "spectrum4")).unwrap();
    let (code, _, err) = cluster.run(&["apply", "-f", file]);
    assert!(code == 2 && err.contains("did you mean spectrum-4?"), "{code} {err}");
    cluster.ok(&["delete", "switch", "p0-rail0"]);
    assert_eq!(cluster.run(&["switch", "render", "p0-rail0"]).0, 3);
}

/// A tenant with its queue, and the fabric, by the names that lists print.
fn what_was_deleted_comes_back(cluster: &Cluster) {
    assert!(cluster.ok(&["undelete", "--list"]).contains("nothing that was deleted"));
    assert_eq!(cluster.run(&["undelete", "tenant/nlp"]).0, 3);
    cluster.ok(&["delete", "tenant", "nlp", "--yes"]);
    cluster.ok(&["delete", "fabric", "t", "--yes"]);
    let list = cluster.ok(&["undelete", "--list"]);
    assert!(list.contains("tenant/nlp") && list.contains("1 queue") && list.contains("2 servers"), "{list}");
    assert_eq!(cluster.ok(&["undelete", "--list", "-o", "name"]).lines().count(), 2);
    let reported = cluster.ok(&["undelete", "tenant/nlp", "--dry-run"]);
    assert_eq!(reported, "tenant/nlp would be back with 1 queue (dry run)\n");
    let (code, out, err) = cluster.run(&["undelete", "tenant/nlp"]);
    assert_eq!((code, out.as_str()), (0, "tenant/nlp is back with 1 queue\n"), "{err}");
    assert!(err.contains("stay refused"), "{err}");
    assert!(cluster.ok(&["get", "queues", "-A"]).contains("nlp"));
    assert_eq!(cluster.ok(&["undelete", "fabric/t"]), "fabric/t is back with 2 servers\n");
    let records = cluster.ok(&["audit", "list", "-o", "json"]);
    assert_eq!(records.matches("\"Undelete\"").count(), 2, "{records}");
}

/// Nobody wipes a fabric or a tenant by a wrong name, by a template, or in a script that did not say so.
fn what_destroys_is_named_told_and_confirmed(cluster: &Cluster) {
    let empty = cluster.home.path().join("empty.yaml");
    fs::write(&empty, "apiVersion: rail/v1\nkind: Fabric\nmetadata: {name: other}\nspec: {}\n").unwrap();
    let empty = empty.to_str().unwrap();
    for more in [&[][..], &["--dry-run"]] {
        let (code, _, err) = cluster.run(&[&["apply", "-f", empty], more].concat());
        assert!(
            code == 5 && err.contains("no server of the 2") && err.contains("--allow-shrink"),
            "{code} {err}"
        );
    }
    let (code, _, err) = cluster.run(&["delete", "fabric", "wrong", "--yes"]);
    assert!(code == 3 && err.contains("'t'") && err.contains("nothing is deleted"), "{code} {err}");
    let (code, _, err) = cluster.run(&["delete", "fabric", "t"]);
    assert!(code == 2 && err.contains("--yes") && err.contains("2 servers are cabled by it"), "{code} {err}");
    let (code, _, err) = cluster.run(&["delete", "fabric", "t", "--dry-run"]);
    assert!(code == 0 && err.contains("would be deleted"), "{code} {err}");
    let (code, _, err) = cluster.run(&["delete", "tenant", "dev"]);
    assert!(code == 2 && err.contains("13 jobs that have ended go with it"), "{code} {err}");
    assert!(err.contains("the tenant that this command acts for"), "{err}");
    let (code, _, err) = cluster.run(&["delete", "tenant", "dev", "--yes", "--uid", "1234"]);
    assert!(code == 5 && err.contains("another uid"), "{code} {err}");
    assert!(cluster.ok(&["get", "tenants", "-o", "name"]).contains("tenant/dev\n"));
    cluster.ok(&["delete", "fabric", "t", "-y"]);
    assert_eq!(cluster.run(&["get", "fabric"]).0, 3);
    cluster.ok(&["delete", "tenant", "dev", "--yes"]);
}

/// Agents have said what they hear; a document in which two cables of a server are the other way round differs.
fn cables_are_where_they_belong_until_the_document_changes(cluster: &Cluster) {
    let out = cluster.ok(&["topology", "verify", "--ports"]);
    assert_eq!(out, "4 of 4 cables are where they belong; 0 wrong, 0 not heard of, 0 not in the document\n");
    let planned = cluster.ok(&["get", "fabric", "-o", "json"]);
    let mut value: serde_json::Value = serde_json::from_str(&planned).unwrap();
    value["metadata"] = serde_json::json!({"name": "t"});
    value.as_object_mut().unwrap().remove("status");
    let file = cluster.home.path().join("fabric.json");
    let path = file.to_str().unwrap();
    let right = value.to_string();
    let links = value["spec"]["links"].as_array_mut().unwrap();
    let (a, b) = (links[0]["leaf"].clone(), links[1]["leaf"].clone());
    let (nic, other) = (links[0]["nic"].clone(), links[1]["nic"].clone());
    assert!(a != b && links[0]["node"] == links[1]["node"]);
    (links[0]["nic"], links[1]["nic"]) = (other, nic);
    fs::write(&file, value.to_string()).unwrap();
    let (code, out, err) = cluster.run(&["topology", "verify", "-f", path]);
    assert_eq!(code, 1, "{err}");
    assert!(out.contains("Wrong (2):") && out.contains("in this order (3):"), "{out}");
    let (code, _, err) = cluster.run(&["apply", "-f", path]);
    assert!(code == 0 && err.contains("note: RailMismatch"), "{err}");
    fs::write(&file, right).unwrap();
    cluster.ok(&["apply", "-f", path]);
    let picture = cluster.home.path().join("f.svg");
    cluster.ok(&["topology", "show", "--svg", picture.to_str().unwrap()]);
    assert!(fs::read_to_string(picture).unwrap().contains("<title>n1: up</title>"));
}

#[test]
fn an_impossible_job_is_exit_6_at_its_field_and_strangers_are_denied() {
    let Some(cluster) = Cluster::up("u", &["--nodes", "1", "--rails", "1", "--gpus", "2"]) else { return };
    let path = cluster.job("huge", "true");
    let text =
        fs::read_to_string(&path).unwrap().replace("nodes: 2, gpusPerNode: 1", "nodes: 1, gpusPerNode: 9");
    fs::write(&path, text).unwrap();
    for verb in [&["submit"][..], &["plan"], &["submit", "--dry-run"]] {
        let (code, _, err) = cluster.run(&[verb, &[&path]].concat());
        assert_eq!(code, 6, "{verb:?}: {err}");
        assert!(err.contains("GpuShape"), "{verb:?}: {err}");
    }
    let (_, _, err) = cluster.run(&["submit", &path]);
    assert!(err.contains(&format!("{path}:5:33: spec.gang.gpusPerNode")), "{err}");
    assert_eq!(cluster.ok(&["get", "jobs", "-o", "name"]), "", "nothing was stored");
    assert_eq!(cluster.run(&["submit", &path, "--tenant", "nobody"]).0, 3);

    let out = cluster.home.path().join("anna");
    cluster.ok(&["tenant", "create", "nlp", "--gpus", "1"]);
    cluster.ok(&[
        "--tenant",
        "nlp",
        "tenant",
        "issue-cert",
        "anna",
        "--out",
        out.to_str().unwrap(),
        "--add-context",
        "anna",
    ]);
    assert!(cluster.ok(&["--context", "anna", "whoami"]).contains("nlp"));
    assert_eq!(cluster.run(&["--context", "anna", "node", "cordon", "n0"]).0, 4);
    assert_eq!(cluster.run(&["--context", "anna", "--tenant", "dev", "get", "jobs"]).0, 4);
}

#[test]
fn a_folder_that_goes_before_its_owner_leaves_no_process() {
    let Some(cluster) = Cluster::up("w", &["--nodes", "1", "--rails", "1", "--gpus", "1"]) else { return };
    let dir = cluster.dir();
    let of_it = || {
        let all = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        all.filter(|line| String::from_utf8_lossy(line).contains(dir.to_str().unwrap())).count()
    };
    // The controller, the agent and the guard.
    assert_eq!(of_it(), 3);
    // The cluster writes at the same time, so that something may stay.
    let _ = fs::remove_dir_all(&dir);
    drop(cluster);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while of_it() > 0 {
        assert!(std::time::Instant::now() < end, "{} processes are left", of_it());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn namespaces_come_and_go() {
    let may = rustix::process::geteuid().is_root()
        && Command::new("ip")
            .args(["netns", "add", "rail-probe"])
            .output()
            .is_ok_and(|made| made.status.success());
    let _ = Command::new("ip").args(["netns", "del", "rail-probe"]).output();
    if !may {
        eprintln!("skipped: network namespaces cannot be made here");
        return;
    }
    let name = format!("v{}", std::process::id());
    let flags = ["--netns", "--nodes", "2", "--rails", "2", "--pods", "2", "--rail-rate", "300mbit"];
    let Some(cluster) = Cluster::up(&name, &flags) else { return };
    let namespaces = || String::from_utf8(Command::new("ip").arg("netns").output().unwrap().stdout).unwrap();
    assert_eq!(namespaces().matches(&format!("rail-{name}-")).count(), 2 + 4 + 2);
    // Ranks of different pods meet through the spine of their rail.
    let job = cluster.job("meet", "ls /sys/class/net");
    cluster.ok(&["submit", &job, "--wait", "--timeout", "60s"]);
    cluster.ok(&["dev", "down", "--name", &name, "--dir", cluster.dir().to_str().unwrap()]);
    assert_eq!(namespaces().matches(&format!("rail-{name}-")).count(), 0);
    assert!(!cluster.dir().exists());
}
