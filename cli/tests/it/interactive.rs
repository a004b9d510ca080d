//! Interactive work with the real programs, where they have been built beside railctl.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
};

use crate::{railctl, real::Cluster};

/// A railctl that goes on, and what it writes.
struct Going {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Going {
    fn start(cluster: &Cluster, args: &[&str]) -> Self {
        let mut command: Command = railctl(cluster.home.path());
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// What it still writes, and its exit code.
    fn end(self) -> (String, i32) {
        let Self { mut child, out } = self;
        let rest: Vec<String> = out.lines().map(Result::unwrap).collect();
        (rest.join("\n"), child.wait().unwrap().code().unwrap_or(-1))
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn steps_run_in_jobs_and_allocations_are_given_back() {
    let Some(cluster) = Cluster::up("t", &["--nodes", "2", "--rails", "1", "--gpus", "2"]) else { return };
    let held = cluster.ok(&["alloc", "--no-shell", "--nodes", "2", "--gpus-per-node", "1", "--name", "a"]);
    assert_eq!(held, "job/dev/a\n");
    output_and_exit_codes(&cluster);
    input_and_terminals(&cluster);
    interrupts(&cluster);
    a_lost_caller(&cluster);
    refusals_and_records(&cluster);
    the_end_of_the_job(&cluster);
    allocations(&cluster);
}

fn output_and_exit_codes(cluster: &Cluster) {
    let reported = "echo $RAIL_NODE $RANK/$WORLD_SIZE $RAIL_JOB; echo oops $RANK >&2";
    let (code, out, err) = cluster.run(&["run", "--job", "a", "-n", "--label", "--", "sh", "-c", reported]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(sorted(&out), ["n0: n0 0/2 dev/a", "n1: n1 1/2 dev/a"]);
    assert_eq!(sorted(&err), ["n0: oops 0", "n1: oops 1"]);
    let run = |script: &str| cluster.run(&["run", "--job", "a", "-n", "--", "sh", "-c", script]).0;
    assert_eq!(run("exit $((RANK + 3))"), 4);
    assert_eq!(run("kill -9 $$"), 137);
    let args = [
        "run",
        "--job",
        "a",
        "-n",
        "--node",
        "n1",
        "--ranks-per-node",
        "3",
        "--",
        "sh",
        "-c",
        "echo $LOCAL_RANK",
    ];
    assert_eq!(sorted(&cluster.ok(&args)), ["0", "1", "2"]);
    let many = cluster.ok(&["run", "--job", "a", "-n", "--one", "--", "seq", "1", "200000"]);
    assert_eq!((many.lines().count(), many.lines().last()), (200_000, Some("200000")));
    let none = cluster.run(&["run", "--job", "a", "-n", "--one", "--", "/no/such/program"]);
    assert!(none.0 == 127 && none.2.contains("cannot run '/no/such/program'"), "{none:?}");
}

fn input_and_terminals(cluster: &Cluster) {
    let mut command = railctl(cluster.home.path());
    command.args(["run", "--job", "a", "--one", "--", "wc", "-c"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&vec![b'x'; 1_000_000]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "1000000");
    // Whoever reads none of it holds nobody up.
    let mut command = railctl(cluster.home.path());
    command.args(["run", "--job", "a", "--one", "--", "true"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let fed = std::thread::spawn(move || drop(stdin.write_all(&vec![b'x'; 1_000_000])));
    assert!(child.wait().unwrap().success());
    fed.join().unwrap();
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM";
    let out = cluster.ok(&["run", "--job", "a", "--tty", "-n", "--", "sh", "-c", script]);
    assert_eq!(out, "24 80\r\ndumb\r\n");
}

fn interrupts(cluster: &Cluster) {
    use rustix::process::Signal;
    let run = |script| {
        let mut going =
            Going::start(cluster, &["run", "--job", "a", "--node", "n0", "--", "sh", "-c", script]);
        assert_eq!(going.line(), "ready");
        going
    };
    let polite = run("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done");
    polite.signal(Signal::INT);
    assert_eq!(polite.end(), ("caught".to_owned(), 5));
    let stubborn =
        run("trap '' INT; trap 'echo asked; exit 6' TERM; echo ready; while :; do sleep 0.05; done");
    stubborn.signal(Signal::INT);
    // The kernel joins signals that are not taken yet: the second one is sent until it is told of its end.
    let pid = rustix::process::Pid::from_raw(stubborn.child.id().cast_signed()).unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let over = std::sync::Arc::clone(&stop);
    let again = std::thread::spawn(move || {
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            let _ = rustix::process::kill_process(pid, Signal::INT);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    });
    let mut stubborn = stubborn;
    assert_eq!(stubborn.line(), "asked");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    again.join().unwrap();
    assert_eq!(stubborn.end(), (String::new(), 6));
}

fn a_lost_caller(cluster: &Cluster) {
    let script = "echo ready; exec sleep 98765";
    let mut going = Going::start(cluster, &["run", "--job", "a", "--node", "n0", "--", "sh", "-c", script]);
    assert_eq!(going.line(), "ready");
    going.signal(rustix::process::Signal::KILL);
    drop(going.end());
    let check = [
        "run",
        "--job",
        "a",
        "-n",
        "--node",
        "n0",
        "--",
        "sh",
        "-c",
        "grep -qs '9876[5]' /proc/[0-9]*/cmdline",
    ];
    let gone = (0..100).any(|_| cluster.run(&check).0 != 0);
    assert!(gone, "the step outlives its caller");
}

fn refusals_and_records(cluster: &Cluster) {
    let (code, _, err) = cluster.run(&["run", "--job", "a", "--node", "n7", "--", "true"]);
    assert!(code == 2 && err.contains("runs on n0, n1"), "{code} {err}");
    let (code, _, err) = cluster.run(&["run", "--job", "a", "--ranks-per-node", "2", "--tty", "--", "true"]);
    assert!(code == 2 && err.contains("one process"), "{code} {err}");
    let (code, _, err) = cluster.run(&["run", "--job", "none", "--", "true"]);
    assert!(code == 3, "{code} {err}");
    let (code, _, err) = cluster.run(&["run", "--job", "a", "--gpus-per-node", "1", "--", "true"]);
    assert!(code == 2 && err.contains("unset RAIL_JOB"), "{code} {err}");
    let records = cluster.ok(&["audit", "list", "-o", "json"]);
    assert!(records.contains("a: sh") && !records.contains("sleep 98765"), "{records}");
}

fn the_end_of_the_job(cluster: &Cluster) {
    let script = "echo ready; exec sleep 1000";
    let mut going = Going::start(cluster, &["run", "--job", "a", "--", "sh", "-c", script]);
    assert_eq!((going.line(), going.line()), ("ready".to_owned(), "ready".to_owned()));
    cluster.ok(&["cancel", "a", "--wait", "--timeout", "60s"]);
    assert_eq!(going.end(), (String::new(), 143));
    assert_eq!(cluster.ok(&["get", "jobs", "--phase", "cancelled", "-o", "name"]), "job/dev/a\n");
    let (code, _, err) = cluster.run(&["run", "--job", "a", "--", "true"]);
    assert!(code == 6 && err.contains("has ended (CANCELLED)"), "{code} {err}");
}

fn allocations(cluster: &Cluster) {
    let railctl = env!("CARGO_BIN_EXE_railctl");
    let inside = "echo $RAIL_NODES; \"$0\" run -n -- sh -c 'echo step $RANK'; exit 9";
    let (code, out, err) =
        cluster.run(&["alloc", "--nodes", "2", "--name", "b", "--", "sh", "-c", inside, railctl]);
    assert_eq!(code, 9, "{err}");
    assert_eq!(sorted(&out), ["n0,n1", "step 0", "step 1"]);
    let mut going =
        Going::start(cluster, &["alloc", "--name", "c", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
    assert_eq!(going.line(), "ready");
    going.signal(rustix::process::Signal::TERM);
    assert_eq!(going.end(), (String::new(), 143));
    let (code, out, err) =
        cluster.run(&["run", "--nodes", "2", "--name", "d", "-n", "--", "sh", "-c", "echo $RANK; exit 2"]);
    assert_eq!((code, sorted(&out)), (2, vec!["0", "1"]), "{err}");
    let limited = ["alloc", "--no-shell", "--name", "e", "--time-limit", "1s"];
    cluster.ok(&limited);
    for name in ["b", "c", "d", "e"] {
        // What has been cancelled already stays so.
        let (code, _, err) = cluster.run(&["cancel", name, "--wait", "--timeout", "60s"]);
        assert!(code == 0 || code == 5, "{code} {err}");
        let phase = cluster.ok(&["get", "jobs", name, "-o", "json"]);
        assert!(phase.contains("\"CANCELLED\""), "{phase}");
    }
}
