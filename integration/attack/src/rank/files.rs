//! Files of others on the same server.

use std::{fs, path::Path};

use super::outcome::{Outcome, Targets, Try, unless};
use crate::{rank::victim, world::SECRET};

/// The attempts on files, by name.
pub const ATTEMPTS: &[(&str, Try)] = &[
    ("file-work", |t| in_victim(t, "work/own.secret")),
    ("file-open-mode", |t| in_victim(t, "work/open.secret")),
    ("file-log", |t| in_victim(t, "rank-0.log")),
    ("file-rank-map", |t| in_victim(t, "ranks.json")),
    ("file-assignment", |t| in_victim(t, "assignment.pb")),
    ("file-engine-config", |t| in_victim(t, "engine.json")),
    ("file-state", |t| in_victim(t, "state.pb")),
    ("file-result-write", result),
    ("file-work-write", work),
    ("dir-victim", |t| listed(&t.victim_dir)),
    ("dir-jobs", |t| listed(&format!("{}/jobs", t.agent_dir))),
    ("dir-agent", |t| listed(&t.agent_dir)),
    ("dir-controller", |t| listed(&t.controller_dir)),
    ("agent-key", |t| read(&format!("{}/identity/node.key", t.agent_dir))),
    ("agent-certificate", |t| read(&format!("{}/identity/node.pem", t.agent_dir))),
    ("agent-epoch-write", |t| writable(&format!("{}/epoch", t.agent_dir))),
    ("agent-logs", |t| listed(&format!("{}/logs", t.agent_dir))),
    ("ca-key", |t| read(&format!("{}/ca.key", t.controller_dir))),
    ("admin-key", |t| read(&format!("{}/admin.key", t.controller_dir))),
    ("own-assignment", |_| own("assignment.pb")),
    ("own-engine-config", |_| own("engine.json")),
    ("own-brief", |_| own("supervisor.json")),
    ("own-log-write", own_log),
    ("tmp-marker", |_| found(Path::new("/tmp"))),
    ("var-tmp-marker", |_| found(Path::new("/var/tmp"))),
    ("shm-marker", |_| found(Path::new("/dev/shm"))),
    ("tmp-others", tmp_others),
    ("shm-others", shm_others),
    ("sysv", sysv),
    ("mqueue", mqueue),
    ("shadow", |_| read("/etc/shadow")),
    ("root-home", |_| listed("/root")),
    ("etc-write", |_| writable("/etc/passwd")),
    ("cron-write", |_| created("/var/spool/cron/attack")),
    ("preload-write", |_| created("/etc/ld.so.preload")),
    ("program-write", program),
    ("core-pattern", |_| writable("/proc/sys/kernel/core_pattern")),
    ("sysrq", |_| writable("/proc/sysrq-trigger")),
    ("modprobe", |_| writable("/proc/sys/kernel/modprobe")),
    ("kcore", |_| read_some("/proc/kcore")),
    ("kmsg", |_| read_some("/dev/kmsg")),
    ("debugfs", debugfs),
    ("efivars", |_| created("/sys/firmware/efi/efivars/attack-00000000-0000-0000-0000-000000000000")),
    ("cgroup-root", |_| writable("/sys/fs/cgroup/cgroup.procs")),
    ("cgroup-own", cgroup_own),
    ("docker-socket", |_| connected("/var/run/docker.sock")),
    ("containerd-socket", |_| connected("/run/containerd/containerd.sock")),
    ("systemd-socket", |_| connected("/run/systemd/private")),
];

fn read(path: &str) -> Outcome {
    if path.starts_with('/') && path.len() > 1 {
        return unless(fs::read(path).ok().map(|bytes| format!("{path}: {} bytes were read", bytes.len())));
    }
    Outcome::Absent("it is not known where it is".to_owned())
}

/// A byte of what may never end.
fn read_some(path: &str) -> Outcome {
    unless(fs::File::open(path).ok().map(|_| format!("{path} can be opened")))
}

fn in_victim(targets: &Targets, file: &str) -> Outcome {
    read(&format!("{}/{file}", targets.victim_dir))
}

fn listed(path: &str) -> Outcome {
    unless(fs::read_dir(path).ok().map(|entries| format!("{path}: {} entries are listed", entries.count())))
}

/// An empty folder is where nothing is mounted.
fn debugfs(_: &Targets) -> Outcome {
    unless(names("/sys/kernel/debug").into_iter().next().map(|name| format!("/sys/kernel/debug has {name}")))
}

fn writable(path: &str) -> Outcome {
    // Opened to append, and nothing is written.
    unless(fs::File::options().append(true).open(path).ok().map(|_| format!("{path} can be written")))
}

fn created(path: &str) -> Outcome {
    let made = fs::File::options().create_new(true).write(true).open(path);
    // What was made is not left behind.
    let _ = made.as_ref().map(|_| fs::remove_file(path));
    unless(made.ok().map(|_| format!("{path} was made")))
}

fn connected(path: &str) -> Outcome {
    unless(std::os::unix::net::UnixStream::connect(path).ok().map(|_| format!("{path} answers")))
}

fn result(targets: &Targets) -> Outcome {
    writable(&format!("{}/result.json", targets.victim_dir))
}

fn work(targets: &Targets) -> Outcome {
    created(&format!("{}/work/planted", targets.victim_dir))
}

/// The job's own folder: what in it belongs to the agent.
fn own(file: &str) -> Outcome {
    let dir = std::env::var("RAIL_JOB_DIR").unwrap_or_default();
    let path = format!("{dir}/{file}");
    unless(fs::read(&path).ok().map(|_| format!("{path}, which is the agent's, was read")))
}

fn own_log(_: &Targets) -> Outcome {
    let dir = std::env::var("RAIL_JOB_DIR").unwrap_or_default();
    writable(&format!("{dir}/rank-0.log"))
}

/// A file with the secret somewhere in a folder that others write to.
fn found(dir: &Path) -> Outcome {
    let mut open = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten().take(2_000) {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < 2 {
                open.push((path, depth + 1));
            } else if kind.is_file()
                && entry.metadata().is_ok_and(|meta| meta.len() < 4_096)
                && fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(SECRET))
            {
                return Outcome::Gave(format!("{} has the secret", path.display()));
            }
        }
    }
    Outcome::Held
}

fn names(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn tmp_others(_: &Targets) -> Outcome {
    // The folders above its own may lie there.
    let own = std::env::var("RAIL_JOB_DIR").unwrap_or_default();
    let foreign = |name: &String| {
        let of_others = name.contains(victim::MARKER) || name.starts_with("railyard-");
        of_others && !own.split('/').any(|part| part == name)
    };
    unless(names("/tmp").into_iter().find(foreign).map(|name| format!("/tmp shows {name}")))
}

fn shm_others(_: &Targets) -> Outcome {
    unless(
        names("/dev/shm")
            .into_iter()
            .find(|name| name.contains(victim::MARKER))
            .map(|name| format!("/dev/shm shows {name}")),
    )
}

fn sysv(_: &Targets) -> Outcome {
    for kind in ["shm", "sem", "msg"] {
        let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
        if let Some(line) = table.lines().nth(1) {
            return Outcome::Gave(format!("System V {kind} of others: {line}"));
        }
    }
    Outcome::Held
}

fn mqueue(_: &Targets) -> Outcome {
    unless(names("/dev/mqueue").into_iter().next().map(|name| format!("a message queue of others: {name}")))
}

fn program(_: &Targets) -> Outcome {
    let me = std::env::current_exe().unwrap_or_default();
    for name in ["rail-node-agent", "rail-rank", "rail-engine", "railctl"] {
        let path = me.with_file_name(name);
        if let Outcome::Gave(words) = writable(&path.display().to_string()) {
            return Outcome::Gave(words);
        }
    }
    Outcome::Held
}

/// The limits of its own control group are not its own to change.
fn cgroup_own(_: &Targets) -> Outcome {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, kinds, path) =
            (parts.next(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let base =
            if kinds.is_empty() { "/sys/fs/cgroup".to_owned() } else { format!("/sys/fs/cgroup/{kinds}") };
        for file in ["cgroup.procs", "memory.max", "pids.max", "memory.limit_in_bytes", "release_agent"] {
            let path = format!("{base}{path}/{file}");
            if let Outcome::Gave(words) = writable(&path) {
                return Outcome::Gave(words);
            }
        }
    }
    Outcome::Held
}
