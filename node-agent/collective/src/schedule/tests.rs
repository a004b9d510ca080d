//! The schedules of all nodes fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::*;
use crate::algorithm::Algorithm;
use crate::call::{Call, Operation};
use crate::call::{Dtype, ReduceOp};
use crate::memory::Region;
use crate::plan::Plan;
use crate::shape::{Config, Layout, Tuning};
use crate::units::{Node, Time};

const KINDS: [Operation; 6] = [
    Operation::AllReduce,
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::Broadcast { root: 0 },
    Operation::AllToAll,
    Operation::Barrier,
];

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

/// Calls `check` with the schedules of all nodes for many operations, sizes, rank maps, plans and algorithms.
fn for_all(check: impl Fn(&str, &[Schedule])) {
    let maps: [&[Node]; 5] =
        [&[0], &[0, 1, 0, 1], &[0, 1, 2, 3], &[2, 0, 0, 1, 2, 2, 3, 4], &[0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 0]];
    let plans = [
        Plan::default(),
        Plan { capacity: vec![1024, 768, 1024, 512], ..Plan::default() },
        Plan { capacity: vec![1024, 1], reproducible: false, ..Plan::default() },
    ];
    for ranks in maps {
        for operation in KINDS {
            for (count, plan) in
                [0, 1, 100, 40_000].into_iter().flat_map(|c| plans.iter().map(move |p| (c, p)))
            {
                for &algorithm in Algorithm::ALL {
                    let call = Call { operation, dtype: Dtype::F32, reduce: ReduceOp::Sum, count };
                    let schedule = |node: Node| {
                        let config = config(node, ranks);
                        let layout = Layout::new(node, config.nodes, ranks);
                        Schedule::by(algorithm, &call, &layout, &config, plan)
                    };
                    let nodes = config(0, ranks).nodes as Node;
                    let all: Vec<Schedule> = (0..nodes).map(schedule).collect();
                    check(&format!("{algorithm} {call} on {ranks:?}"), &all);
                }
            }
        }
    }
}

/// Every sent flow has exactly one receiver with the same name, length and cut, and the other way round.
#[test]
fn flows_of_all_nodes_match() {
    for_all(|name, schedules| {
        let (mut sent, mut got) = (BTreeMap::new(), BTreeMap::new());
        for (node, schedule) in schedules.iter().enumerate() {
            let node = node as Node;
            for f in &schedule.sends {
                assert!(f.step <= SECOND);
                let twice = sent.insert((f.step, f.block, node, f.peer), (f.bytes, f.chunks, f.granted));
                assert_eq!(twice, None, "{name}");
            }
            for f in &schedule.receives {
                let granted = f.contribution.is_some();
                let twice = got.insert((f.step, f.block, f.peer, node), (f.bytes, f.chunks, granted));
                assert_eq!(twice, None, "{name}");
            }
        }
        assert_eq!(sent, got, "{name}");
    });
}

/// A grant names a reduction by its block, and a reduction finds its flows.
#[test]
fn reductions_and_their_flows_match() {
    for_all(|name, schedules| {
        for schedule in schedules {
            let mut named = BTreeSet::new();
            for (index, reduction) in schedule.reductions.iter().enumerate() {
                for (source, &peer) in reduction.sources.iter().enumerate() {
                    assert!(named.insert((peer, reduction.block)), "{name}");
                    let flows = schedule.receives.iter().filter(|f| {
                        f.contribution == Some(Contribution { reduction: index, source })
                            && (f.step, f.block, f.peer) == (FIRST, reduction.block, peer)
                            && f.bytes == reduction.bytes * f.answers_for.len().max(1)
                            && f.chunks == reduction.chunks
                    });
                    assert_eq!(flows.count(), 1, "{name}");
                }
                let term = |term: &Term| match *term {
                    Term::Own => None,
                    Term::Staged(source) => Some((source, 0)),
                    Term::Within { source, part } => Some((source, part)),
                };
                let terms: BTreeSet<_> = reduction.cycle.iter().map(term).collect();
                let parts = |source: usize| {
                    let contribution = Some(Contribution { reduction: index, source });
                    let mut flows = schedule.receives.iter();
                    let flow = flows.find(|f| f.contribution == contribution).unwrap();
                    (0..flow.answers_for.len().max(1)).map(move |part| Some((source, part)))
                };
                let all: BTreeSet<_> =
                    std::iter::once(None).chain((0..reduction.sources.len()).flat_map(parts)).collect();
                assert_eq!(terms, all, "{name}");
                assert_eq!(terms.len(), reduction.cycle.len(), "{name}");
                let ends = reduction.turns.iter().map(|t| t.stream.end);
                let starts = reduction.turns.iter().map(|t| t.stream.start);
                assert!(std::iter::once(0).chain(ends).eq(starts.chain([reduction.bytes])), "{name}");
            }
        }
    });
}

/// Reductions that wait for each other do so in one direction only; what is sent from one, or relayed, exists.
#[test]
fn nothing_waits_for_itself() {
    for_all(|name, schedules| {
        for schedule in schedules {
            for (index, reduction) in schedule.reductions.iter().enumerate() {
                assert!(reduction.after.is_none_or(|(from, _)| from < index), "{name}");
                // Partial sums leave the node exactly once.
                let leaves = schedule.sends.iter().filter(|f| f.source == Source::Reduced(index)).count();
                assert!(!reduction.outputs.is_empty() || leaves == 1, "{name}");
            }
            for flow in &schedule.sends {
                match &flow.source {
                    Source::Inputs => assert!(!flow.segments.is_empty(), "{name}"),
                    Source::Reduced(index) => {
                        assert_eq!(schedule.reductions[*index].bytes, flow.bytes, "{name}")
                    }
                    Source::Relayed(index) => {
                        assert_eq!(schedule.receives[*index].bytes, flow.bytes, "{name}")
                    }
                    Source::After(needs) => {
                        assert_eq!(needs.iter().map(|n| n.stream.len()).sum::<usize>(), flow.bytes, "{name}");
                    }
                    Source::Gathered { reduction, parts } => {
                        let own = schedule.reductions[*reduction].bytes;
                        let length = |term: &Term| match *term {
                            Term::Staged(source) => {
                                let contribution = Some(Contribution { reduction: *reduction, source });
                                let mut flows = schedule.receives.iter();
                                flows.find(|f| f.contribution == contribution).unwrap().bytes
                            }
                            _ => own,
                        };
                        let mut covered: Vec<_> =
                            parts.iter().map(|(term, at)| (*at, at + length(term))).collect();
                        covered.sort_unstable();
                        let (starts, ends) = (covered.iter().map(|c| c.0), covered.iter().map(|c| c.1));
                        assert!(
                            std::iter::once(0).chain(ends).eq(starts.chain([flow.bytes])),
                            "{name} {covered:?}"
                        );
                    }
                }
            }
        }
    });
}

/// What is staged at once fits what every node sets aside for one reduction of all.
#[test]
fn staging_needs_no_more_than_a_window_for_each_peer() {
    for_all(|name, schedules| {
        for schedule in schedules {
            let staged: usize = schedule.reductions.iter().map(|r| r.sources.len()).sum();
            assert!(staged < schedules.len().max(1), "{name}: {staged}");
        }
    });
}

/// What each node ships, in bytes, for an all-reduce of f32 with one rank on each node.
fn shipped(algorithm: Algorithm, nodes: usize, count: u64, capacity: Vec<u16>) -> Vec<usize> {
    let ranks: Vec<Node> = (0..nodes as Node).collect();
    let plan = Plan { capacity, reproducible: false, ..Plan::default() };
    let call = Call { operation: Operation::AllReduce, dtype: Dtype::F32, reduce: ReduceOp::Sum, count };
    let of = |node: Node| {
        let layout = Layout::new(node, nodes, &ranks);
        let schedule = Schedule::by(algorithm, &call, &layout, &config(node, &ranks), &plan);
        schedule.sends.iter().map(|f| f.bytes).sum()
    };
    (0..nodes as Node).map(of).collect()
}

#[test]
fn nodes_ship_what_the_model_says() {
    let (count, bytes) = (64_000, 256_000);
    for algorithm in [Algorithm::Direct, Algorithm::Ring, Algorithm::Halving] {
        assert_eq!(shipped(algorithm, 8, count, Vec::new()), [2 * 7 * bytes / 8; 8], "{algorithm}");
    }
    assert_eq!(shipped(Algorithm::OneShot, 8, count, Vec::new()), [7 * bytes; 8]);
    // One node of four has lost one of its four rails: 1.067 times the healthy time on all.
    let weak = shipped(Algorithm::Direct, 4, 64_000, vec![1024, 1024, 768, 1024]);
    let times: Vec<f64> = weak.iter().zip([4.0, 4.0, 3.0, 4.0]).map(|(&b, c)| b as f64 / c).collect();
    let healthy = 6.0 * bytes as f64 / 4.0 / 4.0;
    assert!(times.iter().all(|t| (t / healthy - 1.0667).abs() < 0.002), "{times:?} {healthy}");
}

/// Every node has the contributions of all after its log2 n messages, and hears of all nodes.
#[test]
fn doubling_brings_everything_everywhere() {
    let ranks: Vec<Node> = (0..16).collect();
    let call = Call { operation: Operation::AllReduce, dtype: Dtype::F32, reduce: ReduceOp::Sum, count: 64 };
    for node in 0..16 {
        let layout = Layout::new(node, 16, &ranks);
        let of = Schedule::by(Algorithm::Doubling, &call, &layout, &config(node, &ranks), &Plan::default());
        let peers: Vec<Node> = of.sends.iter().map(|f| f.peer).collect();
        assert_eq!(peers, [node ^ 1, node ^ 2, node ^ 4, node ^ 8]);
        let mut heard: Vec<Node> = of.receives.iter().flat_map(|f| f.answers_for.clone()).collect();
        heard.sort_unstable();
        assert_eq!(heard, (0..16).filter(|&n| n != node).collect::<Vec<_>>());
        assert!(of.is_answered_for(node ^ 3) && !of.is_answered_for(node ^ 2) && !of.is_answered_for(node));
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
