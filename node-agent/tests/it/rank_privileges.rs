//! Nothing that a job chooses acts with more rights than the job's program: its environment, its working directory, its limits.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use proto_model::{Assignment, Observation, Observed, Work};

use crate::{
    agent::{Server, running},
    controller::Controller,
    rank_user::{NOBODY, USER, possible},
    support::{AGENT, NODE, assignment, engine, shell},
};

/// A library that writes down as whom it is loaded, and with which capabilities.
const WITNESS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void witness(void) {
    char line[256], name[64] = "?", caps[64] = "?";
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        sscanf(line, "Name: %63s", name);
        sscanf(line, "CapEff: %63s", caps);
    }
    if (status) fclose(status);
    const char *at = getenv("WITNESS");
    int log = open(at ? at : "/witness", O_WRONLY | O_APPEND);
    int length = snprintf(line, sizeof line, "%d %d %s %s\n", getuid(), geteuid(), caps, name);
    if (log >= 0) { if (write(log, line, length)) {} close(log); }
}
"#;

fn compile(folder: &Path) {
    fs::write(folder.join("witness.c"), WITNESS).unwrap();
    let (source, library) = (folder.join("witness.c"), folder.join("witness.so"));
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(status.unwrap().success(), "cc made no library");
    fs::set_permissions(library, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a job to its end; `arrange` finds the job's folder when its ranks have not begun.
async fn play(
    controller: &mut Controller,
    server: &Server,
    job: &Assignment,
    arrange: impl FnOnce(&Path),
) -> (Observation, String) {
    controller.desired(job).await;
    let seen = controller.observed(job, Observed::Prepared).await;
    arrange(&server.job(job).work());
    controller.desired(&running(job, &seen)).await;
    let seen = controller.observed(job, Observed::Ended).await;
    (seen, fs::read_to_string(server.job(job).rank_log(0)).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_preloads_never_runs_as_anybody_but_the_ranks_user() {
    let has_compiler = Command::new("cc").arg("--version").output().is_ok();
    if !possible() || !has_compiler {
        return;
    }
    let room = tempfile::tempdir().unwrap();
    compile(room.path());
    let mut controller = Controller::start().await;
    let server = Server::with(&controller, &["--rank-user", USER], "info");
    controller.registered().await;
    controller.welcome(&[]).await;
    let job = assignment(1, shell("exec /bin/true", &[]));
    // Its folder is known by its key before it is there.
    let work = server.job(&job).work();
    let text = |name: &str| work.join(name).display().to_string();
    let (preload, witness, here) = (text("witness.so"), text("witnessed"), work.display().to_string());
    let set = [
        ("LD_PRELOAD", preload.as_str()),
        ("LD_AUDIT", &preload),
        ("LD_LIBRARY_PATH", &here),
        ("GCONV_PATH", &here),
        ("LOCPATH", &here),
        ("MALLOC_CONF", "abort:true"),
        ("GLIBC_TUNABLES", "glibc.malloc.check=3"),
        ("RUST_LOG", "trace"),
        ("WITNESS", &witness),
    ];
    let job = Assignment { desired: assignment(1, shell("id -u; exec /bin/true", &set)).desired, ..job };
    let (seen, log) = play(&mut controller, &server, &job, |work| {
        fs::copy(room.path().join("witness.so"), work.join("witness.so")).unwrap();
        // A library that our own program is linked to, as the loader would find it first.
        symlink("witness.so", work.join("libgcc_s.so.1")).unwrap();
        fs::write(work.join("witnessed"), "").unwrap();
        fs::set_permissions(work.join("witnessed"), fs::Permissions::from_mode(0o666)).unwrap();
    })
    .await;
    assert!(seen.exits.iter().all(|exit| exit.is_success()) && seen.exits.len() == 1, "{seen:?}\n{log}");
    let witnessed = fs::read_to_string(&witness).unwrap();
    assert!(
        witnessed.lines().any(|line| line.ends_with(" true")),
        "it was never loaded: {witnessed:?}\n{log}"
    );
    for line in witnessed.lines() {
        let expected = format!("{NOBODY} {NOBODY} 0000000000000000 ");
        assert!(line.starts_with(&expected), "a job's library ran with other rights: {witnessed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_has_no_privilege_and_no_way_to_get_one() {
    if !possible() {
        return;
    }
    let mut controller = Controller::start().await;
    // The agent inherits this, as from a careless service manager.
    let _open = rustix::io::dup(fs::File::open("/dev/zero").unwrap()).unwrap();
    let limits = ["--rank-open-files", "123", "--rank-processes", "456", "--rank-locked-bytes", "65536"];
    let server = Server::with(&controller, &[&["--rank-user", USER][..], &limits].concat(), "info");
    controller.registered().await;
    controller.welcome(&[]).await;
    let script = "grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs):' /proc/self/status | tr '\\t' ' '; umask; \
                  cat /proc/self/limits; ls -l /proc/$$/fd; ls -l /proc/self/fd | grep -c memfd; readlink /proc/self/fd/0";
    let job = assignment(1, shell(script, &[]));
    let (_, log) = play(&mut controller, &server, &job, |_| {}).await;
    let none = "0000000000000000";
    for line in [
        &format!("Uid: {NOBODY} {NOBODY} {NOBODY} {NOBODY}"),
        &format!("Gid: {NOBODY} {NOBODY} {NOBODY} {NOBODY}"),
        &format!("CapInh: {none}"),
        &format!("CapPrm: {none}"),
        &format!("CapEff: {none}"),
        &format!("CapBnd: {none}"),
        &format!("CapAmb: {none}"),
        "NoNewPrivs: 1",
        "0022",
        "0",
        "/dev/null",
    ] {
        assert!(log.lines().any(|one| one.trim_end() == format!("O {line}")), "{line} is missing in\n{log}");
    }
    assert!(log.contains("-> pipe:") && !log.contains("/dev/zero"), "what was open is closed: {log}");
    for (name, limit) in [
        ("Max core file size", "0"),
        ("Max open files", "123"),
        ("Max processes", "456"),
        ("Max locked memory", "65536"),
    ] {
        let line = log.lines().find(|line| line.starts_with(&format!("O {name}"))).unwrap();
        let values: Vec<&str> = line.trim_start_matches(&format!("O {name}")).split_whitespace().collect();
        assert_eq!(values.get(1), Some(&limit), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_directory_is_entered_with_the_ranks_own_rights() {
    if !possible() {
        return;
    }
    let room = tempfile::Builder::new().prefix("rail-closed-").tempdir_in("/var/tmp").unwrap();
    fs::create_dir(room.path().join("there")).unwrap();
    fs::set_permissions(room.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let mut controller = Controller::start().await;
    let server = Server::with(&controller, &["--rank-user", USER], "info");
    controller.registered().await;
    controller.welcome(&[]).await;
    let mut reported = Vec::new();
    for name in ["there", "else."] {
        let mut work = shell("ls; pwd", &[]);
        if let Work::Command(command) = &mut work {
            command.working_dir = room.path().join(name).display().to_string();
        }
        let (seen, log) = play(&mut controller, &server, &assignment(1, work), |_| {}).await;
        let cause = seen.cause.unwrap_or_else(|| panic!("{:?}\n{log}", seen.exits));
        assert_eq!(cause.code.as_str(), "RankStartFailed");
        assert!(!log.lines().any(|line| line.starts_with("O ")), "the program ran: {log}");
        reported.push((cause.message.replace(name, "NAME"), log.replace(name, "NAME")));
    }
    // What lies behind a closed door is not told, not even whether it is there.
    assert_eq!(reported[0].0, reported[1].0);
    assert!(reported[0].0.contains("NAME"), "{reported:?}");
}

#[test]
fn a_root_agent_refuses_ranks_as_root_unless_it_is_told() {
    let room = tempfile::tempdir().unwrap();
    let mut command = Command::new(AGENT);
    command.args(["run", "--node", NODE, "--controller", "unix:/no/such.sock", "--engine"]).arg(engine());
    command.env_remove("RAIL_RANKS_AS_ROOT").env_remove("RAIL_RANK_USER").env_remove("RAIL_RANK_UIDS");
    let output = command.arg("--data-dir").arg(room.path().join("data")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if rustix::process::geteuid().is_root() {
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--rank-user") && said.contains("--ranks-as-root"), "{said}");
    } else {
        assert!(!said.contains("--ranks-as-root"), "{said}");
    }
}
