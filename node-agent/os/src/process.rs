//! Processes by pid and start time, so that a reused pid is never taken for the process that had it before.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    time::Duration,
};

use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{
        DumpableBehavior, Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_dumpable_behavior,
    },
};
use serde::{Deserialize, Serialize};

/// A process that cannot be mistaken for a later one of the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// The process id.
    pub pid: i32,
    /// When it started, in clock ticks since boot (field 22 of /proc/PID/stat, proc(5)).
    pub start: u64,
}

/// What /proc/PID/stat says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The process that it is about.
    pub id: Identity,
    /// Process id of its parent.
    pub parent: i32,
    /// Id of its process group.
    pub group: i32,
    /// It has ended and waits for its parent.
    pub zombie: bool,
    /// CPU time of it, and of what it has started and waited for.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub memory: u64,
}

/// CPU time, which the kernel gives in clock ticks (`USER_HZ`, proc_pid_stat(5)).
#[must_use]
pub fn ticks(ticks: u64) -> Duration {
    let per_second = clock_ticks_per_second().max(1);
    let rest = (ticks % per_second).saturating_mul(1_000_000_000) / per_second;
    Duration::from_secs(ticks / per_second).saturating_add(Duration::from_nanos(rest))
}

impl Identity {
    /// The process that has this pid now.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        stat(pid).map(|stat| stat.id)
    }

    /// The process that calls this; `None` where `/proc` does not show it.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// True while it runs; a zombie does not.
    #[must_use]
    pub fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.id == self && !stat.zombie)
    }

    /// Signals it. False if it is gone. The descriptor is taken before the identity is compared, so that the signal
    /// cannot reach a later process of the same pid.
    pub fn signal(self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        Self::of(self.pid) == Some(self) && pidfd_send_signal(descriptor, signal).is_ok()
    }
}

/// Keeps other processes of the same user (a tenant's, where ranks run as the agent's user) from reading this one's
/// memory and environment: job keys and tokens are there. The kernel does so for a process that may not be dumped.
pub fn hide() {
    // Fails on no kernel that has it; without it everything else still holds.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// What the kernel says of a pid.
#[must_use]
pub fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may itself hold any character.
    let rest = text.get(text.rfind(')')? + 1..)?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse().ok());
    let start = fields.get(19).and_then(|field| field.parse().ok())?;
    let zombie = matches!(fields.first(), Some(&"Z" | &"X"));
    let count = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let cpu = ticks((11..15).map(count).fold(0, u64::saturating_add));
    // The kernel counts pages, which are 64 KiB on some servers.
    let memory = count(21).saturating_mul(page_size() as u64);
    Some(Stat { id: Identity { pid, start }, parent: number(1)?, group: number(2)?, zombie, cpu, memory })
}

/// What a process and all below it use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// CPU time so far, also of those that have ended and were waited for.
    pub cpu: Duration,
    /// Resident memory; what several share counts for each.
    pub memory: u64,
    /// Number of processes that run.
    pub processes: u32,
}

/// All processes at one time, by their parents.
#[derive(Debug)]
pub struct Tree(BTreeMap<i32, Vec<Stat>>);

impl Tree {
    /// Looks at all that can be seen.
    #[must_use]
    pub fn read() -> Self {
        let mut tree: BTreeMap<i32, Vec<Stat>> = BTreeMap::new();
        for one in all() {
            tree.entry(one.parent).or_default().push(one);
        }
        Self(tree)
    }

    /// What a process and all below it use; nothing if it is gone.
    #[must_use]
    pub fn below(&self, root: Identity) -> Used {
        let mut used = Used::default();
        let first = self.0.values().flatten().find(|one| one.id == root);
        let mut next: Vec<&Stat> = first.into_iter().collect();
        // A process has one parent, so each is met once; a pid that was reused meanwhile could make a circle.
        let mut met = BTreeSet::new();
        while let Some(one) = next.pop() {
            if !met.insert(one.id.pid) {
                continue;
            }
            used.cpu = used.cpu.saturating_add(one.cpu);
            if !one.zombie {
                used.memory = used.memory.saturating_add(one.memory);
                used.processes += 1;
            }
            next.extend(self.0.get(&one.id.pid).into_iter().flatten());
        }
        used
    }
}

/// CPU time of all that this process has started and waited for; nothing where the kernel does not say.
#[must_use]
pub fn waited() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rfind(')').and_then(|end| text.get(end + 1..)).unwrap_or_default().split_whitespace();
    ticks(fields.skip(13).take(2).map(|field| field.parse().unwrap_or(0)).fold(0, u64::saturating_add))
}

/// Every process that can be seen.
#[must_use]
pub fn all() -> Vec<Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(stat).collect()
}

/// Everything below `root`, without the branch of `without`. Zombies count as gone.
#[must_use]
pub fn descendants(root: i32, without: Option<i32>) -> Vec<Stat> {
    let all = all();
    let mut known = BTreeSet::from([root]);
    let mut found: Vec<Stat> = Vec::new();
    // Parents may stand after their children in the list; rounds are bounded by the depth of the tree.
    loop {
        let before = found.len();
        for one in &all {
            let below = known.contains(&one.parent) && Some(one.id.pid) != without;
            if below && known.insert(one.id.pid) {
                found.push(*one);
            }
        }
        if found.len() == before {
            found.retain(|one| !one.zombie);
            return found;
        }
    }
}

/// Every process of a user that still runs.
#[must_use]
pub fn of_user(uid: u32) -> Vec<Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let owned = entries.filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == uid));
    let pids = owned.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(stat).filter(|one| !one.zombie).collect()
}

/// Processes whose environment holds exactly this `NAME=value`: what is left of a tree whose root is gone.
#[must_use]
pub fn with_environment(entry: &str) -> Vec<Stat> {
    let holds = |one: &Stat| {
        let environment = fs::read(format!("/proc/{}/environ", one.id.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|held| held == entry.as_bytes())
    };
    all().into_iter().filter(|one| !one.zombie && holds(one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn ticks_are_parts_of_a_second() {
        assert_eq!(ticks(clock_ticks_per_second()), Duration::from_secs(1));
        assert_eq!(ticks(clock_ticks_per_second() / 2), Duration::from_millis(500));
    }

    #[test]
    fn a_process_is_known_by_pid_and_start_time() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive());
        let other = Identity { start: own.start + 1, ..own };
        assert!(!other.is_alive() && !other.signal(Signal::CONT));
        let mut child = Command::new("sleep").arg("60").env("RAIL_TEST_MARK", "a b").spawn().unwrap();
        let id = Identity::of(child.id().cast_signed()).unwrap();
        assert!(descendants(own.pid, None).iter().any(|one| one.id == id));
        assert!(!descendants(own.pid, Some(id.pid)).iter().any(|one| one.id == id));
        let (all, one) = (Tree::read().below(own), Tree::read().below(id));
        assert!(all.processes >= 2 && all.memory > one.memory && one.processes == 1, "{all:?} {one:?}");
        // The same number as the kernel writes in KiB elsewhere; it adds up its counters now and then.
        let status = fs::read_to_string(format!("/proc/{}/status", id.pid)).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        let resident = resident.unwrap().parse::<u64>().unwrap() * 1024;
        assert!(one.memory.abs_diff(resident) <= resident / 2, "{one:?} {resident}");
        assert!(id.signal(Signal::KILL));
        child.wait().unwrap();
        assert_eq!(Tree::read().below(id), Used::default());
        assert!(!id.is_alive() && !id.signal(Signal::KILL));
    }
}
