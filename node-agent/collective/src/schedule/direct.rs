//! Direct exchange: what a node is to have goes to it in one step.
//!
//! All-reduce is reduce-scatter and all-gather. Which node reduces how much is free: the shares of
//! [`shares`](super::shares). Equal shares are the order blocks themselves. Unequal ones are the optimal schedule for
//! nodes of unequal capacity, because a share is what costs: a node always ships its contributions to the rest once,
//! and fetches the rest's results once; it ships and fetches n-1 times its share on top.

use std::ops::Range;

use super::draft::{Draft, broadcast_within, gather_within, gathered_inputs, gathered_outputs};
use super::draft::{own_parts, parts, whole};
use super::flows::{BufferOffset, Copy, FIRST, SECOND, Segment, Side, Source};
use crate::order;
use crate::units::Rank;

/// Node i reduces the i-th of `shares`.
pub(super) fn all_reduce(draft: &mut Draft, bytes: usize, shares: &[Range<usize>]) {
    let own = draft.own();
    for peer in draft.layout.peers() {
        let share = &shares[usize::from(peer)];
        let inputs = whole(draft.locals(Side::Input, share.start), share.len());
        draft.contribute(usize::from(peer), peer, Source::Inputs, inputs, share.len());
    }
    let mine = shares[own].clone();
    let inputs = whole(draft.locals(Side::Input, mine.start), mine.len());
    let outputs = draft.locals(Side::Output, mine.start);
    let blocks = order::blocks_within(bytes, draft.layout.nodes(), mine.clone());
    let reduction = draft.reduction_of_all(inputs, whole(outputs.clone(), mine.len()), blocks);
    let reduced = draft.reduce(reduction);
    for peer in draft.layout.peers() {
        let result = whole(outputs[..1].to_vec(), mine.len());
        draft.send(SECOND, own, peer, Source::Reduced(reduced), result);
        let share = &shares[usize::from(peer)];
        let outputs = whole(draft.locals(Side::Output, share.start), share.len());
        draft.receive(SECOND, usize::from(peer), peer, outputs);
    }
}

/// Every node reduces the parts of its ranks.
pub(super) fn reduce_scatter(draft: &mut Draft, bytes: usize) {
    for peer in draft.layout.peers() {
        let inputs = parts(draft, peer, bytes);
        let len = inputs.len() * bytes;
        draft.contribute(usize::from(peer), peer, Source::Inputs, inputs, len);
    }
    let (inputs, outputs) = (parts(draft, draft.layout.node, bytes), own_parts(draft, bytes));
    let block = (0..inputs.len() * bytes, draft.layout.node);
    let reduction = draft.reduction_of_all(inputs, outputs, std::iter::once(block));
    draft.reduce(reduction);
}

/// Every node sends the inputs of its ranks to all.
pub(super) fn all_gather(draft: &mut Draft, bytes: usize) {
    let own = gathered_inputs(draft, bytes);
    for peer in draft.layout.peers() {
        draft.send(FIRST, draft.own(), peer, Source::Inputs, own.clone());
        let landing = gathered_outputs(draft, peer, bytes);
        draft.receive(FIRST, usize::from(peer), peer, landing);
    }
    gather_within(draft, bytes);
}

/// The root's node sends everything to all.
pub(super) fn broadcast(draft: &mut Draft, bytes: usize, root: Rank) {
    broadcast_within(draft, bytes, root);
    let Some(&source) = draft.layout.node_of.get(root as usize) else { return };
    if let Some(local) = draft.layout.local_index(root) {
        for peer in draft.layout.peers() {
            let from = BufferOffset { local, side: Side::Input, offset: 0 };
            draft.send(FIRST, 0, peer, Source::Inputs, whole(vec![from], bytes));
        }
    } else {
        let landing = whole(draft.locals(Side::Output, 0), bytes);
        draft.receive(FIRST, 0, source, landing);
    }
}

/// Every node sends each node what its ranks have for the ranks of that.
pub(super) fn all_to_all(draft: &mut Draft, bytes: usize) {
    let own = draft.layout.local();
    for peer in draft.layout.peers() {
        let theirs = draft.layout.ranks(peer);
        let pairs = |outer: usize, inner: usize| {
            (0..outer * inner)
                .filter(|_| bytes > 0)
                .map(move |i| (i / inner, i % inner, i * bytes..(i + 1) * bytes))
        };
        let sent = pairs(own.len(), theirs.len()).map(|(local, j, stream)| {
            let offset = theirs[j] as usize * bytes;
            Segment { stream, places: vec![BufferOffset { local, side: Side::Input, offset }] }
        });
        let got = pairs(theirs.len(), own.len()).map(|(i, local, stream)| {
            let offset = theirs[i] as usize * bytes;
            Segment { stream, places: vec![BufferOffset { local, side: Side::Output, offset }] }
        });
        draft.send(FIRST, draft.own(), peer, Source::Inputs, sent.collect());
        draft.receive(FIRST, usize::from(peer), peer, got.collect());
    }
    for (from, &source) in own.iter().enumerate() {
        for (to, &target) in own.iter().enumerate() {
            let from = BufferOffset { local: from, side: Side::Input, offset: target as usize * bytes };
            let to = BufferOffset { local: to, side: Side::Output, offset: source as usize * bytes };
            draft.out.copies.push(Copy { from, to, bytes });
        }
    }
}
