//! What the capacity index offers to jobs that ask alike of a node: kept from decision to decision, brought up to date by what
//! has changed since.

use std::sync::Arc;

#[cfg(test)]
use crate::plant::{self, Bug};
use crate::{
    bins::{Bins, bits},
    capacity_index::{CapacityIndex, Filter, Mark, Record, WORD, at_least},
    host::Host,
    place::{Need, RailNeed},
};

/// Profiles that are kept; the one that was not used for longest makes room.
const KEPT: usize = 64;

/// Which nodes a profile takes, by what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Idle {
    /// Any node, whether jobs hold something there or not.
    Either,
    /// Only those that hold nothing: the job wants its nodes alone.
    Only,
    /// Only those that hold something: what is broken into already.
    Never,
    /// Of those only the ones with exactly so many GPUs free.
    Exactly,
}

/// What a job asks of each of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) gpus: u32,
    pub(crate) rails: RailNeed,
    pub(crate) idle: Idle,
    pub(crate) filter: Arc<Filter>,
    pub(crate) host: Host,
}

impl Profile {
    pub(crate) fn of(need: &Need, rails: RailNeed, idle: Idle) -> Self {
        Self { gpus: need.gpus, rails, idle, filter: Arc::clone(&need.filter), host: need.host }
    }
}

/// The nodes that fulfil a profile, counted by block and by pod.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// As the profile lists them, for loops over words; none where any will do.
    rails: Vec<u32>,
    /// Per word the nodes whose class the filter admits; `None`: all. Classes do not change while the log goes on.
    admitted: Option<Vec<u64>>,
    bits: Vec<u64>,
    /// Words that have changed, as a bitmap; empty but while the view is brought up to date.
    changed: Vec<u64>,
    blocks: Bins,
    /// Where every pod is one block the blocks are the pods.
    pods: Option<Bins>,
    mark: Mark,
}

impl View {
    fn empty(capacity_index: &CapacityIndex, profile: &Profile) -> Self {
        let layout = capacity_index.layout();
        let size = |block: u32| (capacity_index.block_words(block).len() as u32) * WORD;
        let blocks = 0..layout.blocks.len() as u32;
        let pod = |pod: &crate::capacity_index::Pod| {
            (pod.first_block..pod.first_block + pod.blocks).map(size).sum()
        };
        let most_block = blocks.map(size).max().unwrap_or(0);
        let most_pod = layout.pods.iter().map(pod).max().unwrap_or(0);
        let (classes, all) = capacity_index.classes().admitted(&profile.filter);
        Self {
            rails: match profile.rails {
                RailNeed::Exactly(rails) => rails.iter().collect(),
                RailNeed::Any(_) => Vec::new(),
            },
            admitted: (!all).then(|| {
                (0..capacity_index.words()).map(|word| admitted(capacity_index, &classes, word)).collect()
            }),
            bits: vec![0; capacity_index.words() as usize],
            changed: vec![0; capacity_index.words().div_ceil(64) as usize],
            blocks: Bins::new(layout.blocks.len(), most_block),
            pods: (!layout.is_flat()).then(|| Bins::new(layout.pods.len(), most_pod)),
            mark: Mark::default(),
        }
    }

    /// Looks at every word.
    fn scan(capacity_index: &CapacityIndex, profile: &Profile) -> Self {
        let mut view = Self::empty(capacity_index, profile);
        view.check_all(capacity_index, profile);
        view.mark = capacity_index.log().mark();
        view
    }

    /// The nodes of which `wanted` is true, whatever they hold: what would be if jobs ended, or nodes came back.
    pub(crate) fn assumed(
        capacity_index: &CapacityIndex,
        profile: &Profile,
        wanted: impl Fn(&Record) -> bool,
    ) -> Self {
        let mut view = Self::empty(capacity_index, profile);
        let mut bits = vec![0_u64; view.bits.len()];
        for record in capacity_index.records().filter(|record| wanted(record)) {
            bits[(record.slot / WORD) as usize] |= 1 << (record.slot % WORD);
        }
        for (word, bits) in (0..).zip(bits) {
            let bits = bits & view.admitted(word);
            view.put(capacity_index, word, bits);
        }
        view
    }

    fn admitted(&self, word: u32) -> u64 {
        #[cfg(test)]
        if plant::is(Bug::Filter) {
            return u64::MAX;
        }
        self.admitted.as_ref().map_or(u64::MAX, |admitted| admitted[word as usize])
    }

    fn check_all(&mut self, capacity_index: &CapacityIndex, profile: &Profile) {
        for first in (0..capacity_index.words()).step_by(64) {
            let words = first..capacity_index.words().min(first + 64);
            // Words without a free GPU offer nothing; those that did are looked at all the same.
            let mut wanted = if profile.gpus == 0 { u64::MAX } else { capacity_index.some(first / 64) };
            for (at, bits) in self.bits[words.start as usize..words.end as usize].iter().enumerate() {
                wanted |= u64::from(*bits != 0) << at;
            }
            for bit in bits(wanted).take_while(|bit| first + bit < words.end) {
                self.check(capacity_index, profile, first + bit);
            }
        }
    }

    fn check(&mut self, capacity_index: &CapacityIndex, profile: &Profile, at: u32) {
        let word = capacity_index.word(at);
        let open = word.open;
        #[cfg(test)]
        let open = if plant::is(Bug::Closed) { u64::MAX } else { open };
        let mut bits = open & word.at_least(profile.gpus);
        match profile.idle {
            Idle::Either => {}
            Idle::Only => bits &= word.idle,
            Idle::Never => bits &= !word.idle,
            Idle::Exactly => bits &= !word.idle & word.exactly(profile.gpus),
        }
        if bits != 0 {
            let planes = capacity_index.rail_planes(at);
            let rails = &self.rails[..];
            #[cfg(test)]
            let rails = if plant::is(Bug::Rails) { &[] } else { rails };
            // They ascend: as many as there are planes, and none beyond, are all.
            if rails.len() == planes.len()
                && rails.last().is_some_and(|last| *last as usize + 1 == planes.len())
            {
                bits &= planes.iter().fold(u64::MAX, |all, plane| all & plane);
            } else {
                for rail in rails {
                    bits &= planes.get(*rail as usize).copied().unwrap_or(0);
                }
            }
            bits &= self.admitted(at);
            if let RailNeed::Any(count) = profile.rails {
                bits = any(bits, planes, count);
            }
            bits = with_host(capacity_index, at, bits, profile.host);
        }
        self.put(capacity_index, at, bits);
    }

    fn put(&mut self, capacity_index: &CapacityIndex, word: u32, bits: u64) {
        let old = std::mem::replace(&mut self.bits[word as usize], bits);
        if old == bits {
            return;
        }
        let (less, more) = (old.count_ones(), bits.count_ones());
        if less == more {
            return;
        }
        let block = capacity_index.layout().block_of(word);
        self.blocks.change(block, more, less);
        if let Some(pods) = &mut self.pods {
            pods.change(capacity_index.layout().blocks[block as usize].pod, more, less);
        }
    }

    fn update(&mut self, capacity_index: &CapacityIndex, profile: &Profile) {
        match capacity_index.log().since(self.mark) {
            // More changes than words: a look at all is shorter.
            Some(words) if words.len() > self.bits.len() => {
                self.check_all(capacity_index, profile);
                self.mark = capacity_index.log().mark();
            }
            Some(words) => {
                // Each once, and in their order: what lies together is looked at together.
                let mut changed = std::mem::take(&mut self.changed);
                words.for_each(|word| changed[word as usize / 64] |= 1 << (word % 64));
                for (first, words) in (0..).step_by(64).zip(&mut changed) {
                    // Words without a free GPU offer nothing, and mostly did not before.
                    let some = if profile.gpus == 0 { u64::MAX } else { capacity_index.some(first / 64) };
                    for bit in bits(std::mem::take(words)) {
                        if some >> bit & 1 == 1 || self.bits[(first + bit) as usize] != 0 {
                            self.check(capacity_index, profile, first + bit);
                        }
                    }
                }
                self.changed = changed;
                self.mark = capacity_index.log().mark();
            }
            None => *self = Self::scan(capacity_index, profile),
        }
    }

    /// The nodes of a word that fulfil the profile.
    pub(crate) fn bits(&self, word: u32) -> u64 {
        self.bits[word as usize]
    }

    pub(crate) fn blocks(&self) -> &Bins {
        &self.blocks
    }

    pub(crate) fn pods(&self) -> &Bins {
        self.pods.as_ref().unwrap_or(&self.blocks)
    }

    /// Leaves nodes out; what is added to `undo` puts them in again.
    pub(crate) fn hide(
        &mut self,
        capacity_index: &CapacityIndex,
        hidden: &[(u32, u64)],
        undo: &mut Vec<(u32, u64)>,
    ) {
        for (word, mask) in hidden {
            let bits = self.bits[*word as usize];
            if bits & mask != 0 {
                undo.push((*word, bits));
                self.put(capacity_index, *word, bits & !mask);
            }
        }
    }

    /// Undoes [`Self::hide`], given what it left in `undo`.
    pub(crate) fn show(&mut self, capacity_index: &CapacityIndex, undo: &[(u32, u64)]) {
        for (word, bits) in undo.iter().rev() {
            self.put(capacity_index, *word, *bits);
        }
    }
}

/// The nodes of a word whose class is one of some.
fn admitted(capacity_index: &CapacityIndex, classes: &[u64], word: u32) -> u64 {
    let admitted =
        |class: u32| classes.get(class as usize / 64).is_some_and(|word| word >> (class % 64) & 1 == 1);
    capacity_index
        .kinds(word)
        .iter()
        .filter(|(class, _)| admitted(*class))
        .fold(0, |set, (_, mask)| set | mask)
}

/// Of some nodes of a word those that have so much of CPUs and memory left. These are no planes: few jobs ask for them, and nodes
/// that were looked at once are looked at again only when they change.
fn with_host(capacity_index: &CapacityIndex, word: u32, nodes: u64, asked: Host) -> u64 {
    #[cfg(test)]
    if plant::is(Bug::Host) {
        return nodes;
    }
    if asked.is_none() {
        return nodes;
    }
    let record =
        |bit: &u32| capacity_index.node_at(word * WORD + bit).and_then(|node| capacity_index.record(node));
    let fits = |bit: &u32| record(bit).is_some_and(|record| record.free_host().covers(asked));
    bits(nodes).filter(fits).fold(0, |set, bit| set | 1 << bit)
}

/// Of some nodes those with at least `count` free rails: the planes are added up in binary, for all nodes at once.
fn any(nodes: u64, planes: &[u64], count: u32) -> u64 {
    // Often all of them have every rail.
    if planes.len() >= count as usize && planes.iter().all(|plane| plane & nodes == nodes) {
        return nodes;
    }
    let mut digits = [0_u64; 7];
    for plane in planes {
        let mut carry = plane & nodes;
        for digit in &mut digits {
            if carry == 0 {
                break;
            }
            (*digit, carry) = (*digit ^ carry, *digit & carry);
        }
    }
    nodes & at_least(&digits, count)
}

/// The views of profiles that were asked for lately. Only what can be had again from the capacity index: it may be thrown away,
/// copied or used with another capacity index at any time, and two of them count as equal.
#[derive(Debug, Default)]
pub(crate) struct Views {
    kept: Vec<(Profile, View, u64)>,
    clock: u64,
}

impl Views {
    /// The view of a profile, up to date.
    pub(crate) fn of(&mut self, capacity_index: &CapacityIndex, profile: &Profile) -> &mut View {
        self.clock += 1;
        let at = match self.kept.iter().position(|(other, ..)| other == profile) {
            Some(at) => {
                self.kept[at].1.update(capacity_index, profile);
                at
            }
            None => {
                let row = (profile.clone(), View::scan(capacity_index, profile), self.clock);
                if self.kept.len() < KEPT {
                    self.kept.push(row);
                    self.kept.len() - 1
                } else {
                    let oldest = (0..KEPT).min_by_key(|at| self.kept[*at].2).unwrap_or(0);
                    self.kept[oldest] = row;
                    oldest
                }
            }
        };
        self.kept[at].2 = self.clock;
        &mut self.kept[at].1
    }
}
