//! Ranks as a user of their own: what they cannot read, and that everything still works for them.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

use node_agent_attempt::state_files::read_state;
use proto_model::Observed;

use crate::{
    agent::{Server, run, work},
    controller::Controller,
    support::{AGENT, NODE, assignment, collective, engine, eventually, shell},
};

pub const NOBODY: u32 = 65_534;
pub const USER: &str = "65534:65534";

/// What a rank of another user tries: every line that it prints as `read` is a secret or somebody else's. It waits for
/// the file `targets`, in which the test names what it should try.
const SPY: &str = r#"
while ! test -e ready; do sleep 0.02; done
while read -r target; do
  if head -c 1 "$target" > got 2>/dev/null; then echo "read $target"; else echo "closed $target"; fi
done < targets
ls "$(dirname "$RAIL_JOB_DIR")" > /dev/null 2>&1 && echo "listed jobs"
touch "$RAIL_JOB_DIR/mine" 2>/dev/null && echo "wrote beside its log"
echo "am $(id -u) $(id -g) $(id -G) at $HOME as $USER"
echo "to the console" > /dev/stderr
grep -q '"rank": 0' "$RAIL_RANK_MAP" && echo "has its map"
echo done > own
"#;

/// True if this process may become nobody and nobody may run what was built here; else says what is left out.
pub fn possible() -> bool {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start ranks as another user");
        return false;
    }
    let mut check = Command::new(engine());
    std::os::unix::process::CommandExt::uid(&mut check, NOBODY);
    let runs = check.arg("--version").output().is_ok_and(|output| output.status.success());
    if !runs {
        eprintln!("skipped: nobody cannot run {}, so ranks of theirs cannot either", engine().display());
    }
    runs
}

fn targets(server: &Server, dir: &Path, engine: i32, supervisor: i32) -> String {
    let data = server.data();
    let mut paths = vec![data.join("identity/node.key"), data.join("identity/node.pem")];
    paths.extend(["agent.lock", "epoch", "identity", "jobs"].map(|name| data.join(name)));
    for pid in [engine, supervisor] {
        paths.extend(["mem", "environ", "maps", "fd/0"].map(|name| format!("/proc/{pid}/{name}").into()));
    }
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let name = entry.file_name();
        if !["work", "ranks.json", "nccl-topology.xml"].iter().any(|open| name == *open) {
            paths.push(entry.path());
        }
    }
    paths.iter().map(|path| format!("{}\n", path.display())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_of_another_user_reads_no_secret_and_a_collective_works() {
    if !possible() {
        return;
    }
    let mut controller = Controller::start().await;
    let server = Server::with(&controller, &["--rank-user", USER], "info");
    controller.registered().await;
    controller.welcome(&[]).await;

    let job = assignment(1, shell(SPY, &[]));
    run(&mut controller, &job).await;
    let dir = server.job(&job);
    let saved = read_state(&dir).unwrap().unwrap();
    let list = targets(&server, dir.path(), saved.engine.unwrap().pid, saved.supervisor.unwrap().pid);
    assert!(list.contains("node.key") && list.contains("assignment.pb") && list.contains("engine.json"));
    fs::write(work(&server, &job, "targets"), &list).unwrap();
    fs::write(work(&server, &job, "ready"), "").unwrap();
    let seen = controller.observed(&job, Observed::Ended).await;
    let log = fs::read_to_string(dir.rank_log(0)).unwrap();
    assert!(seen.exits.iter().all(|exit| exit.is_success()), "{seen:?}\n{log}");
    for line in list.lines() {
        // The result file is the rank's own; it is empty here, and holds nothing of ours.
        let outcome = if line.ends_with("/result.json") { "read" } else { "closed" };
        assert!(log.contains(&format!("O {outcome} {line}\n")), "{line}\n{log}");
    }
    assert!(!log.contains("listed jobs") && !log.contains("wrote beside"), "{log}");
    for line in ["O am 65534 65534 65534 at / as 65534", "E to the console", "O has its map"] {
        assert!(log.lines().any(|one| one == line), "{line} is missing in\n{log}");
    }
    assert_eq!(fs::metadata(work(&server, &job, "own")).unwrap().uid(), NOBODY);

    let job = assignment(2, collective());
    run(&mut controller, &job).await;
    let seen = controller.observed(&job, Observed::Ended).await;
    let log = fs::read_to_string(server.job(&job).rank_log(0)).unwrap_or_default();
    assert!(seen.result.as_ref().is_some_and(|result| result.verified), "{seen:?}\n{log}");
    assert_eq!(fs::metadata(server.job(&job).rank_log(0)).unwrap().uid(), 0, "logs are not theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_of_another_user_end_with_their_supervisor_and_on_cancel() {
    if !possible() {
        return;
    }
    let mut controller = Controller::start().await;
    let server = Server::with(&controller, &["--rank-user", USER], "info");
    controller.registered().await;
    controller.welcome(&[]).await;
    let script = "echo $$ > own; trap '' TERM; while :; do sleep 0.1; done";
    for lost in [false, true] {
        let job = assignment(1, shell(script, &[]));
        run(&mut controller, &job).await;
        let rank = crate::support::process_in(&work(&server, &job, "own"));
        if lost {
            // The kernel ends the rank, although it is another user's.
            server.supervisor(&job).signal(rustix::process::Signal::KILL);
            eventually("the rank ends", || (!rank.is_alive()).then_some(()));
        } else {
            controller.desired(&crate::agent::stopped(&job)).await;
        }
        controller.observed(&job, Observed::Ended).await;
        assert!(!rank.is_alive());
        controller.forget(&job).await;
    }
}

#[test]
fn a_user_that_cannot_work_is_refused_at_start_with_the_cause() {
    let room = tempfile::tempdir().unwrap();
    let engine = engine();
    let agent = |user: &str, data: &Path| {
        let mut command = Command::new(AGENT);
        command.args(["run", "--node", NODE, "--controller", "unix:/no/such.sock", "--rank-user", user]);
        // With namespaces ranks reach what lies below closed folders.
        command.arg("--no-rank-namespaces");
        let output = command.arg("--engine").arg(&engine).arg("--data-dir").arg(data).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = agent("no-such-user-here", &room.path().join("data"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no-such-user-here") && said.contains("UID:GID"), "{said}");
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(room.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let (code, said) = agent(USER, &room.path().join("data"));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("cannot enter") || said.contains("cannot run"), "{said}");
    } else {
        let (code, said) = agent("0:0", &room.path().join("data"));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("runs as root"), "{said}");
    }
}
