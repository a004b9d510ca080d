//! A turn that this node begins: meets the partner, then measures all rails.

use std::{
    cmp::Ordering,
    time::{Duration, Instant},
};

use aws_lc_rs::rand;

use crate::{
    hear::Burst,
    packet::{Body, Packet},
    prober::{Got, Peer, Prober},
    report::{PairReport, Way},
};

/// A partner that is not there yet is asked again after this.
const AGAIN: Duration = Duration::from_millis(5);
/// Of so many asks one goes to the partner's other rails, too.
const CROSSWISE: u32 = 4;
/// Small probes that are on their way at once.
const WINDOW: u32 = 16;
/// A packet of the size that is tried has this long to come back, each time it is tried.
const LARGE: Duration = Duration::from_millis(25);
/// Times that it is tried.
const TRIES: u32 = 2;
/// Sizes of IP packets that are tried where the port's own do not pass.
const SIZES: [u32; 6] = [9000, 4200, 2000, 1500, 1400, 1280];
/// What a packet of a burst may have of IP, so that there are enough of them.
const BURST_PACKET: u32 = 9000;
/// How often the end of a turn is said until it is confirmed.
const DONE: u32 = 4;

/// One rail during a turn.
#[derive(Debug, Clone, Default)]
struct Lane {
    there: Way,
    back: Way,
    rtt_us: Option<u32>,
    answered: bool,
    crossed: Option<u16>,
}

impl Prober {
    /// Measures one partner on all rails. Nothing if the two did not meet although the partner lives.
    pub(crate) fn begin(&mut self, peer: &Peer, until: Instant) -> Vec<PairReport> {
        let round = self.round;
        let mut nonce = [0; 8];
        if rand::fill(&mut nonce).is_err() || peer.rails.len() != self.ports.len() {
            return Vec::new();
        }
        let head = Packet {
            from: self.config.node,
            to: peer.node,
            round,
            nonce: u64::from_le_bytes(nonce),
            sequence: 0,
            body: Body::Done,
        };
        let mut lanes = vec![Lane::default(); self.ports.len()];
        match self.meet(peer, head, until) {
            Meeting::Met => {}
            Meeting::Early | Meeting::Gone => return Vec::new(),
            Meeting::Silent => {
                lanes.iter_mut().for_each(|lane| lane.there = Way { sent: 1, lost: 1, ..Way::default() });
                return self.reports(peer, round, &lanes);
            }
        }
        self.small(peer, head, &mut lanes);
        self.cross(peer, head, &mut lanes);
        self.large(peer, head, &mut lanes);
        for burst in 0..self.config.limits.bursts {
            self.bursts(peer, head, 1_000_000 + 2 * burst, &mut lanes);
        }
        self.part(peer, head, &lanes, until);
        self.reports(peer, round, &lanes)
    }

    fn reports(&self, peer: &Peer, round: u32, lanes: &[Lane]) -> Vec<PairReport> {
        let report = |(rail, lane): (&crate::prober::Rail, &Lane)| PairReport {
            round,
            peer: peer.node,
            rail: rail.rail,
            there: lane.there,
            back: lane.back,
            rtt_us: lane.rtt_us,
            crossed: lane.crossed,
        };
        self.config.rails.iter().zip(lanes).map(report).collect()
    }

    /// Asks on all rails until the partner is in this round, too.
    fn meet(&mut self, peer: &Peer, head: Packet, until: Instant) -> Meeting {
        let mut meeting = Meeting::Silent;
        let mut asked = 0_u32;
        while Instant::now() < until {
            asked += 1;
            // Where all rails are swapped, none answers to its own; who cannot be met could not be asked which does.
            let crosswise = asked.is_multiple_of(CROSSWISE);
            for (at, to) in peer.rails.iter().enumerate() {
                self.send(at, &Packet { body: Body::Ask { reply: 0 }, ..head }, 0, *to);
                for own in (0..self.ports.len()).filter(|own| crosswise && *own != at) {
                    self.send(own, &Packet { body: Body::Ask { reply: 0 }, ..head }, 0, *to);
                }
            }
            let again = (Instant::now() + AGAIN).min(until);
            self.pump(again, |got| {
                let Some(Body::Answer { at, .. }) = got.of(head) else { return false };
                meeting = match at.cmp(&head.round) {
                    Ordering::Less => Meeting::Early,
                    Ordering::Equal => Meeting::Met,
                    Ordering::Greater => Meeting::Gone,
                };
                meeting != Meeting::Early
            });
            match meeting {
                Meeting::Silent | Meeting::Early => {}
                Meeting::Met | Meeting::Gone => return meeting,
            }
        }
        meeting
    }

    /// Small packets: which rails answer, what is lost, how soon.
    fn small(&mut self, peer: &Peer, head: Packet, lanes: &mut [Lane]) {
        let (probes, limit) = (self.config.limits.probes, self.config.limits.answer);
        let mut first = 1;
        // Answers to the meeting's asks are not counted: `asks` is told as a number from there on.
        let mut base: Vec<Option<u32>> = vec![None; lanes.len()];
        while first <= probes {
            let last = (first + WINDOW - 1).min(probes);
            let begun = Instant::now();
            let mut open = 0;
            for (at, to) in peer.rails.iter().enumerate() {
                // A rail that answered nothing of its first window is silent.
                if first > 1 && !lanes.get(at).is_some_and(|lane| lane.answered) {
                    continue;
                }
                for sequence in first..=last {
                    self.send(at, &Packet { sequence, body: Body::Ask { reply: 0 }, ..head }, 0, *to);
                    open += 1;
                }
                if let Some(lane) = lanes.get_mut(at) {
                    lane.there.sent += last - first + 1;
                }
            }
            self.pump(begun + limit, |got| {
                let Some(Body::Answer { dscp, asks, .. }) = got.of(head) else { return false };
                let sequence = got.packet.sequence;
                let Some(lane) = lanes.get_mut(got.port).filter(|_| (first..=last).contains(&sequence))
                else {
                    return false;
                };
                lane.answered = true;
                lane.there.dscp = dscp.or(lane.there.dscp);
                lane.back.dscp = got.arrival.class.map(|class| class >> 2).or(lane.back.dscp);
                lane.back.lost += 1;
                let micros = u32::try_from((got.when - begun).as_micros()).unwrap_or(u32::MAX);
                lane.rtt_us = lane.rtt_us.into_iter().chain([micros]).min();
                if let Some(base) = base.get_mut(got.port) {
                    lane.back.sent = lane.back.sent.max(asks.saturating_sub(*base.get_or_insert(asks - 1)));
                }
                open -= 1;
                open == 0
            });
            first = last + 1;
        }
        for lane in lanes {
            // `back.lost` has counted what came: what the partner answered less that is lost on the way back.
            let came = lane.back.lost;
            lane.back.sent = lane.back.sent.clamp(came, lane.there.sent);
            lane.there.lost = lane.there.sent - lane.back.sent;
            lane.back.lost = lane.back.sent - came;
        }
    }

    /// Where a rail does not answer: does another of the partner's?
    fn cross(&mut self, peer: &Peer, head: Packet, lanes: &mut [Lane]) {
        let dark: Vec<usize> =
            lanes.iter().enumerate().filter(|(_, lane)| !lane.answered).map(|(at, _)| at).collect();
        if dark.is_empty() {
            return;
        }
        for at in &dark {
            for (other, to) in peer.rails.iter().enumerate().filter(|(other, _)| other != at) {
                let sequence = 2_000_000 + u32::try_from(other).unwrap_or(u32::MAX);
                self.send(*at, &Packet { sequence, body: Body::Ask { reply: 0 }, ..head }, 0, *to);
            }
        }
        let numbers: Vec<u16> = self.config.rails.iter().map(|rail| rail.rail).collect();
        let mut open = dark.len();
        self.pump(Instant::now() + self.config.limits.answer, |got| {
            let other = got.packet.sequence.checked_sub(2_000_000);
            let rail = other.and_then(|other| numbers.get(other as usize));
            let answers = matches!(got.of(head), Some(Body::Answer { .. }));
            if let (true, Some(rail), Some(lane)) = (answers, rail, lanes.get_mut(got.port))
                && lane.crossed.is_none()
            {
                lane.crossed = Some(*rail);
                open -= 1;
            }
            open == 0
        });
    }

    /// The largest packets that pass, each way.
    fn large(&mut self, peer: &Peer, head: Packet, lanes: &mut [Lane]) {
        for (at, to) in peer.rails.iter().enumerate() {
            let own = self.ports.get(at).and_then(|port| port.mtu(*to));
            let Some(own) = own.filter(|_| lanes.get(at).is_some_and(|lane| lane.answered)) else { continue };
            let sizes = || std::iter::once(own).chain(SIZES.into_iter().filter(move |size| *size < own));
            let there = sizes().find(|size| self.passes(at, *to, head, *size, true));
            let back = sizes().find(|size| self.passes(at, *to, head, *size, false));
            if let Some(lane) = lanes.get_mut(at) {
                // Small packets do pass: where none of these did, the least of them is told.
                (lane.there.mtu, lane.back.mtu) = (there.or(Some(BYTES_ONLY)), back.or(Some(BYTES_ONLY)));
            }
        }
    }

    fn passes(&mut self, at: usize, to: std::net::SocketAddr, head: Packet, size: u32, there: bool) -> bool {
        let Some(payload) = self.ports.get(at).map(|port| size.saturating_sub(port.headers())) else {
            return false;
        };
        for _ in 0..TRIES {
            let sequence = 3_000_000 + size * 2 + u32::from(there);
            let (reply, padding) = if there { (0, payload) } else { (payload, 0) };
            if !self.send(at, &Packet { sequence, body: Body::Ask { reply }, ..head }, padding, to) {
                return false;
            }
            let mut passed = false;
            self.pump(Instant::now() + LARGE, |got| {
                let Some(Body::Answer { seen, .. }) = got.of(head) else { return false };
                let whole = if there { seen } else { u32::try_from(got.arrival.length).unwrap_or(u32::MAX) };
                passed |= got.packet.sequence == sequence && got.port == at && whole >= payload;
                passed
            });
            if passed {
                return true;
            }
        }
        false
    }

    /// One burst there and one back on each rail; the best of several counts.
    fn bursts(&mut self, peer: &Peer, head: Packet, sequence: u32, lanes: &mut [Lane]) {
        let limits = self.config.limits;
        let plan = |prober: &Self, at: usize, way: &Way| {
            let headers = prober.ports.get(at)?.headers();
            let bytes = way.mtu?.min(BURST_PACKET).saturating_sub(headers).max(64);
            let packets = u32::try_from(limits.burst_bytes / bytes as usize).ok()?.clamp(8, 512);
            Some((packets, bytes))
        };
        let mut open = 0;
        for (at, to) in peer.rails.iter().enumerate() {
            let Some((packets, bytes)) = lanes.get(at).and_then(|lane| plan(self, at, &lane.there)) else {
                continue;
            };
            let burst = Packet { sequence, body: Body::Burst { of: packets }, ..head };
            self.send_burst(at, &burst, packets, bytes, *to);
            open += 1;
        }
        let mut arrived = vec![false; lanes.len()];
        let end = Instant::now() + limits.burst;
        // Asked again until nothing more comes: what is late is on its way through a slow rail.
        while open > 0 && Instant::now() < end {
            for (at, to) in peer.rails.iter().enumerate() {
                if lanes.get(at).is_some_and(|lane| lane.there.mtu.is_some())
                    && arrived.get(at) == Some(&false)
                {
                    self.send(at, &Packet { sequence, body: Body::Ended, ..head }, 0, *to);
                }
            }
            self.pump((Instant::now() + AGAIN).min(end), |got| {
                let Some(Body::Arrived { mbps, packets }) = got.of(head) else { return false };
                let wanted = got.packet.sequence == sequence;
                let (Some(lane), Some(done)) = (lanes.get_mut(got.port), arrived.get_mut(got.port)) else {
                    return false;
                };
                if !wanted || *done {
                    return false;
                }
                // The question came through the same queue, so that all of the burst is there.
                *done = packets > 0;
                open -= usize::from(*done);
                lane.there.mbps = lane.there.mbps.into_iter().chain((mbps > 0).then_some(mbps)).max();
                open == 0
            });
        }
        self.bursts_back(peer, head, sequence + 1, lanes);
    }

    fn bursts_back(&mut self, peer: &Peer, head: Packet, sequence: u32, lanes: &mut [Lane]) {
        let limits = self.config.limits;
        let mut ended = vec![true; lanes.len()];
        for (at, to) in peer.rails.iter().enumerate() {
            let (Some(lane), Some(port)) = (lanes.get(at), self.ports.get(at)) else { continue };
            let Some(mtu) = lane.back.mtu else { continue };
            let bytes = mtu.min(BURST_PACKET).saturating_sub(port.headers()).max(64);
            let packets = u32::try_from(limits.burst_bytes / bytes as usize).unwrap_or(8).clamp(8, 512);
            self.send(at, &Packet { sequence, body: Body::Please { packets, bytes }, ..head }, 0, *to);
            if let Some(ended) = ended.get_mut(at) {
                *ended = false;
            }
        }
        let mut bursts = vec![Burst::default(); lanes.len()];
        self.pump(Instant::now() + limits.burst, |got| {
            let body = got.of(head).filter(|_| got.packet.sequence == sequence);
            match (body, bursts.get_mut(got.port), ended.get_mut(got.port)) {
                (Some(Body::Burst { .. }), Some(burst), _) => burst.add(&got.arrival),
                (Some(Body::Arrived { .. }), _, Some(ended)) => *ended = true,
                _ => {}
            }
            ended.iter().all(|ended| *ended)
        });
        for (lane, burst) in lanes.iter_mut().zip(&bursts) {
            lane.back.mbps = lane.back.mbps.into_iter().chain(burst.mbps()).max();
        }
    }

    /// Tells the partner that it may go on.
    fn part(&mut self, peer: &Peer, head: Packet, lanes: &[Lane], until: Instant) {
        let sequence = 4_000_000;
        let place = |rail: u16| self.config.rails.iter().position(|own| own.rail == rail);
        let way = |(at, lane): (usize, &Lane)| match lane.crossed {
            Some(rail) => Some((at, *peer.rails.get(place(rail)?)?)),
            None => Some((at, *peer.rails.get(at)?)),
        };
        let ways: Vec<_> = lanes.iter().enumerate().filter_map(way).collect();
        for _ in 0..DONE {
            for (at, to) in &ways {
                self.send(*at, &Packet { sequence, body: Body::Done, ..head }, 0, *to);
            }
            let mut heard = false;
            self.pump((Instant::now() + LARGE).min(until.max(Instant::now() + AGAIN)), |got| {
                heard |= got.of(head).is_some() && got.packet.sequence == sequence;
                heard
            });
            if heard {
                return;
            }
        }
    }
}

/// Told as the MTU where not even the least size that is tried passed.
const BYTES_ONLY: u32 = 576;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meeting {
    Met,
    /// It lives, and is in an earlier round.
    Early,
    /// It has given this round up.
    Gone,
    Silent,
}

impl Got {
    /// What it says, if it belongs to this conversation.
    fn of(&self, head: Packet) -> Option<Body> {
        let own = self.packet.nonce == head.nonce && self.packet.from == head.to;
        own.then_some(self.packet.body)
    }
}
