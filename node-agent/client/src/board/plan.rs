//! How a collective of one server's ranks is cut into pieces and tiles, and what each tile reads and writes. Pure: a function
//! of the call and the number of ranks, so that all ranks cut alike whichever memory they use.
//!
//! An operation has *items*: each is one block of result, made from one block of one rank or reduced from one of each. A
//! *piece* is the same range of all items, as much as fits in the stages; a *tile* is a part of one item's piece, done by one
//! thread at a time. Where f16 and bf16 are reduced, the order and the rounding are those of the collective core.

use node_agent_collective::{Call, Operation};
use node_agent_ipc::{Extent, STAGE_SLOT, WINDOW};

/// Sizes of tiles, in bytes: a multiple of 64, so that elements stay whole.
const SMALLEST_TILE: usize = 16 << 10;
const LARGEST_TILE: usize = 64 << 10;
/// Blocks of a piece begin at multiples of this.
const ALIGN: usize = 64;

/// How one operation on the board is cut into pieces and tiles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    operation: Operation,
    ranks: usize,
    /// Bytes of a block.
    pub(crate) block: usize,
    pub(crate) input_blocks: usize,
    pub(crate) output_blocks: usize,
    items: usize,
    /// Bytes of a piece of a block; the last may be shorter.
    pub(crate) piece: usize,
    pub(crate) pieces: u32,
    tile: usize,
}

/// One block of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) rank: usize,
    pub(crate) block: usize,
}

/// A part of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) piece: u32,
    pub(crate) item: usize,
    /// First byte within the block.
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl Plan {
    /// The plan of a collective; `None` where its bytes or tiles cannot be counted.
    pub(crate) fn new(call: &Call, ranks: usize) -> Option<Self> {
        let block = if call.operation == Operation::Barrier { 0 } else { call.bytes()? };
        let total = block.checked_mul(ranks).filter(|total| isize::try_from(*total).is_ok());
        total?;
        let (input_blocks, output_blocks, items) = match call.operation {
            Operation::AllReduce | Operation::Broadcast { .. } => (1, 1, 1),
            Operation::ReduceScatter => (ranks, 1, ranks),
            Operation::AllGather => (1, ranks, ranks),
            Operation::AllToAll => (ranks, ranks, ranks * ranks),
            _ => (0, 0, 0),
        };
        let room = STAGE_SLOT / input_blocks.max(1) / ALIGN * ALIGN;
        let piece = room.min(block.next_multiple_of(ALIGN)).max(ALIGN);
        let pieces = u32::try_from(block.div_ceil(piece)).ok()?;
        let tile = (piece / (2 * ranks)).clamp(SMALLEST_TILE, LARGEST_TILE).next_multiple_of(ALIGN);
        let plan = Self {
            operation: call.operation,
            ranks,
            block,
            input_blocks,
            output_blocks,
            items,
            piece,
            pieces,
            tile,
        };
        let tiles = (plan.tiles_of(0) as usize).checked_mul(pieces as usize)?;
        u32::try_from(tiles).ok().filter(|tiles| *tiles < u32::MAX / 2)?;
        Some(plan)
    }

    /// All there is to do.
    pub(crate) fn extent(&self) -> Extent {
        let tiles = match self.pieces {
            0 => 0,
            pieces => self.tiles_of(0) * (pieces - 1) + self.tiles_of(pieces - 1),
        };
        Extent { tiles, pieces: self.pieces }
    }

    /// Bytes of a block in a piece.
    pub(crate) fn piece_len(&self, piece: u32) -> usize {
        self.piece.min(self.block.saturating_sub(piece as usize * self.piece))
    }

    fn tiles_of_item(&self, piece: u32) -> usize {
        self.piece_len(piece).div_ceil(self.tile)
    }

    /// Tiles of a piece; all but the last have as many as the first.
    fn tiles_of(&self, piece: u32) -> u32 {
        u32::try_from(self.items * self.tiles_of_item(piece)).unwrap_or(u32::MAX)
    }

    /// Tiles of the pieces that share a counter with `piece`, up to it.
    pub(crate) fn tiles_upto(&self, piece: u32) -> u32 {
        piece / WINDOW as u32 * self.tiles_of(0) + self.tiles_of(piece)
    }

    /// The piece that a tile is part of.
    pub(crate) fn piece_of(&self, tile: u32) -> u32 {
        (tile / self.tiles_of(0).max(1)).min(self.pieces.saturating_sub(1))
    }

    /// A tile by its number, which is below those of [`Plan::extent`].
    pub(crate) fn tile(&self, number: u32) -> Tile {
        let piece = self.piece_of(number);
        let within = (number - piece * self.tiles_of(0)) as usize;
        let each = self.tiles_of_item(piece).max(1);
        let from = within % each * self.tile;
        let len = self.tile.min(self.piece_len(piece).saturating_sub(from));
        Tile { piece, item: within / each, at: piece as usize * self.piece + from, len }
    }

    /// Whether items are combined from blocks of all ranks.
    pub(crate) fn reduces(&self) -> bool {
        self.operation.reduces()
    }

    /// Whether each rank gets one item for itself.
    pub(crate) fn is_scatter(&self) -> bool {
        self.operation == Operation::ReduceScatter
    }

    /// What an item is made from, in the order of reduction.
    pub(crate) fn sources(&self, item: usize) -> impl Iterator<Item = Block> + use<> {
        let (ranks, first) = match self.operation {
            Operation::AllGather => (1, Block { rank: item, block: 0 }),
            Operation::Broadcast { root } => (1, Block { rank: root as usize, block: 0 }),
            Operation::AllToAll => (1, Block { rank: item / self.ranks, block: item % self.ranks }),
            _ => (self.ranks, Block { rank: 0, block: item }),
        };
        (0..ranks).map(move |n| Block { rank: first.rank + n, ..first })
    }

    /// Where an item goes.
    pub(crate) fn targets(&self, item: usize) -> impl Iterator<Item = Block> + use<> {
        let (ranks, first) = match self.operation {
            Operation::ReduceScatter => (1, Block { rank: item, block: 0 }),
            Operation::AllToAll => (1, Block { rank: item % self.ranks, block: item / self.ranks }),
            Operation::AllGather => (self.ranks, Block { rank: 0, block: item }),
            _ => (self.ranks, Block { rank: 0, block: 0 }),
        };
        (0..ranks).map(move |n| Block { rank: first.rank + n, ..first })
    }

    /// The item that becomes block `block` of the output of `rank`.
    pub(crate) fn item_for(&self, rank: usize, block: usize) -> usize {
        match self.operation {
            Operation::ReduceScatter => rank,
            Operation::AllGather => block,
            Operation::AllToAll => block * self.ranks + rank,
            _ => 0,
        }
    }

    /// Whether `rank` has an input that is looked at.
    pub(crate) fn reads(&self, rank: usize) -> bool {
        match self.operation {
            Operation::Broadcast { root } => root as usize == rank,
            _ => self.input_blocks > 0 && self.block > 0,
        }
    }

    /// Bytes of the input and the output of `rank`.
    pub(crate) fn operand_bytes(&self, rank: usize) -> (usize, usize) {
        (if self.reads(rank) { self.input_blocks * self.block } else { 0 }, self.output_blocks * self.block)
    }

    /// Whether the operation works when input and output of `rank` overlap, with the output `shift` bytes behind the input.
    /// It does where each tile reads all that it overwrites, and no other tile reads it.
    pub(crate) fn works_in_place(&self, rank: usize, shift: isize) -> bool {
        let own = isize::try_from(rank * self.block).unwrap_or(isize::MAX);
        match self.operation {
            Operation::AllReduce | Operation::Broadcast { .. } => shift == 0,
            Operation::AllGather => shift == -own,
            Operation::ReduceScatter => shift == own,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use node_agent_collective::{Dtype, ReduceOp};

    use super::*;

    const OPERATIONS: [Operation; 6] = [
        Operation::AllReduce,
        Operation::AllGather,
        Operation::ReduceScatter,
        Operation::Broadcast { root: 0 },
        Operation::AllToAll,
        Operation::Barrier,
    ];

    fn plan(operation: Operation, count: u64, ranks: usize) -> Plan {
        Plan::new(&Call { operation, dtype: Dtype::F16, reduce: ReduceOp::Sum, count }, ranks).unwrap()
    }

    /// Every byte of every output block is covered by exactly one tile, which lies in one piece that fits in a slot.
    #[test]
    fn tiles_cover_every_result_once() {
        for operation in OPERATIONS {
            for ranks in [1, 2, 3, 5, 64] {
                for count in [0, 1, 31, 32, 5000, 131_072, 131_073, 700_001] {
                    let plan = plan(operation, count, ranks);
                    let mut covered = vec![0; plan.items];
                    let mut last = 0;
                    for number in 0..plan.extent().tiles {
                        let tile = plan.tile(number);
                        assert_eq!(plan.piece_of(number), tile.piece);
                        assert!(tile.piece >= last, "pieces come in order");
                        last = tile.piece;
                        assert!(tile.len > 0 && tile.len.is_multiple_of(2));
                        let start = tile.piece as usize * plan.piece;
                        assert!((start..start + plan.piece_len(tile.piece)).contains(&tile.at));
                        covered[tile.item] += tile.len;
                    }
                    assert!(
                        covered.iter().all(|bytes| *bytes == plan.block),
                        "{operation:?} {ranks} {count}"
                    );
                    assert!(plan.piece * plan.input_blocks <= STAGE_SLOT);
                    let sum: u32 = (0..plan.pieces).map(|p| plan.tiles_of(p)).sum();
                    assert_eq!(sum, plan.extent().tiles);
                }
            }
        }
    }

    #[test]
    fn targets_and_outputs_agree() {
        for operation in OPERATIONS {
            let plan = plan(operation, 100, 3);
            let mut seen = BTreeSet::new();
            for item in 0..plan.items {
                for target in plan.targets(item) {
                    assert_eq!(plan.item_for(target.rank, target.block), item);
                    assert!(seen.insert((target.rank, target.block)), "{operation:?}");
                }
                assert!(plan.sources(item).all(|s| plan.reads(s.rank) && s.block < plan.input_blocks));
            }
            assert_eq!(seen.len(), 3 * plan.output_blocks);
        }
    }

    #[test]
    fn counters_shared_by_pieces_rise_in_order() {
        let plan = plan(Operation::AllReduce, 10 << 20, 2);
        let mut counters = [0; WINDOW];
        for piece in 0..plan.pieces {
            let counter = &mut counters[piece as usize % WINDOW];
            *counter += plan.tiles_of(piece);
            assert_eq!(*counter, plan.tiles_upto(piece));
        }
    }

    #[test]
    fn what_cannot_be_counted_has_no_plan() {
        let call =
            |count| Call { operation: Operation::AllReduce, dtype: Dtype::F64, reduce: ReduceOp::Sum, count };
        assert!(Plan::new(&call(u64::MAX), 2).is_none());
        assert!(Plan::new(&call(u64::MAX / 16), 2).is_none());
    }
}
