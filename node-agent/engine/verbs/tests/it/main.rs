//! Rails over a library that stands in for libibverbs: real connections over loopback, real machines, and every fault of a device.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]

mod faults;
mod memory;
mod windows;
mod world;

use node_agent_engine_transport::Wiring;
use node_agent_engine_verbs::{Library, LoadError, VerbsCarrier};
use world::{Net, QP, all_reduce, leave, together};

#[test]
fn frames_go_over_all_rails_and_none_over_a_connection() {
    let net = Net::new(3, 3);
    let engines = net.engines(true);
    let done = together(engines, |n, engine| {
        engine.until(|e| e.rails.wiring() == Wiring::Done);
        for count in [1, 1000, 400_000, 2_000_003] {
            all_reduce(n, engine, count);
        }
        leave(engine);
        (0..3).map(|rail| (engine.rails.carried_by(rail), engine.sent_on(rail))).collect::<Vec<_>>()
    });
    for (_, rails) in &done {
        assert!(rails.iter().all(|(by, bytes)| *by == "verbs" && *bytes > 1_000_000), "{rails:?}");
    }
    // What the path says: the class that was asked for, the GID by its address, some flow label.
    for device in net.devices() {
        let path = net.fake.path(device);
        assert_eq!((path >> 32 & 0xff, path >> 40), (106, 3));
        assert!(path & 0xffff_ffff != 0);
    }
    drop(done);
    for device in net.devices() {
        // Contexts apart: every carrier opens all devices for a moment, those of other tests too.
        assert_eq!(net.fake.all_alive(device)[1..], [0; 6], "everything was given back");
    }
}

#[test]
fn several_queue_pairs_of_a_link_keep_the_order() {
    let mut net = Net::new(2, 2);
    net.pairs = 4;
    let done = together(net.engines(true), |n, engine| {
        engine.until(|e| e.rails.wiring() == Wiring::Done);
        let pairs = net.fake.alive(net.device(n, 0), QP);
        (0..8).for_each(|_| all_reduce(n, engine, 700_001));
        leave(engine);
        pairs
    });
    assert!(done.iter().all(|(_, pairs)| *pairs == 4));
}

#[test]
fn small_operations_by_the_thousand() {
    let net = Net::new(2, 1);
    together(net.engines(true), |n, engine| {
        engine.until(|e| e.rails.wiring() == Wiring::Done);
        (0..1500).for_each(|_| all_reduce(n, engine, 3));
        leave(engine);
    });
}

/// Where one end has no verbs on a rail, the link is carried by its connection; where verbs are required it is refused, and says so.
#[test]
fn a_peer_without_verbs_is_met_over_tcp_or_refused() {
    for only in [false, true] {
        let net = Net::new(2, 2);
        let mut engines = net.engines(only);
        let (plain, key) = (net.plain(0), engines.remove(1));
        let engines = net.connected(vec![plain, key]);
        let done = together(engines, |n, engine| {
            if only {
                engine.until(|e| matches!(e.rails.wiring(), Wiring::Waiting(m) if n == 0 || m.iter().all(|m| m.2.is_some())));
                return format!("{:?}", engine.rails.wiring());
            }
            engine.until(|e| e.rails.wiring() == Wiring::Done);
            all_reduce(n, engine, 300_000);
            leave(engine);
            String::new()
        });
        if only {
            assert!(done[1].1.contains("only verbs are allowed"), "{}", done[1].1);
        }
    }
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let error = Library::load(Some("/nowhere/libibverbs.so".as_ref())).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/libibverbs.so cannot be loaded: "), "{error}");
    // Some library that is another one.
    let error = Library::load(Some("libc.so.6".as_ref())).unwrap_err();
    assert!(matches!(error, LoadError::Symbol { symbol: "ibv_get_device_list", .. }), "{error}");
    let net = Net::new(2, 1);
    let mut config = net.carrier_config(0);
    config.rails = vec!["192.0.2.1".parse().unwrap()];
    let error = VerbsCarrier::open(&config).unwrap_err();
    assert!(error.starts_with("no RDMA device has 192.0.2.1 as a GID of RoCE v2 (there are fake"), "{error}");
}
