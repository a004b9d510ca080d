//! Schedules as pure values: what one node sends to whom, receives from whom and reduces in which order. Who carries a
//! chunk ([`crate::stripe`]) and when ([`crate::machine`]) is decided elsewhere; which algorithm suits, in [`crate::plan`]. A further
//! algorithm is a further file here.
//!
//! A *flow* is an ordered stream of bytes from one node to another; it is named by (step, block) and the two nodes, and
//! cut into equal chunks. *Segments* say where each range of a stream lies in the local ranks' buffers. A *reduction* combines
//! received flows, staged chunk by chunk, with what lies here; its result goes to the outputs, or on to the next node.
//!
//! | algorithm | all-reduce | others |
//! |---|---|---|
//! | [`direct`] | every node reduces its share of the bytes and sends the result to all; the shares follow the nodes' capacities | reduce-scatter, all-gather, all-to-all, broadcast |
//! | [`one_shot`] | every node sends everything to all and reduces everything | |
//! | [`ring`] | partial sums, then results, go from neighbour to neighbour | reduce-scatter, all-gather |
//! | [`doubling`] | everything that is there is exchanged with ever further partners; every node reduces everything | |
//! | [`halving`] | halves, quarters, ... are exchanged with ever nearer partners, then gathered the other way round | |
//! | [`relay`] | | broadcast: scattered, then relayed |
//!
//! All steps of an operation run at once, chunk by chunk. Only one copy of anything goes to a node, however many ranks it
//! has. The arithmetic order is [`crate::order`]'s in all but [`halving`], which is for results that no order shows in.

pub mod direct;
pub mod doubling;
mod draft;
mod flows;
pub mod halving;
mod make;
pub mod one_shot;
pub mod relay;
pub mod ring;
pub mod shares;
#[cfg(test)]
mod tests;

pub use flows::{
    BufferOffset, Contribution, Copy, Done, FIRST, Need, Receive, Reduction, ReductionStart, SECOND,
    Schedule, Segment, Send, Side, Source, Term, pieces,
};
