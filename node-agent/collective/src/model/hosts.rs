//! The machines with their memories, as numbered values: whoever is equal has one number, and what happens to whom gives whom is
//! worked out once. A world holds nothing but numbers, so that millions of worlds cost little.
//!
//! What takes no time is done at once: after each input a machine is polled until it has nothing to do, as an engine does.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Canon, Sabotage};
use crate::error::RailCause;
use crate::machine::{Command, Landing, Transmit};
use crate::memory::{BufferId, Memory, Region};
use crate::shape::{Config, Tuning};
use crate::units::{Node, Rail, Time};
use crate::{Call, Header, Machine};

/// The moment at which everything happens: when time passes, what was before becomes older instead.
const NOW: Time = Time::from_secs(1_000_000);
/// Deadlines from here on are of operations that hang.
const FAR: Time = Time::from_secs(2_000_000);
/// What a rank writes to its buffers as soon as they are its own again.
const REUSED: u8 = 0x5a;
/// Bytes of a chunk.
const CHUNK: usize = 64;

/// Number of a host or a packet.
pub type Id = u32;

/// The system that is explored: its size, the calls, and how sockets and acknowledgements behave.
#[derive(Debug, Clone)]
pub struct Setup {
    pub nodes: usize,
    pub rails: usize,
    /// Calls of each node's only rank, one after the other, all all-reduces in place.
    pub calls: Vec<Call>,
    /// Whether a socket takes a payload when it is handed to it, or when its bytes go out at last.
    pub eager_sockets: bool,
    /// Whether a frame is acknowledged at once.
    pub eager_acks: bool,
    pub sabotage: Option<Sabotage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Input {
    /// The rank makes its next call.
    Post,
    /// A frame comes in; begins to come in, up to half of its payload; comes in to its end.
    Frame {
        rail: u8,
        peer: u8,
        packet: Id,
    },
    Begin {
        rail: u8,
        peer: u8,
        packet: Id,
    },
    End {
        rail: u8,
        peer: u8,
        packet: Id,
    },
    /// A frame of a life that is over comes in.
    Late {
        rail: u8,
        peer: u8,
        packet: Id,
    },
    /// The payload of the link's frame with this number has gone out.
    Sent {
        rail: u8,
        peer: u8,
        number: u32,
    },
    Up {
        rail: u8,
        peer: u8,
        life: u8,
    },
    Down {
        rail: u8,
        peer: u8,
        life: u8,
    },
    /// So much time passes.
    Age(Time),
}

#[derive(Debug, Clone, Copy)]
pub enum Out {
    Frame { rail: u8, peer: u8, packet: Id },
    Close { rail: u8, peer: u8, life: u8 },
}

/// The outcome of an input: the host after it, and what it sent.
#[derive(Debug)]
pub struct Outcome {
    pub host: Id,
    pub out: Vec<Out>,
}

/// A frame on a wire. Without a payload: it is read when it goes out.
#[derive(Debug, Clone)]
pub struct Packet {
    pub header: Header,
    pub payload: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub struct Host {
    machine: Machine,
    memory: Pages,
    pub posted: usize,
    pub done: usize,
    /// When it wants to be looked at again, if that is not for ever.
    pub deadline: Option<Time>,
}

/// Buffers of ranks, and those pages of the scratch region that were written.
#[derive(Debug, Clone, Default)]
struct Pages {
    buffers: Vec<Vec<u8>>,
    scratch: Vec<(usize, [u8; CHUNK])>,
}

const SCRATCH: BufferId = BufferId(u64::MAX - 1);

impl Memory for Pages {
    fn bytes(&self, region: Region) -> Option<&[u8]> {
        let range = |at: usize| at..at + region.len;
        if region.len == 0 {
            return Some(&[]);
        }
        if region.buffer != SCRATCH {
            return self.buffers.get(region.buffer.0 as usize)?.get(range(region.offset));
        }
        // Slots and copies begin at multiples of a chunk and are no longer than one.
        let page = self.scratch.iter().find(|p| p.0 == region.offset / CHUNK);
        page.map_or(&[0; CHUNK][..], |p| &p.1[..]).get(range(region.offset % CHUNK))
    }

    fn bytes_mut(&mut self, region: Region) -> Option<&mut [u8]> {
        let range = |at: usize| at..at + region.len;
        if region.len == 0 {
            return Some(&mut []);
        }
        if region.buffer != SCRATCH {
            return self.buffers.get_mut(region.buffer.0 as usize)?.get_mut(range(region.offset));
        }
        let page = region.offset / CHUNK;
        let at = self.scratch.iter().position(|p| p.0 == page).unwrap_or_else(|| {
            self.scratch.push((page, [0; CHUNK]));
            self.scratch.len() - 1
        });
        self.scratch[at].1.get_mut(range(region.offset % CHUNK))
    }
}

/// All hosts and packets that were met.
#[derive(Debug)]
pub struct Hosts {
    pub setup: Setup,
    /// What each call should give.
    wanted: Vec<Vec<u8>>,
    hosts: Vec<Host>,
    names: BTreeMap<u128, Id>,
    packets: Vec<Packet>,
    packet_names: BTreeMap<u128, Id>,
    outcomes: BTreeMap<(Id, Input), Result<Rc<Outcome>, String>>,
}

impl Hosts {
    pub fn new(setup: Setup) -> Self {
        let nodes = setup.nodes;
        let inputs = |call: &Call| (0..nodes).map(|n| input(n, call)).collect::<Vec<_>>();
        let mut hosts = Hosts {
            wanted: setup.calls.iter().map(|call| expected(&inputs(call))).collect(),
            hosts: Vec::new(),
            names: BTreeMap::new(),
            packets: Vec::new(),
            packet_names: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            setup,
        };
        for node in 0..nodes {
            let mut machine = Machine::new(config(&hosts.setup, node)).unwrap();
            (machine.sabotage, machine.planless) = (hosts.setup.sabotage, true);
            for peer in (0..nodes).filter(|&p| p != node) {
                for rail in 0..hosts.setup.rails {
                    machine.rail_up(rail as Rail, peer as Node, 1, NOW);
                }
            }
            let buffers = hosts.setup.calls.iter().map(|call| input(node, call)).collect();
            let memory = Pages { buffers, scratch: Vec::new() };
            let mut host = Host { machine, memory, posted: 0, done: 0, deadline: None };
            // The first connections bring a probe each, to measure with: they are lost.
            host.poll(&mut hosts).unwrap();
            // Two nodes are never one host: their names are their places.
            assert_eq!(hosts.intern(host), node as Id);
        }
        hosts
    }

    pub fn now(&self) -> Time {
        NOW
    }

    pub fn get(&self, id: Id) -> &Host {
        &self.hosts[id as usize]
    }

    pub fn packet(&self, id: Id) -> &Packet {
        &self.packets[id as usize]
    }

    /// How many hosts there are.
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    fn intern(&mut self, mut host: Host) -> Id {
        let next = self.hosts.len() as Id;
        let id = *self.names.entry(host.digest()).or_insert(next);
        if id == next {
            host.deadline = host.machine.next_deadline().filter(|&at| at < FAR);
            self.hosts.push(host);
        }
        id
    }

    fn pack(&mut self, packet: Packet) -> Id {
        let mut canon = Canon::new();
        canon.header(&packet.header);
        canon.put(packet.payload.is_some());
        canon.bytes(packet.payload.as_deref().unwrap_or(&[]));
        let next = self.packets.len() as Id;
        let id = *self.packet_names.entry(canon.end()).or_insert(next);
        if id == next {
            self.packets.push(packet);
        }
        id
    }

    /// The outcome of an input to a host.
    ///
    /// # Errors
    /// The host breaks a rule that the model checks; the text says which.
    pub fn after(&mut self, id: Id, input: Input) -> Result<Rc<Outcome>, String> {
        if let Some(outcome) = self.outcomes.get(&(id, input)) {
            return outcome.clone();
        }
        let mut host = self.get(id).clone();
        let out = host.happen(self, input);
        let outcome = out.map(|out| Rc::new(Outcome { host: self.intern(host), out }));
        self.outcomes.insert((id, input), outcome.clone());
        outcome
    }

    /// A packet with the payload as it lies at its sender now.
    ///
    /// # Errors
    /// The payload is nowhere, or its frame was withdrawn without a failure.
    pub fn written(&mut self, sender: Id, rail: u8, peer: u8, packet: Id) -> Result<Id, String> {
        let header = self.packet(packet).header;
        let host = self.get(sender);
        let (token, region) = host
            .machine
            .on_way(rail.into(), peer.into(), header.number)
            .ok_or("a payload that is nowhere")?;
        if host.machine.withdrawn(token) {
            return Err("a payload is withdrawn without a failure".to_owned());
        }
        let bytes = host.memory.bytes(region).ok_or("no such payload")?.to_vec();
        Ok(self.pack(Packet { header, payload: Some(bytes) }))
    }
}

fn config(setup: &Setup, node: usize) -> Config {
    let tuning = Tuning {
        // A quarter of the window is acknowledged at once: that is less than a frame, or more than all of them.
        link_window: Some(if setup.eager_acks { 380 } else { 1 << 16 }),
        eager_bytes: CHUNK,
        eager_chunks: 2,
        stage_bytes: 1,
        peer_grace: FAR,
        ..Tuning::default()
    };
    Config {
        node: node as Node,
        nodes: setup.nodes,
        ranks: (0..setup.nodes as Node).collect(),
        rails: setup.rails,
        chunk_bytes: CHUNK,
        op_timeout: FAR,
        epoch: 7,
        scratch: Region::new(SCRATCH, 0, 1 << 30),
        checksum: false,
        tuning,
    }
}

impl Host {
    fn digest(&self) -> u128 {
        let mut canon = Canon::new();
        canon.put(self.machine.layout().node);
        canon.size(self.posted);
        canon.size(self.done);
        self.memory.buffers.iter().for_each(|b| canon.bytes(b));
        self.machine.digest(&mut canon, &self.memory, NOW);
        canon.end()
    }

    fn happen(&mut self, hosts: &mut Hosts, input: Input) -> Result<Vec<Out>, String> {
        let machine = &mut self.machine;
        let mut result = Ok(());
        match input {
            Input::Post => {
                let call = hosts.setup.calls[self.posted];
                let buffer = Region::new(BufferId(self.posted as u64), 0, call.bytes().unwrap_or(0));
                let rank = u32::from(machine.layout().node);
                self.posted += 1;
                machine.post(rank, call, buffer, buffer, NOW).map_err(|e| e.to_string())?;
            }
            Input::Frame { rail, peer, packet } => {
                result = self.frame(rail, peer, hosts.packet(packet), 0, 2)
            }
            Input::Begin { rail, peer, packet } => {
                result = self.frame(rail, peer, hosts.packet(packet), 0, 1)
            }
            Input::End { rail, peer, packet } => result = self.frame(rail, peer, hosts.packet(packet), 1, 2),
            Input::Late { rail, peer, packet } => {
                let late = self.frame(rail, peer, hosts.packet(packet), 0, 2);
                late.map_err(|e| format!("a late frame is an error: {}", e.2))?;
            }
            Input::Sent { rail, peer, number } => {
                if let Some((token, _)) = machine.on_way(rail.into(), peer.into(), number) {
                    machine.sent(rail.into(), peer.into(), token, NOW);
                }
            }
            Input::Up { rail, peer, life } => machine.rail_up(rail.into(), peer.into(), life.into(), NOW),
            Input::Down { rail, peer, life } => {
                machine.rail_down(rail.into(), peer.into(), life.into(), RailCause::Closed, NOW);
            }
            Input::Age(by) => machine.age(by),
        }
        let mut out = Vec::new();
        if let Err((rail, peer, error)) = result {
            // As a transport does: the connection is closed.
            let life = self.machine.link(rail.into(), peer.into()).map_or(0, |l| l.generation());
            self.machine.rail_down(rail.into(), peer.into(), life, RailCause::Protocol(error), NOW);
            out.push(Out::Close { rail, peer, life: life as u8 });
        }
        out.extend(self.poll(hosts)?);
        Ok(out)
    }

    /// A frame comes in, from one half to another.
    fn frame(
        &mut self,
        rail: u8,
        peer: u8,
        packet: &Packet,
        from: usize,
        to: usize,
    ) -> Result<(), (u8, u8, crate::FrameError)> {
        let (rail_, peer_) = (Rail::from(rail), Node::from(peer));
        let bytes = packet.payload.as_deref().unwrap_or(&[]);
        if from == 0 {
            self.machine.begin(rail_, peer_, &packet.header, NOW).map_err(|e| (rail, peer, e))?;
        }
        let (mut at, end) = (bytes.len() * from / 2, bytes.len() * to / 2);
        while at < end
            && let Landing::Into(region) = self.machine.landing(rail_, peer_, at)
        {
            let n = region.len.min(end - at);
            if let Some(place) = self.memory.bytes_mut(region.part(0, n)) {
                place.copy_from_slice(&bytes[at..at + n]);
            }
            at += n;
        }
        if to == 2 {
            self.machine.received(rail_, peer_, &mut self.memory, NOW).map_err(|e| (rail, peer, e))?;
        }
        Ok(())
    }

    /// Polls the machine until it has nothing to do, and checks what must hold at any time.
    fn poll(&mut self, hosts: &mut Hosts) -> Result<Vec<Out>, String> {
        let mut out = Vec::new();
        loop {
            self.machine.tick(NOW);
            while self.machine.work(&mut self.memory, NOW) {}
            if let Some(frame) = self.machine.poll_transmit(&mut self.memory, NOW) {
                out.push(self.hand(hosts, frame)?);
                continue;
            }
            self.completions(hosts)?;
            let Some(command) = self.machine.poll_command() else { break };
            if let Command::Close { rail, peer, generation, .. } = command {
                out.push(Out::Close { rail: rail as u8, peer: peer as u8, life: generation as u8 });
            }
        }
        if let Some(failure) = self.machine.failure() {
            return Err(format!("node {} failed: {failure}", self.machine.layout().node));
        }
        let ended = self.memory.buffers[..self.done].iter().flatten();
        match ended.into_iter().all(|&b| b == REUSED) {
            true => Ok(out),
            false => Err("a byte landed in a buffer after its call had ended".to_owned()),
        }
    }

    fn hand(&mut self, hosts: &mut Hosts, frame: Transmit) -> Result<Out, String> {
        let Transmit { rail, peer, header, payload, token } = frame;
        let payload = match payload {
            Some(region) if hosts.setup.eager_sockets => {
                let bytes = self.memory.bytes(region).ok_or("no such payload")?.to_vec();
                self.machine.sent(rail, peer, token, NOW);
                Some(bytes)
            }
            Some(_) => None,
            None => Some(Vec::new()),
        };
        if header.number > 0 && header.length == 0 {
            self.machine.sent(rail, peer, token, NOW);
        }
        Ok(Out::Frame { rail: rail as u8, peer: peer as u8, packet: hosts.pack(Packet { header, payload }) })
    }

    fn completions(&mut self, hosts: &Hosts) -> Result<(), String> {
        while let Some(end) = self.machine.poll_completion() {
            end.result.map_err(|failure| failure.to_string())?;
            let (bytes, want) = (&mut self.memory.buffers[self.done], &hosts.wanted[self.done]);
            self.done += 1;
            if bytes != want {
                return Err(format!("wrong bits: {bytes:?}, not {want:?}"));
            }
            bytes.fill(REUSED);
        }
        Ok(())
    }
}

/// Elements whose sum shows which were added, and in which order.
fn input(node: usize, call: &Call) -> Vec<u8> {
    let element = |i: u64| [1.0e8f32, 3.25, -1.0e8][node] + (i * if node == 1 { 1 } else { 8 }) as f32;
    (0..call.count).flat_map(|i| element(i).to_ne_bytes()).collect()
}

/// An all-reduce, block by block in its order.
fn expected(inputs: &[Vec<u8>]) -> Vec<u8> {
    let (nodes, bytes) = (inputs.len(), inputs[0].len());
    let units = bytes.div_ceil(64);
    let owner = |at: usize| (0..nodes).rfind(|b| units * b / nodes * 64 <= at).unwrap();
    let value = |node: usize, at: usize| f32::from_ne_bytes(inputs[node][at..at + 4].try_into().unwrap());
    let term = |at: usize, i: usize| value((owner(at) + i) % nodes, at);
    let sum = |at: usize| (2..=nodes).fold(term(at, 1), |sum, i| sum + term(at, i));
    (0..bytes).step_by(4).flat_map(|at| sum(at).to_ne_bytes()).collect()
}
