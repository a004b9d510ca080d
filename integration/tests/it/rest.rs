//! REST as its users meet it: a client that a public generator made from `/v1/openapi.json`, and a tester that holds every operation against
//! that document.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use integration_harness::{Access, Cluster, Shape, binaries};

/// The Python environment that `cargo xtask test` prepares, if it could.
fn tools() -> Option<PathBuf> {
    let tools =
        std::env::var_os("RAIL_TEST_TOOLS").map(PathBuf::from).filter(|dir| dir.join("bin/python").exists());
    if tools.is_none() {
        println!(
            "skipped: openapi-python-client and schemathesis are not installed (cargo xtask test installs them where PyPI is reached)"
        );
    }
    tools
}

fn python(tools: &Path, script: &str, cluster: &Cluster) -> Command {
    let access = Access::of(cluster).unwrap();
    let mut command = Command::new(tools.join("bin/python"));
    command.arg(binaries::root().join("integration/tests/it").join(script)).current_dir(cluster.home());
    command.env("RAIL_REST", access.rest().unwrap()).env("RAIL_CA", &access.ca);
    command.env("RAIL_CERT", &access.certificate).env("RAIL_KEY", &access.key);
    command.env("PATH", tools.join("bin"));
    command
}

#[test]
fn a_generated_client_drives_a_job_from_submit_to_log() {
    let Some(tools) = tools() else { return };
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
    let output = python(&tools, "rest_client.py", &cluster).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}\n{}", cluster.logs());
    assert!(out.trim_end().ends_with("all as expected"), "{out}\n{err}");
}

#[test]
fn schemathesis_finds_nothing() {
    let Some(tools) = tools() else { return };
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
    let output = python(&tools, "rest_schema.py", &cluster).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}\n{}", cluster.logs());
    assert!(out.trim_end().ends_with("all as expected"), "{out}\n{err}");
}
