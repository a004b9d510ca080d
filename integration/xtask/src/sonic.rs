//! SONiC's own judgement, for tests and benches: the program that holds its YANG models, and the root with its configuration code
//! (`cargo xtask lab sonic`). The sources are never in the repository: a developer's machine has them, in folders that options or variables name.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::process::{self, Result};

/// The models' folder, and rail-yang, which is built where cmake and libpcre2 are. An error says what is absent.
///
/// # Errors
/// `RAIL_TEST_SONIC_YANG` names no folder of models, or the program cannot be built.
pub fn models() -> Result<PathBuf> {
    let folder = std::env::var_os("RAIL_TEST_SONIC_YANG").filter(|folder| !folder.is_empty());
    let folder = folder.map(PathBuf::from).ok_or(
        "RAIL_TEST_SONIC_YANG names no folder of models (src/sonic-yang-models of sonic-net/sonic-buildimage)",
    )?;
    if !folder.join("yang-models").is_dir() {
        return Err(format!("{} has no folder yang-models (RAIL_TEST_SONIC_YANG)", folder.display()).into());
    }
    let target = process::target_dir()?.join("yang");
    let manifest = process::root().join("integration/yang/Cargo.toml");
    let mut build = process::cargo(["build", "--release", "--quiet", "--manifest-path"]);
    build.arg(manifest).arg("--target-dir").arg(&target);
    process::run_quiet(&mut build)
        .map_err(|error| format!("{error}\n  it needs cmake, pkg-config and libpcre2-dev"))?;
    Ok(target.join("release/rail-yang"))
}

/// The root with SONiC's configuration code, as it was made last. An error says that there is none.
///
/// # Errors
/// There is none.
pub fn root() -> Result<PathBuf> {
    let root = folder()?;
    if root.join("etc/sonic/made").exists() {
        Ok(root)
    } else {
        Err("there is none; `cargo xtask lab sonic` makes it".into())
    }
}

/// `RAIL_TEST_SONIC_ROOT`, or a folder in the target directory.
fn folder() -> Result<PathBuf> {
    match std::env::var_os("RAIL_TEST_SONIC_ROOT").filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(std::path::absolute(folder)?),
        None => Ok(process::target_dir()?.join("tools/sonic")),
    }
}

/// Lends a command what there is of both; gives what is absent, and why.
pub fn lend(command: &mut Command) -> Vec<String> {
    let mut absent = Vec::new();
    match models() {
        Ok(program) => _ = command.env("RAIL_TEST_YANG", program),
        Err(error) => absent.push(format!("SONiC's YANG models: {error}")),
    }
    match root() {
        Ok(root) => _ = command.env("RAIL_TEST_SONIC_ROOT", root),
        Err(error) => absent.push(format!("SONiC's configuration code: {error}")),
    }
    absent
}

/// Makes the root where it is missing, of these sources or of $RAIL_LAB_SONIC's, and runs the tests that ask what is in it.
///
/// # Errors
/// A test fails. What cannot be had here is exit code 2 and no error.
pub fn run(sources: Option<&Path>) -> Result<ExitCode> {
    if root().is_err()
        && let Err(error) = make(sources)
    {
        eprintln!("the root with SONiC's configuration code cannot be made here: {error}");
        return Ok(ExitCode::from(2));
    }
    // The driver is ours, and follows the tests.
    std::fs::copy(process::root().join("integration/lab/sonic/referee.py"), root()?.join("opt/referee.py"))?;
    // Of the whole workspace, as `cargo xtask test` builds it: by itself the room has other features, and is another build.
    let mut tests = process::cargo(["test", "--quiet", "--workspace", "--test", "it", "--", "sonic::"]);
    tests.arg("--show-output");
    lend(&mut tests).iter().for_each(|absent| println!("    without {absent}"));
    process::exit_code(tests)
}

fn make(sources: Option<&Path>) -> Result<()> {
    const CODE: [(&str, &str); 6] = [
        ("sonic-swss-common", ""),
        ("sonic-utilities", "generic_config_updater"),
        ("sonic-buildimage", "src/sonic-yang-models"),
        ("sonic-buildimage", "src/sonic-yang-mgmt"),
        ("sonic-buildimage", "src/sonic-config-engine"),
        ("sonic-buildimage", "src/sonic-py-common"),
    ];
    let sources =
        sources.map(Path::to_owned).or_else(|| std::env::var_os("RAIL_LAB_SONIC").map(PathBuf::from));
    let sources = sources.ok_or("no sources: --sources DIR or RAIL_LAB_SONIC")?;
    let missing =
        CODE.iter().map(|(name, part)| sources.join(name).join(part)).find(|folder| !folder.is_dir());
    if let Some(folder) = missing {
        return Err(format!("the sources have no {}", folder.display()).into());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("debootstrap and chroot need root".into());
    }
    let root = folder()?;
    if !root.join("usr/bin/apt-get").exists() {
        println!("    debootstrap into {}", root.display());
        std::fs::create_dir_all(&root)?;
        let mut base = Command::new("debootstrap");
        process::run_quiet(base.args(["--variant=minbase", "trixie"]).arg(&root))?;
    }
    for (name, part) in CODE {
        copy(&sources.join(name).join(part), &root.join("src").join(name).join(part))?;
    }
    let mut binding = Command::new("python3");
    binding.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "libyang>=3,<4",
        "-d",
    ]);
    process::run_quiet(binding.arg(root.join("src")))?;
    let script = process::root().join("integration/lab/sonic/root.sh");
    std::fs::copy(script, root.join("src/root.sh"))?;
    // What apt reaches the network by.
    std::fs::copy("/etc/resolv.conf", root.join("etc/resolv.conf"))?;
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"]);
    inside
        .arg("mount -t proc proc \"$1/proc\" && exec chroot \"$1\" sh /src/root.sh")
        .arg("sonic")
        .arg(&root);
    process::run(inside)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    process::run_quiet(Command::new("cp").arg("-rT").arg(from).arg(to))
}
