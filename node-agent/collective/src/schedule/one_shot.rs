//! One-shot all-reduce: every node sends its whole contribution to all and reduces everything itself. One step, for
//! messages whose bytes cost less than a further trip.
//!
//! In place, a node's result overwrites its own contribution while peers may not have it yet. So the contribution
//! travels as a copy, and the result of a chunk waits until that chunk was handed out to all.

use super::draft::{Draft, whole};
use super::flows::{Side, Source};
use crate::order;

/// Every node reduces all bytes.
pub(super) fn all_reduce(draft: &mut Draft, bytes: usize) {
    let inputs = whole(draft.locals(Side::Input, 0), bytes);
    for peer in draft.layout.peers() {
        let flow = draft.contribute(usize::from(peer), peer, Source::Inputs, inputs.clone(), bytes);
        if let Some(flow) = flow {
            flow.overwritten = true;
        }
    }
    let outputs = whole(draft.locals(Side::Output, 0), bytes);
    let blocks = order::blocks_within(bytes, draft.layout.nodes(), 0..bytes);
    let mut reduction = draft.reduction_of_all(inputs, outputs, blocks);
    reduction.overwrites = true;
    draft.reduce(reduction);
}
