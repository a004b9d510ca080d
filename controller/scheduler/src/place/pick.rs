//! Which nodes of the chosen blocks, and which of their GPUs.

use super::{Need, Take};
use crate::{
    bins::bits,
    capacity::GPUS_MAX,
    capacity_index::{CapacityIndex, Pick, WORD, ones},
    choice::{Choice, Time},
    view::View,
};

/// Picks nodes; its vectors are used again.
#[derive(Debug, Default)]
pub(crate) struct Picker {
    /// What was taken of each word of the block at hand.
    taken: Vec<u64>,
    /// What was taken of all words with spares still to come.
    all: Vec<(u32, u64)>,
    spares: Vec<Take>,
}

impl Picker {
    /// The nodes of a layout in rank order, and its spares.
    pub(crate) fn pick(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        need: &Need,
        time: Time,
        takes: &[Take],
        choice: &mut Choice,
    ) {
        choice.nodes.clear();
        choice.spares.clear();
        self.all.clear();
        let mut seen = false;
        for (at, take) in takes.iter().enumerate() {
            // Split groups may come back to a block.
            let again = seen || takes[..at].iter().any(|before| before.block == take.block);
            seen = again;
            let keep = again || takes[at + 1..].iter().any(|later| later.block == take.block);
            self.block(capacity_index, view, need, time, *take, keep || need.spares > 0);
            self.emit(capacity_index, need, take.block, choice.rails, &mut choice.nodes);
        }
        if need.spares > 0 {
            self.spares(capacity_index, view, need, time, takes, choice);
        }
    }

    /// Chooses nodes of one block, those that are used best first; into `taken`.
    fn block(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        need: &Need,
        time: Time,
        take: Take,
        keep: bool,
    ) {
        let words = capacity_index.block_words(take.block);
        self.taken.clear();
        self.taken.resize(words.len(), 0);
        let used = |word: u32, all: &[(u32, u64)]| {
            all.iter().filter(|(other, _)| *other == word).fold(0, |set, (_, mask)| set | mask)
        };
        let mut rest = take.nodes;
        if rest == view.blocks().count(take.block) {
            for (taken, word) in self.taken.iter_mut().zip(words.clone()) {
                *taken = view.bits(word);
            }
            rest = 0;
        }
        let mut count = if time == Time::Now { need.gpus } else { GPUS_MAX };
        while rest > 0 {
            // Broken nodes before idle ones, if it is now; later the idle ones first.
            for broken in [time == Time::Now, time != Time::Now] {
                for (taken, word) in self.taken.iter_mut().zip(words.clone()) {
                    let planes = capacity_index.word(word);
                    let idle = if broken { !planes.idle } else { planes.idle };
                    let mut fits = view.bits(word) & planes.exactly(count) & idle & !*taken;
                    if keep {
                        fits &= !used(word, &self.all);
                    }
                    *taken |= lowest(fits, &mut rest);
                    if rest == 0 {
                        break;
                    }
                }
            }
            match (time == Time::Now, count) {
                (true, GPUS_MAX) | (false, 0) => break,
                (true, _) => count += 1,
                (false, _) => count -= 1,
            }
        }
        if keep {
            self.all.extend(
                words.zip(&self.taken).filter(|(_, mask)| **mask != 0).map(|(word, mask)| (word, *mask)),
            );
        }
    }

    fn emit(
        &self,
        capacity_index: &CapacityIndex,
        need: &Need,
        block: u32,
        rails: controller_topology::RailSet,
        into: &mut Vec<Pick>,
    ) {
        for (word, mask) in capacity_index.block_words(block).zip(&self.taken) {
            for bit in bits(*mask) {
                let Some(node) = capacity_index.node_at(word * WORD + bit) else { continue };
                let Some(record) = capacity_index.record(node) else { continue };
                let free = record.free_gpus();
                let gpus = if ones(free) == need.gpus {
                    free
                } else {
                    capacity_index.classes().traits(record.class).choose_gpus(free, need.gpus, rails)
                };
                into.push(Pick { node, gpus });
            }
        }
    }

    /// Spares: on the gang's own leaves, then in its pods, then where they fit best.
    fn spares(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        need: &Need,
        time: Time,
        takes: &[Take],
        choice: &mut Choice,
    ) {
        let layout = capacity_index.layout();
        let mut spares = std::mem::take(&mut self.spares);
        spares.clear();
        let taken = |block: u32| -> u32 {
            takes.iter().filter(|take| take.block == block).map(|take| take.nodes).sum()
        };
        let left = |block: u32| view.blocks().count(block) - taken(block);
        let mut rest = need.spares;
        let mut give = |block: u32, spares: &mut Vec<Take>| {
            let given = spares.iter().any(|take| take.block == block);
            let nodes = if given { 0 } else { left(block).min(rest) };
            if nodes > 0 {
                spares.push(Take { block, nodes });
                rest -= nodes;
            }
            rest > 0
        };
        let pod_of = |block: u32| layout.blocks[block as usize].pod;
        let own = takes.iter().map(|take| take.block);
        let pods = takes.iter().map(|take| pod_of(take.block));
        let near = pods.flat_map(|pod| {
            let pod = layout.pods[pod as usize];
            pod.first_block..pod.first_block + pod.blocks
        });
        let more = own.chain(near).all(|block| give(block, &mut spares));
        if more {
            let mut far = view.blocks().at_least(1);
            far.all(|block| give(block, &mut spares));
        }
        for take in &spares {
            self.block(capacity_index, view, need, time, Take { nodes: take.nodes, ..*take }, true);
            self.emit(capacity_index, need, take.block, choice.rails, &mut choice.spares);
        }
        self.spares = spares;
    }
}

/// The lowest ones of a word, `rest` at most.
fn lowest(mut word: u64, rest: &mut u32) -> u64 {
    let count = word.count_ones();
    if count <= *rest {
        *rest -= count;
        return word;
    }
    let mut taken = 0;
    while *rest > 0 {
        let bit = word & word.wrapping_neg();
        word ^= bit;
        taken |= bit;
        *rest -= 1;
    }
    taken
}
