//! Whether ranks ran into their limits, as the kernel counts it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use proto_model::{Reason, ReasonCode};

use super::limits::Limits;

/// The limit that the ranks ran into.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excess {
    /// Processes were ended for want of memory: the limit and the most that was used, in bytes.
    pub memory: Option<(u64, u64)>,
    /// Processes or threads were refused: the limit.
    pub pids: Option<u64>,
}

impl Excess {
    /// The cause that a rank's end has by this; memory first, for it is what ends processes.
    #[must_use]
    pub fn cause(&self, rank: u32, node: &str) -> Option<Reason> {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let reason = match (self.memory, self.pids) {
            (Some((limit, peak)), _) => {
                let (limit, peak) = (mib(limit), mib(peak));
                let message = format!(
                    "rank {rank} on {node} was ended by the kernel: the job's ranks there may use {limit} MiB of memory together and \
                     came to {peak} MiB; use less, ask for more GPUs of the server, or have the site raise --rank-memory"
                );
                Reason::new(ReasonCode::OutOfMemory, message)
            }
            (None, Some(limit)) => {
                let message = format!(
                    "rank {rank} on {node} failed after the job's ranks there had reached their limit of {limit} processes and threads \
                     together; use fewer, or have the site raise --rank-pids"
                );
                Reason::new(ReasonCode::TooManyProcesses, message)
            }
            (None, None) => return None,
        };
        Some(reason.scope(format!("rank/{rank}")))
    }
}

/// What the kernel has counted for the groups of one attempt.
#[must_use]
pub fn excess(groups: &[PathBuf], limits: &Limits) -> Excess {
    let mut found = Excess::default();
    for group in groups {
        if let Some(limit) = limits.memory.filter(|_| killed(group)) {
            found.memory = Some((limit, peak(group)));
        }
        if let Some(limit) = limits.pids.filter(|_| count(group, "pids.events", "max") > 0) {
            found.pids = Some(limit);
        }
    }
    found
}

fn killed(group: &Path) -> bool {
    count(group, "memory.events", "oom_kill") + count(group, "memory.oom_control", "oom_kill") > 0
}

fn peak(group: &Path) -> u64 {
    number(group, "memory.peak").or_else(|| number(group, "memory.max_usage_in_bytes")).unwrap_or(0)
}

/// CPU time of all that was ever in a group; `None` where the kernel does not count it.
#[must_use]
pub fn cpu_time(group: &Path) -> Option<Duration> {
    // The first version has a `cpu.stat` too, that says something else.
    let usage = named(group, "cpu.stat", "usage_usec").map(Duration::from_micros);
    usage.or_else(|| number(group, "cpuacct.usage").map(Duration::from_nanos))
}

/// Memory that a group has now, in bytes.
#[must_use]
pub fn memory(group: &Path) -> Option<u64> {
    number(group, "memory.current").or_else(|| number(group, "memory.usage_in_bytes"))
}

fn number(group: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()
}

/// A number of a file with a name and a number in each line; 0 where it is not there.
fn count(group: &Path, file: &str, name: &str) -> u64 {
    named(group, file, name).unwrap_or(0)
}

fn named(group: &Path, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(group.join(file)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_that_is_not_counted_is_none() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(cpu_time(root.path()), None);
        fs::write(root.path().join("cpu.stat"), "nr_periods 0\nnr_throttled 0\n").unwrap();
        assert_eq!(cpu_time(root.path()), None);
        fs::write(root.path().join("cpuacct.usage"), "5000\n").unwrap();
        assert_eq!(cpu_time(root.path()), Some(Duration::from_micros(5)));
        fs::write(root.path().join("cpu.stat"), "usage_usec 0\nuser_usec 0\n").unwrap();
        assert_eq!(cpu_time(root.path()), Some(Duration::ZERO));
    }

    #[test]
    fn both_versions_tell_what_was_too_much() {
        let root = tempfile::tempdir().unwrap();
        let file = |group: &str, name: &str, text: &str| {
            fs::create_dir_all(root.path().join(group)).unwrap();
            fs::write(root.path().join(group).join(name), text).unwrap();
        };
        file("two", "memory.events", "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n");
        file("two", "memory.peak", "1073741824\n");
        file("one", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
        file("one", "memory.max_usage_in_bytes", "536870912\n");
        file("pids", "pids.events", "max 3\n");
        file("well", "memory.events", "oom 0\noom_kill 0\n");
        file("well", "pids.events", "max 0\n");
        let limits = Limits { memory: Some(1 << 30), pids: Some(64), ..Limits::default() };
        let of = |groups: &[&str]| {
            excess(&groups.iter().map(|group| root.path().join(group)).collect::<Vec<_>>(), &limits)
        };
        assert_eq!(of(&["two"]).memory, Some((1 << 30, 1 << 30)));
        assert_eq!(of(&["one", "pids"]), Excess { memory: Some((1 << 30, 512 << 20)), pids: Some(64) });
        assert_eq!(of(&["well", "gone"]), Excess::default());
        assert_eq!(of(&["one", "pids"]).cause(3, "n0").unwrap().code, ReasonCode::OutOfMemory);
        let cause = of(&["pids"]).cause(3, "n0").unwrap();
        assert_eq!((cause.code, cause.scope.as_str()), (ReasonCode::TooManyProcesses, "rank/3"));
        assert!(
            of(&["one"])
                .cause(0, "n0")
                .unwrap()
                .message
                .contains("1024 MiB of memory together and came to 512 MiB")
        );
        assert_eq!(Excess::default().cause(0, "n0"), None);
    }
}
