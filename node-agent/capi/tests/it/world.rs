//! A job for foreign programs: engines on threads, one for each node, and ranks as processes.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use node_agent_engine::control::{self, Endpoint, Peer, Reply, Request};
use node_agent_engine::{Config, Engine, EngineError, JobKey, Stopper};

/// Far longer than anything here takes: only a hang gets there.
const LONG: Duration = Duration::from_secs(300);

/// The thread of an engine.
type Running = JoinHandle<Result<(), EngineError>>;

/// A job whose engines are connected.
pub struct World {
    pub room: tempfile::TempDir,
    engines: Vec<(Stopper, Option<Running>)>,
    pub ranks: Vec<usize>,
    port: u16,
}

impl World {
    /// `ranks[r]` is the node of rank r; every node has so many rails, each with a loopback address of its own.
    pub fn new(ranks: &[usize], rails: u16) -> Self {
        Self::with(ranks, rails, |_| {})
    }

    pub fn with(ranks: &[usize], rails: u16, change: impl Fn(&mut Config)) -> Self {
        let room = tempfile::tempdir().unwrap();
        let nodes = ranks.iter().max().unwrap() + 1;
        let engines = (0..nodes).map(|node| {
            let mut config = config(room.path(), node, ranks, rails);
            change(&mut config);
            let engine = Engine::bind(config, JobKey::new([7; 32])).unwrap();
            (engine.stopper(), Some(std::thread::spawn(move || engine.run())))
        });
        let engines = engines.collect();
        connect(room.path(), nodes);
        // Nobody else listens there in the moment until rank 0 does.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        Self { room, engines, ranks: ranks.to_vec(), port }
    }

    /// The command that runs `program` as a rank, with the environment that a job's ranks have.
    pub fn rank(&self, rank: usize, program: &Path) -> Command {
        let node = self.ranks[rank];
        let mut command = Command::new(program);
        command.env("RAIL_ENGINE_SOCKET", self.room.path().join(format!("engine{node}.sock")));
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", self.ranks.len().to_string());
        let local = self.ranks[..rank].iter().filter(|other| **other == node).count();
        command.env("LOCAL_RANK", local.to_string()).env("RAIL_JOB_UID", "uid-1");
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", self.port.to_string());
        command.env("LD_LIBRARY_PATH", library().parent().unwrap()).env("RAIL_LIBRARY", library());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(self.room.path());
        command
    }

    /// Runs all ranks to their ends.
    pub fn all(&self, command: impl Fn(usize) -> Command) -> Vec<Output> {
        let children: Vec<Child> = (0..self.ranks.len()).map(|rank| command(rank).spawn().unwrap()).collect();
        let deadline = Instant::now() + LONG;
        std::thread::scope(|scope| {
            let ends = children.into_iter().map(|child| scope.spawn(move || end(child, deadline)));
            let ends: Vec<_> = ends.collect();
            ends.into_iter().map(|end| end.join().unwrap()).collect()
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for (stopper, thread) in &mut self.engines {
            stopper.stop("the test is over");
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// What a process said until its end, which comes at the deadline at the latest.
fn end(child: Child, deadline: Instant) -> Output {
    let pid = rustix::process::Pid::from_child(&child);
    let (over, ended) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let left = deadline.saturating_duration_since(Instant::now());
        if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(left) {
            // It has not been waited for, so the number is still its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(over);
    watch.join().unwrap();
    output
}

/// As an agent writes it: what it leaves out has its usual value.
fn config(room: &Path, node: usize, ranks: &[usize], rails: u16) -> Config {
    let nodes = ranks.iter().max().unwrap() + 1;
    let rails = (0..rails).map(|rail| {
        serde_json::json!({
            "rail": rail,
            "device": format!("rail{rail}"),
            "address": format!("127.0.{}.{}", rail + 1, node + 1),
        })
    });
    let config = serde_json::json!({
        "job": "acme/door",
        "uid": "uid-1",
        "attempt": 1,
        "epoch": 1,
        "node": node,
        "nodes": (0..nodes).map(|node| format!("n{node}")).collect::<Vec<_>>(),
        "ranks": ranks,
        "rails": rails.collect::<Vec<_>>(),
        "socket": room.join(format!("engine{node}.sock")),
        "control": room.join(format!("engine{node}.control")),
    });
    serde_json::from_value(config).unwrap()
}

/// Wires the engines up, all at once as agents do.
fn connect(room: &Path, nodes: usize) {
    let control = |node: usize| room.join(format!("engine{node}.control"));
    let endpoints: Vec<Vec<Endpoint>> = (0..nodes)
        .map(|node| match control::ask(&control(node), &Request::Status {}, LONG).unwrap() {
            Reply::Status(status) => status.endpoints,
            other => panic!("not a status: {other:?}"),
        })
        .collect();
    std::thread::scope(|scope| {
        for node in 0..nodes {
            let others = endpoints.iter().enumerate().filter(|(peer, _)| *peer != node);
            let peers = others.map(|(node, endpoints)| Peer { node, endpoints: endpoints.clone() });
            let (request, control) = (Request::Connect { peers: peers.collect() }, control(node));
            scope.spawn(move || assert_eq!(control::ask(&control, &request, LONG).unwrap(), Reply::OK));
        }
    });
}

/// The library that cargo built for this test.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let places = program.ancestors().skip(1).take(2).map(|folder| folder.join("librail.so"));
    let newest = places
        .filter(|place| place.exists())
        .max_by_key(|place| place.metadata().unwrap().modified().unwrap());
    newest.expect("cargo builds librail.so beside this test")
}

pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// All that a process printed.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
