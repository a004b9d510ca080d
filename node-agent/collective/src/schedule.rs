//! Schedules as pure values: what one node sends to whom, receives from whom and reduces in which order. Who carries a
//! chunk ([`crate::stripe`]) and when ([`crate::machine`]) is decided elsewhere, so a further algorithm is a further function here.
//!
//! A *flow* is an ordered stream of bytes from one node to another; it is named by (step, block) and the two nodes, and
//! cut into equal chunks. *Segments* say where each range of a stream lies in the local ranks' buffers.
//!
//! Version 1: direct exchange. All-reduce is reduce-scatter (every node sends its contribution to block b to node b) and
//! all-gather (node b sends the result to all), chunk by chunk, so that both run at once. Broadcast scatters and
//! relays when that pays. Only one copy of anything goes to a node, however many ranks it has.

use std::ops::Range;

use crate::call::{Call, Operation};
use crate::order;
use crate::shape::{Config, Layout, Node, Rank, chunk_size};

/// Below this many bytes for each node a broadcast goes straight from the root to all.
const SCATTER_FROM: usize = 4096;

/// Step of reduce-scatter, and of everything that has one step.
pub const FIRST: u8 = 0;
/// Step of all-gather and of relaying.
pub const SECOND: u8 = 1;

/// Input or output of a local rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Input buffer.
    Input,
    /// Output buffer.
    Output,
}

/// A place in a local rank's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Index among the local ranks.
    pub local: usize,
    /// Which buffer.
    pub side: Side,
    /// Offset in it.
    pub offset: usize,
}

/// Where a range of a stream lies: in one place, or in several that are to be equal or to be combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Range of the stream; segments of a stream follow each other without a gap.
    pub stream: Range<usize>,
    /// The places of its first byte.
    pub places: Vec<Place>,
}

/// When the chunks of a sent flow exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// At once: the places of a segment are combined in order (one place: taken as it is).
    Inputs,
    /// When the same chunk of the own reduction is done.
    Reduced,
    /// When the same chunk of the receive flow with this index arrived.
    Relayed(usize),
}

/// A flow that this node sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    /// Step.
    pub step: u8,
    /// Block.
    pub block: u32,
    /// The node that gets it.
    pub peer: Node,
    /// Where its chunks come from.
    pub source: Source,
    /// Whether the receiver stages it for a reduction, and so grants it.
    pub granted: bool,
    /// Where it lies.
    pub segments: Vec<Segment>,
    /// Bytes.
    pub bytes: usize,
    /// Chunks.
    pub chunks: usize,
}

/// A flow that this node receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receive {
    /// Step.
    pub step: u8,
    /// Block.
    pub block: u32,
    /// The node that sends it.
    pub peer: Node,
    /// `Some(i)`: staged as the i-th contribution of the reduction. `None`: it lands in the first place of its
    /// segments and is copied to the others.
    pub contribution: Option<usize>,
    /// Where it lands.
    pub segments: Vec<Segment>,
    /// Bytes.
    pub bytes: usize,
    /// Chunks.
    pub chunks: usize,
}

/// The reduction of the block that this node owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduction {
    /// The nodes in the order of [`order::nodes_for`], without this one, which comes last.
    pub order: Vec<Node>,
    /// This node's contribution: the places are the local ranks.
    pub inputs: Vec<Segment>,
    /// Where the result goes.
    pub outputs: Vec<Segment>,
    /// Bytes.
    pub bytes: usize,
    /// Chunks.
    pub chunks: usize,
}

/// A copy within the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// From here.
    pub from: Place,
    /// To here.
    pub to: Place,
    /// Bytes.
    pub bytes: usize,
}

/// One node's part of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Bytes of a chunk.
    pub chunk: usize,
    /// Sent flows; earlier steps first, next node first.
    pub sends: Vec<Send>,
    /// Received flows.
    pub receives: Vec<Receive>,
    /// The own reduction, if there is one.
    pub reduction: Option<Reduction>,
    /// Copies within the node.
    pub copies: Vec<Copy>,
}

impl Schedule {
    /// The schedule of a collective call.
    #[must_use]
    pub fn of(call: &Call, layout: &Layout, config: &Config) -> Schedule {
        let bytes = call.bytes().unwrap_or(0);
        let widest = layout.ranks_of.iter().map(Vec::len).max().unwrap_or(1);
        let flow = match call.operation {
            Operation::AllReduce => bytes.div_ceil(layout.nodes()),
            Operation::Broadcast { .. } => bytes.div_ceil(layout.nodes().saturating_sub(1).max(1)),
            Operation::AllToAll => bytes * widest * widest,
            _ => bytes * widest,
        };
        let mut plan =
            Plan { layout, out: Schedule { chunk: chunk_size(flow, config), ..Schedule::default() } };
        match call.operation {
            Operation::AllReduce => plan.all_reduce(bytes),
            Operation::ReduceScatter => plan.reduce_scatter(bytes),
            Operation::AllGather => plan.all_gather(bytes),
            Operation::Broadcast { root } => plan.broadcast(bytes, root),
            Operation::AllToAll => plan.all_to_all(bytes),
            Operation::Barrier | Operation::Send { .. } | Operation::Recv { .. } => {}
        }
        plan.out
    }

    /// The schedule of a message from one node to another. It has at least one chunk, perhaps an empty one, so that the
    /// receiver learns of it.
    #[must_use]
    pub fn message(bytes: usize, local: usize, sends: bool, peer: Node, config: &Config) -> Schedule {
        let chunk = chunk_size(bytes, config);
        let chunks = bytes.div_ceil(chunk).max(1);
        let side = if sends { Side::Input } else { Side::Output };
        let segments = vec![Segment { stream: 0..bytes, places: vec![Place { local, side, offset: 0 }] }];
        let (step, block) = (FIRST, 0);
        let mut out = Schedule { chunk, ..Schedule::default() };
        if sends {
            out.sends.push(Send {
                step,
                block,
                peer,
                source: Source::Inputs,
                granted: false,
                segments,
                bytes,
                chunks,
            });
        } else {
            out.receives.push(Receive { step, block, peer, contribution: None, segments, bytes, chunks });
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

struct Plan<'a> {
    layout: &'a Layout,
    out: Schedule,
}

impl Plan<'_> {
    fn locals(&self, side: Side, offset: usize) -> Vec<Place> {
        (0..self.layout.local().len()).map(|local| Place { local, side, offset }).collect()
    }

    fn send(&mut self, step: u8, block: usize, peer: Node, source: Source, segments: Vec<Segment>) {
        let bytes = segments.last().map_or(0, |s| s.stream.end);
        if bytes > 0 {
            let chunks = bytes.div_ceil(self.out.chunk);
            let block = block as u32;
            self.out.sends.push(Send { step, block, peer, source, granted: false, segments, bytes, chunks });
        }
    }

    /// Adds a received flow and gives its index.
    fn receive(&mut self, step: u8, block: usize, peer: Node, segments: Vec<Segment>) -> usize {
        let bytes = segments.last().map_or(0, |s| s.stream.end);
        if bytes > 0 {
            let (chunks, block) = (bytes.div_ceil(self.out.chunk), block as u32);
            self.out.receives.push(Receive {
                step,
                block,
                peer,
                contribution: None,
                segments,
                bytes,
                chunks,
            });
        }
        self.out.receives.len().saturating_sub(1)
    }

    /// Contributions of all nodes to the own block, which lies at `inputs` and whose result goes to `outputs`.
    fn reduce(&mut self, inputs: Vec<Segment>, outputs: Vec<Segment>) {
        let bytes = inputs.last().map_or(0, |s| s.stream.end);
        if bytes == 0 {
            return;
        }
        let chunks = bytes.div_ceil(self.out.chunk);
        let own = self.layout.node;
        let order: Vec<Node> = order::nodes_for(own, self.layout.nodes()).filter(|&n| n != own).collect();
        for (i, &peer) in order.iter().enumerate() {
            let block = u32::from(own);
            let (step, contribution) = (FIRST, Some(i));
            self.out.receives.push(Receive {
                step,
                block,
                peer,
                contribution,
                segments: Vec::new(),
                bytes,
                chunks,
            });
        }
        self.out.reduction = Some(Reduction { order, inputs, outputs, bytes, chunks });
    }

    fn contribute(&mut self, peer: Node, segments: Vec<Segment>) {
        let before = self.out.sends.len();
        self.send(FIRST, usize::from(peer), peer, Source::Inputs, segments);
        if let Some(flow) = self.out.sends.get_mut(before) {
            flow.granted = true;
        }
    }

    fn all_reduce(&mut self, bytes: usize) {
        let blocks = order::blocks(bytes, self.layout.nodes());
        let own = usize::from(self.layout.node);
        let whole = |places: Vec<Place>, len: usize| vec![Segment { stream: 0..len, places }];
        for peer in self.layout.peers() {
            let block = &blocks[usize::from(peer)];
            let inputs = self.locals(Side::Input, block.start);
            self.contribute(peer, whole(inputs, block.len()));
        }
        let mine = blocks[own].clone();
        let (inputs, outputs) = (self.locals(Side::Input, mine.start), self.locals(Side::Output, mine.start));
        self.reduce(whole(inputs, mine.len()), whole(outputs.clone(), mine.len()));
        for peer in self.layout.peers() {
            self.send(SECOND, own, peer, Source::Reduced, whole(outputs[..1].to_vec(), mine.len()));
            let block = &blocks[usize::from(peer)];
            let outputs = self.locals(Side::Output, block.start);
            self.receive(SECOND, usize::from(peer), peer, whole(outputs, block.len()));
        }
    }

    fn reduce_scatter(&mut self, bytes: usize) {
        let parts = |plan: &Self, node: Node| -> Vec<Segment> {
            let part = |(i, &rank): (usize, &Rank)| Segment {
                stream: i * bytes..(i + 1) * bytes,
                places: plan.locals(Side::Input, rank as usize * bytes),
            };
            plan.layout.ranks(node).iter().enumerate().filter(|_| bytes > 0).map(part).collect()
        };
        for peer in self.layout.peers() {
            let segments = parts(self, peer);
            self.contribute(peer, segments);
        }
        let inputs = parts(self, self.layout.node);
        let outputs = (0..inputs.len())
            .map(|local| Segment {
                stream: local * bytes..(local + 1) * bytes,
                places: vec![Place { local, side: Side::Output, offset: 0 }],
            })
            .collect();
        self.reduce(inputs, outputs);
    }

    fn all_gather(&mut self, bytes: usize) {
        let segment = |i: usize, places| Segment { stream: i * bytes..(i + 1) * bytes, places };
        let own: Vec<Segment> = (0..self.layout.local().len())
            .filter(|_| bytes > 0)
            .map(|local| segment(local, vec![Place { local, side: Side::Input, offset: 0 }]))
            .collect();
        for peer in self.layout.peers() {
            self.send(FIRST, usize::from(self.layout.node), peer, Source::Inputs, own.clone());
            let theirs = self.layout.ranks(peer).iter().enumerate().filter(|_| bytes > 0);
            let landing =
                theirs.map(|(i, &r)| segment(i, self.locals(Side::Output, r as usize * bytes))).collect();
            self.receive(FIRST, usize::from(peer), peer, landing);
        }
        for (local, &rank) in self.layout.local().iter().enumerate() {
            let from = Place { local, side: Side::Input, offset: 0 };
            let copies = self.locals(Side::Output, rank as usize * bytes).into_iter();
            self.out.copies.extend(copies.map(|to| Copy { from, to, bytes }));
        }
    }

    fn broadcast(&mut self, bytes: usize, root: Rank) {
        let Some(&source) = self.layout.node_of.get(root as usize) else { return };
        let others = self.layout.nodes() - 1;
        if let Some(local) = self.layout.local_index(root) {
            let from = Place { local, side: Side::Input, offset: 0 };
            let copies = self.locals(Side::Output, 0).into_iter();
            self.out.copies.extend(copies.map(|to| Copy { from, to, bytes }));
        }
        let scatter = others > 1 && bytes / others >= SCATTER_FROM;
        // The block of the i-th node after the root; not scattered, everybody's block is everything.
        let cut = if scatter { order::blocks(bytes, others) } else { vec![0..bytes; others.max(1)] };
        let nodes = self.layout.nodes();
        let block_of = |node: Node| (usize::from(node) + nodes - usize::from(source) - 1) % nodes;
        let at = |block: &Range<usize>, places: Vec<Place>| vec![Segment { stream: 0..block.len(), places }];
        if self.layout.node == source {
            let local = self.layout.local_index(root).unwrap_or(0);
            for peer in self.layout.peers() {
                let block = &cut[block_of(peer)];
                let from = Place { local, side: Side::Input, offset: block.start };
                self.send(FIRST, block_of(peer), peer, Source::Inputs, at(block, vec![from]));
            }
            return;
        }
        let mine = block_of(self.layout.node);
        let landing = self.locals(Side::Output, cut[mine].start);
        let first = self.receive(FIRST, mine, source, at(&cut[mine], landing.clone()));
        for peer in self.layout.peers().filter(|&p| scatter && p != source) {
            self.send(SECOND, mine, peer, Source::Relayed(first), at(&cut[mine], landing[..1].to_vec()));
            let theirs = &cut[block_of(peer)];
            let landing = self.locals(Side::Output, theirs.start);
            self.receive(SECOND, block_of(peer), peer, at(theirs, landing));
        }
    }

    fn all_to_all(&mut self, bytes: usize) {
        let own = self.layout.local();
        for peer in self.layout.peers() {
            let theirs = self.layout.ranks(peer);
            let pairs = |outer: usize, inner: usize| {
                (0..outer * inner)
                    .filter(|_| bytes > 0)
                    .map(move |i| (i / inner, i % inner, i * bytes..(i + 1) * bytes))
            };
            let sent = pairs(own.len(), theirs.len()).map(|(local, j, stream)| {
                let offset = theirs[j] as usize * bytes;
                Segment { stream, places: vec![Place { local, side: Side::Input, offset }] }
            });
            let got = pairs(theirs.len(), own.len()).map(|(i, local, stream)| {
                let offset = theirs[i] as usize * bytes;
                Segment { stream, places: vec![Place { local, side: Side::Output, offset }] }
            });
            let (sent, got) = (sent.collect(), got.collect());
            self.send(FIRST, usize::from(self.layout.node), peer, Source::Inputs, sent);
            self.receive(FIRST, usize::from(peer), peer, got);
        }
        for (from, &source) in own.iter().enumerate() {
            for (to, &target) in own.iter().enumerate() {
                let from = Place { local: from, side: Side::Input, offset: target as usize * bytes };
                let to = Place { local: to, side: Side::Output, offset: source as usize * bytes };
                self.out.copies.push(Copy { from, to, bytes });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Dtype, ReduceOp};
    use crate::memory::Region;
    use crate::shape::{Time, Tuning};
    use std::collections::BTreeMap;

    fn config(node: Node, ranks: &[Node]) -> Config {
        Config {
            node,
            nodes: usize::from(*ranks.iter().max().unwrap()) + 1,
            ranks: ranks.to_vec(),
            rails: 4,
            chunk_bytes: 4096,
            op_timeout: Time::from_secs(1),
            epoch: 0,
            scratch: Region::EMPTY,
            checksum: false,
            tuning: Tuning::default(),
        }
    }

    /// Every sent flow has exactly one receiver with the same name, length and cut, and the other way round.
    #[test]
    fn flows_of_all_nodes_match() {
        let maps: [&[Node]; 4] = [&[0], &[0, 1, 0, 1], &[0, 1, 2, 3], &[2, 0, 0, 1, 2, 2, 3, 4]];
        let kinds = [
            Operation::AllReduce,
            Operation::AllGather,
            Operation::ReduceScatter,
            Operation::Broadcast { root: 0 },
            Operation::AllToAll,
            Operation::Barrier,
        ];
        for ranks in maps {
            for operation in kinds {
                for count in [0, 1, 100, 40_000] {
                    let call = Call { operation, dtype: Dtype::F32, reduce: ReduceOp::Sum, count };
                    let (mut sent, mut got) = (BTreeMap::new(), BTreeMap::new());
                    for node in 0..config(0, ranks).nodes as Node {
                        let config = config(node, ranks);
                        let layout = Layout::new(node, config.nodes, ranks);
                        let schedule = Schedule::of(&call, &layout, &config);
                        for f in &schedule.sends {
                            let twice =
                                sent.insert((f.step, f.block, node, f.peer), (f.bytes, f.chunks, f.granted));
                            assert_eq!(twice, None);
                        }
                        for f in &schedule.receives {
                            let granted = f.contribution.is_some();
                            let twice =
                                got.insert((f.step, f.block, f.peer, node), (f.bytes, f.chunks, granted));
                            assert_eq!(twice, None);
                        }
                    }
                    assert_eq!(sent, got, "{call} on {ranks:?}");
                }
            }
        }
    }

    #[test]
    fn pieces_cut_at_segment_edges() {
        let segment = |stream: Range<usize>| Segment { stream, places: Vec::new() };
        let segments = [segment(0..10), segment(10..20), segment(20..30)];
        let cut: Vec<_> = pieces(&segments, 5..25).map(|(_, r)| r).collect();
        assert_eq!(cut, [5..10, 10..20, 20..25]);
        assert_eq!(pieces(&segments, 10..20).map(|(_, r)| (r.start, r.end)).collect::<Vec<_>>(), [(10, 20)]);
        assert_eq!(pieces(&segments, 7..7).count(), 0);
    }
}
