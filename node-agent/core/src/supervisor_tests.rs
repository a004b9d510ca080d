//! The supervisor's rules as data, and random event sequences.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use proptest::prelude::*;
use proto_model::{
    Certify, Measured, NodeName, Observed, PortReport, RailEndpoint, RailReport, RailState, RankExit, Reason,
    ReasonCode, Timestamp,
};

use crate::{
    record::Order,
    supervisor::{Action, EngineEnd, Event, Signal, State, step},
};

const T0: Timestamp = Timestamp(1_000_000);

fn endpoints() -> Vec<RailEndpoint> {
    vec![RailEndpoint { rail: 0, address: SocketAddr::from(([127, 0, 0, 1], 4000)) }]
}

fn exit(rank: u32, code: i32) -> Event {
    Event::RankExited(RankExit { rank, code, signal: 0, time: T0, usage: proto_model::RankUsage::default() })
}

fn stop(secs: u64) -> Event {
    Event::Order(Order::Stop { grace: Duration::from_secs(secs), signal: 0, reason: "cancelled".into() })
}

fn start() -> Event {
    Event::Order(Order::Start { peers: Vec::new(), certify: None })
}

fn exited(clean: bool) -> Event {
    Event::EngineExited {
        how: if clean { "status 0" } else { "signal 9" }.into(),
        end: if clean { EngineEnd::Clean } else { EngineEnd::Failed },
    }
}

/// Runs `events` at T0 and returns everything that followed.
fn run(state: &mut State, events: Vec<Event>) -> Vec<Action> {
    events.into_iter().flat_map(|event| step(state, event, T0)).collect()
}

fn running() -> State {
    let mut state = State::new([4, 5]);
    let up = vec![Event::Begin, Event::EngineListening(endpoints()), start(), Event::EngineConnected];
    run(&mut state, up);
    run(&mut state, vec![Event::RankStarted(4), Event::RankStarted(5)]);
    assert_eq!(state.snapshot().state, Observed::Running);
    state
}

fn rails(rails: &[u32]) -> BTreeSet<u32> {
    rails.iter().copied().collect()
}

fn drain(which: &[u32]) -> Event {
    Event::Order(Order::Drain { rails: rails(which) })
}

fn seen(states: &[RailState], tx_bytes: u64) -> Event {
    let report = |(rail, state): (u32, &RailState)| RailReport {
        rail,
        state: Some(*state),
        since: T0,
        tx_bytes,
        rx_bytes: 0,
        tx_rate: 0,
        rx_rate: 0,
        flaps: 0,
        cause: String::new(),
        peers: 1,
        peers_up: 1,
    };
    Event::Rails { reports: (0..).zip(states).map(report).collect(), choices: Vec::new() }
}

#[test]
fn an_engine_begins_with_what_is_drained() {
    let mut state = State::new([4]).with_drained(rails(&[1]));
    let actions = run(&mut state, vec![Event::Begin, Event::EngineListening(endpoints())]);
    let drained = actions.iter().position(|action| *action == Action::DrainEngine(rails(&[1]))).unwrap();
    assert_eq!(actions.get(drained + 1), Some(&Action::Publish), "before anybody is told that it listens");
    // It did not answer: it is asked again.
    run(&mut state, vec![Event::RailsSilent, Event::Tick]);
    let actions = step(&mut state, Event::Tick, T0.plus(Duration::from_secs(5)));
    assert_eq!(actions, [Action::DrainEngine(rails(&[1]))]);
    run(&mut state, vec![Event::EngineDrained(rails(&[1]))]);
    assert!(
        step(&mut state, Event::Tick, T0.plus(Duration::from_secs(9))).is_empty(),
        "nothing is connected"
    );
}

#[test]
fn a_drain_is_done_once_and_watched_until_the_rail_is_empty() {
    use RailState::{Drained, Draining, Up};
    let mut state = running();
    run(&mut state, vec![seen(&[Up, Up], 1)]);
    let actions = run(&mut state, vec![drain(&[1, 7]), drain(&[1, 7])]);
    assert_eq!(actions, [Action::Publish, Action::DrainEngine(rails(&[1, 7]))]);
    assert_eq!(state.snapshot().drained, Some(rails(&[1, 7])));
    assert_eq!(run(&mut state, vec![Event::EngineDrained(rails(&[1, 7])), Event::Tick]), [Action::ReadRails]);
    assert!(state.is_hasty(T0));
    assert_eq!(run(&mut state, vec![seen(&[Up, Draining], 2)]), [Action::Publish]);
    assert!(state.is_hasty(T0) && !state.is_hasty(T0.plus(Duration::from_secs(11))));
    assert_eq!(run(&mut state, vec![seen(&[Up, Drained], 3)]), [Action::Publish]);
    assert!(!state.is_hasty(T0));
    // Bytes alone are told now and then.
    assert!(run(&mut state, vec![seen(&[Up, Drained], 4)]).is_empty());
    let later = T0.plus(crate::supervisor::RAILS_REPORT);
    assert_eq!(step(&mut state, seen(&[Up, Drained], 5), later), [Action::Publish]);
    assert_eq!(state.snapshot().reports[1].tx_bytes, 5);
    let actions = run(&mut state, vec![drain(&[])]);
    assert_eq!(actions, [Action::Publish, Action::DrainEngine(rails(&[]))]);
}

#[test]
fn an_engine_that_ends_is_not_asked() {
    let mut state = running();
    run(&mut state, vec![stop(5)]);
    let actions = run(&mut state, vec![drain(&[1]), Event::Tick]);
    assert!(!actions.iter().any(|a| matches!(a, Action::DrainEngine(_) | Action::ReadRails)), "{actions:?}");
}

fn start_measured() -> Event {
    start_series(0)
}

fn start_series(series: u32) -> Event {
    let certify = Some(Certify { series, turns: Vec::new(), limit: Duration::from_secs(3) });
    Event::Order(Order::Start { peers: Vec::new(), certify })
}

const CONNECT: Action = Action::ConnectEngine(Vec::new());

/// Asked to measure.
fn measuring() -> State {
    let mut state = State::new([4]);
    run(&mut state, vec![Event::Begin, Event::EngineListening(endpoints())]);
    let actions = run(&mut state, vec![start_measured()]);
    assert!(matches!(actions[..], [Action::Publish, Action::CertifyEngine(..)]), "{actions:?}");
    state
}

#[test]
fn ranks_wait_until_what_was_measured_is_judged() {
    let mut state = measuring();
    assert!(run(&mut state, vec![start_measured(), Event::EngineConnected]).is_empty());
    let measured = Measured { unable: "x".into(), ..Measured::default() };
    let actions =
        run(&mut state, vec![Event::Measured(measured.clone()), Event::Measured(Measured::default())]);
    assert_eq!(actions, [Action::Publish]);
    assert_eq!((state.snapshot().state, &state.snapshot().measured), (Observed::Starting, &Some(measured)));
    assert!(!step(&mut state, Event::Tick, T0.plus(Duration::from_secs(3600))).contains(&Action::SpawnRanks));
    assert_eq!(run(&mut state, vec![start(), start()]), [CONNECT]);
    assert_eq!(run(&mut state, vec![Event::EngineConnected]), [Action::SpawnRanks]);
}

#[test]
fn all_may_be_measured_a_second_time() {
    let mut state = measuring();
    let port = |rail| PortReport { rail, mtu: None, dscp: None, gid: None, priority_bytes: None };
    let series = |series: u32| Measured { series, ports: vec![port(series)], ..Measured::default() };
    assert!(run(&mut state, vec![start_series(1)]).is_empty(), "the first is not over");
    run(&mut state, vec![Event::Measured(series(0))]);
    assert!(run(&mut state, vec![start_series(0)]).is_empty(), "it is known");
    let actions = run(&mut state, vec![start_series(1), start_series(1)]);
    assert!(
        matches!(&actions[..], [Action::CertifyEngine(_, certify)] if certify.series == 1),
        "{actions:?}"
    );
    assert_eq!(run(&mut state, vec![Event::Measured(series(0))]), [], "that is not the second one");
    assert_eq!(run(&mut state, vec![Event::Measured(series(1))]), [Action::Publish]);
    let reported = state.snapshot().measured.clone().unwrap();
    assert_eq!((reported.series, reported.ports), (1, vec![port(1)]));
    assert_eq!(run(&mut state, vec![start()]), [CONNECT]);
    // One that the engine does not measure in time is over as well, and what the first one showed stays.
    let mut state = measuring();
    run(&mut state, vec![Event::Measured(series(0)), start_series(1)]);
    step(&mut state, Event::Tick, T0.plus(Duration::from_secs(6)));
    let reported = state.snapshot().measured.clone().unwrap();
    assert_eq!((reported.series, reported.ports), (1, vec![port(0)]));
    assert!(reported.unable.contains("did not say in time"), "{}", reported.unable);
}

#[test]
fn an_engine_that_measures_for_too_long_holds_nobody_up() {
    let mut state = measuring();
    assert!(!step(&mut state, Event::Tick, T0.plus(Duration::from_secs(4))).contains(&Action::Publish));
    assert!(step(&mut state, Event::Tick, T0.plus(Duration::from_secs(5))).contains(&Action::Publish));
    let measured = state.snapshot().measured.as_ref().unwrap();
    assert!(measured.unable.contains("did not say in time"), "{measured:?}");
    assert_eq!(run(&mut state, vec![start()]), [CONNECT]);
}

#[test]
fn the_word_may_come_before_the_measurement_and_an_end_at_any_time() {
    let mut state = measuring();
    assert_eq!(run(&mut state, vec![start()]), [CONNECT]);
    let late = vec![Event::Measured(Measured::default()), Event::EngineConnected];
    assert_eq!(run(&mut state, late), [Action::SpawnRanks]);
    let mut state = measuring();
    assert!(run(&mut state, vec![stop(1)]).iter().any(|action| matches!(action, Action::StopEngine(_))));
    let mut state = measuring();
    run(&mut state, vec![exited(false)]);
    assert_eq!(cause(&state), Some("EngineLost"));
}

fn cause(state: &State) -> Option<&str> {
    state.snapshot().cause.as_ref().map(|cause| cause.code.as_str())
}

#[test]
fn a_good_run_goes_through_every_state_and_reads_the_bytes_before_the_engine_stops() {
    let mut state = State::new([4]);
    let actions = run(&mut state, vec![Event::Begin, Event::EngineListening(endpoints())]);
    assert!(actions.contains(&Action::SpawnEngine));
    assert_eq!(state.snapshot().state, Observed::Prepared);
    let actions = run(&mut state, vec![start(), start()]);
    assert_eq!(actions.iter().filter(|a| matches!(a, Action::ConnectEngine(_))).count(), 1);
    assert_eq!(run(&mut state, vec![Event::EngineConnected]), vec![Action::SpawnRanks]);
    run(&mut state, vec![Event::RankStarted(4)]);
    let actions = run(&mut state, vec![exit(4, 0), Event::TreeEmpty]);
    let at = |wanted: &Action| actions.iter().position(|action| action == wanted).unwrap();
    assert!(at(&Action::ReadStats) < at(&Action::StopEngine("the job has ended".into())));
    assert_eq!(run(&mut state, vec![exited(true)]), vec![Action::Publish, Action::Exit]);
    assert_eq!(state.snapshot().state, Observed::Ended);
    assert_eq!(cause(&state), None);
}

#[test]
fn an_engine_that_dies_ends_the_ranks_within_five_seconds_with_a_cause() {
    let mut state = running();
    let actions = run(&mut state, vec![exited(false)]);
    assert!(actions.contains(&Action::SignalTree(Signal::Term)));
    assert_eq!(cause(&state), Some("EngineLost"));
    let later = T0.plus(Duration::from_secs(2));
    assert_eq!(step(&mut state, Event::Tick, later), vec![Action::SignalTree(Signal::Kill)]);
    run(&mut state, vec![exit(4, 1), exit(5, 1), Event::TreeEmpty]);
    assert_eq!(state.snapshot().state, Observed::Ended);
}

#[test]
fn ranks_that_fail_a_moment_before_their_engine_still_blame_the_engine() {
    for order in [[exit(4, 1), exit(5, 1), exited(false)], [exited(false), exit(4, 1), exit(5, 1)]] {
        let mut state = running();
        run(&mut state, order.to_vec());
        assert_eq!(cause(&state), Some("EngineLost"));
    }
    let mut state = running();
    run(&mut state, vec![exit(4, 0), exit(5, 0), exited(false)]);
    assert_eq!(cause(&state), None, "all ranks were done");
    let mut state = running();
    run(&mut state, vec![stop(1), exit(4, 1), exit(5, 1), Event::TreeEmpty, exited(false)]);
    assert_eq!(cause(&state), None, "the end was ordered, of the engine too");
}

/// Its peers miss it at once, and the controller may tell all to stop before this server has seen the end of its engine.
#[test]
fn an_engine_that_failed_before_it_was_told_to_stop_is_what_failed() {
    for end in [exited(false), exited(true), lost_peer()] {
        let failed = end == exited(false);
        let mut state = running();
        run(&mut state, vec![stop(1), end, exit(4, 1), exit(5, 1)]);
        assert_eq!(cause(&state), failed.then_some("EngineLost"));
        run(&mut state, vec![Event::TreeEmpty]);
        assert_eq!(state.snapshot().state, Observed::Ended);
    }
}

/// One that is connecting sees all peers down, and that would be what is known of it for a second after the attempt has begun to run.
#[test]
fn rails_are_looked_at_once_they_have_been_connected() {
    let mut state = State::new([4]);
    run(&mut state, vec![Event::Begin, Event::EngineListening(endpoints()), start()]);
    for second in 0..5 {
        let actions = step(&mut state, Event::Tick, T0.plus(Duration::from_secs(second)));
        assert_eq!(actions, [], "{second}");
    }
    let now = T0.plus(Duration::from_secs(5));
    assert_eq!(step(&mut state, Event::EngineConnected, now), [Action::SpawnRanks]);
    assert_eq!(step(&mut state, Event::Tick, now), [Action::ReadRails]);
}

/// Whoever loses a peer says so; the peer's own server says what failed.
#[test]
fn an_engine_that_lost_a_peer_is_not_what_failed() {
    let broken = || Event::EngineBroken { why: "node 1 is lost".into(), end: of_peer() };
    for order in [vec![lost_peer()], vec![broken(), lost_peer()], vec![exit(4, 1), exit(5, 1), lost_peer()]] {
        let mut state = running();
        run(&mut state, order);
        assert_eq!(cause(&state), Some("PeerLost"));
        let about = state.snapshot().cause.as_ref().map(|cause| cause.scope.as_str());
        assert_eq!(about, Some("node/n7"));
    }
}

fn of_peer() -> EngineEnd {
    EngineEnd::PeerLost { peer: Some(NodeName::new("n7").unwrap()) }
}

fn lost_peer() -> Event {
    Event::EngineExited { how: "status 3".into(), end: of_peer() }
}

#[test]
fn a_stop_terminates_then_kills_and_a_shorter_grace_wins() {
    let mut state = running();
    let actions = run(&mut state, vec![stop(60)]);
    assert!(actions.contains(&Action::Note("stopping: cancelled".into())));
    assert!(actions.contains(&Action::SignalTree(Signal::Term)));
    assert!(run(&mut state, vec![Event::Tick]).is_empty());
    assert_eq!(run(&mut state, vec![stop(0)]), vec![Action::SignalTree(Signal::Kill)]);
    let again = T0.plus(Duration::from_secs(1));
    assert_eq!(step(&mut state, Event::Tick, again), vec![Action::SignalTree(Signal::Kill)]);
    assert!(run(&mut state, vec![Event::TreeEmpty]).is_empty(), "exits are recorded first");
    let actions = run(&mut state, vec![exit(4, 0), exit(5, 0), Event::TreeEmpty]);
    assert!(actions.iter().any(|action| matches!(action, Action::StopEngine(_))));
}

#[test]
fn every_wait_has_a_deadline() {
    let late = T0.plus(Duration::from_secs(60));
    let mut state = State::new([0]);
    run(&mut state, vec![Event::Begin]);
    step(&mut state, Event::Tick, late);
    assert_eq!(cause(&state), Some("EngineFailed"));
    let mut state = State::new([0]);
    run(&mut state, vec![Event::Begin, Event::EngineListening(endpoints()), start()]);
    step(&mut state, Event::Tick, late);
    assert_eq!(cause(&state), Some("EngineFailed"));
    // Stopping the engine: killed, again and again, until its end is seen.
    let much_later = late.plus(Duration::from_secs(60));
    assert_eq!(step(&mut state, Event::Tick, much_later), vec![Action::KillEngine]);
    let last = much_later.plus(Duration::from_secs(1));
    assert_eq!(step(&mut state, Event::Tick, last), vec![Action::KillEngine]);
    assert_eq!(run(&mut state, vec![exited(false)]), vec![Action::Publish, Action::Exit]);
}

#[test]
fn an_engine_that_never_came_up_and_a_stop_before_start_end_cleanly() {
    let mut state = State::new([0]);
    run(&mut state, vec![Event::Begin, exited(false)]);
    assert_eq!((state.snapshot().state, cause(&state)), (Observed::Ended, Some("EngineFailed")));
    let mut state = State::new([0]);
    run(&mut state, vec![Event::Begin, Event::EngineListening(endpoints()), stop(10), exited(true)]);
    assert_eq!((state.snapshot().state, cause(&state)), (Observed::Ended, None));
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::EngineListening(endpoints())),
        Just(Event::EngineConnected),
        Just(Event::EngineFailed("x".into())),
        any::<bool>().prop_map(|peer| Event::EngineBroken {
            why: "x".into(),
            end: if peer { of_peer() } else { EngineEnd::Failed },
        }),
        any::<bool>().prop_map(exited),
        Just(start()),
        (0u64..5).prop_map(stop),
        (4u32..7).prop_map(Event::RankStarted),
        (4u32..7, 0..2).prop_map(|(rank, code)| exit(rank, code)),
        Just(Event::TreeEmpty),
        Just(Event::Tick),
        Just(Event::Stats(Vec::new())),
        Just(Event::RankFailed { rank: 4, message: "x".into() }),
        Just(Event::RanksExceeded(Reason::new(ReasonCode::OutOfMemory, "x"))),
    ]
}

proptest! {
    #[test]
    fn any_sequence_moves_forward_starts_ranks_once_and_can_be_ended(
        events in prop::collection::vec((any_event(), 0u64..4000), 0..60)
    ) {
        let mut state = State::new([4, 5]);
        let mut now = T0;
        let mut spawned = 0;
        let mut started_desired = false;
        step(&mut state, Event::Begin, now);
        let mut last = state.snapshot().state;
        for (event, wait) in events {
            now = now.plus(Duration::from_millis(wait));
            started_desired |= matches!(event, Event::Order(Order::Start { .. }));
            let actions = step(&mut state, event, now);
            if actions.contains(&Action::SpawnRanks) {
                spawned += 1;
                prop_assert!(started_desired);
            }
            prop_assert!(state.snapshot().state >= last);
            last = state.snapshot().state;
        }
        prop_assert!(spawned <= 1);
        // Whatever happened: an order to stop, and time, lead to the end.
        for event in [stop(0), exit(4, 1), exit(5, 1), Event::TreeEmpty, exited(true), Event::Tick] {
            step(&mut state, event, now);
        }
        prop_assert_eq!(state.snapshot().state, Observed::Ended);
    }
}
