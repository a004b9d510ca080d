//! Recursive halving and doubling, for a power of two of nodes: with each of log2 n partners a node exchanges halves of what is left
//! to reduce, until it has one block reduced; the blocks are gathered the other way round. Few messages for the bytes, but the
//! order of the terms differs from byte to byte, so it is only for results that no order shows in (integers), or where
//! the job does not ask for results that are equal over algorithms.
//!
//! Partial sums lie in the first local rank's output.

use std::ops::Range;

use super::draft::{Draft, whole};
use super::flows::{BufferOffset, Done, Need, SECOND, Side, Source, Term};
use crate::order;
use crate::units::Node;

/// Node i ends with block i reduced, and gathers the others.
pub(super) fn all_reduce(draft: &mut Draft, bytes: usize) {
    let (own, nodes) = (draft.own(), draft.layout.nodes());
    let edges = order::blocks(bytes, nodes);
    let span = |blocks: &Range<usize>| edges[blocks.start].start..edges[blocks.end - 1].end;
    let partial = |at: usize| vec![BufferOffset { local: 0, side: Side::Output, offset: at }];
    let mut mine = 0..nodes;
    // The reduction before, and where its result begins in the buffer.
    let mut before: Option<(usize, usize)> = None;
    let mut halves = Vec::new();
    while mine.len() > 1 {
        let half = mine.len() / 2;
        let middle = mine.start + half;
        let (keep, give) = if own < middle {
            (mine.start..middle, middle..mine.end)
        } else {
            (middle..mine.end, mine.start..middle)
        };
        let peer = (own ^ half) as Node;
        let (kept, given) = (span(&keep), span(&give));
        let step = halves.len();
        let at = |range: &Range<usize>| {
            let places =
                if before.is_some() { partial(range.start) } else { draft.locals(Side::Input, range.start) };
            whole(places, range.len())
        };
        let source = match before {
            Some((index, start)) => Source::After(vec![Need {
                stream: 0..given.len(),
                of: Done::Reduced(index),
                at: given.start - start,
            }]),
            None => Source::Inputs,
        };
        let (inputs, segments) = (at(&kept), at(&given));
        draft.contribute(step, peer, source, segments, given.len());
        let results =
            if keep.len() == 1 { draft.locals(Side::Output, kept.start) } else { partial(kept.start) };
        let cycle =
            if usize::from(peer) < own { [Term::Staged(0), Term::Own] } else { [Term::Own, Term::Staged(0)] };
        let mut reduction = draft.reduction_of_two(step, peer, cycle, inputs, whole(results, kept.len()));
        reduction.after = before.map(|(index, start)| (index, kept.start - start));
        before = Some((draft.reduce(reduction), kept.start));
        halves.push((peer, keep.clone(), give));
        mine = keep;
    }
    gather(draft, &halves, before.map_or(0, |(index, _)| index), &edges);
}

/// The way back: everything that is done goes to each partner in turn.
fn gather(
    draft: &mut Draft,
    halves: &[(Node, Range<usize>, Range<usize>)],
    reduced: usize,
    edges: &[Range<usize>],
) {
    let span = |blocks: &Range<usize>| edges[blocks.start].start..edges[blocks.end - 1].end;
    let mut parts = vec![(span(&(draft.own()..draft.own() + 1)), Done::Reduced(reduced))];
    for (step, (peer, keep, give)) in halves.iter().enumerate().rev() {
        let (have, get) = (span(keep), span(give));
        let needs = parts.iter().filter(|(part, _)| !part.is_empty()).map(|(part, of)| Need {
            stream: part.start - have.start..part.end - have.start,
            of: *of,
            at: 0,
        });
        let places = vec![BufferOffset { local: 0, side: Side::Output, offset: have.start }];
        draft.send(SECOND, step, *peer, Source::After(needs.collect()), whole(places, have.len()));
        let landing = whole(draft.locals(Side::Output, get.start), get.len());
        let landed = draft.receive(SECOND, step, *peer, landing);
        parts.push((get, Done::Received(landed)));
    }
}
