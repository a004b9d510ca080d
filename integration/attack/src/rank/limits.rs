//! How much of the server a rank can take.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use rustix::process::{Resource, getrlimit};

use super::outcome::{Outcome, Targets, Try, unless};

/// The attempts to exceed limits, by name.
pub const ATTEMPTS: &[(&str, Try)] = &[
    ("limit-memory", memory),
    ("limit-pids", pids),
    ("limit-cpu", cpu),
    ("limit-files", |_| rlimit(Resource::Nofile, 1 << 20)),
    ("limit-processes", |_| rlimit(Resource::Nproc, 65_536)),
    ("limit-core", |_| rlimit(Resource::Core, 0)),
    ("limit-locked", |_| rlimit(Resource::Memlock, 64 << 30)),
    ("limit-msgqueue", |_| rlimit(Resource::Msgqueue, 16 << 20)),
    ("limit-tmp", |_| size("/tmp")),
    ("limit-shm", |_| size("/dev/shm")),
    ("fork-bomb", fork_bomb),
    ("memory-hog", memory_hog),
];

/// Files of this job's control groups.
fn limits(names: &[&str]) -> Vec<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kinds, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let base =
            if kinds.is_empty() { "/sys/fs/cgroup".to_owned() } else { format!("/sys/fs/cgroup/{kinds}") };
        for ancestor in std::path::Path::new(path).ancestors() {
            let folder = format!("{base}{}", ancestor.display());
            found.extend(names.iter().filter_map(|name| fs::read_to_string(format!("{folder}/{name}")).ok()));
        }
    }
    found
}

fn bounded(names: &[&str], what: &str) -> Outcome {
    let found = limits(names);
    // v1 says "no limit" by a number of exabytes.
    let finite = |text: &String| {
        text.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).is_some_and(|n| n < 1 << 60)
    };
    if found.iter().any(finite) {
        return Outcome::Held;
    }
    Outcome::Gave(format!("no limit of {what}: {found:?}"))
}

fn memory(_: &Targets) -> Outcome {
    bounded(&["memory.max", "memory.limit_in_bytes"], "memory")
}

fn pids(_: &Targets) -> Outcome {
    bounded(&["pids.max"], "processes")
}

fn cpu(_: &Targets) -> Outcome {
    let near = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = near
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap_or_default()
        .trim()
        .to_owned();
    let weighted = !limits(&["cpu.weight", "cpu.shares", "cpu.max", "cpuset.cpus"]).is_empty();
    unless((!weighted).then(|| format!("no control group of CPUs; allowed: {allowed}")))
}

fn rlimit(resource: Resource, most: u64) -> Outcome {
    let now = getrlimit(resource);
    unless(
        now.maximum
            .is_none_or(|maximum| maximum > most)
            .then(|| format!("{resource:?} is {:?}", now.maximum)),
    )
}

/// A file system of its own, and not larger than half of the memory.
fn size(path: &str) -> Outcome {
    let Ok(stat) = rustix::fs::statvfs(path) else { return Outcome::Absent(format!("there is no {path}")) };
    let info = rustix::system::sysinfo();
    let memory = info.totalram.saturating_mul(u64::from(info.mem_unit));
    let bytes = stat.f_blocks.saturating_mul(stat.f_frsize);
    let own = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = own.lines().any(|line| line.split(' ').nth(4) == Some(path) && line.contains("tmpfs"));
    unless((!own || bytes > memory / 10 * 6).then(|| format!("{path}: own: {own}, {} MiB", bytes >> 20)))
}

/// Processes that are tried at most: fewer than harm a server, more than a rank of one GPU needs.
const FORKS: usize = 2_000;

fn fork_bomb(_: &Targets) -> Outcome {
    let limit = limits(&["pids.max"]).iter().filter_map(|text| text.trim().parse::<usize>().ok()).min();
    let Some(limit) = limit else { return Outcome::Gave("no limit of processes".to_owned()) };
    if limit > FORKS {
        return Outcome::Absent(format!("the limit is {limit}; {FORKS} are tried at most"));
    }
    let mut children: Vec<Child> = Vec::new();
    let mut refused = false;
    while children.len() < limit + 16 && !refused {
        match Command::new("/bin/sleep").arg("60").stdin(Stdio::null()).spawn() {
            Ok(child) => children.push(child),
            Err(_) => refused = true,
        }
    }
    let made = children.len();
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    unless((!refused).then(|| format!("{made} processes beyond a limit of {limit}")))
}

/// A child that takes more than the limit must not live on.
fn memory_hog(_: &Targets) -> Outcome {
    let all = limits(&["memory.max", "memory.limit_in_bytes"]);
    let limit = all.iter().filter_map(|text| text.trim().parse::<u64>().ok()).filter(|n| *n < 1 << 60).min();
    let Some(limit) = limit else { return Outcome::Gave("no limit of memory".to_owned()) };
    if limit > 1 << 30 {
        return Outcome::Absent(format!("the limit is {} MiB; 1 GiB is taken at most", limit >> 20));
    }
    let me = std::env::current_exe().unwrap_or_default();
    let asked = (limit >> 20) + 64;
    let status = Command::new(me).args(["hog", "--mib", &asked.to_string()]).status();
    unless(
        status
            .is_ok_and(|status| status.success())
            .then(|| format!("{asked} MiB were taken beyond a limit of {} MiB", limit >> 20)),
    )
}

/// `hog`: takes memory, touches it, and ends well if it may.
pub fn hog(mib: usize) {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for _ in 0..mib {
        all.push(vec![1; 1 << 20]);
    }
    std::hint::black_box(&all);
}
