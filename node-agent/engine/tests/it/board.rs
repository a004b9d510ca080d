//! Collectives that the ranks of one server do themselves: any memory beside any other, the bits of the collective core, and
//! ranks that disagree, come late, leave, or write nonsense over what all of them share.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use node_agent_client::{Buffer, Call, Client, Dtype, FailureCode, Operands, Operation, ReduceOp, Work};
use node_agent_collective::{Arena, Region, kernel};
use node_agent_engine::control::{EngineState, Reply, Request, Stats};
use node_agent_ipc::{Board, Channel, Reply as RankReply, Request as RankRequest, Table};

use crate::world::{LONG, World};

/// Numbers that look random but are the same everywhere.
fn bytes_of(rank: u32, len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed ^ u64::from(rank).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// What the collective core makes of these inputs on one node.
fn reduced(dtype: Dtype, op: ReduceOp, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut arena = Arena::new();
    let regions: Vec<Region> = inputs.iter().map(|bytes| arena.insert(bytes.clone())).collect();
    let output = arena.insert(vec![0; inputs[0].len()]);
    kernel::reduce(&mut arena, dtype, op, &[&regions], &[output]).unwrap();
    arena.remove(output.buffer).unwrap()
}

/// What rank `rank` of `size` must end with; random bits, so every kind of value.
fn expected(call: &Call, rank: usize, inputs: &[Vec<u8>]) -> Vec<u8> {
    let block = call.bytes().unwrap();
    let part = |source: &Vec<u8>, at: usize| source[at * block..(at + 1) * block].to_vec();
    match call.operation {
        Operation::AllReduce => reduced(call.dtype, call.reduce, inputs),
        Operation::ReduceScatter => {
            let blocks: Vec<Vec<u8>> = inputs.iter().map(|input| part(input, rank)).collect();
            reduced(call.dtype, call.reduce, &blocks)
        }
        Operation::AllGather => inputs.concat(),
        Operation::AllToAll => inputs.iter().flat_map(|input| part(input, rank)).collect(),
        Operation::Broadcast { root } => inputs[root as usize].clone(),
        _ => Vec::new(),
    }
}

fn calls(dtype: Dtype, count: u64, size: u32) -> impl Iterator<Item = Call> {
    let root = size - 1;
    let all = [
        Operation::AllReduce,
        Operation::ReduceScatter,
        Operation::AllGather,
        Operation::AllToAll,
        Operation::Broadcast { root },
    ];
    all.into_iter().map(move |operation| Call { operation, dtype, reduce: ReduceOp::Sum, count })
}

/// One call on this rank in the memory that `shared` says; gives the output.
fn call_in(client: &Client, call: Call, input: &[u8], output_len: usize, shared: bool) -> Vec<u8> {
    let mut output = vec![0; output_len];
    if shared {
        let (from, to) = (filled(client, input), client.alloc(output_len.max(1) as u64).unwrap());
        client.run(Work { call, input: Some(from.start()), output: Some(to.start()) }).unwrap();
        to.read_bytes(0, &mut output).unwrap();
    } else if matches!(call.operation, Operation::Broadcast { .. }) {
        output.copy_from_slice(input);
        client.run_bytes(call, Operands::InPlace(&mut output)).unwrap();
    } else {
        client.run_bytes(call, Operands::Both(input, &mut output)).unwrap();
    }
    output
}

fn filled(client: &Client, bytes: &[u8]) -> Buffer {
    let buffer = client.alloc(bytes.len().max(1) as u64).unwrap();
    buffer.write_bytes(0, bytes).unwrap();
    buffer
}

/// Every operation, type and size around tiles and pieces, with shared and ordinary memory in every mixture: the bits are
/// those of the collective core.
#[test]
fn any_memory_beside_any_other_gives_the_cores_bits() {
    for ranks in [&[0, 0][..], &[0, 0, 0]] {
        let world = World::new(ranks, 0);
        world.each_rank(|client| {
            let size = client.size();
            for (round, (dtype, count)) in [
                (Dtype::F32, 1),
                (Dtype::F16, 1000),
                (Dtype::Bf16, 100_003),
                (Dtype::F32, 300_001),
                (Dtype::F64, 70_000),
            ]
            .into_iter()
            .enumerate()
            {
                for call in calls(dtype, count, size) {
                    for mixture in 0..1_u32 << size {
                        let seed = u64::from(mixture) + 100 * round as u64;
                        let len = call.input_bytes(size as usize).unwrap();
                        let inputs: Vec<Vec<u8>> = (0..size).map(|rank| bytes_of(rank, len, seed)).collect();
                        let rank = client.rank() as usize;
                        let output = call.output_bytes(size as usize).unwrap();
                        let shared = mixture >> rank & 1 == 1;
                        let found = call_in(&client, call, &inputs[rank], output, shared);
                        let right = expected(&call, rank, &inputs);
                        assert!(found == right, "{call}, mixture {mixture:b}, rank {rank} of {size}");
                    }
                }
            }
        });
    }
}

/// Inputs and outputs that share memory: the places where that is usual, and a place where it only works by a copy.
#[test]
fn operands_may_overlap() {
    let world = World::new(&[0, 0, 0], 0);
    world.each_rank(|client| {
        let (rank, size) = (client.rank() as usize, 3);
        let count = 50_000;
        let block = 4 * count;
        for operation in
            [Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll, Operation::AllReduce]
        {
            let call = Call { operation, dtype: Dtype::I32, reduce: ReduceOp::Sum, count: count as u64 };
            let inputs: Vec<Vec<u8>> =
                (0..3).map(|rank| bytes_of(rank, call.input_bytes(size).unwrap(), 7)).collect();
            let buffer = client.alloc(4 * block as u64).unwrap();
            let (from, to) = match operation {
                Operation::AllGather => (rank * block, 0),
                Operation::ReduceScatter => (0, rank * block),
                Operation::AllToAll => (0, 0),
                _ => (0, 4 * 1000),
            };
            buffer.write_bytes(from, &inputs[rank]).unwrap();
            let (input, output) = (Some(buffer.at(from as u64)), Some(buffer.at(to as u64)));
            client.run(Work { call, input, output }).unwrap();
            let right = expected(&call, rank, &inputs);
            let mut found = vec![0; right.len()];
            buffer.read_bytes(to, &mut found).unwrap();
            assert!(found == right, "{call}, rank {rank}");
        }
    });
}

/// A rank that has posted and does something else is not needed: those who wait do the work.
#[test]
fn a_call_is_done_by_whoever_waits() {
    let world = World::new(&[0, 0], 0);
    let (zero, one) = (world.attach(0), world.attach(1));
    let call =
        Call { operation: Operation::AllReduce, dtype: Dtype::I64, reduce: ReduceOp::Sum, count: 500_000 };
    let (a, b) = (filled(&zero, &bytes_of(0, 4_000_000, 1)), filled(&one, &bytes_of(1, 4_000_000, 1)));
    let here =
        |buffer| Work { call, input: Some(Buffer::start(buffer)), output: Some(Buffer::start(buffer)) };
    let mut posted = zero.post(here(&a)).unwrap();
    assert!(posted.poll().is_none());
    one.run(here(&b)).unwrap();
    // Nothing is left to do for it.
    assert!(posted.poll().unwrap().is_ok());
    let (mut left, mut right) = (vec![0; 4_000_000], vec![0; 4_000_000]);
    a.read_bytes(0, &mut left).unwrap();
    b.read_bytes(0, &mut right).unwrap();
    assert!(left == right);
}

/// Many calls that nobody waits for: each is done on the way to the later ones.
#[test]
fn dropped_calls_are_done_and_do_not_pile_up() {
    let world = World::new(&[0, 0], 0);
    world.each_rank(|client| {
        let buffer = filled(&client, &1_i32.to_ne_bytes());
        let call =
            Call { operation: Operation::AllReduce, dtype: Dtype::I32, reduce: ReduceOp::Sum, count: 1 };
        for _ in 0..20 {
            drop(
                client
                    .post(Work { call, input: Some(buffer.start()), output: Some(buffer.start()) })
                    .unwrap(),
            );
            client.barrier().unwrap();
        }
        let mut found = [0];
        buffer.read(0, &mut found).unwrap();
        assert_eq!(found, [1 << 20]);
        (0..500).for_each(|_| client.barrier().unwrap());
    });
    let Reply::Stats(Stats { ops, first_collective, .. }) = world.engines[0].ask(&Request::Stats {}) else {
        panic!("no stats")
    };
    assert!(ops >= 500, "{ops}");
    assert_eq!(first_collective.unwrap().operation, "all-reduce");
}

/// Buffers come and go; what another rank has mapped of them is let go too.
#[test]
fn buffers_may_come_and_go() {
    let world = World::new(&[0, 0], 0);
    world.each_rank(|client| {
        let call =
            Call { operation: Operation::AllReduce, dtype: Dtype::I32, reduce: ReduceOp::Sum, count: 1000 };
        for round in 0..100_i32 {
            let buffer = client.alloc(4000).unwrap();
            buffer.write(0, &[round; 1000]).unwrap();
            client.run(Work { call, input: Some(buffer.start()), output: Some(buffer.start()) }).unwrap();
            let mut found = [0; 1000];
            buffer.read(0, &mut found).unwrap();
            assert_eq!(found, [2 * round; 1000]);
        }
    });
}

/// Whatever the ranks disagree on, each of them is told, and the engine goes on to answer.
#[test]
fn ranks_of_one_server_that_disagree_are_all_told() {
    for change in 0..4 {
        let world = World::new(&[0, 0, 0], 0);
        let found = world.each_rank(|client| {
            let mut call = Call {
                operation: Operation::AllReduce,
                dtype: Dtype::F32,
                reduce: ReduceOp::Sum,
                count: 100,
            };
            if client.rank() == 1 {
                match change {
                    0 => call.count = 101,
                    1 => call.dtype = Dtype::I32,
                    2 => call.reduce = ReduceOp::Max,
                    _ => call.operation = Operation::Broadcast { root: 0 },
                }
            }
            let mut values = vec![0; call.bytes().unwrap()];
            let shared = client.rank() == 2;
            let error = if shared {
                let buffer = client.alloc(1000).unwrap();
                client.run(Work { call, input: Some(buffer.start()), output: Some(buffer.start()) })
            } else {
                client.run_bytes(call, Operands::InPlace(&mut values))
            };
            let again = client.barrier().unwrap_err();
            (error.unwrap_err(), again)
        });
        for (error, again) in found {
            assert_eq!(error.code(), FailureCode::Mismatch, "change {change}: {error}");
            assert_eq!(again.code(), FailureCode::Mismatch, "change {change}: {again}");
            assert!(error.to_string().contains("rank 1"), "{error}");
        }
        assert_eq!(world.engines[0].status().state, EngineState::Failed);
    }
}

#[test]
fn a_rank_of_one_server_that_never_calls_ends_in_a_timeout_for_all() {
    let world = World::with(&[0, 0, 0], 0, |config| config.op_timeout_ms = 60_000);
    let (zero, one, _two) = (world.attach(0), world.attach(1), world.attach(2));
    let start = Instant::now();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| one.barrier().unwrap_err());
        let mut values = [1.0_f32; 10];
        zero.set_timeout(Some(Duration::from_millis(100)));
        // The two even disagree, but that shows only when all are there.
        let error = zero.all_reduce(&mut values, ReduceOp::Sum).unwrap_err();
        assert_eq!(error.code(), FailureCode::TimedOut);
        assert!(error.to_string().contains('2'), "{error}");
        assert_eq!(other.join().unwrap().code(), FailureCode::TimedOut);
    });
    // By the limit of rank 0, not by the engine's.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn a_stopped_engine_ends_what_its_ranks_do_among_themselves() {
    let world = World::new(&[0, 0], 0);
    let (zero, _one) = (world.attach(0), world.attach(1));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| zero.barrier().unwrap_err());
        std::thread::yield_now();
        world.engines[0].ask(&Request::Stop { reason: "cancelled by ada".into() });
        let error = waiting.join().unwrap();
        assert!(matches!(error.code(), FailureCode::Stopped | FailureCode::EngineLost), "{error}");
    });
}

/// A process that speaks the protocol as rank `rank` by hand, and the board that it got.
fn stranger(world: &World, rank: u32, ranks: usize) -> (Channel, Board) {
    let channel = Channel::connect(&world.engines[0].config.socket).unwrap();
    let ask = |id: u64, request: &RankRequest| -> (RankReply, Option<OwnedFd>) {
        channel.send(&request.encode(id), None).unwrap();
        channel.wait_readable(Instant::now() + LONG).unwrap();
        let received = channel.receive().unwrap().unwrap();
        (RankReply::decode(&received.packet).unwrap().1, received.descriptor)
    };
    let hello = RankRequest::Hello { rank, pid: 1, job_uid: String::new() };
    assert!(matches!(ask(1, &hello).0, RankReply::Welcome(_)));
    let (_, file) = ask(2, &RankRequest::Board);
    let board = Board::open(file.unwrap(), ranks).unwrap();
    (channel, board)
}

/// One rank writes nonsense over the whole board, again and again: the others end with a typed error in time (or, if the
/// nonsense happens to look done, go on), the engine answers all the while, and another job does not notice.
#[test]
fn a_rank_that_scribbles_over_the_board_harms_its_own_job_only() {
    let other = World::new(&[0, 0], 0);
    for pattern in 0..4_u64 {
        let world = World::with(&[0, 0], 0, |config| config.op_timeout_ms = 400);
        let victim = world.attach(0);
        let (_channel, board) = stranger(&world, 1, 2);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let scribbler = scope.spawn(|| {
                for round in 0.. {
                    let junk = match pattern {
                        0 => vec![0; 1 << 16],
                        1 => vec![0xff; 1 << 16],
                        2 => vec![1; 1 << 16],
                        _ => bytes_of(round, 1 << 16, 99),
                    };
                    board.region().write(0, &junk).unwrap();
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let start = Instant::now();
            let buffer = victim.alloc(1 << 20).unwrap();
            let call = Call {
                operation: Operation::AllReduce,
                dtype: Dtype::F32,
                reduce: ReduceOp::Sum,
                count: 1 << 18,
            };
            let here = Some(buffer.start());
            for outcome in [
                victim.run(Work { call, input: here, output: here }),
                victim.all_reduce(&mut [0.0_f32; 1000], ReduceOp::Sum),
                victim.barrier(),
            ] {
                if let Err(error) = outcome {
                    assert!(error.code().number() > 0, "{error}");
                }
            }
            assert!(start.elapsed() < LONG, "pattern {pattern}: {:?}", start.elapsed());
            assert_eq!(world.engines[0].status().attached, [0, 1]);
            stop.store(true, Ordering::Relaxed);
            scribbler.join().unwrap();
        });
    }
    let sums = other.each_rank(|client| {
        let mut values = [client.rank() as i32 + 1; 5000];
        client.all_reduce(&mut values, ReduceOp::Sum).unwrap();
        values.iter().all(|value| *value == 3)
    });
    assert_eq!(sums, [true, true]);
}

/// A rank that posts, and dies before the work is done, while it holds a buffer that the others read.
#[test]
fn a_rank_that_dies_holding_a_buffer_is_named_to_all() {
    let world = World::new(&[0, 0, 0], 0);
    let (zero, one) = (world.attach(0), world.attach(1));
    let (channel, board) = stranger(&world, 2, 3);
    let start = Instant::now();
    let errors = std::thread::scope(|scope| {
        let both = [&zero, &one].map(|client| {
            scope.spawn(move || {
                let buffer = client.alloc(4 << 20).unwrap();
                let call = Call {
                    operation: Operation::AllReduce,
                    dtype: Dtype::F32,
                    reduce: ReduceOp::Sum,
                    count: 1 << 20,
                };
                let here = Some(buffer.start());
                client.run(Work { call, input: here, output: here }).unwrap_err()
            })
        });
        while (0..2).any(|rank| board.posted(rank) == 0) {
            std::thread::yield_now();
        }
        drop(channel);
        both.map(|thread| thread.join().unwrap())
    });
    for error in errors {
        assert_eq!(error.code(), FailureCode::RankLost, "{error}");
        assert!(error.to_string().contains("rank 2"), "{error}");
    }
    assert!(start.elapsed() < LONG);
    assert_eq!(world.engines[0].status().attached, [0, 1]);
}

/// Names of buffers that are not there, and the board asked for where there is none.
#[test]
fn what_is_not_there_is_answered() {
    let world = World::new(&[0, 1], 1);
    let client = world.attach(0);
    client.alloc(1).unwrap();
    let channel = Channel::connect(&world.engines[1].config.socket).unwrap();
    let mut next = 0;
    let mut ask = |request: RankRequest| {
        next += 1;
        channel.send(&request.encode(next), None).unwrap();
        channel.wait_readable(Instant::now() + LONG).unwrap();
        RankReply::decode(&channel.receive().unwrap().unwrap().packet).unwrap().1
    };
    ask(RankRequest::Hello { rank: 1, pid: 1, job_uid: String::new() });
    let mut code = |request| match ask(request) {
        RankReply::Failed(failure) => failure.code,
        other => panic!("not a failure: {other:?}"),
    };
    assert_eq!(code(RankRequest::Board), FailureCode::NotReady);
    assert_eq!(code(RankRequest::Map { rank: 0, buffer: 1 }), FailureCode::InvalidArgument);
    assert_eq!(code(RankRequest::Map { rank: 1, buffer: 77 }), FailureCode::InvalidArgument);
    assert_eq!(code(RankRequest::Cause), FailureCode::Internal);
    assert_eq!(world.engines[1].status().cause, None);
}
