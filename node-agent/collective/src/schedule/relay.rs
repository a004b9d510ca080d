//! Broadcast by scatter and relay: the root's node sends every other node one block, which that node sends on to the others. The
//! root ships everything once instead of n-1 times.

use super::draft::{Draft, broadcast_within, whole};
use super::flows::{BufferOffset, FIRST, SECOND, Side, Source};
use crate::order;
use crate::units::{Node, Rank};

/// The i-th node after the root's gets and relays the i-th block.
pub(super) fn broadcast(draft: &mut Draft, bytes: usize, root: Rank) {
    broadcast_within(draft, bytes, root);
    let Some(&source) = draft.layout.node_of.get(root as usize) else { return };
    let nodes = draft.layout.nodes();
    let cut = order::blocks(bytes, (nodes - 1).max(1));
    let block_of = |node: Node| (usize::from(node) + nodes - usize::from(source) - 1) % nodes;
    if draft.layout.node == source {
        let local = draft.layout.local_index(root).unwrap_or(0);
        for peer in draft.layout.peers() {
            let block = &cut[block_of(peer)];
            let from = BufferOffset { local, side: Side::Input, offset: block.start };
            draft.send(FIRST, block_of(peer), peer, Source::Inputs, whole(vec![from], block.len()));
        }
        return;
    }
    let mine = block_of(draft.layout.node);
    let landing = draft.locals(Side::Output, cut[mine].start);
    let first = draft.receive(FIRST, mine, source, whole(landing.clone(), cut[mine].len()));
    for peer in draft.layout.peers().filter(|&p| p != source) {
        let block = whole(landing[..1].to_vec(), cut[mine].len());
        draft.send(SECOND, mine, peer, Source::Relayed(first), block);
        let theirs = &cut[block_of(peer)];
        let landing = whole(draft.locals(Side::Output, theirs.start), theirs.len());
        draft.receive(SECOND, block_of(peer), peer, landing);
    }
}
