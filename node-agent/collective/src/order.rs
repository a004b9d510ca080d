//! The reduction order, and where rounding happens. Every schedule must honour it; it is why results are equal to
//! the bit over rails, faults, chunk sizes, interleavings and algorithms.
//!
//! 1. **Within a node**, the inputs of its ranks are combined in ascending rank order: `((r0 + r1) + r2) + ...`. This is
//!    the node's *contribution*. f16 and bf16 are accumulated in f32 here and rounded once, at the end; f32, f64 and
//!    integers are computed in their own type.
//! 2. **Between nodes**, the buffer is cut into one block per node (all-reduce: [`blocks`], a function of byte count
//!    and node count alone; reduce-scatter: the parts of the node's ranks). The contributions to block b are combined
//!    in the order b+1, b+2, ..., b (modulo the number of nodes): starting after the block's owner, ending with it. A
//!    ring that ends at the owner and a direct exchange can both do that. Each combination of two contributions is
//!    rounded to the dtype (f16 and bf16: computed in f32, rounded to nearest even), so that partial results may travel.
//! 3. **Elements** never mix, so chunking cannot show. The grouping of ranks on nodes can: it is an input.
//!
//! Semantics of one combination `a op b` (a is earlier in the order):
//! * integers: sum and prod wrap; min and max are exact;
//! * floats: sum and prod are IEEE 754, round to nearest even. A result that is not a number is the one canonical
//!   quiet NaN (sign clear, payload zero), whatever NaN came in, because processors differ in which they pass on;
//! * min and max: if a or b is a NaN, the canonical NaN (not the IEEE `minNum`: a NaN must not vanish); else the lesser
//!   or greater; of equals (so of -0 and +0) a stays.
//!
//! With a single rank nothing is combined and every bit pattern passes through.

use std::ops::Range;

use crate::units::Node;

/// The nodes in the order in which their contributions to block `block` are combined.
pub fn nodes_for(block: Node, nodes: usize) -> impl Iterator<Item = Node> {
    let (after, upto) = (block + 1..nodes as Node, 0..=block);
    after.chain(upto)
}

/// Cuts `bytes` into one block per node: in units of 64 bytes, as even as that allows. A function of nothing else.
#[must_use]
pub fn blocks(bytes: usize, nodes: usize) -> Vec<Range<usize>> {
    let units = bytes.div_ceil(64) as u128;
    let edge = |b: usize| ((units * b as u128 / nodes as u128) as usize * 64).min(bytes);
    (0..nodes).map(|b| edge(b)..edge(b + 1)).collect()
}

/// The part of [`blocks`] that lies in a range: for each block that has bytes there, these bytes, counted from the range's
/// start, and the block.
pub fn blocks_within(
    bytes: usize,
    nodes: usize,
    range: Range<usize>,
) -> impl Iterator<Item = (Range<usize>, Node)> {
    blocks(bytes, nodes).into_iter().enumerate().filter_map(move |(block, at)| {
        let (start, end) = (at.start.max(range.start), at.end.min(range.end));
        (start < end).then(|| (start - range.start..end - range.start, block as Node))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_comes_last() {
        assert_eq!(nodes_for(1, 4).collect::<Vec<_>>(), [2, 3, 0, 1]);
        assert_eq!(nodes_for(3, 4).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(nodes_for(0, 1).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn blocks_cover_everything_once() {
        for bytes in [0, 1, 63, 64, 65, 1000, 64 * 7, 1 << 20] {
            for nodes in 1..20 {
                let blocks = blocks(bytes, nodes);
                assert_eq!((blocks.len(), blocks[0].start, blocks[nodes - 1].end), (nodes, 0, bytes));
                assert!(
                    blocks
                        .windows(2)
                        .all(|w| w[0].end == w[1].start && w[1].start % 64 == 0 || w[1].start == bytes)
                );
                let sizes: Vec<usize> = blocks.iter().map(Range::len).collect();
                assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 64);
            }
        }
    }
}
