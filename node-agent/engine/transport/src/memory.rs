//! Rails in one process's memory: for tests, several nodes in one process. Links are queues with a bound, like sockets; a
//! frame's payload is copied when the queue takes it. Everything that can happen to them is a [`Fault`], applied at once
//! ([`MemoryNet::apply`]) or after a number of frames ([`MemoryNet::script`]); random times come from the seed alone.
//! A link that ended is made again, as by redialing, when nothing is in its way; each life has its generation.

mod fault;
mod net;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use fault::Fault;
use net::{Packet, State};
use node_agent_collective::units::{Node, Rail};
use node_agent_collective::{HEADER_BYTES, Header, RailCause, Transmit};

use crate::transport::{Counters, Sink, Transport, TransportError, Waker};

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

    fn wake_all(&self, state: &mut State) {
        for node in 0..self.signals.len() {
            self.wake(state, node as Node);
        }
    }
}

/// Rails that join some nodes of this process, and the hooks for faults.
#[derive(Debug, Clone)]
pub struct MemoryNet {
    shared: Arc<Shared>,
    nodes: usize,
    rails: usize,
}

impl MemoryNet {
    /// Rails between these numbers of nodes; all sound, without delay. `seed` decides delays.
    #[must_use]
    pub fn new(nodes: usize, rails: usize, seed: u64) -> Self {
        let state = Mutex::new(State::new(nodes, rails, seed));
        let signals = (0..nodes).map(|_| Condvar::new()).collect();
        MemoryNet { shared: Arc::new(Shared { state, signals }), nodes, rails }
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
            reported: BTreeMap::new(),
            dark: BTreeSet::new(),
            counters: BTreeMap::new(),
        }
    }

    /// Carries out a fault now.
    pub fn apply(&self, fault: &Fault) {
        let mut state = self.shared.lock();
        state.apply(fault, Instant::now());
        self.shared.wake_all(&mut state);
    }

    /// Faults to come, each when the net has carried this many frames in all. Replaces an earlier script.
    pub fn script(&self, script: Vec<(u64, Fault)>) {
        self.shared.lock().script(script);
    }

    /// Delays each frame of a rail by a random time up to `most`. Frames of a link stay in order.
    pub fn delay(&self, rail: Rail, most: Duration) {
        for from in 0..self.nodes as Node {
            (0..self.nodes as Node).for_each(|to| self.apply(&Fault::Delay { from, to, rail, most }));
        }
    }

    /// Takes a link down; what is on it is lost.
    pub fn cut(&self, a: Node, b: Node, rail: Rail, cause: RailCause) {
        self.apply(&Fault::Cut { a, b, rail, cause });
    }

    /// Brings a link up again.
    pub fn restore(&self, a: Node, b: Node, rail: Rail) {
        self.apply(&Fault::Restore { a, b, rail });
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
    /// The generations that were reported to the sink as up.
    reported: BTreeMap<(Rail, Node), u32>,
    /// The ports that were reported to the sink as down.
    dark: BTreeSet<Rail>,
    counters: BTreeMap<(Rail, Node), Counters>,
}

impl MemoryRails {
    fn links(&self) -> Vec<(Rail, Node)> {
        let peers = (0..self.nodes as Node).filter(|&n| n != self.node);
        peers.flat_map(|peer| (0..self.rails as Rail).map(move |rail| (rail, peer))).collect()
    }

    /// Tells the sink of ports and links that came or went.
    fn report(&mut self, sink: &mut dyn Sink) {
        for rail in 0..self.rails as Rail {
            let dark = self.shared.lock().dark.contains(&(self.node, rail));
            if dark && self.dark.insert(rail) {
                sink.port_down(rail);
            } else if !dark && self.dark.remove(&rail) {
                sink.port_up(rail);
            }
        }
        for (rail, peer) in self.links() {
            let now = {
                let mut state = self.shared.lock();
                state.settle(Instant::now());
                state.open(self.node, peer, rail)
            };
            let reported = self.reported.get(&(rail, peer)).copied();
            if let Some(generation) = reported.filter(|reported| now.as_ref() != Ok(reported)) {
                self.reported.remove(&(rail, peer));
                self.out.remove(&(rail, peer));
                let cause = now.clone().err().unwrap_or(RailCause::Closed);
                sink.rail_down(rail, peer, generation, cause);
            }
            if let Some(generation) = now.ok().filter(|&now| reported != Some(now)) {
                self.reported.insert((rail, peer), generation);
                self.counters.entry((rail, peer)).or_default().ups += 1;
                sink.rail_up(rail, peer, generation);
            }
        }
    }

    /// Takes the next packet that has arrived on any link, or the time when the next one will.
    fn next(&self) -> Result<(Rail, Node, Packet), Option<Instant>> {
        let now = Instant::now();
        let mut state = self.shared.lock();
        let mut soonest: Option<Instant> = state.settle(now);
        for (rail, peer) in self.links() {
            // What was not reported to the sink has to wait until it is.
            if self.reported.get(&(rail, peer)).copied() != state.open(self.node, peer, rail).ok() {
                continue;
            }
            match state.take((peer, self.node, rail), now) {
                Ok(packet) => {
                    self.shared.wake(&mut state, peer);
                    return Ok((rail, peer, packet));
                }
                Err(ready) => soonest = soonest.into_iter().chain(ready).min(),
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
                && let Some(mut to) = sink.landing(rail, peer, at)
            {
                at += to.put(&packet.payload[at..]);
            }
            sink.received(rail, peer)
        });
        if let (Err(error), Some(&generation)) = (result, self.reported.get(&(rail, peer))) {
            self.close(rail, peer, generation, RailCause::Protocol(error));
        }
    }
}

impl Transport for MemoryRails {
    fn send(&mut self, frame: Transmit) {
        if self.reported.contains_key(&(frame.rail, frame.peer)) {
            self.out.entry((frame.rail, frame.peer)).or_default().push_back(frame);
        }
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        self.report(sink);
        for (&(rail, peer), frames) in &mut self.out {
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
                let way = (self.node, peer, rail);
                let open = state.open(self.node, peer, rail).ok();
                if open.is_none() || open != self.reported.get(&(rail, peer)).copied() {
                    break;
                }
                if !state.has_room(way, size) {
                    break;
                }
                state.put(way, frame.header.encode(), payload, Instant::now());
                self.shared.wake(&mut state, peer);
                drop(state);
                let counters = self.counters.entry((rail, peer)).or_default();
                counters.tx_frames += 1;
                counters.tx_bytes += size as u64;
                let token = frame.token;
                frames.pop_front();
                sink.sent(rail, peer, token);
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

    fn close(&mut self, rail: Rail, peer: Node, generation: u32, cause: RailCause) {
        let mut state = self.shared.lock();
        if state.close(self.node, peer, rail, generation, cause) {
            self.shared.wake(&mut state, self.node);
            self.shared.wake(&mut state, peer);
        }
    }

    fn redial(&mut self, rail: Rail, peer: Node) {
        let mut state = self.shared.lock();
        state.redial(self.node, peer, rail);
        self.shared.wake(&mut state, self.node);
        self.shared.wake(&mut state, peer);
    }
}
