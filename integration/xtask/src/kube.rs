//! A real Kubernetes for tests on a developer's machine, without a cluster (`cargo xtask lab kube`): its programs, built once into the target
//! directory. No registry has them, and their source is never in the repository: a machine has it in a folder that an option or a variable names.

mod build;
mod kueue;
mod source;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use build::{build, go};

use crate::{
    chaos, disk,
    process::{self, Result},
    tools,
};

/// What is built; `integration-harness` starts these.
const PROGRAMS: [&str; 4] = ["kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl"];
/// The oldest release with what the driver needs: `resource.k8s.io/v1`.
const OLDEST_MINOR: u32 = 34;
/// Bytes that its source, the compiler's cache and the programs take while they are built.
const ROOM: u64 = 6 << 30;

/// Runs the tests that need a real Kubernetes, and builds it first where it is missing.
///
/// # Errors
/// A test fails. What cannot be had here is exit code 2 and no error.
pub fn run(sources: Option<&Path>, kueue: Option<&Path>) -> Result<ExitCode> {
    let named = |option: Option<&Path>, variable: &str| {
        let variable = std::env::var_os(variable).filter(|folder| !folder.is_empty());
        option.map(Path::to_owned).or_else(|| variable.map(PathBuf::from))
    };
    if programs().is_err()
        && let Err(error) = make(named(sources, "RAIL_LAB_KUBE").as_deref())
    {
        eprintln!("Kubernetes cannot be built here: {error}");
        return Ok(ExitCode::from(2));
    }
    if let Some(sources) = named(kueue, "RAIL_LAB_KUEUE")
        && kueue::folder().is_err()
        && let Err(error) = kueue::make(&sources)
    {
        eprintln!("Kueue cannot be built here: {error}");
        return Ok(ExitCode::from(2));
    }
    // Of the whole workspace, as `cargo xtask test` builds it: by themselves these rooms have other features, and are another build.
    let mut tests = process::cargo(["test", "--quiet", "--workspace"]);
    tests.args([
        "--test",
        "it",
        "--",
        "kubernetes::",
        "kubernetes_operator::",
        "kubernetes_kueue::",
        "real_api_server",
    ]);
    tests.arg("--show-output");
    if let Ok(go) = tools::go() {
        tests.env("RAIL_TEST_GO", go);
    }
    tests.env("RAIL_BIN_DIR", process::target_dir()?.join("debug"));
    chaos::lend(&mut tests);
    if let Err(error) = lend(&mut tests) {
        println!("    without Kubernetes: {error}");
    }
    process::exit_code(tests)
}

/// Lends a command the folder with the programs, and Kueue's where there is one: what needs Kueue says itself that it is absent.
///
/// # Errors
/// There is none with Kubernetes' programs; says what makes it.
pub fn lend(command: &mut Command) -> Result<()> {
    if let Ok(folder) = kueue::folder() {
        command.env("RAIL_TEST_KUEUE", folder);
    }
    command.env("RAIL_TEST_KUBE", programs()?);
    Ok(())
}

/// The folder with the programs: `RAIL_TEST_KUBE`, or what was built into the target directory.
fn programs() -> Result<PathBuf> {
    let folder = folder()?;
    match PROGRAMS.iter().find(|name| !folder.join(name).exists()) {
        None => Ok(folder),
        Some(missing) => Err(format!(
            "{} has no {missing}; `cargo xtask lab kube --sources DIR` builds it",
            folder.display()
        )
        .into()),
    }
}

fn folder() -> Result<PathBuf> {
    match std::env::var_os("RAIL_TEST_KUBE").filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(std::path::absolute(folder)?),
        None => Ok(process::target_dir()?.join("tools/kube")),
    }
}

fn make(sources: Option<&Path>) -> Result<()> {
    let sources = sources.ok_or(
        "no sources: --sources DIR or RAIL_LAB_KUBE, a clone of openshift/microshift or a Kubernetes with its vendor folder",
    )?;
    let folder = folder()?;
    let scratch = process::target_dir()?.join("tools/kube-build");
    fs::create_dir_all(&scratch)?;
    disk::check(&scratch, ROOM)?;
    let source = source::find(&source::KUBERNETES, sources, &scratch)?;
    let go = go(&source)?;
    let minor = source::minor(&source)?;
    if minor < OLDEST_MINOR {
        return Err(format!(
            "{} is Kubernetes 1.{minor}, which has no resource.k8s.io/v1: 1.{OLDEST_MINOR} is the oldest",
            source.display()
        )
        .into());
    }
    fs::create_dir_all(&folder)?;
    for name in PROGRAMS {
        if folder.join(name).exists() {
            continue;
        }
        println!("    building {name} of Kubernetes 1.{minor} (minutes)");
        // A build that is broken off leaves nothing that looks like a program.
        let part = folder.join(format!("{name}.part"));
        let version = "k8s.io/component-base/version";
        let flags = format!(
            "-X {version}.gitVersion=v1.{minor}.0+lab -X {version}.gitMajor=1 -X {version}.gitMinor={minor}"
        );
        process::run(build(&go, &source, &scratch, &flags, (name, &part)))?;
        fs::rename(part, folder.join(name))?;
    }
    // Gigabytes that nobody needs again.
    fs::remove_dir_all(scratch)?;
    Ok(())
}
