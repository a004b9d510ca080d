//! Links that wait for links, and cycles among them. What a link waits for is bits over the links of the node that it leads to: a fabric of
//! 512 leaves and 512 spines has half a million links and more than a hundred million waits.

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

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
    /// By node: neighbours in order. The link to neighbour `local` of a node has the number `first[node] + local`.
    near: Vec<Vec<usize>>,
    first: Vec<usize>,
    /// By link.
    ends: Vec<(usize, usize)>,
    /// By link: where its waits begin in `bits`. Those of links that lead to one node lie together.
    row: Vec<usize>,
    bits: Vec<u64>,
}

/// A bit for each link, those of one node from a word of their own on.
struct Marks {
    first: Vec<usize>,
    bits: Vec<u64>,
}

impl Marks {
    fn new(graph: &Graph, all: bool) -> Self {
        let mut count = 0;
        let first = |near: &Vec<usize>| {
            count += near.len().div_ceil(WORD);
            count - near.len().div_ceil(WORD)
        };
        let first = graph.near.iter().map(first).collect();
        Marks { first, bits: vec![if all { u64::MAX } else { 0 }; count] }
    }

    fn of(&self, node: usize, words: usize) -> &[u64] {
        &self.bits[self.first[node]..][..words]
    }

    fn set(&mut self, node: usize, local: usize, is: bool) {
        let word = &mut self.bits[self.first[node] + local / WORD];
        let bit = 1 << (local % WORD);
        *word = if is { *word | bit } else { *word & !bit };
    }

    fn has(&self, node: usize, local: usize) -> bool {
        self.bits[self.first[node] + local / WORD] & (1 << (local % WORD)) != 0
    }
}

impl Graph {
    /// Without a wait; `near` says the neighbours of each node, both of each other.
    pub fn new(mut near: Vec<Vec<usize>>) -> Self {
        let (mut first, mut ends) = (Vec::with_capacity(near.len()), Vec::new());
        for (at, near) in near.iter_mut().enumerate() {
            near.sort_unstable();
            near.dedup();
            first.push(ends.len());
            ends.extend(near.iter().map(|near| (at, *near)));
        }
        let mut graph = Graph { near, first, row: vec![0; ends.len()], ends, bits: Vec::new() };
        let mut count = 0;
        for at in 0..graph.near.len() {
            for local in 0..graph.near[at].len() {
                let link = graph.link(graph.near[at][local], at);
                graph.row[link] = count;
                count += graph.words(at);
            }
        }
        graph.bits = vec![0; count];
        graph
    }

    /// The number of a link that is there.
    fn link(&self, from: usize, to: usize) -> usize {
        self.first[from] + self.local(from, to)
    }

    /// The how many-th neighbour of a node another one is.
    pub fn local(&self, at: usize, to: usize) -> usize {
        self.near[at].partition_point(|near| *near < to)
    }

    fn words(&self, at: usize) -> usize {
        self.near[at].len().div_ceil(WORD)
    }

    /// Where the waits of a link begin, for [`Graph::wait`].
    pub fn row(&self, from: usize, to: usize) -> usize {
        self.row[self.link(from, to)]
    }

    /// Adds waits to those of a row: bits of one word of it.
    pub fn wait(&mut self, row: usize, (word, bits): (usize, u64)) {
        self.bits[row + word] |= bits;
    }

    /// The word, and the bit in it, that a wait for a node's link to its neighbour `local` is.
    pub fn bit(local: usize) -> (usize, u64) {
        (local / WORD, 1 << (local % WORD))
    }

    /// Takes a wait away, or adds it again.
    pub fn permit(&mut self, turn: SwitchTurn, is: bool) {
        let row = self.row(turn.from, turn.at);
        let (word, bit) = Self::bit(self.local(turn.at, turn.to));
        let word = &mut self.bits[row + word];
        *word = if is { *word | bit } else { *word & !bit };
    }

    /// A cycle, as short as one through one of its links can be.
    pub fn cycle(&self) -> Option<Vec<(usize, usize)>> {
        let found = self.back_to(self.on_a_cycle()?)?;
        Some(found.into_iter().map(|link| self.ends[link]).collect())
    }

    /// The same as turns.
    pub fn turns(&self) -> Option<Vec<SwitchTurn>> {
        let found = self.cycle()?;
        let next = found.iter().cycle().skip(1);
        Some(found.iter().zip(next).map(|(&(from, at), &(_, to))| SwitchTurn { at, from, to }).collect())
    }

    /// How many waits there are.
    pub fn size(&self) -> usize {
        self.bits.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The graph without what is on no cycle because nothing waits for it, or it waits for nothing.
    pub fn core(&self) -> Graph {
        let mut core = self.clone();
        loop {
            let (mut waited_for, mut goes_on) = (Marks::new(&core, false), Marks::new(&core, false));
            for (link, &(from, at)) in core.ends.iter().enumerate() {
                let waits = core.waits(link);
                let marks = &mut waited_for.bits[waited_for.first[at]..];
                marks.iter_mut().zip(waits).for_each(|(mark, bits)| *mark |= bits);
                goes_on.set(from, link - core.first[from], waits.iter().any(|bits| *bits != 0));
            }
            let mut has_changed = false;
            for link in 0..core.ends.len() {
                let ((from, at), row) = (core.ends[link], core.row[link]);
                let words = core.words(at);
                let is_waited_for = waited_for.has(from, link - core.first[from]);
                for (word, mark) in core.bits[row..][..words].iter_mut().zip(goes_on.of(at, words)) {
                    let left = if is_waited_for { *word & mark } else { 0 };
                    has_changed |= left != *word;
                    *word = left;
                }
            }
            if !has_changed {
                return core;
            }
        }
    }

    fn waits(&self, link: usize) -> &[u64] {
        &self.bits[self.row[link]..][..self.words(self.ends[link].1)]
    }

    /// The first wait of a link from its neighbour `local` on that is marked, as that neighbour's index.
    fn next(&self, link: usize, marks: &Marks, local: usize) -> Option<usize> {
        let waits = self.waits(link);
        let marks = marks.of(self.ends[link].1, waits.len());
        let skip = local / WORD;
        let words = waits.iter().zip(marks).enumerate().skip(skip);
        let left = words.map(|(word, (waits, marks))| {
            let from = if word == skip { u64::MAX << (local % WORD) } else { u64::MAX };
            (word, waits & marks & from)
        });
        let mut left = left.filter(|(_, bits)| *bits != 0);
        left.next().map(|(word, bits)| word * WORD + bits.trailing_zeros() as usize)
    }

    /// A link that is on a cycle: depth first, without recursion.
    fn on_a_cycle(&self) -> Option<usize> {
        let mut not_done = Marks::new(self, true);
        let mut on_the_way = vec![false; self.ends.len()];
        for (first, &(from, _)) in self.ends.iter().enumerate() {
            if !not_done.has(from, first - self.first[from]) {
                continue;
            }
            let mut way = vec![(first, 0)];
            on_the_way[first] = true;
            while let Some((link, local)) = way.last_mut() {
                let (from, at) = self.ends[*link];
                if let Some(next) = self.next(*link, &not_done, *local) {
                    *local = next + 1;
                    let on = self.first[at] + next;
                    if std::mem::replace(&mut on_the_way[on], true) {
                        return Some(on);
                    }
                    way.push((on, 0));
                } else {
                    on_the_way[*link] = false;
                    not_done.set(from, *link - self.first[from], false);
                    way.pop();
                }
            }
        }
        None
    }

    /// The shortest way from a link back to itself, breadth first.
    fn back_to(&self, first: usize) -> Option<Vec<usize>> {
        let mut not_seen = Marks::new(self, true);
        let mut seen = vec![(first, usize::MAX)];
        let mut at = 0;
        while at < seen.len() {
            let link = seen[at].0;
            let node = self.ends[link].1;
            let mut local = 0;
            while let Some(next) = self.next(link, &not_seen, local) {
                let on = self.first[node] + next;
                if on == first {
                    return Some(way(&seen, at));
                }
                not_seen.set(node, next, false);
                seen.push((on, at));
                local = next + 1;
            }
            at += 1;
        }
        None
    }
}

/// The links by which a link was seen, from the first on: each has the index of the one before it.
fn way(seen: &[(usize, usize)], last: usize) -> Vec<usize> {
    let before = |at: &usize| Some(seen[*at].1).filter(|before| *before != usize::MAX);
    let mut way: Vec<usize> = std::iter::successors(Some(last), before).map(|at| seen[at].0).collect();
    way.reverse();
    way
}
