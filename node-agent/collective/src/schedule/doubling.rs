//! All-reduce by recursive doubling, for a power of two of nodes: in round r a node exchanges everything that it has so far, the
//! contributions of 2^r nodes, with the node whose number differs in bit r. After log2 n rounds each has all contributions and reduces
//! them itself, in the order of [`crate::order`] like one-shot: contributions travel as they are, so the result is the same to the
//! bit. The bytes of one-shot in log2 n messages instead of n-1, for as many trips: for messages that are small, among nodes
//! that are many or whose processors are busy with each message for longer than it travels.
//!
//! A frame that carries the contributions of several nodes says as well that all of these have made the call, and what node
//! 0 said of the plan ([`Receive::answers_for`]). Everything is one chunk: what is staged must still be there when it is
//! sent on.

use super::draft::{Draft, whole};
use super::flows::{Contribution, Reduction, Side, Source, Term};
use crate::order;
use crate::units::Node;

/// Most bytes of one message: below that no algorithm cuts one up for several rails, so nothing is lost by not doing it here.
pub const MOST: usize = 4096;

/// Bytes of the longest message.
pub fn longest(bytes: usize, nodes: usize) -> usize {
    bytes.saturating_mul(nodes / 2)
}

/// The nodes whose contributions a node has before round `round`: neighbours in number, itself among them.
fn group(node: usize, round: usize) -> std::ops::Range<usize> {
    let first = node >> round << round;
    first..first + (1 << round)
}

/// Every node gathers all contributions and reduces all bytes.
pub(super) fn all_reduce(draft: &mut Draft, bytes: usize) {
    let (own, nodes) = (draft.own(), draft.layout.nodes());
    let rounds = nodes.trailing_zeros() as usize;
    let partner = |round: usize| own ^ 1 << round;
    let inputs = whole(draft.locals(Side::Input, 0), bytes);
    for round in 0..rounds {
        let held = group(own, round);
        let mut parts = vec![(Term::Own, (own - held.start) * bytes)];
        parts
            .extend((0..round).map(|r| (Term::Staged(r), (group(partner(r), r).start - held.start) * bytes)));
        let source = if round == 0 { Source::Inputs } else { Source::Gathered { reduction: 0, parts } };
        let segments = if round == 0 { inputs.clone() } else { Vec::new() };
        let peer = partner(round);
        let flow = draft.contribute(peer, peer as Node, source, segments, bytes << round);
        if let Some(flow) = flow {
            flow.overwritten = true;
        }
    }
    let outputs = whole(draft.locals(Side::Output, 0), bytes);
    let blocks = order::blocks_within(bytes, nodes, 0..bytes);
    // The bit in which two nodes differ first says in which round the contribution of one comes to the other.
    let term = |node: usize| match (node ^ own).checked_ilog2() {
        None => Term::Own,
        Some(round) => {
            let source = round as usize;
            Term::Within { source, part: node - group(partner(source), source).start }
        }
    };
    let reduction = Reduction {
        sources: (0..rounds).map(|round| partner(round) as Node).collect(),
        cycle: (0..nodes).map(term).collect(),
        overwrites: true,
        ..draft.reduction_of_all(inputs, outputs, blocks)
    };
    draft.reduce(reduction);
    for flow in &mut draft.out.receives {
        if let Some(Contribution { source: round, .. }) = flow.contribution {
            flow.bytes = bytes << round;
            flow.answers_for = group(usize::from(flow.peer), round).map(|node| node as Node).collect();
        }
    }
}
