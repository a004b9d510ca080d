//! Running other programs: cargo, and what it has built.

use std::{
    env,
    error::Error,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output, Stdio},
};

/// Whatever went wrong, told once by main.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// A cargo command in the repository's root.
pub fn cargo<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// A program that sees the nightly toolchain, whatever toolchain runs this one, in the repository's root.
pub fn nightly(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly"]).arg(program).current_dir(root());
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        command.env_remove(name);
    }
    command
}

/// Where cargo puts what it builds.
pub fn target_dir() -> Result<PathBuf> {
    let output =
        cargo(["metadata", "--format-version", "1", "--no-deps"]).stderr(Stdio::inherit()).output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let target = metadata["target_directory"].as_str().ok_or("cargo metadata names no target directory")?;
    Ok(target.into())
}

/// Runs to the end, the output shown; an error if it fails.
pub fn run(mut command: Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}

/// Runs to the end, the output shown; its exit code becomes ours.
pub fn exit_code(mut command: Command) -> Result<ExitCode> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Runs to the end and keeps what it prints to stdout; an error carries its stderr.
pub fn capture(mut command: Command) -> Result<Output> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} ended with {}: {}", output.status, stderr.trim()).into())
}

/// Builds what a user runs, optimised, and says where it is.
pub fn build_release() -> Result<PathBuf> {
    run(cargo(["build", "--release"]))?;
    Ok(target_dir()?.join("release"))
}

/// True if this process may make network namespaces and shape links.
pub fn may_make_namespaces() -> bool {
    let succeeds = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    rustix::process::geteuid().is_root()
        && succeeds("ip", &["-V"])
        && succeeds("tc", &["-V"])
        && succeeds("unshare", &["--net", "true"])
}

/// Runs to the end without showing what it prints; an error carries its stderr.
pub fn run_quiet(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} ended with {}: {}", output.status, stderr.trim()).into())
}
