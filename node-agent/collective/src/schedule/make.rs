//! From a call to its schedule: the algorithm, the chunk size, and who makes it.

use super::draft::Draft;
use super::flows::Schedule;
use super::{direct, doubling, halving, one_shot, relay, ring, shares};
use crate::algorithm::Algorithm;
use crate::call::{Call, Operation};
use crate::plan::{Plan, choose, unfit};
use crate::shape::{Config, Layout, chunk_size};

impl Schedule {
    /// The schedule of a collective call, by the algorithm that the plan finds fastest.
    #[must_use]
    pub fn of(call: &Call, layout: &Layout, config: &Config, plan: &Plan) -> Schedule {
        Schedule::by(choose(call, layout, config, plan).algorithm, call, layout, config, plan)
    }

    /// The schedule of a collective call by an algorithm that fits it; one that does not stands for [`Algorithm::Direct`].
    #[must_use]
    pub fn by(algorithm: Algorithm, call: &Call, layout: &Layout, config: &Config, plan: &Plan) -> Schedule {
        let fits = unfit(algorithm, call, layout, config, plan).is_none();
        let algorithm = if fits { algorithm } else { Algorithm::Direct };
        let bytes = call.bytes().unwrap_or(0);
        let nodes = layout.nodes();
        let widest = layout.ranks_of.iter().map(Vec::len).max().unwrap_or(1);
        let flow = match (call.operation, algorithm) {
            (Operation::AllReduce, Algorithm::OneShot) => bytes,
            (Operation::AllReduce, _) => bytes.div_ceil(nodes),
            (Operation::Broadcast { .. }, _) => bytes.div_ceil(nodes.saturating_sub(1).max(1)),
            (Operation::AllToAll, _) => bytes * widest * widest,
            _ => bytes * widest,
        };
        let chunk = match (call.operation, algorithm) {
            (Operation::AllReduce, Algorithm::Doubling) => config.chunk_bytes,
            _ => chunk_size(flow, config),
        };
        let out = Schedule { chunk, ..Schedule::default() };
        let mut draft = Draft { layout, out };
        match (call.operation, algorithm) {
            (Operation::AllReduce, Algorithm::OneShot) => one_shot::all_reduce(&mut draft, bytes),
            (Operation::AllReduce, Algorithm::Ring) => ring::all_reduce(&mut draft, bytes),
            (Operation::AllReduce, Algorithm::Doubling) => doubling::all_reduce(&mut draft, bytes),
            (Operation::AllReduce, Algorithm::Halving) => halving::all_reduce(&mut draft, bytes),
            (Operation::AllReduce, _) => {
                let shares = shares::shares(bytes, &plan.capacities(nodes));
                direct::all_reduce(&mut draft, bytes, &shares);
            }
            (Operation::ReduceScatter, Algorithm::Ring) => ring::reduce_scatter(&mut draft, bytes),
            (Operation::ReduceScatter, _) => direct::reduce_scatter(&mut draft, bytes),
            (Operation::AllGather, Algorithm::Ring) => ring::all_gather(&mut draft, bytes),
            (Operation::AllGather, _) => direct::all_gather(&mut draft, bytes),
            (Operation::Broadcast { root }, Algorithm::Relay) => relay::broadcast(&mut draft, bytes, root),
            (Operation::Broadcast { root }, _) => direct::broadcast(&mut draft, bytes, root),
            (Operation::AllToAll, _) => direct::all_to_all(&mut draft, bytes),
            (Operation::Barrier | Operation::Send { .. } | Operation::Recv { .. }, _) => {}
        }
        draft.out
    }
}
