//! Storms that are named, and what is none.

use super::interval::{Counter, Reading, Watch};
use super::judge::{Action, Cause, judge};
use super::*;

/// Two leaves (0, 1) with two servers each and a spine (2): ports 0, 1 to NICs 0, 1; 2 up; 3, 4 to NICs 2, 3; 5 up; 6, 7 down.
fn plane() -> Plane {
    let port = |port| Peer::Port(PortId(port));
    Plane::new(vec![
        (0, Peer::Nic(0)),
        (0, Peer::Nic(1)),
        (0, port(6)),
        (1, Peer::Nic(2)),
        (1, Peer::Nic(3)),
        (1, port(7)),
        (2, port(2)),
        (2, port(5)),
    ])
}

/// Every port is read each second for so many seconds; those that are named are stopped from the beginning.
fn watch(plane: &Plane, stopped: &[u32], unread: &[u32], seconds: u64) -> Watch {
    let mut watch = Watch::new(plane, 400);
    for second in 0..=seconds {
        for port in plane.ports().filter(|port| !unread.contains(&port.0)) {
            let is_stopped = stopped.contains(&port.0);
            let count = |each: u64| Counter { value: each * second, bits: 64 };
            let paused = count(if is_stopped { 1_000_000 } else { 3_000 });
            let sent = count(if is_stopped { 0 } else { 1_000_000 });
            watch.take(port, Reading { at: second * 1_000, paused, sent, is_queued: true });
        }
    }
    watch
}

fn causes(stopped: &[u32], unread: &[u32]) -> Vec<Verdict> {
    let plane = plane();
    judge(&plane, &watch(&plane, stopped, unread, 2), 2_000)
}

#[test]
fn the_nic_at_the_root_is_named_and_its_port_isolated() {
    // NIC 2 pauses port 3; leaf 1 pauses the spine's port 7, the spine leaf 0's port 2.
    let found = causes(&[2, 7, 3], &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cause, Cause::Nic { nic: 2, port: PortId(3) });
    assert_eq!(found[0].action, Action::Isolate(PortId(3)));
    assert_eq!(
        (found[0].path.as_slice(), found[0].stopped),
        ([PortId(2), PortId(7), PortId(3)].as_slice(), 3)
    );
}

#[test]
fn a_switch_that_nothing_pauses_is_told_and_left() {
    let found = causes(&[2], &[]);
    assert_eq!(found[0].cause, Cause::Switch { switch: 2, port: PortId(2) });
    assert_eq!(found[0].action, Action::Notify);
}

#[test]
fn ports_that_wait_for_each_other_are_a_deadlock() {
    // Leaves 0 and 1 with ports 0, 1 and 2, 3 up to spines 2 and 3, which have ports 4, 5 and 6, 7 down.
    let ports = [4, 6, 5, 7, 0, 2, 1, 3].map(|port| Peer::Port(PortId(port)));
    let switches = [0, 0, 1, 1, 2, 2, 3, 3].into_iter().zip(ports);
    let plane = Plane::new(switches.chain([(0, Peer::Nic(0)), (1, Peer::Nic(1))]).collect());
    // Leaf 0 waits for spine 2, that for leaf 1, that for spine 3, that for leaf 0.
    let found = judge(&plane, &watch(&plane, &[0, 5, 3, 6], &[], 2), 2_000);
    assert_eq!(found.len(), 1, "{found:?}");
    let ports = [0, 5, 3, 6].map(PortId).to_vec();
    assert_eq!(found[0].cause, Cause::Deadlock { ports });
    assert_eq!((found[0].action, found[0].stopped), (Action::Isolate(PortId(0)), 4));
}

#[test]
fn another_storm_further_up_is_not_taken_for_a_cycle() {
    // Both NICs of one storm each: whatever comes from above is held up by what is below.
    let found = causes(&[0, 2, 3, 5, 6, 7], &[]);
    let named: Vec<_> = found.iter().map(|verdict| verdict.cause.clone()).collect();
    let nic = |nic, port| Cause::Nic { nic, port: PortId(port) };
    assert_eq!(named, [nic(0, 0), nic(2, 3)], "{found:?}");
}

#[test]
fn what_was_not_read_accuses_nobody() {
    let found = causes(&[2, 3], &[7]);
    let named: Vec<_> = found.iter().map(|verdict| &verdict.cause).collect();
    assert!(named.contains(&&Cause::Unread { switch: 2 }), "{found:?}");
    assert!(found.iter().all(|verdict| verdict.action != Action::Isolate(PortId(2))), "{found:?}");
}

#[test]
fn a_whole_leaf_of_nics_is_the_leaf() {
    let peers = (0..4).map(|nic| (0, Peer::Nic(nic))).collect();
    let plane = Plane::new(peers);
    let found = judge(&plane, &watch(&plane, &[0, 1, 2, 3], &[], 2), 2_000);
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|verdict| verdict.action == Action::Notify), "{found:?}");
}

#[test]
fn counters_wrap_and_begin_anew() {
    let plane = Plane::new(vec![(0, Peer::Nic(0))]);
    let mut watch = Watch::new(&plane, 400);
    let read = |at, paused, sent| Reading {
        at,
        paused: Counter { value: paused, bits: 32 },
        sent: Counter { value: sent, bits: 64 },
        is_queued: true,
    };
    let near = (1 << 32) - 400_000;
    watch.take(PortId(0), read(0, near, 5));
    watch.take(PortId(0), read(1_000, 600_000, 5));
    assert_eq!(watch.stopped_for(PortId(0), 1_000), 1_000);
    // It began anew: nothing is known, and nobody is stopped.
    watch.take(PortId(0), read(2_000, 0, 0));
    assert_eq!(watch.last(PortId(0), 2_000), None);
    assert_eq!(watch.stopped_for(PortId(0), 2_000), 0);
    watch.take(PortId(0), read(3_000, 1_000_000, 0));
    assert_eq!(watch.stopped_for(PortId(0), 3_000), 1_000);
    // Old readings say nothing of now, and are not taken after newer ones.
    assert_eq!(watch.stopped_for(PortId(0), 9_000), 0);
    watch.take(PortId(0), read(2_500, 0, 0));
    assert_eq!(watch.stopped_for(PortId(0), 3_000), 1_000);
}

#[test]
fn storms_of_the_model_are_named_within_two_seconds() {
    let found = storms(0..300);
    assert!(found.longest_ms <= 2_000, "{found:?}");
    assert_eq!((found.named, found.missed.len()), (found.made, 0), "{found:?}");
    assert!(found.most_isolated <= 1, "{found:?}");
}

#[test]
fn a_day_without_a_storm_brings_no_alarm() {
    for seed in 0..3 {
        assert_eq!(month(86_400, seed).alarms, 0, "seed {seed}");
    }
}

#[test]
fn both_ends_together_say_why() {
    let quiet = Both { port_paused: 10, marked: 10, ..Both::default() };
    assert_eq!(join(&quiet), []);
    let stalls = Both { port_paused: 400, host_stalls: Some(7), ..quiet };
    assert_eq!(join(&stalls), [Join::HostMemory]);
    assert_eq!(join(&Both { host_stalls: None, ..stalls }), [Join::SlowReceiver]);
    let marked = Both { marked: 50_000, notified: Some(0), handled: Some(9), ..quiet };
    assert_eq!(join(&marked), [Join::MarksUnanswered]);
    assert_eq!(join(&Both { notified: Some(80), handled: Some(0), ..marked }), [Join::NotificationsLost]);
    assert_eq!(join(&Both { notified: None, ..marked }), []);
}
