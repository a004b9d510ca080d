//! What a collective of NCCL's costs on the rails. [pure]

use node_agent_client::RailModel;
use node_agent_collective::plan::{Plan, predict};
use node_agent_collective::shape::{Config, Layout, Tuning};
use node_agent_collective::units::{MAX_NODES, Node, Time};
use node_agent_collective::{Algorithm, Call, Dtype, Operation, ReduceOp, Region};

/// NCCL's number of an algorithm, and of a protocol.
const TREE: usize = 0;
const RING: usize = 1;
const NVLS_TREE: usize = 5;
const PAT: usize = 6;
const LL: usize = 0;
const LL128: usize = 1;
/// Bytes of the elements that are counted in.
const ELEMENT: u64 = 2;

/// A collective as NCCL numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// One rank's bytes to all.
    Broadcast,
    /// All ranks' bytes to one, reduced.
    Reduce,
    /// All ranks' bytes to all.
    AllGather,
    /// All ranks' bytes, reduced, a part to each.
    ReduceScatter,
    /// All ranks' bytes to all, reduced.
    AllReduce,
}

impl Collective {
    /// The collective with this number; `None` where it is none.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        let all = [Self::Broadcast, Self::Reduce, Self::AllGather, Self::ReduceScatter, Self::AllReduce];
        usize::try_from(number).ok().and_then(|number| all.get(number)).copied()
    }

    /// What it is between servers. A reduction to one is a broadcast that goes the other way.
    fn between(self) -> Operation {
        match self {
            Self::Broadcast | Self::Reduce => Operation::Broadcast { root: 0 },
            Self::AllGather => Operation::AllGather,
            Self::ReduceScatter => Operation::ReduceScatter,
            Self::AllReduce => Operation::AllReduce,
        }
    }

    /// The engine's algorithm whose messages are like those of an algorithm of NCCL's; `None` where none is.
    fn algorithm(self, number: usize) -> Option<Algorithm> {
        match (self, number) {
            (Self::AllReduce, RING) | (Self::AllGather | Self::ReduceScatter, RING) => Some(Algorithm::Ring),
            // Up and down a tree: as many bytes and rounds as halving and doubling.
            (Self::AllReduce, TREE | NVLS_TREE) => Some(Algorithm::Halving),
            (Self::Broadcast | Self::Reduce, RING) => Some(Algorithm::Relay),
            (Self::AllGather | Self::ReduceScatter, PAT) => Some(Algorithm::Direct),
            _ => None,
        }
    }
}

/// A communicator, and what its rails cost.
#[derive(Debug, Clone)]
pub struct Communicator {
    layout: Layout,
    config: Config,
    plan: Plan,
}

impl Communicator {
    /// One of so many servers. `None` where no rail is used, or there are more servers than a job can have.
    #[must_use]
    pub fn new(nodes: usize, model: &RailModel) -> Option<Self> {
        if !(2..=MAX_NODES).contains(&nodes) {
            return None;
        }
        // Between servers one rank stands for all of a server.
        let ranks: Vec<Node> = (0..nodes).filter_map(|node| Node::try_from(node).ok()).collect();
        let config = Config {
            node: 0,
            nodes,
            ranks,
            rails: model.rails.max(1).into(),
            chunk_bytes: 32 << 10,
            op_timeout: Time::from_secs(1),
            epoch: 0,
            scratch: Region::EMPTY,
            checksum: false,
            tuning: Tuning::default(),
        };
        let plan = Plan {
            alpha_ns: model.alpha_ns,
            // Nobody measures what a message costs beside that.
            overhead_ns: 0,
            beta_ps_per_byte: model.beta_ps,
            // GPUs reduce, and NCCL counts that.
            gamma_ps_per_byte: 0,
            capacity: vec![model.capacity; nodes],
            ..Plan::default()
        };
        Some(Self { layout: Layout::new(0, nodes, &config.ranks), config, plan })
    }

    /// Nanoseconds that a collective of `bytes` takes on the rails, by the engine's model.
    fn nanoseconds(&self, collective: Collective, algorithm: Algorithm, bytes: u64) -> u64 {
        let parts = match collective {
            Collective::AllGather | Collective::ReduceScatter => self.layout.nodes() as u64,
            _ => 1,
        };
        let count = bytes.div_ceil(parts).div_ceil(ELEMENT);
        let call = Call { operation: collective.between(), dtype: Dtype::F16, reduce: ReduceOp::Sum, count };
        predict(algorithm, &call, &self.layout, &self.config, &self.plan)
    }
}

/// Adds to NCCL's table of costs (microseconds, by algorithm and protocol, `protocols` in a row) what the collective costs on the rails. A negative
/// cost is that of a way that NCCL cannot take, and stays as it is.
pub fn advise(
    communicator: &Communicator,
    collective: Collective,
    bytes: u64,
    table: &mut [f32],
    protocols: usize,
) {
    for (at, cost) in table.iter_mut().enumerate().filter(|(_, cost)| **cost >= 0.0) {
        let (number, protocol) = (at / protocols.max(1), at % protocols.max(1));
        let Some(algorithm) = collective.algorithm(number) else { continue };
        // With each 8 bytes as many flags, or with each 120 bytes 8 of them.
        let sent = match protocol {
            LL => bytes.saturating_mul(2),
            LL128 => bytes.saturating_add(bytes / 15),
            _ => bytes,
        };
        *cost += communicator.nanoseconds(collective, algorithm, sent) as f32 / 1e3;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What NCCL mostly takes for impossible.
    const IGNORED: f32 = -1.0;
    const SIMPLE: usize = 2;
    const PROTOCOLS: usize = 3;

    fn model() -> RailModel {
        // Eight rails of 400 Gbit/s.
        RailModel { rails: 8, capacity: 1024, alpha_ns: 3000, beta_ps: 20 }
    }

    /// A table in which GPUs cost nothing, for these algorithms and protocols.
    fn table(possible: &[(usize, usize)]) -> Vec<f32> {
        let mut table = vec![IGNORED; 7 * PROTOCOLS];
        possible.iter().for_each(|(algorithm, protocol)| table[algorithm * PROTOCOLS + protocol] = 0.0);
        table
    }

    /// The cheapest, as NCCL takes it.
    fn best(
        model: &RailModel,
        nodes: usize,
        collective: Collective,
        bytes: u64,
        possible: &[(usize, usize)],
    ) -> (usize, usize) {
        let communicator = Communicator::new(nodes, model).unwrap();
        let mut costs = table(possible);
        advise(&communicator, collective, bytes, &mut costs, PROTOCOLS);
        let ways = costs.iter().enumerate().filter(|(_, cost)| **cost >= 0.0);
        let (at, _) = ways.min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        (at / PROTOCOLS, at % PROTOCOLS)
    }

    #[test]
    fn small_ones_climb_trees_and_large_ones_go_around_rings() {
        let both = [(TREE, SIMPLE), (RING, SIMPLE)];
        let of = |bytes| best(&model(), 16, Collective::AllReduce, bytes, &both).0;
        assert_eq!([1 << 10, 64 << 10].map(of), [TREE, TREE]);
        // Slow rails: what a byte costs counts, and trees are in nobody's way any more than rings.
        let slow = RailModel { rails: 1, beta_ps: 20_000, ..model() };
        assert_eq!(best(&slow, 16, Collective::AllReduce, 256 << 20, &both).0, RING);
        assert_eq!(best(&slow, 16, Collective::AllReduce, 1 << 10, &both).0, TREE);
    }

    #[test]
    fn flags_cost_their_bytes_where_rails_are_slow() {
        let all = [(RING, LL), (RING, LL128), (RING, SIMPLE)];
        assert_eq!(best(&model(), 4, Collective::AllReduce, 64 << 20, &all).1, SIMPLE);
        // On the GPU the protocol with flags is faster: for few bytes that decides.
        let communicator = Communicator::new(4, &model()).unwrap();
        let mut costs = table(&all);
        costs[RING * PROTOCOLS + SIMPLE] = 10.0;
        advise(&communicator, Collective::AllReduce, 1 << 10, &mut costs, PROTOCOLS);
        assert!(costs[RING * PROTOCOLS + LL] < costs[RING * PROTOCOLS + SIMPLE], "{costs:?}");
    }

    #[test]
    fn rails_that_are_gone_cost() {
        let of = |model: &RailModel| {
            let mut costs = table(&[(RING, SIMPLE)]);
            advise(
                &Communicator::new(4, model).unwrap(),
                Collective::AllReduce,
                64 << 20,
                &mut costs,
                PROTOCOLS,
            );
            costs[RING * PROTOCOLS + SIMPLE]
        };
        let whole = of(&model());
        assert!((of(&RailModel { rails: 4, ..model() }) / whole - 2.0).abs() < 0.1);
        // Four of eight are dead everywhere.
        assert!((of(&RailModel { capacity: 512, ..model() }) / whole - 2.0).abs() < 0.1);
    }

    #[test]
    fn within_a_server_nothing_is_advised() {
        assert!(Communicator::new(1, &model()).is_none());
        assert!(Communicator::new(MAX_NODES + 1, &model()).is_none());
        assert_eq!(Collective::from_number(5), None);
        assert_eq!(Collective::from_number(-1), None);
    }

    proptest! {
        /// Whatever rails cost and NCCL supposes: nothing that it ignores comes up, costs grow with bytes and never shrink below NCCL's own, and
        /// two ranks that know the same choose the same.
        #[test]
        fn advice_is_of_one_mind(
            nodes in 2_usize..200, numbers: (u16, u16, u32, u32), number in 0..5, bytes in 0_u64..1 << 40,
            costs in prop::collection::vec(prop_oneof![Just(IGNORED), -1e6_f32..-1e-6, Just(f32::NAN), 0.0_f32..1e6], 21),
        ) {
            let (rails, capacity, alpha_ns, beta_ps) = numbers;
            let model = RailModel { rails, capacity, alpha_ns, beta_ps };
            let collective = Collective::from_number(number).unwrap();
            let of = |bytes| {
                let mut table = costs.clone();
                advise(&Communicator::new(nodes, &model).unwrap(), collective, bytes, &mut table, PROTOCOLS);
                table
            };
            let bits = |table: &[f32]| table.iter().map(|cost| cost.to_bits()).collect::<Vec<_>>();
            let (less, more) = (of(bytes), of(bytes.saturating_mul(2)));
            prop_assert_eq!(bits(&less), bits(&of(bytes)));
            for (at, cost) in costs.iter().enumerate() {
                if *cost >= 0.0 {
                    prop_assert!(less[at].is_finite() && less[at] >= *cost && more[at] >= less[at]);
                } else {
                    prop_assert_eq!(less[at].to_bits(), cost.to_bits());
                }
            }
        }
    }
}
