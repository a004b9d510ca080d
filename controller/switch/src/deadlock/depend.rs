//! Which buffer waits for which, and cycles among them.

use std::collections::{BTreeSet, VecDeque};

use super::case::Network;
use super::routes::{Routing, next_hops};

/// A packet that came from one neighbour and goes on to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchTurn {
    /// Index of the switch.
    pub at: usize,
    /// Where it came from.
    pub from: usize,
    /// Where it goes.
    pub to: usize,
}

/// A graph of links (from, to), each with those that it waits for.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    links: Vec<(usize, usize)>,
    waits: Vec<Vec<usize>>,
}

/// What the routes of a case make.
pub(super) struct Made {
    pub graph: Graph,
    /// Turns from above back up.
    pub valleys: usize,
}

/// Follows what each serving node sends to each destination.
pub(super) fn graph(network: &Network, routing: Routing) -> Made {
    let links = Links::new(
        &network
            .neighbours
            .iter()
            .map(|near| near.iter().map(|(near, _)| *near).collect())
            .collect::<Vec<_>>(),
    );
    let mut noted = WaitSets::new(network);
    let mut valleys = 0;
    let mut seen = vec![usize::MAX; links.ends.len()];
    for (round, &to) in network.destinations.iter().enumerate() {
        if network.nodes[to].is_down {
            continue;
        }
        let hops = next_hops(network, to, routing);
        let serves = |at: &usize| network.nodes[*at].serves && !network.nodes[*at].is_down;
        let mut open: Vec<usize> = Vec::new();
        for from in (0..network.nodes.len()).filter(serves) {
            open.extend(hops[from].iter().map(|next| links.of(from, *next)));
        }
        while let Some(link) = open.pop() {
            if std::mem::replace(&mut seen[link], round) == round {
                continue;
            }
            let (from, at) = links.ends[link];
            // Nobody sends back to where it came from; another switch that is drawn as the same node is another one.
            let goes = |next: &&usize| **next != from || network.nodes[**next].is_many;
            for &next in hops[at].iter().filter(goes) {
                let tier = |node: usize| network.nodes[node].tier;
                valleys += usize::from(tier(from) > tier(at) && tier(next) > tier(at));
                noted.wait([from, at, next].map(|node| network.noted_as[node]));
                open.push(links.of(at, next));
            }
        }
    }
    Made { graph: noted.finish(), valleys }
}

/// Links by their ends.
struct Links {
    ends: Vec<(usize, usize)>,
    first: Vec<usize>,
    /// By node: neighbours in order.
    near: Vec<Vec<usize>>,
}

impl Links {
    fn new(neighbours: &[Vec<usize>]) -> Self {
        let mut links = Links { ends: Vec::new(), first: Vec::new(), near: Vec::new() };
        for (at, near) in neighbours.iter().enumerate() {
            let mut near = near.clone();
            near.sort_unstable();
            near.dedup();
            links.first.push(links.ends.len());
            links.ends.extend(near.iter().map(|near| (at, *near)));
            links.near.push(near);
        }
        links
    }

    /// The link's number; of a link that is there.
    fn of(&self, from: usize, to: usize) -> usize {
        self.first[from] + self.near[from].partition_point(|near| *near < to)
    }
}

/// A set of waits for each link, as bits over the links of the switch in between.
struct WaitSets {
    links: Links,
    bits: Vec<Vec<u64>>,
}

impl WaitSets {
    fn new(network: &Network) -> Self {
        let mut near = vec![Vec::new(); network.nodes.len()];
        for (at, neighbours) in network.neighbours.iter().enumerate() {
            near[network.noted_as[at]].extend(neighbours.iter().map(|(near, _)| network.noted_as[*near]));
        }
        let links = Links::new(&near);
        let words = |(_, at): &(usize, usize)| vec![0; links.near[*at].len().div_ceil(64)];
        let bits = links.ends.iter().map(words).collect();
        WaitSets { links, bits }
    }

    fn wait(&mut self, [from, at, to]: [usize; 3]) {
        let local = self.links.of(at, to) - self.links.first[at];
        self.bits[self.links.of(from, at)][local / 64] |= 1 << (local % 64);
    }

    fn finish(self) -> Graph {
        let waits = |(link, bits): (usize, &Vec<u64>)| {
            let first = self.links.first[self.links.ends[link].1];
            let set = |local: &usize| bits[local / 64] & (1 << (local % 64)) != 0;
            (0..bits.len() * 64).filter(set).map(|local| first + local).collect()
        };
        let waits = self.bits.iter().enumerate().map(waits).collect();
        Graph { links: self.links.ends, waits }
    }
}

impl Graph {
    /// A cycle, as short as one through one of its links can be.
    pub fn cycle(&self) -> Option<Vec<(usize, usize)>> {
        let first = self.on_a_cycle(&|_| true)?;
        let found = self.back_to(first, &|_| true)?;
        Some(found.into_iter().map(|link| self.links[link]).collect())
    }

    /// How many waits there are.
    pub fn size(&self) -> usize {
        self.waits.iter().map(Vec::len).sum()
    }

    /// The graph without what is on no cycle because nothing waits for it, or it waits for nothing.
    pub fn core(&self) -> Graph {
        let mut core = self.clone();
        loop {
            let mut waited_for = vec![false; core.links.len()];
            for on in core.waits.iter().flatten() {
                waited_for[*on] = true;
            }
            let goes_on: Vec<bool> = core.waits.iter().map(|waits| !waits.is_empty()).collect();
            let before = core.size();
            for (link, waits) in core.waits.iter_mut().enumerate() {
                if waited_for[link] {
                    waits.retain(|on| goes_on[*on]);
                } else {
                    waits.clear();
                }
            }
            if core.size() == before {
                return core;
            }
        }
    }

    /// A cycle as turns, without those that are forbidden.
    pub fn turns(&self, forbidden: &BTreeSet<SwitchTurn>) -> Option<Vec<SwitchTurn>> {
        let allowed = |turn: SwitchTurn| !forbidden.contains(&turn);
        let found = self.back_to(self.on_a_cycle(&allowed)?, &allowed)?;
        let next = found.iter().cycle().skip(1);
        Some(found.iter().zip(next).map(|(link, on)| self.turn(*link, *on)).collect())
    }

    fn turn(&self, link: usize, on: usize) -> SwitchTurn {
        let ((from, at), (_, to)) = (self.links[link], self.links[on]);
        SwitchTurn { at, from, to }
    }

    fn on(&self, link: usize, allowed: &dyn Fn(SwitchTurn) -> bool) -> Vec<usize> {
        let waits = self.waits[link].iter().copied();
        waits.filter(|on| allowed(self.turn(link, *on))).collect()
    }

    /// A link that is on a cycle: depth first, without recursion.
    fn on_a_cycle(&self, allowed: &dyn Fn(SwitchTurn) -> bool) -> Option<usize> {
        // 0 is not seen, 1 is on the way, 2 is done.
        let mut state = vec![0_u8; self.links.len()];
        for first in 0..self.links.len() {
            if state[first] != 0 || self.waits[first].is_empty() {
                continue;
            }
            let mut way = vec![(first, self.on(first, allowed).into_iter())];
            state[first] = 1;
            while let Some((link, rest)) = way.last_mut() {
                let link = *link;
                match rest.next() {
                    Some(on) if state[on] == 1 => return Some(on),
                    Some(on) if state[on] == 0 => {
                        state[on] = 1;
                        way.push((on, self.on(on, allowed).into_iter()));
                    }
                    Some(_) => {}
                    None => {
                        state[link] = 2;
                        way.pop();
                    }
                }
            }
        }
        None
    }

    /// The shortest way from a link back to itself, breadth first.
    fn back_to(&self, first: usize, allowed: &dyn Fn(SwitchTurn) -> bool) -> Option<Vec<usize>> {
        let mut before = vec![usize::MAX; self.links.len()];
        let mut open = VecDeque::from([first]);
        while let Some(link) = open.pop_front() {
            for on in self.on(link, allowed) {
                if on == first {
                    let mut way = vec![link];
                    let mut at = link;
                    while at != first {
                        at = before[at];
                        way.push(at);
                    }
                    way.reverse();
                    return Some(way);
                }
                if before[on] == usize::MAX {
                    before[on] = link;
                    open.push_back(on);
                }
            }
        }
        None
    }
}
