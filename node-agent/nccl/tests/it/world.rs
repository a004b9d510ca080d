//! A job for ranks that load the plugin: engines, one for each node, whose rails can be cut, and ranks as processes of their own.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use node_agent_engine::control::{self, Endpoint, Peer, Reply, Request};
use node_agent_engine::{
    Config, Engine, EngineError, JobKey, Limits, Protection, RailConfig, Stopper, Transport, Verbs,
};

use crate::hub::Hub;
use crate::wire::Wire;

/// Far longer than anything here takes: only a hang gets there.
pub const LONG: Duration = Duration::from_secs(240);

type Running = JoinHandle<Result<(), EngineError>>;

/// A job whose engines are connected, and where its ranks exchange handles.
pub struct World {
    pub room: tempfile::TempDir,
    engines: Vec<(Stopper, Option<Running>)>,
    wires: Vec<(u16, Wire)>,
    hub: Hub,
    pub ranks: Vec<usize>,
}

fn address(rail: u16, node: usize) -> IpAddr {
    IpAddr::from([127, 0, u8::try_from(rail + 1).unwrap(), u8::try_from(node + 1).unwrap()])
}

fn config(room: &Path, node: usize, ranks: &[usize], rails: u16) -> Config {
    let nodes = ranks.iter().max().unwrap() + 1;
    let device = |rail: u16| RailConfig {
        rail,
        device: format!("rail{rail}"),
        address: address(rail, node),
        netdev: None,
    };
    Config {
        job: "acme/nccl".into(),
        uid: "uid-1".into(),
        attempt: 1,
        epoch: 7,
        node,
        nodes: (0..nodes).map(|node| format!("n{node}")).collect(),
        ranks: ranks.to_vec(),
        rails: (0..rails).map(device).collect(),
        socket: room.join(format!("engine{node}.sock")),
        control: room.join(format!("engine{node}.control")),
        connect_timeout_ms: 20_000,
        op_timeout_ms: 30_000,
        checksum: false,
        reproducible: true,
        algorithm: None,
        chunk_bytes: 16 << 10,
        bound: false,
        protection: Protection::None,
        transport: Transport::Tcp,
        verbs: Verbs::default(),
        rank_uid: None,
        ranks_return: false,
        limits: Limits::default(),
        gpus: Vec::new(),
    }
}

impl World {
    /// `ranks[r]` is the node of rank r.
    pub fn new(ranks: &[usize], rails: u16) -> Self {
        let room = tempfile::tempdir().unwrap();
        let nodes = ranks.iter().max().unwrap() + 1;
        let engines = (0..nodes).map(|node| {
            let engine = Engine::bind(config(room.path(), node, ranks, rails), JobKey::new([7; 32])).unwrap();
            (engine.stopper(), Some(std::thread::spawn(move || engine.run())))
        });
        let engines = engines.collect();
        let wires = connect(room.path(), nodes);
        let hub = Hub::open(&room.path().join("hub"));
        Self { room, engines, wires, hub, ranks: ranks.to_vec() }
    }

    /// Cuts a rail between all nodes, for good: what is on it is lost, and nobody connects over it any more.
    pub fn cut(&self, rail: u16) {
        self.wires.iter().filter(|(of, _)| *of == rail).for_each(|(_, wire)| wire.cut());
    }

    /// Stops a node's engine, as where its ranks are gone.
    pub fn stop(&self, node: usize) {
        self.engines[node].0.stop("its ranks are gone");
    }

    /// Bytes that went over each rail.
    pub fn carried(&self, rail: u16) -> u64 {
        self.wires.iter().filter(|(of, _)| *of == rail).map(|(_, wire)| wire.carried()).sum()
    }

    /// Ranks that are attached to a node's engine.
    pub fn attached(&self, node: usize) -> Vec<u32> {
        match control::ask(&self.room.path().join(format!("engine{node}.control")), &Request::Status {}, LONG)
            .unwrap()
        {
            Reply::Status(status) => status.attached,
            other => panic!("not a status: {other:?}"),
        }
    }

    /// What ranks say to each other and to the test.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    fn rank(&self, rank: usize, role: &str, settings: &[(&str, String)]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["roles::as_rank", "--exact", "--ignored", "--nocapture", "--test-threads", "1"]);
        let node = self.ranks[rank];
        command.env("RAIL_ENGINE_SOCKET", self.room.path().join(format!("engine{node}.sock")));
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", self.ranks.len().to_string());
        command.env("RAIL_JOB_UID", "uid-1").env("RAIL_TEST_ROLE", role);
        command.env("RAIL_TEST_HUB", self.room.path().join("hub")).env("RAIL_TEST_PLUGIN", library());
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs all ranks to their ends, with `body` beside them.
    pub fn run_with(&self, role: &str, settings: &[(&str, String)], body: impl FnOnce()) -> Vec<Output> {
        let ranks = 0..self.ranks.len();
        let children: Vec<Child> =
            ranks.map(|rank| self.rank(rank, role, settings).spawn().unwrap()).collect();
        let deadline = Instant::now() + LONG;
        std::thread::scope(|scope| {
            let ends: Vec<_> =
                children.into_iter().map(|child| scope.spawn(move || self.end_of(child, deadline))).collect();
            body();
            ends.into_iter().map(|end| end.join().unwrap()).collect()
        })
    }

    /// A rank's end; a bad one is the end of all that others wait for.
    fn end_of(&self, child: Child, deadline: Instant) -> Output {
        let output = end(child, deadline);
        if !output.status.success() {
            self.hub.end();
        }
        output
    }

    /// Runs all ranks to their ends, which must be good ones.
    pub fn run(&self, role: &str, settings: &[(&str, String)]) -> Vec<Output> {
        let outputs = self.run_with(role, settings, || {});
        expect_good(&outputs);
        outputs
    }
}

pub fn expect_good(outputs: &[Output]) {
    let good = |output: &Output| output.status.success() && said(output).contains("1 passed");
    let bad = outputs.iter().enumerate().filter(|(_, output)| !good(output));
    let bad: Vec<String> = bad.map(|(rank, output)| format!("rank {rank}: {}", said(output))).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
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

/// Wires the engines up, all at once as agents do; between any two of them is a wire that can be cut.
fn connect(room: &Path, nodes: usize) -> Vec<(u16, Wire)> {
    let control = |node: usize| room.join(format!("engine{node}.control"));
    let endpoints: Vec<Vec<Endpoint>> = (0..nodes)
        .map(|node| match control::ask(&control(node), &Request::Status {}, LONG).unwrap() {
            Reply::Status(status) => status.endpoints,
            other => panic!("not a status: {other:?}"),
        })
        .collect();
    let wires = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for node in 0..nodes {
            let wired = |peer: usize, to: &Endpoint| {
                let wire = Wire::new(address(to.rail, node), to.address);
                let endpoint = Endpoint { rail: to.rail, address: wire.address() };
                wires.lock().unwrap().push((to.rail, wire));
                assert_ne!(peer, node);
                endpoint
            };
            let others = endpoints.iter().enumerate().filter(|(peer, _)| *peer != node);
            let peers = others.map(|(peer, endpoints)| Peer {
                node: peer,
                endpoints: endpoints.iter().map(|to| wired(peer, to)).collect(),
            });
            let (request, control) = (Request::Connect { peers: peers.collect() }, control(node));
            scope.spawn(move || assert_eq!(control::ask(&control, &request, LONG).unwrap(), Reply::OK));
        }
    });
    wires.into_inner().unwrap()
}

/// The library that cargo built for this test.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let places = program.ancestors().skip(1).take(2).map(|folder| folder.join("librail_nccl_net.so"));
    let newest = places
        .filter(|place| place.exists())
        .max_by_key(|place| place.metadata().unwrap().modified().unwrap());
    newest.expect("cargo builds librail_nccl_net.so beside this test")
}

/// All that a process printed.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Something that is so from some time on.
#[derive(Debug, Clone, Default)]
pub struct Flag(Arc<AtomicBool>);

impl Flag {
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A socket address of a port that the kernel chooses.
pub fn any_port(ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, 0)
}
