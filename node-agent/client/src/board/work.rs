//! The work itself: tiles of shared memory reduced or copied, through private memory that stays in the nearest cache.

use std::sync::Arc;

use node_agent_collective::{BufferId, Call, Dtype, Memory, Region as Range, kernel};
use node_agent_ipc::{Board, Region, RegionError, fold};

use super::plan::{Block, Plan, Tile};

/// Bytes that are private at a time, for each of two operands: with what they are read from, and what comes next, they fit in
/// the first-level cache.
const STEP: usize = 4096;

/// Bytes of all operands of an operation from which on its results are written past the caches: what the last cache of a
/// usual server holds.
const FAR: usize = 32 << 20;

/// Where one rank's operands are, as found on the board.
#[derive(Debug)]
pub(super) struct Peer {
    /// The first slot of its stage, where its operands go through that.
    pub(super) stage: Option<usize>,
    pub(super) input: Option<Operand>,
    pub(super) output: Option<Operand>,
}

/// An operand in a shared buffer.
#[derive(Debug)]
pub(super) struct Operand {
    pub(super) region: Arc<Region>,
    pub(super) offset: usize,
}

/// All that a thread needs to do any tile of an operation.
#[derive(Debug)]
pub(super) struct Workplace {
    pub(super) call: Call,
    pub(super) plan: Plan,
    pub(super) peers: Vec<Peer>,
}

/// A place in shared memory.
#[derive(Clone, Copy)]
struct Spot<'a> {
    region: &'a Region,
    offset: usize,
}

impl Spot<'_> {
    fn is(self, other: Spot<'_>) -> bool {
        std::ptr::eq(self.region, other.region) && self.offset == other.offset
    }
}

/// An operand that should be there is not; cannot happen once the board's entries were checked.
fn missing() -> RegionError {
    RegionError::Empty
}

impl Workplace {
    /// The place of block `block` of what `rank` has in its stage, from byte `at` of the block on.
    fn staged<'a>(
        &self,
        board: &'a Board,
        rank: usize,
        block: usize,
        piece: u32,
        at: usize,
    ) -> Option<Spot<'a>> {
        let slot = self.peers.get(rank)?.stage?.wrapping_add(piece as usize);
        let within = at.checked_sub(piece as usize * self.plan.piece)?;
        Some(Spot {
            region: board.region(),
            offset: board.stage(rank, slot) + block * self.plan.piece + within,
        })
    }

    fn direct<'a>(&self, operand: Option<&'a Operand>, block: usize, at: usize) -> Option<Spot<'a>> {
        let operand = operand?;
        Some(Spot { region: &operand.region, offset: operand.offset + block * self.plan.block + at })
    }

    fn input<'a>(
        &'a self,
        board: &'a Board,
        from: Block,
        piece: u32,
        at: usize,
    ) -> Result<Spot<'a>, RegionError> {
        let peer = self.peers.get(from.rank).ok_or_else(missing)?;
        match peer.stage {
            Some(_) => self.staged(board, from.rank, from.block, piece, at),
            None => self.direct(peer.input.as_ref(), from.block, at),
        }
        .ok_or_else(missing)
    }

    /// Where a reduced item waits for those who copy it out: in the stage of the first of them, in place of its own input.
    fn home<'a>(&self, board: &'a Board, item: usize, piece: u32, at: usize) -> Option<Spot<'a>> {
        let first = self.plan.targets(item).find(|to| self.peers[to.rank].stage.is_some())?;
        self.staged(board, first.rank, item, piece, at)
    }

    /// Where the item that `rank` gets as block `block` can be copied from, once its piece is done.
    fn result<'a>(
        &'a self,
        board: &'a Board,
        item: usize,
        piece: u32,
        at: usize,
    ) -> Result<Spot<'a>, RegionError> {
        if self.plan.reduces() {
            return self.home(board, item, piece, at).ok_or_else(missing);
        }
        let source = self.plan.sources(item).next().ok_or_else(missing)?;
        self.input(board, source, piece, at)
    }

    /// Whether an item is combined by the rank that takes it, straight into its own memory, rather than as tiles: right where
    /// nobody else gets it. Where two do, each would have to fetch all of the other's stage from the other's cache, which is
    /// half again as slow as a half each (measured).
    fn is_taken(&self, item: usize) -> bool {
        let staged = |to: Block| self.peers.get(to.rank).is_some_and(|peer| peer.stage.is_some());
        let alone = self.peers.len() == 1 && self.plan.reduces() || self.plan.is_scatter();
        alone && self.plan.targets(item).all(staged)
    }

    /// Does the work of one tile: copies or reduces its elements for the ranks that want them.
    pub(super) fn run(&self, board: &Board, tile: Tile) -> Result<(), RegionError> {
        let single = !self.plan.reduces();
        let direct = |to: &Block| self.peers.get(to.rank).is_some_and(|peer| peer.stage.is_none());
        let targets: Vec<Block> = self.plan.targets(tile.item).filter(direct).collect();
        if single && targets.is_empty() || self.is_taken(tile.item) {
            return Ok(());
        }
        let (mut acc, mut next, far) = ([0; STEP], [0; STEP], self.is_far());
        for at in (tile.at..tile.at + tile.len).step_by(STEP) {
            let len = STEP.min(tile.at + tile.len - at);
            let (acc, next) = (&mut acc[..len], &mut next[..len]);
            if at + STEP < tile.at + tile.len {
                self.fetch_ahead(board, tile, at + STEP);
            }
            self.combine(board, tile, at, acc, next)?;
            for to in &targets {
                let spot =
                    self.direct(self.peers[to.rank].output.as_ref(), to.block, at).ok_or_else(missing)?;
                let from = self.plan.sources(tile.item).next().ok_or_else(missing)?;
                if single && self.input(board, from, tile.piece, at)?.is(spot) {
                    continue;
                }
                if far {
                    spot.region.write_far(spot.offset, acc)?;
                } else {
                    spot.region.write(spot.offset, acc)?;
                }
            }
            if !single && let Some(home) = self.home(board, tile.item, tile.piece, at) {
                home.region.write(home.offset, acc)?;
            }
        }
        if far {
            node_agent_ipc::settle();
        }
        Ok(())
    }

    /// Whether results are gone from the caches before anybody can look at them.
    fn is_far(&self) -> bool {
        let blocks = self.plan.input_blocks + self.plan.output_blocks;
        self.peers.len() * blocks * self.plan.block >= FAR
    }

    /// Has the memory bring the next step while this one is computed.
    fn fetch_ahead(&self, board: &Board, tile: Tile, at: usize) {
        let len = STEP.min(tile.at + tile.len - at);
        for from in self.plan.sources(tile.item) {
            if let Ok(spot) = self.input(board, from, tile.piece, at) {
                spot.region.prefetch(spot.offset, len);
            }
        }
    }

    /// Reads what `acc.len()` bytes of an item are made from and combines it, by the arithmetic of the collective core.
    fn combine(
        &self,
        board: &Board,
        tile: Tile,
        at: usize,
        acc: &mut [u8],
        next: &mut [u8],
    ) -> Result<(), RegionError> {
        let Call { dtype, reduce, .. } = self.call;
        let halves = matches!(dtype, Dtype::F16 | Dtype::Bf16);
        if halves && self.plan.reduces() && self.peers.len() > 2 {
            return self.combine_halves(board, tile, at, acc);
        }
        for (n, from) in self.plan.sources(tile.item).enumerate() {
            let spot = self.input(board, from, tile.piece, at)?;
            if n == 0 {
                spot.region.read(spot.offset, acc)?;
            } else {
                spot.region.read(spot.offset, next)?;
                fold(dtype, reduce, acc, next);
            }
        }
        Ok(())
    }

    /// Combines a part of an item straight into the block of private memory where it belongs.
    fn combine_into(&self, board: &Board, tile: Tile, block: &mut [u8]) -> Result<(), RegionError> {
        let mut next = [0; STEP];
        for at in (tile.at..tile.at + tile.len).step_by(STEP) {
            let len = STEP.min(tile.at + tile.len - at);
            if at + STEP < tile.at + tile.len {
                self.fetch_ahead(board, tile, at + STEP);
            }
            let acc = block.get_mut(at..at + len).ok_or_else(missing)?;
            self.combine(board, tile, at, acc, &mut next[..len])?;
        }
        Ok(())
    }

    /// As [`Workplace::combine`] for more than two ranks of half floats, which are rounded once, after the last.
    fn combine_halves(
        &self,
        board: &Board,
        tile: Tile,
        at: usize,
        acc: &mut [u8],
    ) -> Result<(), RegionError> {
        let mut inputs = Tiles(Vec::with_capacity(self.peers.len() + 1));
        for from in self.plan.sources(tile.item) {
            let spot = self.input(board, from, tile.piece, at)?;
            let mut bytes = vec![0; acc.len()];
            spot.region.read(spot.offset, &mut bytes)?;
            inputs.0.push(bytes);
        }
        inputs.0.push(vec![0; acc.len()]);
        let mut ranges = (0_u64..).map(|n| Range::new(BufferId(n), 0, acc.len()));
        let group: Vec<Range> = ranges.by_ref().take(self.peers.len()).collect();
        let output = ranges.next().into_iter().collect::<Vec<Range>>();
        kernel::reduce(&mut inputs, self.call.dtype, self.call.reduce, &[&group], &output)
            .ok_or_else(missing)?;
        acc.copy_from_slice(inputs.0.last().ok_or_else(missing)?);
        Ok(())
    }

    /// Puts one piece of a rank's input in its stage.
    pub(super) fn copy_in(
        board: &Board,
        plan: &Plan,
        rank: usize,
        slot: usize,
        piece: u32,
        input: &[u8],
    ) -> Result<(), RegionError> {
        let (from, len) = (piece as usize * plan.piece, plan.piece_len(piece));
        for block in 0..plan.input_blocks {
            let bytes = block * plan.block + from..block * plan.block + from + len;
            let bytes = input.get(bytes).ok_or_else(missing)?;
            board.region().write(board.stage(rank, slot) + block * plan.piece, bytes)?;
        }
        Ok(())
    }

    /// Takes one piece of a rank's output, which is done.
    pub(super) fn copy_out(
        &self,
        board: &Board,
        rank: usize,
        piece: u32,
        output: &mut [u8],
    ) -> Result<(), RegionError> {
        let (from, len) = (piece as usize * self.plan.piece, self.plan.piece_len(piece));
        for block in 0..self.plan.output_blocks {
            let item = self.plan.item_for(rank, block);
            if self.is_taken(item) {
                let start = block * self.plan.block;
                let output = output.get_mut(start..start + self.plan.block).ok_or_else(missing)?;
                self.combine_into(board, Tile { piece, item, at: from, len }, output)?;
                continue;
            }
            let spot = self.result(board, item, piece, from)?;
            let start = block * self.plan.block + from;
            let bytes = output.get_mut(start..start + len).ok_or_else(missing)?;
            spot.region.read(spot.offset, bytes)?;
        }
        Ok(())
    }
}

/// Private tiles under the names 0, 1, 2 ...
struct Tiles(Vec<Vec<u8>>);

impl Memory for Tiles {
    fn bytes(&self, range: Range) -> Option<&[u8]> {
        let bytes = self.0.get(usize::try_from(range.buffer.0).ok()?)?;
        bytes.get(range.offset..range.offset.checked_add(range.len)?)
    }

    fn bytes_mut(&mut self, range: Range) -> Option<&mut [u8]> {
        let bytes = self.0.get_mut(usize::try_from(range.buffer.0).ok()?)?;
        bytes.get_mut(range.offset..range.offset.checked_add(range.len)?)
    }
}
