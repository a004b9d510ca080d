//! Rings: every byte goes from neighbour to neighbour only. A block's partial sum starts at the node after its owner and
//! ends at the owner, which is the order of [`crate::order`]; its result, or what is gathered, starts at the owner and
//! ends at the node before. All blocks are on their way at once, and a chunk goes on as soon as it is there, on any rail.

use super::draft::{Draft, gather_within, gathered_inputs, gathered_outputs, length};
use super::draft::{own_parts, parts, whole};
use super::flows::{FIRST, SECOND, Segment, Side, Source, Term};
use crate::order;
use crate::units::Node;

/// Every node reduces its order block last, and sends the result on.
pub(super) fn all_reduce(draft: &mut Draft, bytes: usize) {
    let nodes = draft.layout.nodes();
    let blocks = order::blocks(bytes, nodes);
    let mut own = usize::MAX;
    for block in upstream(draft) {
        let at = blocks[block].clone();
        let inputs = whole(draft.locals(Side::Input, at.start), at.len());
        let outputs = whole(draft.locals(Side::Output, at.start), at.len());
        let index = reduce(draft, block, inputs, outputs);
        if block == draft.own() {
            own = index;
        }
    }
    for block in upstream(draft) {
        let at = blocks[block].clone();
        let outputs = whole(draft.locals(Side::Output, at.start), at.len());
        gather(draft, SECOND, block, Source::Reduced(own), outputs);
    }
}

/// Every node reduces the parts of its ranks last.
pub(super) fn reduce_scatter(draft: &mut Draft, bytes: usize) {
    for block in upstream(draft) {
        let inputs = parts(draft, block as Node, bytes);
        let outputs = own_parts(draft, bytes);
        reduce(draft, block, inputs, outputs);
    }
}

/// Every node sends the inputs of its ranks on.
pub(super) fn all_gather(draft: &mut Draft, bytes: usize) {
    for block in upstream(draft) {
        let segments = if block == draft.own() {
            gathered_inputs(draft, bytes)
        } else {
            gathered_outputs(draft, block as Node, bytes)
        };
        gather(draft, FIRST, block, Source::Inputs, segments);
    }
    gather_within(draft, bytes);
}

/// All blocks, in the order in which their partial sums come by here: the one that starts here, then the ones that started one
/// node upstream, two nodes, ...; the own one last. Gathered blocks come by in the same order after the own one.
fn upstream(draft: &Draft) -> impl Iterator<Item = usize> + use<> {
    let (own, nodes) = (draft.own(), draft.layout.nodes());
    (1..=nodes).map(move |i| (own + nodes - i) % nodes)
}

fn neighbours(draft: &Draft) -> (usize, usize) {
    let (own, nodes) = (draft.own(), draft.layout.nodes());
    ((own + nodes - 1) % nodes, (own + 1) % nodes)
}

/// This node's part in the reduction of a block, with its own contribution at `inputs`. Gives the index of the reduction.
fn reduce(draft: &mut Draft, block: usize, inputs: Vec<Segment>, outputs: Vec<Segment>) -> usize {
    let (previous, next) = neighbours(draft);
    let bytes = length(&inputs);
    if block == previous {
        draft.contribute(block, next as Node, Source::Inputs, inputs, bytes);
        return usize::MAX;
    }
    let outputs = if block == draft.own() { outputs } else { Vec::new() };
    let cycle = [Term::Staged(0), Term::Own];
    let reduction = draft.reduction_of_two(block, previous as Node, cycle, inputs, outputs);
    let index = draft.reduce(reduction);
    if block != draft.own() {
        draft.contribute(block, next as Node, Source::Reduced(index), Vec::new(), bytes);
    }
    index
}

/// This node's part in the gathering of a block, which lies at `segments` (own) or lands there. `own` is where the own block
/// comes from.
fn gather(draft: &mut Draft, step: u8, block: usize, own: Source, segments: Vec<Segment>) {
    let (previous, next) = neighbours(draft);
    let first_places = |segments: &[Segment]| -> Vec<Segment> {
        let first = |s: &Segment| Segment { stream: s.stream.clone(), places: s.places[..1].to_vec() };
        segments.iter().map(first).collect()
    };
    let relayed = first_places(&segments);
    if block == draft.own() {
        draft.send(step, block, next as Node, own, relayed);
        return;
    }
    let landed = draft.receive(step, block, previous as Node, segments);
    if block != next {
        draft.send(step, block, next as Node, Source::Relayed(landed), relayed);
    }
}
