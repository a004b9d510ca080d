//! Rails that are taken out of use under a job that goes on, and brought back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use node_agent_client::{Dtype, OpKind, ReduceOp};
use node_agent_engine::bench::{Options, measure};
use node_agent_engine::control::{RailState, RailView, Rails, Reply, Request};

use crate::world::{LONG, Running, World, config, connect, key};

/// What a drained rail may still carry while a job moves megabytes: questions, probes, words about other rails.
const STRAY: u64 = 16 << 10;

fn rails(engine: &Running) -> Rails {
    match engine.ask(&Request::Rails {}) {
        Reply::Rails(rails) => rails,
        other => panic!("not rails: {other:?}"),
    }
}

fn views(world: &World) -> Vec<BTreeMap<u16, RailView>> {
    let view = |engine: &Running| rails(engine).rails.into_iter().map(|rail| (rail.rail, rail)).collect();
    world.engines.iter().map(view).collect()
}

fn drain(engine: &Running, which: &[u16], on: bool) {
    assert_eq!(engine.ask(&Request::Drain { rails: which.to_vec(), on }), Reply::OK);
}

/// Looks until it is so; a drained rail is known by looking twice.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !so() {
        assert!(Instant::now() < end, "{what}: it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ranks that all-reduce and check every element, round after round, until `body` has ended.
fn under_load(world: &World, body: impl FnOnce(&AtomicU64)) {
    let (over, decided, rounds) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let together = Barrier::new(world.ranks.len());
    let options = Options {
        op: OpKind::AllReduce,
        bytes: 300_000,
        dtype: Dtype::F32,
        reduce: ReduceOp::Sum,
        iterations: 2,
        warmup: 0,
        verify: true,
        in_place: false,
        ordinary: false,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            world.each_rank(|client| {
                loop {
                    if together.wait().is_leader() {
                        decided.store(over.load(Ordering::SeqCst), Ordering::SeqCst);
                        rounds.fetch_add(1, Ordering::SeqCst);
                    }
                    together.wait();
                    if decided.load(Ordering::SeqCst) {
                        break;
                    }
                    let report = measure(&client, &options).unwrap();
                    assert!(report.verified, "{report:?}");
                }
                client.detach().unwrap();
            })
        });
        // However the body ends, the ranks end too.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&rounds)));
        over.store(true, Ordering::SeqCst);
        done.unwrap();
    });
}

fn goes_on(rounds: &AtomicU64, more: u64) {
    let begin = rounds.load(Ordering::SeqCst);
    until("the job goes on", || rounds.load(Ordering::SeqCst) >= begin + more);
}

fn moved(before: &RailView, after: &RailView) -> u64 {
    after.tx_bytes + after.rx_bytes - before.tx_bytes - before.rx_bytes
}

#[test]
fn a_job_moves_off_a_rail_and_back_without_an_error() {
    let world = World::new(&[0, 1, 2], 3);
    under_load(&world, |rounds| {
        goes_on(rounds, 3);
        for engine in &world.engines {
            drain(engine, &[1], true);
            drain(engine, &[1], true);
        }
        let all = |state| views(&world).iter().all(|rails| rails[&1].state == state);
        until("rail 1 is drained", || all(RailState::Drained));
        let before = views(&world);
        goes_on(rounds, 10);
        for (before, after) in before.iter().zip(views(&world)) {
            assert!(moved(&before[&1], &after[&1]) < STRAY, "{before:?} {after:?}");
            assert!(moved(&before[&0], &after[&0]) > 1 << 20 && moved(&before[&2], &after[&2]) > 1 << 20);
            assert_eq!((after[&1].state, after[&1].flaps, after[&1].peers_up), (RailState::Drained, 0, 2));
            assert_eq!(after[&0].state, RailState::Up);
        }
        for engine in &world.engines {
            drain(engine, &[1], false);
        }
        let before = views(&world);
        assert!(all(RailState::Up));
        goes_on(rounds, 10);
        for (before, after) in before.iter().zip(views(&world)) {
            assert!(moved(&before[&1], &after[&1]) > 1 << 20, "{before:?} {after:?}");
        }
        let choices = rails(&world.engines[0]).choices;
        assert!(
            choices.iter().any(|one| one.operation == "all-reduce" && one.reasons.len() > 1),
            "{choices:?}"
        );
    });
}

#[test]
fn one_server_s_port_is_drained_for_itself_only() {
    let world = World::new(&[0, 1, 2], 2);
    under_load(&world, |rounds| {
        goes_on(rounds, 3);
        drain(&world.engines[1], &[1], true);
        until("the port is drained", || views(&world)[1][&1].state == RailState::Drained);
        let before = views(&world);
        goes_on(rounds, 10);
        let after = views(&world);
        assert!(moved(&before[1][&1], &after[1][&1]) < STRAY);
        for node in [0, 2] {
            assert!(moved(&before[node][&1], &after[node][&1]) > 1 << 20, "the others use the rail");
            assert_eq!(after[node][&1].state, RailState::Up);
        }
    });
}

#[test]
fn the_last_rail_is_used_although_it_is_drained() {
    let world = World::new(&[0, 1], 2);
    under_load(&world, |rounds| {
        for engine in &world.engines {
            drain(engine, &[0, 1], true);
        }
        goes_on(rounds, 5);
        let states: Vec<RailState> = views(&world).iter().flat_map(|r| r.values().map(|v| v.state)).collect();
        assert!(states.iter().all(|state| *state == RailState::Draining), "{states:?}");
        for engine in &world.engines {
            drain(engine, &[0], false);
        }
        until("it moves off the other", || views(&world).iter().all(|r| r[&1].state == RailState::Drained));
        goes_on(rounds, 3);
    });
}

#[test]
fn an_engine_that_starts_with_a_drained_rail_does_not_use_it_nor_need_it() {
    let room = tempfile::tempdir().unwrap();
    let engines: Vec<Running> = (0..2)
        .map(|node| {
            let mut config = config(room.path(), node, &[0, 1], 2);
            config.connect_timeout_ms = 60_000;
            Running::start(config, key())
        })
        .collect();
    for engine in &engines {
        drain(engine, &[1], true);
    }
    let controls: Vec<PathBuf> = engines.iter().map(|engine| engine.config.control.clone()).collect();
    for reply in connect(&controls) {
        assert_eq!(reply, Reply::OK);
    }
    let world = World { engines, ranks: vec![0, 1], _room: room };
    under_load(&world, |rounds| {
        goes_on(rounds, 5);
        let views = views(&world);
        assert!(
            views.iter().all(|rails| rails[&1].tx_bytes < STRAY && rails[&0].tx_bytes > 1 << 20),
            "{views:?}"
        );
    });
}

#[test]
fn a_drained_rail_that_never_comes_up_holds_nobody_up() {
    let room = tempfile::tempdir().unwrap();
    let engines: Vec<Running> =
        (0..2).map(|node| Running::start(config(room.path(), node, &[0, 1], 2), key())).collect();
    // Only one server drains its port; the other hears of it over the other rail.
    drain(&engines[1], &[1], true);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let begin = Instant::now();
    let mut endpoints: Vec<_> = engines.iter().map(|engine| engine.status().endpoints).collect();
    for endpoint in endpoints.iter_mut().flatten().filter(|endpoint| endpoint.rail == 1) {
        endpoint.address = nobody;
    }
    std::thread::scope(|scope| {
        for (node, engine) in engines.iter().enumerate() {
            let request = crate::world::peers_of(node, &endpoints);
            scope.spawn(move || assert_eq!(engine.ask(&request), Reply::OK));
        }
    });
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    let world = World { engines, ranks: vec![0, 1], _room: room };
    under_load(&world, |rounds| {
        goes_on(rounds, 3);
        let states = views(&world).iter().map(|rails| rails[&1].state).collect::<Vec<_>>();
        assert_eq!(states, [RailState::Down, RailState::Drained]);
    });
}

#[test]
fn an_engine_that_is_asked_late_does_not_wait_for_a_peer_that_is_done() {
    let room = tempfile::tempdir().unwrap();
    let mut engines: Vec<Running> =
        (0..2).map(|node| Running::start(config(room.path(), node, &[0, 1], 2), key())).collect();
    let endpoints: Vec<_> = engines.iter().map(|engine| engine.status().endpoints).collect();
    let quick = engines.pop().unwrap();
    // Its ranks have nothing to say to others, and end before the other server's supervisor asks for rails.
    assert_eq!(quick.ask(&crate::world::peers_of(1, &endpoints)), Reply::OK);
    quick.stopper.stop("all ranks have ended");
    quick.join().unwrap();
    let late = &engines[0];
    until("its rails go", || rails(late).rails.iter().all(|rail| rail.state == RailState::Down));
    assert_eq!(late.ask(&crate::world::peers_of(0, &endpoints)), Reply::OK);
}

#[test]
fn rails_that_are_not_there_are_refused_and_named() {
    let world = World::new(&[0, 1], 2);
    match world.engines[0].ask(&Request::Drain { rails: vec![1, 7], on: true }) {
        Reply::Error { error } => assert!(error.contains("no rail 7") && error.contains("0, 1"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(views(&world)[0].values().all(|rail| rail.state == RailState::Up), "nothing was drained");
}
