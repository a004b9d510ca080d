//! What a schedule is made of: flows, reductions and copies, and the segments that say where their bytes lie.

use std::ops::Range;

use crate::shape::{Config, chunk_size};
use crate::units::Node;

/// Step of reduce-scatter, and of everything that has one step.
pub const FIRST: u8 = 0;
/// Step of all-gather and of relaying.
pub const SECOND: u8 = 1;

/// Input or output of a local rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The buffer that the call reads.
    Input,
    /// The buffer that the call writes.
    Output,
}

/// A place in a local rank's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferOffset {
    /// Index among the local ranks.
    pub local: usize,
    /// Whether it is the rank's input or output.
    pub side: Side,
    /// Offset of the place in that buffer, in bytes.
    pub offset: usize,
}

/// Where a range of a stream lies: in one place, or in several that are to be equal or to be combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Range of the stream; segments of a stream follow each other without a gap.
    pub stream: Range<usize>,
    /// The places of its first byte.
    pub places: Vec<BufferOffset>,
}

/// What must be here before a range of a stream exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The range of the stream, in bytes.
    pub stream: Range<usize>,
    /// The reduction or flow that makes its bytes.
    pub of: Done,
    /// Where the range begins in the stream of that.
    pub at: usize,
}

/// What makes bytes of a stream: a reduction or a received flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The reduction with this index.
    Reduced(usize),
    /// The receive flow with this index.
    Received(usize),
}

/// When the chunks of a sent flow exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// At once: the places of a segment are combined in order (one place: taken as it is).
    Inputs,
    /// When the same chunk of the reduction with this index is done; if that has no outputs: when its contributions are
    /// here, which are then combined on the way out.
    Reduced(usize),
    /// When the same chunk of the receive flow with this index arrived.
    Relayed(usize),
    /// In order, each when all that covers it is there.
    After(Vec<Need>),
    /// In one chunk, when the staged terms among these are there: terms of the reduction with this index, and where in the
    /// stream each begins.
    Gathered {
        /// Index of the reduction.
        reduction: usize,
        /// The terms, each with the offset in the stream at which it begins.
        parts: Vec<(Term, usize)>,
    },
}

/// A flow that this node sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    /// The step of the algorithm that the flow belongs to ([`FIRST`], [`SECOND`], ...).
    pub step: u8,
    /// Number that tells the flow from others of the same step between the two nodes.
    pub block: u32,
    /// The node that gets it.
    pub peer: Node,
    /// Where its chunks come from.
    pub source: Source,
    /// Whether the receiver stages it for a reduction, and so grants it.
    pub granted: bool,
    /// Whether this node's own reduction may overwrite the places in place, so that what travels must be a copy.
    pub overwritten: bool,
    /// Where it lies. Empty for partial sums, which lie nowhere before they are sent.
    pub segments: Vec<Segment>,
    /// Length of the stream, in bytes.
    pub bytes: usize,
    /// Number of chunks that the stream is cut into.
    pub chunks: usize,
}

/// The part of a received flow in a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution {
    /// Index of the reduction.
    pub reduction: usize,
    /// Index among its sources.
    pub source: usize,
}

/// A flow that this node receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receive {
    /// The step of the algorithm that the flow belongs to ([`FIRST`], [`SECOND`], ...).
    pub step: u8,
    /// Number that tells the flow from others of the same step between the two nodes.
    pub block: u32,
    /// The node that sends it.
    pub peer: Node,
    /// `Some`: staged for a reduction. `None`: it lands in the first place of its segments and is copied to the others.
    pub contribution: Option<Contribution>,
    /// The nodes whose contributions it holds, where these are others' than its sender's too: it says for all of them that they
    /// have made the call.
    pub answers_for: Vec<Node>,
    /// Where the bytes of the stream go in the local ranks' buffers.
    pub segments: Vec<Segment>,
    /// Length of the stream, in bytes.
    pub bytes: usize,
    /// Number of chunks that the stream is cut into.
    pub chunks: usize,
}

/// One of the terms that a reduction combines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// What came from the source with this index.
    Staged(usize),
    /// A part of that, where it holds the contributions of several nodes: each is as long as the reduction, and is one chunk.
    Within {
        /// Index of the source.
        source: usize,
        /// Index of the part among the contributions that the source's flow holds.
        part: usize,
    },
    /// This node's own contribution, which lies in the local ranks' buffers.
    Own,
}

/// With which term the reduction of a range begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReductionStart {
    /// The range of the stream, in bytes.
    pub stream: Range<usize>,
    /// Index in the reduction's cycle.
    pub first: usize,
}

/// A reduction: the terms of a cycle, all of them once, beginning with the one that the range's turn names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduction {
    /// Block of the received flows; their step is [`FIRST`]. No two reductions with a common source have the same.
    pub block: u32,
    /// The nodes whose flows are combined.
    pub sources: Vec<Node>,
    /// The terms, in the order in which they are combined.
    pub cycle: Vec<Term>,
    /// The turns; they follow each other without a gap.
    pub turns: Vec<ReductionStart>,
    /// The own term: the places are the local ranks.
    pub inputs: Vec<Segment>,
    /// The index of the reduction that makes the own term, and where the term begins in that; `None`: it is there.
    pub after: Option<(usize, usize)>,
    /// Where the result goes. Empty: into the flow sent from it.
    pub outputs: Vec<Segment>,
    /// Whether, in place, the outputs are places that flows of the same chunks are sent from: the result waits until
    /// these have been handed out.
    pub overwrites: bool,
    /// Length of the result, in bytes.
    pub bytes: usize,
    /// Number of chunks that the result is cut into.
    pub chunks: usize,
}

/// A copy within the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// The place that is copied.
    pub from: BufferOffset,
    /// The place that it is copied to.
    pub to: BufferOffset,
    /// Number of bytes to copy.
    pub bytes: usize,
}

/// One node's part of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Bytes of a chunk.
    pub chunk: usize,
    /// Sent flows; earlier steps first, next node first.
    pub sends: Vec<Send>,
    /// The flows that this node receives.
    pub receives: Vec<Receive>,
    /// The reductions that this node does.
    pub reductions: Vec<Reduction>,
    /// Copies within the node.
    pub copies: Vec<Copy>,
}

impl Schedule {
    /// Whether somebody else says for a node that it has made the call, and nothing is exchanged with itself.
    pub fn is_answered_for(&self, node: Node) -> bool {
        let named = self.receives.iter().any(|f| f.answers_for.contains(&node));
        named && !self.receives.iter().any(|f| f.peer == node)
    }

    /// Whether something is sent as its chunks come in: others wait for it to be handed on.
    pub fn is_chained(&self) -> bool {
        self.sends.iter().any(|flow| match flow.source {
            Source::Inputs => false,
            Source::Reduced(index) => self.reductions[index].outputs.is_empty(),
            Source::Relayed(_) | Source::After(_) | Source::Gathered { .. } => true,
        })
    }

    /// Whether a node hears early enough that this one has made the call without a message of its own: from others, or from what
    /// will be gathered for it.
    pub fn hears_anyhow(&self, node: Node) -> bool {
        let gathered = |f: &Send| f.peer == node && matches!(f.source, Source::Gathered { .. });
        self.is_answered_for(node) || self.sends.iter().any(gathered)
    }

    /// The schedule of a message from one node to another. It has at least one chunk, perhaps an empty one, so that the
    /// receiver learns of it.
    #[must_use]
    pub fn message(bytes: usize, local: usize, sends: bool, peer: Node, config: &Config) -> Schedule {
        let chunk = chunk_size(bytes, config);
        let chunks = bytes.div_ceil(chunk).max(1);
        let side = if sends { Side::Input } else { Side::Output };
        let segments =
            vec![Segment { stream: 0..bytes, places: vec![BufferOffset { local, side, offset: 0 }] }];
        let (step, block) = (FIRST, 0);
        let mut out = Schedule { chunk, ..Schedule::default() };
        if sends {
            out.sends.push(Send {
                step,
                block,
                peer,
                source: Source::Inputs,
                granted: false,
                overwritten: false,
                segments,
                bytes,
                chunks,
            });
        } else {
            let answers_for = Vec::new();
            let contribution = None;
            out.receives.push(Receive {
                step,
                block,
                peer,
                contribution,
                answers_for,
                segments,
                bytes,
                chunks,
            });
        }
        out
    }

    /// The range of a stream of `bytes` that chunk `index` covers.
    #[must_use]
    pub fn chunk_range(&self, bytes: usize, index: usize) -> Range<usize> {
        let start = (index * self.chunk).min(bytes);
        start..(start + self.chunk).min(bytes)
    }
}

/// The pieces of segments that a range of their stream covers: each with its bytes and the offset to add to its places.
pub fn pieces(segments: &[Segment], range: Range<usize>) -> impl Iterator<Item = (&Segment, Range<usize>)> {
    let first = segments.partition_point(|s| s.stream.end <= range.start);
    segments[first..].iter().take_while(move |s| s.stream.start < range.end).filter_map(move |s| {
        let within = s.stream.start.max(range.start)..s.stream.end.min(range.end);
        (!within.is_empty()).then_some((s, within))
    })
}
