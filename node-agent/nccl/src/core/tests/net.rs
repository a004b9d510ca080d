//! A model of what carries: notifications in order between two ranks, and the engine's messages in the order of their calls, of equal size.

use std::collections::{BTreeMap, VecDeque};

use proto_random::Random;

use crate::core::{Action, Destination, Identity, Limits, Machine, ReceiveId, RequestId, SendId, TransferId};

/// The job's digest.
const JOB: u64 = 1;

/// Calls of the engine for one stream that have no counterpart yet.
#[derive(Default)]
struct Stream {
    sends: VecDeque<(TransferId, RequestId, u64)>,
    receives: VecDeque<(TransferId, u64)>,
}

pub struct Net {
    pub machines: Vec<Machine>,
    wires: BTreeMap<(usize, usize), VecDeque<[u64; 3]>>,
    streams: BTreeMap<(usize, usize), Stream>,
    /// What landed where: the receiving rank and place, and the request that was sent.
    pub landed: BTreeMap<(usize, RequestId, usize), (usize, RequestId)>,
    slots: usize,
    lives: u64,
}

/// A rank in one of its lives.
fn machine(rank: u32, ranks: usize, slots: usize, life: u64) -> Machine {
    let limits = Limits { slots, bytes: 1000 };
    let life = life.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Machine::new(Identity { job: JOB, attempt: 1, rank, world: u32::try_from(ranks).unwrap(), life }, limits)
}

impl Net {
    pub fn new(ranks: usize, slots: usize) -> Self {
        let machine = |rank| machine(rank, ranks, slots, u64::from(rank) + 1);
        Self {
            machines: (0..u32::try_from(ranks).unwrap()).map(machine).collect(),
            wires: BTreeMap::new(),
            streams: BTreeMap::new(),
            landed: BTreeMap::new(),
            slots,
            lives: ranks as u64,
        }
    }

    /// A rank's process ends without a word, and another one takes its place. What was on its way to the first comes to the second.
    pub fn replace(&mut self, rank: usize) {
        self.lives += 1;
        self.machines[rank] =
            machine(u32::try_from(rank).unwrap(), self.machines.len(), self.slots, self.lives);
    }

    /// A new connection, accepted at once.
    pub fn connect(&mut self, from: usize, to: usize) -> (SendId, ReceiveId) {
        let (listener, handle) = self.machines[to].listen().unwrap();
        let send = self.machines[from].connect(&handle).unwrap();
        let mut receive = None;
        while receive.is_none() {
            self.settle();
            receive = self.machines[to].accept(listener).unwrap();
        }
        self.settle();
        assert_eq!(self.machines[from].is_connected(send), Ok(true));
        self.machines[to].close_listen(listener).unwrap();
        (send, receive.unwrap())
    }

    /// One thing that a machine wants is done. `false` if it wants nothing.
    pub fn act(&mut self, rank: usize) -> bool {
        let Some(action) = self.machines[rank].next_action() else { return false };
        let machine = &mut self.machines[rank];
        match action {
            Action::Notify { to, words } => {
                machine.notified();
                self.wires.entry((rank, to as usize)).or_default().push_back(words);
            }
            Action::Send { to, request, bytes } => match machine.send_begun() {
                Some(transfer) => {
                    let stream = self.streams.entry((rank, to as usize)).or_default();
                    stream.sends.push_back((transfer, request, bytes));
                }
                None => assert_eq!(bytes, 0),
            },
            Action::Receive { from, bytes } => {
                let transfer = machine.receive_begun().unwrap();
                self.streams.entry((from as usize, rank)).or_default().receives.push_back((transfer, bytes));
            }
        }
        true
    }

    /// Hands over the next notification of a wire. `false` if there is none.
    pub fn deliver(&mut self, wire: (usize, usize)) -> bool {
        let Some(words) = self.wires.get_mut(&wire).and_then(VecDeque::pop_front) else { return false };
        self.machines[wire.1].on_notification(u32::try_from(wire.0).unwrap(), words);
        true
    }

    /// Carries the next message of a stream, if both calls are there.
    pub fn carry(&mut self, (from, to): (usize, usize)) -> bool {
        let Some(stream) = self.streams.get_mut(&(from, to)) else { return false };
        assert!(stream.sends.len() <= self.slots, "more calls than the engine takes");
        let (Some(send), Some(receive)) = (stream.sends.front(), stream.receives.front()) else {
            return false;
        };
        let ((sent, request, bytes), (received, room)) = (*send, *receive);
        assert_eq!(bytes, room, "the engine fails a job whose ranks disagree on a size");
        stream.sends.pop_front();
        stream.receives.pop_front();
        if let Some(Destination { request: into, index }) = self.machines[to].place_of(received) {
            assert_eq!(self.machines[to].bytes_of(received), bytes);
            let before = self.landed.insert((to, into, index), (from, request));
            assert_eq!(before, None, "two messages in one place");
        }
        self.machines[from].ended(sent);
        self.machines[to].ended(received);
        true
    }

    /// One random thing of all that can happen. `false` if nothing can.
    pub fn step(&mut self, rng: &mut Random) -> bool {
        let ranks = self.machines.len();
        let pairs: Vec<(usize, usize)> = (0..ranks).flat_map(|a| (0..ranks).map(move |b| (a, b))).collect();
        let (first, kinds) = (rng.index(pairs.len()), rng.index(3));
        for kind in 0..3 {
            for at in 0..pairs.len() {
                let pair = pairs[(first + at) % pairs.len()];
                let happened = match (kind + kinds) % 3 {
                    0 => self.act(pair.0),
                    1 => self.deliver(pair),
                    _ => self.carry(pair),
                };
                if happened {
                    return true;
                }
            }
        }
        false
    }

    /// Everything that can happen happens.
    pub fn settle(&mut self) {
        let mut rng = Random::new(1);
        for _ in 0..1_000_000 {
            if !self.step(&mut rng) {
                return;
            }
        }
        panic!("it never settles");
    }

    /// Whether a call of the engine waits for its counterpart: that would fail the job in the end.
    pub fn is_quiet(&self) -> bool {
        self.streams.values().all(|stream| stream.sends.is_empty() && stream.receives.is_empty())
    }
}
