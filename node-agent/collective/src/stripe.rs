//! Links and the choice of the rail for a chunk.
//!
//! The rule ([`Links::choose`]): of the rails with room, a chunk goes to the one that finishes it first, by bytes on their
//! way and measured rate. But it waits for a better rail if that rail would end it before, and the slow one after, everything else that is
//! to go there: so no rail idles while there is enough to do, and a slow rail never holds the tail. While the rates are
//! alike (within a factor of two, or within what a chunk's time varies by on a busy processor) the differences may be noise: then, of the rails with room, the one that has carried
//! least takes the chunk. While they are equal over many measurements (within a quarter), no rail may lead the others by more than a
//! thirty-second part: equal rails end balanced. A rate that is old counts as unknown, and an unknown rate as the
//! best known: that is the probe by which a rail that was slow is found to be fast again. A frame that is overdue lowers
//! its link's rate before it is acknowledged.

use crate::link::Link;
use crate::shape::{Node, Rail, Time};

/// Rates that differ by less than this factor may be equal.
const ALIKE: f64 = 2.0;
/// Rates that differ by less than this factor are equal.
const EQUAL: f64 = 1.25;
/// A link has no more on its way than it carries in this time: enough to bridge the pauses of a busy processor, little
/// enough that senders to one node do not overflow the switch's queue before it.
const REACH: Time = Time::from_millis(10);
/// A rail that carried less than others catches up on so many bytes at most.
const DEBT: u64 = 2 << 20;
/// Bytes of a chunk that rails are compared by.
const REFERENCE: f64 = 32768.0;

/// All links of a node.
#[derive(Debug, Clone)]
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

    /// The rails that carry data to a peer: those that are up and not drained, or, if there are none, all that are up.
    pub fn up(&self, peer: Node) -> impl Iterator<Item = Rail> + '_ {
        let kept = (0..self.rails as Rail).any(|rail| self.is_kept(rail, peer));
        (0..self.rails as Rail).filter(move |&rail| match kept {
            true => self.is_kept(rail, peer),
            false => self.get(rail, peer).is_up(),
        })
    }

    fn is_kept(&self, rail: Rail, peer: Node) -> bool {
        let link = self.get(rail, peer);
        link.is_up() && !link.is_drained()
    }

    /// The rails to a peer that are connected, drained, proved or not.
    pub fn open(&self, peer: Node) -> impl Iterator<Item = Rail> + '_ {
        (0..self.rails as Rail).filter(move |&rail| self.get(rail, peer).is_open())
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
            // A greater lead is from a time when the rates differed: it is no reason to idle until the others catch up.
            let level = |rail: Rail| {
                let ahead = carried(rail) - last;
                ahead <= lead || ahead > lead.saturating_add(2 * bytes)
            };
            let open = self.up(peer).filter(|&rail| self.has_room(rail, peer, bytes, now) && level(rail));
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
        link.outstanding() == 0 || link.allows(bytes) && link.outstanding() + bytes <= window
    }

    /// Rails came or went: what was carried before says nothing any more.
    pub fn level(&mut self) {
        self.carried.fill(0);
    }

    /// Bytes that a rail has carried, as [`Links::choose`] compares them.
    #[cfg(test)]
    pub fn carried(&self, rail: Rail) -> u64 {
        self.carried[usize::from(rail)]
    }

    /// A counted frame is handed to a link. Gives its number there.
    pub fn hand(&mut self, rail: Rail, peer: Node, bytes: u64, token: u64, now: Time) -> u32 {
        let rail_carried = &mut self.carried[usize::from(rail)];
        *rail_carried += bytes;
        let least = rail_carried.saturating_sub(DEBT);
        for carried in &mut self.carried {
            *carried = least.max(*carried);
        }
        self.get_mut(rail, peer).hand(bytes, token, now)
    }
}

/// Least and greatest of some rates; of none, an empty range.
fn spread(rates: impl Iterator<Item = f64>) -> (f64, f64) {
    rates.fold((f64::INFINITY, 0.0f64), |(least, best), rate| (least.min(rate), best.max(rate)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FrameError;
    use std::collections::VecDeque;

    const CHUNK: u64 = 256 << 10;

    /// Rails that serve at fixed rates, in virtual time; gives the bytes that each carried and the time it took.
    fn run(rates: &[f64], chunks: u64) -> (Vec<u64>, Time) {
        let mut links = Links::new(2, rates.len(), 4 * CHUNK, 2 * CHUNK, Time::ZERO);
        (0..rates.len()).for_each(|r| assert!(links.get_mut(r as Rail, 1).open(1, Time::ZERO)));
        let mut done: Vec<VecDeque<Time>> = vec![VecDeque::new(); rates.len()];
        let (mut carried, mut handed) = (vec![0; rates.len()], vec![0; rates.len()]);
        let (mut now, mut left) = (Time::ZERO, chunks);
        loop {
            while left > 0
                && let Some(rail) = links.choose(1, CHUNK, (left - 1) * CHUNK, now)
            {
                links.hand(rail, 1, CHUNK, 0, now);
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
            links.get_mut(rail as Rail, 1).acknowledge(handed[rail], now, &mut Vec::new()).unwrap();
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
        assert!(links.get_mut(0, 1).open(1, Time::ZERO));
        links.hand(0, 1, 100, 9, Time::ZERO);
        let (link, mut released) = (links.get_mut(0, 1), Vec::new());
        let refused = link.acknowledge(101, Time::ZERO, &mut released);
        assert_eq!(refused, Err(FrameError::Ack { acked: 101, sent: 100 }));
        assert_eq!((link.outstanding(), &released[..]), (100, &[][..]));
        link.acknowledge(100, Time::ZERO, &mut released).unwrap();
        assert_eq!(released, [9]);
        assert_eq!(link.outstanding(), 0);
    }
}
