//! The web pages: that they are built of their sources, and what a real browser makes of them in front of a real controller.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use integration_harness::{Cluster, Shape, binaries::root};

/// What `cargo xtask test` lends, with a Node that runs it; says what is skipped otherwise.
fn lent(variable: &str, what: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).map(PathBuf::from);
    let node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    if folder.is_none() || !node {
        println!("skipped: there is no {what} ({variable}, node)");
        return None;
    }
    folder
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "node_modules" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to.join(name))?;
        } else {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

/// Runs a program of Node that ends with 0, and gives what it printed.
fn node(program: &Path, arguments: &[&Path], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new("node");
    command.arg(program).args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", program.display());
    out.into_owned()
}

#[test]
fn pages_built_again_are_the_same_bytes() {
    let Some(tools) = lent("RAIL_TEST_UI_BUILD", "npm with what builds the web pages") else { return };
    let house = tempfile::tempdir().unwrap();
    for folder in ["controller/ui/web", "cli/clients/typescript"] {
        copy(&root().join(folder), &house.path().join(folder)).unwrap();
    }
    let web = house.path().join("controller/ui/web");
    std::os::unix::fs::symlink(tools.join("node_modules"), web.join("node_modules")).unwrap();
    node(&tools.join("node_modules/typescript/bin/tsc"), &[Path::new("--project"), &web], &[]);
    let built = house.path().join("built");
    node(&web.join("build.mjs"), &[Path::new("--out"), &built], &[]);
    let assets = root().join("controller/ui/assets");
    for entry in fs::read_dir(&assets).unwrap() {
        let name = entry.unwrap().file_name();
        let (ours, again) = (fs::read(assets.join(&name)).unwrap(), fs::read(built.join(&name)).unwrap());
        assert!(ours == again, "{}: run `npm ci && npm run build` in controller/ui/web", name.display());
    }
}

/// A job that runs until its cluster is taken down, and writes.
const JOB: &str =
    "gang: {nodes: 2, gpusPerNode: 2}\ncommand: {argv: [/bin/sh, -c, 'echo begins; sleep 900']}\n";

#[test]
fn a_browser_visits_every_page() {
    let Some(tools) = lent("RAIL_TEST_UI_VISIT", "npm with what visits the web pages") else { return };
    let Some(chromium) = lent("RAIL_TEST_CHROMIUM", "Chromium") else { return };
    let cluster = Cluster::up(&Shape { nodes: 4, rails: 4, gpus: 4, ..Shape::default() }).unwrap();
    cluster.submit("shown", JOB).unwrap();
    let token = |role: &[&str]| {
        let answer = cluster.railctl(&[&["tenant", "issue-token", "looks"], role].concat());
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        answer.stdout.trim().to_owned()
    };
    let ready = fs::read_to_string(cluster.dir().join("controller/controller.json")).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    let url = ready["endpoints"][0].as_str().unwrap().replace("127.0.0.1", "localhost");
    // What it visits with has to lie beside its packages.
    let program = tools.join("browse.mjs");
    fs::copy(root().join("integration/ui/browse.mjs"), &program).unwrap();
    let shots = tools.parent().unwrap_or(&tools).join("ui-shots");
    let printed = node(
        &program,
        &[],
        &[
            ("UI_URL", &url),
            ("UI_ADMIN", &token(&["--role", "admin"])),
            ("UI_VIEWER", &token(&["--role", "viewer", "--tenant", "dev"])),
            ("UI_TENANT", "dev"),
            ("UI_JOB", "shown"),
            ("UI_CHROMIUM", chromium.to_str().unwrap()),
            ("UI_SHOTS", shots.to_str().unwrap()),
        ],
    );
    print!("{printed}");
}

/// That it can be measured; the figures themselves are of the machine that runs it, and are not judged here.
#[test]
fn a_large_fabric_and_many_jobs_are_drawn() {
    let Some(tools) = lent("RAIL_TEST_UI_VISIT", "npm with what visits the web pages") else { return };
    let Some(chromium) = lent("RAIL_TEST_CHROMIUM", "Chromium") else { return };
    if Command::new("openssl").arg("version").output().is_err() {
        println!(
            "skipped: there is no openssl, which makes the certificate of a server that stands in for the controller"
        );
        return;
    }
    let program = tools.join("scale.mjs");
    fs::copy(root().join("integration/ui/scale.mjs"), &program).unwrap();
    let assets = root().join("controller/ui/assets");
    let variables = [
        ("UI_CHROMIUM", chromium.to_str().unwrap()),
        ("UI_ASSETS", assets.to_str().unwrap()),
        ("UI_SECONDS", "1"),
    ];
    print!("{}", node(&program, &[], &variables));
}
