//! Rails in one process's memory: for tests, several nodes in one process. Links are queues with a bound, like
//! sockets; a frame's payload is copied when the queue takes it. Links can be cut and restored, and delayed by seeded
//! random times.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use node_agent_collective::shape::{Node, Rail};
use node_agent_collective::{HEADER_BYTES, Header, RailCause, Transmit};

use crate::transport::{Counters, Sink, Transport, TransportError, Waker};

/// Bytes that a link holds.
const LINK_BYTES: usize = 1 << 20;

type LinkId = (Node, Node, Rail);

#[derive(Debug)]
struct Packet {
    header: [u8; HEADER_BYTES],
    payload: Vec<u8>,
    ready: Instant,
}

#[derive(Debug, Default)]
struct Pipe {
    packets: VecDeque<Packet>,
    bytes: usize,
}

#[derive(Debug)]
struct State {
    pipes: BTreeMap<LinkId, Pipe>,
    /// Links that are down, by (lower node, higher node, rail), and why.
    down: BTreeMap<LinkId, RailCause>,
    /// Greatest delay of each rail.
    delay: Vec<Duration>,
    random: u64,
    woken: Vec<bool>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    signals: Vec<Condvar>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, state: &mut State, node: Node) {
        let node = usize::from(node);
        state.woken[node] = true;
        self.signals[node].notify_all();
    }
}

fn pair(a: Node, b: Node, rail: Rail) -> LinkId {
    (a.min(b), a.max(b), rail)
}

/// Rails that join some nodes of this process, and the hooks for faults.
#[derive(Debug, Clone)]
pub struct MemoryNet {
    shared: Arc<Shared>,
    nodes: usize,
    rails: usize,
}

impl MemoryNet {
    /// Rails between these numbers of nodes; all up, without delay. `seed` decides delays.
    #[must_use]
    pub fn new(nodes: usize, rails: usize, seed: u64) -> Self {
        let state = State {
            pipes: BTreeMap::new(),
            down: BTreeMap::new(),
            delay: vec![Duration::ZERO; rails],
            random: seed,
            woken: vec![false; nodes],
        };
        let signals = (0..nodes).map(|_| Condvar::new()).collect();
        MemoryNet { shared: Arc::new(Shared { state: Mutex::new(state), signals }), nodes, rails }
    }

    /// One node's end. To be made once for each node.
    #[must_use]
    pub fn node(&self, node: Node) -> MemoryRails {
        MemoryRails {
            shared: Arc::clone(&self.shared),
            node,
            nodes: self.nodes,
            rails: self.rails,
            out: BTreeMap::new(),
            up: BTreeMap::new(),
            counters: BTreeMap::new(),
        }
    }

    /// Delays each frame of a rail by a random time up to `most`. Frames of a link stay in order.
    pub fn delay(&self, rail: Rail, most: Duration) {
        self.shared.lock().delay[usize::from(rail)] = most;
    }

    /// Takes a link down; what is on it is lost.
    pub fn cut(&self, a: Node, b: Node, rail: Rail, cause: RailCause) {
        let mut state = self.shared.lock();
        state.pipes.remove(&(a, b, rail));
        state.pipes.remove(&(b, a, rail));
        state.down.insert(pair(a, b, rail), cause);
        self.shared.wake(&mut state, a);
        self.shared.wake(&mut state, b);
    }

    /// Brings a link up again.
    pub fn restore(&self, a: Node, b: Node, rail: Rail) {
        let mut state = self.shared.lock();
        state.down.remove(&pair(a, b, rail));
        self.shared.wake(&mut state, a);
        self.shared.wake(&mut state, b);
    }
}

/// One node's end of a [`MemoryNet`].
#[derive(Debug)]
pub struct MemoryRails {
    shared: Arc<Shared>,
    node: Node,
    nodes: usize,
    rails: usize,
    out: BTreeMap<(Rail, Node), VecDeque<Transmit>>,
    /// What the sink was told.
    up: BTreeMap<(Rail, Node), bool>,
    counters: BTreeMap<(Rail, Node), Counters>,
}

impl MemoryRails {
    fn links(&self) -> Vec<(Rail, Node)> {
        let peers = (0..self.nodes as Node).filter(|&n| n != self.node);
        peers.flat_map(|peer| (0..self.rails as Rail).map(move |rail| (rail, peer))).collect()
    }

    /// Tells the sink of links that came or went.
    fn report(&mut self, sink: &mut dyn Sink) {
        for (rail, peer) in self.links() {
            let down = self.shared.lock().down.get(&pair(self.node, peer, rail)).cloned();
            let told = self.up.entry((rail, peer)).or_insert(false);
            match down {
                None if !*told => {
                    *told = true;
                    self.counters.entry((rail, peer)).or_default().ups += 1;
                    sink.rail_up(rail, peer);
                }
                Some(cause) if *told => {
                    *told = false;
                    self.out.remove(&(rail, peer));
                    sink.rail_down(rail, peer, cause);
                }
                _ => {}
            }
        }
    }

    /// Takes the next packet that has arrived on any link, or the time when the next one will.
    fn next(&self) -> Result<(Rail, Node, Packet), Option<Instant>> {
        let now = Instant::now();
        let mut state = self.shared.lock();
        let mut soonest: Option<Instant> = None;
        for (rail, peer) in self.links() {
            let Some(pipe) = state.pipes.get_mut(&(peer, self.node, rail)) else { continue };
            let Some(ready) = pipe.packets.front().map(|p| p.ready) else { continue };
            if ready > now {
                soonest = Some(soonest.map_or(ready, |s| s.min(ready)));
            } else if let Some(packet) = pipe.packets.pop_front() {
                pipe.bytes -= packet.payload.len() + HEADER_BYTES;
                self.shared.wake(&mut state, peer);
                return Ok((rail, peer, packet));
            }
        }
        Err(soonest)
    }

    fn deliver(&mut self, rail: Rail, peer: Node, packet: &Packet, sink: &mut dyn Sink) {
        let counters = self.counters.entry((rail, peer)).or_default();
        counters.rx_frames += 1;
        counters.rx_bytes += (packet.payload.len() + HEADER_BYTES) as u64;
        let result = Header::decode(&packet.header).and_then(|header| {
            sink.begin(rail, peer, &header)?;
            let mut at = 0;
            while at < packet.payload.len()
                && let Some(to) = sink.landing(rail, peer, at)
            {
                let n = to.len().min(packet.payload.len() - at);
                to[..n].copy_from_slice(&packet.payload[at..at + n]);
                at += n;
            }
            sink.received(rail, peer)
        });
        if let Err(error) = result {
            self.close(rail, peer, RailCause::Protocol(error));
        }
    }
}

impl Transport for MemoryRails {
    fn send(&mut self, frame: Transmit) {
        self.out.entry((frame.rail, frame.peer)).or_default().push_back(frame);
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        self.report(sink);
        for ((rail, peer), frames) in &mut self.out {
            while let Some(frame) = frames.front() {
                let size = HEADER_BYTES + frame.header.length as usize;
                let payload = match frame.payload.map(|region| sink.payload(frame.token, region)) {
                    None => Vec::new(),
                    Some(Some(bytes)) => bytes.to_vec(),
                    Some(None) => {
                        frames.pop_front();
                        continue;
                    }
                };
                let mut state = self.shared.lock();
                if state.down.contains_key(&pair(self.node, *peer, *rail)) {
                    break;
                }
                let most = state.delay[usize::from(*rail)];
                // A linear congruential step is random enough for a delay, and needs no dependency.
                state.random = state
                    .random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let delay = most.mul_f64((state.random >> 33) as f64 / f64::from(1u32 << 31));
                let pipe = state.pipes.entry((self.node, *peer, *rail)).or_default();
                if pipe.bytes > 0 && pipe.bytes + size > LINK_BYTES {
                    break;
                }
                pipe.bytes += size;
                let ready = Instant::now() + delay;
                pipe.packets.push_back(Packet { header: frame.header.encode(), payload, ready });
                self.shared.wake(&mut state, *peer);
                drop(state);
                let counters = self.counters.entry((*rail, *peer)).or_default();
                counters.tx_frames += 1;
                counters.tx_bytes += size as u64;
                let token = frame.token;
                frames.pop_front();
                sink.sent(*rail, *peer, token);
            }
        }
    }

    fn poll(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> Result<(), TransportError> {
        let until = timeout.map(|t| Instant::now() + t);
        loop {
            self.flush(sink);
            let mut any = false;
            let soonest = loop {
                match self.next() {
                    Ok((rail, peer, packet)) => {
                        any = true;
                        self.deliver(rail, peer, &packet, sink);
                    }
                    Err(soonest) => break soonest,
                }
            };
            let mut state = self.shared.lock();
            let own = usize::from(self.node);
            let now = Instant::now();
            if std::mem::take(&mut state.woken[own]) || any || until.is_some_and(|u| u <= now) {
                drop(state);
                self.report(sink);
                return Ok(());
            }
            let end = until.into_iter().chain(soonest).min();
            let wait = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(now));
            // Another round finds out what it was woken for; then the caller gets its turn.
            drop(self.shared.signals[own].wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn waker(&self) -> Waker {
        let (shared, node) = (Arc::clone(&self.shared), self.node);
        Waker::new(move || {
            let mut state = shared.lock();
            shared.wake(&mut state, node);
        })
    }

    fn counters(&self, rail: Rail, peer: Node) -> Counters {
        self.counters.get(&(rail, peer)).copied().unwrap_or_default()
    }

    fn close(&mut self, rail: Rail, peer: Node, cause: RailCause) {
        let net = MemoryNet { shared: Arc::clone(&self.shared), nodes: self.nodes, rails: self.rails };
        net.cut(self.node, peer, rail, cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Bridge, Clock, drive};
    use node_agent_collective::shape::Tuning;
    use node_agent_collective::{
        Arena, BufferId, Call, Completion, Config, Dtype, Failure, Machine, Memory, Operation, ReduceOp,
        Region,
    };

    const COUNT: usize = 50_000;

    type End = (Vec<Completion>, Option<Failure>);

    /// One node: an all-reduce, then `between`, then another; gives how each ended.
    fn node(net: &MemoryNet, node: Node, between: &(dyn Fn(&mut Machine) + Sync)) -> End {
        let mut memory = Arena::new();
        let mut config = Config {
            node,
            nodes: net.nodes,
            ranks: (0..net.nodes as Node).collect(),
            rails: net.rails,
            chunk_bytes: 4096,
            op_timeout: Duration::from_secs(20),
            epoch: 1,
            scratch: Region::new(BufferId(0), 0, usize::MAX / 4),
            tuning: Tuning::default(),
        };
        config.scratch = memory.insert(vec![0; config.scratch_bytes()]);
        let mut machine = Machine::new(config).unwrap();
        let (mut rails, clock, mut ended) = (net.node(node), Clock::start(), Vec::new());
        let call = Call {
            operation: Operation::AllReduce,
            dtype: Dtype::I32,
            reduce: ReduceOp::Sum,
            count: COUNT as u64,
        };
        for round in 0..2 {
            let buffer =
                memory.insert([i32::from(node) + 1; COUNT].iter().flat_map(|v| v.to_ne_bytes()).collect());
            if machine.post(node.into(), call, buffer, buffer, clock.now()).is_err() {
                break;
            }
            let deadline = Instant::now() + Duration::from_secs(20);
            let mut idle = Duration::ZERO;
            while (ended.len() <= round || !machine.is_quiet()) && idle < Duration::from_millis(200) {
                assert!(Instant::now() < deadline);
                let mut external = Vec::new();
                let mut bridge =
                    Bridge { machine: &mut machine, memory: &mut memory, clock, external: &mut external };
                drive(&mut bridge, &mut rails, Duration::from_millis(10)).unwrap();
                ended.extend(std::iter::from_fn(|| machine.poll_completion()));
                idle += if ended.len() > round { Duration::from_millis(10) } else { Duration::ZERO };
            }
            if ended.last().is_some_and(|c: &Completion| c.result.is_ok()) {
                let sum = (1..=net.nodes as i32).sum::<i32>().to_ne_bytes();
                assert!(memory.bytes(buffer).unwrap().chunks(4).all(|v| v == sum));
            }
            between(&mut machine);
        }
        (ended, machine.failure().cloned())
    }

    fn nodes(net: &MemoryNet, between: &(dyn Fn(&mut Machine) + Sync)) -> Vec<End> {
        std::thread::scope(|scope| {
            let start = |n| scope.spawn(move || node(net, n as Node, between));
            let threads: Vec<_> = (0..net.nodes).map(start).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    #[test]
    fn nodes_of_one_process_reduce_over_delayed_rails() {
        for seed in 0..3 {
            let net = MemoryNet::new(3, 3, seed);
            net.delay(1, Duration::from_micros(300));
            for (ended, _) in nodes(&net, &|_| {}) {
                assert!(ended.len() == 2 && ended.iter().all(|c| c.result.is_ok()), "seed {seed}: {ended:?}");
            }
        }
    }

    #[test]
    fn a_node_that_is_cut_off_is_lost_to_all() {
        let net = MemoryNet::new(3, 2, 1);
        let cut = net.clone();
        let ends = nodes(&net, &|machine| {
            if machine.config().node == 2 {
                for (peer, rail) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    cut.cut(2, peer, rail, RailCause::Closed);
                }
            }
        });
        for (ended, failure) in &ends[..2] {
            let failure = failure.as_ref().unwrap();
            assert!(
                matches!(failure, Failure::PeerLost { node: 2, .. } | Failure::Remote { .. }),
                "{failure}"
            );
            assert!(ended[1..].iter().all(|c| c.result.is_err()));
        }
    }

    #[test]
    fn another_thread_ends_a_poll() {
        struct Nobody;
        impl Sink for Nobody {
            fn payload(&self, _: u64, _: Region) -> Option<&[u8]> {
                None
            }
            fn begin(
                &mut self,
                _: Rail,
                _: Node,
                _: &Header,
            ) -> Result<(), node_agent_collective::FrameError> {
                Ok(())
            }
            fn landing(&mut self, _: Rail, _: Node, _: usize) -> Option<&mut [u8]> {
                None
            }
            fn received(&mut self, _: Rail, _: Node) -> Result<(), node_agent_collective::FrameError> {
                Ok(())
            }
            fn sent(&mut self, _: Rail, _: Node, _: u64) {}
            fn rail_up(&mut self, _: Rail, _: Node) {}
            fn rail_down(&mut self, _: Rail, _: Node, _: RailCause) {}
        }
        let mut rails = MemoryNet::new(2, 1, 0).node(0);
        let waker = rails.waker();
        let thread = std::thread::spawn(move || waker.wake());
        rails.poll(None, &mut Nobody).unwrap();
        thread.join().unwrap();
    }
}
