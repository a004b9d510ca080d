//! Tools that the tests need and a fresh machine lacks: kept in the target directory, never in the system.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::process::{self, Result};

/// Versions are pinned, so that a new release of a tool cannot break an old commit.
const CARGO_DENY: &str = "0.20.2";
const CARGO_FUZZ: &str = "0.13.2";
const OPENAPI_CLIENT: &str = "openapi-python-client==0.29.1";

/// The Python environment with the tools, made on first use. An error says why it cannot be had.
pub fn python_tools() -> Result<PathBuf> {
    let venv = process::target_dir()?.join("tools");
    let stamp = venv.join("stamp");
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == OPENAPI_CLIENT) {
        return Ok(venv);
    }
    let python = ["python3", "python"].into_iter().find(|name| answers(name)).ok_or("there is no python3")?;
    // Other tools have folders in this one, so it is not cleared.
    quiet(Command::new(python).args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20"]);
    quiet(pip.arg(OPENAPI_CLIENT))?;
    std::fs::write(stamp, OPENAPI_CLIENT)?;
    Ok(venv)
}

/// cargo-deny: from the PATH, or built once into the target directory. An error says why it cannot be had.
pub fn cargo_deny() -> Result<PathBuf> {
    installed("cargo-deny", CARGO_DENY)
}

/// cargo-fuzz, in the same way.
pub fn cargo_fuzz() -> Result<PathBuf> {
    installed("cargo-fuzz", CARGO_FUZZ)
}

/// etcd: from the PATH, or Debian's package unpacked into the target directory, which needs no root. An error says why it
/// cannot be had.
pub fn etcd() -> Result<PathBuf> {
    if answers("etcd") {
        return Ok("etcd".into());
    }
    let folder = process::target_dir()?.join("tools/etcd");
    let program = folder.join("usr/bin/etcd");
    if answers(&program) {
        return Ok(program);
    }
    std::fs::create_dir_all(&folder)?;
    let mut download = Command::new("apt-get");
    download.args(["-q", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=0", "download"]);
    quiet(download.arg("etcd-server").current_dir(&folder))?;
    let is_package = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "deb");
    let package =
        std::fs::read_dir(&folder)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).find(is_package);
    let package = package.ok_or("apt-get downloaded no package")?;
    quiet(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&folder))?;
    std::fs::remove_file(package)?;
    if answers(&program) { Ok(program) } else { Err("the package etcd-server has no etcd that runs".into()) }
}

fn installed(name: &str, version: &str) -> Result<PathBuf> {
    if answers(name) {
        return Ok(name.into());
    }
    let target = process::target_dir()?;
    let root = target.join("tools-cargo");
    let program = root.join("bin").join(name);
    if !answers(&program) {
        let mut install = process::cargo(["install", name, "--version", version, "--locked", "--quiet"]);
        // A tool runs for a second; building it fast matters more than making it fast.
        install
            .args(["--profile", "dev", "--root"])
            .arg(&root)
            .arg("--target-dir")
            .arg(target.join("tools-build"));
        quiet(&mut install)?;
    }
    Ok(program)
}

fn answers(program: impl AsRef<Path>) -> bool {
    let mut command = Command::new(program.as_ref());
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn quiet(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}", stderr.lines().last().unwrap_or("failed")).into())
}
