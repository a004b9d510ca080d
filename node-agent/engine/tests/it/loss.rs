//! Ranks, engines and rails that go away: everybody else hears a cause, in time.

use std::time::{Duration, Instant};

use node_agent_client::{Call, Client, Error, FailureCode, ReduceOp, Work};
use node_agent_engine::control::{EngineState, Reply, Request};

use crate::world::{LONG, World};

/// Nobody may learn of a loss later than this; the end of an operation's time would come later.
const IN_TIME: Duration = LONG;

fn failure(result: Result<(), Error>) -> (FailureCode, String) {
    let error = result.unwrap_err();
    (error.code(), error.to_string())
}

/// A rank that ends without a word: its process is gone, so its socket is closed without a detach.
pub fn vanish(client: Client) {
    // A panic is what `Client` takes for an unclean end.
    let thread = std::thread::spawn(move || {
        let _client = client;
        std::panic::resume_unwind(Box::new("gone"));
    });
    assert!(thread.join().is_err());
}

#[test]
fn a_rank_that_dies_is_named_to_its_neighbours_and_told_to_other_nodes() {
    let world = World::new(&[0, 0, 1], 2);
    let (zero, one, two) = (world.attach(0), world.attach(1), world.attach(2));
    let start = Instant::now();
    std::thread::scope(|scope| {
        let near = scope.spawn(|| failure(zero.barrier()));
        let far = scope.spawn(|| failure(two.barrier()));
        vanish(one);
        let (code, text) = near.join().unwrap();
        assert_eq!(code, FailureCode::RankLost);
        assert!(text.contains("rank 1") && text.contains("without detaching"), "{text}");
        let (code, text) = far.join().unwrap();
        assert_eq!(code, FailureCode::RankLost, "{text}");
        assert!(text.contains("node 0"), "{text}");
    });
    assert!(start.elapsed() < IN_TIME, "{:?}", start.elapsed());
    // Later calls fail the same way, and the engine is there to be asked.
    assert_eq!(failure(zero.barrier()).0, FailureCode::RankLost);
    let status = world.engines[0].status();
    assert_eq!((status.state, status.attached), (EngineState::Failed, vec![0]));
    assert!(status.cause.unwrap().contains("rank 1"));
    let lost: Vec<bool> = world.engines.iter().map(|engine| engine.status().lost).collect();
    assert_eq!(lost, [false, false], "a rank's death is no loss of the cluster's");
    let error = Client::attach(&world.attach_of(1)).unwrap_err().to_string();
    assert!(error.contains("cannot come back"), "{error}");
}

#[test]
fn a_rank_that_has_left_is_named_when_others_go_on() {
    let world = World::new(&[0, 0], 0);
    let (zero, one) = (world.attach(0), world.attach(1));
    one.detach().unwrap();
    let (code, text) = failure(zero.barrier());
    assert_eq!(code, FailureCode::RankLost);
    assert!(text.contains("rank 1 detached"), "{text}");
}

#[test]
fn ranks_that_may_return_are_awaited_by_those_who_are_back() {
    for ranks in [&[0, 0][..], &[0, 0, 1]] {
        let world = World::with(ranks, 1, |config| config.ranks_return = true);
        for _ in 0..3 {
            let first = world.attach(0);
            // All others of the step before have left.
            let barrier = first.post(Work { call: Call::BARRIER, input: None, output: None }).unwrap();
            std::thread::scope(|scope| {
                for rank in 1..u32::try_from(ranks.len()).unwrap() {
                    let client = world.attach(rank);
                    scope.spawn(move || client.barrier().and_then(|()| client.detach()).unwrap());
                }
            });
            barrier.wait().unwrap();
            first.detach().unwrap();
        }
    }
}

#[test]
fn ranks_that_disagree_are_told() {
    let world = World::new(&[0, 0, 1], 1);
    let found = world.each_rank(|client| {
        let mut values = vec![1.0_f32; 10 + usize::from(client.rank() == 1)];
        failure(client.all_reduce(&mut values, ReduceOp::Sum))
    });
    for (code, text) in found {
        assert_eq!(code, FailureCode::Mismatch, "{text}");
    }
}

#[test]
fn a_rank_that_never_comes_ends_in_a_timeout() {
    let world = World::with(&[0, 1], 1, |config| config.op_timeout_ms = 300);
    let client = world.attach(0);
    let start = Instant::now();
    let (code, text) = failure(client.barrier());
    assert_eq!(code, FailureCode::TimedOut, "{text}");
    assert!(start.elapsed() < Duration::from_millis(300) + IN_TIME);
    assert!(text.contains("barrier"), "{text}");
}

#[test]
fn a_ranks_own_limit_is_kept() {
    let world = World::new(&[0, 1], 1);
    let client = world.attach(0);
    client.set_timeout(Some(Duration::from_millis(50)));
    let (code, text) = failure(client.barrier());
    assert_eq!(code, FailureCode::TimedOut);
    assert!(text.contains("limit that rank 0 gave"), "{text}");
    // Whoever hears of it by its own call, here or on another node, is told the same.
    let (code, text) = failure(client.barrier());
    assert_eq!(code, FailureCode::TimedOut, "{text}");
    let (code, text) = failure(world.attach(1).barrier());
    assert_eq!(code, FailureCode::TimedOut, "{text}");
}

#[test]
fn stop_gives_the_reason_to_those_who_wait() {
    let mut world = World::new(&[0, 1], 1);
    let client = world.attach(0);
    let pending = client.post(Work { call: Call::BARRIER, input: None, output: None }).unwrap();
    // The engine answers in order: when this is back, it has the barrier.
    client.counters().unwrap();
    let engine = world.engines.remove(0);
    assert_eq!(engine.ask(&Request::Stop { reason: "cancelled by ada".into() }), Reply::OK);
    let (code, text) = failure(pending.wait());
    assert_eq!(code, FailureCode::Stopped);
    assert!(text.contains("cancelled by ada"), "{text}");
    let socket = engine.config.socket.clone();
    engine.join().unwrap();
    assert!(!socket.exists());
    let error = client.barrier().unwrap_err();
    assert!(matches!(error, Error::EngineLost | Error::Failed { .. }), "{error}");
}

#[test]
fn an_idle_engine_stops_without_harming_its_peer() {
    let mut world = World::new(&[0, 1], 2);
    let found = world.each_rank(|client| {
        client.barrier().unwrap();
        client.detach()
    });
    assert!(found.iter().all(Result::is_ok));
    let first = world.engines.remove(0);
    first.stopper.stop("done");
    first.join().unwrap();
    let second = world.engines.remove(0);
    second.stopper.stop("done");
    second.join().unwrap();
}

#[test]
fn many_calls_end_cleanly_when_one_side_leaves_at_once() {
    // The last barrier completes on both sides even where one engine stops as soon as its own rank is done.
    for _ in 0..20 {
        let mut world = World::new(&[0, 1], 2);
        let one = world.attach(1);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| one.barrier());
            let zero = world.attach(0);
            zero.barrier().unwrap();
            zero.detach().unwrap();
            let first = world.engines.remove(0);
            first.stopper.stop("done");
            first.join().unwrap();
            other.join().unwrap().unwrap();
        });
    }
}
