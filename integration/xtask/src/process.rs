//! Running other programs: cargo, and what it has built.

use std::{
    env,
    error::Error,
    ffi::OsStr,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output, Stdio},
    time::{Duration, Instant},
};

/// Whatever went wrong; main prints it once.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The root folder of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// What of cargo reads Cargo.lock: it must be as it was committed.
const LOCKED: [&str; 9] = ["bench", "build", "check", "clippy", "doc", "install", "metadata", "run", "test"];

/// A cargo command in the repository's root. What it builds is what Cargo.lock says, or it fails.
pub fn cargo<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let mut args = args.into_iter();
    if let Some(first) = args.next() {
        command.arg(&first);
        if LOCKED.iter().any(|name| first.as_ref() == OsStr::new(name)) {
            command.arg("--locked");
        }
    }
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

/// At most so many programs at a time, however many processors there are: some measure, and shape links that are the kernel's own.
const MOST: usize = 4;

/// How many programs that mostly wait run at a time: as many as there are processors, four at most.
pub fn at_once() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST)
}

/// What cargo says of the workspace.
fn metadata() -> Result<serde_json::Value> {
    metadata_of(&root())
}

/// What cargo says of the workspace in this folder.
fn metadata_of(root: &Path) -> Result<serde_json::Value> {
    let mut ask = cargo(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"]);
    let output = ask.arg(root.join("Cargo.toml")).stderr(Stdio::inherit()).output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Arguments that choose what a user runs, of the workspace in this folder, and these packages.
///
/// # Errors
/// `cargo metadata` fails, or names no members.
pub fn with_defaults(root: &Path, packages: &[&str]) -> Result<Vec<String>> {
    let metadata = metadata_of(root)?;
    let members =
        metadata["workspace_default_members"].as_array().ok_or("cargo metadata names no members")?;
    let members = members.iter().filter_map(|member| member.as_str());
    let chosen = members.chain(packages.iter().copied());
    Ok(chosen.flat_map(|package| ["--package".to_owned(), package.to_owned()]).collect())
}

/// The folder in a target directory that has what a profile builds.
pub fn profile_folder(profile: &str) -> &str {
    if profile == "dev" { "debug" } else { profile }
}

/// Where cargo puts what it builds.
///
/// # Errors
/// `cargo metadata` fails, or does not say it.
pub fn target_dir() -> Result<PathBuf> {
    let metadata = metadata()?;
    let target = metadata["target_directory"].as_str().ok_or("cargo metadata names no target directory")?;
    Ok(target.into())
}

/// Runs to the end, the output shown; an error if it fails.
///
/// # Errors
/// The command cannot be started, or its exit status is not 0.
pub fn run(mut command: Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}

/// Runs to the end, the output shown; its exit code becomes ours.
///
/// # Errors
/// The command cannot be started.
pub fn exit_code(mut command: Command) -> Result<ExitCode> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Runs to the end and keeps what it prints to stdout; an error carries its stderr.
///
/// # Errors
/// The command cannot be started, or its exit status is not 0.
pub fn capture(mut command: Command) -> Result<Output> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} ended with {}: {}", output.status, stderr.trim()).into())
}

/// Builds what a user runs, optimised, and says where it is.
///
/// # Errors
/// The build fails.
pub fn build_release() -> Result<PathBuf> {
    build_with("release", &[])
}

/// Builds what a user runs with a profile, `dev` or `release`, and the programs of these packages with it; says where all of it is. Together, because cargo
/// takes the features of what is built together: by itself, such a package is another build of nearly everything that it stands on.
///
/// # Errors
/// The build fails.
pub fn build_with(profile: &str, packages: &[&str]) -> Result<PathBuf> {
    let mut build = cargo(["build", "--profile", profile]);
    if !packages.is_empty() {
        build.args(with_defaults(&root(), packages)?);
    }
    run(build)?;
    Ok(target_dir()?.join(profile_folder(profile)))
}

/// Runs to the end or for so long; an error says which, or carries the last line of its stderr.
///
/// # Errors
/// The command cannot be started, its exit status is not 0, or it took longer than the limit.
pub fn within(mut command: Command, limit: Duration) -> Result<()> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let stderr = child.stderr.take();
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        // What came before an error is printed.
        let _ = stderr.map(|stderr| stderr.take(1 << 20).read_to_string(&mut text));
        text
    });
    let until = Instant::now() + limit;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if Instant::now() > until => {
                child.kill()?;
                child.wait()?;
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let said = said.join().unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(said.trim().lines().last().map_or(status.to_string(), str::to_owned).into()),
        None => Err(format!("it took longer than {} s", limit.as_secs()).into()),
    }
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
///
/// # Errors
/// The command cannot be started, or its exit status is not 0.
pub fn run_quiet(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} ended with {}: {}", output.status, stderr.trim()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_the_lock_file_may_not_change_it() {
        let args = |command: Command| command.get_args().map(|arg| arg.to_owned()).collect::<Vec<_>>();
        assert_eq!(args(cargo(["build", "-p", "x"])), ["build", "--locked", "-p", "x"]);
        assert_eq!(args(cargo(["fmt", "--check"])), ["fmt", "--check"]);
        let config = std::fs::read_to_string(root().join(".cargo/config.toml")).unwrap();
        assert!(config.contains("xtask = \"run --locked "), "`cargo xtask` itself");
    }

    #[test]
    fn what_takes_too_long_is_ended_and_what_fails_says_why() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let limit = Duration::from_secs(20);
        assert!(within(shell("true"), limit).is_ok());
        assert_eq!(
            within(shell("echo one >&2; echo two >&2; exit 4"), limit).unwrap_err().to_string(),
            "two"
        );
        let begin = Instant::now();
        let late = within(shell("exec sleep 60"), Duration::from_millis(200)).unwrap_err().to_string();
        assert!(late.contains("longer than") && begin.elapsed() < limit, "{late}");
    }
}
