//! The real program: benchmark ranks, kill -9, standard input, other users.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use node_agent_client::{Attach, Client, Error, FailureCode};
use node_agent_engine::Config;
use node_agent_engine::bench::Report;
use node_agent_engine::control::{Reply, Request};

use crate::world::{KEY, LONG, config, connect};

const ENGINE: &str = env!("CARGO_BIN_EXE_rail-engine");

/// An engine process, killed on drop.
struct Process {
    child: Child,
    config: Config,
}

impl Process {
    fn start(config: Config, room: &Path) -> Self {
        let file = room.join(format!("engine{}.json", config.node));
        std::fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
        let mut child = Command::new(ENGINE)
            .args(["run", "--config"])
            .arg(&file)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{KEY}").unwrap();
        let process = Self { child, config };
        process.wait_until_up();
        process
    }

    fn wait_until_up(&self) {
        let start = Instant::now();
        while node_agent_engine::control::ask(&self.config.control, &Request::Status {}, LONG).is_err() {
            assert!(start.elapsed() < LONG, "the engine does not come up");
            std::thread::yield_now();
        }
    }

    /// Waits for its end: exit code and what it said.
    fn end(&mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let mut text = String::new();
                self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
                return (status.code(), text);
            }
            assert!(start.elapsed() < LONG, "the engine does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn job(room: &Path, ranks: &[usize], rails: u16) -> Vec<Process> {
    let nodes = ranks.iter().max().unwrap() + 1;
    let engines: Vec<Process> =
        (0..nodes).map(|node| Process::start(config(room, node, ranks, rails), room)).collect();
    let controls: Vec<PathBuf> = engines.iter().map(|engine| engine.config.control.clone()).collect();
    assert!(connect(&controls).iter().all(|reply| *reply == Reply::OK));
    engines
}

fn bench_rank(config: &Config, rank: usize, arguments: &[&str]) -> Command {
    let mut command = Command::new(ENGINE);
    command.arg("bench-rank").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("RAIL_ENGINE_SOCKET", &config.socket).env("RANK", rank.to_string());
    command.env("WORLD_SIZE", config.ranks.len().to_string()).env("RAIL_JOB_UID", &config.uid);
    command
}

fn attach(config: &Config, rank: u32) -> Client {
    let socket = config.socket.clone();
    Client::attach(&Attach { socket, rank, size: None, job_uid: String::new(), timeout: LONG }).unwrap()
}

#[test]
fn benchmark_ranks_measure_verify_and_report() {
    let room = tempfile::tempdir().unwrap();
    let ranks = [0, 0, 1, 1];
    let mut engines = job(room.path(), &ranks, 2);
    let result = room.path().join("result.json");
    let arguments = [
        "--op",
        "all-reduce",
        "--bytes",
        "1000000",
        "--dtype",
        "bf16",
        "--iterations",
        "3",
        "--warmup",
        "1",
        "--verify",
    ];
    let children: Vec<Child> = ranks
        .iter()
        .enumerate()
        .map(|(rank, node)| {
            bench_rank(&engines[*node].config, rank, &arguments)
                .env("RAIL_RESULT_FILE", &result)
                .spawn()
                .unwrap()
        })
        .collect();
    let outputs: Vec<Output> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    for output in &outputs {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let table = String::from_utf8_lossy(&outputs[0].stdout);
    assert!(table.contains("verified: every element is right"), "{table}");
    let report: Report = serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap();
    assert!(report.verified && report.mismatches == 0 && report.ranks == 4 && report.bytes == 1_000_000);
    assert!(report.time_us.min > 0.0 && report.time_us.min <= report.time_us.median);
    assert_eq!(report.rails.len(), 2);
    let ring: Vec<Child> = (0..4)
        .map(|rank| {
            let arguments = ["--op", "send-recv", "--bytes", "5000", "--verify"];
            bench_rank(&engines[ranks[rank]].config, rank, &arguments).spawn().unwrap()
        })
        .collect();
    for child in ring {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("send-recv"), "{said}");
    }
    for engine in &mut engines {
        assert_first_is_the_benchmark_s(&engine.config);
        let stop = Request::Stop { reason: String::new() };
        let reply = node_agent_engine::control::ask(&engine.config.control, &stop, LONG).unwrap();
        assert_eq!(reply, Reply::OK);
        assert_eq!(engine.end().0, Some(0));
    }
}

#[test]
fn an_engine_killed_hard_is_noticed_everywhere_in_time() {
    let room = tempfile::tempdir().unwrap();
    let mut engines = job(room.path(), &[0, 1, 2], 2);
    let clients: Vec<Client> =
        engines.iter().zip(0..).map(|(engine, rank)| attach(&engine.config, rank)).collect();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = clients[..2].iter().map(|client| scope.spawn(|| client.barrier())).collect();
        engines[2].child.kill().unwrap();
        for waiting in waiting {
            let error = waiting.join().unwrap().unwrap_err();
            let text = error.to_string();
            assert!(matches!(error.code(), FailureCode::PeerLost | FailureCode::RailLost), "{text}");
            assert!(text.contains("node 2") || text.contains("it names node 2"), "{text}");
        }
        // Its own rank hears it from the socket.
        assert!(matches!(clients[2].barrier(), Err(Error::EngineLost)));
    });
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    for engine in &mut engines[..2] {
        let (code, text) = engine.end();
        assert_eq!(code, Some(i32::from(node_agent_ipc::PEER_LOST_STATUS)), "{text}");
        assert!(text.contains("node 2"), "{text}");
    }
}

#[test]
fn a_rank_killed_hard_ends_the_others_with_its_name() {
    let room = tempfile::tempdir().unwrap();
    let ranks = [0, 0, 1];
    let engines = job(room.path(), &ranks, 1);
    let arguments = ["--bytes", "100000", "--iterations", "100000"];
    let spawn = |rank: usize| bench_rank(&engines[ranks[rank]].config, rank, &arguments).spawn().unwrap();
    let mut children: Vec<Child> = (0..3).map(spawn).collect();
    // All are attached and at work once operations complete.
    let operations =
        || match node_agent_engine::control::ask(&engines[1].config.control, &Request::Stats {}, LONG) {
            Ok(Reply::Stats(stats)) => stats.ops,
            other => panic!("no stats: {other:?}"),
        };
    while operations() < 10 {
        std::thread::yield_now();
    }
    let mut killed = children.remove(1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let start = Instant::now();
    for (child, word) in children.into_iter().zip(["rank 1", "node 0"]) {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("rank lost") && said.contains(word), "{said}");
    }
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
}

/// Ranks of one server reduce in shared memory by themselves: whatever a rank was in the middle of when it was killed, the
/// others hear its name, the engine lives on, and what it kept for them is given back.
#[test]
fn a_rank_killed_in_the_middle_of_a_tile_is_named_to_the_others() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..8 {
        let room = tempfile::tempdir().unwrap();
        let mut engines = job(room.path(), &[0, 0, 0], 0);
        let open_files =
            |engine: &Process| std::fs::read_dir(format!("/proc/{}/fd", engine.child.id())).unwrap().count();
        let before = open_files(&engines[0]);
        let arguments = ["--bytes", "6000000", "--iterations", "100000"];
        let mut children: Vec<Child> =
            (0..3).map(|rank| bench_rank(&engines[0].config, rank, &arguments).spawn().unwrap()).collect();
        let attached =
            || match node_agent_engine::control::ask(&engines[0].config.control, &Request::Status {}, LONG) {
                Ok(Reply::Status(status)) => status.attached.len(),
                other => panic!("no status: {other:?}"),
            };
        while attached() < 3 {
            std::thread::yield_now();
        }
        // Any moment of the first fifty milliseconds, most of which go into tiles.
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let moment = Duration::from_micros((seed >> 33) % 50_000);
        let start = Instant::now();
        while start.elapsed() < moment {
            std::hint::spin_loop();
        }
        let mut killed = children.remove(round % 3);
        killed.kill().unwrap();
        killed.wait().unwrap();
        let start = Instant::now();
        let word = format!("rank {}", round % 3);
        for child in children {
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "round {round}, {moment:?}: {said}");
            assert!(said.contains("rank lost") && said.contains(&word), "round {round}, {moment:?}: {said}");
        }
        assert!(start.elapsed() < LONG, "round {round}: {:?}", start.elapsed());
        // The board that the ranks share stays for the job's life.
        let start = Instant::now();
        while open_files(&engines[0]) > before + 1 {
            assert!(start.elapsed() < LONG, "round {round}: the engine keeps files of ranks that are gone");
            std::thread::yield_now();
        }
        assert!(engines[0].child.try_wait().unwrap().is_none(), "round {round}: the engine lives on");
    }
}

/// Neither its barriers, before and between, nor what ran later.
fn assert_first_is_the_benchmark_s(config: &Config) {
    let reply = node_agent_engine::control::ask(&config.control, &Request::Stats {}, LONG).unwrap();
    let Reply::Stats(stats) = reply else { panic!("{reply:?}") };
    let first = stats.first_collective.unwrap();
    assert_eq!(first.operation, "all-reduce");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    let ended = u128::from(first.ended_unix_ns);
    assert!(first.started_unix_ns < first.ended_unix_ns && ended <= now && now - ended < LONG.as_nanos());
}

/// The same user as the engine's is not enough: the job key is in there.
#[test]
fn an_engine_hides_its_memory() {
    let room = tempfile::tempdir().unwrap();
    let root = rustix::process::geteuid().is_root();
    let config = config(room.path(), 0, &[0], 0);
    let file = room.path().join("engine.json");
    std::fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    // Root may read everything, so the question is asked between two processes of another user.
    let program = if root { for_everybody(room.path()).unwrap() } else { ENGINE.into() };
    let become_user = |command: &mut Command| {
        if root {
            command.uid(NOBODY);
        }
    };
    let mut command = Command::new(&program);
    command.args(["run", "--config"]).arg(&file).stdin(Stdio::piped()).stderr(Stdio::piped());
    become_user(&mut command);
    open_to_all(&file);
    let mut child = eventually_spawned(&mut command);
    writeln!(child.stdin.as_mut().unwrap(), "{KEY}").unwrap();
    let process = Process { child, config };
    process.wait_until_up();
    for name in ["mem", "environ", "maps"] {
        let mut check = Command::new("head");
        check.args(["-c", "1"]).arg(format!("/proc/{}/{name}", process.child.id()));
        become_user(&mut check);
        let output = check.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("ermission denied"), "{name}: {said}");
    }
}

#[test]
fn an_engine_ends_with_its_standard_input() {
    let room = tempfile::tempdir().unwrap();
    let mut engine = Process::start(config(room.path(), 0, &[0, 0], 0), room.path());
    let client = attach(&engine.config, 0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.barrier());
        drop(engine.child.stdin.take());
        let error = waiting.join().unwrap().unwrap_err();
        assert!(matches!(error.code(), FailureCode::Stopped | FailureCode::EngineLost), "{error}");
    });
    assert_eq!(engine.end().0, Some(0));
    assert!(!engine.config.socket.exists() && !engine.config.control.exists());
}

fn run_with(arguments: &[&str], input: &[u8]) -> (Option<i32>, String) {
    let mut command = Command::new(ENGINE);
    let mut child = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that has ended already takes no input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn wrong_command_lines_and_configurations_end_with_2() {
    let room = tempfile::tempdir().unwrap();
    let file = room.path().join("c.json");
    let path = file.to_str().unwrap();
    let good = serde_json::to_string(&config(room.path(), 0, &[0], 0)).unwrap();
    let run = |text: &str, input: &str| {
        std::fs::write(&file, text).unwrap();
        run_with(&["run", "--config", path], input.as_bytes())
    };
    for (text, input, word) in [
        ("{}", KEY, "c.json"),
        ("not json", KEY, "line 1"),
        (&good.replace("\"node\":0", "\"node\":4"), KEY, "node: 4"),
        (&good, "", "before a job key came"),
        (&good, "0123", "64 hexadecimal digits"),
        (&good, &"z".repeat(64), "64 hexadecimal digits"),
    ] {
        let (code, said) = run(text, input);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(word), "{word} in {said}");
    }
    assert_eq!(run_with(&["run"], b"").0, Some(2));
    assert_eq!(run_with(&["bench-rank", "--op", "dance"], b"").0, Some(2));
    let (code, said) = run_with(&["bench-rank"], b"");
    assert_eq!(code, Some(2));
    assert!(said.contains("RAIL_ENGINE_SOCKET"), "{said}");
}

#[test]
fn an_address_that_is_not_here_is_named() {
    let room = tempfile::tempdir().unwrap();
    let mut wrong = config(room.path(), 0, &[0, 1], 1);
    // TEST-NET-1 is on no machine.
    wrong.rails[0].address = "192.0.2.1".parse().unwrap();
    let file = room.path().join("c.json");
    std::fs::write(&file, serde_json::to_vec(&wrong).unwrap()).unwrap();
    let (code, said) = run_with(&["run", "--config", file.to_str().unwrap()], KEY.as_bytes());
    assert_eq!(code, Some(1));
    assert!(said.contains("192.0.2.1"), "{said}");
}

/// A user that is neither the engine's nor root.
const NOBODY: u32 = 65_534;

/// The program as another user may start it, in a folder that this user may enter; `None` unless this is root.
fn for_everybody(room: &Path) -> Option<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return None;
    }
    let program = room.join("rail-engine");
    std::fs::copy(ENGINE, &program).unwrap();
    open_to_all(room);
    open_to_all(&program);
    Some(program)
}

fn open_to_all(path: &Path) {
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(path, all).unwrap();
}

/// Another test's child may still hold a copy of the program open for writing, between its fork and its exec.
fn eventually_spawned(command: &mut Command) -> Child {
    loop {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            child => return child.unwrap(),
        }
    }
}

fn bench_as_nobody(program: &Path, config: &Config) -> (Option<i32>, String) {
    let mut command = Command::new(program);
    command.arg("bench-rank").uid(NOBODY).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("RAIL_ENGINE_SOCKET", &config.socket).env("RANK", "0");
    let output = eventually_spawned(&mut command).wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_rank_of_another_user_is_denied() {
    let room = tempfile::tempdir().unwrap();
    let Some(program) = for_everybody(room.path()) else { return };
    let engine = Process::start(config(room.path(), 0, &[0], 0), room.path());
    // First the file's mode stands in the way, then, with the file opened wide, the engine.
    let (code, said) = bench_as_nobody(&program, &engine.config);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("ermission denied"), "{said}");
    open_to_all(&engine.config.socket);
    let (code, said) = bench_as_nobody(&program, &engine.config);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("user 65534 may not attach"), "{said}");
}

#[test]
fn ranks_of_the_named_user_are_served() {
    let room = tempfile::tempdir().unwrap();
    let Some(program) = for_everybody(room.path()) else { return };
    let named = Config { rank_uid: Some(NOBODY), ..config(room.path(), 0, &[0], 0) };
    let engine = Process::start(named, room.path());
    let (code, said) = bench_as_nobody(&program, &engine.config);
    assert_eq!(code, Some(0), "{said}");
}
