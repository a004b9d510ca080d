//! What is asked of leaves and pods, and what is taken of them.

use super::need::{Arrange, Pattern, Within};
use crate::{capacity_index::CapacityIndex, view::View};

/// Nodes of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Take {
    pub(crate) block: u32,
    pub(crate) nodes: u32,
}

/// What is to be laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FitRequest {
    pub(crate) nodes: u32,
    /// Nodes that must not be split between leaves, or pods; 1 where that does not matter.
    pub(crate) leaf_unit: u32,
    pub(crate) pod_unit: u32,
    /// The same, where it can be had in as few pods.
    pub(crate) leaf_preferred: u32,
    pub(crate) pod_preferred: u32,
    pub(crate) within: Within,
    pub(crate) arrange: Arrange,
    pub(crate) pattern: Pattern,
    /// Spare nodes for which room near the gang is welcome.
    pub(crate) spares: u32,
    /// In one pod only a layout that cuts less is of use; none in more pods is.
    pub(crate) beat: Option<u64>,
    /// There are nodes that others are on and that it could have: of equal layouts the one that leaves more nodes idle.
    pub(crate) sparing: bool,
}

/// How a gang would lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fit {
    pub(crate) pods: u32,
    pub(crate) cut: u64,
}

pub(crate) fn whole(nodes: u32, unit: u32) -> u32 {
    if unit > 1 { nodes - nodes % unit } else { nodes }
}

/// Nodes of a block that are shown and that others are on.
pub(crate) fn broken(capacity_index: &CapacityIndex, view: &View, block: u32) -> u32 {
    capacity_index
        .block_words(block)
        .map(|word| (view.bits(word) & !capacity_index.word(word).idle).count_ones())
        .sum()
}

/// Gangs of more nodes try only a few sets of rails, those that most nodes offer.
pub(crate) const LARGE: u32 = 64;

pub(crate) const FEW: usize = 8;

/// Of sets of rails the first one is taken that cuts at most one part in so many more than the best that there could be.
pub(crate) const NEAR: u64 = 64;
