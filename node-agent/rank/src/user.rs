//! The user that ranks run as: so that a tenant's program can read neither this server's key, nor a job's key, nor what
//! belongs to the agent.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    exec::{
        self,
        launch::{Confinement, Launch, Program},
    },
    ids::Ids,
    uids::{UidRange, UidRangeError},
};

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
