//! The agent with a controller: joining, obeying, dying and coming back, logs.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use node_agent_attempt::{layout::DataDir, state_files::read_state};
use node_agent_core::Key;
use node_agent_os::process::Identity;
use proto_model::{Assignment, DesiredState, NodeEndpoints, NodeName, Observation, Observed};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    controller::Controller,
    support::{AGENT, NODE, assignment, clean, collective, engine, eventually, gone, process_in, shell},
};

const INVENTORY: &str = r#"{"gpus":[{"index":0}],"nics":[{"device":"rail0","netdev":"lo","rail":0,"address":"127.0.0.1"}],"cpus":2}"#;

pub struct Server {
    room: TempDir,
    endpoint: String,
    token: String,
    pin: String,
    more: Vec<String>,
    level: &'static str,
    process: Option<Child>,
}

impl Server {
    fn new(controller: &Controller) -> Self {
        Self::with(controller, &["--ranks-as-root"], "info")
    }

    /// One whose agent gets these arguments too, and logs at this level, like all that it starts.
    pub fn with(controller: &Controller, more: &[&str], level: &'static str) -> Self {
        let room = tempfile::tempdir().unwrap();
        fs::write(room.path().join("inventory.json"), INVENTORY).unwrap();
        // Ranks may run as another user, who must get to the data directory.
        fs::set_permissions(room.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let mut server = Self {
            room,
            endpoint: controller.endpoint(),
            token: controller.token.clone(),
            pin: controller.pin.clone(),
            more: more.iter().map(|one| (*one).to_owned()).collect(),
            level,
            process: None,
        };
        server.start();
        server
    }

    pub fn data(&self) -> PathBuf {
        self.room.path().join("data")
    }

    fn start(&mut self) {
        let mut command = Command::new(AGENT);
        command.args(["run", "--node", NODE, "--controller", &self.endpoint, "--ca-pin", &self.pin]);
        command.arg("--data-dir").arg(self.data()).arg("--engine").arg(engine());
        command.arg("--inventory").arg(self.room.path().join("inventory.json"));
        command
            .args(["--metrics", "127.0.0.1:0"])
            .args(&self.more)
            .env("RAIL_JOIN_TOKEN", &self.token)
            .env("RAIL_LOG", self.level);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        self.process = Some(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
    }

    /// The running agent.
    pub fn pid(&self) -> i32 {
        self.process.as_ref().unwrap().id().cast_signed()
    }

    pub fn log(&self) -> PathBuf {
        self.room.path().join("agent.log")
    }

    fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    pub fn job(&self, job: &Assignment) -> node_agent_attempt::layout::JobDir {
        DataDir::open(&self.data()).unwrap().job(Key::of(job))
    }

    pub fn supervisor(&self, job: &Assignment) -> Identity {
        let dir = self.job(job);
        let saved = eventually("a supervisor", || read_state(&dir).ok().flatten());
        saved.supervisor.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.log()).unwrap_or_default());
        }
        // Supervisors outlive their agent; what a failed test left is ended with them.
        let Ok(data) = DataDir::open(&self.data()) else { return };
        for (_, dir) in data.jobs() {
            clean(&dir);
        }
    }
}

/// The same job, further on: everybody's engines listen.
pub fn running(job: &Assignment, seen: &Observation) -> Assignment {
    let DesiredState::Prepared { spec, placement, key, .. } = job.desired.clone() else {
        panic!("prepared first")
    };
    let peers = vec![NodeEndpoints { node: NodeName::new(NODE).unwrap(), endpoints: seen.endpoints.clone() }];
    Assignment {
        desired: DesiredState::Running { spec, placement, key, peers, certify: None },
        ..job.clone()
    }
}

pub fn stopped(job: &Assignment) -> Assignment {
    let desired =
        DesiredState::Stopped { grace: Duration::from_millis(200), signal: 0, reason: "cancelled".into() };
    Assignment { desired, ..job.clone() }
}

/// A job that runs, as both sides know it.
pub async fn run(controller: &mut Controller, job: &Assignment) -> Assignment {
    controller.desired(job).await;
    let seen = controller.observed(job, Observed::Prepared).await;
    let further = running(job, &seen);
    controller.desired(&further).await;
    controller.observed(job, Observed::Running).await;
    further
}

pub fn work(server: &Server, job: &Assignment, name: &str) -> PathBuf {
    server.job(job).work().join(name)
}

fn metrics(server: &Server) -> String {
    let url = fs::read_to_string(server.data().join("metrics.url")).unwrap();
    let address = url.trim().strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(crate::support::LIMIT)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

const WAIT: &str = "echo $$ > own; echo start >> starts; while ! test -e go; do sleep 0.02; done; exit 7";

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_joins_runs_a_collective_and_forgets_it() {
    let mut controller = Controller::start().await;
    let mut server = Server::new(&controller);
    let register = controller.registered().await;
    assert_eq!((register.node.as_str(), register.epoch), (NODE, 0));
    assert_eq!(register.inventory.unwrap().nics[0].device, "rail0");
    controller.welcome(&[]).await;
    controller
        .on_report("a heartbeat", |body| {
            matches!(body, proto_wire::v1::agent_message::Body::Heartbeat(_)).then_some(())
        })
        .await;
    let job = assignment(2, collective());
    let further = run(&mut controller, &job).await;
    let seen = controller.observed(&job, Observed::Ended).await;
    assert!(seen.exits.len() == 2 && seen.exits.iter().all(|exit| exit.is_success()), "{seen:?}");
    assert!(seen.result.as_ref().is_some_and(|result| result.verified), "{seen:?}");
    let metrics = metrics(&server);
    for line in [
        "rail_agent_connected 1",
        "rail_agent_attempts{state=\"Ended\"} 1",
        "rail_agent_rank_exits_total{outcome=\"ok\"} 2",
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
    controller.forget(&further).await;
    let dir = server.job(&job);
    eventually("the record goes", || (!dir.path().exists()).then_some(()));
    for name in ["node.key", "node.pem", "ca.pem"] {
        assert_eq!(mode(&server.data().join("identity").join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&server.data()), 0o700);
    // Its certificate is enough from now on: the token is spent.
    server.kill();
    server.start();
    assert_eq!(controller.registered().await.epoch, 1);
    assert_eq!(controller.joins(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_survive_the_agent_and_are_taken_up_again_with_their_exit_codes() {
    let mut controller = Controller::start().await;
    let mut server = Server::new(&controller);
    controller.registered().await;
    controller.welcome(&[]).await;
    let job = assignment(1, shell(WAIT, &[]));
    let further = run(&mut controller, &job).await;
    let rank = process_in(&work(&server, &job, "own"));
    server.kill();
    assert!(rank.is_alive());
    server.start();
    let register = controller.registered().await;
    let states: Vec<_> = register.observations.iter().map(|seen| seen.state()).collect();
    assert_eq!(states, [proto_wire::v1::observation::State::Running]);
    controller.welcome(&[&further]).await;
    // It ends while the agent is away.
    server.kill();
    let supervisor = server.supervisor(&job);
    fs::write(work(&server, &job, "go"), "").unwrap();
    gone("the rank", rank);
    gone("the supervisor", supervisor);
    server.start();
    let register = controller.registered().await;
    let starts = fs::read_to_string(work(&server, &job, "starts")).unwrap();
    let seen = Observation::try_from(register.observations[0].clone()).unwrap();
    assert_eq!((seen.state, seen.exits[0].code), (Observed::Ended, 7));
    controller.welcome(&[&further]).await;
    controller.forget(&further).await;
    let dir = server.job(&job);
    eventually("the record goes", || (!dir.path().exists()).then_some(()));
    assert_eq!(starts, "start\n", "nothing ran twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_epoch_is_refused_also_after_a_restart() {
    let mut controller = Controller::start().await;
    let mut server = Server::new(&controller);
    controller.registered().await;
    controller.epoch = 9;
    controller.welcome(&[]).await;
    let job = assignment(1, shell(WAIT, &[]));
    let further = run(&mut controller, &job).await;
    let rank = process_in(&work(&server, &job, "own"));
    for restart in [false, true] {
        if restart {
            server.kill();
            server.start();
            assert_eq!(controller.registered().await.epoch, 9);
        }
        let old = proto_wire::v1::controller_message::Body::Assignment((&stopped(&job)).into());
        controller.say_at(8, old).await;
        let refused = controller
            .on_report("a refusal", |body| match body {
                proto_wire::v1::agent_message::Body::StaleEpoch(stale) => {
                    Some((stale.refused, stale.current))
                }
                _ => None,
            })
            .await;
        assert_eq!(refused, (8, 9));
        assert!(rank.is_alive());
    }
    controller.welcome(&[&further]).await;
    controller.desired(&stopped(&job)).await;
    let seen = controller.observed(&job, Observed::Ended).await;
    assert_eq!(seen.exits[0].signal, 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_that_cannot_be_kept_is_not_obeyed_until_it_is() {
    let mut controller = Controller::start().await;
    let server = Server::new(&controller);
    controller.registered().await;
    // A folder is in the file's place.
    let place = server.data().join("epoch");
    fs::create_dir(&place).unwrap();
    let job = assignment(1, shell("true", &[]));
    for _ in 0..2 {
        controller.welcome(&[&job]).await;
        let register = controller.registered().await;
        assert_eq!((register.epoch, register.observations.len()), (0, 0));
        assert!(!server.job(&job).path().exists());
    }
    fs::remove_dir(&place).unwrap();
    controller.welcome(&[&job]).await;
    controller.observed(&job, Observed::Prepared).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_controller_changes_nothing_and_one_that_does_not_know_a_job_ends_it() {
    let mut controller = Controller::start().await;
    let server = Server::new(&controller);
    controller.registered().await;
    controller.welcome(&[]).await;
    let job = assignment(1, shell(WAIT, &[]));
    let further = run(&mut controller, &job).await;
    let rank = process_in(&work(&server, &job, "own"));
    controller.die().await;
    controller.serve().await;
    controller.registered().await;
    assert!(rank.is_alive());
    controller.welcome(&[&further]).await;
    controller.die().await;
    controller.serve().await;
    controller.registered().await;
    controller.epoch = 2;
    controller.welcome(&[]).await;
    controller.observed(&job, Observed::Ended).await;
    assert!(!rank.is_alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_agent_leaves_its_jobs_running() {
    let mut controller = Controller::start().await;
    let mut server = Server::new(&controller);
    controller.registered().await;
    controller.welcome(&[]).await;
    let job = assignment(1, shell(WAIT, &[]));
    run(&mut controller, &job).await;
    let rank = process_in(&work(&server, &job, "own"));
    let mut process = server.process.take().unwrap();
    Identity::of(process.id().cast_signed()).unwrap().signal(Signal::TERM);
    assert!(process.wait().unwrap().success());
    assert!(rank.is_alive() && server.supervisor(&job).is_alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_supervisor_left_is_ended_before_the_end_is_told() {
    let mut controller = Controller::start().await;
    let mut server = Server::new(&controller);
    controller.registered().await;
    controller.welcome(&[]).await;
    // The grandchild is tied to nobody.
    let script = "setsid sh -c 'echo $$ > far; sleep 600' & echo $$ > own; sleep 600";
    for while_away in [false, true] {
        let job = assignment(1, shell(script, &[]));
        run(&mut controller, &job).await;
        let [own, far] = ["own", "far"].map(|name| process_in(&work(&server, &job, name)));
        let supervisor = server.supervisor(&job);
        if while_away {
            server.kill();
        }
        assert!(supervisor.signal(Signal::KILL));
        if while_away {
            gone("the supervisor", supervisor);
            server.start();
        }
        let seen = controller.observed(&job, Observed::Ended).await;
        assert_eq!(seen.cause.as_ref().map(|cause| cause.code.as_str()), Some("SupervisorLost"));
        assert!(!own.is_alive() && !far.is_alive());
        controller.forget(&job).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_of_the_asked_ranks_with_tail_and_follow() {
    let mut controller = Controller::start().await;
    let server = Server::new(&controller);
    controller.registered().await;
    controller.welcome(&[]).await;
    let script = "echo $$ > own; for i in 1 2 3; do echo \"rank $RANK line $i\"; done; \
                  while ! test -e go; do sleep 0.02; done; echo \"rank $RANK last\"";
    let job = assignment(3, shell(script, &[]));
    run(&mut controller, &job).await;
    let all = "rank 1 line 1\nrank 1 line 2\nrank 1 line 3\n";
    let follower = controller.ask_logs(&job, &[1], true, 0).await;
    controller.logs(&follower, |text, over| text == all && !over).await;
    // Ranks write at their own pace: what is asked for once must be there.
    let other = controller.ask_logs(&job, &[2], true, 0).await;
    controller.logs(&other, |text, over| text == all.replace("rank 1", "rank 2") && !over).await;
    let tail = controller.ask_logs(&job, &[1, 2], false, 1).await;
    let chunks = controller.logs(&tail, |_, over| over).await;
    let texts: Vec<_> =
        chunks.iter().map(|c| (c.rank, String::from_utf8_lossy(&c.data).into_owned())).collect();
    assert_eq!(texts, [(1, "rank 1 line 3\n".to_owned()), (2, "rank 2 line 3\n".to_owned())]);
    fs::write(work(&server, &job, "go"), "").unwrap();
    let chunks = controller.logs(&follower, |_, over| over).await;
    assert!(chunks.iter().all(|chunk| chunk.rank == 1));
    controller.logs(&follower, |text, _| text == format!("{all}rank 1 last\n")).await;
    let unknown = controller.ask_logs(&assignment(1, shell("", &[])), &[], true, 0).await;
    assert!(controller.logs(&unknown, |_, over| over).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_that_does_not_fit_is_replaced_for_a_new_token() {
    let mut controller = Controller::start().await;
    let mut server = Server::new(&controller);
    controller.registered().await;
    server.kill();
    fs::write(server.data().join("identity/node.key"), "no key\n").unwrap();
    controller.renew_token();
    server.start();
    controller.registered().await;
    assert_eq!(controller.joins(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_agent_says_what_to_do_keeps_its_jobs_and_joins_anew() {
    let mut controller = Controller::start().await;
    let mut server = Server::new(&controller);
    controller.registered().await;
    controller.welcome(&[]).await;
    let job = assignment(1, shell(WAIT, &[]));
    let further = run(&mut controller, &job).await;
    let rank = process_in(&work(&server, &job, "own"));
    controller.revoke();
    let identity = server.data().join("identity");
    eventually("the certificate is put aside", || identity.join("node.revoked.pem").exists().then_some(()));
    eventually("it says what to do", || {
        let log = fs::read_to_string(server.log()).unwrap();
        (log.contains("was revoked") && log.contains("railctl node token")).then_some(())
    });
    assert!(rank.is_alive());
    server.kill();
    controller.renew_token();
    server.start();
    controller.registered().await;
    assert_eq!(controller.joins(), 2);
    controller.welcome(&[&further]).await;
    fs::write(work(&server, &job, "go"), "").unwrap();
    controller.observed(&job, Observed::Ended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_when_half_of_its_life_is_over() {
    let mut controller = Controller::with_due_certificates(2).await;
    let _server = Server::new(&controller);
    controller.registered().await;
    let deadline = std::time::Instant::now() + crate::support::LIMIT;
    while controller.renewals() < 2 {
        assert!(std::time::Instant::now() < deadline, "no renewal");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let room = tempfile::tempdir().unwrap();
    let data = room.path().join("data");
    let run = |more: &[&str]| {
        let mut command = Command::new(AGENT);
        command.args(["run", "--node", NODE, "--controller", "unix:/no/such.sock", "--data-dir"]).arg(&data);
        command.arg("--ranks-as-root");
        let output = command.args(more).env_remove("RAIL_JOIN_TOKEN").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let engine = engine().display().to_string();
    let bad = room.path().join("bad.json");
    fs::write(&bad, "{\n\"nic\": []}").unwrap();
    let bad = bad.display().to_string();
    let token = room.path().join("token");
    fs::write(&token, "x\n").unwrap();
    let token = token.display().to_string();
    for (more, code, words) in [
        (vec!["--engine", "/no/engine"], 2, vec!["/no/engine", "--engine"]),
        (vec!["--engine", &engine, "--inventory", &bad], 2, vec!["bad.json", "line 2", "nics"]),
        (vec!["--engine", &engine], 1, vec!["--join-token", "--ca-pin", "railctl"]),
        (vec!["--engine", &engine, "--join-token", "x"], 1, vec!["--ca-pin"]),
        (vec!["--engine", &engine, "--join-token-file", &token], 1, vec!["--ca-pin"]),
        (vec!["--engine", &engine, "--join-token-file", "/no/token"], 1, vec!["--join-token", "railctl"]),
        (vec!["--join-token", "x", "--join-token-file", &token], 2, vec!["cannot be used with"]),
        (vec!["--rails", "map:x"], 2, vec!["DEVICE=RAIL"]),
        (vec!["--metrics", "nowhere"], 2, vec!["metrics"]),
    ] {
        let (status, text) = run(&more);
        assert_eq!(status, Some(code), "{more:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{more:?}: {text}");
    }
}

/// What changes of the hardware is told as it happens, with what it was; what cannot be read changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_hardware_are_told() {
    let mut controller = Controller::start().await;
    let server = Server::new(&controller);
    let register = controller.registered().await;
    assert_eq!(register.inventory.unwrap().changes, []);
    controller.welcome(&[]).await;
    let file = server.room.path().join("inventory.json");
    let put = |text: &str| {
        let fresh = file.with_extension("new");
        fs::write(&fresh, text).unwrap();
        fs::rename(&fresh, &file).unwrap();
    };
    put("{ half of it");
    put(&INVENTORY
        .replace("\"cpus\":2", "\"cpus\":2,\"memoryBytes\":5")
        .replace("\"rail\":0", "\"rail\":0,\"up\":false"));
    let reported = controller
        .on_report("changes", |body| match body {
            proto_wire::v1::agent_message::Body::Inventory(inventory) => Some(inventory.changes.clone()),
            _ => None,
        })
        .await;
    let reported: Vec<_> =
        reported.iter().map(|one| (one.code.as_str(), one.scope.as_str(), one.since.is_some())).collect();
    assert_eq!(reported, [("NicDown", "nic/rail0", true), ("Machine", "machine", true)]);
    let counted = "rail_inventory_changes_total{change=\"NicDown\"} 1";
    eventually("the series", || metrics(&server).contains(counted).then_some(()));
}

/// A link that goes down drains its rail, is told to the controller, and also by an agent that is started anew.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_rail_is_told_and_outlives_the_agent() {
    let recorded = tempfile::tempdir().unwrap();
    let at = |path: &str| recorded.path().join(path);
    fs::create_dir_all(at("sys/class/net/lo/statistics")).unwrap();
    fs::write(at("sys/class/net/lo/address"), "02:00:00:00:00:01\n").unwrap();
    fs::write(at("sys/class/net/lo/statistics/tx_bytes"), "5\n").unwrap();
    fs::write(at("sys/class/net/lo/carrier"), "1\n").unwrap();
    let mut controller = Controller::start().await;
    let root = recorded.path().to_str().unwrap().to_owned();
    let mut server = Server::with(&controller, &["--ranks-as-root", "--counters", &root], "info");
    let register = controller.registered().await;
    assert_eq!(register.inventory.unwrap().health, []);
    controller.welcome(&[]).await;
    fs::write(at("sys/class/net/lo/carrier"), "0\n").unwrap();
    let reported = controller
        .on_report("what is wrong", |body| match body {
            proto_wire::v1::agent_message::Body::Inventory(inventory) => Some(inventory.health.clone()),
            _ => None,
        })
        .await;
    assert_eq!((reported.len(), reported[0].device.as_str(), reported[0].score), (1, "rail0", 0));
    assert_eq!(reported[0].conditions[0].code, "LinkDown");
    assert!(!reported[0].conditions[0].message.is_empty());
    let unfit = "rail_nic_unfit{device=\"rail0\",rail=\"0\"} 1";
    eventually("the series", || metrics(&server).contains(unfit).then_some(()));
    server.kill();
    server.start();
    let register = controller.registered().await;
    assert_eq!(register.inventory.unwrap().health, reported);
}
