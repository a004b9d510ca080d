//! Every failure is a typed error on every rank, in time.

use node_agent_collective::error::{CauseKind, Waiting};
use node_agent_collective::header::{Key, Kind};
use node_agent_collective::shape::Tuning;
use node_agent_collective::units::{MAX_ACTIVE, Node, Time};
use node_agent_collective::{
    Call, CallError, Dtype, Failure, FrameError, Header, Operation, RailCause, ReduceOp, Region,
};
use proptest::prelude::*;

use crate::sim::{Net, World};

fn world(map: &[Node]) -> World {
    World {
        map: map.to_vec(),
        rails: 2,
        chunk: 512,
        tuning: Tuning::default(),
        timeout: Time::from_secs(30),
        checksum: false,
    }
}

fn sum(count: u64) -> Call {
    Call { operation: Operation::AllReduce, dtype: Dtype::F32, reduce: ReduceOp::Sum, count }
}

fn post(net: &mut Net, world: &World, rank: usize, call: Call) {
    let memory = &mut net.hosts[usize::from(world.map[rank])].memory;
    let input = memory.insert(vec![0; call.input_bytes(world.map.len()).unwrap()]);
    let output = memory.insert(vec![0; call.output_bytes(world.map.len()).unwrap()]);
    net.post(&world.map, rank, call, input, output);
}

/// Every rank's only call failed.
fn failures(net: &Net, ranks: usize) -> Vec<Failure> {
    let ended: Vec<_> = net.hosts.iter().flat_map(|h| &h.ended).collect();
    assert_eq!(ended.len(), ranks);
    ended.iter().map(|c| c.result.clone().unwrap_err()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// One rank calls something else: nobody completes, everybody gets an error that says so.
    #[test]
    fn a_different_call_fails_on_every_rank(
        odd in 0usize..6, kind in 0usize..8, count in prop_oneof![Just(0u64), Just(5), Just(4000)], seed: u64,
    ) {
        let world = world(&[0, 1, 1, 2, 0, 3]);
        let base = Call { operation: Operation::Broadcast { root: 2 }, dtype: Dtype::F32, reduce: ReduceOp::Sum, count };
        let base = if kind < 4 { sum(count) } else { base };
        let other = match kind {
            0 => Call { dtype: Dtype::I32, ..base },
            1 => Call { reduce: ReduceOp::Max, ..base },
            2 => Call { operation: Operation::AllGather, ..base },
            3 | 5 => Call { count: count + 1, ..base },
            4 => Call { operation: Operation::Broadcast { root: 3 }, ..base },
            6 => Call { operation: Operation::AllToAll, ..base },
            _ => Call::BARRIER,
        };
        let mut net = Net::new(&world, seed);
        for rank in 0..6 {
            post(&mut net, &world, rank, if rank == odd { other } else { base });
            (0..net.rng.index(10)).for_each(|_| { net.step(); });
        }
        net.run(6);
        let mut mismatches = 0;
        for failure in failures(&net, 6) {
            match failure {
                Failure::Mismatch { .. } => mismatches += 1,
                Failure::Remote { cause, .. } => prop_assert_eq!(cause.kind, CauseKind::Mismatch),
                other => prop_assert!(false, "{}", other),
            }
        }
        prop_assert!(mismatches > 0);
        prop_assert!(net.now < Time::from_secs(1));
    }

    /// All rails of one node end at some time: everybody is told, or everybody was done.
    #[test]
    fn a_lost_node_fails_every_rank(steps in 0usize..400, seed: u64) {
        let world = world(&[0, 1, 2, 0]);
        let mut net = Net::new(&world, seed);
        (0..4).for_each(|rank| post(&mut net, &world, rank, sum(3000)));
        (0..steps).for_each(|_| { net.step(); });
        for (a, b) in [(1, 0), (1, 2)] {
            (0..2).for_each(|rail| net.cut(a, b, rail));
        }
        net.run(4);
        for (node, host) in net.hosts.iter().enumerate() {
            for end in &host.ended {
                match &end.result {
                    Ok(()) => {}
                    Err(Failure::PeerLost { node: lost, cause, .. }) => {
                        prop_assert!(node == 1 || *lost == 1);
                        prop_assert_eq!(cause, &RailCause::Closed);
                    }
                    Err(Failure::Remote { cause, .. }) => prop_assert_eq!(cause.kind, CauseKind::PeerLost),
                    Err(other) => prop_assert!(false, "{}", other),
                }
            }
        }
        prop_assert!(net.now < Time::from_millis(2_100));
    }

    /// Frames of random meaning from a peer: errors, never a panic, and never a write outside of what is the machine's.
    #[test]
    fn hostile_frames_never_panic(frames in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>(), 0u64..20, 0u64..9000, 0u32..2000, any::<u64>()), 1..60), seed: u64) {
        let world = world(&[0, 1, 1, 0]);
        let mut net = Net::new(&world, seed);
        (0..4).for_each(|rank| post(&mut net, &world, rank, sum(3000)));
        (0..net.rng.index(100)).for_each(|_| { net.step(); });
        let shape = {
            let host = &mut net.hosts[1];
            let frame = host.machine.poll_transmit(&mut host.memory, net.now);
            frame.map_or(0, |f| f.header.shape)
        };
        let host = &mut net.hosts[0];
        for (number, (kind, space, step, seq, offset, length, value)) in (1001..).zip(frames) {
            let key = if space % 4 == 0 { Key::Pair { from: 1, to: 0, tag: 0, seq } } else { Key::Collective { seq: seq % 10 } };
            let data = Kind::Data { step: step % 3, block: u32::from(space) % 3, offset: if kind % 2 == 0 { offset / 512 * 512 } else { offset } };
            let call = if space % 4 == 0 { Call { operation: Operation::Send { to: 0, tag: 0 }, ..sum(100) } } else { sum(3000) };
            let header = match kind % 5 {
                0 => Header { call: Some(call), ..Header::control(Kind::Ready, key, 7, shape) },
                1 => Header { value: value % 40, ..Header::control(Kind::Grant, key, 7, shape) },
                _ => Header { call: Some(call), length: if kind % 3 == 0 { 512 } else { length }, ..Header::control(data, key, 7, shape) },
            };
            let header = Header { generation: 1, number, ..header };
            let Ok(()) = host.machine.begin(0, 1, &header, net.now) else { break };
            let mut at = 0;
            while let node_agent_collective::Landing::Into(region) = host.machine.landing(0, 1, at) {
                node_agent_collective::Memory::bytes_mut(&mut host.memory, region).unwrap().fill(0xaa);
                at += region.len;
            }
            if host.machine.received(0, 1, &mut host.memory, net.now).is_err() { break; }
        }
    }
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let world = world(&[0, 1, 1, 2]);
    let mut net = Net::new(&world, 1);
    [0, 1, 3].into_iter().for_each(|rank| post(&mut net, &world, rank, sum(10)));
    net.run(3);
    let failures = failures(&net, 3);
    let timeouts: Vec<&Waiting> = failures
        .iter()
        .filter_map(|f| if let Failure::Timeout { waiting, .. } = f { Some(waiting) } else { None })
        .collect();
    assert!(!timeouts.is_empty(), "{failures:?}");
    for waiting in timeouts {
        assert!(waiting.ranks == [2] || waiting.nodes == [1], "{waiting:?}");
    }
    assert!(net.now >= Time::from_secs(30) && net.now < Time::from_secs(31));
    let text = failures[0].to_string();
    assert!(text.contains("node 1") || text.contains("rank 2"), "{text}");
}

#[test]
fn an_idle_rail_may_go_and_come_back() {
    let world = world(&[0, 1]);
    let mut net = Net::new(&world, 3);
    (0..2).for_each(|rank| post(&mut net, &world, rank, sum(3000)));
    net.run(2);
    net.now += Time::from_millis(10);
    net.settle();
    net.cut(0, 1, 1);
    net.settle();
    let before = net.carried[1];
    (0..2).for_each(|rank| post(&mut net, &world, rank, sum(3000)));
    net.run(4);
    assert_eq!(net.carried[1], before);
    net.remediate(0, 1, 1);
    net.settle();
    (0..2).for_each(|rank| post(&mut net, &world, rank, sum(3000)));
    net.run(6);
    assert!(net.carried[1] > before);
    assert!(net.hosts.iter().all(|h| h.machine.failure().is_none()));
}

#[test]
fn goodbye_is_no_failure_but_a_call_after_it_is() {
    let world = world(&[0, 1, 2]);
    let mut net = Net::new(&world, 3);
    (0..3).for_each(|rank| post(&mut net, &world, rank, sum(3000)));
    net.hosts[1].machine.leave();
    net.run(3);
    net.now += Time::from_millis(10);
    net.settle();
    assert!(net.hosts[1].machine.is_quiet());
    (0..2).for_each(|rail| {
        net.cut(1, 0, rail);
        net.cut(1, 2, rail);
    });
    assert_eq!(net.hosts[0].machine.failure(), None);
    post(&mut net, &world, 0, sum(1));
    net.run(4);
    let ended = net.hosts[0].ended.last().unwrap();
    assert_eq!(ended.result, Err(Failure::PeerLeft(1)));
}

#[test]
fn nodes_configured_differently_fail_on_both_sides() {
    let one = world(&[0, 1]);
    let other = World { chunk: 1024, ..one.clone() };
    let mut net = Net::new(&one, 1);
    net.hosts[1] = Net::new(&other, 1).hosts.remove(1);
    (0..2).for_each(|rank| post(&mut net, &one, rank, sum(100)));
    net.run(2);
    for failure in failures(&net, 2) {
        assert!(matches!(failure, Failure::Shape { .. } | Failure::Remote { .. }), "{failure}");
    }
}

#[test]
fn stop_and_a_rank_that_leaves_fail_everybody() {
    for stop in [true, false] {
        let world = world(&[0, 1, 1]);
        let mut net = Net::new(&world, 1);
        (0..2).for_each(|rank| post(&mut net, &world, rank, sum(100)));
        net.settle();
        let machine = &mut net.hosts[1].machine;
        if stop {
            machine.stop("test", net.now)
        } else {
            machine.rank_gone(2, net.now)
        }
        net.run(2);
        for failure in failures(&net, 2) {
            assert!(
                matches!(failure, Failure::Stopped(_) | Failure::RankGone(2) | Failure::Remote { .. }),
                "{failure}"
            );
        }
        let input = Region::EMPTY;
        let again = net.hosts[1].machine.post(1, Call::BARRIER, input, input, net.now);
        assert!(matches!(again, Err(CallError::Failed(_))));
    }
}

#[test]
fn bad_calls_are_refused_and_use_no_number() {
    let world = world(&[0, 0]);
    let mut net = Net::new(&world, 1);
    let buffer = net.hosts[0].memory.insert(vec![0; 64]);
    let machine = &mut net.hosts[0].machine;
    let mut refused = |rank, call: Call, input: Region, output: Region| {
        machine.post(rank, call, input, output, Time::ZERO).unwrap_err().to_string()
    };
    let (a, b) = (buffer.part(0, 16), buffer.part(8, 16));
    assert_eq!(refused(7, sum(4), a, a), "rank 7 is not on this node");
    assert_eq!(refused(0, sum(5), a, a), "all-reduce sum of 5 x f32: input has 16 bytes, 20 are needed");
    assert!(refused(0, sum(4), a, b).contains("overlap"));
    assert!(refused(0, sum(u64::MAX), a, a).contains("too many bytes"));
    let root = Call { operation: Operation::Broadcast { root: 2 }, ..sum(4) };
    assert_eq!(refused(0, root, a, a), "broadcast from rank 2 of 4 x f32: there is no rank 2 among 2 ranks");
    let own = Call { operation: Operation::Send { to: 0, tag: 1 }, ..sum(4) };
    assert_eq!(refused(0, own, a, Region::EMPTY), "rank 0 cannot send to or receive from itself");
    net.post(&world.map, 0, sum(4), a, a);
    net.post(&world.map, 1, sum(4), buffer.part(32, 16), buffer.part(32, 16));
    net.run(2);
}

#[test]
fn a_frame_too_far_ahead_is_refused() {
    let world = world(&[0, 1]);
    let mut net = Net::new(&world, 1);
    post(&mut net, &world, 1, sum(1000));
    let host = &mut net.hosts[1];
    let shape = host.machine.poll_transmit(&mut host.memory, Time::ZERO).unwrap().header.shape;
    let crate::sim::Host { machine, memory, .. } = &mut net.hosts[0];
    let ahead = |seq| Header {
        call: Some(sum(1)),
        generation: 1,
        number: (seq + 2 - MAX_ACTIVE) as u32,
        ..Header::control(Kind::Ready, Key::Collective { seq }, 7, shape)
    };
    machine.begin(0, 1, &ahead(MAX_ACTIVE - 1), Time::ZERO).unwrap();
    machine.received(0, 1, memory, Time::ZERO).unwrap();
    machine.begin(0, 1, &ahead(MAX_ACTIVE), Time::ZERO).unwrap();
    assert_eq!(
        machine.received(0, 1, memory, Time::ZERO),
        Err(FrameError::Ahead { seq: MAX_ACTIVE, next: 0 })
    );
    let other = Header { epoch: 6, ..ahead(MAX_ACTIVE - 1) };
    assert_eq!(machine.begin(0, 1, &other, Time::ZERO), Err(FrameError::Field { field: "epoch", value: 6 }));
}

/// A long operation begins when node 0 has announced it: if that never does, it is named; if it has left, nobody waits.
#[test]
fn a_long_call_that_node_0_never_makes_is_ended() {
    const LONG: u64 = 1 << 20;
    let world = world(&[0, 1, 2]);
    let mut net = Net::new(&world, 5);
    [1, 2].into_iter().for_each(|rank| post(&mut net, &world, rank, sum(LONG)));
    net.run(2);
    let failures = failures(&net, 2);
    let timeout = failures.iter().find_map(|failure| match failure {
        Failure::Timeout { waiting, .. } => Some(waiting),
        _ => None,
    });
    assert_eq!(timeout.map(|waiting| &waiting.nodes[..]), Some(&[0][..]), "{failures:?}");
    let mut net = Net::new(&world, 5);
    post(&mut net, &world, 1, sum(LONG));
    net.hosts[0].machine.leave();
    net.run(1);
    assert_eq!(net.hosts[1].machine.failure(), Some(&Failure::PeerLeft(0)));
    assert!(net.now < Time::from_secs(1), "{:?}", net.now);
}

/// Whom it could not tell that it came, it names too, although nothing is missing from there.
#[test]
fn a_node_that_cannot_be_told_is_named() {
    let world = World { timeout: Time::from_secs(1), ..world(&[0, 1]) };
    let mut net = Net::new(&world, 1);
    post(&mut net, &world, 1, Call::BARRIER);
    net.settle();
    (0..2).for_each(|rail| net.cut(0, 1, rail));
    net.settle();
    post(&mut net, &world, 0, Call::BARRIER);
    net.run(2);
    let Err(Failure::Timeout { waiting, .. }) = &net.hosts[0].ended[0].result else {
        panic!("{:?}", net.hosts[0].ended)
    };
    assert_eq!(waiting.nodes, [1]);
    assert_eq!(waiting.rails.len(), 2, "{waiting}");
}

/// Numbers that no honest node says do no harm: to the maker of plans, nor to those that take them.
#[test]
fn absurd_plans_do_no_harm() {
    let world = world(&[0, 1]);
    let mut net = Net::new(&world, 1);
    post(&mut net, &world, 1, sum(1000));
    let host = &mut net.hosts[1];
    let shape = host.machine.poll_transmit(&mut host.memory, Time::ZERO).unwrap().header.shape;
    let (most, seq) = (u32::MAX, u64::MAX);
    let report = Kind::Report { capacity: 1024, alpha_ns: most, beta_ps: most };
    let mut number = 0;
    let mut say = |host: &mut crate::sim::Host, peer, kind, key, call| {
        number += u32::from(peer == 1);
        let header = Header {
            call,
            value: 9,
            generation: 1,
            number: number.max(1),
            ..Header::control(kind, key, 7, shape)
        };
        let came = host.machine.begin(0, peer, &header, Time::ZERO);
        came.and_then(|()| host.machine.received(0, peer, &mut host.memory, Time::ZERO))
    };
    let [maker, taker] = &mut net.hosts[..] else { panic!() };
    say(maker, 1, report, Key::Link, None).unwrap();
    maker.machine.tick(Time::from_secs(1));
    let ahead = say(taker, 0, Kind::Ready, Key::Collective { seq }, Some(sum(1)));
    assert!(matches!(ahead, Err(FrameError::Ahead { .. })), "{ahead:?}");
}
