//! The user that ranks run as: so that a tenant's program can read neither this server's key, nor a job's key, nor what
//! belongs to the agent.

use std::{
    ffi::OsStr,
    fmt, fs, io,
    os::{
        fd::AsFd,
        unix::fs::{PermissionsExt, chown},
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    str::FromStr,
};

use rustix::{
    fs::{FileType, fchown, fstat},
    process::{Gid, Uid, geteuid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    exec::{
        self,
        launch::{Confinement, Launch, Program},
    },
    uids::{UidRange, UidRangeError},
};

/// The kernel takes no more (NGROUPS_MAX).
const GROUPS_MAX: usize = 65_536;

/// Why ranks cannot run as the user that was asked for.
#[derive(Debug, Error)]
pub enum RankUserError {
    /// There is no such account.
    #[error("--rank-user {name}: {detail}; make the account, or give UID:GID")]
    Unknown {
        /// The value of `--rank-user`.
        name: String,
        /// Why no account is found by it.
        detail: String,
    },
    /// The agent is root, and nothing says which user ranks run as.
    #[error(
        "this agent runs as root, and a job's program must not: give --rank-uids FIRST-LAST (a user of its own for each attempt, \
         for example 200000-265535), or --rank-user USER (one for all, that nothing else on this server uses), or run the agent as \
         another user; --ranks-as-root runs every tenant's programs as root, who own this server then"
    )]
    AsRoot,
    /// Only root may start processes of another user.
    #[error("--rank-user {0}: only an agent that runs as root can start ranks as another user")]
    NotRoot(String),
    /// Only root may give ids to processes.
    #[error(
        "--rank-uids {0}: only an agent that runs as root can give attempts users of their own; without root its ranks run as its own \
         user, apart by namespaces where this server permits them"
    )]
    RangeNotRoot(UidRange),
    /// The range cannot be used here.
    #[error("--rank-uids {0}")]
    Range(UidRangeError),
    /// Ranks of that user would find something they need closed.
    #[error("--rank-user {name}: {what} ({detail}); the user must be able to enter every folder above it")]
    Closed {
        /// The value of `--rank-user`.
        name: String,
        /// The file or folder that the user cannot reach.
        what: String,
        /// What the user got to see.
        detail: String,
    },
}

/// The ids that a process needs to run as a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// Id of the user.
    pub uid: u32,
    /// Id of the user's first group.
    pub gid: u32,
    /// All groups, for devices that belong to one.
    pub groups: Vec<u32>,
}

/// The user that ranks run as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankUser {
    /// The user's id and groups.
    pub ids: Ids,
    /// Its name; the user's number where it has none.
    pub name: String,
    /// Its home; `/` where it has none.
    pub home: PathBuf,
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        write!(f, "{}:{}:{}", self.uid, self.gid, groups.join(","))
    }
}

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.split(':');
            let (uid, gid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let groups = match parts.next() {
                None | Some("") => vec![gid],
                Some(list) => list.split(',').map(|one| one.parse().ok()).collect::<Option<Vec<u32>>>()?,
            };
            // The greatest number means "no change" to the kernel.
            let real = uid != u32::MAX && gid != u32::MAX && !groups.contains(&u32::MAX);
            let whole = parts.next().is_none() && groups.len() <= GROUPS_MAX;
            (real && whole).then_some(Self { uid, gid, groups })
        };
        parse().ok_or_else(|| format!("`{text}` is not UID:GID"))
    }
}

impl Ids {
    /// Becomes this user for good: real, effective and saved. Only this thread does; the program that it becomes next
    /// is then wholly the user's.
    ///
    /// # Errors
    /// What the kernel answered; then nothing may be run.
    pub fn assume(&self) -> io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        Ok(())
    }

    /// Gives the user the pipes that its output goes to and its input comes from, so that it can open `/dev/stderr`; and where it has a
    /// terminal of its own, that. Nothing else: what may stand there belongs to others.
    pub fn take_pipes(&self, terminal: bool) {
        let owner = (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)));
        let streams = (io::stdin(), io::stdout(), io::stderr());
        for stream in [streams.0.as_fd(), streams.1.as_fd(), streams.2.as_fd()] {
            let pipe =
                fstat(stream).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
            if pipe || (terminal && rustix::termios::isatty(stream)) {
                let _ = fchown(stream, owner.0, owner.1);
            }
        }
    }

    /// Makes a file or folder the user's own.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
    }

    /// Lets the user's group read a file of ours.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn let_read(&self, path: &Path) -> io::Result<()> {
        chown(path, None, Some(self.gid))?;
        fs::set_permissions(path, PermissionsExt::from_mode(0o640))
    }

    /// Lets the user's group pass through a folder of ours, to what it knows the name of.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn let_pass(&self, path: &Path) -> io::Result<()> {
        chown(path, None, Some(self.gid))?;
        fs::set_permissions(path, PermissionsExt::from_mode(0o710))
    }
}

impl RankUser {
    /// The user that `--rank-user` names; `None` if that is the agent's own user already.
    ///
    /// # Errors
    /// No such account, or no right to become it.
    pub fn find(text: &str) -> Result<Option<Self>, RankUserError> {
        let user = match text.parse::<Ids>() {
            Ok(ids) => Self { name: ids.uid.to_string(), ids, home: "/".into() },
            Err(_) => {
                account(text).map_err(|detail| RankUserError::Unknown { name: text.to_owned(), detail })?
            }
        };
        let own = geteuid();
        if own.is_root() {
            return Ok(Some(user));
        }
        if own.as_raw() == user.ids.uid { Ok(None) } else { Err(RankUserError::NotRoot(text.to_owned())) }
    }

    /// Sees as this user whether ranks can start `engine` and reach what is below `folder`; `agent` is our own program.
    ///
    /// # Errors
    /// What is closed to the user.
    pub fn check(&self, agent: &Path, engine: &Path, folder: &Path) -> Result<(), RankUserError> {
        let enter = ["/bin/sh", "-c", "test -x \"$0\""].map(OsStr::new);
        let enter = [&enter[..], &[folder.as_os_str()]].concat();
        let shown = |path: &Path, desired: &str| format!("{} cannot {desired} {}", self.name, path.display());
        self.attempt(agent, &[engine.as_os_str(), OsStr::new("--version")], shown(engine, "run"))?;
        self.attempt(agent, &enter, shown(folder, "enter"))
    }

    fn attempt(&self, agent: &Path, argv: &[&OsStr], what: String) -> Result<(), RankUserError> {
        let closed = |detail: String| RankUserError::Closed { name: self.name.clone(), what, detail };
        match self.run(agent, argv) {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Err(closed(if said.is_empty() { output.status.to_string() } else { said }))
            }
            Err(detail) => Err(closed(detail)),
        }
    }

    /// Runs a program the way a rank is run.
    fn run(&self, agent: &Path, argv: &[&OsStr]) -> Result<Output, String> {
        let argv: Option<Vec<String>> = argv.iter().map(|one| one.to_str().map(str::to_owned)).collect();
        let argv = argv.ok_or("a path of ours is not UTF-8")?;
        let parent = rustix::process::getpid().as_raw_nonzero().get();
        let confinement =
            Confinement { parent: Some(parent), ids: Some(self.ids.clone()), ..Confinement::default() };
        let program = Program { argv, working_dir: "/".into(), ..Program::default() };
        let launch = Launch::write(&confinement, &program).map_err(|error| error.to_string())?;
        let mut command = exec::command(agent, &launch).map_err(|error| error.to_string())?;
        command.output().map_err(|error| error.to_string())
    }
}

/// What a small program of the system prints; they know every source of accounts (files, LDAP, ...).
fn ask(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !text.is_empty() { Ok(text) } else { Err("no such user".to_owned()) }
}

fn account(text: &str) -> Result<RankUser, String> {
    if text.is_empty() || text.starts_with('-') || text.contains(['\0', '\n', ':']) {
        return Err("not a user's name".to_owned());
    }
    let line = ask("getent", &["passwd", text])?;
    let (name, uid, gid, home) = passwd(&line).ok_or_else(|| format!("getent says `{line}`"))?;
    let groups = ask("id", &["-G", &name])?.split_whitespace().map(str::parse).collect();
    let groups: Result<Vec<u32>, _> = groups;
    let groups = groups.map_err(|error| format!("its groups: {error}"))?;
    Ok(RankUser { ids: Ids { uid, gid, groups }, name, home: home.into() })
}

/// A line of passwd(5).
fn passwd(line: &str) -> Option<(String, u32, u32, String)> {
    let fields: Vec<&str> = line.lines().next()?.split(':').collect();
    let home = fields.get(5).filter(|home| !home.is_empty()).unwrap_or(&"/");
    Some((
        (*fields.first()?).to_owned(),
        fields.get(2)?.parse().ok()?,
        fields.get(3)?.parse().ok()?,
        (*home).to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_their_text() {
        for text in ["7:8:8", "7:8:9,10", "0:0:0"] {
            assert_eq!(text.parse::<Ids>().unwrap().to_string(), text);
        }
        assert_eq!("7:8".parse::<Ids>().unwrap().groups, [8]);
        for bad in ["", "7", "7:", ":8", "7:8:9:10", "-1:8", "7:4294967295", "4294967295:7", "7:8:x"] {
            assert!(bad.parse::<Ids>().is_err(), "{bad}");
        }
    }

    #[test]
    fn accounts_are_found_by_name_and_number_and_unknown_ones_are_told() {
        assert_eq!(passwd("a:x:7:8:A B:/home/a:/bin/sh"), Some(("a".into(), 7, 8, "/home/a".into())));
        assert_eq!(passwd("a:x:7:8:::"), Some(("a".into(), 7, 8, "/".into())));
        assert_eq!(passwd("a:x:y:8:::"), None);
        for bad in ["no-such-user-here", "-f", "", "4294967294"] {
            let error = RankUser::find(bad).unwrap_err();
            assert!(matches!(error, RankUserError::Unknown { .. }), "{bad}: {error}");
        }
        let root = account("root").unwrap();
        assert_eq!((root.ids.uid, root.ids.gid), (0, 0));
        assert_eq!(account("0").unwrap(), root);
    }

    #[test]
    fn only_root_becomes_somebody_else() {
        let own = geteuid();
        let other = format!("{}:1", own.as_raw() + 1);
        let found = RankUser::find(&other);
        if own.is_root() {
            assert_eq!(found.unwrap().unwrap().ids.uid, own.as_raw() + 1);
        } else {
            assert!(matches!(found, Err(RankUserError::NotRoot(_))));
            assert_eq!(RankUser::find(&format!("{}:1", own.as_raw())).unwrap(), None);
        }
    }
}
