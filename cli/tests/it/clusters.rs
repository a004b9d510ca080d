//! Local clusters whose controller only pretends: that nothing is left is as much `dev`'s work as that all runs.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use crate::{railctl, run};

/// Programs that pretend: `init` succeeds, `run` does what the test wants.
fn pretend(home: &Path, run: &str) -> PathBuf {
    let dir = home.join("bin");
    fs::create_dir_all(&dir).unwrap();
    for program in ["rail-controller", "rail-node-agent", "rail-engine"] {
        let path = dir.join(program);
        fs::write(&path, format!("#!/bin/sh\nif [ \"$1\" = init ]; then exit 0; fi\n{run}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    dir
}

/// Leaves processes that a careless removal would miss: a child in a session of its own, whose parent ignores SIGTERM.
const STUBBORN: &str = "trap '' TERM\nsetsid sleep 1234567 &\nwhile :; do sleep 1; done";

/// Everybody who carries the mark of a cluster in this folder.
fn left(dir: &Path) -> Vec<i32> {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let belongs = |pid: &i32| {
        let cmdline = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&[cmdline, environ].concat()).into_owned();
        text.contains(dir.to_str().unwrap()) && text.contains("RAIL_DEV_CLUSTER=")
    };
    processes.filter(belongs).collect()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "{what} took longer than 30 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `dev up` of a cluster that never becomes ready, once its controller runs.
fn stuck(home: &Path, dir: &Path, owned: bool) -> Child {
    let bin = pretend(home, STUBBORN);
    let mut command = railctl(home);
    command.args(["dev", "up", "--name", "t", "--dir"]).arg(dir).arg("--bin-dir").arg(&bin);
    if owned {
        command.arg("--owner-stdin").stdin(Stdio::piped());
    }
    // The folder of the programs is in `home`, so every process of the cluster names it.
    let child =
        command.env("RAIL_TEST_DIR", dir).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the start of the controller", || dir.join("run/controller.json").exists() && sleeps(dir));
    child
}

fn sleeps(dir: &Path) -> bool {
    left(dir).iter().any(|pid| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("1234567"))
    })
}

#[test]
fn a_controller_that_ends_is_told_with_its_log_and_nothing_is_left() {
    let home = tempfile::tempdir().unwrap();
    let bin = pretend(home.path(), "echo the disk is on fire >&2; exit 3");
    let dir = home.path().join("d");
    let (code, out, err) =
        run(home.path(), &["dev", "up", "--dir", dir.to_str().unwrap(), "--bin-dir", bin.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("the disk is on fire") && err.contains("exit status: 3"), "{err}");
    assert!(!dir.exists());
}

#[test]
fn missing_programs_are_named() {
    let home = tempfile::tempdir().unwrap();
    let (code, _, err) = run(home.path(), &["dev", "up", "--bin-dir", home.path().to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(
        err.contains("rail-controller, rail-node-agent, rail-engine not found")
            && err.contains("cargo build"),
        "{err}"
    );
}

#[test]
fn down_and_status_of_nothing() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(run(home.path(), &["dev", "down"]).0, 0);
    assert_eq!(run(home.path(), &["dev", "status"]).0, 3);
    let strange = home.path().join("strange");
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("thesis.txt"), "x").unwrap();
    let (code, _, err) = run(home.path(), &["dev", "down", "--dir", strange.to_str().unwrap()]);
    assert_eq!(code, 1, "{err}");
    assert!(strange.join("thesis.txt").exists());
    assert_eq!(run(home.path(), &["dev", "up", "--dir", strange.to_str().unwrap()]).0, 2);
}

#[test]
fn down_cleans_up_after_an_up_that_was_killed() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("d");
    let mut up = stuck(home.path(), &dir, false);
    up.kill().unwrap();
    up.wait().unwrap();
    assert!(!left(&dir).is_empty(), "the cluster outlives `up`");
    let (code, _, err) = run(home.path(), &["dev", "down", "--name", "t", "--dir", dir.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    assert!(left(&dir).is_empty() && !dir.exists(), "{err}");
    assert_eq!(run(home.path(), &["dev", "down", "--name", "t", "--dir", dir.to_str().unwrap()]).0, 0);
}

#[test]
fn down_ends_an_up_that_still_works() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("d");
    let mut up = stuck(home.path(), &dir, false);
    assert_eq!(run(home.path(), &["dev", "down", "--name", "t", "--dir", dir.to_str().unwrap()]).0, 0);
    assert!(!up.wait().unwrap().success());
    assert!(left(&dir).is_empty() && !dir.exists());
}

#[test]
fn an_owner_who_dies_takes_the_cluster_along() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("d");
    let mut up = stuck(home.path(), &dir, true);
    // The owner's end of the pipe closes, as it does when the owner is killed.
    drop(up.stdin.take());
    until("the guard", || left(&dir).is_empty() && !dir.exists());
    assert!(!up.wait().unwrap().success());
}

#[test]
fn an_up_that_is_killed_is_cleaned_by_its_guard() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("d");
    let mut up = stuck(home.path(), &dir, true);
    let owner = up.stdin.take();
    up.kill().unwrap();
    up.wait().unwrap();
    until("the guard", || left(&dir).is_empty() && !dir.exists());
    drop(owner);
}

#[test]
fn an_interrupted_up_cleans_up_itself() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("d");
    let mut up = stuck(home.path(), &dir, false);
    let pid = rustix::process::Pid::from_raw(up.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(130));
    assert!(left(&dir).is_empty() && !dir.exists());
    let mut text = String::new();
    let _ = fs::File::open(home.path().join("config.yaml")).map(|mut file| file.read_to_string(&mut text));
    assert_eq!(text, "");
}
