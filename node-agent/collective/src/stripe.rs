//! Links and the choice of the rail for a chunk.
//!
//! A link is one (rail, peer). Bytes handed to it count as on their way until the peer has acknowledged them, so what
//! sits in socket buffers and switches is known, bounded by the link's window, and its service rate is measured.
//!
//! The rule ([`Links::choose`]): of the rails with room, a chunk goes to the one that finishes it first, by bytes on their
//! way and measured rate. But it waits for a better rail if that rail would end it before, and the slow one after, everything else that is
//! to go there: so no rail idles while there is enough to do, and a slow rail never holds the tail. While the rates are
//! alike (within a factor of two, or within what a chunk's time varies by on a busy processor) the differences may be noise: then, of the rails with room, the one that has carried
//! least takes the chunk. While they are equal over many measurements (within a quarter), no rail may lead the others by more than a
//! thirty-second part: equal rails end balanced. A rate that is old counts as unknown, and an unknown rate as the
//! best known: that is the probe by which a rail that was slow is found to be fast again. A frame that is overdue lowers
//! its link's rate before it is acknowledged.

use std::collections::VecDeque;

use crate::error::FrameError;
use crate::shape::{Node, Rail, Time};

/// Rates that differ by less than this factor may be equal.
const ALIKE: f64 = 2.0;
/// Rates that differ by less than this factor are equal.
const EQUAL: f64 = 1.25;
/// Weight of a sample in the rate that tells equal rails from others.
const STEADY: f64 = 0.0625;
/// A rate that was not measured again for so long is unknown.
const RATE_AGE: Time = Time::from_millis(500);
/// A link has no more on its way than it carries in this time: enough to bridge the pauses of a busy processor, little
/// enough that senders to one node do not overflow the switch's queue before it.
const REACH: Time = Time::from_millis(10);
/// Frames smaller than this say more of delays than of rates.
const MEASURED_FROM: u64 = 16 << 10;
/// A rate sample is of so many bytes in no less than [`SAMPLE_TIME`], or of four times that time: a link that is as fast
/// as the processor is measured over many of the processor's pauses.
const SAMPLE: u64 = 256 << 10;
/// See [`SAMPLE`].
const SAMPLE_TIME: Time = Time::from_millis(10);

/// A rail that carried less than others catches up on so many bytes at most.
const DEBT: u64 = 2 << 20;
/// Bytes of a chunk that rails are compared by.
const REFERENCE: f64 = 32768.0;

/// A frame on its way.
#[derive(Debug, Clone, Copy)]
struct OnWay {
    /// Bytes handed to the link up to the end of this frame.
    end: u64,
    bytes: u64,
    since: Time,
}

/// One (rail, peer).
#[derive(Debug, Default)]
pub struct Link {
    up: bool,
    handed: u64,
    acked: u64,
    on_way: VecDeque<OnWay>,
    last_ack: Time,
    received: u64,
    told: u64,
    unacked_since: Option<Time>,
    sample_bytes: u64,
    sample_time: Time,
    rate: Option<(f64, Time)>,
    /// The rate over many samples, and how many.
    steady: (f64, u32),
}

impl Link {
    /// Bytes handed to the link and not acknowledged.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.handed - self.acked
    }

    /// Whether the link is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Bytes of whole frames received, to be told to the peer.
    pub fn tell(&mut self) -> u64 {
        self.told = self.received;
        self.unacked_since = None;
        self.received
    }

    /// A whole frame came in. Frames that carry nothing but an acknowledgement are not counted, on neither side: they
    /// need none themselves.
    pub fn received(&mut self, bytes: u64, now: Time) {
        self.received += bytes;
        self.unacked_since.get_or_insert(now);
    }

    /// When received bytes must be acknowledged at the latest, with these bounds.
    #[must_use]
    pub fn ack_due(&self, bytes: u64, delay: Time) -> Option<Time> {
        let since = self.unacked_since?;
        Some(if self.received - self.told >= bytes { Time::ZERO } else { since + delay })
    }

    fn hand(&mut self, bytes: u64, now: Time) {
        self.handed += bytes;
        self.on_way.push_back(OnWay { end: self.handed, bytes, since: now });
    }

    /// The peer has told how much it received.
    ///
    /// # Errors
    /// It cannot have received more than was sent.
    pub fn acknowledge(&mut self, acked: u64, now: Time) -> Result<(), FrameError> {
        if acked > self.handed {
            return Err(FrameError::Ack { acked, sent: self.handed });
        }
        if acked <= self.acked {
            return Ok(());
        }
        self.acked = acked;
        // A frame that was handed over before the one before it was acknowledged has waited for nothing but the rail, so
        // the time between the two acknowledgements is the rail's. Any other frame's time holds the way too.
        let mut bytes = 0;
        while let Some(frame) = self.on_way.front().copied().filter(|f| f.end <= acked) {
            if frame.bytes >= MEASURED_FROM && frame.since < self.last_ack {
                bytes += frame.bytes;
            } else if frame.bytes >= MEASURED_FROM {
                self.at_least(frame.bytes as f64 / now.saturating_sub(frame.since).as_secs_f64(), now);
            }
            self.on_way.pop_front();
        }
        if bytes > 0 {
            self.sample_bytes += bytes;
            self.sample_time += now.saturating_sub(self.last_ack);
            let enough = self.sample_bytes >= SAMPLE || self.sample_time >= 4 * SAMPLE_TIME;
            if enough && self.sample_time >= SAMPLE_TIME {
                let rate = self.sample_bytes as f64 / self.sample_time.as_secs_f64();
                let old = self.fresh_rate(now).unwrap_or(rate);
                self.rate = Some((0.75 * old + 0.25 * rate, now));
                let (steady, samples) = self.steady;
                let weight = STEADY.max(1.0 / f64::from(samples + 1));
                self.steady = ((1.0 - weight) * steady + weight * rate, samples.saturating_add(1));
                (self.sample_bytes, self.sample_time) = (0, Time::ZERO);
            }
        }
        self.last_ack = now;
        Ok(())
    }

    /// A single frame shows what the link carries at least: that confirms its rate, or raises it step by step (a shaper may
    /// let one frame through at any speed).
    fn at_least(&mut self, bound: f64, now: Time) {
        if let Some((rate, at)) = &mut self.rate {
            if bound * 2.0 > *rate {
                *at = now;
            }
            if bound > *rate {
                *rate = 0.75 * *rate + 0.25 * bound.min(4.0 * *rate);
            }
        }
    }

    fn fresh_rate(&self, now: Time) -> Option<f64> {
        self.rate.filter(|(_, at)| now.saturating_sub(*at) < RATE_AGE).map(|(rate, _)| rate)
    }

    /// Bytes per second over so many samples that processor noise has gone from it.
    fn steady_rate(&self) -> Option<f64> {
        (f64::from(self.steady.1) * STEADY >= 1.0).then_some(self.steady.0)
    }

    /// Bytes per second, if it was measured lately, or if a frame is overdue: then the rate is no more than what would
    /// have that frame arrive now.
    #[must_use]
    pub fn known_rate(&self, now: Time) -> Option<f64> {
        let fresh = self.fresh_rate(now);
        let front = self.on_way.front().filter(|f| f.bytes >= MEASURED_FROM);
        let bound = front.and_then(|frame| {
            let waited = now.saturating_sub(frame.since.max(self.last_ack));
            (waited > 5 * SAMPLE_TIME).then(|| frame.bytes as f64 / waited.as_secs_f64())
        });
        match (fresh, bound) {
            (Some(rate), Some(bound)) => Some(rate.min(bound)),
            (rate, bound) => rate.or(bound),
        }
    }
}

/// All links of a node.
#[derive(Debug)]
pub struct Links {
    rails: usize,
    /// Greatest window of a link, and the least that its rate may narrow it to.
    window: u64,
    floor: u64,
    /// Seconds for a chunk that are noise.
    noise: f64,
    links: Vec<Link>,
    /// Bytes that each rail has carried; a rail that fell far behind is forgiven.
    carried: Vec<u64>,
}

impl Links {
    /// Links to `nodes` nodes over `rails` rails, all down. Each may have `window` bytes on its way at most; its rate
    /// may narrow that, but not below `floor`. Rails whose times for a chunk differ by `noise` at most are equal.
    #[must_use]
    pub fn new(nodes: usize, rails: usize, window: u64, floor: u64, noise: Time) -> Self {
        let links = (0..nodes * rails).map(|_| Link::default()).collect();
        Links { rails, window, floor, noise: noise.as_secs_f64(), links, carried: vec![0; rails] }
    }

    /// Whether there is such a link.
    #[must_use]
    pub fn has(&self, rail: Rail, peer: Node) -> bool {
        usize::from(rail) < self.rails && usize::from(peer) * self.rails < self.links.len()
    }

    fn index(&self, rail: Rail, peer: Node) -> usize {
        usize::from(peer) * self.rails + usize::from(rail)
    }

    /// One link.
    #[must_use]
    pub fn get(&self, rail: Rail, peer: Node) -> &Link {
        &self.links[self.index(rail, peer)]
    }

    /// One link.
    pub fn get_mut(&mut self, rail: Rail, peer: Node) -> &mut Link {
        let at = self.index(rail, peer);
        &mut self.links[at]
    }

    /// All links with their names.
    pub fn iter(&self) -> impl Iterator<Item = (Rail, Node, &Link)> {
        self.links.iter().enumerate().map(|(i, l)| ((i % self.rails) as Rail, (i / self.rails) as Node, l))
    }

    /// Sets a link up, with everything of its former life forgotten.
    pub fn set_up(&mut self, rail: Rail, peer: Node) {
        *self.get_mut(rail, peer) = Link { up: true, ..Link::default() };
        self.level();
    }

    /// Sets a link down; its counts stay for the question what was at risk.
    pub fn set_down(&mut self, rail: Rail, peer: Node) {
        self.get_mut(rail, peer).up = false;
        self.level();
    }

    /// The rails to a peer that are up.
    pub fn up(&self, peer: Node) -> impl Iterator<Item = Rail> + '_ {
        (0..self.rails as Rail).filter(move |&rail| self.get(rail, peer).up)
    }

    /// The rail for a control frame: the one with the least before it.
    #[must_use]
    pub fn quickest(&self, peer: Node) -> Option<Rail> {
        self.up(peer).min_by_key(|&rail| self.get(rail, peer).outstanding())
    }

    /// The rail for a chunk of `bytes` to a peer, `backlog` more bytes for which are to follow; `None` while it is better
    /// to wait.
    pub fn choose(&self, peer: Node, bytes: u64, backlog: u64, now: Time) -> Option<Rail> {
        let known = self.up(peer).filter_map(|rail| self.get(rail, peer).known_rate(now));
        let (least, best) = spread(known);
        // What the slowest rail needs longer for a chunk than the fastest.
        let lag = |least: f64, best: f64| REFERENCE.max(bytes as f64) * (1.0 / least - 1.0 / best);
        let alike = |(l, b): (f64, f64), factor: f64| b <= l * factor || lag(l, b) <= self.noise;
        if alike((least, best), ALIKE) || self.up(peer).count() == 1 {
            let steady = spread(self.up(peer).filter_map(|rail| self.get(rail, peer).steady_rate()));
            let carried = |rail: Rail| self.carried[usize::from(rail)];
            let last = self.up(peer).map(carried).min()?;
            let lead = if alike(steady, EQUAL) { (last / 32).max(2 * bytes) } else { u64::MAX };
            let fits = |rail: &Rail| self.has_room(*rail, peer, bytes, now) && carried(*rail) - last <= lead;
            let open = self.up(peer).filter(fits);
            return open.min_by_key(|&rail| (carried(rail), self.get(rail, peer).outstanding()));
        }
        let rate = |rail: Rail| self.get(rail, peer).known_rate(now).unwrap_or(best);
        let finish = |rail: Rail| (self.get(rail, peer).outstanding() + bytes) as f64 / rate(rail);
        let first = |a: &Rail, b: &Rail| finish(*a).total_cmp(&finish(*b)).then(a.cmp(b));
        let open = self.up(peer).filter(|&rail| self.has_room(rail, peer, bytes, now)).min_by(first)?;
        let earliest = self.up(peer).map(finish).fold(f64::INFINITY, f64::min);
        let waiting: u64 =
            self.up(peer).map(|rail| self.get(rail, peer).outstanding()).sum::<u64>() + bytes + backlog;
        let all = waiting as f64 / self.up(peer).map(rate).sum::<f64>();
        (finish(open) <= earliest.max(all)).then_some(open)
    }

    fn has_room(&self, rail: Rail, peer: Node, bytes: u64, now: Time) -> bool {
        let link = self.get(rail, peer);
        let reach = link.known_rate(now).map_or(self.window, |rate| (rate * REACH.as_secs_f64()) as u64);
        let window = reach.clamp(self.floor.min(self.window), self.window);
        link.outstanding() == 0 || link.outstanding() + bytes <= window
    }

    /// What was carried before says nothing any more.
    fn level(&mut self) {
        self.carried.fill(0);
    }

    /// A frame is handed to a link.
    pub fn hand(&mut self, rail: Rail, peer: Node, bytes: u64, now: Time) {
        let rail_carried = &mut self.carried[usize::from(rail)];
        *rail_carried += bytes;
        let least = rail_carried.saturating_sub(DEBT);
        for carried in &mut self.carried {
            *carried = least.max(*carried);
        }
        self.get_mut(rail, peer).hand(bytes, now);
    }
}

/// Least and greatest of some rates; of none, an empty range.
fn spread(rates: impl Iterator<Item = f64>) -> (f64, f64) {
    rates.fold((f64::INFINITY, 0.0f64), |(least, best), rate| (least.min(rate), best.max(rate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 256 << 10;

    /// Rails that serve at fixed rates, in virtual time; gives the bytes that each carried and the time it took.
    fn run(rates: &[f64], chunks: u64) -> (Vec<u64>, Time) {
        let mut links = Links::new(2, rates.len(), 4 * CHUNK, 2 * CHUNK, Time::ZERO);
        (0..rates.len()).for_each(|r| links.set_up(r as Rail, 1));
        let mut done: Vec<VecDeque<Time>> = vec![VecDeque::new(); rates.len()];
        let (mut carried, mut handed) = (vec![0; rates.len()], vec![0; rates.len()]);
        let (mut now, mut left) = (Time::ZERO, chunks);
        loop {
            while left > 0
                && let Some(rail) = links.choose(1, CHUNK, (left - 1) * CHUNK, now)
            {
                links.hand(rail, 1, CHUNK, now);
                let rail = usize::from(rail);
                carried[rail] += CHUNK;
                let from = done[rail].back().copied().unwrap_or(now).max(now);
                done[rail].push_back(from + Time::from_secs_f64(CHUNK as f64 / rates[rail]));
                left -= 1;
            }
            let next = (0..rates.len()).filter(|&r| !done[r].is_empty()).min_by_key(|&r| done[r][0]);
            let Some(rail) = next else { return (carried, now) };
            now = done[rail].pop_front().unwrap();
            handed[rail] += CHUNK;
            links.get_mut(rail as Rail, 1).acknowledge(handed[rail], now).unwrap();
        }
    }

    #[test]
    fn equal_rails_are_balanced_to_a_chunk() {
        for rails in 1..=8 {
            let (carried, _) = run(&vec![25e6; rails], 1000);
            let spread = carried.iter().max().unwrap() - carried.iter().min().unwrap();
            assert!(spread <= CHUNK, "{carried:?}");
        }
    }

    #[test]
    fn unequal_rails_get_what_they_can_carry() {
        for rates in [[100e6, 100e6, 100e6, 25e6], [100e6, 100e6, 100e6, 10e6], [50e6, 20e6, 10e6, 5e6]] {
            let chunks = 2000;
            let (carried, took) = run(&rates, chunks);
            let ideal = (chunks * CHUNK) as f64 / rates.iter().sum::<f64>();
            let efficiency = ideal / took.as_secs_f64();
            assert!(efficiency > 0.95, "{rates:?}: {efficiency:.3} {carried:?}");
        }
    }

    #[test]
    fn an_acknowledgement_of_more_than_was_sent_is_refused() {
        let mut links = Links::new(2, 1, CHUNK, CHUNK, Time::ZERO);
        links.set_up(0, 1);
        links.hand(0, 1, 100, Time::ZERO);
        let link = links.get_mut(0, 1);
        assert_eq!(link.acknowledge(101, Time::ZERO), Err(FrameError::Ack { acked: 101, sent: 100 }));
        assert_eq!(link.outstanding(), 100);
        link.acknowledge(100, Time::ZERO).unwrap();
        assert_eq!(link.outstanding(), 0);
    }
}
