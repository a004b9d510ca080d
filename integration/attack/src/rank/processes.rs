//! Processes of others on the same server.

use std::{fs, path::PathBuf};

use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, getpid, getuid, pidfd_getfd, pidfd_open, test_kill_process,
};

use super::outcome::{Outcome, Targets, Try, unless};
use crate::world::SECRET;

/// The attempts on processes of others, by name.
pub const ATTEMPTS: &[(&str, Try)] = &[
    ("proc-environ", environ),
    ("proc-mem", mem),
    ("proc-maps", |_| opened("maps")),
    ("proc-root", root),
    ("proc-cwd", |_| linked("cwd")),
    ("proc-exe", |_| linked("exe")),
    ("proc-fd", fds),
    ("proc-fd-write", fd_write),
    ("proc-hidden", hidden),
    ("proc-cmdline", cmdline),
    ("proc-io", |_| opened("io")),
    ("proc-stack", |_| opened("syscall")),
    ("signal", signal),
    ("pidfd-getfd", getfd),
    ("oom-score", oom),
    ("priority", priority),
];

fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn name(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

fn of_us(pid: i32) -> bool {
    // The first process of a PID namespace of its own is the job's, where it is the rank's user's.
    let owner =
        fs::metadata(format!("/proc/{pid}")).ok().map(|meta| std::os::unix::fs::MetadataExt::uid(&meta));
    let first = pid == 1 && !getuid().is_root() && owner == Some(getuid().as_raw());
    pid == getpid().as_raw_nonzero().get() || first || name(pid).contains("rail-attack rank")
}

/// Those that are not this job's.
fn others() -> Vec<i32> {
    all().into_iter().filter(|pid| !of_us(*pid)).collect()
}

fn first(check: impl Fn(i32) -> Option<String>) -> Outcome {
    unless(
        others()
            .into_iter()
            .find_map(|pid| check(pid).map(|seen| format!("pid {pid} ({}): {seen}", name(pid)))),
    )
}

fn environ(_: &Targets) -> Outcome {
    first(|pid| {
        let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        if text.contains(SECRET) {
            return Some("its environment has the secret".to_owned());
        }
        (!text.is_empty()).then(|| "its environment can be read".to_owned())
    })
}

fn mem(_: &Targets) -> Outcome {
    first(|pid| {
        fs::File::open(format!("/proc/{pid}/mem")).ok().map(|_| "its memory can be opened".to_owned())
    })
}

fn opened(file: &str) -> Outcome {
    first(|pid| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
        (!bytes.is_empty()).then(|| format!("{file} can be read"))
    })
}

fn root(_: &Targets) -> Outcome {
    first(|pid| fs::read_dir(format!("/proc/{pid}/root/")).ok().map(|_| "its root can be listed".to_owned()))
}

fn linked(link: &str) -> Outcome {
    first(|pid| {
        fs::read_link(format!("/proc/{pid}/{link}")).ok().map(|to| format!("{link} is {}", to.display()))
    })
}

fn fds(_: &Targets) -> Outcome {
    first(|pid| {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        Some(format!("{} descriptors are listed", entries.count()))
    })
}

fn fd_write(_: &Targets) -> Outcome {
    first(|pid| {
        let path = PathBuf::from(format!("/proc/{pid}/fd/1"));
        fs::File::options().append(true).open(path).ok().map(|_| "its output can be written to".to_owned())
    })
}

/// Nothing of others is listed. The first process of a namespace of this job's own is not another's.
fn hidden(targets: &Targets) -> Outcome {
    let seen = others().into_iter().find(|pid| {
        let uid =
            fs::metadata(format!("/proc/{pid}")).ok().map(|meta| std::os::unix::fs::MetadataExt::uid(&meta));
        *pid != 1 && uid.is_some_and(|uid| uid != getuid().as_raw() || uid == targets.victim_uid)
    });
    unless(seen.map(|pid| format!("pid {pid} is listed: {}", name(pid))))
}

fn cmdline(_: &Targets) -> Outcome {
    first(|pid| {
        let line = name(pid);
        (line.contains("rail-attack victim") || line.contains("rail-controller")).then_some(line)
    })
}

fn signal(_: &Targets) -> Outcome {
    first(|pid| {
        // Signal 0: only whether it could be sent.
        let target = Pid::from_raw(pid)?;
        test_kill_process(target).ok().map(|()| "it could be sent a signal".to_owned())
    })
}

fn getfd(_: &Targets) -> Outcome {
    first(|pid| {
        let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let taken = pidfd_getfd(&pidfd, 1, PidfdGetfdFlags::empty());
        taken.ok().map(|_| "a descriptor was taken out of it".to_owned())
    })
}

fn oom(_: &Targets) -> Outcome {
    first(|pid| {
        let path = format!("/proc/{pid}/oom_score_adj");
        fs::File::options()
            .write(true)
            .open(path)
            .ok()
            .map(|_| "its score for the OOM killer can be written".to_owned())
    })
}

fn priority(_: &Targets) -> Outcome {
    unless(rustix::process::nice(-5).ok().map(|now| format!("nice is {now}")))
}
