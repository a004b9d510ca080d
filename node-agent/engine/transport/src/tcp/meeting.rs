//! Connections until they are links: accepted or dialed, authenticated, or refused.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aws_lc_rs::rand::SecureRandom;
use mio::net::TcpStream;
use mio::{Interest, Token};
use node_agent_collective::RailCause;
use node_agent_collective::units::{Node, Rail};

use super::carriage::{Joining, Step};
use super::conn::{Receiver, Sender};
use super::connection::{Change, Conn, State};
use super::handshake::{Handshake, Refused, Side};
use super::rails::TcpRails;
use super::sealed::{Protection, Sealed};
use super::tokens::FIRST_LISTENER;
use super::wire_up::{Miss, PATIENCE, Target};
use super::{DEAD_AFTER, Refusals, socket};

const CLOSED: &str = "closed during the handshake";
const STALE: &str = "older than the link";
/// Connections accepted in one turn.
const ACCEPTS: usize = 64;

/// What became of an exchange of bytes.
enum Exchange {
    /// More will come, or can be sent, later.
    Waits,
    /// The connection is gone.
    Refused,
    /// A whole message has arrived.
    Heard(Vec<u8>),
}

/// What follows from a message.
enum Heard {
    /// The handshake is not over: other messages follow.
    More,
    /// The connection is gone.
    Refused,
    /// The link may begin, in this generation.
    Met(Node, u32),
}

/// What a failed connection says about the way.
fn miss(error: &io::Error) -> Miss {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            Miss::Refused
        }
        _ => Miss::NoWay,
    }
}

impl TcpRails {
    pub(super) fn half_open(&self) -> usize {
        self.conns.iter().flatten().filter(|c| matches!(c.state, State::Meeting { .. })).count()
    }

    /// Room for every peer's honest tries, and some more.
    fn half_open_limit(&self) -> usize {
        2 * self.local.config.nodes * self.local.config.rails.len() + 16
    }

    fn nonce(&self) -> Option<[u8; 32]> {
        let mut nonce = [0; 32];
        self.local.random.fill(&mut nonce).ok()?;
        Some(nonce)
    }

    pub(super) fn accept(&mut self, rail: usize, now: Instant) {
        for _ in 0..ACCEPTS {
            let Ok((stream, from)) = self.listeners[rail].accept() else {
                self.work.crowd.remove(&rail);
                return;
            };
            if self.ports.dark.contains(&(rail as Rail)) {
                // It came just before the port went down, or the news of the port's return is still on its way here;
                // the peer will try again.
                socket::reset_at_end(&stream);
                continue;
            }
            if self.half_open() >= self.half_open_limit() && !self.make_room(from, rail as Rail) {
                self.refusals.crowded += 1;
                continue;
            }
            let Some(nonce) = self.nonce() else { continue };
            let mut handshake = Handshake::listener(rail as Rail, nonce);
            if self.would_carry(rail as Rail) {
                handshake = handshake.carrying();
            }
            self.meet(stream, rail as Rail, handshake, Vec::new(), None, now);
        }
        self.work.crowd.insert(rail);
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
        dialed: Option<(Node, Duration)>,
        now: Instant,
    ) {
        let at = self.conns.iter().position(Option::is_none).unwrap_or(self.conns.len());
        let token = Token(FIRST_LISTENER + self.listeners.len() + at);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.turns.poll.registry().register(&mut stream, token, interest) {
            if let Some((peer, _)) = dialed {
                self.dial.failed(rail, peer, Miss::Refused, &error.to_string(), now);
            }
            return;
        }
        // A connection of one's own is there within the patience for it, or was not answered.
        let until = now + if dialed.is_some() { PATIENCE } else { self.local.config.handshake_timeout };
        let state = State::Meeting {
            handshake,
            inbox: Vec::new(),
            outbox,
            until,
            dialed,
            connected: dialed.is_none(),
            joining: None,
        };
        let conn = Some(Conn { stream, rail, state, closing: false, channel: None });
        if at == self.conns.len() {
            self.conns.push(conn);
        } else {
            self.conns[at] = conn;
        }
        self.work.ready.insert(at);
    }

    /// Ends a connection that was not authenticated.
    pub(super) fn refuse(
        &mut self,
        at: usize,
        count: impl FnOnce(&mut Refusals),
        miss: Miss,
        why: &str,
        now: Instant,
    ) {
        count(&mut self.refusals);
        if let Some(Conn { rail, stream, state: State::Meeting { dialed: Some((peer, _)), .. }, .. }) =
            &self.conns[at]
        {
            socket::reset_at_end(stream);
            self.dial.failed(*rail, *peer, miss, why, now);
        }
        self.drop_conn(at);
    }

    /// Drops the attempt at a link that runs here, if one does.
    pub(super) fn give_up_try(&mut self, rail: Rail, peer: Node) {
        let ours = |conn: &Option<Conn>| match conn {
            Some(Conn { rail: r, state: State::Meeting { dialed: Some((p, _)), .. }, .. }) => {
                (*r, *p) == (rail, peer)
            }
            _ => false,
        };
        if let Some(at) = self.conns.iter().position(ours) {
            if let Some(Conn { stream, .. }) = &self.conns[at] {
                socket::reset_at_end(stream);
            }
            self.drop_conn(at);
        }
    }

    /// Drops every connection on a rail whose port is dark that is not a link yet.
    pub(super) fn give_up_meetings(&mut self, rail: Rail) {
        for at in 0..self.conns.len() {
            if let Some(Conn { rail: r, stream, state: State::Meeting { .. }, .. }) = &self.conns[at]
                && *r == rail
            {
                socket::end_in_the_dark(stream);
                self.drop_conn(at);
            }
        }
    }

    /// Carries a handshake on as far as its bytes go.
    pub(super) fn advance(&mut self, at: usize, now: Instant) {
        let Some(Conn { stream, state, .. }) = &mut self.conns[at] else { return };
        let State::Meeting { connected, until, dialed, .. } = state else { return };
        if !*connected {
            if let Ok(Some(error)) | Err(error) = stream.take_error() {
                return self.refuse(at, |r| r.closed += 1, miss(&error), &error.to_string(), now);
            }
            if stream.peer_addr().is_err() {
                return;
            }
            *connected = true;
            if let Some((_, patience)) = dialed {
                *until = now + (*patience).min(self.local.config.handshake_timeout);
            }
        }
        let met = loop {
            match self.exchange(at, now) {
                Exchange::Waits => return,
                Exchange::Refused => return,
                Exchange::Heard(message) => match self.heard(at, &message, now) {
                    Heard::More => {}
                    Heard::Refused => return,
                    Heard::Met(peer, generation) => break (peer, generation),
                },
            }
        };
        let Some(Conn { stream, rail, state: State::Meeting { outbox, .. }, .. }) = &mut self.conns[at]
        else {
            return;
        };
        let (rail, (peer, generation)) = (*rail, met);
        // The last message is a few bytes into an empty socket buffer: if that does not take them, the link is no good.
        if !outbox.is_empty() && !matches!(stream.write(outbox), Ok(n) if n == outbox.len()) {
            return self.refuse(at, |r| r.closed += 1, Miss::Refused, CLOSED, now);
        }
        if self.is_stale(rail, peer, generation) {
            return self.refuse(at, |r| r.stale += 1, Miss::Refused, STALE, now);
        }
        self.open(at, rail, peer, generation, now);
    }

    /// A generation is up once. An older one may come late, from an attempt that was given up; the peer makes a newer one.
    fn is_stale(&self, rail: Rail, peer: Node, generation: u32) -> bool {
        self.latest.get(&(rail, peer)).is_some_and(|&latest| latest >= generation)
    }

    /// Sends what is to be sent and reads the message that is awaited.
    fn exchange(&mut self, at: usize, now: Instant) -> Exchange {
        let Some(Conn { stream, state, .. }) = &mut self.conns[at] else { return Exchange::Refused };
        let State::Meeting { handshake, inbox, outbox, joining, .. } = state else {
            return Exchange::Refused;
        };
        let error = loop {
            if !outbox.is_empty() {
                match stream.write(outbox) {
                    Ok(n) => drop(outbox.drain(..n)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Exchange::Waits,
                    Err(error) => break error,
                }
                continue;
            }
            let mut buffer = [0; 256];
            let expects = joining.as_ref().map_or(handshake.expects(), Joining::expects);
            let want = (expects - inbox.len()).min(buffer.len());
            match stream.read(&mut buffer[..want]) {
                Ok(0) => {
                    self.refuse(at, |r| r.closed += 1, Miss::Refused, CLOSED, now);
                    return Exchange::Refused;
                }
                Ok(n) => inbox.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Exchange::Waits,
                Err(error) => break error,
            }
            if joining.is_none() && !handshake.plausible(inbox) {
                let why = "no answer of this protocol";
                self.refuse(at, |r| r.garbage += 1, Miss::Refused, why, now);
                return Exchange::Refused;
            }
            if inbox.len() == expects {
                return Exchange::Heard(std::mem::take(inbox));
            }
        };
        self.refuse(at, |r| r.closed += 1, miss(&error), &error.to_string(), now);
        Exchange::Refused
    }

    /// Takes a whole message.
    fn heard(&mut self, at: usize, message: &[u8], now: Instant) -> Heard {
        let Some(Conn { rail, state, .. }) = &mut self.conns[at] else { return Heard::Refused };
        let State::Meeting { handshake, outbox, joining, .. } = state else { return Heard::Refused };
        if joining.is_some() {
            return match self.join(at, message) {
                Ok(Step::More) => Heard::More,
                Ok(Step::Done(peer, generation)) => Heard::Met(peer, generation),
                Err(why) => {
                    self.refuse_channel(at, &why, now);
                    Heard::Refused
                }
            };
        }
        let (rail, carries) = (*rail, handshake.take(message, &self.local.party));
        let (met, carries) = match carries {
            Ok(next) => {
                outbox.extend(next.send);
                let Some(met) = next.done else { return Heard::More };
                (met, handshake.carries())
            }
            Err(refused) => {
                let count = move |r: &mut Refusals| match refused {
                    Refused::Garbage => r.garbage += 1,
                    Refused::Stranger => r.stranger += 1,
                    Refused::WrongKey => r.wrong_key += 1,
                };
                self.refuse(at, count, Miss::Refused, &refused.to_string(), now);
                return Heard::Refused;
            }
        };
        let (peer, generation) = met;
        if self.is_stale(rail, peer, generation) {
            self.refuse(at, |r| r.stale += 1, Miss::Refused, STALE, now);
            return Heard::Refused;
        }
        if !carries && self.must_carry() {
            self.refuse_channel(
                at,
                "only verbs are allowed here, and not both ends can carry this rail",
                now,
            );
            return Heard::Refused;
        }
        if !carries {
            return Heard::Met(peer, generation);
        }
        match self.begin_join(at, peer, generation) {
            Ok(()) => Heard::More,
            Err(why) => {
                self.refuse_channel(at, &why, now);
                Heard::Refused
            }
        }
    }

    /// A connection is authenticated: it is the link now. One that was there before, of an older generation, is dead at
    /// its other end, or the peer would not have come again.
    fn open(&mut self, at: usize, rail: Rail, peer: Node, generation: u32, now: Instant) {
        self.end(rail, peer, RailCause::Closed, now);
        let sealed = match self.sealed(at) {
            Ok(sealed) => sealed,
            Err(error) => return self.refuse(at, |r| r.closed += 1, Miss::Refused, &error.to_string(), now),
        };
        let Some(conn) = &mut self.conns[at] else { return };
        if let Err(error) = socket::tune(&conn.stream, DEAD_AFTER) {
            tracing::warn!(rail, peer, %error, "cannot set socket options");
        }
        let (receiver, sender) = (Receiver::new(), Sender::default());
        conn.state = State::Open { peer, generation, receiver, sender, sealed };
        self.links.insert((rail, peer), at);
        self.latest.insert((rail, peer), generation);
        self.counters.entry((rail, peer)).or_default().ups += 1;
        self.dial.up(rail, peer, now);
        self.changes.push_back(Change::Up(rail, peer, generation));
        self.work.ready.insert(at);
        tracing::debug!(rail, peer, generation, "rail up");
    }

    /// The record layer of a connection that is authenticated, where the job's links are protected.
    fn sealed(&self, at: usize) -> io::Result<Option<Box<Sealed>>> {
        let protection = self.local.party.protection;
        let Some(Conn { state: State::Meeting { handshake, dialed, .. }, .. }) = &self.conns[at] else {
            return Ok(None);
        };
        if protection == Protection::None {
            return Ok(None);
        }
        let side = if dialed.is_some() { Side::Dialer } else { Side::Listener };
        let secret = |side| handshake.secret(&self.local.party, side);
        let sealed = Sealed::new(protection, secret(side), secret(side.other()))?;
        Ok(Some(Box::new(sealed)))
    }

    /// Dials what is due and drops what is too slow.
    pub(super) fn turn_clock(&mut self, now: Instant) {
        for at in 0..self.conns.len() {
            if let Some(Conn { state: State::Meeting { until, dialed, connected, .. }, .. }) = &self.conns[at]
                && *until <= now
            {
                let (miss, why) = match (dialed, connected) {
                    (Some(_), false) => (Miss::Unanswered, "no answer"),
                    _ => (Miss::Slow, "no answer in time"),
                };
                // Nobody was refused by a network that is silent.
                let slow = u64::from(miss == Miss::Slow);
                self.refuse(at, |r| r.slow += slow, miss, why, now);
            }
        }
        for (rail, peer) in self.dial.knocks(now) {
            let rail = usize::from(rail);
            socket::knock(self.local.config.rails[rail], self.local.config.device(rail), peer);
        }
        for Target { rail, peer, endpoint, generation, patience } in self.dial.due(now) {
            let Some(nonce) = self.nonce() else {
                self.dial.failed(rail, peer, Miss::Refused, "the system gives no random numbers", now);
                continue;
            };
            let (own, device) =
                (self.local.config.rails[usize::from(rail)], self.local.config.device(usize::from(rail)));
            match socket::dial(own, device, endpoint) {
                Ok(stream) => {
                    let carries = self.would_carry(rail);
                    let (handshake, hello) =
                        Handshake::dialer_that(&self.local.party, peer, rail, generation, nonce, carries);
                    self.meet(stream, rail, handshake, hello, Some((peer, patience)), now);
                }
                Err(error) => self.dial.failed(rail, peer, miss(&error), &error.to_string(), now),
            }
        }
    }

    pub(super) fn next_timer(&self, now: Instant) -> Option<Instant> {
        let meetings = self.conns.iter().flatten().filter_map(|c| match c.state {
            State::Meeting { until, .. } => Some(until),
            State::Open { .. } => None,
        });
        meetings.chain(self.dial.next(now)).min()
    }
}
