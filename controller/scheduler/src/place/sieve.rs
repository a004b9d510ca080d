//! One view seen through a set of rails: the nodes that lack one of the set are left out, block by block as they are
//! looked at.
//!
//! Where any so many rails will do, most nodes have all of them. Only the odd ones, which lack a rail that some set
//! wants, differ from set to set; they are few, and are listed once per decision and block.

use controller_topology::RailSet;

use crate::{
    bins::bits,
    capacity_index::{CapacityIndex, WORD},
    view::View,
};

/// A node that lacks rails.
#[derive(Debug, Clone, Copy)]
struct Odd {
    slot: u32,
    lacks: RailSet,
}

/// What one decision has seen so far; its vectors are used again.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    /// The rails that any set wants.
    wanted: RailSet,
    odd: Vec<Odd>,
    /// Per block the part of `odd` that is its own, once it was looked at.
    parts: Vec<Option<(u32, u32)>>,
    seen: Vec<u32>,
    /// The blocks of which the nodes are left out at the moment.
    clean: Vec<bool>,
    cleaned: Vec<u32>,
    masks: Vec<(u32, u64)>,
    undo: Vec<(u32, u64)>,
}

impl Sieve {
    /// Another decision begins, for sets of these rails.
    pub(super) fn begin(&mut self, capacity_index: &CapacityIndex, wanted: RailSet) {
        self.wanted = wanted;
        self.odd.clear();
        for block in self.seen.drain(..) {
            self.parts[block as usize] = None;
        }
        self.parts.resize(capacity_index.blocks(), None);
        self.clean.resize(capacity_index.blocks(), false);
    }

    /// Lists the odd nodes of a block, once.
    pub(super) fn check(&mut self, capacity_index: &CapacityIndex, view: &View, block: u32) {
        if self.parts[block as usize].is_some() {
            return;
        }
        let first = self.odd.len() as u32;
        for word in capacity_index.block_words(block) {
            let nodes = view.bits(word);
            if nodes == 0 {
                continue;
            }
            let planes = capacity_index.rail_planes(word);
            let plane = |rail: u32| planes.get(rail as usize).copied().unwrap_or(0);
            let whole = self.wanted.iter().fold(u64::MAX, |all, rail| all & plane(rail));
            for bit in bits(nodes & !whole) {
                let lacks = self.wanted.iter().filter(|rail| plane(*rail) >> bit & 1 == 0).collect();
                self.odd.push(Odd { slot: word * WORD + bit, lacks });
            }
        }
        self.parts[block as usize] = Some((first, self.odd.len() as u32));
        self.seen.push(block);
    }

    /// How many odd nodes a block has that was looked at.
    pub(super) fn odd(&self, block: u32) -> u32 {
        self.parts[block as usize].map_or(0, |(first, end)| end - first)
    }

    /// How many nodes of a block that was looked at lack one of some rails.
    pub(super) fn lost(&self, block: u32, rails: RailSet) -> u32 {
        self.lacking(block, rails).count() as u32
    }

    /// How many of those are nodes that others are on.
    pub(super) fn lost_broken(&self, capacity_index: &CapacityIndex, block: u32, rails: RailSet) -> u32 {
        let is_broken = |odd: &Odd| capacity_index.word(odd.slot / WORD).idle >> (odd.slot % WORD) & 1 == 0;
        self.lacking(block, rails).filter(is_broken).count() as u32
    }

    fn lacking(&self, block: u32, rails: RailSet) -> impl Iterator<Item = Odd> {
        let (first, end) = self.parts[block as usize].unwrap_or_default();
        let odd = &self.odd[first as usize..end as usize];
        odd.iter().copied().filter(move |odd| !odd.lacks.and(rails).is_empty())
    }

    /// Leaves out the nodes of some blocks that lack one of some rails; of all blocks for the same rails until
    /// [`Self::show`]. Whether there was any.
    pub(super) fn hide(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &mut View,
        blocks: impl Iterator<Item = u32>,
        rails: RailSet,
    ) -> bool {
        let before = self.undo.len();
        for block in blocks {
            if std::mem::replace(&mut self.clean[block as usize], true) {
                continue;
            }
            self.cleaned.push(block);
            self.check(capacity_index, view, block);
            let mut masks = std::mem::take(&mut self.masks);
            masks.clear();
            for odd in self.lacking(block, rails) {
                let (word, bit) = (odd.slot / WORD, 1 << (odd.slot % WORD));
                match masks.last_mut() {
                    Some((last, mask)) if *last == word => *mask |= bit,
                    _ => masks.push((word, bit)),
                }
            }
            view.hide(capacity_index, &masks, &mut self.undo);
            self.masks = masks;
        }
        self.undo.len() > before
    }

    /// Undoes every [`Self::hide`] since the last call: the view is as it was.
    pub(super) fn show(&mut self, capacity_index: &CapacityIndex, view: &mut View) {
        view.show(capacity_index, &self.undo);
        self.undo.clear();
        for block in self.cleaned.drain(..) {
            self.clean[block as usize] = false;
        }
    }
}
