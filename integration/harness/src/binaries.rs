//! Finding what is under test.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The root folder of the repository.
#[must_use]
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// The directory that holds `railctl` and the daemons: `$RAIL_BIN_DIR`, or beside this executable. Built if absent, so
/// that `cargo test -p integration` works alone.
///
/// # Errors
/// They are not there and cannot be built.
pub fn directory() -> Result<&'static Path, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(find).as_deref().map_err(Clone::clone)
}

fn find() -> Result<PathBuf, String> {
    if let Some(dir) = env::var_os("RAIL_BIN_DIR") {
        return Ok(dir.into());
    }
    let here = env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let dir = here.ancestors().find(|dir| dir.ends_with("debug") || dir.ends_with("release"));
    let dir = dir.ok_or_else(|| format!("{} is not in a target directory", here.display()))?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet"]).current_dir(root());
    if dir.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() { Ok(dir.to_owned()) } else { Err(format!("cargo build ended with {status}")) }
}

/// True if this process may make network namespaces and shape links in them.
#[must_use]
pub fn may_make_namespaces() -> bool {
    let succeeds = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    rustix::process::geteuid().is_root()
        && succeeds("ip", &["-V"])
        && succeeds("tc", &["-V"])
        && succeeds("unshare", &["--net", "true"])
}
