//! A job in this process: engines of several nodes over loopback addresses, ranks as threads.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use node_agent_client::{Attach, Client};
use node_agent_engine::control::{self, Endpoint, Peer, Reply, Request, Status};
use node_agent_engine::{
    Config, Engine, EngineError, JobKey, Limits, Protection, RailConfig, Stopper, Verbs,
};
use tempfile::TempDir;

/// Far longer than anything here takes: only a hang gets there.
pub const LONG: Duration = Duration::from_secs(60);

/// The key of test jobs, as the engine reads it.
pub const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub fn key() -> JobKey {
    JobKey::from_hex(KEY).unwrap()
}

/// What node `node` of a job with this rank map is told. Every rail has a loopback address of its own.
pub fn config(room: &Path, node: usize, ranks: &[usize], rails: u16) -> Config {
    let nodes = ranks.iter().max().unwrap() + 1;
    let rails = (0..rails).map(|rail| RailConfig {
        rail,
        device: format!("rail{rail}"),
        address: IpAddr::from([127, 0, u8::try_from(rail + 1).unwrap(), u8::try_from(node + 1).unwrap()]),
        netdev: None,
    });
    Config {
        job: "acme/test".into(),
        uid: "uid-1".into(),
        attempt: 1,
        epoch: 7,
        node,
        nodes: (0..nodes).map(|node| format!("n{node}")).collect(),
        ranks: ranks.to_vec(),
        rails: rails.collect(),
        socket: room.join(format!("engine{node}.sock")),
        control: room.join(format!("engine{node}.control")),
        connect_timeout_ms: 20_000,
        op_timeout_ms: 120_000,
        checksum: false,
        reproducible: true,
        algorithm: None,
        chunk_bytes: 4096,
        bound: false,
        protection: Protection::None,
        transport: crate::over_verbs::transport(),
        verbs: Verbs::default(),
        rank_uid: None,
        ranks_return: false,
        limits: Limits::default(),
        gpus: Vec::new(),
    }
}

/// An engine on a thread.
pub struct Running {
    pub config: Config,
    pub stopper: Stopper,
    thread: Option<JoinHandle<Result<(), EngineError>>>,
}

impl Running {
    pub fn start(config: Config, key: JobKey) -> Self {
        let engine = Engine::bind(config.clone(), key).unwrap();
        let stopper = engine.stopper();
        Self { config, stopper, thread: Some(std::thread::spawn(move || engine.run())) }
    }

    pub fn ask(&self, request: &Request) -> Reply {
        control::ask(&self.config.control, request, LONG).unwrap()
    }

    pub fn status(&self) -> Status {
        status(&self.config.control)
    }

    /// Waits for the engine's end.
    pub fn join(mut self) -> Result<(), EngineError> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop("the test is over");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn status(control: &Path) -> Status {
    match control::ask(control, &Request::Status {}, LONG).unwrap() {
        Reply::Status(status) => status,
        other => panic!("not a status: {other:?}"),
    }
}

/// What node `node` is told of its peers.
pub fn peers_of(node: usize, endpoints: &[Vec<Endpoint>]) -> Request {
    let others = endpoints.iter().enumerate().filter(|(peer, _)| *peer != node);
    Request::Connect {
        peers: others.map(|(node, endpoints)| Peer { node, endpoints: endpoints.clone() }).collect(),
    }
}

/// The peers of node `node`, where they listen.
pub fn peers(node: usize, engines: &[Running]) -> Vec<Peer> {
    let endpoints = engines.iter().map(|engine| status(&engine.config.control).endpoints);
    let all = endpoints.enumerate().map(|(node, endpoints)| Peer { node, endpoints });
    all.filter(|peer| peer.node != node).collect()
}

/// Wires up the engines that listen at these control sockets, all at once as agents do.
pub fn connect(controls: &[PathBuf]) -> Vec<Reply> {
    let endpoints: Vec<Vec<Endpoint>> = controls.iter().map(|control| status(control).endpoints).collect();
    std::thread::scope(|scope| {
        let asked = controls.iter().enumerate().map(|(node, control)| {
            let request = peers_of(node, &endpoints);
            scope.spawn(move || control::ask(control, &request, LONG).unwrap())
        });
        let asked: Vec<_> = asked.collect();
        asked.into_iter().map(|answer| answer.join().unwrap()).collect()
    })
}

/// A job whose engines are connected.
pub struct World {
    pub engines: Vec<Running>,
    pub ranks: Vec<usize>,
    pub _room: TempDir,
}

impl World {
    pub fn new(ranks: &[usize], rails: u16) -> Self {
        Self::with(ranks, rails, |_| {})
    }

    pub fn with(ranks: &[usize], rails: u16, change: impl Fn(&mut Config)) -> Self {
        let room = tempfile::tempdir().unwrap();
        let nodes = ranks.iter().max().unwrap() + 1;
        let engines = (0..nodes).map(|node| {
            let mut config = config(room.path(), node, ranks, rails);
            change(&mut config);
            Running::start(config, key())
        });
        let engines: Vec<Running> = engines.collect();
        let controls: Vec<PathBuf> = engines.iter().map(|engine| engine.config.control.clone()).collect();
        for (node, reply) in connect(&controls).into_iter().enumerate() {
            assert_eq!(reply, Reply::OK, "node {node}");
        }
        Self { engines, ranks: ranks.to_vec(), _room: room }
    }

    pub fn attach_of(&self, rank: u32) -> Attach {
        Attach {
            socket: self.engines[self.ranks[rank as usize]].config.socket.clone(),
            rank,
            size: Some(u32::try_from(self.ranks.len()).unwrap()),
            job_uid: "uid-1".into(),
            timeout: LONG,
        }
    }

    pub fn attach(&self, rank: u32) -> Client {
        Client::attach(&self.attach_of(rank)).unwrap()
    }

    /// Runs one thread for each rank and gives their results in rank order.
    pub fn each_rank<T: Send>(&self, body: impl Fn(Client) -> T + Sync) -> Vec<T> {
        let results = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for rank in 0..u32::try_from(self.ranks.len()).unwrap() {
                let (body, results) = (&body, &results);
                scope.spawn(move || {
                    let result = body(self.attach(rank));
                    results.lock().unwrap().push((rank, result));
                });
            }
        });
        let mut results = results.into_inner().unwrap();
        results.sort_by_key(|(rank, _)| *rank);
        results.into_iter().map(|(_, result)| result).collect()
    }
}
