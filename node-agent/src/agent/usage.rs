//! What this server and the jobs on it use now, as the kernel counts it: sampled every few seconds, sent with a heartbeat, kept nowhere. With it go
//! the congestion notifications of its NICs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use node_agent_attempt::layout::DataDir;
use node_agent_core::Key;
use node_agent_os::process::{self, Identity, Tree, Used};
use node_agent_rank::cgroup;
use proto_wire::v1;
use tokio::sync::watch;

use crate::agent::{
    notifications::{Counted, FRESH},
    recover,
};

/// Between two samples; what is reported is the mean over this time.
const EVERY: Duration = Duration::from_secs(5);
/// Most attempts that are reported.
const ATTEMPTS: usize = 1024;

/// Where an attempt's processes are found.
#[derive(Debug, Clone)]
struct Processes {
    supervisor: Identity,
    /// Stands in no control group of the attempt: those are its ranks'.
    engine: Option<Identity>,
    cgroups: Vec<PathBuf>,
}

/// What was counted at one time.
#[derive(Debug)]
struct Sample {
    at: Instant,
    /// Busy CPU time of the server.
    busy: Duration,
    /// CPU time of each attempt so far.
    attempts: BTreeMap<Key, Duration>,
}

/// Samples for ever, beside everything else: counts that the kernel is slow to give delay no heartbeat.
pub async fn sample(
    data: DataDir,
    notifications: Option<watch::Receiver<Counted>>,
    to: watch::Sender<Option<v1::ServerUsage>>,
) {
    let mut sampler = Sampler::default();
    loop {
        let data = data.clone();
        let sampled = tokio::task::spawn_blocking(move || {
            let usage = sampler.sample(&data, Instant::now());
            (sampler, usage)
        });
        let (after, usage) = sampled.await.unwrap_or_else(|error| {
            tracing::error!(%error, "what this server uses could not be counted; counting begins anew");
            Default::default()
        });
        sampler = after;
        if let Some(usage) = usage {
            let counted = notifications.as_ref().map(|all| all.borrow().clone());
            let fresh = counted.filter(|(at, _)| at.elapsed() <= FRESH);
            let notifications = fresh.map(|(_, all)| all).unwrap_or_default();
            to.send_replace(Some(v1::ServerUsage { notifications, ..usage }));
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Counts again and again.
#[derive(Debug, Default)]
struct Sampler {
    before: Option<Sample>,
    attempts: BTreeMap<Key, Processes>,
}

impl Sampler {
    /// Counts. The first time it gives memory alone: CPU time is a difference.
    fn sample(&mut self, data: &DataDir, now: Instant) -> Option<v1::ServerUsage> {
        let root = Path::new("/proc");
        let (busy, cpus) = busy(&fs::read_to_string(root.join("stat")).ok()?)?;
        let (memory, available) = memory(&fs::read_to_string(root.join("meminfo")).ok()?)?;
        self.find(data);
        let mut tree = None;
        let mut counted = Vec::new();
        for (key, processes) in self.attempts.iter().take(ATTEMPTS) {
            let used = of_cgroups(&processes.cgroups).map(|ranks| with_engine(ranks, processes.engine));
            let used = used.unwrap_or_else(|| {
                let tree: &Tree = tree.get_or_insert_with(Tree::read);
                tree.below(processes.supervisor)
            });
            counted.push((*key, used));
        }
        let sample =
            Sample { at: now, busy, attempts: counted.iter().map(|(key, used)| (*key, used.cpu)).collect() };
        let before = self.before.replace(sample);
        let passed =
            before.as_ref().map(|before| now.duration_since(before.at)).filter(|passed| !passed.is_zero());
        let rate = |now: Duration, then: Option<Duration>| match (passed, then) {
            (Some(passed), Some(then)) => millis(now.saturating_sub(then), passed),
            _ => 0,
        };
        let attempts = counted.into_iter().map(|(key, used)| v1::AttemptUsage {
            job_uid: key.uid.to_string(),
            attempt: key.attempt,
            cpu_millis: rate(used.cpu, before.as_ref().and_then(|before| before.attempts.get(&key).copied())),
            memory_bytes: used.memory,
            processes: used.processes,
        });
        Some(v1::ServerUsage {
            cpu_millis: rate(busy, before.as_ref().map(|before| before.busy)),
            cpus,
            memory_used_bytes: memory.saturating_sub(available),
            memory_bytes: memory,
            attempts: attempts.collect(),
            notifications: Vec::new(),
        })
    }

    /// Attempts whose supervisors run.
    fn find(&mut self, data: &DataDir) {
        self.attempts.retain(|_, processes| processes.supervisor.is_alive());
        for (key, dir) in data.jobs() {
            let known = self.attempts.get(&key).and_then(|processes| processes.engine);
            if known.is_some_and(Identity::is_alive) {
                continue;
            }
            let Some(saved) = recover::saved(&dir) else { continue };
            let running = saved.is_running().then_some(saved.supervisor).flatten();
            let Some(supervisor) = running.filter(|supervisor| supervisor.is_alive()) else { continue };
            let (engine, cgroups) = (saved.engine, saved.cgroups);
            self.attempts.insert(key, Processes { supervisor, engine, cgroups });
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

/// What an attempt's control groups count, where they count all of it.
fn of_cgroups(groups: &[PathBuf]) -> Option<Used> {
    let cpu = groups.iter().find_map(|group| cgroup::cpu_time(group))?;
    let memory = groups.iter().find_map(|group| cgroup::memory(group))?;
    let processes = u32::try_from(cgroup::members(groups.first()?).len()).unwrap_or(u32::MAX);
    Some(Used { cpu, memory, processes })
}

fn with_engine(ranks: Used, engine: Option<Identity>) -> Used {
    let running = |id: Identity| process::stat(id.pid).filter(|stat| stat.id == id && !stat.zombie);
    let Some(engine) = engine.and_then(running) else { return ranks };
    Used {
        cpu: ranks.cpu.saturating_add(engine.cpu),
        memory: ranks.memory.saturating_add(engine.memory),
        processes: ranks.processes.saturating_add(1),
    }
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
        assert_eq!(
            of_cgroups(&groups),
            Some(Used { cpu: Duration::from_millis(1500), memory: 4096, processes: 2 })
        );
        fs::remove_file(root.path().join("cpu.stat")).unwrap();
        fs::remove_file(root.path().join("memory.current")).unwrap();
        file("cpuacct.usage", "2000000000\n");
        file("memory.usage_in_bytes", "8192\n");
        let ranks = Used { cpu: Duration::from_secs(2), memory: 8192, processes: 2 };
        assert_eq!(of_cgroups(&groups), Some(ranks));
    }

    #[test]
    fn an_engine_counts_beside_the_groups_while_it_runs() {
        let ranks = Used { cpu: Duration::from_secs(2), memory: 8192, processes: 2 };
        let own = Identity::own().unwrap();
        let both = with_engine(ranks, Some(own));
        assert!(both.processes == 3 && both.memory > ranks.memory && both.cpu >= ranks.cpu, "{both:?}");
        let other = Identity { start: own.start + 1, ..own };
        assert_eq!((with_engine(ranks, Some(other)), with_engine(ranks, None)), (ranks, ranks));
    }

    #[test]
    fn cpu_time_is_told_from_the_second_sample_on() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let mut sampler = Sampler::default();
        let start = Instant::now();
        let first = sampler.sample(&data, start).unwrap();
        assert!(first.cpus > 0 && first.memory_bytes > first.memory_used_bytes && first.cpu_millis == 0);
        let second = sampler.sample(&data, start + EVERY).unwrap();
        assert!(second.cpu_millis <= u64::from(second.cpus) * 1100 && second.attempts.is_empty());
    }

    #[tokio::test]
    async fn what_is_counted_is_told_by_a_channel() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, mut receiver) = watch::channel(None);
        let counted = v1::NicNotifications { rail: 1, sent: Some(2), received: Some(3) };
        let (_counts, notifications) = watch::channel((Instant::now(), vec![counted]));
        let data = DataDir::open(folder.path()).unwrap();
        let sampling = tokio::spawn(sample(data, Some(notifications), sender));
        receiver.changed().await.unwrap();
        let seen = receiver.borrow().clone().unwrap();
        assert!(seen.cpus > 0 && seen.notifications == [counted], "{seen:?}");
        sampling.abort();
    }
}
