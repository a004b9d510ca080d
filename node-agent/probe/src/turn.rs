//! A turn that this node begins: meets the partner, then measures all rails.
//!
//! A node may not run for a while, for its server is busy. So no time limit alone makes a finding here: what has not come is missed
//! only once a later question is answered (`settle.rs`), what found no room in a socket is not counted (`small.rs`), and a burst is no
//! faster than its sender ran (`burst.rs`). What could not be found out in time is not reported.

use std::{
    cmp::Ordering,
    net::SocketAddr,
    time::{Duration, Instant},
};

use aws_lc_rs::rand;

use crate::{
    burst::Speed,
    packet::{Body, Packet},
    prober::{Got, Peer, Prober},
    report::{PairReport, PathMeasurement},
};

/// A partner that is not there yet is asked again after this.
pub(crate) const AGAIN: Duration = Duration::from_millis(5);
/// Of this many asks one goes to the partner's other rails, too.
pub(crate) const CROSSWISE: u32 = 4;
/// A partner is silent only if it was asked so often: this node itself may not have run.
const SILENT: u32 = 40;
/// The end of a turn is said again after this,
const DONE: Duration = Duration::from_millis(25);
/// and for this long at most. A partner that does not hear it waits until the turn's end.
const PARTING: Duration = Duration::from_millis(500);

/// One rail during a turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct RailMeasurement {
    pub(crate) there: PathMeasurement,
    pub(crate) back: PathMeasurement,
    pub(crate) speed_there: Speed,
    pub(crate) speed_back: Speed,
    pub(crate) rtt_us: Option<u32>,
    pub(crate) answered: bool,
    pub(crate) crossed: Option<u16>,
    /// What the partner's port has dropped, as it said last.
    pub(crate) dropped: u32,
    /// Asks that have come to the partner's port, as it said last.
    pub(crate) asks: u32,
}

/// One turn with a partner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pairing<'a> {
    pub(crate) peer: &'a Peer,
    /// All packets of it begin like this.
    pub(crate) head: Packet,
    /// Nothing is waited for after this.
    pub(crate) until: Instant,
}

/// Something could not be found out in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unknown;

impl Pairing<'_> {
    pub(crate) fn to(&self, at: usize) -> Option<SocketAddr> {
        self.peer.rails.get(at).copied()
    }

    pub(crate) fn ask(&self, sequence: u32, reply: u32) -> Packet {
        Packet { sequence, body: Body::Ask { reply }, ..self.head }
    }
}

impl Prober {
    /// Measures one partner on all rails. Nothing if the two did not meet although the partner lives, or if one of them ran too little.
    pub(crate) fn begin(&mut self, peer: &Peer, until: Instant) -> Vec<PairReport> {
        let mut nonce = [0; 8];
        if rand::fill(&mut nonce).is_err() || peer.rails.len() != self.ports.len() {
            return Vec::new();
        }
        let nonce = u64::from_le_bytes(nonce);
        // Those of other conversations have other nonces.
        self.marked = 0;
        let (from, to, round) = (self.config.node, peer.node, self.round);
        let head = Packet { from, to, round, nonce, sequence: 0, body: Body::Done };
        let mut measurements = vec![RailMeasurement::default(); self.ports.len()];
        let mut pair = Pairing { peer, head, until };
        match self.meet(&pair) {
            // A partner that came late still answers when it has gone on.
            Meeting::Met => pair.until = until.max(Instant::now() + self.config.limits.turn),
            Meeting::Early | Meeting::Gone | Meeting::Unknown => return Vec::new(),
            Meeting::Silent => {
                measurements.iter_mut().for_each(|measurement| {
                    measurement.there = PathMeasurement { sent: 1, lost: 1, ..PathMeasurement::default() }
                });
                return self.reports(&pair, &measurements);
            }
        }
        let known = self.measure(&pair, &mut measurements);
        self.part(&pair, &measurements);
        if known.is_ok() { self.reports(&pair, &measurements) } else { Vec::new() }
    }

    fn measure(&mut self, pair: &Pairing<'_>, measurements: &mut [RailMeasurement]) -> Result<(), Unknown> {
        self.small(pair, measurements)?;
        self.cross(pair, measurements)?;
        self.large(pair, measurements)?;
        self.bursts(pair, measurements);
        Ok(())
    }

    fn reports(&self, pair: &Pairing<'_>, measurements: &[RailMeasurement]) -> Vec<PairReport> {
        let report = |(rail, measurement): (&crate::prober::Rail, &RailMeasurement)| PairReport {
            round: pair.head.round,
            peer: pair.peer.node,
            rail: rail.rail,
            there: measurement.speed_there.reported(measurement.there),
            back: measurement.speed_back.reported(measurement.back),
            rtt_us: measurement.rtt_us,
            crossed: measurement.crossed,
        };
        self.config.rails.iter().zip(measurements).map(report).collect()
    }

    /// Asks on all rails until the partner is in this round, too.
    fn meet(&mut self, pair: &Pairing<'_>) -> Meeting {
        let mut meeting = Meeting::Silent;
        let mut asked = 0_u32;
        while Instant::now() < pair.until {
            asked += 1;
            // Where all rails are swapped, none answers to its own; who cannot be met could not be asked which does.
            let crosswise = asked.is_multiple_of(CROSSWISE);
            self.mark(pair, crosswise);
            self.pump((Instant::now() + AGAIN).min(pair.until), |got| {
                let Some(Body::Answer { at, .. }) = got.of(pair.head) else { return false };
                let now = match at.cmp(&pair.head.round) {
                    Ordering::Less => Meeting::Early,
                    Ordering::Equal => Meeting::Met,
                    Ordering::Greater => Meeting::Gone,
                };
                meeting = if meeting == Meeting::Met { meeting } else { now };
                meeting != Meeting::Early
            });
            if matches!(meeting, Meeting::Met | Meeting::Gone) {
                return meeting;
            }
        }
        if meeting == Meeting::Silent && asked < SILENT { Meeting::Unknown } else { meeting }
    }

    /// Tells the partner that it may go on.
    fn part(&mut self, pair: &Pairing<'_>, measurements: &[RailMeasurement]) {
        let sequence = 4_000_000;
        let place = |rail: u16| self.config.rails.iter().position(|own| own.rail == rail);
        let way = |(at, measurement): (usize, &RailMeasurement)| match measurement.crossed {
            Some(rail) => Some((at, pair.to(place(rail)?)?)),
            None => Some((at, pair.to(at)?)),
        };
        let ways: Vec<_> = measurements.iter().enumerate().filter_map(way).collect();
        let end = Instant::now() + PARTING;
        loop {
            for (at, to) in &ways {
                self.send(*at, &Packet { sequence, body: Body::Done, ..pair.head }, 0, *to);
            }
            let mut heard = false;
            self.pump(Instant::now() + DONE, |got| {
                heard |= got.of(pair.head).is_some() && got.packet.sequence == sequence;
                heard
            });
            if heard || Instant::now() >= end {
                return;
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meeting {
    Met,
    /// It lives, and is in an earlier round.
    Early,
    /// It has given this round up.
    Gone,
    Silent,
    /// It was asked too seldom to conclude anything from its silence.
    Unknown,
}

impl Got {
    /// What it says, if it belongs to this conversation.
    pub(crate) fn of(&self, head: Packet) -> Option<Body> {
        let own = self.packet.nonce == head.nonce && self.packet.from == head.to;
        own.then_some(self.packet.body)
    }
}
