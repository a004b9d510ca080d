//! Garbage, strangers and greed at every door: a typed answer for those who can read it, no harm to anybody else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use node_agent_client::{Attach, Call, Client, Dtype, Error, FailureCode, Operation, ReduceOp, Work};
use node_agent_engine::control::{Reply, Request, Stats};
use node_agent_engine::{Engine, EngineError, JobKey, Transport};
use node_agent_ipc::{
    Channel, ENTRY, Post, Queues, Reply as RankReply, Request as RankRequest, Span, Submitter, Taker,
    to_entry,
};

use crate::world::{LONG, Running, World, config, connect, key};

fn next_reply(channel: &Channel) -> Option<(u64, RankReply)> {
    channel.wait_readable(Instant::now() + LONG).unwrap();
    let received = channel.receive().ok()??;
    Some(RankReply::decode(&received.packet).unwrap())
}

fn code(reply: &RankReply) -> FailureCode {
    match reply {
        RankReply::Failed(failure) => failure.code,
        other => panic!("not a failure: {other:?}"),
    }
}

/// The two ranks of a world still work.
fn prove_alive(zero: &Client, one: &Client) {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| one.barrier());
        zero.barrier().unwrap();
        other.join().unwrap().unwrap();
    });
}

/// No device has a loopback address as a GID of RoCE v2, whatever this machine has.
#[test]
fn verbs_that_cannot_be_had_are_refused_where_nothing_else_is_allowed() {
    let room = tempfile::tempdir().unwrap();
    let mut reported = config(room.path(), 0, &[0, 1], 2);
    reported.transport = Transport::Verbs;
    let refused = Engine::bind(reported.clone(), key()).unwrap_err();
    assert!(matches!(refused, EngineError::Verbs(_)), "{refused}");
    assert!(refused.to_string().starts_with("transport verbs was asked for: "), "{refused}");
    reported.transport = Transport::Auto;
    Engine::bind(reported, key()).unwrap();
}

#[test]
fn garbage_at_the_ranks_socket_harms_only_its_sender() {
    let world = World::new(&[0, 0], 0);
    let (zero, one) = (world.attach(0), world.attach(1));
    let socket = &world.engines[0].config.socket;
    let mut seed = 0x5eed_u64;
    for round in 0..200 {
        let channel = Channel::connect(socket).unwrap();
        let packet: Vec<u8> = (0..1 + round * 7 % 2000).map(|_| random(&mut seed)).collect();
        // A long packet may be refused by the socket itself.
        let _ = channel.send(&packet, None);
        if let Some((id, reply)) = next_reply(&channel) {
            assert_eq!((id, code(&reply)), (0, FailureCode::Protocol), "seed 0x5eed round {round}");
        }
    }
    let channel = Channel::connect(socket).unwrap();
    channel.send(&RankRequest::Alloc { bytes: 1 }.encode(1), None).unwrap();
    assert_eq!(code(&next_reply(&channel).unwrap().1), FailureCode::Protocol);
    prove_alive(&zero, &one);
}

fn random(seed: &mut u64) -> u8 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 56) as u8
}

#[test]
fn an_attached_rank_that_breaks_the_protocol_is_lost_but_the_engine_is_not() {
    let world = World::new(&[0, 0], 0);
    let zero = world.attach(0);
    let channel = Channel::connect(&world.engines[0].config.socket).unwrap();
    let hello = RankRequest::Hello { rank: 1, pid: 1, job_uid: "uid-1".into() };
    channel.send(&hello.encode(1), None).unwrap();
    assert!(matches!(next_reply(&channel), Some((1, RankReply::Welcome(_)))));
    channel.send(b"RAIL\x01\x00\x04\x00 and then nonsense", None).unwrap();
    assert_eq!(code(&next_reply(&channel).unwrap().1), FailureCode::Protocol);
    let error = zero.barrier().unwrap_err();
    assert_eq!(error.code(), FailureCode::RankLost);
    assert!(error.to_string().contains("rank 1"), "{error}");
    assert_eq!(world.engines[0].status().attached, [0]);
}

/// Attaches rank 1 by hand and gets its queues.
fn attached_by_hand(world: &World) -> (Channel, Queues) {
    let channel = Channel::connect(&world.engines[0].config.socket).unwrap();
    let hello = RankRequest::Hello { rank: 1, pid: 1, job_uid: "uid-1".into() };
    channel.send(&hello.encode(1), None).unwrap();
    assert!(matches!(next_reply(&channel), Some((1, RankReply::Welcome(_)))));
    channel.send(&RankRequest::Queues.encode(2), None).unwrap();
    channel.wait_readable(Instant::now() + LONG).unwrap();
    let received = channel.receive().unwrap().unwrap();
    assert_eq!(RankReply::decode(&received.packet), Ok((2, RankReply::Queues)));
    let queues = Queues::open(received.descriptor.unwrap()).unwrap();
    (channel, queues)
}

/// Whatever a rank scribbles over its queues: it is expelled with a typed error, the others hear of it, the engine goes on.
#[test]
fn a_rank_that_scribbles_over_its_queues_is_expelled() {
    let mut seed = 0xface_u64;
    for round in 0..12 {
        let world = World::new(&[0, 0], 0);
        let zero = world.attach(0);
        let (channel, queues) = attached_by_hand(&world);
        let bytes = queues.region().len();
        let mut junk: Vec<u8> = (0..bytes).map(|_| random(&mut seed)).collect();
        match round {
            0 => junk.fill(0xff),
            // One good-looking entry of nonsense.
            1 => {
                junk[..128].fill(0);
                junk[0] = 1;
            }
            _ => {}
        }
        queues.region().write(0, &junk).unwrap();
        channel.send(&RankRequest::Doorbell.encode(0), None).unwrap();
        let (id, reply) = next_reply(&channel).unwrap();
        assert_eq!((id, code(&reply)), (0, FailureCode::Protocol), "seed 0xface round {round}");
        assert_eq!(zero.barrier().unwrap_err().code(), FailureCode::RankLost);
        assert_eq!(world.engines[0].status().attached, [0]);
    }
}

/// Calls by the queue, a packet that overtakes them nowhere, completions that nobody takes, queues asked for twice.
#[test]
fn queues_keep_their_order_and_their_bounds() {
    let world = World::new(&[0, 1], 1);
    let client = world.attach(0);
    let channel = Channel::connect(&world.engines[1].config.socket).unwrap();
    let send = |id: u64, request: RankRequest| channel.send(&request.encode(id), None).unwrap();
    let next = || {
        channel.wait_readable(Instant::now() + LONG).unwrap();
        let received = channel.receive().unwrap().unwrap();
        (RankReply::decode(&received.packet).unwrap(), received.descriptor)
    };
    send(1, RankRequest::Hello { rank: 1, pid: 1, job_uid: String::new() });
    next();
    send(2, RankRequest::Queues);
    let queues = Queues::open(next().1.unwrap()).unwrap();
    send(3, RankRequest::Queues);
    let ((id, again), _) = next();
    assert_eq!((id, code(&again)), (3, FailureCode::InvalidArgument));
    send(4, RankRequest::Alloc { bytes: 64 });
    let ((_, RankReply::Buffer { buffer, .. }), _) = next() else { panic!("no buffer") };

    // The buffer is given back right after the call that uses it was put in: the call has it all the same.
    let (mut submitter, mut taker) = (Submitter::default(), Taker::default());
    let span = Span { buffer, offset: 0 };
    let call = Call { operation: Operation::AllReduce, dtype: Dtype::I32, reduce: ReduceOp::Sum, count: 16 };
    let post = |call| Post { call, input: span, output: span, timeout_ms: 0 };
    let _ = submitter.push(&queues, &to_entry(5, &post(call)));
    send(6, RankRequest::Free { buffer });
    client.all_reduce(&mut [1_i32; 16], ReduceOp::Sum).unwrap();
    // Completions that are not taken go over the socket once the queue is full.
    let barrier = Post { input: Span::default(), output: Span::default(), ..post(Call::BARRIER) };
    let many = 300;
    for id in 7..7 + many {
        let _ = submitter.push(&queues, &to_entry(id, &barrier));
        send(0, RankRequest::Doorbell);
        client.barrier().unwrap();
    }
    let mut done: Vec<u64> = std::iter::from_fn(|| taker.take(&queues)).collect();
    assert_eq!(done[..2], [6, 5], "given back while the call was under way");
    let deadline = Instant::now() + LONG;
    while done.len() < 2 + usize::try_from(many).unwrap() {
        assert!(Instant::now() < deadline, "{} came", done.len());
        done.extend(taker.take(&queues));
        if let Some(received) = channel.receive().unwrap() {
            let (id, reply) = RankReply::decode(&received.packet).unwrap();
            assert_eq!(reply, RankReply::Done);
            done.push(id);
        }
    }
    done.sort_unstable();
    assert_eq!(done, (5..7 + many).collect::<Vec<_>>());
    assert_eq!(taker.take(&queues), None);
    let _ = submitter.push(&queues, &[u64::MAX; ENTRY]);
    send(0, RankRequest::Doorbell);
    assert_eq!(code(&next().0.1), FailureCode::Protocol);
}

/// More calls at once than the queue has entries.
#[test]
fn more_calls_than_the_queue_holds_are_done() {
    let world = World::with(&[0, 1], 1, |config| config.limits.outstanding = 1000);
    let barrier = Work { call: Call::BARRIER, input: None, output: None };
    world.each_rank(|client| {
        let waiting: Vec<_> = (0..600).map(|_| client.post(barrier).unwrap()).collect();
        waiting.into_iter().for_each(|pending| pending.wait().unwrap());
        client.barrier().unwrap();
    });
}

#[test]
fn wrong_places_sizes_and_names_are_answered_and_nothing_else_happens() {
    let world = World::new(&[0], 0);
    let client = world.attach(0);
    let buffer = client.alloc(1000).unwrap();
    let sum =
        |count| Call { operation: Operation::AllReduce, dtype: Dtype::F32, reduce: ReduceOp::Sum, count };
    let here = Some(buffer.start());
    let cases = [
        Work { call: sum(251), input: here, output: here },
        Work { call: sum(250), input: Some(buffer.at(1)), output: here },
        Work { call: sum(1), input: here, output: Some(buffer.at(u64::MAX)) },
        Work { call: sum(1), input: None, output: here },
        Work { call: sum(u64::MAX / 8), input: here, output: here },
        Work { call: sum(u64::MAX), input: here, output: here },
        Work {
            call: Call { operation: Operation::Broadcast { root: 9 }, ..sum(1) },
            input: here,
            output: here,
        },
        Work {
            call: Call { operation: Operation::Send { to: 7, tag: 0 }, ..sum(1) },
            input: here,
            output: None,
        },
    ];
    for work in cases {
        let error = client.run(work).unwrap_err();
        assert!(
            matches!(error.code(), FailureCode::InvalidArgument | FailureCode::Exhausted),
            "{work:?}: {error}"
        );
    }
    let bytes = client.world().max_bytes;
    assert_eq!(client.alloc(bytes).unwrap_err().code(), FailureCode::Exhausted);
    client.run(Work { call: sum(250), input: here, output: here }).unwrap();
}

#[test]
fn buffers_and_calls_are_bounded() {
    let world = World::with(&[0, 0], 0, |config| {
        config.limits.buffers = 3;
        config.limits.bytes = 10_000;
        config.limits.outstanding = 2;
    });
    let client = world.attach(0);
    let kept: Vec<_> = (0..3).map(|_| client.alloc(1000).unwrap()).collect();
    let error = client.alloc(1000).unwrap_err();
    assert_eq!(error.code(), FailureCode::Exhausted);
    drop(kept);
    assert_eq!(client.alloc(10_001).unwrap_err().code(), FailureCode::Exhausted);
    client.alloc(10_000).unwrap();
    let barrier = Work { call: Call::BARRIER, input: None, output: None };
    let waiting = [client.post(barrier).unwrap(), client.post(barrier).unwrap()];
    let error = client.run(barrier).unwrap_err();
    assert_eq!(error.code(), FailureCode::Exhausted, "{error}");
    let other = world.attach(1);
    for pending in waiting {
        other.barrier().unwrap();
        pending.wait().unwrap();
    }
}

#[test]
fn a_buffer_may_be_freed_under_a_call() {
    let world = World::new(&[0, 0], 0);
    let (zero, one) = (world.attach(0), world.attach(1));
    let channel = Channel::connect(&world.engines[0].config.socket).unwrap();
    drop(channel);
    let buffer = zero.alloc(4000).unwrap();
    let call =
        Call { operation: Operation::AllReduce, dtype: Dtype::I32, reduce: ReduceOp::Sum, count: 1000 };
    let pending =
        zero.post(Work { call, input: Some(buffer.start()), output: Some(buffer.start()) }).unwrap();
    drop(buffer);
    one.all_reduce(&mut vec![1_i32; 1000], ReduceOp::Sum).unwrap();
    pending.wait().unwrap();
    prove_alive(&zero, &one);
}

#[test]
fn hostile_posts_name_no_memory_that_is_not_theirs() {
    let world = World::new(&[0], 0);
    let channel = Channel::connect(&world.engines[0].config.socket).unwrap();
    channel.send(&RankRequest::Hello { rank: 0, pid: 1, job_uid: String::new() }.encode(1), None).unwrap();
    assert!(matches!(next_reply(&channel), Some((1, RankReply::Welcome(_)))));
    let call =
        Call { operation: Operation::AllReduce, dtype: Dtype::F64, reduce: ReduceOp::Sum, count: 1 << 40 };
    for (id, buffer) in [(2, 0), (3, 1), (4, u32::MAX)] {
        let span = Span { buffer, offset: u64::MAX - 7 };
        let post = RankRequest::Post(Post { call, input: span, output: span, timeout_ms: 0 });
        channel.send(&post.encode(id), None).unwrap();
        let (answered, reply) = next_reply(&channel).unwrap();
        assert_eq!(answered, id);
        assert!(matches!(code(&reply), FailureCode::InvalidArgument | FailureCode::Exhausted));
    }
}

#[test]
fn strangers_are_refused_by_name() {
    let world = World::new(&[0, 1], 1);
    let refused = |attach: Attach, word: &str| {
        let error = Client::attach(&attach).unwrap_err();
        assert!(matches!(&error, Error::Failed { .. } | Error::Environment { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    };
    let good = world.attach_of(0);
    refused(Attach { rank: 1, ..good.clone() }, "does not run here");
    refused(Attach { job_uid: "another".into(), ..good.clone() }, "another");
    refused(Attach { size: Some(3), ..good.clone() }, "3 ranks");
    let error = Client::attach(&Attach { socket: "/nonexistent/s".into(), ..good }).unwrap_err();
    assert_eq!(error.code(), FailureCode::EngineLost);
    // The refusal of the wrong world size came after the attach, and is undone with it.
    world.attach(0).detach().unwrap();
}

#[test]
fn garbage_at_the_control_socket_is_answered() {
    let world = World::new(&[0], 0);
    let stream = UnixStream::connect(&world.engines[0].config.control).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let connect_wrong = r#"{"op":"connect","peers":[{"node":0,"endpoints":[]}]}"#;
    for line in ["", "x", "{}", "[1,2", "{\"op\":\"status\",\"x\":0}", "\u{0}\u{0}", connect_wrong] {
        (&stream).write_all(line.as_bytes()).unwrap();
        (&stream).write_all(b"\n").unwrap();
        let answer = lines.next().unwrap().unwrap();
        assert!(matches!(serde_json::from_str(&answer).unwrap(), Reply::Error { .. }), "{line}: {answer}");
    }
    // Two requests in one packet, one of them in two: answers come in order.
    (&stream).write_all(b"{\"op\":\"status\"}\n{\"op\":\"st").unwrap();
    assert!(lines.next().unwrap().unwrap().contains("state"));
    (&stream).write_all(b"ats\"}\n").unwrap();
    assert!(lines.next().unwrap().unwrap().contains("ops"));
    // A line without an end is cut off.
    let flood = vec![b'x'; 4 << 20];
    let _ = (&stream).write_all(&flood);
    let mut rest = Vec::new();
    let _ = (&stream).read_to_end(&mut rest);
    assert_eq!(world.engines[0].status().cause, None);
}

#[test]
fn garbage_at_a_rails_port_disturbs_nobody() {
    let world = World::new(&[0, 1], 2);
    let (zero, one) = (world.attach(0), world.attach(1));
    let mut seed = 0xbad_u64;
    for endpoint in world.engines[0].status().endpoints {
        for _ in 0..10 {
            let mut stream = TcpStream::connect(endpoint.address).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let junk: Vec<u8> = (0..300).map(|_| random(&mut seed)).collect();
            let _ = stream.write_all(&junk);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    prove_alive(&zero, &one);
    let Reply::Stats(Stats { refused, .. }) = world.engines[0].ask(&Request::Stats {}) else {
        panic!("no stats")
    };
    assert!(refused >= 20, "{refused}");
}

#[test]
fn a_wrong_key_never_connects() {
    let room = tempfile::tempdir().unwrap();
    let engines: Vec<Running> = (0..2)
        .map(|node| {
            let mut config = config(room.path(), node, &[0, 1], 2);
            config.connect_timeout_ms = 500;
            Running::start(config, if node == 0 { key() } else { JobKey::new([9; 32]) })
        })
        .collect();
    let controls: Vec<PathBuf> = engines.iter().map(|engine| engine.config.control.clone()).collect();
    for reply in connect(&controls) {
        let Reply::Error { error } = reply else { panic!("connected: {reply:?}") };
        assert!(error.contains("rail 0 to node"), "{error}");
    }
    assert!(engines[0].status().cause.unwrap().contains("rail 1"));
}

#[test]
fn wrong_endpoints_are_named() {
    let room = tempfile::tempdir().unwrap();
    let engine = Running::start(config(room.path(), 0, &[0, 1, 2], 2), key());
    let endpoint = |rail: u16| format!(r#"{{"rail":{rail},"address":"127.0.0.1:1"}}"#);
    let peer = |node: usize, rails: &[u16]| {
        let rails: Vec<String> = rails.iter().map(|rail| endpoint(*rail)).collect();
        format!(r#"{{"node":{node},"endpoints":[{}]}}"#, rails.join(","))
    };
    for (peers, word) in [
        (vec![peer(1, &[0, 1])], "node 2 (n2) is missing"),
        (vec![peer(1, &[0]), peer(2, &[0, 1])], "no endpoint on rail 1"),
        (vec![peer(1, &[0, 1, 5]), peer(2, &[0, 1])], "a rail that this node has not"),
        (vec![peer(1, &[0, 0, 1]), peer(2, &[0, 1])], "two endpoints on rail 0"),
        (vec![peer(1, &[0, 1]), peer(1, &[0, 1])], "given twice"),
        (vec![peer(0, &[0, 1])], "no peer"),
        (vec![peer(9, &[0, 1])], "no peer"),
    ] {
        let line = format!(r#"{{"op":"connect","peers":[{}]}}"#, peers.join(","));
        let Reply::Error { error } = engine.ask(&serde_json::from_str(&line).unwrap()) else {
            panic!("{line}")
        };
        assert!(error.contains(word), "{error}");
    }
}
