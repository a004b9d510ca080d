//! Every algorithm gives the bits of the reference, whatever the plan, and none can get stuck.

use node_agent_collective::shape::Tuning;
use node_agent_collective::units::{Node, Time};
use node_agent_collective::{Algorithm, Call, Dtype, Operation, Plan, ReduceOp};
use proptest::prelude::*;

use crate::properties::{self, Case, outcome, run, tuning};
use crate::sim::World;

prop_compose! {
    fn plans()(version in 0u32..3, capacity in prop::collection::vec(prop_oneof![Just(1024u16), 0u16..=1024], 0..=8)) -> Plan {
        Plan { version, capacity, ..Plan::default() }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    (properties::cases(), plans()).prop_map(|(case, plan)| Case { plan, ..case })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_algorithm_gives_what_the_reference_gives(case in cases()) {
        let (mut net, _) = run(&case);
        net.settle();
        for host in &net.hosts {
            prop_assert!(host.machine.failure().is_none());
        }
    }

    /// Where the job gives up the order, floats may differ from the reference, but not between ranks, nor from run to run.
    #[test]
    fn without_an_order_all_ranks_still_agree(
        power in 1usize..=3, extra in prop::collection::vec(0u16..8, 0..4), dtype in 0usize..6, reduce in 0usize..4,
        count in 1u64..3000, chunk in 1usize..=40, tight: bool, in_place: bool, seeds: (u64, u64),
    ) {
        let nodes = 1u16 << power;
        let map: Vec<Node> = (0..nodes).chain(extra.iter().map(|e| e % nodes)).collect();
        let tuning = Tuning { algorithm: Some(Algorithm::Halving), ..tuning(tight) };
        let world = World { map: map.clone(), rails: 3, chunk: chunk * 64, tuning, timeout: Time::from_secs(3600), checksum: false };
        let call = Call { operation: Operation::AllReduce, dtype: Dtype::ALL[dtype], reduce: ReduceOp::ALL[reduce], count };
        let plan = Plan { reproducible: false, ..Plan::default() };
        let case = Case { world, plan, calls: vec![call], in_place, seed: seeds.0 };
        let (_, outputs, _) = outcome(&case, &mut |_| {});
        prop_assert!(outputs.iter().all(|o| *o == outputs[0]));
        let (_, again, _) = outcome(&Case { seed: seeds.1, ..case }, &mut |_| {});
        prop_assert_eq!(outputs, again);
    }
}

/// Large enough for many chunks in flight, with windows of a few chunks: every algorithm, every reducing operation.
#[test]
fn small_windows_do_not_stop_large_operations() {
    for nodes in [3u16, 4, 8] {
        for &algorithm in Algorithm::ALL {
            for operation in [Operation::AllReduce, Operation::ReduceScatter, Operation::AllGather] {
                for in_place in [false, true] {
                    let tuning = Tuning { algorithm: Some(algorithm), ..tuning(true) };
                    let world = World {
                        map: (0..nodes).collect(),
                        rails: 2,
                        chunk: 128,
                        tuning,
                        timeout: Time::from_secs(3600),
                        checksum: false,
                    };
                    let count = if operation == Operation::AllReduce { 2000 } else { 250 };
                    let call = Call { operation, dtype: Dtype::I64, reduce: ReduceOp::Sum, count };
                    let plan = Plan { capacity: vec![1024, 700, 1024], ..Plan::default() };
                    run(&Case { world, plan, calls: vec![call, call], in_place, seed: u64::from(nodes) });
                }
            }
        }
    }
}

/// Weights of a degraded node show in what it ships: it reduces less, and its share of the work fits what it can carry.
#[test]
fn a_weak_node_ships_less() {
    let world = World {
        map: vec![0, 1, 2, 3],
        rails: 4,
        chunk: 4096,
        tuning: Tuning { algorithm: Some(Algorithm::Direct), ..Tuning::default() },
        timeout: Time::from_secs(3600),
        checksum: false,
    };
    let call =
        Call { operation: Operation::AllReduce, dtype: Dtype::F32, reduce: ReduceOp::Sum, count: 250_000 };
    let healthy = Case { world, plan: Plan::default(), calls: vec![call], in_place: true, seed: 1 };
    let weak = Case { plan: Plan { capacity: vec![1024, 512], ..Plan::default() }, ..healthy.clone() };
    let shipped = |case: &Case| -> Vec<u64> {
        let (net, _) = run(case);
        net.hosts.iter().map(|h| h.machine.stats().chunks).collect()
    };
    let (even, uneven) = (shipped(&healthy), shipped(&weak));
    assert!(even.iter().all(|c| *c == even[0]), "{even:?}");
    // At half capacity it reduces nothing and ships its S bytes once; the others reduce a third each and ship (1 + 2/3)S.
    let ratio = uneven[1] as f64 / uneven[0] as f64;
    assert!((ratio - 0.6).abs() < 0.02, "{uneven:?}");
}
