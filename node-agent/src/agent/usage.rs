//! What this server and the jobs on it use now, as the kernel counts it: looked at every few seconds, told with a heartbeat, kept nowhere.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use node_agent_core::Key;
use proto_wire::v1;

use crate::{
    agent::recover,
    cgroup,
    layout::DataDir,
    process::{self, Identity, Tree},
};

/// Between two looks; what is told is the mean over this time.
const EVERY: Duration = Duration::from_secs(5);
/// Tries that are told of at most.
const ATTEMPTS: usize = 1024;

/// Where a try's processes are found.
#[derive(Debug, Clone)]
struct Place {
    supervisor: Identity,
    cgroups: Vec<PathBuf>,
}

/// What was counted at one look.
#[derive(Debug)]
struct Look {
    at: Instant,
    /// Busy CPU time of the server.
    busy: Duration,
    /// CPU time of each try so far.
    attempts: BTreeMap<Key, Duration>,
}

/// Looks again and again.
#[derive(Debug, Default)]
pub struct Sampler {
    before: Option<Look>,
    places: BTreeMap<Key, Place>,
}

impl Sampler {
    /// Whether it is time for another look.
    pub fn is_due(&self, now: Instant) -> bool {
        self.before.as_ref().is_none_or(|look| now.duration_since(look.at) >= EVERY)
    }

    /// Looks. The first look tells of memory alone: CPU time is a difference.
    pub fn look(&mut self, data: &DataDir, now: Instant) -> Option<v1::ServerUsage> {
        let root = Path::new("/proc");
        let (busy, cpus) = busy(&fs::read_to_string(root.join("stat")).ok()?)?;
        let (memory, available) = memory(&fs::read_to_string(root.join("meminfo")).ok()?)?;
        self.find(data);
        let mut tree = None;
        let mut counted = Vec::new();
        for (key, place) in self.places.iter().take(ATTEMPTS) {
            let (cpu, memory, processes) = of_cgroups(&place.cgroups).unwrap_or_else(|| {
                let tree: &Tree = tree.get_or_insert_with(Tree::read);
                let used = tree.below(place.supervisor);
                (used.cpu, used.memory, used.processes)
            });
            counted.push((*key, cpu, memory, processes));
        }
        let look =
            Look { at: now, busy, attempts: counted.iter().map(|(key, cpu, ..)| (*key, *cpu)).collect() };
        let before = self.before.replace(look);
        let passed =
            before.as_ref().map(|before| now.duration_since(before.at)).filter(|passed| !passed.is_zero());
        let rate = |now: Duration, then: Option<Duration>| match (passed, then) {
            (Some(passed), Some(then)) => millis(now.saturating_sub(then), passed),
            _ => 0,
        };
        let attempts = counted.into_iter().map(|(key, cpu, memory_bytes, processes)| v1::AttemptUsage {
            job_uid: key.uid.to_string(),
            attempt: key.attempt,
            cpu_millis: rate(cpu, before.as_ref().and_then(|before| before.attempts.get(&key).copied())),
            memory_bytes,
            processes,
        });
        Some(v1::ServerUsage {
            cpu_millis: rate(busy, before.as_ref().map(|before| before.busy)),
            cpus,
            memory_used_bytes: memory.saturating_sub(available),
            memory_bytes: memory,
            attempts: attempts.collect(),
        })
    }

    /// Tries whose supervisors run.
    fn find(&mut self, data: &DataDir) {
        self.places.retain(|_, place| place.supervisor.is_alive());
        for (key, dir) in data.jobs() {
            if self.places.contains_key(&key) {
                continue;
            }
            let Some(saved) = recover::saved(&dir) else { continue };
            let running = saved.is_running().then_some(saved.supervisor).flatten();
            let Some(supervisor) = running.filter(|supervisor| supervisor.is_alive()) else { continue };
            self.places.insert(key, Place { supervisor, cgroups: saved.cgroups });
        }
    }
}

/// Thousandths of one CPU.
fn millis(busy: Duration, passed: Duration) -> u64 {
    let millis = busy.as_nanos().saturating_mul(1000) / passed.as_nanos().max(1);
    u64::try_from(millis).unwrap_or(u64::MAX)
}

/// Busy time of all CPUs since the start, and how many there are (proc_stat(5)): all but idle and waiting for disks. Guests are in
/// the first two.
fn busy(stat: &str) -> Option<(Duration, u32)> {
    let numbers: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = numbers.as_slice() else {
        return None;
    };
    let cpus = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    Some((
        process::ticks(user + nice + system + irq + softirq + steal),
        u32::try_from(cpus).unwrap_or(u32::MAX),
    ))
}

/// Main memory, and what of it is available to new programs.
fn memory(meminfo: &str) -> Option<(u64, u64)> {
    let of = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib.saturating_mul(1024))
    };
    Some((of("MemTotal")?, of("MemAvailable")?))
}

/// CPU time, memory and processes of a try's control groups, where they count all of that.
fn of_cgroups(groups: &[PathBuf]) -> Option<(Duration, u64, u32)> {
    let cpu = groups.iter().find_map(|group| cgroup::cpu_time(group))?;
    let memory = groups.iter().find_map(|group| cgroup::memory(group))?;
    let processes = cgroup::members(groups.first()?).len();
    Some((cpu, memory, u32::try_from(processes).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counts_are_read() {
        let stat = "cpu  100 50 25 1000 900 5 10 10 7 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n";
        assert_eq!(busy(stat), Some((process::ticks(200), 2)));
        assert_eq!(busy("cpu  1 2"), None);
        assert_eq!(
            memory("MemTotal:  1024 kB\nMemFree: 1 kB\nMemAvailable:    256 kB\n"),
            Some((1 << 20, 256 << 10))
        );
        assert_eq!(memory("MemTotal: 1 kB\n"), None);
        assert_eq!(millis(Duration::from_secs(1), Duration::from_secs(2)), 500);
    }

    #[test]
    fn groups_of_both_versions_are_read() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        let groups = [root.path().to_owned()];
        assert_eq!(of_cgroups(&groups), None);
        file("cpu.stat", "usage_usec 1500000\nuser_usec 1\n");
        file("memory.current", "4096\n");
        file("cgroup.procs", "1\n2\n");
        assert_eq!(of_cgroups(&groups), Some((Duration::from_millis(1500), 4096, 2)));
        fs::remove_file(root.path().join("cpu.stat")).unwrap();
        fs::remove_file(root.path().join("memory.current")).unwrap();
        file("cpuacct.usage", "2000000000\n");
        file("memory.usage_in_bytes", "8192\n");
        assert_eq!(of_cgroups(&groups), Some((Duration::from_secs(2), 8192, 2)));
    }

    #[test]
    fn a_server_is_looked_at_twice() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let mut sampler = Sampler::default();
        let start = Instant::now();
        assert!(sampler.is_due(start));
        let first = sampler.look(&data, start).unwrap();
        assert!(first.cpus > 0 && first.memory_bytes > first.memory_used_bytes && first.cpu_millis == 0);
        assert!(!sampler.is_due(start) && sampler.is_due(start + EVERY));
        let second = sampler.look(&data, start + EVERY).unwrap();
        assert!(second.cpu_millis <= u64::from(second.cpus) * 1100 && second.attempts.is_empty());
    }
}
