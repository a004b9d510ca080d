//! The event loop's part of TCP rails: which socket is ready, and what follows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::rand::SystemRandom;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use node_agent_collective::units::{Node, Rail};
use node_agent_collective::{RailCause, Transmit};

use super::carriage::{Carriage, Carried};
use super::conn::{FrameTarget, PollOutcome, Sender, cause};
use super::connection::{Change, Conn, State};
use super::handshake::Party;
use super::marks::Marks;
use super::port::{self, Watch};
use super::quiet::Quiet;
use super::sealed::Over;
use super::spin::{Lap, SHORT, SMALL, Spin};
use super::tokens::{CARRIER, FIRST_LISTENER, PORTS, WAKER};
use super::wire_up::Dial;
use super::{EXTERNAL_TOKENS, Refusals, SetupError, TcpConfig, Wiring, socket};
use crate::transport::{Counters, Sink, Transport, TransportError, Waker};

/// What an event says.
#[derive(Debug, Clone, Copy)]
struct Seen {
    token: Token,
    readable: bool,
    writable: bool,
    closed: bool,
}

impl Seen {
    fn of(event: &mio::event::Event) -> Self {
        let closed = event.is_read_closed() || event.is_error();
        let readable = event.is_readable() || closed;
        Self { token: event.token(), readable, writable: event.is_writable(), closed }
    }
}

/// Who this node is to its peers.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) config: TcpConfig,
    pub(super) party: Party,
    pub(super) random: SystemRandom,
}

/// The event loop, from one turn to the next.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) poll: Poll,
    events: Events,
    /// The events of a turn, and the connections that it serves: kept only for their memory.
    seen: Vec<Seen>,
    order: Vec<usize>,
    spin: Spin,
    waker: Arc<mio::Waker>,
    turn: usize,
}

/// This node's own ports.
#[derive(Debug)]
pub(super) struct OwnPorts {
    /// The watch on them, if the system lets this process have one.
    pub(super) watch: Option<Watch>,
    /// Events of the ports may be left to read.
    pub(super) watched: bool,
    /// Rails whose ports are to be asked.
    pub(super) quiet: Quiet,
    /// Rails whose own port is down.
    pub(super) dark: BTreeSet<Rail>,
}

/// What may be left to do.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Connections that may have more to read.
    pub(super) ready: Marks,
    /// Connections that may have something to write.
    pub(super) dirty: Marks,
    /// Listeners that may have more to accept.
    pub(super) crowd: BTreeSet<usize>,
}

/// TCP rails of one node.
#[derive(Debug)]
pub struct TcpRails {
    pub(super) local: Local,
    pub(super) turns: Turns,
    pub(super) ports: OwnPorts,
    pub(super) work: Work,
    pub(super) listeners: Vec<TcpListener>,
    pub(super) conns: Vec<Option<Conn>>,
    /// Where the connection of each link is that is up.
    pub(super) links: BTreeMap<(Rail, Node), usize>,
    /// The latest generation of each link that was up.
    pub(super) latest: BTreeMap<(Rail, Node), u32>,
    pub(super) counters: BTreeMap<(Rail, Node), Counters>,
    pub(super) changes: VecDeque<Change>,
    pub(super) refusals: Refusals,
    pub(super) dial: Dial,
    /// What carries frames in place of connections, if something does.
    pub(super) carriage: Option<Carriage>,
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
            let mut listener = socket::listen(address, config.device(rail))
                .map_err(|error| SetupError::Listen { rail: rail as Rail, address, error })?;
            let token = Token(FIRST_LISTENER + rail);
            poll.registry().register(&mut listener, token, Interest::READABLE).map_err(SetupError::Poll)?;
            listeners.push(listener);
        }
        let watch = port::watch(config, poll.registry());
        let c = config;
        let party =
            Party::new(c.node, c.nodes, &c.job_uid, c.attempt, c.epoch, &c.key.0).protecting(c.protection);
        let mut rails = TcpRails {
            turns: Turns {
                poll,
                events: Events::with_capacity(256),
                seen: Vec::new(),
                order: Vec::new(),
                spin: Spin::default(),
                waker,
                turn: 0,
            },
            ports: OwnPorts {
                watch,
                watched: false,
                quiet: Quiet::new(c.rails.len()),
                dark: BTreeSet::new(),
            },
            work: Work::default(),
            listeners,
            conns: Vec::new(),
            links: BTreeMap::new(),
            latest: BTreeMap::new(),
            counters: BTreeMap::new(),
            changes: VecDeque::new(),
            refusals: Refusals::default(),
            dial: Dial::default(),
            carriage: None,
            local: Local { party, random: SystemRandom::new(), config: config.clone() },
        };
        rails.check_ports();
        Ok(rails)
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
        let rails = self.local.config.rails.len();
        for node in (0..self.local.config.nodes as Node).filter(|&n| n != self.local.config.node) {
            let given = peers.get(&node).map_or(0, Vec::len);
            if given != rails {
                return Err(SetupError::Endpoints { node, given, rails });
            }
        }
        let targets =
            peers.iter().filter(|(n, _)| **n != self.local.config.node).flat_map(|(&node, endpoints)| {
                endpoints.iter().enumerate().map(move |(rail, &endpoint)| ((rail as Rail, node), endpoint))
            });
        let now = Instant::now();
        self.dial.start(targets, self.local.config.node, now, deadline);
        self.links.keys().for_each(|&(rail, peer)| self.dial.up(rail, peer, now));
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
        self.turns.poll.registry()
    }

    pub(super) fn drop_conn(&mut self, at: usize) {
        self.end_channel(at);
        if let Some(mut conn) = self.conns[at].take() {
            let _ = self.turns.poll.registry().deregister(&mut conn.stream);
        }
        self.work.ready.remove(at);
        self.work.dirty.remove(at);
    }

    /// Ends a link: what is queued is dropped, and the peer gets a reset.
    pub(super) fn end(&mut self, rail: Rail, peer: Node, cause: RailCause, now: Instant) {
        let Some(at) = self.links.remove(&(rail, peer)) else { return };
        if let Some(Conn { stream, state: State::Open { generation, .. }, .. }) = &self.conns[at] {
            if self.ports.dark.contains(&rail) {
                socket::end_in_the_dark(stream);
            } else {
                socket::reset_at_end(stream);
            }
            tracing::debug!(rail, peer, generation, %cause, "rail down");
            self.changes.push_back(Change::Down(rail, peer, *generation, cause));
        }
        self.drop_conn(at);
        self.dial.down(rail, peer, now);
    }

    /// The generation of a link that is up.
    fn generation(&self, rail: Rail, peer: Node) -> Option<u32> {
        match &self.conns[*self.links.get(&(rail, peer))?] {
            Some(Conn { state: State::Open { generation, .. }, .. }) => Some(*generation),
            _ => None,
        }
    }

    pub(super) fn report(&mut self, sink: &mut dyn Sink) {
        while let Some(change) = self.changes.pop_front() {
            match change {
                Change::Up(rail, peer, generation) => sink.rail_up(rail, peer, generation),
                Change::Down(rail, peer, generation, cause) => {
                    sink.rail_down(rail, peer, generation, cause);
                }
                Change::PortUp(rail) => sink.port_up(rail),
                Change::PortDown(rail) => sink.port_down(rail),
            }
        }
    }

    /// Writes what a link takes.
    fn write(&mut self, at: usize, sink: &mut dyn Sink) {
        let Some(Conn { stream, rail, channel, state: State::Open { peer, sender, sealed, .. }, .. }) =
            &mut self.conns[at]
        else {
            return;
        };
        let (rail, peer) = (*rail, *peer);
        let counters = self.counters.entry((rail, peer)).or_default();
        let before = counters.tx_bytes;
        let mut place = FrameTarget { rail, peer, counters, sink };
        let result = match (*channel, &mut self.carriage) {
            (Some(channel), Some(Carriage { carrier, .. })) => {
                sender.write(&mut Carried { carrier: &mut **carrier, channel }, &mut place)
            }
            _ => match sealed {
                Some(sealed) => write_sealed(sender, &mut sealed.over(stream), &mut place),
                None => sender.write(stream, &mut place),
            },
        };
        let counters = place.counters;
        if counters.tx_bytes > before {
            self.ports.quiet.sent(rail);
        }
        if let Err(cause) = result {
            self.end(rail, peer, cause, Instant::now());
            self.report(sink);
        }
    }

    /// Reads what a link has.
    fn read(&mut self, at: usize, sink: &mut dyn Sink) {
        let Some(Conn { stream, rail, state: State::Open { peer, receiver, sealed, .. }, closing, channel }) =
            &mut self.conns[at]
        else {
            return;
        };
        let (rail, peer, channel) = (*rail, *peer, *channel);
        let counters = self.counters.entry((rail, peer)).or_default();
        let before = counters.rx_bytes;
        let mut place = FrameTarget { rail, peer, counters, sink };
        let result = match (channel, &mut self.carriage) {
            (Some(channel), Some(Carriage { carrier, .. })) => {
                receiver.read(&mut Carried { carrier: &mut **carrier, channel }, false, &mut place)
            }
            _ => match sealed {
                Some(sealed) => receiver.read(&mut sealed.over(stream), *closing, &mut place),
                None => receiver.read(stream, *closing, &mut place),
            },
        };
        if place.counters.rx_bytes > before {
            self.ports.quiet.heard(rail);
            if let (Some(channel), Some(carriage)) = (channel, &mut self.carriage) {
                carriage.heard(rail, channel);
            }
        }
        let beside = if channel.is_some() { self.read_beside(at) } else { Ok(()) };
        match result.and_then(|turn| beside.map(|()| turn)) {
            Ok(PollOutcome::More) => self.work.ready.insert(at),
            Ok(PollOutcome::Drained) => {}
            Err(cause) => {
                self.end(rail, peer, cause, Instant::now());
                self.report(sink);
            }
        }
    }

    /// Waits for events, or until the sink is called: spins first if that is likely to be worth it.
    fn wait(
        &mut self,
        wait: Option<Duration>,
        start: Instant,
        sink: &mut dyn Sink,
    ) -> Result<(), TransportError> {
        if wait == Some(Duration::ZERO) {
            return self.ask(wait);
        }
        let rest = if sink.is_called() { Duration::ZERO } else { sink.rest() };
        let rest = wait.map_or(rest, |wait| wait.min(rest));
        if !rest.is_zero() {
            std::thread::sleep(rest);
            self.ask(Some(Duration::ZERO))?;
            if !self.turns.events.is_empty() || self.is_carrying_news() {
                return Ok(());
            }
        }
        let mut now = start;
        let limit = if sink.is_small() { SMALL } else { SHORT };
        if rest.is_zero() && self.turns.spin.begins(start, limit) {
            loop {
                let called = sink.is_called();
                if called {
                    self.turns.events.clear();
                } else {
                    self.ask(Some(Duration::ZERO))?;
                }
                let last = std::mem::replace(&mut now, Instant::now());
                if called || !self.turns.events.is_empty() {
                    self.turns.spin.ended(now - start, false);
                    return Ok(());
                }
                if self.is_carrying_news() {
                    self.turns.spin.ended(now - start, false);
                    return Ok(());
                }
                let over = wait.is_some_and(|wait| now - start >= wait);
                if over || self.turns.spin.lap(start, last, now) == Lap::Stop {
                    break;
                }
                std::thread::yield_now();
            }
        }
        sink.sleeps(true);
        let called = sink.is_called() || self.arm_carrier();
        let left = wait.map(|wait| wait.saturating_sub(now - start));
        let asked = self.ask(if called { Some(Duration::ZERO) } else { left });
        sink.sleeps(false);
        if called || !self.turns.events.is_empty() {
            self.turns.spin.ended(start.elapsed(), true);
        }
        asked
    }

    /// Whether the carrier has something to report.
    fn is_carrying_news(&mut self) -> bool {
        self.carriage.as_mut().is_some_and(|carriage| {
            carriage.carrier.check(Instant::now(), &mut carriage.news);
            !carriage.news.is_empty()
        })
    }

    /// Has the carrier's next event end a sleep; true if there are some already.
    fn arm_carrier(&mut self) -> bool {
        if let Some(carriage) = &mut self.carriage {
            carriage.carrier.arm();
        }
        self.is_carrying_news()
    }

    fn ask(&mut self, wait: Option<Duration>) -> Result<(), TransportError> {
        match self.turns.poll.poll(&mut self.turns.events, wait) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(TransportError::Poll(error)),
            _ => Ok(()),
        }
    }

    fn handle(&mut self, seen: Seen, sink: &mut dyn Sink) {
        let Seen { token, readable, writable, closed } = seen;
        let first_conn = FIRST_LISTENER + self.listeners.len();
        match token {
            WAKER => {}
            PORTS => self.ports.watched = true,
            // What it reports is taken over in every turn.
            CARRIER => {}
            Token(t) if t < EXTERNAL_TOKENS => sink.external(t),
            Token(t) if t < first_conn => drop(self.work.crowd.insert(t - FIRST_LISTENER)),
            Token(t) => {
                let at = t - first_conn;
                let Some(Some(conn)) = self.conns.get_mut(at) else { return };
                conn.closing |= closed;
                match &mut conn.state {
                    State::Meeting { .. } => self.work.ready.insert(at),
                    State::Open { sender, .. } => {
                        if readable {
                            self.work.ready.insert(at);
                        }
                        if writable {
                            sender.unblock();
                            self.work.dirty.insert(at);
                        }
                    }
                }
            }
        }
    }
}

/// What the last record left over goes first.
fn write_sealed(
    sender: &mut Sender,
    stream: &mut Over<'_, TcpStream>,
    place: &mut FrameTarget<'_>,
) -> Result<(), RailCause> {
    match stream.flush() {
        Ok(true) => sender.write(stream, place),
        // The connection says when it takes more.
        Ok(false) => Ok(()),
        Err(error) => Err(cause(&error)),
    }
}

impl Transport for TcpRails {
    fn send(&mut self, frame: Transmit) {
        let Some(&at) = self.links.get(&(frame.rail, frame.peer)) else { return };
        if let Some(Conn { state: State::Open { sender, .. }, .. }) = &mut self.conns[at] {
            sender.push(frame);
            self.work.dirty.insert(at);
        }
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        self.report(sink);
        if self.work.dirty.is_empty() {
            return;
        }
        let mut order = std::mem::take(&mut self.turns.order);
        self.work.dirty.take(self.turns.turn, &mut order);
        order.iter().for_each(|&at| self.write(at, sink));
        self.turns.order = order;
    }

    fn poll(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> Result<(), TransportError> {
        self.flush(sink);
        let now = Instant::now();
        self.turn_clock(now);
        let quiet = self.ports.quiet.due(now).filter(|_| self.ports.watch.is_some());
        let carrier = self.carriage.as_ref().and_then(|carriage| carriage.carrier.due());
        let timers = [self.next_timer(now), quiet, carrier];
        let timer = timers.into_iter().flatten().min().map(|t| t.saturating_duration_since(now));
        let busy = self.ports.watched
            || !self.work.ready.is_empty()
            || !self.work.crowd.is_empty()
            || !self.changes.is_empty();
        let wait = if busy { Some(Duration::ZERO) } else { timeout.into_iter().chain(timer).min() };
        self.wait(wait, now, sink)?;
        let mut seen = std::mem::take(&mut self.turns.seen);
        seen.extend(self.turns.events.iter().map(Seen::of));
        seen.drain(..).for_each(|seen| self.handle(seen, sink));
        self.turns.seen = seen;
        self.watch_ports(now);
        self.on_carrier(Instant::now());
        if !self.work.crowd.is_empty() {
            let now = Instant::now();
            self.work.crowd.clone().into_iter().for_each(|rail| self.accept(rail, now));
        }
        let mut order = std::mem::take(&mut self.turns.order);
        self.turns.turn += 1;
        self.work.ready.take(self.turns.turn, &mut order);
        if self.half_open() > 0 {
            let now = Instant::now();
            order.iter().for_each(|&at| self.advance(at, now));
        }
        self.report(sink);
        order.iter().for_each(|&at| self.read(at, sink));
        self.turns.order = order;
        self.flush(sink);
        Ok(())
    }

    fn waker(&self) -> Waker {
        let waker = Arc::clone(&self.turns.waker);
        Waker::new(move || {
            if let Err(error) = waker.wake() {
                tracing::warn!(%error, "cannot wake the rails");
            }
        })
    }

    fn counters(&self, rail: Rail, peer: Node) -> Counters {
        self.counters.get(&(rail, peer)).copied().unwrap_or_default()
    }

    fn close(&mut self, rail: Rail, peer: Node, generation: u32, cause: RailCause) {
        if self.generation(rail, peer) == Some(generation) {
            self.end(rail, peer, cause, Instant::now());
        }
    }

    fn redial(&mut self, rail: Rail, peer: Node) {
        if self.dial.hurry(rail, peer, Instant::now()) {
            self.give_up_try(rail, peer);
        }
    }
}
