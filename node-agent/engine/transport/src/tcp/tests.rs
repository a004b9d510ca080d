//! TCP rails over loopback: one address per node and rail, real sockets, real machines.

mod lives;
mod on_path;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use node_agent_collective::header::{Key, Kind};
use node_agent_collective::shape::Tuning;
use node_agent_collective::units::{Node, Rail};
use node_agent_collective::{
    Arena, BufferId, Call, Completion, Config, Dtype, Failure, FrameError, Header, Machine, Memory,
    Operation, RailCause, ReduceOp, Region, Transmit,
};

use super::*;
use crate::drive::{Bridge, Clock, drive};
use crate::transport::{Sink, Transport};

/// A wait for what comes soon where the machine is not busy.
const SOON: Duration = Duration::from_secs(60);

static NETS: AtomicU8 = AtomicU8::new(1);

/// A loopback network of its own for each test.
fn net() -> u8 {
    NETS.fetch_add(1, Ordering::Relaxed)
}

fn config(net: u8, node: Node, nodes: usize, rails: usize) -> TcpConfig {
    let address = |rail| IpAddr::V4(Ipv4Addr::new(127, net, node as u8 + 1, rail as u8 + 1));
    TcpConfig {
        node,
        nodes,
        rails: (0..rails).map(address).collect(),
        devices: Vec::new(),
        job_uid: "uid".into(),
        attempt: 1,
        epoch: 7,
        key: JobKey::new([5; 32]),
        handshake_timeout: Duration::from_millis(300),
        protection: Protection::None,
    }
}

struct Engine {
    machine: Machine,
    memory: Arena,
    rails: TcpRails,
    clock: Clock,
    external: Vec<usize>,
    ended: Vec<Completion>,
}

impl Engine {
    fn new(config: &TcpConfig, chunk: usize) -> Self {
        let mut memory = Arena::new();
        let mut shape = Config {
            node: config.node,
            nodes: config.nodes,
            ranks: (0..config.nodes as Node).collect(),
            rails: config.rails.len(),
            chunk_bytes: chunk,
            op_timeout: Duration::from_secs(30),
            epoch: 7,
            scratch: Region::new(BufferId(0), 0, usize::MAX / 4),
            checksum: false,
            tuning: Tuning::default(),
        };
        shape.scratch = memory.insert(vec![0; shape.scratch_bytes()]);
        let (machine, rails) = (Machine::new(shape).unwrap(), TcpRails::bind(config).unwrap());
        Engine { machine, memory, rails, clock: Clock::start(), external: Vec::new(), ended: Vec::new() }
    }

    fn turn(&mut self, timeout: Duration) {
        let Engine { machine, memory, rails, clock, external, ended } = self;
        let mut bridge = Bridge { machine, memory, clock: *clock, external, callers: &() };
        drive(&mut bridge, rails, timeout).unwrap();
        ended.extend(std::iter::from_fn(|| machine.poll_completion()));
    }

    /// Turns until `done`, a minute at most.
    fn until(&mut self, mut done: impl FnMut(&Engine) -> bool) {
        let deadline = Instant::now() + SOON;
        while !done(self) {
            assert!(Instant::now() < deadline, "not within {SOON:?}: {:?}", self.rails.wiring());
            self.turn(Duration::from_millis(20));
        }
    }
}

/// Engines of all nodes that know each other's endpoints.
fn engines(nodes: usize, rails: usize, chunk: usize) -> Vec<Engine> {
    let net = net();
    let mut engines: Vec<Engine> =
        (0..nodes as Node).map(|n| Engine::new(&config(net, n, nodes, rails), chunk)).collect();
    let endpoints: BTreeMap<Node, Vec<SocketAddr>> =
        engines.iter().enumerate().map(|(n, e)| (n as Node, e.rails.endpoints())).collect();
    let deadline = Instant::now() + SOON;
    for engine in &mut engines {
        engine.rails.connect(&endpoints, deadline).unwrap();
    }
    engines
}

/// Runs every engine on a thread of its own; they go on until all are done.
fn together<T: Send>(engines: Vec<Engine>, run: impl Fn(usize, &mut Engine) -> T + Sync) -> Vec<(Engine, T)> {
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

fn sum(count: u64) -> Call {
    Call { operation: Operation::AllReduce, dtype: Dtype::F32, reduce: ReduceOp::Sum, count }
}

fn all_reduce(node: usize, engine: &mut Engine, count: usize) {
    let input: Vec<u8> = (0..count).flat_map(|i| ((i % 1000 + node) as f32).to_ne_bytes()).collect();
    let buffer = engine.memory.insert(input);
    let now = engine.clock.now();
    engine.machine.post(node as u32, sum(count as u64), buffer, buffer, now).unwrap();
    let before = engine.ended.len();
    engine.until(|e| e.ended.len() > before);
    assert_eq!(engine.ended.last().unwrap().result, Ok(()));
    let nodes = engine.machine.layout().nodes();
    let rest: usize = (0..nodes).sum();
    for (i, v) in engine.memory.bytes(buffer).unwrap().as_chunks::<4>().0.iter().enumerate() {
        assert_eq!(f32::from_ne_bytes(*v), (i % 1000 * nodes + rest) as f32, "element {i}");
    }
    engine.memory.remove(buffer.buffer);
}

#[test]
fn large_operations_use_all_rails_alike() {
    let (nodes, rails) = (3, 4);
    let done = together(engines(nodes, rails, 32 << 10), |n, engine| {
        engine.until(|e| e.rails.wiring() == Wiring::Done);
        for _ in 0..16 {
            all_reduce(n, engine, 3_000_003);
        }
        engine.machine.leave();
        engine.until(|e| e.machine.is_quiet());
    });
    for (n, (engine, ())) in done.iter().enumerate() {
        let carried: Vec<u64> = (0..rails as Rail)
            .map(|rail| (0..nodes as Node).map(|p| engine.rails.counters(rail, p).tx_bytes).sum())
            .collect();
        let (least, most) = (carried.iter().min().unwrap(), carried.iter().max().unwrap());
        // Real sockets on busy processors differ for moments, so this looks at many operations; virtual time has the tight bound (`equal_rails_end_balanced`).
        assert!((most - least) * 8 <= *most, "node {n}: {carried:?}");
        assert!(*least > 48_000_000);
    }
}

#[test]
fn the_death_of_a_peer_is_noticed() {
    let first = AtomicU8::new(0);
    let done = together(engines(3, 2, 4096), |n, engine| {
        engine.until(|e| e.rails.wiring() == Wiring::Done);
        all_reduce(n, engine, 1000);
        first.fetch_add(1, Ordering::SeqCst);
        if n == 2 {
            engine.until(|_| first.load(Ordering::SeqCst) == 3);
            // Its sockets close as those of a killed process do.
            engine.rails = TcpRails::bind(&config(net(), 0, 1, 0)).unwrap();
            return None;
        }
        let buffer = engine.memory.insert(vec![0; 4_000_000]);
        let now = engine.clock.now();
        if engine.machine.post(n as u32, sum(1_000_000), buffer, buffer, now).is_ok() {
            engine.until(|e| e.ended.len() > 1);
        }
        engine.machine.failure().cloned()
    });
    for (n, (_, failure)) in done.iter().enumerate().take(2) {
        let failure = failure.as_ref().unwrap();
        let named = matches!(failure, Failure::PeerLost { node: 2, .. } | Failure::Remote { .. });
        assert!(named, "node {n}: {failure}");
    }
}

#[test]
fn a_wire_up_without_the_peer_fails_by_its_deadline_and_says_why() {
    let net = net();
    let mut engine = Engine::new(&config(net, 1, 2, 2), 4096);
    let nobody: Vec<SocketAddr> = (1..3).map(|r| SocketAddr::from(([127, net, 1, r], 9))).collect();
    engine.rails.connect(&BTreeMap::from([(0, nobody)]), Instant::now() + Duration::from_secs(5)).unwrap();
    engine.until(|e| matches!(e.rails.wiring(), Wiring::Failed(_)));
    let Wiring::Failed(missing) = engine.rails.wiring() else { unreachable!() };
    assert_eq!(missing.len(), 2);
    assert!(missing[0].2.as_ref().unwrap().contains("refused"), "{missing:?}");
    let given = engine.rails.connect(&BTreeMap::from([(0, Vec::new())]), Instant::now()).unwrap_err();
    assert_eq!(given.to_string(), "node 0 has 0 endpoints, 2 rails need one each");
}

#[test]
fn a_wrong_key_is_refused_on_both_sides() {
    let net = net();
    let other = TcpConfig { key: JobKey::new([6; 32]), ..config(net, 1, 2, 1) };
    let engines = vec![Engine::new(&config(net, 0, 2, 1), 4096), Engine::new(&other, 4096)];
    let endpoints: Vec<Vec<SocketAddr>> = engines.iter().map(|e| e.rails.endpoints()).collect();
    let done = together(engines, |n, engine| {
        let peers = BTreeMap::from([(1 - n as Node, endpoints[1 - n].clone())]);
        engine.rails.connect(&peers, Instant::now() + 2 * SOON).unwrap();
        let counted = |refusals: Refusals| if n == 1 { refusals.wrong_key } else { refusals.closed };
        engine.until(|e| counted(e.rails.refusals()) > 0);
        engine.rails.wiring()
    });
    let waits = |(_, wiring): &(Engine, Wiring)| matches!(wiring, Wiring::Waiting(_));
    assert!(done.iter().all(waits), "{:?}", [&done[0].1, &done[1].1]);
}

/// Strangers of every kind knock while an honest job wires up and works: they are counted and harm nothing.
#[test]
fn strangers_harm_nothing() {
    let engines = engines(2, 2, 4096);
    let target = engines[0].rails.endpoints()[0];
    let bytes = |n: usize| (0..n).map(|i| (i * 37) as u8).collect::<Vec<_>>();
    let mut knockers: Vec<TcpStream> = Vec::new();
    for i in 0..60 {
        let mut stream = TcpStream::connect(target).unwrap();
        stream.set_nonblocking(true).unwrap();
        let _ = match i % 4 {
            0 => stream.write(&bytes(10_000)),
            1 => stream.write(b"RL"),
            2 => stream.write(&[&b"RLHI\x01"[..], &bytes(83)].concat()),
            _ => Ok(0),
        };
        knockers.push(stream);
    }
    let done = together(engines, |n, engine| {
        engine.until(|e| e.rails.wiring() == Wiring::Done);
        all_reduce(n, engine, 10_000);
        let settled = |e: &Engine| e.rails.refusals().slow + e.rails.refusals().crowded >= 30;
        if n == 0 {
            engine.until(settled);
        }
        engine.machine.leave();
        engine.until(|e| e.machine.is_quiet());
        engine.rails.refusals()
    });
    let Refusals { garbage, stranger, slow, crowded, .. } = done[0].1;
    assert!(garbage + crowded >= 15 && stranger + crowded >= 15, "{:?}", done[0].1);
    assert!(slow + crowded >= 30, "{:?}", done[0].1);
    assert!(done[0].0.machine.failure().is_none());
    drop(done);
    for mut stream in knockers {
        stream.set_nonblocking(false).unwrap();
        let mut rest = Vec::new();
        // Closed from the other end, with or without a reset; never an answer.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
}

#[test]
fn another_thread_ends_a_poll_and_own_sources_are_reported() {
    let mut engine = Engine::new(&config(net(), 0, 1, 1), 4096);
    let waker = engine.rails.waker();
    let began = Instant::now();
    let thread = std::thread::spawn(move || waker.wake());
    engine.turn(Duration::from_secs(10));
    thread.join().unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    let mut listener = mio::net::TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    engine.rails.registry().register(&mut listener, mio::Token(5), mio::Interest::READABLE).unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    engine.until(|e| e.external.contains(&5));
}

#[test]
fn a_link_that_ends_while_idle_comes_back() {
    let quiet = AtomicU8::new(0);
    let done = together(engines(2, 2, 4096), |n, engine| {
        engine.until(|e| e.rails.wiring() == Wiring::Done);
        all_reduce(n, engine, 1000);
        engine.until(|e| e.machine.is_quiet());
        quiet.fetch_add(1, Ordering::SeqCst);
        if n == 1 {
            engine.until(|_| quiet.load(Ordering::SeqCst) == 2);
            engine.rails.close(1, 0, 99, RailCause::Local);
            engine.rails.close(1, 0, 1, RailCause::Local);
        }
        engine.until(|e| e.rails.counters(1, 1 - n as Node).ups == 2);
        engine.until(|e| e.machine.link(1, 1 - n as Node).unwrap().is_up());
        all_reduce(n, engine, 1000);
        engine.machine.leave();
        engine.until(|e| e.machine.is_quiet());
        engine.machine.failure().cloned()
    });
    assert!(done.iter().all(|(_, failure)| failure.is_none()), "{:?}", [&done[0].1, &done[1].1]);
}

#[test]
fn keys_are_read_from_hexadecimal() {
    let hex: String = (0..32).map(|i| format!("{i:02x}")).collect();
    let key = JobKey::from_hex(&format!(" {hex}\n")).unwrap();
    assert_eq!(key.0[31], 31);
    assert_eq!(format!("{key:?}"), "JobKey(..)");
    for bad in ["", "00", &hex[1..], &format!("{}zz", &hex[2..])] {
        assert!(JobKey::from_hex(bad).is_none());
    }
}
