//! Where every node stands: pods, in them blocks of nodes on the same leaves, in them nodes by name.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, NodeName};

/// Nodes of one word.
pub(crate) const WORD: u32 = 64;

/// The nodes of one pod that are cabled to the same leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) pod: u32,
    pub(crate) first_word: u32,
    pub(crate) words: u32,
}

/// A pod: blocks in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) first_block: u32,
    pub(crate) blocks: u32,
}

/// The places of all nodes that a fabric document cables, joined or not, and behind them one pod of one block for the
/// others. Follows from the document alone, so that the order of joining leaves no trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) pods: Vec<Pod>,
    pub(crate) blocks: Vec<Block>,
    /// Places of the document's nodes: word * 64 + bit.
    slots: BTreeMap<NodeName, u32>,
    /// The block of each of the document's words.
    word_block: Vec<u32>,
    /// The names of each block's leaves.
    leaves: Vec<Vec<String>>,
    /// Every pod is one block.
    flat: bool,
}

/// A leaf per rail and plane, where known.
type Leaves<'a> = BTreeSet<&'a str>;

impl Layout {
    /// Without a document there is one pod of one block.
    pub(crate) fn new(fabric: Option<&Fabric>) -> Self {
        let mut layout = Self {
            pods: Vec::new(),
            blocks: Vec::new(),
            slots: BTreeMap::new(),
            word_block: Vec::new(),
            leaves: Vec::new(),
            flat: true,
        };
        if let Some(fabric) = fabric {
            layout.cabled(fabric);
        }
        let pod = count(layout.pods.len());
        layout.pods.push(Pod { first_block: count(layout.blocks.len()), blocks: 1 });
        layout.blocks.push(Block { pod, first_word: count(layout.word_block.len()), words: 0 });
        layout.leaves.push(Vec::new());
        layout.flat = layout.pods.iter().all(|pod| pod.blocks == 1);
        layout
    }

    fn cabled(&mut self, fabric: &Fabric) {
        let pods: BTreeSet<&str> = fabric.leaves.iter().map(|leaf| leaf.pod.as_str()).collect();
        let pods: BTreeMap<&str, usize> = pods.into_iter().zip(0..).collect();
        let leaves: BTreeMap<&str, (&str, usize)> = fabric
            .leaves
            .iter()
            .filter_map(|leaf| {
                Some((leaf.name.as_str(), (leaf.name.as_str(), *pods.get(leaf.pod.as_str())?)))
            })
            .collect();
        let mut nodes: BTreeMap<NodeName, (usize, Leaves<'_>)> = BTreeMap::new();
        for link in fabric.each_link() {
            if let Some((leaf, pod)) = leaves.get(link.leaf.as_str()) {
                // Of a node in several pods, which the check of a document refuses, the first cable counts.
                nodes.entry(link.node).or_insert_with(|| (*pod, Leaves::new())).1.insert(leaf);
            }
        }
        // A block per pod and set of leaves; the rest are nodes of which a cable is missing: a block that covers them.
        let mut blocks: Vec<BTreeMap<Leaves<'_>, Vec<NodeName>>> = vec![BTreeMap::new(); pods.len()];
        for (name, (pod, leaves)) in nodes {
            blocks[pod].entry(leaves).or_default().push(name);
        }
        for blocks in &mut blocks {
            gather(blocks);
            let first_block = count(self.blocks.len());
            for (leaves, nodes) in blocks {
                nodes.sort_unstable();
                self.leaves.push(leaves.iter().map(|leaf| (*leaf).to_owned()).collect());
                self.block(nodes);
            }
            let blocks = count(self.blocks.len()) - first_block;
            self.pods.push(Pod { first_block, blocks });
        }
    }

    fn block(&mut self, nodes: &[NodeName]) {
        let (pod, block) = (count(self.pods.len()), count(self.blocks.len()));
        let first_word = count(self.word_block.len());
        let words = count(nodes.len().div_ceil(WORD as usize));
        self.slots.extend(nodes.iter().cloned().zip(first_word * WORD..));
        self.word_block.extend((0..words).map(|_| block));
        self.blocks.push(Block { pod, first_word, words });
    }

    /// Pods of so many blocks each, without nodes.
    #[cfg(test)]
    pub(crate) fn of(pods: &[u32]) -> Self {
        let mut layout = Self::new(None);
        (layout.pods, layout.blocks) = (Vec::new(), Vec::new());
        for (pod, blocks) in (0..).zip(pods) {
            layout.pods.push(Pod { first_block: count(layout.blocks.len()), blocks: *blocks });
            layout.blocks.extend((0..*blocks).map(|_| Block { pod, first_word: 0, words: 0 }));
        }
        layout.flat = layout.pods.iter().all(|pod| pod.blocks == 1);
        layout
    }

    /// The names of a block's leaves.
    pub(crate) fn leaves(&self, block: u32) -> &[String] {
        self.leaves.get(block as usize).map_or(&[], Vec::as_slice)
    }

    /// The place of a node of the document.
    pub(crate) fn slot(&self, name: &NodeName) -> Option<u32> {
        self.slots.get(name).copied()
    }

    /// The number of the block whose nodes no document cables; the last.
    pub(crate) fn outside(&self) -> u32 {
        count(self.blocks.len()) - 1
    }

    /// Words of the nodes that the document cables; those of the others follow.
    pub(crate) fn fixed_words(&self) -> u32 {
        count(self.word_block.len())
    }

    /// The block of a word.
    pub(crate) fn block_of(&self, word: u32) -> u32 {
        self.word_block.get(word as usize).copied().unwrap_or_else(|| self.outside())
    }

    /// Whether every pod is one block.
    pub(crate) fn is_flat(&self) -> bool {
        self.flat
    }
}

/// Nodes whose leaves are a part of another block's stand in that block.
fn gather(blocks: &mut BTreeMap<Leaves<'_>, Vec<NodeName>>) {
    let largest = blocks.keys().map(BTreeSet::len).max().unwrap_or(0);
    let parts: Vec<Leaves<'_>> = blocks.keys().filter(|leaves| leaves.len() < largest).cloned().collect();
    for part in parts {
        let whole = blocks.keys().find(|other| other.len() > part.len() && other.is_superset(&part)).cloned();
        if let Some(whole) = whole
            && let Some(nodes) = blocks.remove(&part)
        {
            blocks.entry(whole).or_default().extend(nodes);
        }
    }
}

/// Counts of nodes, words and blocks fit 32 bits by far: a document of 4 billion cables does not fit memory.
fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
