//! Every operation and type, on several shapes, with every element checked.

use node_agent_client::{Call, Client, Dtype, Error, OpKind, Operation, ReduceOp, Work};
use node_agent_collective::Algorithm;
use node_agent_engine::bench::{Options, measure};
use node_agent_engine::control::{Reply, Request};
use node_agent_engine::{Engine, Protection, Transport};

use crate::world::{World, key};

fn options(op: OpKind, dtype: Dtype, reduce: ReduceOp, bytes: u64) -> Options {
    Options {
        op,
        bytes,
        dtype,
        reduce,
        iterations: 2,
        warmup: 0,
        verify: true,
        in_place: false,
        ordinary: false,
    }
}

/// One to four nodes with one to three ranks each, even and uneven.
const SHAPES: &[(&[usize], u16)] = &[
    (&[0], 1),
    (&[0, 0, 0], 0),
    (&[0, 1], 1),
    (&[0, 1, 0, 1], 2),
    (&[0, 0, 1, 1, 1, 2], 3),
    (&[0, 1, 2, 3], 4),
];

#[test]
fn every_operation_on_every_shape() {
    for (ranks, rails) in SHAPES {
        let world = World::new(ranks, *rails);
        let found = world.each_rank(|client| {
            for &op in OpKind::ALL {
                if matches!(op, OpKind::Send | OpKind::Recv) && client.size() < 2 {
                    continue;
                }
                for bytes in [0, 8, 4096, 100_000] {
                    let report = measure(&client, &options(op, Dtype::F32, ReduceOp::Sum, bytes)).unwrap();
                    assert!(report.verified, "{op} of {bytes} bytes on {ranks:?}: {report:?}");
                }
            }
            client.detach()
        });
        assert!(found.iter().all(Result::is_ok), "{ranks:?}: {found:?}");
    }
}

#[test]
fn every_type_and_reduction() {
    let world = World::new(&[0, 0, 1], 2);
    world.each_rank(|client| {
        for &dtype in Dtype::ALL {
            for &reduce in ReduceOp::ALL {
                for op in [OpKind::AllReduce, OpKind::ReduceScatter] {
                    let report = measure(&client, &options(op, dtype, reduce, 10_000)).unwrap();
                    assert!(report.verified, "{op} {reduce} of {dtype}: {report:?}");
                }
            }
            let report = measure(&client, &options(OpKind::AllToAll, dtype, ReduceOp::Sum, 10_000)).unwrap();
            assert!(report.verified, "all-to-all of {dtype}");
        }
    });
}

/// Ordinary slices, larger than the staging memory, so that calls are cut into pieces.
#[test]
fn slices_larger_than_a_piece() {
    let world = World::with(&[0, 1, 1], 2, |config| config.chunk_bytes = 256 << 10);
    world.each_rank(|client| slices(&client, 1_500_007));
}

#[test]
fn small_and_empty_slices() {
    let world = World::new(&[0, 1], 1);
    world.each_rank(|client| [0, 1, 2, 1000].into_iter().for_each(|count| slices(&client, count)));
}

fn slices(client: &Client, count: usize) {
    let (rank, size) = (client.rank() as usize, client.size() as usize);
    let value = |rank: usize, at: usize| i32::try_from((rank * 1_000_003 + at * 7) % 10_007).unwrap();
    let mine: Vec<i32> = (0..count).map(|at| value(rank, at)).collect();
    let sum = |at: usize| (0..size).map(|rank| value(rank, at)).sum::<i32>();

    let mut reduced = mine.clone();
    client.all_reduce(&mut reduced, ReduceOp::Sum).unwrap();
    assert!(reduced.iter().enumerate().all(|(at, found)| *found == sum(at)));

    let mut gathered = vec![0; count * size];
    client.all_gather(&mine, &mut gathered).unwrap();
    assert!(gathered.iter().enumerate().all(|(at, found)| *found == value(at / count, at % count)));

    let wide: Vec<i32> = (0..count * size).map(|at| value(rank, at)).collect();
    let mut scattered = vec![0; count];
    client.reduce_scatter(&wide, &mut scattered, ReduceOp::Sum).unwrap();
    assert!(scattered.iter().enumerate().all(|(at, found)| *found == sum(rank * count + at)));

    let mut turned = vec![0; count * size];
    client.all_to_all(&wide, &mut turned).unwrap();
    assert!(
        turned.iter().enumerate().all(|(at, found)| *found == value(at / count, rank * count + at % count))
    );

    let root = size - 1;
    let mut spread = mine.clone();
    client.broadcast(&mut spread, u32::try_from(root).unwrap()).unwrap();
    assert!(spread.iter().enumerate().all(|(at, found)| *found == value(root, at)));

    // Even ranks send first, odd ones receive first.
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut got = vec![0; count];
    if rank.is_multiple_of(2) && rank + 1 < size {
        client.send(&mine, u32::try_from(next).unwrap(), 5).unwrap();
    } else if !rank.is_multiple_of(2) {
        client.recv(&mut got, u32::try_from(previous).unwrap(), 5).unwrap();
        assert!(got.iter().enumerate().all(|(at, found)| *found == value(previous, at)));
    }
    client.barrier().unwrap();
}

#[test]
fn several_threads_of_one_rank_wait_at_once() {
    let world = World::new(&[0, 1], 2);
    world.each_rank(|client| {
        let peer = 1 - client.rank();
        std::thread::scope(|scope| {
            for tag in 0..4 {
                let client = &client;
                scope.spawn(move || {
                    for round in 0..20_i64 {
                        let mut got = [0_i64];
                        if client.rank() == 0 {
                            client.send(&[round * 10 + i64::from(tag)], peer, tag).unwrap();
                            client.recv(&mut got, peer, tag).unwrap();
                        } else {
                            client.recv(&mut got, peer, tag).unwrap();
                            client.send(&got, peer, tag).unwrap();
                        }
                        assert_eq!(got[0], round * 10 + i64::from(tag));
                    }
                });
            }
        });
    });
}

/// Several calls on shared buffers under way at once, taken in another order than they were made.
#[test]
fn calls_may_overlap() {
    let world = World::new(&[0, 1, 1], 2);
    world.each_rank(|client| {
        let (rank, size) = (i64::from(client.rank()), i64::from(client.size()));
        let buffer = client.alloc(8 * 1000 * 10).unwrap();
        let mut pending = Vec::new();
        for n in 0..10 {
            let values: Vec<i64> = (0..1000).map(|at| rank * 10_000 + at + n).collect();
            let place = n as usize * 8000;
            buffer.write(place, &values).unwrap();
            let (operation, dtype, reduce) = (Operation::AllReduce, Dtype::I64, ReduceOp::Sum);
            let call = Call { operation, dtype, reduce, count: 1000 };
            let here = Some(buffer.at(place as u64));
            pending.push((n, client.post(Work { call, input: here, output: here }).unwrap()));
        }
        for (n, pending) in pending.into_iter().rev() {
            while n % 2 == 0 && !pending.is_ready() {
                std::thread::yield_now();
            }
            pending.wait().unwrap();
            let mut found = vec![0_i64; 1000];
            buffer.read(n as usize * 8000, &mut found).unwrap();
            let ranks = 10_000 * size * (size - 1) / 2;
            let right = |(at, found): (i64, &i64)| *found == ranks + size * (at + n);
            assert!((0..).zip(&found).all(right), "call {n}");
        }
    });
}

#[test]
fn a_rank_knows_its_world_and_may_come_back_after_a_detach() {
    let world = World::new(&[0, 1, 1], 1);
    let client = world.attach(2);
    let found = client.world();
    assert_eq!((found.size, found.local_rank, found.local_size, found.node, found.nodes), (3, 1, 2, 1, 2));
    let error = node_agent_client::Client::attach(&world.attach_of(2)).unwrap_err();
    assert!(
        matches!(&error, Error::Failed { .. }) && error.to_string().contains("attached already"),
        "{error}"
    );
    client.detach().unwrap();
    world.attach(2).detach().unwrap();
    assert_eq!(world.engines[1].status().cause, None);
}

/// Halving changes the order in which floats are added: a job that must be reproducible does not get it even if it is asked for.
#[test]
fn a_job_gets_the_algorithm_it_asks_for_where_that_fits() {
    for (algorithm, reproducible, taken) in [
        (Algorithm::Ring, true, Some("ring")),
        (Algorithm::Halving, false, Some("halving")),
        (Algorithm::Halving, true, None),
    ] {
        let world = World::with(&[0, 1, 2, 3], 2, |config| {
            (config.checksum, config.reproducible, config.algorithm) = (true, reproducible, Some(algorithm));
        });
        let reports = world.each_rank(|client| {
            measure(&client, &options(OpKind::AllReduce, Dtype::F32, ReduceOp::Sum, 100_000)).unwrap()
        });
        assert!(reports.iter().all(|report| report.verified), "{algorithm} {reproducible}: {reports:?}");
        for engine in &world.engines {
            let Reply::Rails(rails) = engine.ask(&Request::Rails {}) else { panic!("not rails") };
            let choice = rails.choices.iter().find(|one| one.operation == "all-reduce" && one.bytes > 50_000);
            let choice = choice.unwrap();
            assert_eq!(choice.reasons[0].contains("forced"), taken.is_some(), "{choice:?}");
            assert!(taken.is_none_or(|taken| choice.algorithm == taken), "{choice:?}");
            assert!(taken.is_some() || choice.algorithm != "halving", "{choice:?}");
        }
    }
}

/// Rails go over TCP then, whatever the NICs have; with `transport: verbs` an engine refuses to start.
#[test]
fn collectives_over_protected_rails_are_right() {
    for protection in [Protection::Integrity, Protection::Encrypted] {
        let world = World::with(&[0, 1, 2, 2], 2, |config| {
            (config.protection, config.transport) = (protection, Transport::Auto);
        });
        // A rank that detaches while another one of its server is in a collective cannot come back: one attach for all sizes.
        let reports = world.each_rank(|client| {
            [8, 100_000, 4 << 20].map(|bytes| {
                measure(&client, &options(OpKind::AllReduce, Dtype::F32, ReduceOp::Sum, bytes)).unwrap()
            })
        });
        assert!(reports.iter().flatten().all(|report| report.verified), "{protection:?}: {reports:?}");
    }
    let room = tempfile::tempdir().unwrap();
    let mut reported = crate::world::config(room.path(), 0, &[0, 1], 2);
    (reported.protection, reported.transport) = (Protection::Encrypted, Transport::Verbs);
    let refused = Engine::bind(reported, key()).unwrap_err();
    assert!(refused.to_string().contains("RDMA devices read and write"), "{refused}");
}

#[test]
fn rails_share_the_bytes_and_count_them() {
    let world = World::with(&[0, 1], 4, |config| config.chunk_bytes = 16 << 10);
    let reports = world.each_rank(|client| {
        measure(&client, &options(OpKind::AllReduce, Dtype::F32, ReduceOp::Sum, 4 << 20)).unwrap()
    });
    for report in reports {
        let sent: Vec<u64> = report.rails.iter().map(|rail| rail.tx_bytes).collect();
        assert_eq!(sent.len(), 4);
        let total: u64 = sent.iter().sum();
        // Two nodes: each sends about what it holds, in each of two repetitions.
        assert!((4 * (4 << 20)..4 * (5 << 20)).contains(&total), "{sent:?}");
        assert!(report.bus_bw_gbps > 0.0 && report.time_us.min > 0.0);
    }
}
