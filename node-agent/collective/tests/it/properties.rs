//! Right results for every operation, dtype, reduction, rank map, size, rail count, chunk size and interleaving.

use node_agent_collective::shape::Tuning;
use node_agent_collective::units::{Node, Time};
use node_agent_collective::{Algorithm, Call, Dtype, Memory, Operation, Plan, ReduceOp, Region};
use proptest::prelude::*;
use proto_random::Random;

use crate::reference;
use crate::sim::{Net, World};

/// Operations to run one after the other (all posted at once), on a world.
#[derive(Debug, Clone)]
pub struct Case {
    pub world: World,
    pub plan: Plan,
    pub calls: Vec<Call>,
    pub in_place: bool,
    pub seed: u64,
}

pub fn tuning(tight: bool) -> Tuning {
    if !tight {
        return Tuning::default();
    }
    Tuning { link_window: Some(300), eager_bytes: 128, eager_chunks: 2, stage_bytes: 1, ..Tuning::default() }
}

prop_compose! {
    pub fn worlds()(
        nodes in 1usize..=6, extra in prop::collection::vec(any::<u16>(), 0..=10),
        order in any::<u64>(), rails in 1usize..=8, chunk in 1usize..=40, tight: bool,
        algorithm in prop::option::weighted(0.8, prop::sample::select(Algorithm::ALL)),
    ) -> World {
        let tuning = Tuning { algorithm, ..tuning(tight) };
        let mut map: Vec<Node> = (0..nodes as Node).collect();
        map.extend(extra.iter().map(|e| e % nodes as Node));
        let mut rng = Random::new(order);
        for i in (1..map.len()).rev() {
            map.swap(i, rng.index(i + 1));
        }
        World { map, rails, chunk: chunk * 64, tuning, timeout: Time::from_secs(3600), checksum: false }
    }
}

prop_compose! {
    pub fn calls(world: usize)(kind in 0usize..6, dtype in 0usize..6, reduce in 0usize..4, root in 0..world as u32,
        count in prop_oneof![Just(0u64), 1u64..8, 1u64..300, 300u64..3000]) -> Call {
        let operation = [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter,
            Operation::Broadcast { root }, Operation::AllToAll, Operation::Barrier][kind];
        Call { operation, dtype: Dtype::ALL[dtype], reduce: ReduceOp::ALL[reduce], count }
    }
}

pub fn cases() -> impl Strategy<Value = Case> {
    (worlds(), any::<bool>(), any::<u64>()).prop_flat_map(|(world, in_place, seed)| {
        let calls = prop::collection::vec(calls(world.map.len()), 1..5);
        calls.prop_map(move |calls| Case {
            world: world.clone(),
            plan: Plan::default(),
            calls,
            in_place,
            seed,
        })
    })
}

/// Inputs that make rounding and order visible, with some special values.
fn input(dtype: Dtype, bytes: usize, rng: &mut Random) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes);
    while out.len() < bytes {
        let (small, sign) = (rng.index(2000) as f64 / 97.0, if rng.index(2) == 0 { 1.0 } else { -1.0 });
        let v = match rng.index(60) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -0.0,
            3 => 1e30 * sign,
            _ => small * sign,
        };
        match dtype {
            Dtype::F32 => out.extend((v as f32).to_ne_bytes()),
            Dtype::F64 => out.extend(v.to_ne_bytes()),
            Dtype::F16 => out.extend(half::f16::from_f64(v).to_bits().to_ne_bytes()),
            Dtype::Bf16 => out.extend(half::bf16::from_f64(v).to_bits().to_ne_bytes()),
            Dtype::I32 => out.extend((rng.word() as i32).to_ne_bytes()),
            Dtype::I64 => out.extend((rng.word() as i64).to_ne_bytes()),
        }
    }
    out
}

/// The regions of a rank's call, with its input filled in, in place if that can be.
fn buffers(net: &mut Net, case: &Case, call: &Call, rank: usize, data: &[u8]) -> (Region, Region) {
    let world = case.world.map.len();
    let memory = &mut net.hosts[usize::from(case.world.map[rank])].memory;
    let (output, part) = (call.output_bytes(world).unwrap(), call.bytes().unwrap());
    if !case.in_place || matches!(call.operation, Operation::AllToAll | Operation::Barrier) {
        return (memory.insert(data.to_vec()), memory.insert(vec![0xdd; output]));
    }
    match call.operation {
        Operation::AllGather => {
            let whole = memory.insert(vec![0xdd; output]);
            let input = whole.part(rank * part, part);
            memory.bytes_mut(input).unwrap().copy_from_slice(data);
            (input, whole)
        }
        Operation::ReduceScatter => {
            let whole = memory.insert(data.to_vec());
            (whole, whole.part(rank * part, part))
        }
        _ => {
            let whole = memory.insert(data.to_vec());
            (whole, whole)
        }
    }
}

/// Runs a case, checks every output against the reference, and gives all outputs.
pub fn run(case: &Case) -> (Net, Vec<Vec<u8>>) {
    run_in(case, &mut |_| {})
}

/// The same, while something happens to the network between its steps.
pub fn run_in(case: &Case, weather: &mut dyn FnMut(&mut Net)) -> (Net, Vec<Vec<u8>>) {
    let (net, outputs, expected) = outcome(case, weather);
    for (i, (got, (rank, call, want))) in outputs.iter().zip(expected).enumerate() {
        let differs = (0..want.len()).find(|&b| want[b] != got[b]);
        assert_eq!(differs, None, "output {i}, rank {rank}, {call}: first wrong byte");
    }
    (net, outputs)
}

/// A rank, its call and what the reference gives for it.
type Expected = (usize, Call, Vec<u8>);

/// Runs a case, and gives all outputs and what they should be.
pub fn outcome(case: &Case, weather: &mut dyn FnMut(&mut Net)) -> (Net, Vec<Vec<u8>>, Vec<Expected>) {
    let map = &case.world.map;
    let mut net = Net::new(&case.world, case.seed);
    net.hosts.iter_mut().for_each(|host| host.machine.set_plan(case.plan.clone()));
    let mut data = Random::new(42);
    let mut expected = Vec::new();
    let mut posts = Vec::new();
    for (i, call) in case.calls.iter().enumerate() {
        let bytes = call.input_bytes(map.len()).unwrap();
        let inputs: Vec<Vec<u8>> = map.iter().map(|_| input(call.dtype, bytes, &mut data)).collect();
        for (rank, input) in inputs.iter().enumerate() {
            let (input, output) = buffers(&mut net, case, call, rank, input);
            posts.push((rank, i, input, output));
        }
        expected.push(reference::outputs(call, map, &inputs));
    }
    // Ranks post in any order, but each its own calls in turn; the network runs meanwhile.
    let mut next = vec![0; map.len()];
    for _ in 0..posts.len() {
        let open: Vec<usize> = (0..map.len()).filter(|&r| next[r] < case.calls.len()).collect();
        let rank = open[net.rng.index(open.len())];
        let &(_, i, input, output) = posts.iter().find(|p| (p.0, p.1) == (rank, next[rank])).unwrap();
        next[rank] += 1;
        net.post(map, rank, case.calls[i], input, output);
        (0..net.rng.index(30)).for_each(|_| {
            weather(&mut net);
            net.step();
        });
    }
    net.run_with(posts.len(), weather);
    for host in &net.hosts {
        assert!(host.done.values().all(Result::is_ok), "{:?}", host.ended);
    }
    let (mut outputs, mut wanted) = (Vec::new(), Vec::new());
    for (rank, i, _, output) in posts {
        outputs.push(net.hosts[usize::from(map[rank])].memory.bytes(output).unwrap().to_vec());
        wanted.push((rank, case.calls[i], expected[i][rank].clone()));
    }
    (net, outputs, wanted)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_gives_what_the_reference_gives(case in cases()) {
        let (mut net, _) = run(&case);
        net.settle();
        for host in &net.hosts {
            prop_assert!(host.machine.failure().is_none());
        }
    }

    /// Rails, chunks, windows and interleavings do not show in a single bit.
    #[test]
    fn results_do_not_depend_on_how_they_came(case in cases(), rails in 1usize..=8, chunk in 1usize..=40, tight: bool, seed: u64) {
        let mut other = case.clone();
        other.world.rails = rails;
        other.world.chunk = chunk * 64;
        other.world.tuning = tuning(tight);
        other.seed = seed;
        prop_assert_eq!(run(&case).1, run(&other).1);
    }

    /// Messages between random pairs, under a few tags, posted in any order on both sides.
    #[test]
    fn messages_arrive_in_order(world in worlds(), seed: u64, plan in prop::collection::vec((any::<u8>(), any::<u8>(), 0u32..2, 0u64..4000), 1..12)) {
        let map = world.map.clone();
        prop_assume!(map.len() > 1);
        let mut net = Net::new(&world, seed);
        let mut posts = Vec::new();
        for (i, &(a, b, tag, count)) in plan.iter().enumerate() {
            let (a, b) = (usize::from(a) % map.len(), usize::from(b) % map.len());
            if a == b { continue; }
            let data: Vec<u8> = (0..count * 4).map(|j| (j as usize * 7 + i) as u8).collect();
            let call = |operation| Call { operation, dtype: Dtype::I32, reduce: ReduceOp::Sum, count };
            let input = net.hosts[usize::from(map[a])].memory.insert(data.clone());
            let output = net.hosts[usize::from(map[b])].memory.insert(vec![0; data.len()]);
            posts.push((a, call(Operation::Send { to: b as u32, tag }), input, Region::EMPTY, None, (a, b, tag, 0)));
            posts.push((b, call(Operation::Recv { from: a as u32, tag }), Region::EMPTY, output, Some(data), (a, b, tag, 1)));
        }
        let mut waiting: Vec<usize> = (0..posts.len()).collect();
        while !waiting.is_empty() {
            let pick = net.rng.index(waiting.len());
            let stream = posts[waiting[pick]].5;
            // The first of its stream and side: order within a stream is the order of posts.
            let at = waiting.iter().position(|&w| posts[w].5 == stream).unwrap();
            let (rank, call, input, output, ..) = posts[waiting.remove(at)];
            net.post(&map, rank, call, input, output);
            (0..net.rng.index(20)).for_each(|_| { net.step(); });
        }
        net.run(posts.len());
        for (rank, _, _, output, want, _) in posts {
            let host = &net.hosts[usize::from(map[rank])];
            prop_assert!(host.machine.failure().is_none(), "{:?}", host.machine.failure());
            if let Some(want) = want {
                prop_assert_eq!(host.memory.bytes(output).unwrap(), &want[..]);
            }
        }
    }
}

#[test]
fn equal_rails_end_balanced() {
    for rails in [2usize, 3, 4, 8] {
        for nodes in [2u16, 4] {
            let world = World {
                map: (0..nodes).collect(),
                rails,
                chunk: 4096,
                tuning: Tuning::default(),
                timeout: Time::from_secs(3600),
                checksum: false,
            };
            let call = Call {
                operation: Operation::AllReduce,
                dtype: Dtype::F32,
                reduce: ReduceOp::Sum,
                count: 300_000,
            };
            let (net, _) =
                run(&Case { world, plan: Plan::default(), calls: vec![call], in_place: true, seed: 5 });
            let (least, most) = (net.carried.iter().min().unwrap(), net.carried.iter().max().unwrap());
            // Rails are served in random order here, so each draws what it happens to get rid of.
            assert!((most - least) * 5 < *most, "{rails} rails, {nodes} nodes: {:?}", net.carried);
        }
    }
}

#[test]
fn many_operations_may_be_outstanding() {
    let world = World {
        map: vec![0, 1, 2, 0],
        rails: 2,
        chunk: 256,
        tuning: tuning(true),
        timeout: Time::from_secs(3600),
        checksum: false,
    };
    let call = |i: usize| Call {
        operation: [Operation::AllReduce, Operation::Barrier, Operation::ReduceScatter][i % 3],
        dtype: Dtype::I64,
        reduce: ReduceOp::Sum,
        count: (i as u64 * 37) % 200,
    };
    run(&Case {
        world,
        plan: Plan::default(),
        calls: (0..100).map(call).collect(),
        in_place: false,
        seed: 9,
    });
}
