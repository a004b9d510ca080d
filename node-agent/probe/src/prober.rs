//! All rails of a node together: waits, answers others, and takes its turns.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use aws_lc_rs::rand;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    limits::{Budget, Limits},
    listen::{Follow, Heard, Now},
    packet::{BYTES, Body, Packet, Seal},
    port::Port,
    report::{PortReport, Report, RoundPart},
    sys::Arrival,
};

/// A packet that cannot be sent now is tried again for this long.
const ROOM: Duration = Duration::from_millis(20);
/// Until then rails are asked for their own partner only.
const CROSSWISE: Duration = Duration::from_millis(60);
/// Asked again after this.
const AGAIN: Duration = Duration::from_millis(10);
/// Rounds that a series may have.
pub const SERIES_ROUNDS: u32 = 1 << 16;
/// A mark, a question that belongs to no round and is not counted, has this one.
pub(crate) const NO_ROUND: u32 = u32::MAX;
/// Packets taken from one port before the others have their turn.
const AT_ONCE: usize = 64;
/// How often ports are looked at after the end of a wait at most, for more comes if somebody floods them.
const LATE: u32 = 64;
/// Marks that wait for their answer at most.
const MARKS: usize = 256;

/// What a prober must know.
#[derive(Debug, Clone)]
pub struct Config {
    /// Index of this node in the job, counted from 0.
    pub node: u16,
    /// The job key, which authenticates packets.
    pub key: [u8; 32],
    /// Uid of the job.
    pub job_uid: String,
    /// Number of the job's attempt.
    pub attempt: u32,
    /// The IP traffic class of the job's packets.
    pub traffic_class: u8,
    /// The rails of this node.
    pub rails: Vec<Rail>,
    /// How long and how much.
    pub limits: Limits,
}

/// One rail of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rail {
    /// Number of the rail.
    pub rail: u16,
    /// Its address and the port to listen on; 0 for any.
    pub address: SocketAddr,
    /// The network device that packets leave and arrive by, and no other, as RDMA has it; `None`: as the kernel routes them.
    pub device: Option<String>,
}

/// Another node of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Index of the node in the job.
    pub node: u16,
    /// Where its rails listen, in the order of this node's rails.
    pub rails: Vec<SocketAddr>,
}

/// A rail cannot be probed.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The socket of a rail could not be made.
    #[error("rail {rail}: cannot probe from {address}: {error}")]
    Rail {
        /// Number of the rail.
        rail: u16,
        /// This node's address on the rail.
        address: IpAddr,
        /// What the operating system answered.
        error: io::Error,
    },
}

/// A packet that answers this node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Got {
    pub(crate) port: usize,
    pub(crate) packet: Packet,
    pub(crate) arrival: Arrival,
    pub(crate) when: Instant,
}

/// Sockets of all rails.
#[derive(Debug)]
pub struct Prober {
    pub(crate) config: Config,
    pub(crate) seal: Seal,
    pub(crate) ports: Vec<Port>,
    heard: Heard,
    buffer: Vec<u8>,
    /// The round that this node is in.
    pub(crate) round: u32,
    /// The nodes that it answers, and where: a packet that somebody else has recorded must not bring an answer to somebody else.
    callers: BTreeMap<u16, BTreeSet<IpAddr>>,
    /// The last round that each peer has said is done.
    done: BTreeMap<u16, u32>,
    /// Marks that are not answered yet: the port, the mark, and where it came from.
    marks: Vec<(usize, Packet, SocketAddr)>,
    /// Marks that this node has sent.
    pub(crate) marked: u32,
}

impl Prober {
    /// Opens all rails. From now on packets wait for [`Prober::run`].
    ///
    /// # Errors
    /// A rail's socket could not be made.
    pub fn bind(config: Config) -> Result<Self, SetupError> {
        let open = |rail: &Rail| {
            Port::open(rail.address, config.traffic_class, rail.device.as_deref())
                .map_err(|error| SetupError::Rail { rail: rail.rail, address: rail.address.ip(), error })
        };
        let ports = config.rails.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let seal = Seal::new(&config.key, &config.job_uid, config.attempt);
        let buffer = vec![0; 1 << 16];
        Ok(Self {
            config,
            seal,
            ports,
            heard: Heard::default(),
            buffer,
            round: 0,
            callers: BTreeMap::new(),
            done: BTreeMap::new(),
            marks: Vec::new(),
            marked: 0,
        })
    }

    /// Where its rails listen.
    #[must_use]
    pub fn endpoints(&self) -> Vec<SocketAddr> {
        self.ports.iter().filter_map(|port| port.socket.local_addr().ok()).collect()
    }

    /// Takes all turns of a series, until `end` at the latest. The rounds of each series are numbered from a multiple of
    /// [`SERIES_ROUNDS`] on, and no series comes before an earlier one.
    pub fn run(&mut self, series: u32, peers: &[Peer], turns: &[RoundPart], end: Instant) -> Report {
        let known = |peer: &Peer| (peer.node, peer.rails.iter().map(|at| at.ip().to_canonical()).collect());
        self.callers = peers.iter().map(known).collect();
        let mut report = Report { pairs: Vec::new(), ports: self.check_ports(peers) };
        let now = Instant::now();
        let first = series.saturating_mul(SERIES_ROUNDS);
        let in_series = |turn: &RoundPart| turn.round.saturating_sub(first).saturating_add(1);
        let rounds = turns.iter().map(in_series).max().unwrap_or_default();
        let budget = Budget::of(rounds, end.saturating_duration_since(now), &self.config.limits);
        let begun = now + budget.warm;
        self.warm(peers, turns, begun);
        self.config.limits.turn = budget.turn;
        for turn in turns {
            self.round = turn.round;
            // Counted from the beginning: who waited in vain in one round finds its partner of the next one still waiting.
            let until = (begun + budget.turn * in_series(turn)).min(end);
            match peers.iter().find(|peer| peer.node == turn.peer) {
                Some(peer) if turn.first => report.pairs.extend(self.begin(peer, until)),
                _ => self.answer(*turn, until),
            }
        }
        // Whoever asks in this series from now on hears that this node's turns are over.
        self.round = first.saturating_add(SERIES_ROUNDS - 1);
        report
    }

    /// Asks all partners on all rails until each rail has heard something of each, on whatever rail that listens, or until `end`.
    fn warm(&mut self, peers: &[Peer], turns: &[RoundPart], end: Instant) {
        let mut nonce = [0; 8];
        if rand::fill(&mut nonce).is_err() {
            return;
        }
        let partners = peers.iter().filter(|peer| turns.iter().any(|turn| turn.peer == peer.node));
        let ports = 0..self.ports.len();
        let mut open: BTreeMap<(u16, usize), &Peer> =
            partners.flat_map(|peer| ports.clone().map(move |at| ((peer.node, at), peer))).collect();
        let nonce = u64::from_le_bytes(nonce);
        let begun = Instant::now();
        while !open.is_empty() && Instant::now() < end {
            let crosswise = begun.elapsed() > CROSSWISE;
            for ((node, at), peer) in &open {
                let (from, body) = (self.config.node, Body::Ask { reply: 0 });
                let ask = Packet { from, to: *node, round: NO_ROUND, nonce, sequence: 0, body };
                for (_, to) in peer.rails.iter().enumerate().filter(|(rail, _)| crosswise || rail == at) {
                    self.send(*at, &ask, 0, *to);
                }
            }
            self.pump((Instant::now() + AGAIN).min(end), |got| {
                if got.packet.nonce == nonce {
                    open.remove(&(got.packet.from, got.port));
                }
                open.is_empty()
            });
        }
    }

    /// Answers others until `end`.
    pub fn serve(&mut self, end: Instant) {
        self.pump(end, |_| false);
    }

    fn answer(&mut self, turn: RoundPart, until: Instant) {
        let over = |done: &BTreeMap<u16, u32>| done.get(&turn.peer).is_some_and(|round| *round >= turn.round);
        while !over(&self.done) && Instant::now() < until {
            self.pump_once(until, &mut |_| false);
        }
    }

    fn check_ports(&self, peers: &[Peer]) -> Vec<PortReport> {
        let port = |(at, rail): (usize, &Rail)| {
            let to = peers.iter().find_map(|peer| peer.rails.get(at))?;
            let mtu = self.ports.get(at)?.mtu(*to);
            Some(PortReport { rail: rail.rail, mtu })
        };
        self.config.rails.iter().enumerate().filter_map(port).collect()
    }

    /// Waits until `done` says so of what has come, or until `end`. Answers others meanwhile. What has come by `end` is taken in even
    /// if this node did not run until long after it.
    pub(crate) fn pump(&mut self, end: Instant, mut done: impl FnMut(&Got) -> bool) {
        let mut late = 0;
        while late < LATE {
            late += u32::from(Instant::now() >= end);
            if self.pump_once(end, &mut done) || late > 0 && self.ports.iter().all(|port| !port.waits()) {
                return;
            }
        }
    }

    fn pump_once(&mut self, end: Instant, done: &mut dyn FnMut(&Got) -> bool) -> bool {
        self.wait(if self.marks.is_empty() { end } else { Instant::now() });
        let (mut over, mut emptied, before) = (false, true, self.marks.len());
        for at in 0..self.ports.len() {
            let mut taken = 0;
            while taken < AT_ONCE
                && let Some(got) = self.take(at)
            {
                over |= got.is_some_and(|got| done(&got));
                taken += 1;
            }
            emptied &= taken < AT_ONCE;
        }
        if emptied {
            self.answer_marks(before);
        }
        over
    }

    /// A mark is answered once everything that had come to any port before it has been taken in: so its answer says of what was
    /// asked before, and is not answered by then, that it never came here.
    fn answer_marks(&mut self, count: usize) {
        let rest = self.marks.split_off(count.min(self.marks.len()));
        for (at, mark, from) in std::mem::replace(&mut self.marks, rest) {
            let asks = self.heard.asks(mark.nonce, mark.from, at);
            let body = Body::Answer { seen: 0, dscp: None, at: self.round, asks, dropped: self.dropped(at) };
            self.send(at, &Packet { from: mark.to, to: mark.from, body, ..mark }, 0, from);
        }
    }

    /// Packets that this port has dropped so far.
    pub(crate) fn dropped(&self, at: usize) -> u32 {
        self.ports.get(at).map_or(0, Port::dropped)
    }

    fn wait(&self, end: Instant) {
        let left = end.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut polled: Vec<PollFd<'_>> = self
            .ports
            .iter()
            .map(|port| PollFd::from_borrowed_fd(port.socket.as_fd(), PollFlags::IN))
            .collect();
        // Interrupted or not: everything is looked at afterwards.
        let _ = poll(&mut polled, Some(&timeout));
    }

    /// Whether a question of this node comes from one of its rails. Answers go nowhere else.
    fn is_caller(&self, node: u16, from: SocketAddr) -> bool {
        self.callers.get(&node).is_some_and(|own| own.contains(&from.ip().to_canonical()))
    }

    /// Takes one packet of a port. `None`: there is none; `Some(None)`: it was not an answer to this node.
    fn take(&mut self, at: usize) -> Option<Option<Got>> {
        let port = self.ports.get(at)?;
        let (arrival, from) = match port.receive(&mut self.buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            // An error that came back to an earlier packet, for example that nobody listens there.
            Err(_) => return Some(None),
        };
        let packet = Packet::decode(self.buffer.get(..arrival.length)?, &self.seal);
        let Some(packet) = packet.filter(|packet| packet.to == self.config.node) else { return Some(None) };
        if matches!(packet.body, Body::Answer { .. } | Body::Arrived { .. } | Body::Burst { .. }) {
            let got = Got { port: at, packet, arrival, when: Instant::now() };
            if !matches!(packet.body, Body::Burst { .. }) {
                return Some(Some(got));
            }
            // A burst that was asked for, or one of another's conversation: who knows its nonce takes it.
            self.heard.listen(at, &packet, &arrival, Now::default());
            return Some(Some(got));
        }
        if !self.is_caller(packet.from, from) {
            return Some(None);
        }
        if packet.round == NO_ROUND {
            if self.marks.len() < MARKS {
                self.marks.push((at, packet, from));
            }
            return Some(None);
        }
        if packet.body == Body::Done {
            let last = self.done.entry(packet.from).or_insert(packet.round);
            *last = packet.round.max(*last);
        }
        let now = Now { at: self.round, dropped: self.dropped(at) };
        match self.heard.listen(at, &packet, &arrival, now) {
            Follow::Nothing => {}
            Follow::Answer(body, bytes) => {
                let answer = Packet { from: packet.to, to: packet.from, body, ..packet };
                self.send(at, &answer, bytes, from);
            }
            Follow::Burst(packets, bytes) => {
                let body = Body::Burst { of: packets };
                let burst = Packet { from: packet.to, to: packet.from, body, ..packet };
                let pace_ns = self.send_burst(at, &burst, packets, bytes, from).unwrap_or_default();
                // Behind the burst in every queue, so that who asked need not wait for what was lost.
                let body = Body::Arrived { mbps: 0, packets, pace_ns, dropped: now.dropped };
                self.send(at, &Packet { body, ..burst }, 0, from);
            }
        }
        Some(None)
    }

    /// Sends, padded to this many bytes of payload; waits a little where there is no room. What does not go is as good as lost, and is
    /// seen to be.
    pub(crate) fn send(&self, at: usize, packet: &Packet, bytes: u32, to: SocketAddr) -> bool {
        let mut payload = packet.encode(&self.seal).to_vec();
        payload.resize(BYTES.max(bytes as usize), 0);
        self.ports.get(at).is_some_and(|port| port.send_in_time(&payload, to, Instant::now() + ROOM).is_ok())
    }

    /// Sends a burst. Gives how long this node took for the second half of it, in nanoseconds, without waiting for room; nothing if
    /// not all of it went.
    pub(crate) fn send_burst(
        &self,
        at: usize,
        packet: &Packet,
        packets: u32,
        bytes: u32,
        to: SocketAddr,
    ) -> Option<u32> {
        let mut payload = packet.encode(&self.seal).to_vec();
        payload.resize(BYTES.max(bytes as usize), 0);
        let port = self.ports.get(at)?;
        let end = Instant::now() + self.config.limits.burst;
        let (mut middle, mut waited) = (Instant::now(), Duration::ZERO);
        for number in 1..=packets {
            let wait = port.send_in_time(&payload, to, end).ok()?;
            waited += wait;
            if number == packets / 2 {
                (middle, waited) = (Instant::now(), Duration::ZERO);
            }
        }
        let took = middle.elapsed().saturating_sub(waited).as_nanos();
        Some(u32::try_from(took).unwrap_or(u32::MAX).max(1))
    }
}
