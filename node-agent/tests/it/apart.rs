//! Attempts are kept apart on a server: users of their own, namespaces, refused system calls; and nothing of them is left at their end.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path, process::Command};

use node_agent_attempt::state_files::{SupervisorState, read_state};
use node_agent_os::process;
use proto_model::{Assignment, Observed, Work};
use rustix::process::Signal;

use crate::{
    agent::{Server, run, stopped, work},
    controller::Controller,
    rank_user::possible,
    support::{assignment, collective, eventually, gone, isolation, shell},
};

/// Far from what people and tools use, and another part for each test.
fn range(number: u32) -> String {
    let first = 1_900_000_000 + (std::process::id() % 100_000) * 1000 + number * 16;
    format!("{first}-{}", first + 15)
}

async fn server(number: u32, more: &[&str]) -> (Controller, Server) {
    let mut controller = Controller::start().await;
    let range = range(number);
    let arguments = [&["--rank-uids", &range, "--rank-tmp-bytes", "16777216"], more].concat();
    let server = Server::with(&controller, &arguments, "info");
    controller.registered().await;
    controller.welcome(&[]).await;
    (controller, server)
}

fn log(server: &Server, job: &Assignment) -> String {
    fs::read_to_string(server.job(job).rank_log(0)).unwrap_or_default()
}

fn saved(server: &Server, job: &Assignment) -> SupervisorState {
    read_state(&server.job(job)).unwrap().unwrap()
}

/// Waits for a file that a rank writes.
fn written(server: &Server, job: &Assignment, name: &str) -> String {
    let path = work(server, job, name);
    eventually(&format!("{name}, of {}", log(server, job)), || {
        fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))
    })
}

/// What one rank tries with the other's things; every line that begins with `got` is a hole.
const SPY: &str = r#"
echo "$$" > up
while ! test -s go; do sleep 0.02; done
. ./go
for pid in $(seq 1 4000) $OTHER $SUPERVISOR $ENGINE; do
  if test -r /proc/$pid/environ && tr '\0' '\n' < /proc/$pid/environ 2>/dev/null | grep -q SECRET_OF_A; then echo "got environ $pid"; fi
  head -c 1 /proc/$pid/mem > /dev/null 2>&1 && echo "got mem $pid"
done
kill -0 $OTHER 2>/dev/null && echo "got signal"
cat "$DIR/work/secret" 2>/dev/null && echo "got file"
ls "$DIR" 2>/dev/null && echo "got folder"
ls /tmp /dev/shm | grep mine && echo "got tmp"
ls -d "$DATA/identity" 2>/dev/null && echo "got identity"
ls /dev | grep -E 'infiniband|mem|kmsg|sd|vd|nvidia' && echo "got device"
echo 1 > /proc/sys/vm/drop_caches 2>/dev/null && echo "got sysctl"
touch /sys/x /dev/x 2>/dev/null && echo "got sys"
test -e "$DIR/engine.sock" && echo "got engine"
ipcs -m 2>/dev/null | grep -q 0x0000beef && echo "got ipc"
echo "as $(id -u) $(id -g) $(id -G) home $HOME user $USER"
echo "pids $(ls /proc | grep -c '^[0-9]')"
echo done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn two_attempts_on_one_server_do_not_see_each_other() {
    if !possible() {
        return;
    }
    let (mut controller, server) = server(0, &[]).await;
    let script = "umask 077; echo hush > secret; echo x > /tmp/mine; echo x > /dev/shm/mine; echo up > up; exec sleep 600";
    let first = assignment(1, shell(script, &[("SECRET_OF_A", "hush")]));
    run(&mut controller, &first).await;
    written(&server, &first, "up");
    let second = assignment(1, shell(SPY, &[]));
    run(&mut controller, &second).await;
    written(&server, &second, "up");
    let other = saved(&server, &first);
    let go = format!(
        "OTHER={} SUPERVISOR={} ENGINE={} DIR={} DATA={}\n",
        other.ranks[&0].pid,
        other.supervisor.unwrap().pid,
        other.engine.unwrap().pid,
        server.job(&first).path().display(),
        server.data().display(),
    );
    fs::write(work(&server, &second, "go"), go).unwrap();
    controller.observed(&second, Observed::Ended).await;
    let seen = log(&server, &second);
    assert!(seen.contains("O done"), "{seen}");
    assert!(!seen.contains("O got"), "{seen}");
    let uid = |job: &Assignment| fs::metadata(work(&server, job, "up")).unwrap().uid();
    let (one, two) = (uid(&first), uid(&second));
    assert_ne!(one, two);
    let home = server.job(&second).home();
    let line = format!("O as {two} {two} {two} home {} user rail-{two}", home.display());
    assert!(seen.lines().any(|one| one == line), "{line} is missing in\n{seen}");
    if isolation().namespaces.pid {
        let pids = seen.lines().find_map(|line| line.strip_prefix("O pids ")).unwrap();
        assert!(pids.parse::<u32>().unwrap() < 12, "it sees its own processes alone: {seen}");
    }
    controller.desired(&stopped(&first)).await;
    controller.observed(&first, Observed::Ended).await;
    for id in [one, two] {
        assert_eq!(process::of_user(id), [], "nobody of theirs is left");
    }
    // Its id is the third one: those of the others rest.
    let third = assignment(2, collective());
    run(&mut controller, &third).await;
    let seen = controller.observed(&third, Observed::Ended).await;
    let log = log(&server, &third);
    assert!(seen.result.as_ref().is_some_and(|result| result.verified), "{seen:?}\n{log}");
}

/// Leaves everything that can be left: a daemon with nothing of ours in its environment, shared memory, files, mounts of the namespace.
const LITTER: &str = r#"
echo x > /tmp/left; echo x > /dev/shm/left
env -i setsid sh -c 'cd /; exec > /dev/null 2>&1; (sleep 86399 & sleep 86398) &'
while ! ps -e -o args 2>/dev/null | grep -q '[s]leep 86399'; do sleep 0.01; done
echo up > up
"#;

fn daemons() -> Vec<i32> {
    let line = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let all = process::all().into_iter().filter(|one| !one.zombie).map(|one| one.id.pid);
    all.filter(|pid| line(*pid).starts_with(b"sleep\08639")).collect()
}

/// Mounts by which something of an attempt could be left; network namespaces of tests that run beside this one come and go.
fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ours = text.lines().filter(|line| line.contains("rail") || line.contains("/jobs/"));
    ours.filter(|line| !line.contains(" /run/netns/")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_attempt_is_left_even_where_its_supervisor_is_killed_and_there_are_no_control_groups() {
    if !possible() || !isolation().namespaces.pid {
        return;
    }
    let (mut controller, server) = server(1, &["--no-cgroups"]).await;
    let before = mounts();
    for lost in [false, true] {
        let script = format!("{LITTER}\n{}", if lost { "exec sleep 600" } else { "exit 0" });
        let job = assignment(1, shell(&script, &[]));
        run(&mut controller, &job).await;
        written(&server, &job, "up");
        let uid = fs::metadata(work(&server, &job, "up")).map(|meta| meta.uid());
        if lost {
            assert!(!daemons().is_empty(), "{}", log(&server, &job));
            let holder = saved(&server, &job).holder.unwrap();
            server.supervisor(&job).signal(Signal::KILL);
            gone("the holder of the namespaces", holder);
        }
        controller.observed(&job, Observed::Ended).await;
        assert_eq!(daemons(), Vec::<i32>::new(), "lost: {lost}");
        assert_eq!(process::of_user(uid.unwrap()), []);
        assert_eq!(mounts(), before);
        for left in ["/tmp/left", "/dev/shm/left"] {
            assert!(!Path::new(left).exists());
        }
        controller.forget(&job).await;
    }
}

/// Tries what is refused, and what is not; each line is a call and its error number.
const CALLS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define TRY(name, call) do { errno = 0; long r = (call); printf("%s %d\n", name, r < 0 ? errno : 0); } while (0)
int main(void) {
    char space[256] = {0};
    TRY("mount", mount("none", "/tmp", "tmpfs", 0, ""));
    TRY("umount2", umount2("/tmp", MNT_DETACH));
    TRY("unshare", unshare(CLONE_NEWUSER));
    TRY("setns", setns(0, 0));
    TRY("clone", syscall(SYS_clone, CLONE_NEWUSER | 17, 0, 0, 0, 0));
    TRY("clone3", syscall(SYS_clone3, space, 64));
    TRY("keyctl", syscall(SYS_keyctl, 0, -3, 0));
    TRY("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3));
    TRY("bpf", syscall(SYS_bpf, 0, space, 64));
    TRY("perf_event_open", syscall(SYS_perf_event_open, space, 0, -1, -1, 0));
    TRY("userfaultfd", syscall(SYS_userfaultfd, 1));
    TRY("io_uring_setup", syscall(SYS_io_uring_setup, 1, space));
    TRY("open_by_handle_at", syscall(SYS_open_by_handle_at, -1, space, 0));
    TRY("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    TRY("open_tree", syscall(SYS_open_tree, -100, "/", 1));
    TRY("pivot_root", syscall(SYS_pivot_root, "/", "/"));
    TRY("kexec_load", syscall(SYS_kexec_load, 0, 0, 0, 0));
    TRY("init_module", syscall(SYS_init_module, space, 1, ""));
    TRY("smc", socket(43, SOCK_STREAM, 0));
    TRY("rds", socket(21, SOCK_SEQPACKET, 0));
#ifdef __x86_64__
    TRY("x32", syscall(0x40000000 + SYS_unshare, CLONE_NEWUSER));
#endif
    TRY("fork", fork() == 0 ? (_exit(0), 0) : wait(0));
    TRY("tcp", socket(AF_INET, SOCK_STREAM, 0));
    TRY("unix", socket(AF_UNIX, SOCK_SEQPACKET, 0));
    TRY("ptrace", ptrace(PTRACE_TRACEME, 0, 0, 0));
    TRY("memfd", syscall(SYS_memfd_create, "x", 0));
    return 0;
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn listed_system_calls_are_refused_and_others_work() {
    let has_compiler = Command::new("cc").arg("--version").output().is_ok();
    if !possible() || !has_compiler || !isolation().seccomp {
        return;
    }
    let room = tempfile::tempdir().unwrap();
    let (source, program) = (room.path().join("calls.c"), room.path().join("calls"));
    fs::write(&source, CALLS).unwrap();
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
    let (mut controller, server) = server(2, &[]).await;
    let job = assignment(1, shell("while ! test -x go; do sleep 0.02; done; ./calls", &[]));
    run(&mut controller, &job).await;
    fs::copy(&program, work(&server, &job, "calls")).unwrap();
    fs::copy(&program, work(&server, &job, "go")).unwrap();
    controller.observed(&job, Observed::Ended).await;
    let log = log(&server, &job);
    let works = ["fork", "tcp", "unix", "ptrace", "memfd"];
    let lines: Vec<(&str, &str)> =
        log.lines().filter_map(|line| line.strip_prefix("O ")?.split_once(' ')).collect();
    assert!(lines.len() > 20, "{log}");
    for (call, code) in lines {
        let expected = match call {
            "clone3" => "38",
            _ if works.contains(&call) => "0",
            _ => "1",
        };
        assert_eq!(code, expected, "{call}\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_without_a_network_reach_each_other_and_their_engine_alone() {
    if !possible() || !isolation().namespaces.mount {
        return;
    }
    let (mut controller, server) = server(3, &["--rank-network", "none"]).await;
    let script = "sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' '; \
                  (exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -o 'refused\\|unreachable' | head -1; echo done";
    let mut work = shell(script, &[]);
    if let Work::Command(command) = &mut work {
        command.argv[0] = "bash".to_owned();
    }
    let job = assignment(1, work);
    run(&mut controller, &job).await;
    controller.observed(&job, Observed::Ended).await;
    let lines = log(&server, &job);
    // Loopback alone, and it is up: nobody listens there, which is another answer than no way.
    let own: Vec<&str> = lines.lines().filter_map(|line| line.strip_prefix("O ")).collect();
    assert_eq!(own, ["lo", "refused", "done"], "{lines}");
    let job = assignment(2, collective());
    run(&mut controller, &job).await;
    let seen = controller.observed(&job, Observed::Ended).await;
    assert!(seen.result.as_ref().is_some_and(|result| result.verified), "{seen:?} {}", log(&server, &job));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_its_own_is_enough_to_find_what_an_attempt_leaves() {
    if !possible() {
        return;
    }
    let (mut controller, server) = server(4, &["--no-cgroups", "--no-rank-namespaces"]).await;
    let script = "env -i setsid sh -c 'cd /; exec > /dev/null 2>&1; (sleep 86397 & echo) &'; echo up > up; exec sleep 600";
    let job = assignment(1, shell(script, &[]));
    run(&mut controller, &job).await;
    written(&server, &job, "up");
    let uid = fs::metadata(work(&server, &job, "up")).unwrap().uid();
    eventually("the daemon", || (process::of_user(uid).len() >= 2).then_some(()));
    server.supervisor(&job).signal(Signal::KILL);
    controller.observed(&job, Observed::Ended).await;
    assert_eq!(process::of_user(uid), []);
}
