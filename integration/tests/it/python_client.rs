//! `railyard.client`, the Python client of the API: its own tests, its types, what of it and of the clients in other languages is generated, and
//! all of it against a real cluster.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use integration_harness::{Cluster, Shape, binaries, procfs};

/// Where the package is.
fn package() -> PathBuf {
    binaries::root().join("node-agent/capi/python")
}

/// A Python that the package runs on: that of the environment which `cargo xtask test` prepares, with what functions and YAML need, or the
/// system's.
fn python() -> Option<PathBuf> {
    let prepared = std::env::var_os("RAIL_TEST_TOOLS").map(|tools| PathBuf::from(tools).join("bin/python"));
    let good = |python: &PathBuf| {
        let mut command = Command::new(python);
        command.args(["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let found = prepared.into_iter().chain([PathBuf::from("python3")]).find(good);
    if found.is_none() {
        println!("skipped: there is no Python 3.10 or later for railyard.client");
    }
    found
}

fn command(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.current_dir(package()).env("PYTHONPATH", package()).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// The script that drives a cluster, as its administrator.
fn drive(python: &Path, part: &str, cluster: &Cluster) -> Command {
    let mut command = command(python);
    command.arg(binaries::root().join("integration/tests/it/python_client.py")).arg(part);
    command.current_dir(cluster.home()).env("RAIL_CONFIG", cluster.home().join("config.yaml"));
    for variable in
        ["RAIL_CONTEXT", "RAIL_CONTROLLER", "RAIL_CA", "RAIL_CERT", "RAIL_KEY", "RAIL_TOKEN", "RAIL_TENANT"]
    {
        command.env_remove(variable);
    }
    command
}

fn passed(output: &Output, cluster: Option<&Cluster>) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let logs = || cluster.map(Cluster::logs).unwrap_or_default();
    assert!(output.status.success(), "{out}\n{err}\n{}", logs());
    out.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
    out.into_owned()
}

fn cluster() -> Cluster {
    Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 2, ..Shape::default() }).unwrap()
}

#[test]
fn its_own_tests_pass() {
    let Some(python) = python() else { return };
    let mut tests = command(&python);
    tests.args([
        "-W",
        "error::ResourceWarning",
        "-m",
        "unittest",
        "discover",
        "-s",
        "tests/client",
        "-t",
        ".",
    ]);
    let output = tests.output().unwrap();
    passed(&output, None);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("\nOK"), "{printed}");
}

#[test]
fn its_types_hold() {
    let Some(python) = python() else { return };
    let has = command(&python).args(["-c", "import mypy"]).output().unwrap().status.success();
    if !has {
        println!("skipped: mypy is not installed: the types of railyard.client are not checked");
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let output = command(&python).args(["-m", "mypy", "--cache-dir"]).arg(cache.path()).output().unwrap();
    passed(&output, None);
}

#[test]
fn ranks_do_not_read_it() {
    let Some(python) = python() else { return };
    let program = "import sys, railyard; sys.exit(any(n in sys.modules for n in ('railyard.client', 'ssl', 'asyncio', 'json')))";
    passed(&command(&python).args(["-c", program]).output().unwrap(), None);
}

#[test]
fn a_cluster_is_driven_and_what_is_generated_is_what_it_says() {
    let Some(python) = python() else { return };
    let cluster = cluster();
    let document = cluster.home().join("openapi.json");
    let document = document.display().to_string();
    let mut asking = drive(&python, "document", &cluster);
    passed(&asking.arg(&document).output().unwrap(), Some(&cluster));
    // Those of the clients of other languages too.
    let generate = binaries::root().join("cli/clients/generate");
    let mut checking = command(&python);
    passed(&checking.arg(generate).args([&document, "--check"]).output().unwrap(), Some(&cluster));
    let output = drive(&python, "everything", &cluster).output().unwrap();
    assert!(passed(&output, Some(&cluster)).trim_end().ends_with("all as expected"));
}

#[test]
fn a_controller_that_is_killed_is_outlived() {
    let Some(python) = python() else { return };
    let cluster = cluster();
    let file = cluster.home().join("done");
    let mut script = drive(&python, "restarted", &cluster);
    script.env("RAIL_TEST_FILE", &file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    if line == "ready\n" {
        let home = cluster.home().display().to_string();
        let controllers = procfs::find(&["rail-controller", "run", &home]);
        assert_eq!(controllers.len(), 1);
        procfs::kill(controllers[0]).unwrap();
        child.stdin.take().unwrap().write_all(b"killed\n").unwrap();
        cluster.revive().unwrap();
        std::fs::write(&file, "").unwrap();
    }
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    passed(&output, Some(&cluster));
    assert!(rest.trim_end().ends_with("all as expected"), "{line}{rest}");
}

#[test]
fn the_page_of_the_book_runs() {
    let Some(python) = python() else { return };
    let cluster = cluster();
    let mut script = drive(&python, "page", &cluster);
    script.env("RAIL_TEST_PAGE", binaries::root().join("docs/python-client.md"));
    // A block reads a file of a job that is beside the repository's others.
    script.current_dir(binaries::root());
    let output = script.output().unwrap();
    assert!(passed(&output, Some(&cluster)).trim_end().ends_with("all as expected"));
}
