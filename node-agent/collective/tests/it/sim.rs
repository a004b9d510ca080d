//! A network in virtual time: one queue per (from, to, rail), served in a seeded random order, in random pieces.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use node_agent_collective::shape::{Node, Rail, Time, Tuning};
use node_agent_collective::{
    Arena, BufferId, Call, CallError, Completion, Config, Failure, FrameError, Header, Landing, Machine,
    Memory, RailCause, Region, Ticket, Transmit,
};

/// SplitMix64: a seed gives the same run on every machine.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// What all nodes share.
#[derive(Debug, Clone)]
pub struct World {
    pub map: Vec<Node>,
    pub rails: usize,
    pub chunk: usize,
    pub tuning: Tuning,
    pub timeout: Time,
}

impl World {
    pub fn nodes(&self) -> usize {
        usize::from(*self.map.iter().max().unwrap()) + 1
    }

    fn config(&self, node: Node, scratch: Region) -> Config {
        Config {
            node,
            nodes: self.nodes(),
            ranks: self.map.clone(),
            rails: self.rails,
            chunk_bytes: self.chunk,
            op_timeout: self.timeout,
            epoch: 7,
            scratch,
            tuning: self.tuning,
        }
    }
}

pub struct Host {
    pub machine: Machine,
    pub memory: Arena,
    pub done: BTreeMap<u64, Result<(), Failure>>,
    pub ended: Vec<Completion>,
}

/// A frame that is on its way into the receiver.
struct Arriving {
    header: Header,
    payload: Vec<u8>,
    at: usize,
}

type Wire = (usize, usize, usize);
type Frame = ([u8; 96], Vec<u8>);

pub struct Net {
    pub rng: Rng,
    pub now: Time,
    pub hosts: Vec<Host>,
    /// Bytes that each rail carried.
    pub carried: Vec<u64>,
    /// Handed to a socket, payload not read yet.
    queued: BTreeMap<Wire, VecDeque<Transmit>>,
    /// On the wire.
    flying: BTreeMap<Wire, VecDeque<Frame>>,
    arriving: BTreeMap<Wire, Arriving>,
    pub cut: Vec<Wire>,
}

impl Net {
    pub fn new(world: &World, seed: u64) -> Self {
        let nodes = world.nodes();
        let host = |node: usize| {
            let mut memory = Arena::new();
            let sketch = world.config(node as Node, Region::new(BufferId(0), 0, usize::MAX / 4));
            let scratch = memory.insert(vec![0xee; sketch.scratch_bytes()]);
            let machine = Machine::new(world.config(node as Node, scratch)).unwrap();
            Host { machine, memory, done: BTreeMap::new(), ended: Vec::new() }
        };
        let mut net = Net {
            rng: Rng(seed),
            now: Time::ZERO,
            hosts: (0..nodes).map(host).collect(),
            carried: vec![0; world.rails],
            queued: BTreeMap::new(),
            flying: BTreeMap::new(),
            arriving: BTreeMap::new(),
            cut: Vec::new(),
        };
        for a in 0..nodes {
            for b in (0..nodes).filter(|&b| b != a) {
                for rail in 0..world.rails {
                    net.hosts[a].machine.rail_up(rail as Rail, b as Node, Time::ZERO);
                }
            }
        }
        net
    }

    /// Posts a call. One that comes after a failure ends with it at once.
    pub fn post(&mut self, map: &[Node], rank: usize, call: Call, input: Region, output: Region) {
        let host = &mut self.hosts[usize::from(map[rank])];
        let rank = rank as u32;
        match host.machine.post(rank, call, input, output, self.now) {
            Ok(_) => {}
            Err(CallError::Failed(failure)) => {
                let ticket = Ticket(u64::MAX - host.done.len() as u64);
                host.done.insert(ticket.0, Err(failure.clone()));
                host.ended.push(Completion { ticket, rank, result: Err(failure) });
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// One random thing happens. `false` if nothing could.
    pub fn step(&mut self) -> bool {
        self.now += Time::from_nanos(self.rng.next() % 2000);
        let nodes = self.hosts.len();
        let first = self.rng.below(4);
        for kind in 0..4 {
            let happened = match (first + kind) % 4 {
                0 => {
                    let start = self.rng.below(nodes);
                    (0..nodes).any(|i| self.pump((start + i) % nodes))
                }
                1 => {
                    let start = self.rng.below(nodes);
                    (0..nodes).any(|i| {
                        let host = &mut self.hosts[(start + i) % nodes];
                        host.machine.work(&mut host.memory, self.now)
                    })
                }
                2 => {
                    self.some(|net| net.queued.keys().copied().collect()).is_some_and(|wire| self.write(wire))
                }
                _ => {
                    let wires = |net: &Net| {
                        net.flying.keys().chain(net.arriving.keys()).copied().collect::<BTreeSet<_>>()
                    };
                    // Each wire is as likely as any other, however much is on it.
                    self.some(|net| wires(net).into_iter().collect()).is_some_and(|wire| self.read(wire))
                }
            };
            if happened {
                return true;
            }
        }
        false
    }

    fn some(&mut self, of: impl Fn(&Net) -> Vec<Wire>) -> Option<Wire> {
        let wires = of(self);
        let at = self.rng.below(wires.len());
        wires.get(at).copied()
    }

    fn pump(&mut self, node: usize) -> bool {
        let host = &mut self.hosts[node];
        host.machine.tick(self.now);
        let mut any = false;
        for _ in 0..1 + self.rng.below(4) {
            let Some(frame) = host.machine.poll_transmit(&mut host.memory, self.now) else { break };
            self.queued.entry((node, frame.peer.into(), frame.rail.into())).or_default().push_back(frame);
            any = true;
        }
        while let Some(c) = host.machine.poll_completion() {
            assert_eq!(host.done.insert(c.ticket.0, c.result.clone()), None, "completed twice");
            host.ended.push(c);
            any = true;
        }
        any
    }

    /// The socket takes a frame: only now its payload is read.
    fn write(&mut self, wire: Wire) -> bool {
        let queue = self.queued.get_mut(&wire).unwrap();
        let Some(frame) = queue.pop_front() else { return false };
        if queue.is_empty() {
            self.queued.remove(&wire);
        }
        let host = &mut self.hosts[wire.0];
        let payload = match frame.payload {
            Some(_) if host.machine.withdrawn(frame.token) => return true,
            Some(region) => host.memory.bytes(region).unwrap().to_vec(),
            None => Vec::new(),
        };
        self.carried[wire.2] += 96 + payload.len() as u64;
        host.machine.sent(frame.rail, frame.peer, frame.token, self.now);
        if !self.cut.contains(&wire) {
            self.flying.entry(wire).or_default().push_back((frame.header.encode(), payload));
        }
        true
    }

    /// A piece of a frame comes in.
    fn read(&mut self, wire: Wire) -> bool {
        let (from, to, rail) = wire;
        let result = self.read_piece(wire);
        if let Err(error) = result {
            let cause = RailCause::Protocol(error);
            self.hosts[to].machine.rail_down(rail as Rail, from as Node, cause, self.now);
            self.flying.remove(&wire);
            self.arriving.remove(&wire);
        }
        true
    }

    fn read_piece(&mut self, wire: Wire) -> Result<(), FrameError> {
        let (from, to, rail) = wire;
        let (peer, rail) = (from as Node, rail as Rail);
        let host = &mut self.hosts[to];
        if let Some(arriving) = self.arriving.get_mut(&wire) {
            let left = arriving.payload.len() - arriving.at;
            if left > 0 {
                let mut n = 1 + self.rng.below(left);
                if let Landing::Into(region) = host.machine.landing(rail, peer, arriving.at) {
                    n = n.min(region.len);
                    let to = host.memory.bytes_mut(region.part(0, n)).unwrap();
                    to.copy_from_slice(&arriving.payload[arriving.at..arriving.at + n]);
                }
                arriving.at += n;
                return Ok(());
            }
            assert_eq!(arriving.header.length as usize, arriving.payload.len());
            self.arriving.remove(&wire);
            return host.machine.received(rail, peer, &mut host.memory, self.now);
        }
        let queue = self.flying.get_mut(&wire).unwrap();
        let (bytes, payload) = queue.pop_front().unwrap();
        if queue.is_empty() {
            self.flying.remove(&wire);
        }
        let header = Header::decode(&bytes)?;
        host.machine.begin(rail, peer, &header, self.now)?;
        self.arriving.insert(wire, Arriving { header, payload, at: 0 });
        Ok(())
    }

    /// Runs until everything that was posted has completed, or nothing can happen any more. Time jumps to the next
    /// deadline when nothing else is left.
    pub fn run(&mut self, expected: usize) {
        for _ in 0..20_000_000 {
            if self.hosts.iter().map(|h| h.done.len()).sum::<usize>() >= expected {
                return;
            }
            if !self.step() {
                let deadlines = self.hosts.iter().filter_map(|h| h.machine.next_deadline());
                let Some(next) = deadlines.min() else { panic!("nothing can happen and no deadline is set") };
                self.now = self.now.max(next);
            }
        }
        panic!("no end after 20 million steps");
    }

    /// Lets everything that is on its way arrive.
    pub fn settle(&mut self) {
        while self.step() {}
    }

    /// Takes a rail between two nodes down on both ends, losing what is on it.
    pub fn cut(&mut self, a: usize, b: usize, rail: usize) {
        for (from, to) in [(a, b), (b, a)] {
            let wire = (from, to, rail);
            self.cut.push(wire);
            self.queued.remove(&wire);
            self.flying.remove(&wire);
            self.arriving.remove(&wire);
            self.hosts[from].machine.rail_down(rail as Rail, to as Node, RailCause::Closed, self.now);
        }
    }
}
