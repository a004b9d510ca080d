//! What the algorithms make their schedules with.

use std::ops::Range;

use super::flows::{
    BufferOffset, Contribution, Copy, FIRST, Receive, Reduction, Schedule, Segment, Send, Side, Source,
};
use super::flows::{ReductionStart, Term};
use crate::order;
use crate::shape::Layout;
use crate::units::{Node, Rank};

/// One segment of `len` bytes.
pub(super) fn whole(places: Vec<BufferOffset>, len: usize) -> Vec<Segment> {
    vec![Segment { stream: 0..len, places }]
}

pub(super) fn length(segments: &[Segment]) -> usize {
    segments.last().map_or(0, |s| s.stream.end)
}

/// A schedule that is being made. Flows and reductions of no bytes are left out.
pub(super) struct Draft<'a> {
    pub layout: &'a Layout,
    pub out: Schedule,
}

impl Draft<'_> {
    /// The same place of all local ranks.
    pub fn locals(&self, side: Side, offset: usize) -> Vec<BufferOffset> {
        (0..self.layout.local().len()).map(|local| BufferOffset { local, side, offset }).collect()
    }

    pub fn own(&self) -> usize {
        usize::from(self.layout.node)
    }

    /// Adds a sent flow that lands where it belongs.
    pub fn send(&mut self, step: u8, block: usize, peer: Node, source: Source, segments: Vec<Segment>) {
        let bytes = length(&segments);
        self.push(step, block, peer, source, segments, bytes, false);
    }

    /// Adds a sent flow that the peer stages and reduces. Without segments: a partial sum of `bytes` bytes.
    pub fn contribute(
        &mut self,
        block: usize,
        peer: Node,
        source: Source,
        segments: Vec<Segment>,
        bytes: usize,
    ) -> Option<&mut Send> {
        self.push(FIRST, block, peer, source, segments, bytes, true)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a flow")]
    fn push(
        &mut self,
        step: u8,
        block: usize,
        peer: Node,
        source: Source,
        segments: Vec<Segment>,
        bytes: usize,
        granted: bool,
    ) -> Option<&mut Send> {
        if bytes == 0 {
            return None;
        }
        let (chunks, block) = (bytes.div_ceil(self.out.chunk), block as u32);
        let overwritten = false;
        self.out.sends.push(Send {
            step,
            block,
            peer,
            source,
            granted,
            overwritten,
            segments,
            bytes,
            chunks,
        });
        self.out.sends.last_mut()
    }

    /// Adds a received flow and gives its index.
    pub fn receive(&mut self, step: u8, block: usize, peer: Node, segments: Vec<Segment>) -> usize {
        let bytes = length(&segments);
        if bytes == 0 {
            return usize::MAX;
        }
        let (chunks, block) = (bytes.div_ceil(self.out.chunk), block as u32);
        let (contribution, answers_for) = (None, Vec::new());
        let flow = Receive { step, block, peer, contribution, answers_for, segments, bytes, chunks };
        self.out.receives.push(flow);
        self.out.receives.len() - 1
    }

    /// Adds a reduction with the received flows that it combines, and gives its index.
    pub fn reduce(&mut self, reduction: Reduction) -> usize {
        if reduction.bytes == 0 {
            return usize::MAX;
        }
        let at = self.out.reductions.len();
        let Reduction { block, bytes, chunks, .. } = reduction;
        for (source, &peer) in reduction.sources.iter().enumerate() {
            let contribution = Some(Contribution { reduction: at, source });
            let segments = Vec::new();
            self.out.receives.push(Receive {
                step: FIRST,
                block,
                peer,
                contribution,
                answers_for: Vec::new(),
                segments,
                bytes,
                chunks,
            });
        }
        self.out.reductions.push(reduction);
        at
    }

    /// The reduction of the contributions of all nodes to what lies at `inputs`. `blocks` says which order is whose: the ranges
    /// of the stream and the block of [`crate::order`] that each belongs to.
    pub fn reduction_of_all(
        &self,
        inputs: Vec<Segment>,
        outputs: Vec<Segment>,
        blocks: impl Iterator<Item = (Range<usize>, Node)>,
    ) -> Reduction {
        let (own, nodes) = (self.own(), self.layout.nodes());
        let bytes = length(&inputs);
        // The cycle is the nodes in ascending order; the n-th source is the n-th node after this one.
        let term = |n: usize| if n == own { Term::Own } else { Term::Staged((n + nodes - own - 1) % nodes) };
        let turn = |(stream, block): (Range<usize>, Node)| {
            let first = order::nodes_for(block, nodes).next().map_or(0, usize::from);
            ReductionStart { stream, first }
        };
        Reduction {
            block: own as u32,
            sources: self.layout.peers().collect(),
            cycle: (0..nodes).map(term).collect(),
            turns: blocks.map(turn).collect(),
            inputs,
            after: None,
            outputs,
            overwrites: false,
            bytes,
            chunks: bytes.div_ceil(self.out.chunk),
        }
    }

    /// The reduction of one received flow, of what came before this node in the order, with what lies here.
    pub fn reduction_of_two(
        &self,
        block: usize,
        source: Node,
        cycle: [Term; 2],
        inputs: Vec<Segment>,
        outputs: Vec<Segment>,
    ) -> Reduction {
        let bytes = length(&inputs);
        Reduction {
            block: block as u32,
            sources: vec![source],
            cycle: cycle.to_vec(),
            turns: vec![ReductionStart { stream: 0..bytes, first: 0 }],
            inputs,
            after: None,
            outputs,
            overwrites: false,
            bytes,
            chunks: bytes.div_ceil(self.out.chunk),
        }
    }
}

/// What the ranks of a node contribute to the parts of the ranks of another: reduce-scatter.
pub(super) fn parts(draft: &Draft, node: Node, bytes: usize) -> Vec<Segment> {
    let ranks = draft.layout.ranks(node).iter().enumerate().filter(|_| bytes > 0);
    ranks
        .map(|(i, &rank)| Segment {
            stream: i * bytes..(i + 1) * bytes,
            places: draft.locals(Side::Input, rank as usize * bytes),
        })
        .collect()
}

/// Where the parts of this node's ranks go: reduce-scatter.
pub(super) fn own_parts(draft: &Draft, bytes: usize) -> Vec<Segment> {
    let ranks = (0..draft.layout.local().len()).filter(|_| bytes > 0);
    ranks
        .map(|local| Segment {
            stream: local * bytes..(local + 1) * bytes,
            places: vec![BufferOffset { local, side: Side::Output, offset: 0 }],
        })
        .collect()
}

/// The inputs of this node's ranks: all-gather.
pub(super) fn gathered_inputs(draft: &Draft, bytes: usize) -> Vec<Segment> {
    let ranks = (0..draft.layout.local().len()).filter(|_| bytes > 0);
    ranks
        .map(|local| Segment {
            stream: local * bytes..(local + 1) * bytes,
            places: vec![BufferOffset { local, side: Side::Input, offset: 0 }],
        })
        .collect()
}

/// Where the inputs of a node's ranks go: all-gather.
pub(super) fn gathered_outputs(draft: &Draft, node: Node, bytes: usize) -> Vec<Segment> {
    let ranks = draft.layout.ranks(node).iter().enumerate().filter(|_| bytes > 0);
    ranks
        .map(|(i, &rank)| Segment {
            stream: i * bytes..(i + 1) * bytes,
            places: draft.locals(Side::Output, rank as usize * bytes),
        })
        .collect()
}

/// The inputs of this node's ranks go to the outputs of all of them: all-gather.
pub(super) fn gather_within(draft: &mut Draft, bytes: usize) {
    for (local, &rank) in draft.layout.local().iter().enumerate() {
        let from = BufferOffset { local, side: Side::Input, offset: 0 };
        let copies = draft.locals(Side::Output, rank as usize * bytes).into_iter();
        draft.out.copies.extend(copies.map(|to| Copy { from, to, bytes }));
    }
}

/// The root's input goes to the outputs of all ranks on its node: broadcast.
pub(super) fn broadcast_within(draft: &mut Draft, bytes: usize, root: Rank) {
    if let Some(local) = draft.layout.local_index(root) {
        let from = BufferOffset { local, side: Side::Input, offset: 0 };
        let copies = draft.locals(Side::Output, 0).into_iter();
        draft.out.copies.extend(copies.map(|to| Copy { from, to, bytes }));
    }
}
