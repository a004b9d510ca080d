//! The collective machine among hostile peers: local ranks make calls, peers send whatever they like, rails come and go.
//!
//! It may fail, in a typed way. It may not panic, land a byte outside a buffer that it was given, complete a call
//! twice or never, or keep more than its bounds.

use std::collections::BTreeMap;

use node_agent_collective::{
    Arena, Call, Command, Config, Dtype, Header, Landing, Machine, Memory, Operation, RailCause, ReduceOp,
    Region, Ticket,
    header::{HEADER_BYTES, Key, Kind, VERSION},
    shape::Tuning,
    units::{Node, Rail, Time},
};

use super::take::Take;

const RAILS: Rail = 2;
const NODES: Node = 3;
const EPOCH: u32 = 5;
/// Ranks 0 and 1 are here, 2 and 3 are the peers'.
const RANKS: [Node; 4] = [0, 0, 1, 2];
/// Calls under way at once; more would only be slow.
const MAX_CALLS: usize = 24;

/// The bytes are a program: each step is one event at the machine.
pub fn run(data: &[u8]) {
    let mut take = Take(data);
    let Some(mut world) = World::new(take.u8()) else { return };
    for _ in 0..512 {
        if take.is_empty() {
            break;
        }
        world.step(&mut take);
    }
    world.end();
}

struct World {
    machine: Machine,
    memory: Arena,
    shape: u32,
    now: Time,
    /// Calls under way, with their operands.
    calls: BTreeMap<Ticket, [Region; 2]>,
    /// Bytes handed to each link since it came up.
    handed: BTreeMap<(Rail, Node), u64>,
    /// The life of each link that is or was the last, and how many counted frames came in whole in it.
    lives: BTreeMap<(Rail, Node), (u32, u32)>,
    /// Frames whose payload is coming in, how far it is, and whether the frame counts.
    incoming: BTreeMap<(Rail, Node), (usize, usize, bool)>,
    /// Frames given out and not reported as sent.
    unsent: Vec<(Rail, Node, u64)>,
}

impl World {
    fn new(mode: u8) -> Option<Self> {
        let tuning = Tuning {
            link_window: (mode & 1 == 1).then_some(4096),
            eager_bytes: if mode & 2 == 2 { 64 } else { 512 },
            eager_chunks: 2,
            stage_bytes: 4096,
            ..Tuning::default()
        };
        let mut config = Config {
            node: Node::from(mode >> 2 & 1),
            nodes: usize::from(NODES),
            ranks: RANKS.to_vec(),
            rails: usize::from(RAILS),
            chunk_bytes: if mode & 8 == 8 { 64 } else { 1024 },
            op_timeout: Time::from_secs(1),
            epoch: EPOCH,
            checksum: mode & 16 == 16,
            scratch: Region::EMPTY,
            tuning,
        };
        let mut memory = Arena::new();
        config.scratch = memory.insert(vec![0; config.scratch_bytes()]);
        // The digest that frames must carry is seen in the first frame of an equal machine.
        let mut twin = Machine::new(config.clone()).ok()?;
        let peer = (0..NODES).find(|node| *node != config.node)?;
        twin.rail_up(0, peer, 1, Time::ZERO);
        twin.leave();
        let shape = twin.poll_transmit(&mut memory, Time::ZERO)?.header.shape;
        Some(World {
            machine: Machine::new(config).ok()?,
            memory,
            shape,
            now: Time::ZERO,
            calls: BTreeMap::new(),
            handed: BTreeMap::new(),
            lives: BTreeMap::new(),
            incoming: BTreeMap::new(),
            unsent: Vec::new(),
        })
    }

    fn step(&mut self, take: &mut Take<'_>) {
        let act = take.u8();
        let (rail, peer) = (Rail::from(act >> 5 & 1), Node::from(act >> 6) % NODES);
        match act & 31 {
            0..=2 => self.up(rail, peer),
            3 => self.down(rail, peer, RailCause::Closed),
            4..=10 => self.post(take),
            11..=19 => {
                let header = self.header(rail, peer, take);
                self.frame(rail, peer, header, take);
            }
            20 => {
                let mut bytes = [0; HEADER_BYTES];
                let given = take.bytes(HEADER_BYTES);
                bytes[..given.len()].copy_from_slice(given);
                bytes[..4].copy_from_slice(b"RAIL");
                bytes[4] = VERSION;
                if let Ok(header) = Header::decode(&bytes) {
                    let header = Header { epoch: EPOCH, shape: self.shape, ..header };
                    self.frame(rail, peer, header, take);
                }
            }
            21..=25 => self.transmit(usize::from(act >> 5) + 1),
            26 => self.sent(take.u8()),
            27 => _ = self.machine.work(&mut self.memory, self.now),
            28 => {
                self.now += Time::from_millis(u64::from(take.u8()));
                self.machine.tick(self.now);
            }
            29 => self.finish_frame(rail, peer),
            30 => self.machine.leave(),
            _ => match take.u8() {
                0 => self.machine.stop("enough", self.now),
                1 => self.machine.rank_gone(0, self.now),
                2 => self.machine.port_down(rail, self.now),
                3 => self.machine.port_up(rail, self.now),
                4 => self.machine.drain(rail, true),
                5 => self.machine.drain(rail, false),
                _ => {}
            },
        }
        self.commands();
        self.completions();
        self.bounded();
    }

    fn is_open(&self, rail: Rail, peer: Node) -> bool {
        self.machine.link(rail, peer).is_some_and(node_agent_collective::link::Link::is_open)
    }

    fn up(&mut self, rail: Rail, peer: Node) {
        if !self.is_open(rail, peer) {
            let life = self.lives.entry((rail, peer)).or_default();
            *life = (life.0 + 1, 0);
            self.machine.rail_up(rail, peer, life.0, self.now);
            self.handed.insert((rail, peer), 0);
        }
    }

    fn down(&mut self, rail: Rail, peer: Node, cause: RailCause) {
        let generation = self.lives.get(&(rail, peer)).map_or(0, |life| life.0);
        self.machine.rail_down(rail, peer, generation, cause, self.now);
        self.over(rail, peer);
    }

    /// The transport has nothing more of a life.
    fn over(&mut self, rail: Rail, peer: Node) {
        self.incoming.remove(&(rail, peer));
        self.unsent.retain(|(r, p, _)| (*r, *p) != (rail, peer));
    }

    fn commands(&mut self) {
        while let Some(command) = self.machine.poll_command() {
            match command {
                Command::Close { rail, peer, generation, .. } => {
                    if self.lives.get(&(rail, peer)).is_some_and(|life| life.0 == generation) {
                        self.over(rail, peer);
                    }
                }
                Command::Redial { rail, peer } => assert!(!self.is_open(rail, peer), "dials what is open"),
            }
        }
    }

    /// Frames about rails, true or not.
    fn about_rails(rail: Rail, how: u8, take: &mut Take<'_>) -> Kind {
        let number = u64::from(take.u8() & 3);
        let generation = u32::from(take.u8() & 7);
        match how & 7 {
            0 | 1 => Kind::Fence {
                rail: Rail::from(take.u8() & 3),
                generation,
                frames: number as u32,
                asks: how & 8 == 8,
            },
            2 => Kind::Fence { rail, generation, frames: take.u64() as u32, asks: how & 8 == 8 },
            3 => Kind::Probe { number },
            4 | 5 => Kind::Echo { number },
            6 => Kind::Back { rail: Rail::from(take.u8() & 3) },
            _ => Kind::Drain { rail: Rail::from(take.u8() & 3), on: how & 8 == 8 },
        }
    }

    /// Reports and plans, sensible or not.
    fn about_plans(how: u8, take: &mut Take<'_>) -> Kind {
        let wide = |take: &mut Take<'_>| (take.u64() as u32).wrapping_shl(how.into());
        let (version, capacity) = (u32::from(take.u8() & 7), u16::from(take.u8()) * 5);
        let (alpha_ns, beta_ps) = (wide(take), wide(take));
        let (index, of, node) = (take.u8().into(), take.u8().into(), take.u8().into());
        match how & 3 {
            0 => Kind::Report { capacity: capacity.min(1024), alpha_ns, beta_ps },
            1 => Kind::PlanTaken { version },
            _ => Kind::PlanPart { version, index, of, node, capacity: capacity.min(1024), alpha_ns, beta_ps },
        }
    }

    fn call(take: &mut Take<'_>) -> Call {
        let (kind, codes) = (take.below(8), take.u8());
        let rank = u32::from(take.below(5));
        let operation = match kind {
            0 | 1 => Operation::AllReduce,
            2 => Operation::AllGather,
            3 => Operation::ReduceScatter,
            4 => Operation::Broadcast { root: rank },
            5 => Operation::AllToAll,
            6 => Operation::Barrier,
            _ if codes & 64 == 0 => Operation::Send { to: rank, tag: u32::from(codes >> 7) },
            _ => Operation::Recv { from: rank, tag: u32::from(codes >> 7) },
        };
        let dtype = Dtype::ALL[usize::from(codes & 7) % Dtype::ALL.len()];
        let reduce = ReduceOp::ALL[usize::from(codes >> 3 & 3)];
        let count = u64::from(take.u8()) * if codes & 32 == 0 { 1 } else { 16 };
        Call { operation, dtype, reduce, count }.canonical()
    }

    fn post(&mut self, take: &mut Take<'_>) {
        let (rank, call) = (u32::from(take.below(3)), Self::call(take));
        let (Some(input), Some(output)) = (call.input_bytes(RANKS.len()), call.output_bytes(RANKS.len()))
        else {
            return;
        };
        if self.calls.len() >= MAX_CALLS {
            return;
        }
        let operands = [input, output].map(|bytes| self.memory.insert(vec![1; bytes]));
        match self.machine.post(rank, call, operands[0], operands[1], self.now) {
            Ok(ticket) => assert!(self.calls.insert(ticket, operands).is_none(), "{ticket:?} twice"),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                operands.iter().for_each(|region| _ = self.memory.remove(region.buffer));
            }
        }
    }

    /// An operation that a frame may be about.
    fn key(how: u8, take: &mut Take<'_>) -> Key {
        let seq = take.u64();
        match how & 3 {
            0..=2 => Key::Collective { seq },
            _ => Key::Pair {
                from: u32::from(take.below(5)),
                to: u32::from(take.below(5)),
                tag: u32::from(take.below(2)),
                seq,
            },
        }
    }

    /// A header as a peer could make it that knows the job and means harm.
    fn header(&self, rail: Rail, peer: Node, take: &mut Take<'_>) -> Header {
        let (kind, how) = (take.below(8), take.u8());
        let key = Self::key(how, take);
        let call = Self::call(take);
        let (kind, key) = match kind {
            0 | 1 => (Kind::Ready, key),
            2 => (Kind::Grant, key),
            3 => (Kind::Ack, Key::Link),
            4 if how & 128 != 0 => (Kind::Bye, Key::Link),
            5 => (Self::about_rails(rail, how, take), Key::Link),
            6 if how & 96 == 96 => (Self::about_plans(how, take), Key::Link),
            _ => (
                Kind::Data {
                    step: take.below(4),
                    block: u32::from(take.below(6)),
                    offset: take.u64().wrapping_mul(64),
                },
                key,
            ),
        };
        let length = match kind {
            Kind::Data { .. } if how & 4 == 0 => u32::from(take.u8()) * 16,
            Kind::Data { .. } => u32::from(take.u8()),
            _ => 0,
        };
        let value = match kind {
            Kind::Ready | Kind::Grant | Kind::Drain { .. } => take.u64(),
            _ => 0,
        };
        let handed = self.handed.get(&(rail, peer)).copied().unwrap_or(0);
        let outstanding = self.machine.link(rail, peer).map_or(0, |link| link.outstanding());
        let acked = match how >> 3 & 7 {
            0 => take.u64(),
            1..=3 => handed.saturating_sub(outstanding),
            _ => handed,
        };
        let epoch = if how & 192 == 192 { take.u8().into() } else { EPOCH };
        let (life, took) = self.lives.get(&(rail, peer)).copied().unwrap_or_default();
        // Mostly as it should be: else nothing would ever be taken.
        let odd = take.u8();
        let generation = if odd & 15 == 15 { u32::from(odd >> 4) } else { life };
        let number = match kind.is_counted() {
            true if odd & 240 == 240 => u32::from(take.u8()),
            true => took + 1,
            false => 0,
        };
        let checksum = take.u8().into();
        let sent_us = if odd & 8 == 8 { take.u64() as u32 } else { 0 };
        let header = Header {
            call: Some(call),
            value,
            acked,
            length,
            checksum,
            generation,
            number,
            plan: odd,
            sent_us,
            ..Header::control(kind, key, epoch, self.shape)
        };
        // As it comes from the wire: what cannot be said there cannot be sent.
        Header::decode(&header.encode())
            .unwrap_or(Header { length: 0, ..Header::control(Kind::Ack, Key::Link, EPOCH, self.shape) })
    }

    fn frame(&mut self, rail: Rail, peer: Node, header: Header, take: &mut Take<'_>) {
        if !self.is_open(rail, peer) {
            return;
        }
        self.finish_frame(rail, peer);
        self.commands();
        if !self.is_open(rail, peer) {
            return;
        }
        let (life, took) = self.lives.get(&(rail, peer)).copied().unwrap_or_default();
        let counts = header.kind.is_counted() && header.generation == life && header.number == took + 1;
        match self.machine.begin(rail, peer, &header, self.now) {
            Ok(()) => {
                self.incoming.insert((rail, peer), (header.length as usize, 0, counts));
                if take.u8() & 3 != 0 {
                    self.finish_frame(rail, peer);
                }
            }
            Err(error) => self.down(rail, peer, RailCause::Protocol(error)),
        }
    }

    /// The payload comes in and lands where the machine says.
    fn finish_frame(&mut self, rail: Rail, peer: Node) {
        let Some((length, mut at, counts)) = self.incoming.remove(&(rail, peer)) else { return };
        while at < length {
            match self.machine.landing(rail, peer, at) {
                Landing::Discard => break,
                Landing::Into(region) => {
                    assert!((1..=length - at).contains(&region.len), "{region:?} for {} bytes", length - at);
                    let bytes = self.memory.bytes_mut(region);
                    assert!(bytes.is_some(), "lands at {region:?}, which is no buffer");
                    bytes.into_iter().for_each(|bytes| bytes.fill(7));
                    at += region.len;
                }
            }
        }
        match self.machine.received(rail, peer, &mut self.memory, self.now) {
            Ok(()) if counts => {
                if let Some(life) = self.lives.get_mut(&(rail, peer)) {
                    life.1 += 1;
                }
            }
            Ok(()) => {}
            Err(error) => self.down(rail, peer, RailCause::Protocol(error)),
        }
    }

    fn transmit(&mut self, most: usize) {
        for _ in 0..most {
            let Some(frame) = self.machine.poll_transmit(&mut self.memory, self.now) else { return };
            assert!(self.is_open(frame.rail, frame.peer), "a frame for a rail that is down");
            assert_eq!(frame.header.length as usize, frame.payload.map_or(0, |region| region.len));
            if frame.header.kind.is_counted() {
                *self.handed.entry((frame.rail, frame.peer)).or_default() += frame.header.frame_bytes();
            }
            if let Some(payload) = frame.payload {
                assert!(self.memory.bytes(payload).is_some(), "sends {payload:?}, which is no buffer");
                self.unsent.push((frame.rail, frame.peer, frame.token));
            } else {
                self.machine.sent(frame.rail, frame.peer, frame.token, self.now);
            }
        }
    }

    fn sent(&mut self, which: u8) {
        if self.unsent.is_empty() {
            return;
        }
        let (rail, peer, token) = self.unsent.remove(usize::from(which) % self.unsent.len());
        self.machine.sent(rail, peer, token, self.now);
    }

    /// After its completion the buffers of a call are gone: whoever touches them is found out.
    fn completions(&mut self) {
        while let Some(done) = self.machine.poll_completion() {
            let operands = self.calls.remove(&done.ticket);
            assert!(operands.is_some(), "{done:?} was not under way");
            for region in operands.into_iter().flatten() {
                self.memory.remove(region.buffer);
            }
        }
    }

    fn bounded(&self) {
        for (rail, peer) in (0..RAILS).flat_map(|rail| (0..NODES).map(move |peer| (rail, peer))) {
            let outstanding = self.machine.link(rail, peer).map_or(0, |link| link.outstanding());
            assert!(outstanding <= 4 << 20, "{outstanding} bytes on the way to {peer} by {rail}");
        }
        assert!(self.machine.next_deadline().is_none_or(|at| at <= self.now + Time::from_secs(2)));
    }

    fn end(mut self) {
        self.machine.stop("the end", self.now);
        self.completions();
        assert!(self.calls.is_empty(), "calls that never complete: {:?}", self.calls.keys());
        let failure = self.machine.failure().map(ToString::to_string);
        assert!(failure.is_some_and(|text| !text.is_empty()));
    }
}
