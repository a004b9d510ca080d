//! What a rank of tenant beta tries on a server where tenant alpha has one.

use crate::{
    caller::From,
    model::{Attempt, Expect, Finding, Step, Trace},
    rank::syscalls,
};

const F1: Finding = Finding::Number(1);
const F2: Finding = Finding::Number(2);
const F12: Finding = Finding::Number(12);
const F13: Finding = Finding::Number(13);
const HELD: Finding = Finding::Held;
const NEW: Finding = Finding::New;

/// What is tried, and how it is described to people.
const PROBES: &[(&str, Finding, &str)] = &[
    ("proc-environ", F2, "read another process's environment"),
    ("proc-mem", F2, "open another process's memory"),
    ("proc-maps", F2, "read another process's map of memory"),
    ("proc-root", F2, "enter another process's root"),
    ("proc-cwd", F2, "enter another process's working directory"),
    ("proc-exe", F2, "find another process's program"),
    ("proc-fd", F2, "list another process's descriptors"),
    ("proc-fd-write", F2, "write lines into another rank's output"),
    ("proc-hidden", F2, "list processes of others"),
    ("proc-cmdline", F2, "read others' arguments"),
    ("proc-io", F2, "read another process's counters"),
    ("proc-stack", F2, "see another process's system calls"),
    ("signal", F2, "signal another process"),
    ("pidfd-getfd", F2, "take a descriptor out of another process"),
    ("oom-score", F2, "have another process killed when memory ends"),
    ("priority", HELD, "raise its own priority"),
    ("file-work", F2, "read another job's private file"),
    ("file-open-mode", F2, "read another job's file that is open to everybody"),
    ("file-log", F2, "read another rank's log"),
    ("file-rank-map", F2, "read another job's rank map"),
    ("file-assignment", HELD, "read another job's assignment"),
    ("file-engine-config", HELD, "read another engine's configuration, with the job's key"),
    ("file-state", HELD, "read another supervisor's state"),
    ("file-result-write", F2, "write another job's result"),
    ("file-work-write", F2, "plant a file in another job's folder"),
    ("dir-victim", F2, "list another job's folder"),
    ("dir-jobs", HELD, "list the folders of all jobs"),
    ("dir-agent", HELD, "list the agent's folder"),
    ("dir-controller", HELD, "list the controller's folder"),
    ("agent-key", F1, "read the server's key"),
    ("agent-certificate", HELD, "read the server's certificate"),
    ("agent-epoch-write", HELD, "change the epoch that the agent obeys"),
    ("agent-logs", HELD, "list the logs of jobs that have ended"),
    ("ca-key", HELD, "read the authority's key"),
    ("admin-key", HELD, "read the administrator's key"),
    ("own-assignment", HELD, "read its own job's assignment"),
    ("own-engine-config", HELD, "read its own engine's configuration, with the job's key"),
    ("own-brief", HELD, "read what the agent told its supervisor"),
    ("own-log-write", HELD, "write its own log by itself"),
    ("tmp-marker", F13, "find another job's file in /tmp"),
    ("var-tmp-marker", F13, "find another job's file in /var/tmp"),
    ("shm-marker", F13, "find another job's file in /dev/shm"),
    ("tmp-others", F13, "see others' names in /tmp"),
    ("shm-others", F13, "see others' names in /dev/shm"),
    ("sysv", F2, "see others' System V memory, semaphores and queues"),
    ("mqueue", F2, "see others' message queues"),
    ("shadow", HELD, "read the server's passwords"),
    ("root-home", HELD, "list root's home"),
    ("etc-write", HELD, "add an account to the server"),
    ("cron-write", HELD, "plant a timer"),
    ("preload-write", F1, "have a library loaded into all programs"),
    ("program-write", HELD, "replace the agent's program"),
    ("core-pattern", HELD, "have the kernel run a program at a crash"),
    ("sysrq", HELD, "restart the server"),
    ("modprobe", HELD, "have the kernel run a program for a module"),
    ("kcore", HELD, "read the kernel's memory"),
    ("kmsg", HELD, "write into the kernel's log"),
    ("debugfs", HELD, "read the kernel's debugging files"),
    ("efivars", HELD, "change the firmware's variables"),
    ("cgroup-root", F13, "leave its control group"),
    ("cgroup-own", F13, "change its own limits"),
    ("docker-socket", HELD, "speak with Docker"),
    ("containerd-socket", HELD, "speak with containerd"),
    ("systemd-socket", HELD, "speak with systemd"),
    ("engine-socket", F2, "connect to another job's engine"),
    ("engine-control", HELD, "steer another job's engine"),
    ("supervisor-socket", HELD, "steer another job's supervisor"),
    ("own-engine-control", HELD, "steer its own engine behind its supervisor's back"),
    ("own-supervisor", HELD, "steer its own supervisor"),
    ("own-engine-garbage", HELD, "end its own engine by garbage"),
    ("own-engine-silent", HELD, "end its own engine by 300 silent connections"),
    ("own-engine-descriptors", HELD, "end its own engine by files that shrink"),
    ("victim-socket", F2, "connect to a socket in another job's folder"),
    ("abstract-socket", NEW, "connect to another job's abstract socket"),
    ("controller-socket", HELD, "connect to the controller's socket"),
    ("unix-names", NEW, "see the names of others' sockets"),
    ("metrics", NEW, "find the other tenant in metrics on loopback"),
    ("raw-packet", HELD, "listen to the server's packets"),
    ("raw-icmp", HELD, "send ICMP by hand"),
    ("raw-udp", HELD, "forge the sender of packets"),
    ("low-port", HELD, "serve a privileged port"),
    ("uverbs", HELD, "open a NIC's RDMA device"),
    ("tun", HELD, "make a network device"),
    ("kvm-fuse", F13, "open devices of virtual machines and file systems"),
    ("memory", HELD, "open the server's memory"),
    ("disks", HELD, "open the server's disks"),
    ("mknod", HELD, "make a device of its own"),
    ("uid-root", F12, "run as root"),
    ("uid-shared", F2, "run as the other tenant's user"),
    ("uid-agent", F12, "run as the agent's user"),
    ("setuid", F12, "become root"),
    ("setgid", F12, "join root's group"),
    ("groups", F12, "be of a group with more rights"),
    ("caps-effective", F12, "hold a capability"),
    ("caps-permitted", F12, "be permitted a capability"),
    ("caps-inheritable", F12, "inherit a capability"),
    ("caps-bounding", F1, "be able to gain a capability"),
    ("caps-ambient", F12, "hold an ambient capability"),
    ("no-new-privs", F1, "gain privileges by a program"),
    ("seccomp", F13, "make system calls without a filter"),
    ("suid-program", F1, "become root by a setuid program"),
    ("pid-namespace", F2, "share the server's processes"),
    ("mount-namespace", F2, "share the server's mounts"),
    ("ipc-namespace", F2, "share the server's System V memory"),
    ("descriptors", F1, "find the supervisor's descriptors open"),
    ("environment", F1, "find the agent's variables"),
    ("umask", F1, "make files that others may write"),
    ("remount", HELD, "mount the root anew"),
    ("limit-memory", F13, "take memory without a limit"),
    ("limit-pids", F13, "make processes without a limit"),
    ("limit-cpu", F13, "take all CPUs"),
    ("limit-files", F13, "open files without a limit"),
    ("limit-processes", F13, "make processes of its user without a limit"),
    ("limit-core", F13, "leave core files"),
    ("limit-locked", F13, "lock memory without a limit"),
    ("limit-msgqueue", F13, "fill message queues without a limit"),
    ("limit-tmp", F13, "fill the server's /tmp"),
    ("limit-shm", F13, "fill the server's /dev/shm"),
    ("fork-bomb", F13, "make processes until the server has none left"),
    ("memory-hog", F13, "take memory until the server has none left"),
];

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let attempt = |probe: &str, finding, title: &str| Attempt {
        id: format!("ranks/{probe}"),
        title: title.to_owned(),
        finding,
        from: From::Rank,
        step: Step::Probe(probe.to_owned()),
        expect: if probe.starts_with("limit") || probe.contains("bomb") || probe.contains("hog") {
            Expect::Bounded
        } else {
            Expect::Absent
        },
        trace: Trace::None,
    };
    let named = PROBES.iter().map(|(probe, finding, title)| attempt(probe, *finding, title));
    let calls = syscalls::names().map(|probe| {
        let title = format!("call {}", probe.trim_start_matches("sys-").replace('-', " "));
        attempt(&probe, F13, &title)
    });
    named.chain(calls).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rank;

    #[test]
    fn a_rank_attempts_what_the_table_lists() {
        let listed: BTreeSet<&str> = PROBES.iter().map(|(probe, ..)| *probe).collect();
        let tried: BTreeSet<&str> = rank::all().into_iter().map(|(probe, _)| probe).collect();
        assert_eq!(listed, tried);
    }
}
