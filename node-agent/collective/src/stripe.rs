//! Links and the choice of the rail for a chunk.
//!
//! The rule ([`Links::choose`]): rails draw chunks as they get rid of them. A rail takes a new chunk when little waits for its
//! turn there (the kernel or the adapter has taken over the rest) and its window is open; so a fast rail draws more than a
//! slow one, and none idles while there is something to send. While the rates are alike (within a factor of two, or within what a
//! chunk's time varies by on a busy processor) differences may be noise: then, of the rails with room, the one that has carried
//! least to this peer takes the chunk, so that not only the sender's ports but also the receiver's are loaded equally. While they
//! differ, the chunk goes to the rail that finishes it first, by bytes on their way and measured rate; but it waits for a better
//! rail if that rail would end it before, and the slow one would need a good part of the time for everything that is to go there:
//! so a slow rail never holds the tail. A rate that is old counts as unknown, and an unknown rate as the best known: that is the probe by
//! which a rail that was slow is found to be fast again, a single frame. A frame that is overdue lowers its link's rate before it
//! is acknowledged.

use crate::link::Link;
use crate::units::{Node, Rail, Time};

/// Rates that differ by less than this factor may be equal.
const ALIKE: f64 = 2.0;
/// A link may have as much on its way as it carries in this time, even if that is more than its share: such a link is so fast
/// that queues before it are soon gone.
const FAST: Time = Time::from_millis(4);
/// A link that is slower than others has no more on its way than it carries in this time, even if its share is more: what is on a slow
/// rail cannot go over another.
const SLOW: Time = Time::from_millis(40);
/// A rail that is slower than the best by no more than this factor may have two frames on its way: one alone shows nothing of its rate, and
/// a rail that is taken for slow would stay so.
const NEAR: f64 = 6.0;
/// A chunk goes to a slow rail only if that ends it within this part of the time for everything that is to go to the peer: other
/// nodes' work depends on it, and what is handed on from there has a way to go.
const HOLDS: f64 = 3.0;
/// A rail that carried less than others catches up on this many bytes at most.
const DEBT: u64 = 2 << 20;
/// Bytes of a chunk that rails are compared by.
const REFERENCE: f64 = 32768.0;

/// Bounds on what links have on their way, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    /// What any link may have, however slow, and what may wait for its turn on it: two frames.
    pub floor: u64,
    /// What the links of a rail may have together that are in use, unless they are slow or fast.
    pub rail: u64,
    /// What no link may have more than.
    pub most: u64,
}

/// All links of a node.
#[derive(Debug, Clone)]
pub struct Links {
    rails: usize,
    windows: Windows,
    /// Peers that the operations under way send to.
    fan: u64,
    /// Seconds for a chunk that are noise.
    noise: f64,
    links: Vec<Link>,
    /// Bytes that each rail has carried; a rail that fell far behind is forgiven.
    carried: Vec<u64>,
    /// Bytes that each link has carried, in the order of `links`.
    by_link: Vec<u64>,
}

impl Links {
    /// Links to `nodes` nodes over `rails` rails, all down. Rails whose times for a chunk differ by `noise` at most are
    /// equal.
    #[must_use]
    pub fn new(nodes: usize, rails: usize, windows: Windows, noise: Time) -> Self {
        Links {
            rails,
            windows,
            fan: nodes.saturating_sub(1).max(1) as u64,
            noise: noise.as_secs_f64(),
            links: (0..nodes * rails).map(|_| Link::default()).collect(),
            carried: vec![0; rails],
            by_link: vec![0; nodes * rails],
        }
    }

    /// Whether there is such a link.
    #[must_use]
    pub fn has(&self, rail: Rail, peer: Node) -> bool {
        usize::from(rail) < self.rails && usize::from(peer) * self.rails < self.links.len()
    }

    fn index(&self, rail: Rail, peer: Node) -> usize {
        usize::from(peer) * self.rails + usize::from(rail)
    }

    /// The link to `peer` on `rail`.
    #[must_use]
    pub fn get(&self, rail: Rail, peer: Node) -> &Link {
        &self.links[self.index(rail, peer)]
    }

    /// The link to `peer` on `rail`, to be changed.
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
        let known = self.up(peer).filter_map(|rail| self.get(rail, peer).shown_rate(now));
        let (least, best) = spread(known);
        // What the slowest rail needs longer for a chunk than the fastest.
        let lag = |least: f64, best: f64| REFERENCE.max(bytes as f64) * (1.0 / least - 1.0 / best);
        let alike = best <= least * ALIKE || lag(least, best) <= self.noise;
        let open = self.up(peer).filter(|&rail| self.has_room(rail, peer, bytes, best, now));
        if alike || self.up(peer).count() == 1 {
            let carried = |rail: Rail| self.carried[usize::from(rail)];
            let by_link = |rail: Rail| self.by_link[self.index(rail, peer)];
            return open
                .min_by_key(|&rail| (by_link(rail), carried(rail), self.get(rail, peer).outstanding()));
        }
        let rate = |rail: Rail| self.get(rail, peer).shown_rate(now).unwrap_or(best);
        let finish = |rail: Rail| (self.get(rail, peer).outstanding() + bytes) as f64 / rate(rail);
        let first = |a: &Rail, b: &Rail| finish(*a).total_cmp(&finish(*b)).then(a.cmp(b));
        let open = open.min_by(first)?;
        let earliest = self.up(peer).map(finish).fold(f64::INFINITY, f64::min);
        let waiting: u64 =
            self.up(peer).map(|rail| self.get(rail, peer).outstanding()).sum::<u64>() + bytes + backlog;
        let all = waiting as f64 / self.up(peer).map(rate).sum::<f64>();
        (finish(open) <= earliest.max(all / HOLDS)).then_some(open)
    }

    fn has_room(&self, rail: Rail, peer: Node, bytes: u64, best: f64, now: Time) -> bool {
        let (link, Windows { floor, rail: whole, most }) = (self.get(rail, peer), self.windows);
        if link.was_slow(best / ALIKE, now) {
            return link.outstanding() == 0;
        }
        let share = (whole / self.fan).min(most);
        let window = link.shown_rate(now).map_or(share, |rate| {
            let carries = |time: Time| (rate * time.as_secs_f64()) as u64;
            // Where none is better the others would not carry it sooner.
            let most = if rate * ALIKE < best { carries(SLOW) } else { share.max(carries(FAST)) };
            share.clamp(carries(FAST), most)
        });
        let turn = link.waiting() == 0 || link.waiting() + bytes <= floor;
        let near = link.shown_rate(now).is_none_or(|rate| rate * NEAR >= best);
        let least = if near { floor.max(2 * bytes) } else { floor };
        let fits = link.outstanding() + bytes <= window.clamp(least.min(most), most);
        link.outstanding() == 0 || turn && fits && link.allows(bytes)
    }

    /// An operation begins that sends to this many peers; `alone` if none is under way. Nodes do alike, so from as many a node
    /// receives, and the parts of all that send to it are what its port can queue.
    pub fn fan_out(&mut self, peers: usize, alone: bool) {
        let peers = peers.max(1) as u64;
        self.fan = if alone { peers } else { self.fan.max(peers) };
    }

    /// Rails came or went: what was carried before says nothing any more.
    pub fn level(&mut self) {
        self.carried.fill(0);
        self.by_link.fill(0);
    }

    /// Bytes that a rail has carried, as [`Links::choose`] compares them.
    #[cfg(test)]
    pub fn carried(&self, rail: Rail) -> u64 {
        self.carried[usize::from(rail)]
    }

    /// A counted frame is handed to a link. Gives its number there.
    pub fn hand(&mut self, rail: Rail, peer: Node, bytes: u64, token: u64, now: Time) -> u32 {
        let (at, first) = (self.index(rail, peer), self.index(0, peer));
        count(&mut self.carried, usize::from(rail), bytes);
        count(&mut self.by_link[first..first + self.rails], at - first, bytes);
        self.get_mut(rail, peer).hand(bytes, token, now)
    }
}

/// Counts bytes for one of several; those that fell far behind are forgiven.
fn count(carried: &mut [u64], at: usize, bytes: u64) {
    carried[at] += bytes;
    let least = carried[at].saturating_sub(DEBT);
    carried.iter_mut().for_each(|carried| *carried = least.max(*carried));
}

/// Least and greatest of some rates; of none, an empty range.
fn spread(rates: impl Iterator<Item = f64>) -> (f64, f64) {
    rates.fold((f64::INFINITY, 0.0f64), |(least, best), rate| (least.min(rate), best.max(rate)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FrameError;
    use crate::link::way::stamp;
    use std::collections::VecDeque;

    const CHUNK: u64 = 256 << 10;
    const WINDOWS: Windows = Windows { floor: 2 * CHUNK, rail: 4 * CHUNK, most: 4 * CHUNK };

    /// Rails that serve at fixed rates, in virtual time; gives the bytes that each carried and the time it took.
    fn run(rates: &[f64], chunks: u64) -> (Vec<u64>, Time) {
        let mut links = Links::new(2, rates.len(), WINDOWS, Time::ZERO);
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

    /// What waits for its turn on a rail in one direction: data of so many bytes, or an acknowledgement of all up to here, and when it
    /// was said.
    enum Queued {
        Data(u64),
        Ack(u64, u32),
    }

    /// Two ends that send to each other over the same rails; each acknowledgement waits behind the data that goes its way, and each end
    /// looks only now and then. The first rail is slower `by` this factor one way at first. The share of the rails that both use, of all.
    fn both_ways(
        rails: usize,
        rate: f64,
        check: Time,
        chunks: u64,
        (slow, by): (Time, f64),
        reports: bool,
    ) -> f64 {
        const FRAME: u64 = 64 << 10;
        let windows = Windows { floor: FRAME, rail: 400_000, most: 1 << 20 };
        let mut ends: Vec<Links> = (0..2).map(|_| Links::new(2, rails, windows, Time::ZERO)).collect();
        let names = |end: usize| (1 - end) as Node;
        for (end, links) in ends.iter_mut().enumerate() {
            (0..rails).for_each(|r| assert!(links.get_mut(r as Rail, names(end)).open(1, Time::ZERO)));
        }
        // By direction and rail: what waits, with when it is through, and when it has arrived, in order.
        let mut ways: Vec<Vec<VecDeque<(Time, Queued)>>> =
            (0..2).map(|_| (0..rails).map(|_| VecDeque::new()).collect()).collect();
        let (mut left, mut got) = ([chunks; 2], vec![vec![0u64; rails]; 2]);
        let mut now = Time::ZERO;
        while left != [0; 2] || ways.iter().flatten().any(|way| !way.is_empty()) {
            for end in 0..2 {
                for rail in 0..rails {
                    let mut acks = false;
                    while ways[1 - end][rail].front().is_some_and(|(at, _)| *at <= now) {
                        match ways[1 - end][rail].pop_front().unwrap().1 {
                            Queued::Data(bytes) => {
                                got[end][rail] += bytes;
                                acks = true;
                            }
                            Queued::Ack(bytes, said) => {
                                let link = ends[end].get_mut(rail as Rail, names(end));
                                let true_at = link.heard(said, now);
                                link.acknowledge(bytes, true_at, &mut Vec::new()).unwrap();
                            }
                        }
                    }
                    let from =
                        |way: &VecDeque<(Time, Queued)>| way.back().map_or(now, |(at, _)| (*at).max(now));
                    if acks {
                        let at = from(&ways[end][rail]);
                        ways[end][rail].push_back((
                            at,
                            Queued::Ack(got[end][rail], if reports { stamp(now) } else { 0 }),
                        ));
                    }
                }
                while left[end] > 0
                    && let Some(rail) = ends[end].choose(names(end), FRAME, (left[end] - 1) * FRAME, now)
                {
                    ends[end].hand(rail, names(end), FRAME, 0, now);
                    ends[end].get_mut(rail, names(end)).took_over();
                    let way = &mut ways[end][usize::from(rail)];
                    let from = way.back().map_or(now, |(at, _)| (*at).max(now));
                    let rate = if (end, rail, now < slow) == (0, 0, true) { rate / by } else { rate };
                    way.push_back((from + Time::from_secs_f64(FRAME as f64 / rate), Queued::Data(FRAME)));
                    left[end] -= 1;
                }
            }
            now += check;
        }
        (chunks * FRAME) as f64 / (rate * rails as f64) / now.as_secs_f64()
    }

    #[test]
    fn what_waits_behind_the_other_way_does_not_close_windows() {
        for (rails, rate, check) in [(1, 5e6, 3), (4, 5e6, 3), (4, 5e6, 7), (2, 2.5e6, 3), (4, 25e6, 1)] {
            let share = both_ways(rails, rate, Time::from_millis(check), 1000, (Time::ZERO, 1.0), true);
            assert!(share > 0.9, "{rails} rails of {rate}, looks every {check} ms: {share:.2}");
        }
    }

    /// A rail is slow in one direction for a while. Then it is not, and what waits in the other direction must not make it look so: if
    /// frames did not say when they were handed over, it would.
    #[test]
    fn a_link_is_not_judged_by_what_waits_the_other_way() {
        for (rate, check, slow) in [(10e6, 1, 100), (10e6, 1, 300), (10e6, 1, 500), (15e6, 3, 100)] {
            let slow = (Time::from_millis(slow), 3.0);
            let share = |reports| both_ways(4, rate, Time::from_millis(check), 2048, slow, reports);
            let (reported, untold) = (share(true), share(false));
            assert!(
                reported > 0.94 && untold < 0.88,
                "{rate}, slow for {slow:?}: {reported:.3}, untold {untold:.3}"
            );
        }
    }

    /// What a link to one peer takes before any of it is acknowledged, the kernel taking all over at once.
    fn window(links: &mut Links, peer: Node) -> u64 {
        const FRAME: u64 = 32 << 10;
        while links.choose(peer, FRAME, 0, Time::ZERO).is_some() {
            links.hand(0, peer, FRAME, 0, Time::ZERO);
            links.get_mut(0, peer).took_over();
        }
        links.get(0, peer).outstanding()
    }

    #[test]
    fn a_rails_window_is_shared_by_the_peers_in_use() {
        const FRAME: u64 = 32 << 10;
        let windows = Windows { floor: 2 * FRAME, rail: 12 * FRAME, most: 64 * FRAME };
        let after = |fans: &[(usize, bool)]| {
            let mut links = Links::new(4, 1, windows, Time::ZERO);
            (1..4).for_each(|peer| assert!(links.get_mut(0, peer).open(1, Time::ZERO)));
            fans.iter().for_each(|&(peers, alone)| links.fan_out(peers, alone));
            (1..4).map(|peer| window(&mut links, peer)).collect::<Vec<_>>()
        };
        assert_eq!(after(&[]), [4 * FRAME; 3], "at first all peers share");
        assert_eq!(after(&[(1, true)]), [12 * FRAME; 3], "a ring sends to one");
        assert_eq!(after(&[(1, true), (3, false)]), [4 * FRAME; 3], "the wider of two operations counts");
        assert_eq!(after(&[(3, true), (1, false)]), [4 * FRAME; 3], "also if it began first");
        assert_eq!(after(&[(3, true), (1, true)]), [12 * FRAME; 3], "and no longer when it is over");
        assert_eq!(after(&[(0, true)]), [12 * FRAME; 3], "one that sends nothing bounds nothing");
    }

    #[test]
    fn an_acknowledgement_of_more_than_was_sent_is_refused() {
        let mut links = Links::new(2, 1, WINDOWS, Time::ZERO);
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
