//! What devices do that no machine does on demand.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use node_agent_engine_transport::Wiring;
use node_agent_engine_transport::carrier::{Carrier, ENTROPY};
use node_agent_engine_verbs::VerbsCarrier;
use proto_random::Random;

use crate::world::{Engine, MR, Net, PD, QP, all_reduce, leave, together};

const LINK_DOWN: i32 = 0;
const LINK_UP: i32 = 1;
const SILENT: i32 = 2;
const REPORTING: i32 = 3;
const TWICE: i32 = 4;
const NO_ACKNOWLEDGEMENTS: i32 = 5;
const ACKNOWLEDGEMENTS: i32 = 6;
const GID_AT: i32 = 7;
pub const HELD: i32 = 8;
pub const CARRIED: i32 = 9;
pub const SLOW_END: i32 = 10;
pub const QUICK_END: i32 = 11;
const QUEUES_FAIL: i32 = 12;
pub const BINDS_NOTHING: i32 = 13;
const FATAL: i32 = 14;
const THERE_AGAIN: i32 = 15;
/// And the kind of objects whose making fails.
pub const FAILS: i32 = 100;

/// Rounds of operations; `fault` is done once, after some of them, while the others go on. All nodes do the same number.
fn through(net: &Net, fault: impl Fn() + Sync, after: impl Fn(usize, &mut Engine) + Sync) {
    const ROUNDS: u32 = 12;
    let (round, done) = (AtomicU32::new(0), AtomicBool::new(false));
    together(net.engines(true), |n, engine| {
        engine.until(|e| e.rails.wiring() == Wiring::Done);
        for turn in 0..ROUNDS {
            if n == 0 && turn == 4 {
                fault();
                done.store(true, Ordering::SeqCst);
            }
            all_reduce(n, engine, 500_000);
            round.fetch_add(1, Ordering::SeqCst);
        }
        assert!(done.load(Ordering::SeqCst));
        after(n, engine);
        leave(engine);
    });
}

#[test]
fn a_lost_link_costs_its_rail_and_no_bit_and_comes_back() {
    let net = Net::new(2, 3);
    let device = net.device(1, 1);
    through(
        &net,
        || net.fake.fault(device, LINK_DOWN, 0),
        |n, engine| {
            engine.until(|e| !e.is_up(1, 1 - n as u16) || e.ups(1, 1 - n as u16) >= 2);
            net.fake.fault(device, LINK_UP, 0);
            engine.until(|e| e.is_up(1, 1 - n as u16) && e.ups(1, 1 - n as u16) >= 2);
            all_reduce(n, engine, 500_000);
        },
    );
}

#[test]
fn a_device_that_says_nothing_is_given_up() {
    let net = Net::new(2, 3);
    let device = net.device(0, 2);
    through(
        &net,
        || net.fake.fault(device, SILENT, 0),
        |n, engine| {
            net.fake.fault(device, REPORTING, 0);
            engine.until(|e| e.is_up(2, 1 - n as u16));
            all_reduce(n, engine, 500_000);
        },
    );
}

#[test]
fn what_comes_twice_counts_once() {
    let net = Net::new(2, 2);
    through(&net, || net.fake.fault(net.device(0, 0), TWICE, 10), |_, _| {});
}

#[test]
fn what_arrived_without_an_acknowledgement_is_sent_again_and_counts_once() {
    let net = Net::new(2, 2);
    let device = net.device(0, 0);
    through(
        &net,
        || net.fake.fault(device, NO_ACKNOWLEDGEMENTS, 0),
        |n, engine| {
            net.fake.fault(device, ACKNOWLEDGEMENTS, 0);
            engine.until(|e| e.is_up(0, 1 - n as u16));
            all_reduce(n, engine, 500_000);
        },
    );
}

#[test]
fn a_gid_that_moves_is_found_again() {
    let net = Net::new(2, 2);
    let device = net.device(1, 0);
    through(
        &net,
        || net.fake.fault(device, GID_AT, 9),
        |n, engine| {
            engine.until(|e| e.ups(0, 1 - n as u16) >= 2 && e.is_up(0, 1 - n as u16));
            all_reduce(n, engine, 500_000);
        },
    );
    assert_eq!(net.fake.path(device) >> 40, 9);
}

#[test]
fn completion_queues_that_fail_are_replaced() {
    let net = Net::new(2, 2);
    let device = net.device(1, 0);
    through(
        &net,
        || net.fake.fault(device, QUEUES_FAIL, 0),
        |n, engine| {
            engine.until(|e| e.ups(0, 1 - n as u16) >= 2 && e.is_up(0, 1 - n as u16));
            all_reduce(n, engine, 500_000);
            assert_eq!(engine.rails.carried_by(0), "verbs");
        },
    );
}

/// A device that is reset, or whose driver is loaded anew, is another one after that. Meanwhile its links go over their connections, where
/// that is allowed, and after it they are carried again.
#[test]
fn a_device_that_failed_is_found_again() {
    for only in [true, false] {
        let net = Net::new(2, 2);
        let device = net.device(1, 0);
        together(net.engines(only), |n, engine| {
            let peer = 1 - n as u16;
            engine.until(|e| e.rails.wiring() == Wiring::Done);
            all_reduce(n, engine, 500_000);
            if n == 1 {
                net.fake.fault(device, FATAL, 0);
            }
            all_reduce(n, engine, 500_000);
            // Nobody can open it; the rail is not carried at its end.
            engine.until(|e| n == 0 || e.rails.carried_by(0) == "tcp");
            if !only {
                engine.until(|e| e.ups(0, peer) >= 2 && e.is_up(0, peer));
            }
            all_reduce(n, engine, 500_000);
            if n == 1 {
                net.fake.fault(device, THERE_AGAIN, 0);
            }
            let lives = if only { 2 } else { 3 };
            engine.until(|e| e.rails.carried_by(0) == "verbs" && e.ups(0, peer) >= lives && e.is_up(0, peer));
            (0..3).for_each(|_| all_reduce(n, engine, 500_000));
            assert!(net.fake.alive(device, QP) > 0, "it is carried");
            leave(engine);
        });
    }
}

/// Queue pairs that a device does not give back use up the room of the completion queues, and no more than that.
#[test]
fn queue_pairs_that_do_not_go_are_bounded() {
    let net = Net::new(2, 1);
    let device = net.device(0, 0);
    let mut carrier = VerbsCarrier::open(&net.carrier_config(0)).unwrap();
    net.fake.fault(device, SLOW_END, 0);
    let (why, there) = loop {
        match carrier.open(0, 1, &[3; ENTROPY]) {
            Ok((channel, _)) => carrier.end(channel),
            Err(why) => break (why, net.fake.alive(device, QP)),
        }
        assert!(net.fake.alive(device, QP) < 1000);
    };
    assert!(why.starts_with(&format!("fake{device} has completion queues for ")), "{why}");
    net.fake.fault(device, QUICK_END, 0);
    let deadline = Instant::now() + Duration::from_secs(30);
    while net.fake.alive(device, QP) > 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(there >= 10 && carrier.open(0, 1, &[3; ENTROPY]).is_ok(), "{there}");
}

/// Memory or queue pairs that cannot be had: the link is carried by its connection, and the rest goes on.
#[test]
fn what_cannot_be_had_is_done_without() {
    for kind in [MR, QP] {
        let net = Net::new(2, 2);
        let device = net.device(0, 1);
        net.fake.fault(device, FAILS + kind as i32, libc::ENOMEM);
        let engines = net.engines(false);
        together(engines, |n, engine| {
            engine.until(|e| e.rails.wiring() == Wiring::Done);
            all_reduce(n, engine, 300_000);
            leave(engine);
        });
        assert_eq!(net.fake.alive(device, QP), 0, "nothing is left of what was half made");
        assert_eq!(net.fake.alive(device, MR), 0);
    }
    let net = Net::new(2, 1);
    net.fake.fault(net.device(0, 0), FAILS + PD as i32, libc::EMFILE);
    let error = node_agent_engine_verbs::VerbsCarrier::open(&net.carrier_config(0)).unwrap_err();
    assert!(error.starts_with("a protection domain cannot be had: "), "{error}");
}

/// Links that go and come at random, from a seed: every result is right.
#[test]
fn storms_of_link_faults_spoil_no_bit() {
    let seed = std::env::var("RAIL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("seed {seed} (RAIL_TEST_SEED)");
    let net = Net::new(2, 3);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (net, over) = (&net, &over);
        scope.spawn(move || {
            let mut random = Random::new(seed);
            while !over.load(Ordering::SeqCst) {
                // Rail 0 stays, so that the job lives.
                let device = net.device(random.index(2), 1 + random.index(2));
                let (begin, end) = [(LINK_DOWN, LINK_UP), (SILENT, REPORTING)][random.index(2)];
                net.fake.fault(device, begin, 0);
                wait(random.index(60));
                net.fake.fault(device, end, 0);
                wait(random.index(60));
            }
        });
        together(net.engines(true), |n, engine| {
            engine.until(|e| e.rails.wiring() == Wiring::Done);
            (0..60).for_each(|_| all_reduce(n, engine, 200_000));
            over.store(true, Ordering::SeqCst);
            leave(engine);
        });
    });
}

/// How long a fault lasts is part of the storm, not a synchronisation.
fn wait(ms: usize) {
    let end = Instant::now() + Duration::from_millis(ms as u64);
    while Instant::now() < end {
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
