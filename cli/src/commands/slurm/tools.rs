//! Slurm's own commands, each within a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    process::Stdio,
    time::Duration,
};

use super::decide::{Action, SlurmNode};
use crate::error::Error;

/// slurmctld answers within this time, or is away.
const LIMIT: Duration = Duration::from_secs(30);

/// What a command of Slurm prints.
///
/// # Errors
/// [`Error::Config`] if it cannot be run or fails, [`Error::Timeout`] if it does not end.
pub async fn output(program: &str, arguments: &[&str]) -> Result<String, Error> {
    let failed = |_| Error::Config(format!("{program} {}: what it prints is not UTF-8", arguments.join(" ")));
    String::from_utf8(bytes(program, arguments).await?).map_err(failed)
}

/// What a command of Slurm prints, in whatever bytes.
///
/// # Errors
/// Those of [`output`].
pub async fn bytes(program: &str, arguments: &[&str]) -> Result<Vec<u8>, Error> {
    let failed = |why: String| Error::Config(format!("{program} {}: {why}", arguments.join(" ")));
    let mut command = tokio::process::Command::new(program);
    // Variables that would make squeue and sinfo leave something out, ask another cluster, or write times otherwise.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if ["SQUEUE_", "SINFO_"].iter().any(|prefix| text.starts_with(prefix))
            || text == "SLURM_CLUSTERS"
            || text == "SLURM_TIME_FORMAT"
        {
            command.env_remove(&name);
        }
    }
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let ran = tokio::time::timeout(LIMIT, command.output()).await;
    let ran = ran.map_err(|_| Error::Timeout { what: format!("Slurm's {program}"), limit: LIMIT })?;
    let ran = ran.map_err(|error| failed(error.to_string()))?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        return Err(failed(format!("it ended with {}: {}", ran.status, said.trim())));
    }
    Ok(ran.stdout)
}

/// The numbers of all jobs that have not ended.
///
/// # Errors
/// [`Error::Config`] or [`Error::Timeout`] if squeue does not answer.
pub async fn jobs() -> Result<BTreeSet<u64>, Error> {
    let text = output("squeue", &["--noheader", "--all", "--array", "--format=%A"]).await?;
    numbers(&text)
}

fn numbers(text: &str) -> Result<BTreeSet<u64>, Error> {
    let number = |line: &str| {
        line.parse().map_err(|_| Error::Config(format!("squeue: {line:?} is no number of a job")))
    };
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(number).collect()
}

/// Slurm shows all jobs to this process: it is root's or SlurmUser's. To others hidden partitions and private jobs look as if they had ended.
///
/// # Errors
/// [`Error::Config`] if it is not, or [`Error::Timeout`] if slurmctld does not answer.
pub async fn sees_all() -> Result<(), Error> {
    let own = rustix::process::geteuid().as_raw();
    let text = output("scontrol", &["show", "config"]).await?;
    let user = slurm_user(&text)
        .ok_or_else(|| Error::Config("scontrol show config: there is no SlurmUser".to_owned()))?;
    if own == 0 || own == user {
        return Ok(());
    }
    Err(Error::Config(format!(
        "Slurm may not show all jobs to this user ({own}), and what is held for those that it does not show would be given back: run it as root or \
         as SlurmUser ({user})"
    )))
}

/// The number of `SlurmUser = slurm(64030)`.
fn slurm_user(config: &str) -> Option<u32> {
    let line =
        config.lines().find_map(|line| line.strip_prefix("SlurmUser")?.trim_start().strip_prefix('='))?;
    line.split_once('(')?.1.split_once(')')?.0.parse().ok()
}

/// All nodes of all partitions.
///
/// # Errors
/// [`Error::Config`] or [`Error::Timeout`] if sinfo does not answer.
pub async fn nodes() -> Result<BTreeMap<String, SlurmNode>, Error> {
    let text = output("sinfo", &["--noheader", "--all", "--Node", "--format=%N|%T|%E"]).await?;
    parsed(&text)
}

/// States of nodes on which jobs run or may start (sinfo's manual page, "NODE STATE CODES").
const UP: [&str; 5] = ["idle", "mixed", "allocated", "completing", "planned"];

fn parsed(text: &str) -> Result<BTreeMap<String, SlurmNode>, Error> {
    let node = |line: &str| {
        let mut parts = line.splitn(3, '|');
        let (Some(name), Some(state), Some(reason)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Error::Config(format!("sinfo: {line:?} is no name, state and reason")));
        };
        let is_drained = state.starts_with("drain");
        // A star, for example, says that its slurmd does not answer.
        let is_up = UP.contains(&state);
        // So sinfo writes that there is none.
        let reason = if reason.trim() == "none" { String::new() } else { reason.trim().to_owned() };
        Ok((name.to_owned(), SlurmNode { is_drained, is_up, reason }))
    };
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(node).collect()
}

/// What `job_submit.lua` writes into the comment of jobs that it has given servers.
const PINNED: &str = "railyard: servers proposed";
/// What stands there once they may start anywhere.
const FREED: &str = "railyard: servers were not free in time";

/// A job that waits for the servers that it was given when it was submitted.
#[derive(Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Its number.
    pub id: u64,
    /// These servers, as Slurm lists them.
    pub servers: String,
}

/// All such jobs.
///
/// # Errors
/// [`Error::Config`] or [`Error::Timeout`] if squeue does not answer.
pub async fn pinned() -> Result<Vec<Pinned>, Error> {
    // In this spelling: AdminComment, which the manual page has, prints nothing (22.05).
    let format = "--Format=JobID:|,ReqNodes:|,admin_comment:|";
    let states = "--states=PENDING,CONFIGURING";
    let text = output("squeue", &["--noheader", "--all", "--array", states, format]).await?;
    waiting(&text)
}

fn waiting(text: &str) -> Result<Vec<Pinned>, Error> {
    let of = |line: &str| {
        let mut parts = line.splitn(3, '|');
        let (id, servers, comment) = (parts.next()?, parts.next()?, parts.next()?);
        if comment.trim().trim_end_matches('|') != PINNED {
            return None;
        }
        let id = id.trim().parse();
        let id = id.map_err(|_| Error::Config(format!("squeue: {line:?} has no number of a job")));
        Some(id.map(|id| Pinned { id, servers: servers.trim().to_owned() }))
    };
    text.lines().filter_map(of).collect()
}

/// Lets such a job start on any servers.
///
/// # Errors
/// [`Error::Config`] or [`Error::Timeout`] if scontrol does not.
pub async fn free(id: u64) -> Result<(), Error> {
    let job = format!("JobId={id}");
    let comment = format!("AdminComment={FREED}");
    output("scontrol", &["update", &job, "ReqNodeList=", &comment]).await.map(drop)
}

/// Makes slurmctld read its files again.
///
/// # Errors
/// [`Error::Config`] or [`Error::Timeout`] if scontrol does not.
pub async fn reconfigure() -> Result<(), Error> {
    output("scontrol", &["reconfigure"]).await.map(drop)
}

/// Does it.
///
/// # Errors
/// [`Error::Config`] or [`Error::Timeout`] if scontrol does not, for example for want of rights.
pub async fn act(action: &Action) -> Result<(), Error> {
    let arguments = match action {
        Action::Drain { node, reason } => {
            vec![format!("NodeName={node}"), "State=DRAIN".to_owned(), format!("Reason={reason}")]
        }
        Action::Resume { node } => vec![format!("NodeName={node}"), "State=RESUME".to_owned()],
    };
    let arguments: Vec<&str> = ["update"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    output("scontrol", &arguments).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_prints_is_read() {
        assert_eq!(numbers(" 4\n17\n\n").unwrap(), [4, 17].into());
        assert!(numbers("4\nx7\n").unwrap_err().to_string().contains("\"x7\""));
        let nodes = parsed("n0|idle|none\nn1|draining*|railyard: cordoned: a | b\nn1|drained|x\n").unwrap();
        assert_eq!(nodes["n0"], SlurmNode { is_drained: false, is_up: true, reason: String::new() });
        let down = parsed("n2|down|bad DIMM").unwrap();
        assert_eq!(down["n2"], SlurmNode { is_drained: false, is_up: false, reason: "bad DIMM".into() });
        assert!(!parsed("n2|idle*|none").unwrap()["n2"].is_up, "its slurmd does not answer");
        assert_eq!(slurm_user("SlurmdUser   = root(0)\nSlurmUser     = slurm(64030)\n"), Some(64030));
        assert_eq!(slurm_user("SlurmUser = \n"), None);
        assert_eq!(nodes["n1"].reason, "x");
        assert_eq!(parsed("n1|drained|a | b").unwrap()["n1"].reason, "a | b");
        let lines =
            "7|n[0-3]|railyard: servers proposed|\n8||(null)|\n9|n1|of ours: railyard: servers proposed|\n";
        assert_eq!(waiting(lines).unwrap(), [Pinned { id: 7, servers: "n[0-3]".into() }]);
        assert!(waiting("x|n1|railyard: servers proposed|").is_err());
        assert!(parsed("n0 idle").unwrap_err().to_string().contains("no name, state and reason"));
    }

    #[tokio::test]
    async fn a_command_that_is_not_there_or_fails_is_named() {
        let error = output("no-such-program-of-slurm", &["--x"]).await.unwrap_err();
        assert!(error.to_string().contains("no-such-program-of-slurm --x"), "{error}");
        let error = output("sh", &["-c", "echo no rights >&2; exit 3"]).await.unwrap_err();
        assert!(error.to_string().contains("no rights") && error.to_string().contains('3'), "{error}");
    }
}
