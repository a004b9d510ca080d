//! Which algorithm an operation takes, by predicted time.
//!
//! The model: a trip takes alpha; handing a message over takes o; a byte takes beta on one of R rails, and 1024/c of that at a
//! node of capacity c; a byte that is reduced takes gamma. For n nodes and S bytes:
//!
//! | algorithm | time |
//! |---|---|
//! | one-shot | alpha + (n-1)o + (n-1)S beta/R/c + (n-1)S gamma |
//! | direct | 2 alpha + 2(n-1)o + (load of the busiest node, [`shares::load`]) beta/R + (n-1)(greatest share) gamma |
//! | doubling | log2(n) (alpha + o) + (n-1)S beta/R/c + (n-1)S gamma |
//! | halving | 2 log2(n) (alpha + o) + 2(n-1)/n S beta/R/c + (n-1)/n S gamma |
//! | ring | 2(n-1)(alpha + o) + 2(n-1)/n S beta/R/c + (n-1)/n S gamma |
//!
//! with c of the weakest node. Bytes that all exchange with all may cost more than bytes between neighbours, where the fabric is
//! tapered or its queues are short: that is `crowding`. Nothing here is measured: the numbers are the caller's.
//!
//! The plan decides who sends what to whom, never a bit of a result (see [`crate::order`]), except that
//! `reproducible: false` permits [`Algorithm::Halving`] for floats.

use std::fmt;

use crate::algorithm::Algorithm;
use crate::call::{Call, Dtype, Operation};
use crate::schedule::doubling;
use crate::schedule::shares::{load, shares};
use crate::shape::{Config, Layout};
use crate::units::FULL;

/// Predictions that differ by less than this share of the best are equal.
const ALIKE: u64 = 64;

/// What the nodes of a job agree on for their operations. It must be equal on all nodes for one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Number of the agreement.
    pub version: u32,
    /// Time of a trip, in nanoseconds.
    pub alpha_ns: u32,
    /// Time to hand over or to take a message, in nanoseconds.
    pub overhead_ns: u32,
    /// Time of a byte on one healthy rail, in picoseconds.
    pub beta_ps_per_byte: u32,
    /// Time to reduce a byte of a contribution, in picoseconds.
    pub gamma_ps_per_byte: u32,
    /// What a byte costs more when all nodes exchange with all, rather than neighbours with neighbours, in 1024ths.
    pub crowding: u16,
    /// What is left of each node's capacity over all its rails, in 1024ths. Nodes that are not named have all.
    pub capacity: Vec<u16>,
    /// Whether floats must be equal to the bit whichever algorithm is taken.
    pub reproducible: bool,
}

impl Default for Plan {
    /// Version 0: healthy nodes, on rails of some hundred Mbit/s each that a processor serves: TCP takes some 10 us to hand a
    /// message over and 2 to take one. On faster rails one-shot pays for larger messages than with these numbers, on slower
    /// ones for smaller; nothing else depends on them. Crowding is measured: four nodes on
    /// four rails, 16 MiB, reach 98.4 % of line rate around the ring and 95.9 % from all to all.
    fn default() -> Self {
        Plan {
            version: 0,
            alpha_ns: 8_000,
            overhead_ns: 12_000,
            beta_ps_per_byte: 20_000,
            gamma_ps_per_byte: 150,
            crowding: 30,
            capacity: Vec::new(),
            reproducible: true,
        }
    }
}

impl Plan {
    /// The capacity of each of `nodes` nodes.
    #[must_use]
    pub fn capacities(&self, nodes: usize) -> Vec<u16> {
        (0..nodes).map(|n| self.capacity.get(n).copied().unwrap_or(FULL).min(FULL)).collect()
    }
}

/// Why an algorithm does not come into question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// There is no such algorithm for the operation.
    Operation,
    /// There are too few nodes to tell it from direct exchange.
    Nodes,
    /// The number of nodes is no power of two.
    PowerOfTwo,
    /// Its order of reduction would show in the result.
    Order,
    /// It is for small messages only.
    Size,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::Operation => "not for this operation",
            Unfit::Nodes => "too few nodes",
            Unfit::PowerOfTwo => "the number of nodes is no power of two",
            Unfit::Order => "its order would show in the result",
            Unfit::Size => "too many bytes",
        })
    }
}

/// An algorithm and what speaks for or against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The algorithm that was considered.
    pub algorithm: Algorithm,
    /// Predicted time in nanoseconds, or why it does not come into question.
    pub predicted: Result<u64, Unfit>,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.predicted {
            Ok(ns) => write!(f, "{} {:.1} us", self.algorithm, ns as f64 / 1e3),
            Err(unfit) => write!(f, "{}: {unfit}", self.algorithm),
        }
    }
}

/// The algorithm of an operation, and why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm that was chosen.
    pub algorithm: Algorithm,
    /// Whether the configuration forced it.
    pub forced: bool,
    /// Version of the plan that the predictions are from.
    pub plan: u32,
    /// Every algorithm for the operation.
    pub candidates: Vec<Candidate>,
}

impl Choice {
    /// Predicted time of the algorithm that was chosen, in nanoseconds.
    #[must_use]
    pub fn predicted(&self) -> Option<u64> {
        self.candidates.iter().find(|c| c.algorithm == self.algorithm)?.predicted.ok()
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.forced { "forced" } else { "predicted fastest" };
        write!(f, "{} ({how}, plan {}", self.algorithm, self.plan)?;
        for candidate in &self.candidates {
            write!(f, "; {candidate}")?;
        }
        f.write_str(")")
    }
}

/// The algorithm that the configuration forces, if it fits, or that is predicted to be fastest. A function of what all nodes
/// share.
#[must_use]
pub fn choose(call: &Call, layout: &Layout, config: &Config, plan: &Plan) -> Choice {
    let candidates: Vec<Candidate> = Algorithm::ALL
        .iter()
        .map(|&algorithm| {
            let unfit = unfit(algorithm, call, layout, config, plan);
            let predicted = unfit.map_or_else(|| Ok(predict(algorithm, call, layout, config, plan)), Err);
            Candidate { algorithm, predicted }
        })
        .filter(|c| c.predicted != Err(Unfit::Operation))
        .collect();
    let fits = |a: &Algorithm| candidates.iter().any(|c| c.algorithm == *a && c.predicted.is_ok());
    let forced = config.tuning.algorithm.filter(fits);
    let times = || candidates.iter().filter_map(|c| c.predicted.ok().map(|time| (time, c.algorithm)));
    let least = times().map(|(time, _)| time).min().unwrap_or(0);
    // Of equal times the first: direct before the rest.
    let best = times().find(|&(time, _)| time <= least.saturating_add(least / ALIKE));
    let best = best.map_or(Algorithm::Direct, |(_, algorithm)| algorithm);
    Choice { algorithm: forced.unwrap_or(best), forced: forced.is_some(), plan: plan.version, candidates }
}

/// Why an algorithm cannot be taken for a call, if it cannot.
#[must_use]
pub fn unfit(
    algorithm: Algorithm,
    call: &Call,
    layout: &Layout,
    config: &Config,
    plan: &Plan,
) -> Option<Unfit> {
    let nodes = layout.nodes();
    let known = match (algorithm, call.operation) {
        (Algorithm::Direct, _) => return None,
        (Algorithm::OneShot | Algorithm::Halving | Algorithm::Doubling, Operation::AllReduce) => true,
        (Algorithm::Ring, Operation::AllReduce | Operation::ReduceScatter | Operation::AllGather) => true,
        (Algorithm::Relay, Operation::Broadcast { .. }) => true,
        _ => false,
    };
    let longest = doubling::longest(call.bytes().unwrap_or(usize::MAX), nodes);
    let integers = matches!(call.dtype, Dtype::I32 | Dtype::I64);
    match algorithm {
        _ if !known => Some(Unfit::Operation),
        Algorithm::OneShot => (nodes < 2).then_some(Unfit::Nodes),
        _ if nodes < 3 => Some(Unfit::Nodes),
        Algorithm::Halving | Algorithm::Doubling if !nodes.is_power_of_two() => Some(Unfit::PowerOfTwo),
        Algorithm::Doubling => (longest > config.chunk_bytes.min(doubling::MOST)).then_some(Unfit::Size),
        Algorithm::Halving if plan.reproducible && !integers => Some(Unfit::Order),
        _ => None,
    }
}

/// Predicted time in nanoseconds of an algorithm, by the model of this module alone: whether it fits is what [`unfit`] says.
#[must_use]
pub fn predict(algorithm: Algorithm, call: &Call, layout: &Layout, config: &Config, plan: &Plan) -> u64 {
    let nodes = layout.nodes();
    let others = nodes.saturating_sub(1) as u128;
    let widest = layout.ranks_of.iter().map(Vec::len).max().unwrap_or(1) as u128;
    let bytes = call.bytes().unwrap_or(0);
    let all = bytes as u128;
    let capacity = plan.capacities(nodes);
    let weakest = u128::from(capacity.iter().copied().min().unwrap_or(FULL).max(1));
    // Shipped bytes of the busiest node, times 1024 by its capacity; bytes that one node reduces; trips; messages.
    let by_weakest = |bytes: u128| bytes * 1024 / weakest;
    let block = all.div_ceil(nodes.max(1) as u128);
    let rounds = u128::from(nodes.next_power_of_two().trailing_zeros());
    let crowded = !matches!(algorithm, Algorithm::Ring);
    let (shipped, reduced, trips, messages) = match (call.operation, algorithm) {
        (Operation::AllReduce, Algorithm::OneShot) => (by_weakest(others * all), others * all, 1, others),
        (Operation::AllReduce, Algorithm::Doubling) => {
            (by_weakest(others * all), others * all, rounds, rounds)
        }
        (Operation::AllReduce, Algorithm::Ring) => {
            (by_weakest(2 * others * block), others * block, 2 * others, 2 * others)
        }
        (Operation::AllReduce, Algorithm::Halving) => {
            (by_weakest(2 * others * block), others * block, 2 * rounds, 2 * rounds)
        }
        (Operation::AllReduce, _) => {
            let shares = shares(bytes, &capacity);
            let greatest = shares.iter().map(std::ops::Range::len).max().unwrap_or(0) as u128;
            (u128::from(load(bytes, &shares, &capacity)), others * greatest, 2, 2 * others)
        }
        (Operation::ReduceScatter, _) => {
            let trips = if crowded { 1 } else { others };
            (by_weakest(others * widest * all), others * widest * all, trips, others)
        }
        (Operation::AllGather, _) => {
            let trips = if crowded { 1 } else { others };
            (by_weakest(others * widest * all), 0, trips, others)
        }
        (Operation::Broadcast { .. }, Algorithm::Relay) => (by_weakest(all), 0, 2, 2 * others),
        (Operation::Broadcast { .. }, _) => (by_weakest(others * all), 0, 1, others),
        (Operation::AllToAll, _) => (by_weakest(others * widest * widest * all), 0, 1, others),
        (Operation::Barrier | Operation::Send { .. } | Operation::Recv { .. }, _) => (0, 0, 1, others),
    };
    let trips = if others == 0 { 0 } else { trips };
    let crowding = if crowded && nodes > 2 { u128::from(plan.crowding) } else { 0 };
    let wire = shipped * u128::from(plan.beta_ps_per_byte) / config.rails.max(1) as u128;
    let wire = wire + wire * crowding / 1024;
    let time = trips * u128::from(plan.alpha_ns)
        + messages * u128::from(plan.overhead_ns)
        + (wire + reduced * u128::from(plan.gamma_ps_per_byte)) / 1000;
    u64::try_from(time).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::ReduceOp;
    use crate::memory::Region;
    use crate::shape::Tuning;
    use crate::units::{Node, Time};

    fn config(nodes: usize, rails: usize) -> Config {
        Config {
            node: 0,
            nodes,
            ranks: (0..nodes as Node).collect(),
            rails,
            chunk_bytes: 32 << 10,
            op_timeout: Time::from_secs(1),
            epoch: 0,
            scratch: Region::EMPTY,
            checksum: false,
            tuning: Tuning::default(),
        }
    }

    fn chosen(nodes: usize, dtype: Dtype, bytes: u64, plan: &Plan) -> Choice {
        let config = config(nodes, 8);
        let layout = Layout::new(0, nodes, &config.ranks);
        let count = bytes / dtype.size() as u64;
        let call = Call { operation: Operation::AllReduce, dtype, reduce: ReduceOp::Sum, count };
        choose(&call, &layout, &config, plan)
    }

    fn time(choice: &Choice, algorithm: Algorithm) -> u64 {
        let of = choice.candidates.iter().find(|c| c.algorithm == algorithm).unwrap();
        of.predicted.unwrap() / 1000
    }

    /// Eight rails of 400 Gbit/s, a trip of 3 us, 0.2 us for a message: the figures of the design for 16 nodes.
    #[test]
    fn predictions_are_those_of_the_model() {
        let plan = Plan {
            alpha_ns: 3000,
            overhead_ns: 200,
            beta_ps_per_byte: 20,
            gamma_ps_per_byte: 0,
            crowding: 0,
            ..Plan::default()
        };
        let small = chosen(16, Dtype::I32, 1 << 10, &plan);
        assert_eq!(small.algorithm, Algorithm::OneShot);
        assert_eq!(time(&small, Algorithm::OneShot), 6);
        assert_eq!(time(&small, Algorithm::Direct), 12);
        assert_eq!(time(&small, Algorithm::Halving), 25);
        assert_eq!(time(&small, Algorithm::Ring), 96);
        let middle = chosen(16, Dtype::I32, 1 << 20, &plan);
        assert_eq!((middle.algorithm, time(&middle, Algorithm::Direct)), (Algorithm::Direct, 16));
        let large = chosen(16, Dtype::I32, 256 << 20, &plan);
        assert_eq!((large.algorithm, time(&large, Algorithm::Direct)), (Algorithm::Direct, 1270));
        assert!(time(&large, Algorithm::Ring) < 1370);
    }

    #[test]
    fn weak_nodes_and_tapered_fabrics_change_the_choice_not_the_words() {
        let weak = Plan { version: 3, capacity: vec![1024, 768], ..Plan::default() };
        let choice = chosen(4, Dtype::F32, 16 << 20, &weak);
        assert_eq!(choice.algorithm, Algorithm::Direct);
        let healthy = time(&chosen(4, Dtype::F32, 16 << 20, &Plan::default()), Algorithm::Direct);
        assert!((time(&choice, Algorithm::Direct) as f64 / healthy as f64 - 1.067).abs() < 0.02);
        assert!(choice.to_string().starts_with("direct (predicted fastest, plan 3; direct "), "{choice}");
        assert!(choice.to_string().contains("; halving: its order would show in the result"), "{choice}");
        for bytes in [1 << 20, 16 << 20, 64 << 20] {
            assert_eq!(chosen(4, Dtype::F32, bytes, &Plan::default()).algorithm, Algorithm::Ring, "{bytes}");
        }
        let tapered = Plan { crowding: 1024, ..Plan::default() };
        assert_eq!(chosen(8, Dtype::F32, 64 << 20, &tapered).algorithm, Algorithm::Ring);
        assert_eq!(chosen(8, Dtype::F32, 2 << 10, &tapered).algorithm, Algorithm::OneShot);
    }

    #[test]
    fn small_operations_double_where_messages_cost_more_than_trips() {
        let of = |nodes, bytes| chosen(nodes, Dtype::F32, bytes, &Plan::default()).algorithm;
        assert_eq!([2, 3, 4, 8].map(|n| of(n, 1 << 10)), {
            use Algorithm::{Doubling, OneShot};
            [OneShot, OneShot, Doubling, Doubling]
        });
        assert_eq!([2 << 10, 4 << 10, 64 << 10].map(|bytes| of(4, bytes)), {
            use Algorithm::{Direct, Doubling, OneShot};
            [Doubling, OneShot, Direct]
        });
        let wide = Plan { alpha_ns: 50_000, overhead_ns: 4_000, ..Plan::default() };
        assert_eq!(chosen(4, Dtype::F32, 8, &wide).algorithm, Algorithm::OneShot);
        assert_eq!(chosen(64, Dtype::F32, 8, &wide).algorithm, Algorithm::OneShot);
    }

    #[test]
    fn a_forced_algorithm_is_taken_where_it_fits() {
        let forced = |algorithm, operation, nodes| {
            let tuning = Tuning { algorithm: Some(algorithm), ..Tuning::default() };
            let config = Config { tuning, ..config(nodes, 2) };
            let layout = Layout::new(0, nodes, &config.ranks);
            let call = Call { operation, dtype: Dtype::F32, reduce: ReduceOp::Sum, count: 10 };
            let choice = choose(&call, &layout, &config, &Plan::default());
            (choice.algorithm, choice.forced)
        };
        assert_eq!(forced(Algorithm::Ring, Operation::AllReduce, 4), (Algorithm::Ring, true));
        assert_eq!(forced(Algorithm::Ring, Operation::AllToAll, 4), (Algorithm::Direct, false));
        assert_eq!(forced(Algorithm::Halving, Operation::AllReduce, 4), (Algorithm::Doubling, false));
        assert_eq!(forced(Algorithm::Doubling, Operation::AllReduce, 6), (Algorithm::OneShot, false));
        assert_eq!(forced(Algorithm::Ring, Operation::AllReduce, 1), (Algorithm::Direct, false));
        assert_eq!("ring".parse(), Ok(Algorithm::Ring));
    }
}
