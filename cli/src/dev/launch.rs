//! Starting a process that outlives us and can be found again.

use std::{
    convert::Infallible,
    ffi::{OsStr, OsString},
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::{process, spec::Layout};
use crate::{args::DevLaunch, error::Error};

/// The variable by which a cluster's processes, and what they start, are known.
pub const MARK: &str = "RAIL_DEV_CLUSTER";
/// railctl's own settings, which must not reach what it starts.
const OURS: [&str; 8] = [
    "RAIL_CONTROLLER",
    "RAIL_CA",
    "RAIL_CERT",
    "RAIL_KEY",
    "RAIL_TOKEN",
    "RAIL_TENANT",
    "RAIL_CONTEXT",
    "RAIL_CONFIG",
];

/// The hidden `dev launch`: leads a session of its own, writes who it is, and only then becomes the program. So
/// there is no moment at which the program runs and no record of it exists, whoever is killed.
///
/// # Errors
/// [`Error::Usage`] without a program; [`Error::File`] if the record cannot be written, or the program cannot be run.
pub fn launch(args: &DevLaunch) -> Result<Infallible, Error> {
    // Fails only if it leads one already.
    let _ = rustix::process::setsid();
    if let Some(folder) = args.record.parent() {
        private_dir(folder)?;
    }
    process::record_myself(&args.record)?;
    let (program, rest) = args.command.split_first().ok_or_else(|| Error::Usage("no program".to_owned()))?;
    let error = Command::new(program).args(rest).exec();
    Err(Error::file("run", PathBuf::from(program), error))
}

/// A process to start.
#[derive(Debug)]
pub struct Launch<'a> {
    /// Name of its record and log.
    pub role: &'a str,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Variables beside the inherited ones.
    pub env: Vec<(&'static str, OsString)>,
    /// The cluster's mark in the environment of its processes: the id of its record.
    pub mark: &'a str,
    /// Standard input of the process.
    pub stdin: Stdio,
}

impl Launch<'_> {
    /// Starts it; its output goes to its log.
    ///
    /// # Errors
    /// [`Error::File`] if the log or the process cannot be made.
    pub fn start(self, layout: &Layout) -> Result<Child, Error> {
        let log = layout.log(self.role);
        private_dir(log.parent().unwrap_or(Path::new(".")))?;
        let open = || fs::OpenOptions::new().create(true).append(true).open(&log);
        let failed = |error| Error::file("create", &log, error);
        let (out, err) = (open().map_err(failed)?, open().map_err(failed)?);
        let me = std::env::current_exe().map_err(|error| Error::file("find", "/proc/self/exe", error))?;
        let mut command = Command::new(me);
        command
            .args(["dev", "launch", "--record"])
            .arg(layout.process(self.role))
            .arg("--")
            .args(self.command);
        for name in OURS {
            command.env_remove(name);
        }
        command.env(MARK, self.mark).envs(self.env);
        command.current_dir("/").stdin(self.stdin).stdout(out).stderr(err).process_group(0);
        command.spawn().map_err(|error| Error::Dev(format!("cannot start {}: {error}", self.role)))
    }
}

/// Creates a folder that only its owner can look into; one that belongs to somebody else is refused.
///
/// # Errors
/// [`Error::File`] if the folder cannot be made; [`Error::Dev`] if it belongs to somebody else or is a link.
pub fn private_dir(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    let seen =
        made.and_then(|()| fs::symlink_metadata(path)).map_err(|error| Error::file("create", path, error))?;
    if seen.uid() != rustix::process::geteuid().as_raw() || !seen.is_dir() {
        let text = format!("{} belongs to somebody else or is a link: give another --dir", path.display());
        return Err(Error::Dev(text));
    }
    Ok(())
}

/// A path or word as an argument.
pub fn arg(text: impl AsRef<OsStr>) -> OsString {
    text.as_ref().to_owned()
}
