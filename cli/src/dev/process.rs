//! Who a process is, beyond its number: (pid, start time, boot). Only such are ever signalled.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use super::spec::write_json;
use crate::error::Error;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// Process id; may be that of a later process if `start` differs.
    pub pid: i32,
    /// Field 22 of /proc/PID/stat: when it started, in clock ticks since boot.
    pub start: u64,
}

/// A process's record in the cluster's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// The process that the record is of.
    #[serde(flatten)]
    pub identity: Identity,
    /// Id of the boot that `start` counts from.
    pub boot: String,
}

/// What /proc tells of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The process with its start time.
    pub identity: Identity,
    /// Process id of its parent.
    pub parent: i32,
    /// It has ended and waits for its parent to notice.
    pub zombie: bool,
    /// Its first thread is on its way out (`PF_EXITING` of include/linux/sched.h).
    pub exiting: bool,
}

/// `PF_EXITING`.
const EXITING: u64 = 4;
/// SIGKILL in a mask of signals.
const KILLED: u64 = 1 << (9 - 1);
/// From SIGKILL until the kernel has taken all of a process down: its memory may be large, and the machine busy.
const DEATH_LIMIT: Duration = Duration::from_secs(10);

/// Reads the text of /proc/PID/stat. The name in it is free text in parentheses.
fn parse_stat(text: &str) -> Option<Stat> {
    let pid = text.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let zombie = matches!(*fields.first()?, "Z" | "X" | "x");
    // Fields are counted from 1; those after the name begin with field 3.
    let parent = fields.get(4 - 3)?.parse().ok()?;
    let exiting = fields.get(9 - 3)?.parse::<u64>().ok()? & EXITING != 0;
    let start = fields.get(22 - 3)?.parse().ok()?;
    Some(Stat { identity: Identity { pid, start }, parent, zombie, exiting })
}

/// Whether the text of /proc/PID/status says that a SIGKILL is on its way to the process or to its first thread.
fn is_killed(status: &str) -> bool {
    let masks =
        status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).any(|mask| mask & KILLED != 0)
}

/// What is known of a process, if there is one of this number.
#[must_use]
pub fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The identity of the calling process.
///
/// # Errors
/// [`Error::Dev`] if `/proc` is not mounted or not readable.
pub fn myself() -> Result<Identity, Error> {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    stat(pid).map(|stat| stat.identity).ok_or_else(|| {
        Error::Dev(
            "/proc is not mounted or not readable: local clusters need it to know their processes".to_owned(),
        )
    })
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

impl Identity {
    /// True while the process runs (a zombie does not).
    #[must_use]
    pub fn alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.identity == self && !stat.zombie)
    }

    /// True while the process runs and was killed already: it holds its ports and its locks, and does nothing any more.
    fn dying(self) -> bool {
        let killed =
            || fs::read_to_string(format!("/proc/{}/status", self.pid)).is_ok_and(|text| is_killed(&text));
        stat(self.pid).is_some_and(|stat| stat.identity == self && !stat.zombie && (stat.exiting || killed()))
    }

    /// Signals this very process; nothing happens if it is gone. The pidfd keeps the number from being reused
    /// between the check and the signal.
    pub fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        if let Ok(fd) = pidfd_open(pid, PidfdFlags::empty())
            && self.alive()
        {
            // It may have ended just now, which is as good.
            let _ = pidfd_send_signal(fd, signal);
        }
    }
}

/// Leaves a record of this process.
///
/// # Errors
/// [`Error::Dev`] if `/proc` is not readable, or the record cannot be written.
pub fn record_myself(path: &Path) -> Result<(), Error> {
    write_json(path, &ProcessRecord { identity: myself()?, boot: boot() })
}

/// The process of a record, if it runs.
#[must_use]
pub fn recorded(path: &Path) -> Option<Identity> {
    let record: ProcessRecord = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    (record.boot == boot() && record.identity.alive()).then_some(record.identity)
}

/// The process of a record, if it runs and will go on: the death of one that was killed is waited for.
#[must_use]
pub fn recorded_to_stay(path: &Path) -> Option<Identity> {
    let found = recorded(path)?;
    if found.dying() && wait_gone(&BTreeSet::from([found]), DEATH_LIMIT) {
        return None;
    }
    Some(found)
}

/// Every recorded process of a folder that runs, by role.
#[must_use]
pub fn all_recorded(run: &Path) -> BTreeMap<String, Identity> {
    let Ok(entries) = fs::read_dir(run) else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let role = entry.file_name().to_str()?.strip_suffix(".json")?.to_owned();
            Some((role, recorded(&entry.path())?))
        })
        .collect()
}

/// Every process of this machine that one may look at.
#[must_use]
pub fn everyone() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(stat).collect()
}

/// The children of `roots`, their children, and so on.
#[must_use]
pub fn descendants(everyone: &[Stat], roots: &BTreeSet<Identity>) -> BTreeSet<Identity> {
    let mut found: BTreeSet<i32> = roots.iter().map(|root| root.pid).collect();
    loop {
        let more: Vec<i32> = everyone
            .iter()
            .filter(|stat| found.contains(&stat.parent) && !found.contains(&stat.identity.pid))
            .map(|stat| stat.identity.pid)
            .collect();
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    let in_tree = everyone.iter().filter(|stat| found.contains(&stat.identity.pid) && !stat.zombie);
    in_tree.map(|stat| stat.identity).filter(|one| !roots.contains(one)).collect()
}

/// Processes that were started with such an entry (NAME=VALUE) in their environment.
#[must_use]
pub fn marked(everyone: &[Stat], is_mark: impl Fn(&[u8]) -> bool) -> BTreeSet<Identity> {
    let has = |stat: &&Stat| {
        let environment = fs::read(format!("/proc/{}/environ", stat.identity.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(&is_mark)
    };
    everyone.iter().filter(|stat| !stat.zombie).filter(has).map(|stat| stat.identity).collect()
}

/// Processes whose command line names something below `dir`, if they are one of these programs.
/// Some hide their environment from their own user; the command line everybody sees.
#[must_use]
pub fn reported_of(everyone: &[Stat], programs: &[&str], dir: &Path) -> BTreeSet<Identity> {
    use std::os::unix::ffi::OsStrExt as _;
    let below = [dir.as_os_str().as_bytes(), b"/"].concat();
    let has = |stat: &&Stat| {
        let line = fs::read(format!("/proc/{}/cmdline", stat.identity.pid)).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        let program =
            words.next().and_then(|word| word.rsplit(|byte| *byte == b'/').next()).unwrap_or_default();
        programs.iter().any(|known| known.as_bytes() == program) && words.any(|word| word.starts_with(&below))
    };
    everyone.iter().filter(|stat| !stat.zombie).filter(has).map(|stat| stat.identity).collect()
}

/// Waits until none of them runs; false if some still do after `limit`.
#[must_use]
pub fn wait_gone(processes: &BTreeSet<Identity>, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    while processes.iter().any(|process| process.alive()) {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    true
}

/// Waits for SIGINT or SIGTERM.
pub async fn interrupted() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_is_no_trap() {
        let mut text = "42 (a) b (c)) S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2".to_owned();
        let stat = parse_stat(&text).unwrap();
        let identity = Identity { pid: 42, start: 987_654 };
        assert_eq!(stat, Stat { identity, parent: 7, zombie: false, exiting: false });
        assert!(parse_stat(&text.replace(" 4194560 ", " 4194564 ")).unwrap().exiting);
        text = text.replace(" S ", " Z ");
        assert!(parse_stat(&text).unwrap().zombie);
        assert_eq!(parse_stat("garbage"), None);
    }

    #[test]
    fn a_signal_that_kills_is_seen_before_it_has() {
        let status = |own: &str, shared: &str| {
            format!("Name:\tx\nSigQ:\t1/2\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t0100\n")
        };
        let none = "0000000000000000";
        assert!(!is_killed(&status(none, none)) && !is_killed(&status("0000000000004000", none)));
        assert!(is_killed(&status("0000000000000100", none)) && is_killed(&status(none, "0000000000000100")));
    }

    #[test]
    fn who_was_killed_is_waited_for_and_who_runs_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.json");
        for round in 0..20 {
            let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
            let identity = stat(i32::try_from(child.id()).unwrap()).unwrap().identity;
            write_json(&path, &ProcessRecord { identity, boot: boot() }).unwrap();
            assert_eq!(recorded_to_stay(&path), Some(identity), "{round}");
            identity.signal(Signal::KILL);
            // Between the signal's end and the exit's begin nothing tells: whoever asks then asks again.
            let end = Instant::now() + DEATH_LIMIT;
            while recorded_to_stay(&path).is_some() {
                assert!(Instant::now() < end, "{round}");
            }
            assert!(!identity.alive(), "{round}");
            child.wait().unwrap();
        }
    }

    #[test]
    fn only_the_very_process_is_signalled() {
        let mut child =
            Command::new("sleep").arg("60").env("RAIL_TEST_MARK", "m1").stdin(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let real = stat(pid).unwrap().identity;
        let other = Identity { start: real.start + 1, ..real };
        other.signal(Signal::KILL);
        assert!(real.alive() && !other.alive());
        let all = everyone();
        let me = BTreeSet::from([myself().unwrap()]);
        assert!(descendants(&all, &me).contains(&real));
        // The fork gets its environment at some moment soon.
        while !marked(&all, |entry| entry == b"RAIL_TEST_MARK=m1").contains(&real) {
            assert!(real.alive(), "its environment never showed the mark");
            std::thread::yield_now();
        }
        let mut reported =
            Command::new("tail").args(["-f", "/dev/null", "--pid", &pid.to_string()]).spawn().unwrap();
        let of = |programs: &[&str]| reported_of(&everyone(), programs, Path::new("/dev"));
        let tail = i32::try_from(reported.id()).unwrap();
        let found = |programs: &[&str]| of(programs).iter().any(|one| one.pid == tail);
        // The fork becomes `tail` at some moment soon.
        while !found(&["tail"]) {
            std::thread::yield_now();
        }
        assert!(!found(&["rail-node-agent"]), "another program is nobody of ours");
        reported.kill().unwrap();
        reported.wait().unwrap();
        real.signal(Signal::KILL);
        assert!(wait_gone(&BTreeSet::from([real]), Duration::from_secs(10)), "a zombie counts as gone");
        child.wait().unwrap();
    }

    #[test]
    fn a_record_of_another_boot_or_process_is_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("me.json");
        record_myself(&path).unwrap();
        assert_eq!(recorded(&path), Some(myself().unwrap()));
        assert_eq!(all_recorded(folder.path()).keys().collect::<Vec<_>>(), ["me"]);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"start\": ", "\"start\": 1")).unwrap();
        assert_eq!(recorded(&path), None);
        fs::write(&path, "{").unwrap();
        assert_eq!(recorded(&path), None);
    }
}
