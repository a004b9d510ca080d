//! What people do inside running jobs and with their rights, against the real programs where they have been built beside railctl.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Stdio,
    time::{Duration, Instant},
};

use crate::{railctl, real::Cluster};

#[test]
fn what_people_do_inside_running_jobs() {
    let Some(cluster) = Cluster::up("z", &["--nodes", "2", "--rails", "2", "--gpus", "2"]) else { return };
    files_and_folders_are_copied(&cluster);
    signals_reach_the_ranks(&cluster);
    a_port_is_reached(&cluster);
    what_is_used_is_told(&cluster);
    jobs_are_held_named_and_labelled(&cluster);
    a_batch_script_is_a_job(&cluster);
    rights_are_reported(&cluster);
}

/// A job of one server that waits for a file's end.
fn running(cluster: &Cluster, name: &str, script: &str) {
    let file = cluster.job(name, &format!("echo begun; {script}"));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("nodes: 2", "nodes: 1")).unwrap();
    cluster.ok(&["submit", &file]);
    cluster.ok(&["wait", &format!("job/{name}"), "--for", "started", "--timeout", "60s"]);
}

fn files_and_folders_are_copied(cluster: &Cluster) {
    running(cluster, "in", "exec sleep 1000");
    let home = cluster.home.path();
    let path = |name: &str| home.join(name).display().to_string();
    let large: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(path("large"), &large).unwrap();
    cluster.ok(&["cp", &path("large"), "in:copy"]);
    cluster.ok(&["cp", "in:copy", &path("back")]);
    assert_eq!(fs::read(path("back")).unwrap(), large);
    fs::create_dir_all(home.join("tree/sub")).unwrap();
    fs::write(home.join("tree/sub/a"), "1").unwrap();
    cluster.ok(&["cp", &path("tree"), "in:tree"]);
    assert_eq!(cluster.ok(&["run", "--job", "in", "-n", "--", "cat", "tree/sub/a"]), "1");
    cluster.ok(&["cp", "in:tree", &path("again")]);
    assert_eq!(fs::read_to_string(home.join("again/sub/a")).unwrap(), "1");
    let (code, _, err) = cluster.run(&["cp", "in:nothing", &path("none")]);
    assert!(
        code == 1 && err.contains("no file or folder nothing") && !home.join("none").exists(),
        "{code} {err}"
    );
    let (code, _, err) = cluster.run(&["cp", &path("large"), "in:no/such/folder/x"]);
    assert!(code != 0 && err.contains("no/such/folder"), "{code} {err}");
    let (code, _, err) = cluster.run(&["cp", "a", "b"]);
    assert!(code == 2 && err.contains("JOB:PATH"), "{code} {err}");
}

fn signals_reach_the_ranks(cluster: &Cluster) {
    running(cluster, "traps", "trap 'echo caught; exit 0' USR1; echo ready; while :; do sleep 0.05; done");
    until(|| cluster.ok(&["logs", "traps"]).contains("ready"));
    let (code, _, err) = cluster.run(&["signal", "traps", "SIGUSR3"]);
    assert!(code == 2 && err.contains("USR"), "{code} {err}");
    cluster.ok(&["signal", "job/traps", "USR1"]);
    cluster.ok(&["wait", "job/traps", "--for", "completed", "--timeout", "60s"]);
    assert!(cluster.ok(&["logs", "traps"]).contains("caught"));
    let (code, _, err) = cluster.run(&["signal", "traps", "USR1"]);
    assert!(code == 6 && err.contains("has ended"), "{code} {err}");
}

/// Looks again and again, for two minutes at most.
fn until(fits: impl Fn() -> bool) {
    let begun = Instant::now();
    while !fits() {
        assert!(begun.elapsed() < Duration::from_secs(120), "it never comes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_port_is_reached(cluster: &Cluster) {
    let script = "exec python3 -c 'import socket\ns = socket.create_server((\"127.0.0.1\", 0))\nprint(\"port\", s.getsockname()[1], flush=True)\n\
                  while True:\n  c, _ = s.accept()\n  d = c.recv(100)\n  c.sendall(d.upper())\n  c.close()'";
    let file = cluster.job("serves", script);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("nodes: 2", "nodes: 1").replace("gpusPerNode: 2", "gpusPerNode: 1"))
        .unwrap();
    cluster.ok(&["submit", &file]);
    cluster.ok(&["wait", "job/serves", "--for", "started", "--timeout", "60s"]);
    until(|| cluster.ok(&["logs", "serves"]).contains("port "));
    let logs = cluster.ok(&["logs", "serves"]);
    let port = logs.lines().find_map(|line| line.strip_prefix("port ")).unwrap().to_owned();
    let mut forward = railctl(cluster.home.path());
    forward.args(["port-forward", "serves", &format!("0:{port}")]);
    let mut forward = forward.stderr(Stdio::piped()).spawn().unwrap();
    let mut reported = std::io::BufReader::new(forward.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut reported, &mut line).unwrap();
    let address = line.split(' ').next().unwrap().to_owned();
    for word in ["first", "second"] {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, word.to_uppercase());
    }
    let (code, _, err) = cluster.run(&["port-forward", "traps", "80"]);
    assert!(code == 2 && err.contains("while it runs"), "{code} {err}");
    cluster.ok(&["cancel", "serves", "--wait", "--timeout", "60s"]);
    // The next connection shows that there is nothing behind it any more.
    let _ = TcpStream::connect(&address).unwrap();
    let code = forward.wait().unwrap().code();
    line.clear();
    std::io::Read::read_to_string(&mut reported, &mut line).unwrap();
    assert!(code.is_some_and(|code| code != 0) && line.contains("has ended"), "{code:?} {line}");
}

fn what_is_used_is_told(cluster: &Cluster) {
    until(|| cluster.ok(&["top", "nodes", "-o", "name"]).lines().count() == 2);
    let nodes = cluster.ok(&["top", "nodes"]);
    assert!(nodes.contains("MEMORY%") && nodes.contains("n1"), "{nodes}");
    until(|| cluster.ok(&["top", "jobs", "--columns", "JOB,PROCESSES", "--no-headers"]).starts_with("in "));
    let jobs: serde_json::Value = serde_json::from_str(&cluster.ok(&["top", "jobs", "-o", "json"])).unwrap();
    let job = &jobs["jobs"][0];
    assert_eq!((&job["job"], &job["nodes"]), (&"in".into(), &1.into()), "{jobs}");
    until(|| cluster.ok(&["top", "jobs", "--columns", ".nodesReported", "--no-headers"]).trim() == "1");
    let used = cluster.ok(&["seff", "traps"]);
    assert!(used.contains("CPU time") && used.contains("Memory") && used.contains("GPU"), "{used}");
    let json: serde_json::Value =
        serde_json::from_str(&cluster.ok(&["seff", "traps", "-o", "json"])).unwrap();
    assert!(json["cpuSeconds"].as_f64().is_some(), "{json}");
    cluster.ok(&["cancel", "in", "--wait", "--timeout", "60s"]);
}

fn jobs_are_held_named_and_labelled(cluster: &Cluster) {
    let file = cluster.job("later", "echo done on $RAIL_NODE");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("nodes: 2", "nodes: 1")).unwrap();
    cluster.ok(&["submit", &file, "--hold", "-w", "n1"]);
    let job = cluster.ok(&["get", "job/later", "-o", "json"]);
    assert!(job.contains("\"PENDING\"") && job.contains("HeldBy"), "{job}");
    cluster.ok(&["label", "job/later", "team=vision", "stage=one"]);
    cluster.ok(&["label", "job", "later", "stage-"]);
    assert_eq!(cluster.ok(&["get", "jobs", "-l", "team=vision", "-o", "name"]), "job/dev/later\n");
    cluster.ok(&["release", "later"]);
    cluster.ok(&["wait", "job/later", "--for", "completed", "--timeout", "60s"]);
    assert_eq!(cluster.ok(&["logs", "later", "--stdout"]), "done on n1\n");
    cluster.ok(&["label", "job/later", "team=audio"]);
    let labels = cluster.ok(&["get", "job/later", "-o", "jsonpath=$.metadata.labels"]);
    assert_eq!(labels, "{\"team\":\"audio\"}\n");
    let (code, _, err) = cluster.run(&["submit", &file, "--name", "never", "--nodelist", "n7"]);
    assert!(code == 6 && err.contains("names"), "{code} {err}");
    let (code, _, err) = cluster.run(&["submit", &file, "--name", "few", "--nodes", "2", "--nodelist", "n1"]);
    assert!(code == 2 && err.contains("placement.nodes"), "{code} {err}");
}

fn a_batch_script_is_a_job(cluster: &Cluster) {
    let script = cluster.home.path().join("job.sh");
    let text = "#!/bin/sh\n#SBATCH --job-name=batch --nodes=2 --gpus-per-node=1\n#SBATCH --time=10 --output=x.out\n\
                echo \"rank $SLURM_PROCID of $SLURM_NTASKS\"\n";
    fs::write(&script, text).unwrap();
    let script = script.display().to_string();
    let (code, _, err) = cluster.run(&["submit", &script, "--wait", "--timeout", "60s"]);
    assert!(
        code == 0 && err.contains("note: --output is left out") && err.contains("runs 2 times"),
        "{code} {err}"
    );
    assert_eq!(cluster.ok(&["logs", "batch", "--rank", "1"]).trim(), "rank 1 of 2");
    fs::write(&script, "#!/bin/sh\n#SBATCH --ndoes=2\n").unwrap();
    let (code, _, err) = cluster.run(&["submit", &script]);
    assert!(code == 2 && err.contains("job.sh:2:1") && err.contains("--nodes"), "{code} {err}");
}

fn rights_are_reported(cluster: &Cluster) {
    assert_eq!(cluster.ok(&["auth", "can-i", "cordon", "nodes"]), "yes\n");
    assert!(cluster.ok(&["auth", "can-i", "--list"]).contains("CreateJob"));
    let (code, _, err) = cluster.run(&["auth", "can-i", "fly", "nodes"]);
    assert!(code == 2 && err.contains("cordon"), "{code} {err}");
}
