//! What the rank itself may do.

use std::{fs, os::unix::fs::MetadataExt as _, process::Command};

use rustix::{
    process::{getgroups, getuid},
    thread::{set_thread_res_gid, set_thread_res_uid},
};

use super::outcome::{Outcome, Targets, Try, unless};

/// The attempts on what the rank itself may do, by name.
pub const ATTEMPTS: &[(&str, Try)] = &[
    ("uid-root", |_| unless(getuid().is_root().then(|| "it runs as root".to_owned()))),
    ("uid-shared", uid_shared),
    ("uid-agent", uid_agent),
    ("setuid", setuid),
    ("setgid", setgid),
    ("groups", groups),
    ("caps-effective", |_| zero("CapEff")),
    ("caps-permitted", |_| zero("CapPrm")),
    ("caps-inheritable", |_| zero("CapInh")),
    ("caps-bounding", |_| zero("CapBnd")),
    ("caps-ambient", |_| zero("CapAmb")),
    ("no-new-privs", |_| is("NoNewPrivs", "1")),
    ("seccomp", |_| is("Seccomp", "2")),
    ("suid-program", suid),
    ("pid-namespace", |t| namespace(t, "pid")),
    ("mount-namespace", |t| namespace(t, "mnt")),
    ("ipc-namespace", |t| namespace(t, "ipc")),
    ("descriptors", descriptors),
    ("environment", environment),
    ("umask", umask),
    ("remount", remount),
];

fn status(field: &str) -> String {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_default().trim().to_owned()
}

fn zero(field: &str) -> Outcome {
    let value = status(field);
    unless(value.bytes().any(|digit| digit != b'0').then(|| format!("{field} is {value}")))
}

fn is(field: &str, expected: &str) -> Outcome {
    let value = status(field);
    unless((value != expected).then(|| format!("{field} is {value:?}")))
}

/// The numbers of the server's own namespace are asked for: in a user namespace of its own everybody may be the same.
fn uid_shared(targets: &Targets) -> Outcome {
    let owner = fs::metadata("/proc/self").map(|meta| meta.uid()).unwrap_or(0);
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let outside = map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        (inside <= owner && owner - inside < count).then(|| outside.wrapping_add(owner - inside))
    });
    unless(
        (outside == Some(targets.victim_uid))
            .then(|| format!("both tenants' ranks run as {}", targets.victim_uid)),
    )
}

fn uid_agent(targets: &Targets) -> Outcome {
    let agent = fs::metadata(&targets.agent_dir).map(|meta| meta.uid());
    unless(
        agent
            .ok()
            .filter(|uid| *uid == getuid().as_raw())
            .map(|uid| format!("it runs as the agent's user {uid}")),
    )
}

fn setuid(_: &Targets) -> Outcome {
    let root = rustix::process::Uid::ROOT;
    unless(set_thread_res_uid(root, root, root).ok().map(|()| "it became root".to_owned()))
}

fn setgid(_: &Targets) -> Outcome {
    let root = rustix::process::Gid::ROOT;
    unless(set_thread_res_gid(root, root, root).ok().map(|()| "it joined the group of root".to_owned()))
}

fn groups(_: &Targets) -> Outcome {
    let groups: Vec<u32> = getgroups().unwrap_or_default().iter().map(|group| group.as_raw()).collect();
    let known = ["root", "disk", "docker", "sudo", "adm", "kmem", "shadow"];
    let table = fs::read_to_string("/etc/group").unwrap_or_default();
    let bad = table.lines().find(|line| {
        let mut parts = line.split(':');
        let (name, number) = (parts.next().unwrap_or_default(), parts.nth(1).and_then(|n| n.parse().ok()));
        known.contains(&name) && number.is_some_and(|number| groups.contains(&number))
    });
    unless(bad.map(|line| format!("it is of the group {line}")))
}

/// A program that would become root if it could.
fn suid(_: &Targets) -> Outcome {
    let programs = ["/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/sudo", "/bin/su"];
    let Some(path) =
        programs.iter().find(|path| fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o4000 != 0))
    else {
        return Outcome::Absent("there is no setuid program".to_owned());
    };
    let begun = Command::new(path).arg("--help").env_clear().output();
    let helped = begun.is_ok_and(|output| output.status.success());
    // With no_new_privs it runs, and as nobody else.
    unless((status("NoNewPrivs") != "1").then(|| format!("{path} would run as root (it ran: {helped})")))
}

fn namespace(targets: &Targets, kind: &str) -> Outcome {
    let own = fs::read_link(format!("/proc/self/ns/{kind}")).map(|link| link.display().to_string());
    let server =
        targets.metrics.iter().find_map(|line| line.strip_prefix(&format!("ns/{kind}=")).map(str::to_owned));
    match (own, server) {
        (Ok(own), Some(server)) => {
            unless((own == server).then(|| format!("it shares the server's {kind} namespace")))
        }
        _ => Outcome::Absent("the server's namespace is not known".to_owned()),
    }
}

/// Nothing of the supervisor is open in it.
fn descriptors(_: &Targets) -> Outcome {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let odd = entries.filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        let to = fs::read_link(entry.path()).ok()?.display().to_string();
        let own = to.contains("/proc/")
            || to.contains("anon_inode")
            || to.starts_with("/dev/null")
            || to.starts_with("pipe:");
        (number > 2 && !own).then_some(format!("descriptor {number} is {to}"))
    });
    unless(odd.into_iter().next())
}

fn environment(_: &Targets) -> Outcome {
    let secret = ["RAIL_JOIN_TOKEN", "RAIL_CA_PIN", "RAIL_DATA_DIR", "LD_PRELOAD", "SSH_AUTH_SOCK"];
    unless(
        secret.into_iter().find(|name| std::env::var_os(name).is_some()).map(|name| format!("{name} is set")),
    )
}

fn umask(_: &Targets) -> Outcome {
    let mask = u32::from_str_radix(&status("Umask"), 8).unwrap_or(0);
    unless((mask & 0o022 != 0o022).then(|| format!("umask is {mask:03o}: others may write what it makes")))
}

/// What is mounted read-only stays so.
fn remount(_: &Targets) -> Outcome {
    let done = Command::new("mount").args(["-o", "remount,rw", "/"]).output();
    unless(done.is_ok_and(|output| output.status.success()).then(|| "the root was remounted".to_owned()))
}
