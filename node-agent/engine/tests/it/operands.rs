//! Operands stay in the ranks' own memory: in every arrangement the results are right, and who writes there while a call runs
//! harms nobody but its own results.

use std::sync::atomic::{AtomicBool, Ordering};

use node_agent_client::{Buffer, Call, Client, Dtype, Operation, ReduceOp, Work};
use node_agent_engine::control::{Reply, Request};

use crate::world::World;

const NODES: &[usize] = &[0, 1, 2];

fn call(operation: Operation, count: usize) -> Call {
    Call { operation, dtype: Dtype::I32, reduce: ReduceOp::Sum, count: count as u64 }
}

fn values(buffer: &Buffer, from: usize, count: usize) -> Vec<i32> {
    let mut values = vec![0; count];
    buffer.read(4 * from, &mut values).unwrap();
    values
}

/// What rank `rank` has at `at`.
fn value(rank: usize, at: usize) -> i32 {
    (rank * 100_000 + at) as i32
}

fn fill(buffer: &Buffer, from: usize, rank: usize, range: std::ops::Range<usize>) {
    buffer.write(4 * from, &range.map(|at| value(rank, at)).collect::<Vec<_>>()).unwrap();
}

/// Every operation with input and output apart, in one buffer side by side, and in place, checked element by element.
fn arrangements(client: &Client, count: usize) {
    let (rank, world) = (client.rank() as usize, client.size() as usize);
    let all = client.alloc((4 * count * (2 * world + 2)) as u64).unwrap();
    let run = |operation, input: usize, output: usize| {
        let (input, output) = (all.at(4 * input as u64), all.at(4 * output as u64));
        client.run(Work { call: call(operation, count), input: Some(input), output: Some(output) }).unwrap();
    };
    let sums: Vec<i32> = (0..count).map(|at| (0..world).map(|r| value(r, at)).sum()).collect();
    // All-reduce: apart in one buffer, then in place.
    fill(&all, 0, rank, 0..count);
    run(Operation::AllReduce, 0, count);
    assert_eq!(values(&all, count, count), sums);
    assert_eq!(values(&all, 0, count), (0..count).map(|at| value(rank, at)).collect::<Vec<_>>(), "only read");
    run(Operation::AllReduce, 0, 0);
    assert_eq!(values(&all, 0, count), sums);
    // All-gather: apart, then with the input where its part of the output is.
    let gathered: Vec<i32> = (0..world).flat_map(|r| (0..count).map(move |at| value(r, at))).collect();
    fill(&all, 0, rank, 0..count);
    run(Operation::AllGather, 0, count);
    assert_eq!(values(&all, count, world * count), gathered);
    all.write(0, &vec![-1; world * count]).unwrap();
    fill(&all, rank * count, rank, 0..count);
    run(Operation::AllGather, rank * count, 0);
    assert_eq!(values(&all, 0, world * count), gathered);
    // Reduce-scatter: apart, then with the output where its part of the input is.
    let part: Vec<i32> =
        (rank * count..(rank + 1) * count).map(|at| (0..world).map(|r| value(r, at)).sum()).collect();
    fill(&all, 0, rank, 0..world * count);
    run(Operation::ReduceScatter, 0, world * count);
    assert_eq!(values(&all, world * count, count), part);
    run(Operation::ReduceScatter, 0, rank * count);
    assert_eq!(values(&all, rank * count, count), part);
    // Broadcast: the root's result apart from its input, then in place.
    let root = world - 1;
    for output in [count, 0] {
        all.write(0, &vec![-1; 2 * count]).unwrap();
        if rank == root {
            fill(&all, 0, root, 0..count);
        }
        run(Operation::Broadcast { root: root as u32 }, 0, output);
        assert_eq!(values(&all, output, count), (0..count).map(|at| value(root, at)).collect::<Vec<_>>());
    }
    // All-to-all, and a message.
    fill(&all, 0, rank, 0..world * count);
    run(Operation::AllToAll, 0, world * count);
    let mine = |r| (rank * count..(rank + 1) * count).map(move |at| value(r, at));
    let want: Vec<i32> = (0..world).flat_map(mine).collect();
    assert_eq!(values(&all, world * count, world * count), want);
    client.barrier().unwrap();
    let message = |operation, input, output| client.run(Work { call: call(operation, count), input, output });
    if rank == 0 {
        fill(&all, 0, 0, 0..count);
        message(Operation::Send { to: 1, tag: 7 }, Some(all.start()), None).unwrap();
    } else if rank == 1 {
        message(Operation::Recv { from: 0, tag: 7 }, None, Some(all.at(4 * count as u64))).unwrap();
        assert_eq!(values(&all, count, count), (0..count).map(|at| value(0, at)).collect::<Vec<_>>());
    }
    client.barrier().unwrap();
}

/// With checksums operands are copied first, without they stay where they are: the results are the same.
#[test]
fn operands_may_lie_anywhere() {
    for checksum in [false, true] {
        let world = World::with(NODES, 2, |config| config.checksum = checksum);
        world
            .each_rank(|client| [1, 1000, 70_001].into_iter().for_each(|count| arrangements(&client, count)));
    }
}

/// A rank that writes its operands while they are sent, summed and received spoils results, and nothing else: every call ends, no
/// rail is lost, and what is computed afterwards is right.
#[test]
fn who_writes_operands_meanwhile_spoils_only_results() {
    const COUNT: usize = 300_000;
    for checksum in [false, true] {
        let world = World::with(NODES, 2, |config| config.checksum = checksum);
        world.each_rank(|client| {
            let buffer = client.alloc(4 * COUNT as u64).unwrap();
            let work = || Work {
                call: call(Operation::AllReduce, COUNT),
                input: Some(buffer.start()),
                output: Some(buffer.start()),
            };
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let scribbler = (client.rank() == 0).then(|| {
                    scope.spawn(|| {
                        for round in (0..=u8::MAX).cycle() {
                            buffer.write_bytes(0, &[round; 4 * COUNT]).unwrap();
                            if stop.load(Ordering::Relaxed) {
                                return;
                            }
                        }
                    })
                });
                (0..30).for_each(|_| client.run(work()).unwrap());
                stop.store(true, Ordering::Relaxed);
                if let Some(scribbler) = scribbler {
                    scribbler.join().unwrap();
                }
            });
            client.barrier().unwrap();
            arrangements(&client, 1000);
        });
        for engine in &world.engines {
            let Reply::Rails(rails) = engine.ask(&Request::Rails {}) else { panic!("no answer") };
            assert!(rails.rails.iter().all(|rail| rail.flaps == 0), "{rails:?}");
        }
    }
}
