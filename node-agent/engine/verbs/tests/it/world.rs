//! Nodes in one process: rails over loopback connections, carried by devices of the library that stands in.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use node_agent_collective::shape::Tuning;
use node_agent_collective::units::{Node, Rail};
use node_agent_collective::{
    Arena, BufferId, Call, Completion, Config, Dtype, Machine, Memory, Operation, ReduceOp, Region,
};
use node_agent_engine_transport::{Bridge, Buffers, Clock, JobKey, TcpConfig, TcpRails, Transport, drive};
use node_agent_engine_verbs::VerbsCarrier;
use node_agent_ipc::pieces::{Source, Target};

/// Kinds of objects that the fake counts.
pub const PD: usize = 1;
pub const MR: usize = 2;
pub const QP: usize = 5;
pub const DMA_BUF: usize = 6;
pub const MW: usize = 7;

/// The library's own functions.
pub struct Fake {
    library: libloading::Library,
    pub path: PathBuf,
}

impl Fake {
    fn load() -> Self {
        let program = std::env::current_exe().unwrap();
        let folder = program.ancestors().nth(2).unwrap().join("examples");
        let path = folder.join("libfake_ibverbs.so");
        // SAFETY: it was built beside this test and does nothing when it is loaded.
        let library = unsafe { libloading::Library::new(&path) }.unwrap();
        Fake { library, path }
    }

    fn device(&self, address: IpAddr) -> usize {
        let IpAddr::V4(v4) = address else { unreachable!() };
        let gid = v4.to_ipv6_mapped().octets();
        // SAFETY: the function has this signature (examples/fake_ibverbs.rs) and reads sixteen bytes.
        unsafe {
            let new = self.library.get::<unsafe extern "C" fn(*const u8) -> usize>(b"fake_device").unwrap();
            new(gid.as_ptr())
        }
    }

    pub fn fault(&self, device: usize, what: i32, value: i32) {
        // SAFETY: the function has this signature.
        unsafe {
            let fault = self.library.get::<extern "C" fn(usize, i32, i32)>(b"fake_fault").unwrap();
            fault(device, what, value);
        }
    }

    pub fn alive(&self, device: usize, kind: usize) -> i64 {
        // SAFETY: the function has this signature.
        unsafe {
            let alive = self.library.get::<extern "C" fn(usize, usize) -> i64>(b"fake_alive").unwrap();
            alive(device, kind)
        }
    }

    pub fn all_alive(&self, device: usize) -> [i64; 7] {
        [0, PD, MR, 3, 4, QP, MW].map(|kind| self.alive(device, kind))
    }

    pub fn path(&self, device: usize) -> u64 {
        // SAFETY: the function has this signature.
        unsafe {
            let path = self.library.get::<extern "C" fn(usize) -> u64>(b"fake_path").unwrap();
            path(device)
        }
    }
}

static NETS: AtomicU8 = AtomicU8::new(1);

/// Nodes and rails, with a device for each pair of both.
pub struct Net {
    pub fake: Fake,
    number: u8,
    pub nodes: usize,
    pub rails: usize,
    pub pairs: usize,
    devices: Vec<usize>,
}

impl Net {
    pub fn new(nodes: usize, rails: usize) -> Self {
        let number = NETS.fetch_add(1, Ordering::Relaxed);
        let mut net = Net { fake: Fake::load(), number, nodes, rails, pairs: 1, devices: Vec::new() };
        for node in 0..nodes {
            for rail in 0..rails {
                net.devices.push(net.fake.device(net.address(node, rail)));
            }
        }
        net
    }

    fn address(&self, node: usize, rail: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(127, 100 + self.number, node as u8 + 1, rail as u8 + 1))
    }

    pub fn device(&self, node: usize, rail: usize) -> usize {
        self.devices[node * self.rails + rail]
    }

    pub fn devices(&self) -> impl Iterator<Item = usize> {
        self.devices.iter().copied()
    }

    pub fn carrier_config(&self, node: usize) -> node_agent_engine_verbs::Config {
        node_agent_engine_verbs::Config {
            rails: (0..self.rails).map(|rail| self.address(node, rail)).collect(),
            nodes: self.nodes,
            pairs: self.pairs,
            traffic_class: 106,
            library: Some(self.fake.path.clone()),
        }
    }

    /// An engine without verbs.
    pub fn plain(&self, node: usize) -> Engine {
        Engine::new(&TcpConfig {
            node: node as Node,
            nodes: self.nodes,
            rails: self.carrier_config(node).rails,
            devices: Vec::new(),
            job_uid: "uid".into(),
            attempt: 1,
            epoch: 7,
            key: JobKey::new([5; 32]),
            handshake_timeout: Duration::from_secs(2),
            protection: node_agent_engine_transport::tcp::Protection::None,
        })
    }

    /// Engines of all nodes that know each other's endpoints.
    pub fn engines(&self, only: bool) -> Vec<Engine> {
        let engine = |node| {
            let mut engine = self.plain(node);
            let carrier = VerbsCarrier::open(&self.carrier_config(node)).unwrap();
            engine.rails.carry(Box::new(carrier), only).unwrap();
            engine
        };
        self.connected((0..self.nodes).map(engine).collect())
    }

    /// Has the engines know each other's endpoints.
    pub fn connected(&self, mut engines: Vec<Engine>) -> Vec<Engine> {
        let endpoints: BTreeMap<Node, Vec<SocketAddr>> =
            engines.iter().enumerate().map(|(n, e)| (n as Node, e.rails.endpoints())).collect();
        let deadline = Instant::now() + Duration::from_secs(20);
        for engine in &mut engines {
            engine.rails.connect(&endpoints, deadline).unwrap();
        }
        engines
    }
}

/// The memory of ranks, of which devices send in place, and an engine's own.
#[derive(Default)]
pub struct Ranks {
    own: Arena,
    shared: BTreeMap<BufferId, Arc<node_agent_ipc::Region>>,
}

impl Ranks {
    /// What a rank has under this number.
    fn share(&mut self, number: u64, bytes: &[u8]) -> Region {
        let (memory, _file) = node_agent_ipc::Region::create(bytes.len() as u64).unwrap();
        memory.write(0, bytes).unwrap();
        let id = BufferId(1 << 40 | number);
        self.shared.insert(id, Arc::new(memory));
        Region::new(id, 0, bytes.len())
    }
}

impl Memory for Ranks {
    fn bytes(&self, region: Region) -> Option<&[u8]> {
        self.own.bytes(region)
    }

    fn bytes_mut(&mut self, region: Region) -> Option<&mut [u8]> {
        self.own.bytes_mut(region)
    }

    fn read(&self, region: Region, to: &mut [u8]) -> Option<()> {
        match self.shared.get(&region.buffer) {
            Some(memory) => memory.read(region.offset, to).ok(),
            None => self.own.read(region, to),
        }
    }

    fn write(&mut self, region: Region, from: &[u8]) -> Option<()> {
        match self.shared.get(&region.buffer) {
            Some(memory) => memory.write(region.offset, from).ok(),
            None => self.own.write(region, from),
        }
    }
}

impl Buffers for Ranks {
    fn source(&self, region: Region) -> Option<Source<'_>> {
        match self.shared.get(&region.buffer) {
            Some(memory) => Source::of(memory, region.offset, region.len).ok(),
            None => self.own.source(region),
        }
    }

    fn target(&mut self, region: Region) -> Option<Target<'_>> {
        match self.shared.get(&region.buffer) {
            Some(memory) => memory.target(region.offset, region.len).ok(),
            None => self.own.target(region),
        }
    }
}

pub struct Engine {
    pub machine: Machine,
    pub memory: Ranks,
    pub rails: TcpRails,
    clock: Clock,
    ended: Vec<Completion>,
}

impl Engine {
    fn new(config: &TcpConfig) -> Self {
        let mut memory = Ranks::default();
        let mut shape = Config {
            node: config.node,
            nodes: config.nodes,
            ranks: (0..config.nodes as Node).collect(),
            rails: config.rails.len(),
            chunk_bytes: 64 << 10,
            op_timeout: Duration::from_secs(30),
            epoch: 7,
            scratch: Region::new(BufferId(0), 0, usize::MAX / 4),
            checksum: false,
            tuning: Tuning::default(),
        };
        shape.scratch = memory.own.insert(vec![0; shape.scratch_bytes()]);
        let (machine, rails) = (Machine::new(shape).unwrap(), TcpRails::bind(config).unwrap());
        Engine { machine, memory, rails, clock: Clock::start(), ended: Vec::new() }
    }

    pub fn turn(&mut self, timeout: Duration) {
        let (Engine { machine, memory, rails, clock, ended }, mut external) = (self, Vec::new());
        let mut bridge = Bridge { machine, memory, clock: *clock, external: &mut external, callers: &() };
        drive(&mut bridge, rails, timeout).unwrap();
        ended.extend(std::iter::from_fn(|| machine.poll_completion()));
    }

    /// Turns until `done`, thirty seconds at most.
    #[track_caller]
    pub fn until(&mut self, mut done: impl FnMut(&Engine) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done(self) {
            assert!(Instant::now() < deadline, "not within thirty seconds: {:?}", self.rails.wiring());
            self.turn(Duration::from_millis(20));
        }
    }

    /// Operations that have ended.
    pub fn ended(&self) -> usize {
        self.ended.len()
    }

    pub fn sent_on(&self, rail: Rail) -> u64 {
        (0..16).map(|peer| self.rails.counters(rail, peer).tx_bytes).sum()
    }

    pub fn ups(&self, rail: Rail, peer: Node) -> u64 {
        self.rails.counters(rail, peer).ups
    }

    /// Whether a link is in use.
    pub fn is_up(&self, rail: Rail, peer: Node) -> bool {
        self.machine.link(rail, peer).is_some_and(node_agent_collective::link::Link::is_up)
    }
}

/// Runs every engine on a thread of its own; they go on until all are done.
pub fn together<T: Send>(
    engines: Vec<Engine>,
    run: impl Fn(usize, &mut Engine) -> T + Sync,
) -> Vec<(Engine, T)> {
    let (all, done) = (engines.len() as u8, AtomicU8::new(0));
    std::thread::scope(|scope| {
        let (run, done) = (&run, &done);
        let each = |(n, mut engine): (usize, Engine)| {
            scope.spawn(move || {
                let value = run(n, &mut engine);
                done.fetch_add(1, Ordering::SeqCst);
                engine.until(|_| done.load(Ordering::SeqCst) == all);
                (engine, value)
            })
        };
        let threads: Vec<_> = engines.into_iter().enumerate().map(each).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// Ends in good order.
pub fn leave(engine: &mut Engine) {
    engine.machine.leave();
    engine.until(|e| e.machine.is_quiet());
    assert!(engine.machine.failure().is_none());
}

/// One all-reduce of so many floats; every one is compared.
#[track_caller]
pub fn all_reduce(node: usize, engine: &mut Engine, count: usize) {
    let input: Vec<u8> = (0..count).flat_map(|i| ((i % 1000 + node) as f32).to_ne_bytes()).collect();
    let before = engine.ended.len();
    let buffer = engine.memory.share(before as u64, &input);
    let call = Call {
        operation: Operation::AllReduce,
        dtype: Dtype::F32,
        reduce: ReduceOp::Sum,
        count: count as u64,
    };
    let now = engine.clock.now();
    engine.machine.post(node as u32, call, buffer, buffer, now).unwrap();
    engine.until(|e| e.ended.len() > before);
    assert_eq!(engine.ended.last().unwrap().result, Ok(()));
    let nodes = engine.machine.layout().nodes();
    let rest: usize = (0..nodes).sum();
    let mut result = vec![0; buffer.len];
    engine.memory.read(buffer, &mut result).unwrap();
    // It is the rank's again, which writes what comes next at once; what others get of it is what it was.
    engine.memory.write(buffer, &vec![0xff; buffer.len]).unwrap();
    engine.memory.shared.remove(&buffer.buffer);
    for (i, v) in result.as_chunks::<4>().0.iter().enumerate() {
        assert_eq!(f32::from_ne_bytes(*v), (i % 1000 * nodes + rest) as f32, "element {i}");
    }
}

/// One broadcast of so many bytes, an even number, from node 0, of which each is `value` there. `meanwhile` is what that does before it may end; what others
/// get is what was there when it began.
#[track_caller]
pub fn broadcast(
    node: usize,
    engine: &mut Engine,
    count: usize,
    value: u8,
    meanwhile: impl FnOnce(&mut Engine),
) {
    let before = engine.ended.len();
    let buffer = engine.memory.share(before as u64, &vec![if node == 0 { value } else { 0 }; count]);
    let call = Call {
        operation: Operation::Broadcast { root: 0 },
        dtype: Dtype::F16,
        reduce: ReduceOp::Sum,
        count: count as u64 / 2,
    };
    let now = engine.clock.now();
    engine.machine.post(node as u32, call, buffer, buffer, now).unwrap();
    if node == 0 {
        meanwhile(engine);
    }
    engine.until(|e| e.ended.len() > before);
    assert_eq!(engine.ended.last().unwrap().result, Ok(()));
    let mut result = vec![0; count];
    engine.memory.read(buffer, &mut result).unwrap();
    engine.memory.write(buffer, &vec![0xff; count]).unwrap();
    engine.memory.shared.remove(&buffer.buffer);
    assert!(result.iter().all(|byte| *byte == value), "not what it was");
}
