//! TCP rails over loopback: one address per node and rail, real sockets, real machines.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use node_agent_collective::header::{Key, Kind};
use node_agent_collective::shape::{Node, Rail, Tuning};
use node_agent_collective::{
    Arena, BufferId, Call, Completion, Config, Dtype, Failure, FrameError, Header, Machine, Memory,
    Operation, RailCause, ReduceOp, Region, Transmit,
};

use super::*;
use crate::drive::{Bridge, Clock, drive};
use crate::transport::{Sink, Transport};

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
        job_uid: "uid".into(),
        attempt: 1,
        epoch: 7,
        key: JobKey::new([5; 32]),
        handshake_timeout: Duration::from_millis(300),
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
        let mut bridge = Bridge { machine, memory, clock: *clock, external };
        drive(&mut bridge, rails, timeout).unwrap();
        ended.extend(std::iter::from_fn(|| machine.poll_completion()));
    }

    /// Turns until `done`, ten seconds at most.
    fn until(&mut self, mut done: impl FnMut(&Engine) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !done(self) {
            assert!(Instant::now() < deadline, "not within ten seconds: {:?}", self.rails.wiring());
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
    let deadline = Instant::now() + Duration::from_secs(10);
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
        for _ in 0..4 {
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
        // Real sockets on busy processors differ for moments; virtual time has the tight bound (`equal_rails_end_balanced`).
        assert!((most - least) * 5 <= *most, "node {n}: {carried:?}");
        assert!(*least > 12_000_000);
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
    engine
        .rails
        .connect(&BTreeMap::from([(0, nobody)]), Instant::now() + Duration::from_millis(200))
        .unwrap();
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
        engine.rails.connect(&peers, Instant::now() + Duration::from_millis(300)).unwrap();
        engine.until(|e| matches!(e.rails.wiring(), Wiring::Failed(_)));
        engine.rails.refusals()
    });
    assert!(done[1].1.wrong_key > 0 && done[0].1.closed > 0, "{:?}", [done[0].1, done[1].1]);
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

/// Writes down what links do, and which generation was last up.
#[derive(Default)]
struct Log(Vec<String>, u32);

impl Sink for Log {
    fn payload(&self, _: u64, _: Region) -> Option<&[u8]> {
        Some(&[7; 1 << 20])
    }
    fn begin(&mut self, _: Rail, _: Node, _: &Header) -> Result<(), FrameError> {
        Ok(())
    }
    fn landing(&mut self, _: Rail, _: Node, _: usize) -> Option<&mut [u8]> {
        None
    }
    fn received(&mut self, rail: Rail, peer: Node) -> Result<(), FrameError> {
        self.0.push(format!("frame {rail} {peer}"));
        Ok(())
    }
    fn sent(&mut self, _: Rail, _: Node, token: u64) {
        self.0.push(format!("sent {token}"));
    }
    fn rail_up(&mut self, rail: Rail, peer: Node, generation: u32) {
        assert!(generation > self.1, "it rises");
        self.1 = generation;
        self.0.push(format!("up {rail} {peer}"));
    }
    fn rail_down(&mut self, rail: Rail, peer: Node, generation: u32, cause: RailCause) {
        assert_eq!(generation, self.1);
        self.0.push(format!("down {rail} {peer}: {cause}"));
    }
    fn port_down(&mut self, rail: Rail) {
        self.0.push(format!("port down {rail}"));
    }
    fn port_up(&mut self, rail: Rail) {
        self.0.push(format!("port up {rail}"));
    }
}

/// Two nodes with a rail between them, and what they report.
struct Ends {
    rails: [TcpRails; 2],
    logs: [Log; 2],
}

impl Ends {
    /// Up; node 1 dials.
    fn new() -> Self {
        let net = net();
        let mut rails = [0, 1].map(|n| TcpRails::bind(&config(net, n, 2, 1)).unwrap());
        let endpoints = [0, 1].map(|n: usize| rails[n].endpoints());
        for n in 0..2 {
            let peer = BTreeMap::from([(1 - n as Node, endpoints[1 - n].clone())]);
            rails[n].connect(&peer, Instant::now() + Duration::from_secs(5)).unwrap();
        }
        let mut ends = Ends { rails, logs: Default::default() };
        ends.expect([&["up 0 1"], &["up 0 0"]]);
        ends
    }

    fn poll(&mut self) {
        for (rails, log) in self.rails.iter_mut().zip(&mut self.logs) {
            rails.poll(Some(Duration::from_millis(5)), log).unwrap();
        }
    }

    /// Polls until both have reported as much as is expected of them, and compares. Both know the same generation.
    #[track_caller]
    fn expect(&mut self, expected: [&[&str]; 2]) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.logs.iter().zip(expected).any(|(log, expected)| log.0.len() < expected.len()) {
            assert!(
                Instant::now() < deadline,
                "{:?} instead of {expected:?}",
                self.logs.each_ref().map(|l| &l.0)
            );
            self.poll();
        }
        assert_eq!(self.logs.each_mut().map(|l| std::mem::take(&mut l.0)), expected);
        assert_eq!(self.logs[0].1, self.logs[1].1);
    }
}

fn frame(peer: Node, token: u64, length: usize) -> Transmit {
    let kind = Kind::Data { step: 0, block: 0, offset: 0 };
    let control = Header::control(kind, Key::Collective { seq: 0 }, 0, 0);
    let header = Header { call: Some(Call::BARRIER), length: length as u32, ..control };
    Transmit { rail: 0, peer, header, payload: Some(Region::new(BufferId(0), 0, length)), token }
}

#[test]
fn each_life_of_a_link_has_a_generation_that_both_ends_know() {
    let mut ends = Ends::new();
    let generation = ends.logs[0].1;
    ends.rails[0].close(0, 1, generation + 1, RailCause::Local);
    ends.rails[0].close(0, 1, generation, RailCause::Silent(Duration::from_secs(1)));
    ends.rails[0].send(frame(1, 2, 1 << 20));
    ends.expect([
        &["down 0 1: no sign of life for 1s", "up 0 1"],
        &["down 0 0: closed by the peer", "up 0 0"],
    ]);
    // The dialing side can close too; asked to, it is back at once.
    let generation = ends.logs[1].1;
    ends.rails[1].close(0, 0, generation, RailCause::Fenced);
    ends.rails[1].redial(0, 0);
    ends.expect([&["down 0 1: closed by the peer", "up 0 1"], &["down 0 0: given up by the peer", "up 0 0"]]);
}

/// What is queued when a life ends goes nowhere, and none of it is reported as sent.
#[test]
fn the_end_of_a_life_drops_what_is_queued() {
    let mut ends = Ends::new();
    for token in 0..64 {
        ends.rails[1].send(frame(0, token, 1 << 20));
    }
    ends.rails[1].flush(&mut ends.logs[1]);
    let sent = std::mem::take(&mut ends.logs[1].0);
    assert!(sent.len() < 64 && sent.iter().all(|l| l.starts_with("sent")));
    let generation = ends.logs[1].1;
    ends.rails[1].close(0, 0, generation, RailCause::Local);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !ends.logs.iter().all(|l| l.0.iter().any(|l| l.starts_with("up"))) {
        assert!(Instant::now() < deadline);
        ends.poll();
    }
    assert_eq!(ends.logs[1].0, ["down 0 0: taken down here", "up 0 0"]);
    let (frames, end) = ends.logs[0].0.split_at(ends.logs[0].0.len() - 2);
    assert!(frames.len() <= sent.len() && frames.iter().all(|l| l == "frame 0 1"));
    assert_eq!(end, ["down 0 1: closed by the peer", "up 0 1"]);
}

#[test]
fn a_port_takes_its_links_along_and_brings_them_back_at_once() {
    let mut ends = Ends::new();
    for (end, other) in [(0, 1), (1, 0)] {
        ends.rails[end].set_port(0, false);
        ends.rails[end].set_port(0, false);
        let down = format!("down 0 {other}: the own port has no carrier");
        let closed = [&*format!("down 0 {end}: closed by the peer")];
        let own = ["port down 0", &down];
        let mut expected: [&[&str]; 2] = [&closed; 2];
        expected[end] = &own;
        ends.expect(expected);
        for _ in 0..20 {
            ends.poll();
        }
        ends.expect([&[]; 2]);
        ends.rails[end].set_port(0, true);
        let up = [&*format!("up 0 {end}")];
        let own = ["port up 0", &*format!("up 0 {other}")];
        let mut expected: [&[&str]; 2] = [&up; 2];
        expected[end] = &own;
        ends.expect(expected);
    }
}

/// A listener whose queue is full lets every further connection go unanswered, as a black hole does.
#[test]
fn a_dial_that_hangs_is_made_anew_until_somebody_answers() {
    let net = net();
    let address: SocketAddr = SocketAddr::from(([127, net, 1, 1], 0));
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&address.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let fill = TcpStream::connect(address).unwrap();
    let mut end = TcpRails::bind(&config(net, 1, 2, 1)).unwrap();
    end.connect(&BTreeMap::from([(0, vec![address])]), Instant::now() + Duration::from_secs(60)).unwrap();
    let mut log = Log::default();
    let unanswered = |end: &TcpRails| match end.wiring() {
        Wiring::Waiting(missing) => missing[0].2.as_deref() == Some("no answer"),
        _ => false,
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while !unanswered(&end) {
        assert!(Instant::now() < deadline);
        end.poll(Some(Duration::from_millis(10)), &mut log).unwrap();
    }
    assert_eq!(end.refusals(), Refusals::default());
    // Room again: the next try, which is never more than a quarter of a second away, gets through.
    let (first, _) = listener.accept().unwrap();
    let freed = Instant::now();
    listener.set_nonblocking(true).unwrap();
    let hello = loop {
        assert!(freed.elapsed() < Duration::from_secs(10));
        end.poll(Some(Duration::from_millis(5)), &mut log).unwrap();
        let Ok((stream, _)) = listener.accept() else { continue };
        stream.set_nonblocking(false).unwrap();
        end.poll(Some(Duration::ZERO), &mut log).unwrap();
        let (mut stream, mut hello) = (TcpStream::from(stream), [0; 28]);
        if stream.read_exact(&mut hello).is_ok() {
            break hello;
        }
    };
    assert!(freed.elapsed() < Duration::from_millis(900), "a kernel would have taken a second and more");
    assert!(u32::from_le_bytes(hello[24..28].try_into().unwrap()) >= 2, "a try of its own generation");
    drop((fill, first));
}
