//! No key and no token in any log, file, argument or rank's environment, however talkative the processes are.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use node_agent_attempt::state_files::{SupervisorState, read_state};
use proto_model::{Assignment, DesiredState, Observed, ValueText, Work};

use crate::{
    agent::{Server, run, work},
    controller::Controller,
    support::{assignment, collective, eventually, shell},
};

/// The forms in which a secret could slip out, each with a name for the failure's message.
fn secrets(token: &str, node_key: &str) -> Vec<(&'static str, Vec<u8>)> {
    let key: Vec<u8> = (0..32).map(|at| at + 0xa0).collect();
    let texts = |one: fn(&u8) -> String, between: &str| key.iter().map(one).collect::<Vec<_>>().join(between);
    // A part is enough: logs cut long values.
    let cut = |text: String| text.into_bytes()[..24].to_vec();
    let pem = node_key.lines().nth(1).unwrap().to_owned().into_bytes();
    vec![
        ("join token", token.as_bytes().to_vec()),
        ("join token's secret part", token.rsplit('.').next().unwrap().as_bytes().to_vec()),
        ("node key", pem),
        ("job key as it is", key[..12].to_vec()),
        ("job key in hex", cut(texts(|byte| format!("{byte:02x}"), ""))),
        ("job key in capital hex", cut(texts(|byte| format!("{byte:02X}"), ""))),
        ("job key as a list", cut(texts(|byte| byte.to_string(), ", "))),
        ("job key as a list in JSON", cut(texts(|byte| byte.to_string(), ","))),
        ("job key escaped", cut(texts(|byte| format!("\\x{byte:02x}"), ""))),
        ("job key in base 64", b"oKGio6SlpqeoqaqrrK2u".to_vec()),
    ]
}

fn holds(content: &[u8], secret: &[u8]) -> bool {
    content.windows(secret.len()).any(|part| part == secret)
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), found),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

/// Everything of the server that somebody could read: its log, its files but the node's key, and its processes.
fn exposed(server: &Server, processes: &[i32], ranks: &[i32]) -> Vec<(String, Vec<u8>)> {
    let mut paths = vec![server.log()];
    files(&server.data(), &mut paths);
    paths.retain(|path| !path.ends_with("identity/node.key"));
    paths.extend(processes.iter().map(|pid| format!("/proc/{pid}/cmdline").into()));
    paths.extend(ranks.iter().map(|pid| format!("/proc/{pid}/environ").into()));
    paths.iter().map(|path| (path.display().to_string(), fs::read(path).unwrap_or_default())).collect()
}

fn check(what: &str, secrets: &[(&'static str, Vec<u8>)], exposed: &[(String, Vec<u8>)]) {
    for (place, content) in exposed {
        for (name, secret) in secrets {
            assert!(!holds(content, secret), "{what}: {place} holds the {name}");
        }
    }
}

async fn at_work(controller: &mut Controller, server: &Server, work: Work) -> (Assignment, SupervisorState) {
    let job = assignment(2, work);
    run(controller, &job).await;
    let saved = read_state(&server.job(&job)).unwrap().unwrap();
    (job, saved)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_and_no_token_is_in_a_log_a_file_an_argument_or_a_rank_s_environment() {
    let mut controller = Controller::start().await;
    let server = Server::with(&controller, &["--ranks-as-root"], "trace");
    controller.registered().await;
    controller.welcome(&[]).await;
    let node_key = fs::read_to_string(server.data().join("identity/node.key")).unwrap();
    let secrets = secrets(&controller.token, &node_key);

    let script = "env; set; cat /proc/$PPID/cmdline; touch up-$RANK; while ! test -e go; do sleep 0.02; done";
    let (job, saved) = at_work(&mut controller, &server, shell(script, &[])).await;
    let is_up = |rank: u32| work(&server, &job, &format!("up-{rank}")).exists();
    eventually("the ranks", || (is_up(0) && is_up(1)).then_some(()));
    // What they have said is written by the supervisor, in its own time.
    let said = |rank: u32| fs::metadata(server.job(&job).rank_log(rank)).is_ok_and(|log| log.len() > 20);
    eventually("what the ranks have said", || (said(0) && said(1)).then_some(()));
    let ranks: Vec<i32> = saved.ranks.values().map(|id| id.pid).collect();
    let mut processes = ranks.clone();
    processes.extend(saved.engine.iter().chain(&saved.supervisor).map(|id| id.pid));
    processes.push(server.pid());
    let seen = exposed(&server, &processes, &ranks);
    let shown = |place: &str| seen.iter().any(|(path, content)| path.ends_with(place) && content.len() > 20);
    for place in ["agent.log", "engine.log", "rank-0.log", "assignment.pb", "cmdline", "environ"] {
        assert!(shown(place), "{place} was looked at");
    }
    check("while it runs", &secrets, &seen);
    fs::write(work(&server, &job, "go"), "").unwrap();
    controller.observed(&job, Observed::Ended).await;

    let (job, _) = at_work(&mut controller, &server, collective()).await;
    controller.observed(&job, Observed::Ended).await;
    check("after a collective", &secrets, &exposed(&server, &[], &[]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_a_secret_is_in_its_ranks_environment_and_nowhere_else() {
    let mut controller = Controller::start().await;
    let server = Server::with(&controller, &["--ranks-as-root"], "trace");
    controller.registered().await;
    controller.welcome(&[]).await;
    let value = "hunter2-of-the-tenant";
    let script = "test ${#TOKEN} = 21 && test \"$MINE\" = own && touch saw-$RANK; while ! test -e go; do sleep 0.02; done";
    let mut job = assignment(2, shell(script, &[("MINE", "own")]));
    if let DesiredState::Prepared { env, .. } = &mut job.desired {
        let hidden = [("TOKEN", value), ("MINE", "the job's own words win")];
        *env = Arc::new(hidden.map(|(name, value)| (name.to_owned(), ValueText::new(value))).into());
    }
    run(&mut controller, &job).await;
    let saw = |rank: u32| work(&server, &job, &format!("saw-{rank}")).exists();
    eventually("the ranks", || (saw(0) && saw(1)).then_some(()));
    let saved = read_state(&server.job(&job)).unwrap().unwrap();
    // The kernel shows a process's environment to its own user alone.
    let environ = format!("/proc/{}/environ", saved.ranks[&0].pid);
    assert!(holds(&fs::read(environ).unwrap(), value.as_bytes()));
    let mut processes: Vec<i32> = saved.ranks.values().map(|id| id.pid).collect();
    processes.extend(saved.engine.iter().chain(&saved.supervisor).map(|id| id.pid));
    processes.push(server.pid());
    let others: Vec<i32> = saved.engine.iter().chain(&saved.supervisor).map(|id| id.pid).collect();
    let seen = exposed(&server, &processes, &others);
    check("while it runs", &[("value", value.as_bytes().to_vec())], &seen);
    fs::write(work(&server, &job, "go"), "").unwrap();
    controller.observed(&job, Observed::Ended).await;
    check("after it", &[("value", value.as_bytes().to_vec())], &exposed(&server, &[], &[]));
}
