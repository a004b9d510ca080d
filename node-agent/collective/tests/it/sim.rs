//! A network in virtual time: connections with lives, one queue for each direction, served in a seeded random order, in
//! random pieces. Rails can be cut, go dark without a word, and come back; ends hear of that at random times.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use node_agent_collective::shape::Tuning;
use node_agent_collective::units::{Node, Rail, Time};
use node_agent_collective::{
    Arena, BufferId, Call, CallError, Command, Completion, Config, Failure, FrameError, HEADER_BYTES, Header,
    Landing, Machine, Memory, RailCause, Region, Ticket, Transmit,
};
use proto_random::Random;

/// How long a socket is quiet before it asks whether the other end is still there.
const KEEPALIVE: Time = Time::from_secs(1);

/// What all nodes share.
#[derive(Debug, Clone)]
pub struct World {
    pub map: Vec<Node>,
    pub rails: usize,
    pub chunk: usize,
    pub tuning: Tuning,
    pub timeout: Time,
    pub checksum: bool,
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
            checksum: self.checksum,
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
    life: u32,
    header: Header,
    payload: Vec<u8>,
    at: usize,
}

/// From, to, rail.
pub type Wire = (usize, usize, usize);
type Frame = (u32, [u8; HEADER_BYTES], Vec<u8>);

/// What an end of a connection is yet to hear.
enum News {
    Up(u32),
    Down(u32, RailCause),
}

pub struct Net {
    pub rng: Random,
    pub now: Time,
    pub hosts: Vec<Host>,
    /// Bytes that each rail carried.
    pub carried: Vec<u64>,
    /// Bytes of payload that were handed to each direction of each link: (from, to, rail).
    pub handed: BTreeMap<Wire, u64>,
    /// Which life of the link each end has open: (end, other end, rail).
    open: BTreeMap<Wire, u32>,
    /// The last life of each link: (lower, higher, rail).
    lives: BTreeMap<Wire, u32>,
    /// Told to ends at some time, in order.
    news: BTreeMap<Wire, VecDeque<News>>,
    /// Handed to a socket, payload not read yet.
    queued: BTreeMap<Wire, VecDeque<Transmit>>,
    /// On the wire.
    flying: BTreeMap<Wire, VecDeque<Frame>>,
    arriving: BTreeMap<Wire, Arriving>,
    /// Directions in which everything vanishes without a word.
    pub dark: BTreeSet<Wire>,
    /// Links (lower, higher, rail) that cannot be connected.
    pub broken: BTreeSet<Wire>,
    /// Of so many payloads about one is damaged; 0: none.
    pub damage: usize,
    /// Nodes whose process is gone.
    pub dead: BTreeSet<usize>,
}

fn link(a: usize, b: usize, rail: usize) -> Wire {
    (a.min(b), a.max(b), rail)
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
            rng: Random::new(seed),
            now: Time::ZERO,
            hosts: (0..nodes).map(host).collect(),
            carried: vec![0; world.rails],
            handed: BTreeMap::new(),
            open: BTreeMap::new(),
            lives: BTreeMap::new(),
            news: BTreeMap::new(),
            queued: BTreeMap::new(),
            flying: BTreeMap::new(),
            arriving: BTreeMap::new(),
            dark: BTreeSet::new(),
            broken: BTreeSet::new(),
            damage: 0,
            dead: BTreeSet::new(),
        };
        for a in 0..nodes {
            for b in (0..nodes).filter(|&b| b != a) {
                for rail in 0..world.rails {
                    net.lives.insert(link(a, b, rail), 1);
                    net.open.insert((a, b, rail), 1);
                    net.hosts[a].machine.rail_up(rail as Rail, b as Node, 1, Time::ZERO);
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
        self.now += Time::from_nanos(self.rng.word() % 2000);
        let nodes = self.hosts.len();
        const KINDS: usize = 6;
        let first = self.rng.index(KINDS);
        for kind in 0..KINDS {
            let happened = match (first + kind) % KINDS {
                0 => {
                    let start = self.rng.index(nodes);
                    (0..nodes).any(|i| self.pump((start + i) % nodes))
                }
                1 => {
                    let start = self.rng.index(nodes);
                    (0..nodes).any(|i| {
                        let node = (start + i) % nodes;
                        let host = &mut self.hosts[node];
                        !self.dead.contains(&node) && host.machine.work(&mut host.memory, self.now)
                    })
                }
                2 => {
                    self.some(|net| net.queued.keys().copied().collect()).is_some_and(|wire| self.write(wire))
                }
                3 => {
                    self.some(|net| net.news.keys().copied().collect()).is_some_and(|end| self.on_report(end))
                }
                4 => self.some(Net::to_dial).is_some_and(|(a, b, rail)| self.dial(a, b, rail)),
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
        let at = self.rng.index(wires.len());
        wires.get(at).copied()
    }

    fn pump(&mut self, node: usize) -> bool {
        if self.dead.contains(&node) {
            return false;
        }
        let host = &mut self.hosts[node];
        host.machine.tick(self.now);
        let mut any = false;
        for _ in 0..1 + self.rng.index(4) {
            let Some(frame) = host.machine.poll_transmit(&mut host.memory, self.now) else { break };
            let wire = (node, frame.peer.into(), frame.rail.into());
            assert_eq!(
                self.open.get(&wire),
                Some(&frame.header.generation),
                "a frame for a link that is not open"
            );
            *self.handed.entry(wire).or_default() += frame.payload.map_or(0, |region| region.len as u64);
            self.queued.entry(wire).or_default().push_back(frame);
            any = true;
        }
        while let Some(c) = host.machine.poll_completion() {
            assert_eq!(host.done.insert(c.ticket.0, c.result.clone()), None, "completed twice");
            host.ended.push(c);
            any = true;
        }
        self.apply_command(node) || any
    }

    /// What a machine asks of its transport is done at once.
    fn apply_command(&mut self, node: usize) -> bool {
        let mut any = false;
        while let Some(command) = self.hosts[node].machine.poll_command() {
            any = true;
            if let Command::Close { rail, peer, generation, .. } = command {
                self.close(node, peer.into(), rail.into(), generation);
            }
        }
        any
    }

    /// One end closes: what it had queued is dropped; the other end hears of it, unless the rail is dark.
    fn close(&mut self, node: usize, peer: usize, rail: usize, life: u32) {
        if self.open.get(&(node, peer, rail)) != Some(&life) {
            return;
        }
        self.open.remove(&(node, peer, rail));
        self.queued.remove(&(node, peer, rail));
        self.arriving.remove(&(peer, node, rail));
        if !self.dark.contains(&(node, peer, rail)) {
            let news = News::Down(life, RailCause::Closed);
            self.news.entry((peer, node, rail)).or_default().push_back(news);
        }
    }

    /// Links whose dialing end (the higher node) has nothing open and nothing to hear.
    fn to_dial(&self) -> Vec<Wire> {
        let idle = |end: &Wire| !self.open.contains_key(end) && !self.news.contains_key(end);
        let mut all: Vec<Wire> = self.lives.keys().copied().collect();
        all.retain(|&(a, b, rail)| {
            let dark = self.dark.contains(&(a, b, rail)) || self.dark.contains(&(b, a, rail));
            idle(&(b, a, rail)) && !dark && !self.broken.contains(&(a, b, rail))
        });
        all
    }

    fn dial(&mut self, a: usize, b: usize, rail: usize) -> bool {
        let life = self.lives.get_mut(&(a, b, rail)).unwrap();
        *life += 1;
        for end in [(a, b, rail), (b, a, rail)] {
            self.news.entry(end).or_default().push_back(News::Up(*life));
        }
        true
    }

    fn on_report(&mut self, end: Wire) -> bool {
        let (node, peer, rail) = end;
        let queue = self.news.get_mut(&end).unwrap();
        let Some(news) = queue.pop_front() else { return false };
        if queue.is_empty() {
            self.news.remove(&end);
        }
        let here = self.open.get(&end).copied();
        match news {
            News::Down(life, cause) if here == Some(life) => self.down(node, peer, rail, life, cause),
            News::Up(life) if here.is_none_or(|open| open < life) => {
                if let Some(old) = here {
                    self.down(node, peer, rail, old, RailCause::Closed);
                }
                self.open.insert(end, life);
                self.hosts[node].machine.rail_up(rail as Rail, peer as Node, life, self.now);
                self.apply_command(node);
            }
            _ => {}
        }
        true
    }

    fn down(&mut self, node: usize, peer: usize, rail: usize, life: u32, cause: RailCause) {
        self.open.remove(&(node, peer, rail));
        self.queued.remove(&(node, peer, rail));
        self.arriving.remove(&(peer, node, rail));
        self.hosts[node].machine.rail_down(rail as Rail, peer as Node, life, cause, self.now);
        self.apply_command(node);
    }

    /// The socket takes a frame: only now its payload is read.
    fn write(&mut self, wire: Wire) -> bool {
        let queue = self.queued.get_mut(&wire).unwrap();
        let Some(frame) = queue.pop_front() else { return false };
        if queue.is_empty() {
            self.queued.remove(&wire);
        }
        let host = &mut self.hosts[wire.0];
        let mut payload = match frame.payload {
            Some(_) if host.machine.withdrawn(frame.token) => return true,
            Some(region) => host.memory.bytes(region).unwrap().to_vec(),
            None => Vec::new(),
        };
        self.carried[wire.2] += (HEADER_BYTES + payload.len()) as u64;
        host.machine.sent(frame.rail, frame.peer, frame.token, self.now);
        if !payload.is_empty() && self.damage > 0 && self.rng.index(self.damage) == 0 {
            let at = self.rng.index(payload.len());
            payload[at] ^= 1 << self.rng.index(8);
        }
        let back = (wire.1, wire.0, wire.2);
        let life = frame.header.generation;
        let waits = |news: &VecDeque<News>| news.iter().any(|n| matches!(n, News::Up(up) if *up == life));
        let awaited = self.open.get(&back) == Some(&life) || self.news.get(&back).is_some_and(waits);
        if !awaited && !self.dark.contains(&wire) && !self.dark.contains(&back) {
            // Nobody has this connection open there: the answer is a reset.
            self.news.entry(wire).or_default().push_back(News::Down(life, RailCause::Closed));
        }
        if !self.dark.contains(&wire) && !self.broken.contains(&link(wire.0, wire.1, wire.2)) {
            let frame = (frame.header.generation, frame.header.encode(), payload);
            self.flying.entry(wire).or_default().push_back(frame);
        }
        true
    }

    /// A piece of a frame comes in.
    fn read(&mut self, wire: Wire) -> bool {
        let (from, to, rail) = wire;
        if let Err(error) = self.read_piece(wire)
            && let Some(life) = self.open.get(&(to, from, rail)).copied()
        {
            let news = News::Down(life, RailCause::Closed);
            self.news.entry((from, to, rail)).or_default().push_back(news);
            self.down(to, from, rail, life, RailCause::Protocol(error));
        }
        true
    }

    fn read_piece(&mut self, wire: Wire) -> Result<(), FrameError> {
        let (from, to, rail) = wire;
        let (peer, rail_) = (from as Node, rail as Rail);
        let here = self.open.get(&(to, from, rail)).copied();
        let host = &mut self.hosts[to];
        if let Some(arriving) = self.arriving.get_mut(&wire).filter(|a| Some(a.life) == here) {
            let left = arriving.payload.len() - arriving.at;
            if left > 0 {
                let mut n = 1 + self.rng.index(left);
                if let Landing::Into(region) = host.machine.landing(rail_, peer, arriving.at) {
                    n = n.min(region.len);
                    let to = host.memory.bytes_mut(region.part(0, n)).unwrap();
                    to.copy_from_slice(&arriving.payload[arriving.at..arriving.at + n]);
                }
                arriving.at += n;
                return Ok(());
            }
            assert_eq!(arriving.header.length as usize, arriving.payload.len());
            self.arriving.remove(&wire);
            return host.machine.received(rail_, peer, &mut host.memory, self.now);
        }
        self.arriving.remove(&wire);
        let Some(queue) = self.flying.get_mut(&wire) else { return Ok(()) };
        // A frame of a life that has not begun at this end waits in its socket; one of a life that is over comes late, and
        // is shown to the machine all the same.
        let awaited = queue.front().is_some_and(|f| here.is_none_or(|h| f.0 > h));
        if awaited && self.news.contains_key(&(to, from, rail)) {
            return Ok(());
        }
        let Some((life, bytes, payload)) = queue.pop_front() else { return Ok(()) };
        if queue.is_empty() {
            self.flying.remove(&wire);
        }
        let header = Header::decode(&bytes)?;
        let host = &mut self.hosts[to];
        host.machine.begin(rail_, peer, &header, self.now)?;
        if Some(life) == here {
            self.arriving.insert(wire, Arriving { life, header, payload, at: 0 });
        } else {
            assert_eq!(host.machine.landing(rail_, peer, 0), Landing::Discard, "a late frame lands");
            host.machine.received(rail_, peer, &mut host.memory, self.now)?;
        }
        Ok(())
    }

    /// Runs until everything that was posted has completed, or nothing can happen any more. Time jumps to the next
    /// deadline when nothing else is left.
    pub fn run(&mut self, expected: usize) {
        self.run_with(expected, |_| {});
    }

    /// The same, with something else between the steps.
    pub fn run_with(&mut self, expected: usize, mut between: impl FnMut(&mut Net)) {
        for _ in 0..20_000_000 {
            if self.hosts.iter().map(|h| h.done.len()).sum::<usize>() >= expected {
                return;
            }
            between(self);
            if !self.step() {
                self.jump();
            }
        }
        panic!("no end after 20 million steps");
    }

    /// To the next time at which anything is due.
    pub fn jump(&mut self) {
        let living = self.hosts.iter().enumerate().filter(|(node, _)| !self.dead.contains(node));
        let deadlines = living.filter_map(|(_, h)| h.machine.next_deadline());
        let Some(next) = deadlines.min() else { panic!("nothing can happen and no deadline is set") };
        if next > self.now + KEEPALIVE && self.keep_alive() {
            self.now += KEEPALIVE;
            return;
        }
        self.now = self.now.max(next);
    }

    /// Sockets ask now and then whether the other end is still open, and are reset if it is not: an end whose peer closed
    /// while the rail was dark never heard of it. Says whether there was one.
    fn keep_alive(&mut self) -> bool {
        let open: Vec<(Wire, u32)> = self.open.iter().map(|(wire, life)| (*wire, *life)).collect();
        let mut any = false;
        for (wire, life) in open {
            let back = (wire.1, wire.0, wire.2);
            let dark = self.dark.contains(&wire) || self.dark.contains(&back) || self.dead.contains(&wire.1);
            if !dark && self.open.get(&back) != Some(&life) && !self.news.contains_key(&back) {
                self.news.entry(wire).or_default().push_back(News::Down(life, RailCause::Closed));
                any = true;
            }
        }
        any
    }

    /// Lets everything that is on its way arrive.
    pub fn settle(&mut self) {
        while self.step() {}
    }

    /// Cuts a rail between two nodes for good: both ends hear of it at some time, and what is on it is lost.
    pub fn cut(&mut self, a: usize, b: usize, rail: usize) {
        self.broken.insert(link(a, b, rail));
        for (from, to) in [(a, b), (b, a)] {
            let wire = (from, to, rail);
            self.flying.remove(&wire);
            self.arriving.remove(&wire);
            self.news.remove(&wire);
            if let Some(life) = self.open.get(&wire).copied() {
                self.news.entry(wire).or_default().push_back(News::Down(life, RailCause::Closed));
            }
        }
    }

    /// A rail that was cut can be connected again.
    pub fn remediate(&mut self, a: usize, b: usize, rail: usize) {
        self.broken.remove(&link(a, b, rail));
    }

    /// Everything that goes from one node to another over a rail vanishes from now on, and nobody is told.
    pub fn darken_one(&mut self, from: usize, to: usize, rail: usize) {
        self.dark.insert((from, to, rail));
        self.flying.remove(&(from, to, rail));
    }

    /// A node's port loses its carrier: the node itself knows, its peers see silence.
    pub fn port_down(&mut self, node: usize, rail: usize) {
        for peer in (0..self.hosts.len()).filter(|&p| p != node) {
            self.darken(node, peer, rail);
        }
        self.hosts[node].machine.port_down(rail as Rail, self.now);
        self.apply_command(node);
    }

    /// The port is back.
    pub fn port_up(&mut self, node: usize, rail: usize) {
        for peer in (0..self.hosts.len()).filter(|&p| p != node) {
            self.lighten(node, peer, rail);
        }
        self.hosts[node].machine.port_up(rail as Rail, self.now);
        self.apply_command(node);
    }

    /// A node moves its work off a rail, or back on it.
    pub fn drain(&mut self, node: usize, rail: usize, on: bool) {
        self.hosts[node].machine.drain(rail as Rail, on);
    }

    /// A node's process is gone. Its connections end, or, if the whole server is gone, fall silent.
    pub fn kill(&mut self, node: usize, silently: bool) {
        self.dead.insert(node);
        let rails = self.carried.len();
        for peer in (0..self.hosts.len()).filter(|&p| p != node) {
            for rail in 0..rails {
                self.broken.insert(link(node, peer, rail));
                for wire in [(node, peer, rail), (peer, node, rail)] {
                    self.flying.remove(&wire);
                    self.arriving.remove(&wire);
                }
                self.queued.remove(&(node, peer, rail));
                self.open.remove(&(node, peer, rail));
                self.news.remove(&(node, peer, rail));
                if let Some(life) = self.open.get(&(peer, node, rail)).copied().filter(|_| !silently) {
                    let news = News::Down(life, RailCause::Closed);
                    self.news.entry((peer, node, rail)).or_default().push_back(news);
                }
            }
        }
    }

    /// Everything on the rail between two nodes vanishes from now on, and nobody is told.
    pub fn darken(&mut self, a: usize, b: usize, rail: usize) {
        for wire in [(a, b, rail), (b, a, rail)] {
            self.dark.insert(wire);
            self.flying.remove(&wire);
        }
    }

    /// The rail carries again; what it swallowed stays lost, so its connections are no good any more.
    pub fn lighten(&mut self, a: usize, b: usize, rail: usize) {
        for (from, to) in [(a, b), (b, a)] {
            let wire = (from, to, rail);
            if self.dark.remove(&wire)
                && let Some(life) = self.open.get(&wire).copied()
            {
                self.news.entry(wire).or_default().push_back(News::Down(life, RailCause::Closed));
            }
        }
    }
}
