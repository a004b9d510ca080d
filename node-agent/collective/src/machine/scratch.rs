//! Slots of the scratch region: early, staging and sending. Slots that were used last are used first, so that they are warm.

use crate::memory::Region;
use crate::shape::Config;
use crate::units::Node;

/// A slot that someone holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(u32);

/// Free slots and where each lies.
#[derive(Debug, Clone)]
pub struct Slots {
    scratch: Region,
    early_bytes: usize,
    early: Vec<Vec<u32>>,
    early_end: usize,
    chunk: usize,
    stage: Vec<u32>,
    send: Vec<u32>,
    stage_count: u32,
    /// Staging slots that no operation has reserved.
    unreserved: usize,
}

impl Slots {
    pub fn new(config: &Config) -> Self {
        let s = config.scratch_layout();
        let per = s.early_per_peer as u32;
        // The own node's share is left out: a node's early slots are found by its index among the others.
        let early = (0..config.nodes as u32).map(|i| (i * per..(i + 1) * per).rev().collect::<Vec<_>>());
        let early: Vec<Vec<u32>> = early.take(config.peers()).collect();
        Slots {
            scratch: config.scratch,
            early_bytes: s.early_bytes,
            early_end: config.peers() * s.early_per_peer * s.early_bytes,
            early,
            chunk: config.chunk_bytes,
            stage: (0..s.stage as u32).rev().collect(),
            send: (s.stage as u32..(s.stage + s.send) as u32).rev().collect(),
            stage_count: s.stage as u32,
            unreserved: s.stage,
        }
    }

    fn peer_index(peer: Node, own: Node) -> usize {
        usize::from(if peer > own { peer - 1 } else { peer })
    }

    /// Where `len` bytes of an early slot lie.
    pub fn early_region(&self, slot: Slot, len: usize) -> Region {
        self.scratch.part(slot.0 as usize * self.early_bytes, len)
    }

    /// Where `len` bytes of a staging or sending slot lie.
    pub fn region(&self, slot: Slot, len: usize) -> Region {
        self.scratch.part(self.early_end + slot.0 as usize * self.chunk, len)
    }

    /// The keep's part of the scratch region.
    pub fn keep_region(config: &Config) -> Region {
        let s = config.scratch_layout();
        let at = config.peers() * s.early_per_peer * s.early_bytes + (s.stage + s.send) * config.chunk_bytes;
        config.scratch.part(at, s.keep)
    }

    pub fn take_early(&mut self, peer: Node, own: Node) -> Option<Slot> {
        self.early.get_mut(Self::peer_index(peer, own))?.pop().map(Slot)
    }

    pub fn free_early(&mut self, slot: Slot, peer: Node, own: Node) {
        if let Some(slots) = self.early.get_mut(Self::peer_index(peer, own)) {
            slots.push(slot.0);
        }
    }

    /// Sets staging slots aside for an operation; `false` if there are not enough.
    pub fn reserve(&mut self, count: usize) -> bool {
        let enough = count <= self.unreserved;
        if enough {
            self.unreserved -= count;
        }
        enough
    }

    pub fn unreserve(&mut self, count: usize) {
        self.unreserved += count;
    }

    pub fn take_stage(&mut self) -> Option<Slot> {
        self.stage.pop().map(Slot)
    }

    pub fn take_send(&mut self) -> Option<Slot> {
        self.send.pop().map(Slot)
    }

    /// How many slots of each kind are free, and how many staging slots are not reserved.
    #[cfg(test)]
    pub fn free_counts(&self) -> [usize; 4] {
        [self.early.iter().map(Vec::len).sum(), self.stage.len(), self.send.len(), self.unreserved]
    }

    /// Frees a staging or sending slot.
    pub fn free(&mut self, slot: Slot) {
        let list = if slot.0 < self.stage_count { &mut self.stage } else { &mut self.send };
        list.push(slot.0);
    }
}
