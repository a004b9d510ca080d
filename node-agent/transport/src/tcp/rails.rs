//! The event loop's part of TCP rails: which socket is ready, and what follows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use node_agent_collective::shape::{Node, Rail};
use node_agent_collective::{RailCause, Transmit};

use super::conn::{Place, Receiver, Sender, Turn};
use super::handshake::{Handshake, Party, Refused};
use super::wire_up::{Dial, Target};
use super::{DEAD_AFTER, EXTERNAL_TOKENS, Refusals, SetupError, TcpConfig, Wiring, socket};
use crate::transport::{Counters, Sink, Transport, TransportError, Waker};

/// Connections accepted in one turn.
const ACCEPTS: usize = 64;
const WAKER: Token = Token(EXTERNAL_TOKENS);
const FIRST_LISTENER: usize = EXTERNAL_TOKENS + 1;

/// A connection, from its first to its last byte.
#[derive(Debug)]
struct Conn {
    stream: TcpStream,
    rail: Rail,
    state: State,
    /// The peer has closed its side; what it has sent before may be still to be read.
    closing: bool,
}

#[derive(Debug)]
enum State {
    /// Not authenticated yet.
    Meeting {
        handshake: Handshake,
        inbox: Vec<u8>,
        outbox: Vec<u8>,
        until: Instant,
        dialed: Option<Node>,
        connected: bool,
    },
    /// A link.
    Open { peer: Node, receiver: Receiver, sender: Sender },
}

/// What an event says.
struct Seen {
    token: Token,
    writable: bool,
    closed: bool,
}

impl Seen {
    fn of(event: &mio::event::Event) -> Self {
        let closed = event.is_read_closed() || event.is_error();
        Self { token: event.token(), writable: event.is_writable(), closed }
    }
}

/// A change of a link, to be reported.
#[derive(Debug)]
enum Change {
    Up(Rail, Node),
    Down(Rail, Node, RailCause),
}

/// TCP rails of one node.
#[derive(Debug)]
pub struct TcpRails {
    config: TcpConfig,
    party: Party,
    random: SystemRandom,
    poll: Poll,
    events: Events,
    waker: Arc<mio::Waker>,
    listeners: Vec<TcpListener>,
    conns: Vec<Option<Conn>>,
    links: BTreeMap<(Rail, Node), usize>,
    counters: BTreeMap<(Rail, Node), Counters>,
    /// Connections that may have more to read.
    ready: BTreeSet<usize>,
    /// Connections that may have something to write.
    dirty: BTreeSet<usize>,
    /// Listeners that may have more to accept.
    crowd: BTreeSet<usize>,
    changes: VecDeque<Change>,
    refusals: Refusals,
    dial: Dial,
    turn: usize,
}

impl TcpRails {
    /// Listens on every rail's address, on a free port.
    ///
    /// # Errors
    /// A [`SetupError`] names the rail.
    pub fn bind(config: &TcpConfig) -> Result<Self, SetupError> {
        let poll = Poll::new().map_err(SetupError::Poll)?;
        let waker = Arc::new(mio::Waker::new(poll.registry(), WAKER).map_err(SetupError::Poll)?);
        let mut listeners = Vec::new();
        for (rail, &address) in config.rails.iter().enumerate() {
            let mut listener = socket::listen(address).map_err(|error| SetupError::Listen {
                rail: rail as Rail,
                address,
                error,
            })?;
            let token = Token(FIRST_LISTENER + rail);
            poll.registry().register(&mut listener, token, Interest::READABLE).map_err(SetupError::Poll)?;
            listeners.push(listener);
        }
        let c = config;
        Ok(TcpRails {
            party: Party::new(c.node, c.nodes, &c.job_uid, c.attempt, c.epoch, &c.key.0),
            random: SystemRandom::new(),
            poll,
            events: Events::with_capacity(256),
            waker,
            listeners,
            conns: Vec::new(),
            links: BTreeMap::new(),
            counters: BTreeMap::new(),
            ready: BTreeSet::new(),
            dirty: BTreeSet::new(),
            crowd: BTreeSet::new(),
            changes: VecDeque::new(),
            refusals: Refusals::default(),
            dial: Dial::default(),
            turn: 0,
            config: config.clone(),
        })
    }

    /// The address that each rail listens on.
    #[must_use]
    pub fn endpoints(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|l| l.local_addr().ok()).collect()
    }

    /// Starts the wire-up to all peers, by node and then rail; [`Transport::poll`] carries it on and retries until the
    /// deadline. Links that were up and went down later are dialed again without end.
    ///
    /// # Errors
    /// The endpoints do not fit.
    pub fn connect(
        &mut self,
        peers: &BTreeMap<Node, Vec<SocketAddr>>,
        deadline: Instant,
    ) -> Result<(), SetupError> {
        let rails = self.config.rails.len();
        for node in (0..self.config.nodes as Node).filter(|&n| n != self.config.node) {
            let given = peers.get(&node).map_or(0, Vec::len);
            if given != rails {
                return Err(SetupError::Endpoints { node, given, rails });
            }
        }
        let targets = peers.iter().filter(|(n, _)| **n != self.config.node).flat_map(|(&node, endpoints)| {
            endpoints.iter().enumerate().map(move |(rail, &endpoint)| ((rail as Rail, node), endpoint))
        });
        self.dial.start(targets, self.config.node, deadline);
        self.links.keys().for_each(|&(rail, peer)| self.dial.up(rail, peer));
        Ok(())
    }

    /// How far the wire-up is.
    #[must_use]
    pub fn wiring(&self) -> Wiring {
        self.dial.wiring(Instant::now())
    }

    /// Connections that were refused.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Where the caller registers its own event sources, with tokens below [`EXTERNAL_TOKENS`]; their readiness is
    /// reported by [`Sink::external`].
    #[must_use]
    pub fn registry(&self) -> &mio::Registry {
        self.poll.registry()
    }

    fn half_open(&self) -> usize {
        self.conns.iter().flatten().filter(|c| matches!(c.state, State::Meeting { .. })).count()
    }

    /// Room for every peer's honest tries, and some more.
    fn half_open_limit(&self) -> usize {
        2 * self.config.nodes * self.config.rails.len() + 16
    }

    fn nonce(&self) -> Option<[u8; 32]> {
        let mut nonce = [0; 32];
        self.random.fill(&mut nonce).ok()?;
        Some(nonce)
    }

    fn accept(&mut self, rail: usize, now: Instant) {
        for _ in 0..ACCEPTS {
            let Ok((stream, from)) = self.listeners[rail].accept() else {
                self.crowd.remove(&rail);
                return;
            };
            if self.half_open() >= self.half_open_limit() && !self.make_room(from, rail as Rail) {
                self.refusals.crowded += 1;
                continue;
            }
            let Some(nonce) = self.nonce() else { continue };
            let handshake = Handshake::listener(rail as Rail, nonce);
            self.meet(stream, rail as Rail, handshake, Vec::new(), None, now);
        }
        self.crowd.insert(rail);
    }

    /// Too many half-open connections: one that comes from a peer's address takes the place of the oldest that does
    /// not, so that strangers cannot keep peers out.
    fn make_room(&mut self, from: SocketAddr, rail: Rail) -> bool {
        if !self.dial.knows(rail, from.ip()) {
            return false;
        }
        let oldest = self.conns.iter().enumerate().filter_map(|(at, conn)| match conn {
            Some(Conn { stream, rail, state: State::Meeting { until, dialed: None, .. }, .. }) => {
                let peer = stream.peer_addr().is_ok_and(|a| self.dial.knows(*rail, a.ip()));
                (!peer).then_some((*until, at))
            }
            _ => None,
        });
        let Some((_, at)) = oldest.min() else { return false };
        self.refusals.crowded += 1;
        self.drop_conn(at);
        true
    }

    fn meet(
        &mut self,
        mut stream: TcpStream,
        rail: Rail,
        handshake: Handshake,
        outbox: Vec<u8>,
        dialed: Option<Node>,
        now: Instant,
    ) {
        let at = self.conns.iter().position(Option::is_none).unwrap_or(self.conns.len());
        let token = Token(FIRST_LISTENER + self.listeners.len() + at);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut stream, token, interest).is_err() {
            return;
        }
        let until = now + self.config.handshake_timeout;
        let state = State::Meeting {
            handshake,
            inbox: Vec::new(),
            outbox,
            until,
            dialed,
            connected: dialed.is_none(),
        };
        let conn = Some(Conn { stream, rail, state, closing: false });
        if at == self.conns.len() {
            self.conns.push(conn);
        } else {
            self.conns[at] = conn;
        }
        self.ready.insert(at);
    }

    fn drop_conn(&mut self, at: usize) {
        if let Some(mut conn) = self.conns[at].take() {
            let _ = self.poll.registry().deregister(&mut conn.stream);
        }
        self.ready.remove(&at);
        self.dirty.remove(&at);
    }

    /// Ends a connection that was not authenticated.
    fn refuse(&mut self, at: usize, count: impl FnOnce(&mut Refusals), why: &str, now: Instant) {
        count(&mut self.refusals);
        if let Some(Conn { rail, state: State::Meeting { dialed: Some(peer), .. }, .. }) = &self.conns[at] {
            self.dial.failed(*rail, *peer, why, now);
        }
        self.drop_conn(at);
    }

    /// Ends a link.
    fn end(&mut self, rail: Rail, peer: Node, cause: RailCause, now: Instant) {
        if let Some(at) = self.links.remove(&(rail, peer)) {
            self.drop_conn(at);
            self.dial.down(rail, peer, now);
            self.changes.push_back(Change::Down(rail, peer, cause));
        }
    }

    /// Carries a handshake on as far as its bytes go.
    fn advance(&mut self, at: usize, now: Instant) {
        let Some(Conn { stream, rail, state, .. }) = &mut self.conns[at] else { return };
        let State::Meeting { handshake, inbox, outbox, connected, .. } = state else { return };
        if !*connected {
            if let Ok(Some(error)) | Err(error) = stream.take_error() {
                let why = error.to_string();
                return self.refuse(at, |r| r.closed += 1, &why, now);
            }
            if stream.peer_addr().is_err() {
                return;
            }
            *connected = true;
        }
        let done = loop {
            while !outbox.is_empty() {
                match stream.write(outbox) {
                    Ok(n) => drop(outbox.drain(..n)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    Err(error) => {
                        let why = error.to_string();
                        return self.refuse(at, |r| r.closed += 1, &why, now);
                    }
                }
            }
            let mut buffer = [0; 256];
            let want = handshake.expects() - inbox.len();
            match stream.read(&mut buffer[..want]) {
                Ok(0) => return self.refuse(at, |r| r.closed += 1, "closed during the handshake", now),
                Ok(n) => inbox.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    let why = error.to_string();
                    return self.refuse(at, |r| r.closed += 1, &why, now);
                }
            }
            if !handshake.plausible(inbox) {
                return self.refuse(at, |r| r.garbage += 1, "no answer of this protocol", now);
            }
            if inbox.len() < handshake.expects() {
                continue;
            }
            match handshake.take(&std::mem::take(inbox), &self.party) {
                Ok(next) => {
                    outbox.extend(next.send);
                    if let Some(peer) = next.done {
                        break peer;
                    }
                }
                Err(refused) => {
                    let count = move |r: &mut Refusals| match refused {
                        Refused::Garbage => r.garbage += 1,
                        Refused::Stranger => r.stranger += 1,
                        Refused::WrongKey => r.wrong_key += 1,
                    };
                    return self.refuse(at, count, &refused.to_string(), now);
                }
            }
        };
        // The welcome is a few bytes into an empty socket buffer: if that does not take them, the link is no good.
        if !outbox.is_empty() && !matches!(stream.write(outbox), Ok(n) if n == outbox.len()) {
            return self.refuse(at, |r| r.closed += 1, "closed during the handshake", now);
        }
        let rail = *rail;
        self.open(at, rail, done, now);
    }

    /// A connection is authenticated: it is the link now. One that was there before is dead at its other end, or
    /// the peer would not have come again.
    fn open(&mut self, at: usize, rail: Rail, peer: Node, now: Instant) {
        self.end(rail, peer, RailCause::Closed, now);
        let Some(conn) = &mut self.conns[at] else { return };
        if let Err(error) = socket::tune(&conn.stream, DEAD_AFTER) {
            tracing::warn!(rail, peer, %error, "cannot set socket options");
        }
        conn.state = State::Open { peer, receiver: Receiver::new(), sender: Sender::default() };
        self.links.insert((rail, peer), at);
        self.counters.entry((rail, peer)).or_default().ups += 1;
        self.dial.up(rail, peer);
        self.changes.push_back(Change::Up(rail, peer));
        self.ready.insert(at);
        tracing::debug!(rail, peer, "rail up");
    }

    fn report(&mut self, sink: &mut dyn Sink) {
        while let Some(change) = self.changes.pop_front() {
            match change {
                Change::Up(rail, peer) => sink.rail_up(rail, peer),
                Change::Down(rail, peer, cause) => sink.rail_down(rail, peer, cause),
            }
        }
    }

    /// Connections in an order that begins elsewhere in every turn, so that none is always served first.
    fn in_turn(&self, some: BTreeSet<usize>) -> Vec<usize> {
        let mut order: Vec<usize> = some.into_iter().collect();
        let first = self.turn % order.len().max(1);
        order.rotate_left(first);
        order
    }

    /// Reads or writes a link.
    fn exchange(&mut self, at: usize, reads: bool, sink: &mut dyn Sink, now: Instant) {
        let Some(conn) = &mut self.conns[at] else { return };
        let Conn { stream, rail, state: State::Open { peer, receiver, sender }, closing } = conn else {
            return;
        };
        let (rail, peer) = (*rail, *peer);
        let counters = self.counters.entry((rail, peer)).or_default();
        let mut place = Place { rail, peer, counters, sink };
        let result = if reads {
            receiver.read(stream, *closing, &mut place).map(|turn| {
                if turn == Turn::Drained {
                    self.ready.remove(&at);
                }
            })
        } else {
            sender.write(stream, &mut place)
        };
        if let Err(cause) = result {
            self.end(rail, peer, cause, now);
            self.report(sink);
        }
    }

    /// Dials what is due and drops what is too slow.
    fn turn_clock(&mut self, now: Instant) {
        for at in 0..self.conns.len() {
            if let Some(Conn { state: State::Meeting { until, .. }, .. }) = &self.conns[at]
                && *until <= now
            {
                self.refuse(at, |r| r.slow += 1, "no answer in time", now);
            }
        }
        for Target { rail, peer, endpoint } in self.dial.due(now) {
            let Some(nonce) = self.nonce() else { continue };
            match socket::dial(self.config.rails[usize::from(rail)], endpoint) {
                Ok(stream) => {
                    let (handshake, hello) = Handshake::dialer(&self.party, peer, rail, nonce);
                    self.meet(stream, rail, handshake, hello, Some(peer), now);
                }
                Err(error) => self.dial.failed(rail, peer, &error.to_string(), now),
            }
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let meetings = self.conns.iter().flatten().filter_map(|c| match c.state {
            State::Meeting { until, .. } => Some(until),
            State::Open { .. } => None,
        });
        meetings.chain(self.dial.next()).min()
    }

    fn handle(&mut self, Seen { token, writable, closed }: Seen, sink: &mut dyn Sink) {
        let first_conn = FIRST_LISTENER + self.listeners.len();
        match token {
            WAKER => {}
            Token(t) if t < EXTERNAL_TOKENS => sink.external(t),
            Token(t) if t < first_conn => drop(self.crowd.insert(t - FIRST_LISTENER)),
            Token(t) => {
                let at = t - first_conn;
                self.ready.insert(at);
                if let Some(Some(conn)) = self.conns.get_mut(at) {
                    conn.closing |= closed;
                }
                if let Some(Some(Conn { state: State::Open { sender, .. }, .. })) = self.conns.get_mut(at)
                    && writable
                {
                    sender.unblock();
                    self.dirty.insert(at);
                }
            }
        }
    }
}

impl Transport for TcpRails {
    fn send(&mut self, frame: Transmit) {
        let Some(&at) = self.links.get(&(frame.rail, frame.peer)) else { return };
        if let Some(Conn { state: State::Open { sender, .. }, .. }) = &mut self.conns[at] {
            sender.push(frame);
            self.dirty.insert(at);
        }
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        self.report(sink);
        let dirty = std::mem::take(&mut self.dirty);
        for at in self.in_turn(dirty) {
            self.exchange(at, false, sink, Instant::now());
        }
    }

    fn poll(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> Result<(), TransportError> {
        self.flush(sink);
        let now = Instant::now();
        self.turn_clock(now);
        let timer = self.next_timer().map(|t| t.saturating_duration_since(now));
        let busy = !self.ready.is_empty() || !self.crowd.is_empty() || !self.changes.is_empty();
        let wait = if busy { Some(Duration::ZERO) } else { timeout.into_iter().chain(timer).min() };
        match self.poll.poll(&mut self.events, wait) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(TransportError::Poll(error));
            }
            _ => {}
        }
        let events: Vec<Seen> = self.events.iter().map(Seen::of).collect();
        for seen in events {
            self.handle(seen, sink);
        }
        let now = Instant::now();
        for rail in self.crowd.clone() {
            self.accept(rail, now);
        }
        for at in self.ready.clone() {
            if let Some(Some(Conn { state: State::Meeting { .. }, .. })) = self.conns.get(at) {
                self.ready.remove(&at);
                self.advance(at, now);
            }
        }
        self.report(sink);
        self.turn += 1;
        for at in self.in_turn(self.ready.clone()) {
            self.exchange(at, true, sink, now);
        }
        self.flush(sink);
        Ok(())
    }

    fn waker(&self) -> Waker {
        let waker = Arc::clone(&self.waker);
        Waker::new(move || {
            if let Err(error) = waker.wake() {
                tracing::warn!(%error, "cannot wake the rails");
            }
        })
    }

    fn counters(&self, rail: Rail, peer: Node) -> Counters {
        self.counters.get(&(rail, peer)).copied().unwrap_or_default()
    }

    fn close(&mut self, rail: Rail, peer: Node, cause: RailCause) {
        self.end(rail, peer, cause, Instant::now());
    }
}
