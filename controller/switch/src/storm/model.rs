//! A plane in virtual time: servers that send, a NIC that pauses, and what ports count of it. Everything follows from a seed.
//!
//! Buffers are small beside a second, so that a pause is felt upstream at once: per step, what a port may send is worked out from the
//! receivers up. Whoever sends to a port that takes less than it is sent is paused for the difference, and with it whatever else it
//! sends in that class.

use proto_random::Random;

use super::interval::{Counter, Reading};
use super::{Peer, Plane, PortId};

/// Servers, leaves and spines of the model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub leaves: u32,
    pub spines: u32,
    pub servers: u32,
}

/// A NIC that pauses its port: from when, and for which share of the time in thousandths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub nic: u32,
    pub from: u64,
    pub share: u64,
}

/// The model.
pub(super) struct Model {
    pub plane: Plane,
    size: Size,
    random: Random,
    /// By port: microseconds paused, and bytes sent.
    counted: Vec<(u64, u64)>,
    /// By port: how many send over it.
    senders: Vec<u64>,
    /// From where to where; every NIC sends to one other.
    target: Vec<u32>,
    pub now: u64,
    pub faults: Vec<Fault>,
    /// Bits of the ports' counters.
    bits: u8,
}

/// All of the time, in the unit of shares: so small that whoever gets a share of a share of a slow port still sends something.
const WHOLE: u64 = 1_000_000_000;
/// Rate of every port.
pub(super) const GBPS: u64 = 400;

impl Model {
    pub fn new(size: Size, seed: u64) -> Self {
        let mut ports = Vec::new();
        // Leaf l has its servers' ports, then one to each spine; spine s has one to each leaf.
        let per_leaf = size.servers + size.spines;
        let spine_port = |spine: u32, leaf: u32| PortId(size.leaves * per_leaf + spine * size.leaves + leaf);
        for leaf in 0..size.leaves {
            ports.extend((0..size.servers).map(|server| (leaf, Peer::Nic(leaf * size.servers + server))));
            ports.extend((0..size.spines).map(|spine| (leaf, Peer::Port(spine_port(spine, leaf)))));
        }
        for spine in 0..size.spines {
            let down = |leaf: u32| Peer::Port(PortId(leaf * per_leaf + size.servers + spine));
            ports.extend((0..size.leaves).map(|leaf| (size.leaves + spine, down(leaf))));
        }
        let plane = Plane::new(ports);
        let mut random = Random::new(seed);
        let nics = size.leaves * size.servers;
        let bits = if random.once_in(2.0) { 32 } else { 64 };
        let counted = plane.ports().map(|_| (random.word() >> 34, random.word() >> 34)).collect();
        let (target, senders) = (vec![0; nics as usize], vec![0; plane.len()]);
        let mut model =
            Model { plane, size, random, counted, senders, target, now: 0, faults: Vec::new(), bits };
        model.shuffle();
        model
    }

    /// Everybody sends to somebody: now and then many to one.
    pub fn shuffle(&mut self) {
        let nics = u64::from(self.size.leaves * self.size.servers);
        let incast = self.random.once_in(3.0).then(|| self.random.below(nics));
        for nic in 0..self.target.len() {
            let other = match incast {
                Some(one) if self.random.once_in(4.0) => one,
                _ => self.random.below(nics),
            };
            self.target[nic] = u32::try_from(other).unwrap_or(0);
        }
    }

    fn leaf_of(&self, nic: u32) -> u32 {
        nic / self.size.servers
    }

    fn nic_port(&self, nic: u32) -> usize {
        (self.leaf_of(nic) * (self.size.servers + self.size.spines) + nic % self.size.servers) as usize
    }

    fn up_port(&self, leaf: u32, spine: u32) -> usize {
        (leaf * (self.size.servers + self.size.spines) + self.size.servers + spine) as usize
    }

    fn down_port(&self, spine: u32, leaf: u32) -> usize {
        (self.size.leaves * (self.size.servers + self.size.spines) + spine * self.size.leaves + leaf) as usize
    }

    fn spine_of(&self, from: u32, to: u32) -> u32 {
        (from.wrapping_mul(31).wrapping_add(to)) % self.size.spines
    }

    /// Goes on for so many milliseconds.
    pub fn step(&mut self, millis: u64) {
        let ports = self.plane.len();
        // Share of the time that a port is paused by its peer; and senders over it.
        let (mut paused, mut senders) = (vec![0_u64; ports], vec![0_u64; ports]);
        let begin = self.now;
        for fault in &self.faults {
            let inside = (begin + millis).saturating_sub(fault.from).min(millis);
            paused[self.nic_port(fault.nic)] = WHOLE / 1_000 * fault.share * inside / millis;
        }
        let flows: Vec<_> = (0..self.target.len()).map(|nic| self.way(nic)).collect();
        for port in flows.iter().flatten().flatten() {
            senders[*port] += 1;
        }
        // From the receivers up: the port before one that takes less than comes is paused for the rest.
        for hop in [2, 1] {
            for way in &flows {
                let (Some(port), Some(before)) = (way[hop], way[hop - 1]) else { continue };
                let takes = (WHOLE - paused[port]) / senders[port].max(1);
                paused[before] = paused[before].max(WHOLE - takes);
            }
        }
        let noise = self.random.below(20);
        for port in 0..ports {
            let noise = if senders[port] > 0 { noise } else { 0 };
            let micros = (paused[port] * millis / (WHOLE / 1_000) + noise).min(millis * 1_000);
            // Half of the line, while it may send.
            let runs = (WHOLE - paused[port]) / 1_000 * millis;
            let sent = if senders[port] > 0 { runs * GBPS / 16 } else { 0 };
            self.counted[port].0 = self.counted[port].0.wrapping_add(micros);
            self.counted[port].1 = self.counted[port].1.wrapping_add(sent);
        }
        self.now += millis;
        self.senders = senders;
    }

    /// The ports that what a NIC sends goes through: its leaf's to a spine, the spine's to the receiver's leaf, that leaf's to the receiver. Within
    /// a leaf there is only the last.
    fn way(&self, nic: usize) -> [Option<usize>; 3] {
        let to = self.target[nic];
        let (from, there) = (self.leaf_of(u32::try_from(nic).unwrap_or(0)), self.leaf_of(to));
        let last = Some(self.nic_port(to));
        if from == there {
            return [None, None, last];
        }
        let spine = self.spine_of(u32::try_from(nic).unwrap_or(0), to);
        [Some(self.up_port(from, spine)), Some(self.down_port(spine, there)), last]
    }

    /// A NIC that somebody sends to.
    pub fn receiver(&mut self) -> u32 {
        let index = self.random.index(self.target.len());
        self.target[index]
    }

    /// What is read of a port now; `None` now and then, when it cannot be read. Rarely its counters have begun anew.
    pub fn read(&mut self, port: PortId) -> Option<Reading> {
        if self.random.once_in(200.0) {
            return None;
        }
        let index = port.0 as usize;
        if self.random.once_in(100_000.0) {
            self.counted[index] = (0, 0);
        }
        let mask = if self.bits == 64 { u64::MAX } else { (1 << self.bits) - 1 };
        let counter = |value: u64, bits| Counter { value, bits };
        let (paused, sent) = self.counted[index];
        Some(Reading {
            at: self.now,
            paused: counter(paused & mask, self.bits),
            // At this rate 32 bits of bytes wrap within a second: nobody counts so.
            sent: counter(sent, 64),
            is_queued: self.senders[index] > 0,
        })
    }
}
