//! Rails by hand: what a look says, what a verdict needs, what ends it.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use proto_model::Timestamp;

use super::rig::{GIB, Rig, SECOND, job, job_in, rig};
use crate::{
    Change, Condition, Config, CounterKind, Event, PortKey, ReadFailure, Sample, Severity, State, Vendor,
    Verdict, score, state::PORTS_MAX, step,
};

#[test]
fn a_rename_changes_nothing_and_a_new_life_begins_anew() {
    let mut rig = rig(1);
    rig.add(0, "packet_seq_err", 5);
    rig.device = "rocep24s0".to_owned();
    rig.second();
    assert_eq!(rig.total(0, CounterKind::LossOut), 5);
    assert_eq!(rig.state.port(&rig.keys[0]).unwrap().device, "rocep24s0");
    // A driver was loaded anew: more than before, but nobody knows since when.
    rig.life = 2;
    rig.add(0, "packet_seq_err", 100_000);
    assert_eq!(rig.second(), []);
    assert_eq!(rig.total(0, CounterKind::LossOut), 5);
    rig.add(0, "packet_seq_err", 3);
    rig.second();
    assert_eq!(rig.total(0, CounterKind::LossOut), 8);
}

#[test]
fn where_counters_were_cleared_nothing_has_wrapped() {
    let mut rig = rig(1);
    let near = (1_u64 << 32) - 10;
    let at = |rig: &Rig, name: &str| rig.layout.columns().iter().position(|c| c.name == name).unwrap();
    let (wraps, plain) = (at(&rig, "np_cnp_sent"), at(&rig, "packet_seq_err"));
    rig.values[0][wraps] = Some(near);
    rig.second();
    let before = rig.total(0, CounterKind::CnpSent);
    rig.values[0][wraps] = Some(5);
    rig.second();
    assert_eq!(rig.total(0, CounterKind::CnpSent) - before, 15, "it wrapped");
    rig.values[0][wraps] = Some(near);
    rig.second();
    let before = rig.total(0, CounterKind::CnpSent);
    (rig.values[0][wraps], rig.values[0][plain]) = (Some(0), Some(0));
    rig.second();
    assert_eq!(rig.total(0, CounterKind::CnpSent), before, "it was cleared, as the other shows");
}

#[test]
fn what_is_missing_is_neither_zero_nor_proof() {
    let mut rig = rig(1);
    let raised = rig.seconds(3, |rig| rig.add(0, "rx_prio3_pause_duration", 990_000));
    assert_eq!(raised, [(0, Condition::Storm, Change::Raised, Severity::Drain)]);
    let pauses: Vec<usize> = rig.layout.pause_rx().iter().chain(rig.layout.pause_tx()).copied().collect();
    let kept = rig.values[0].clone();
    for place in &pauses {
        rig.values[0][*place] = None;
    }
    assert_eq!(rig.seconds(200, |rig| rig.add(0, "tx_prio3_bytes", GIB)), []);
    // Read again, with traffic: now time counts.
    for place in &pauses {
        rig.values[0][*place] = kept[*place];
    }
    let cleared = rig.seconds(62, |rig| rig.add(0, "tx_prio3_bytes", GIB));
    assert_eq!(cleared, [(0, Condition::Storm, Change::Cleared, Severity::Drain)]);
}

#[test]
fn a_counter_that_was_missing_for_a_while_loses_nothing() {
    let mut rig = rig(1);
    let at = rig.layout.columns().iter().position(|column| column.name == "packet_seq_err").unwrap();
    let value = rig.values[0][at].take();
    rig.seconds(5, |_| ());
    rig.values[0][at] = value.map(|value| value + 7);
    rig.second();
    assert_eq!(rig.total(0, CounterKind::LossOut), 7);
}

#[test]
fn a_storm_says_who_is_at_fault() {
    for (name, fact) in
        [("rx_prio3_pause_duration", "StormFromNetwork"), ("tx_prio3_pause_duration", "StormFromHost")]
    {
        let mut rig = rig(2);
        rig.seconds(3, |rig| rig.add(1, name, 990_000));
        let port = rig.state.port(&rig.keys[1]).unwrap();
        assert_eq!(port.board.get(Condition::Storm).unwrap().evidence.fact.id, fact);
        assert!(rig.state.is_unfit(&rig.keys[1]) && !rig.state.is_unfit(&rig.keys[0]));
        assert_eq!((score(port).value, score(port).parts[0].what), (0, "Storm"));
    }
}

#[test]
fn many_short_pauses_are_no_storm() {
    let mut rig = rig(1);
    assert_eq!(rig.seconds(60, |rig| rig.add(0, "rx_prio3_pause_duration", 400_000)), []);
}

#[test]
fn what_most_rails_of_a_job_show_is_no_rails_doing() {
    let mut one = rig(8);
    one.event(&job(0..4));
    let all = one.seconds(60, |rig| (0..4).for_each(|rail| rig.add(rail, "local_ack_timeout_err", 20)));
    assert_eq!(all, []);
    let mut one = rig(8);
    one.event(&job(0..4));
    let alone = one.seconds(60, |rig| rig.add(2, "local_ack_timeout_err", 20));
    assert_eq!(alone, [(2, Condition::Lossy, Change::Raised, Severity::Degraded)]);
}

#[test]
fn reordering_is_loss_only_where_routes_are_fixed() {
    for (adaptive, found) in [(false, true), (true, false)] {
        let mut rig = Rig::new(2, Config::new(adaptive, &BTreeMap::new()).unwrap());
        let verdicts = rig.seconds(120, |rig| rig.add(0, "out_of_sequence", 500));
        assert_eq!(!verdicts.is_empty(), found, "adaptive {adaptive}: {verdicts:?}");
    }
}

#[test]
fn symbol_errors_add_up_over_an_hour() {
    let mut rig = rig(1);
    let few = rig.seconds(115, |rig| rig.add(0, "symbol_error", 1));
    assert_eq!(few, []);
    let more = rig.seconds(10, |rig| rig.add(0, "symbol_error", 1));
    assert_eq!(more, [(0, Condition::Corrupt, Change::Raised, Severity::Drain)]);
}

#[test]
fn a_gap_of_polling_is_no_burst() {
    let mut rig = rig(2);
    rig.add(0, "local_ack_timeout_err", 500);
    rig.now += 3600 * SECOND;
    assert_eq!(rig.second(), []);
    assert_eq!(rig.seconds(40, |_| ()), []);
}

#[test]
fn one_flap_degrades_and_three_drain() {
    let mut rig = rig(1);
    let flap = |rig: &mut Rig| {
        rig.add(0, "link_downed", 1);
        rig.second()
    };
    assert_eq!(flap(&mut rig), [(0, Condition::Flapping, Change::Raised, Severity::Degraded)]);
    assert_eq!(flap(&mut rig), []);
    assert_eq!(flap(&mut rig), [(0, Condition::Flapping, Change::Worse, Severity::Drain)]);
    assert_eq!(rig.seconds(1790, |_| ()), []);
    assert_eq!(rig.seconds(20, |_| ()), [(0, Condition::Flapping, Change::Cleared, Severity::Drain)]);
}

#[test]
fn flaps_that_are_expected_are_no_flaps() {
    let mut one = rig(1);
    let (key, until) = (one.keys[0].clone(), Timestamp(one.now + 5000));
    one.event(&Event::Expected { port: &key, until });
    one.add(0, "link_downed", 1);
    assert_eq!(one.second(), []);
    let booted = Timestamp(1_000_000_000_000 + 3600 * SECOND);
    let config = Config { booted, ..Config::default() };
    let mut booting = Rig::new(1, config);
    booting.add(0, "link_downed", 1);
    assert_eq!(booting.second(), []);
    booting.now += 1800 * SECOND;
    booting.second();
    booting.add(0, "link_downed", 1);
    assert_eq!(booting.second().len(), 1);
}

#[test]
fn a_link_that_is_down_drains_until_it_has_been_up_for_a_while() {
    let mut rig = rig(2);
    rig.links[1] = false;
    let down = rig.second();
    assert!(down.contains(&(1, Condition::LinkDown, Change::Raised, Severity::Drain)), "{down:?}");
    rig.seconds(60, |_| ());
    rig.links[1] = true;
    assert_eq!(rig.seconds(28, |_| ()), []);
    assert_eq!(rig.seconds(4, |_| ()), [(1, Condition::LinkDown, Change::Cleared, Severity::Drain)]);
}

#[test]
fn a_device_is_gone_after_three_looks_and_firmware_is_left_alone() {
    let mut rig = rig(2);
    let key = rig.keys[1].clone();
    let fail = |rig: &mut Rig, why| {
        rig.now += SECOND;
        rig.check(0);
        rig.event(&Event::Failed { port: &key, why });
        (rig.round(), rig.state.wait(&key, Timestamp(rig.now)).as_secs())
    };
    assert_eq!(fail(&mut rig, ReadFailure::Absent), (vec![], 0));
    assert_eq!(fail(&mut rig, ReadFailure::Absent), (vec![], 0));
    let (gone, wait) = fail(&mut rig, ReadFailure::Absent);
    assert_eq!((gone, wait), (vec![(1, Condition::Gone, Change::Raised, Severity::Drain)], 0));
    assert_eq!(rig.seconds(40, |_| ()), [(1, Condition::Gone, Change::Cleared, Severity::Drain)]);
    let waits: Vec<u64> = (0..4).map(|_| fail(&mut rig, ReadFailure::Firmware).1).collect();
    assert_eq!(waits, [2, 4, 8, 16]);
    let port = rig.state.port(&rig.keys[1]).unwrap();
    assert_eq!(port.board.get(Condition::Unreadable).unwrap().severity, Severity::Degraded);
}

/// Where a profile has data on priority 2 and notifications on 7, bytes on 3 and 6 are in no data class of a job's.
#[test]
fn the_priority_is_where_the_job_is_said_to_be() {
    let wrong = |priority: u8| {
        let mut rig = rig(1);
        rig.event(&job_in(0..1, 2, 7));
        let counter = format!("tx_prio{priority}_bytes");
        rig.seconds(30, |rig| rig.add(0, &counter, GIB)).len()
    };
    assert_eq!([2, 7, 3, 6].map(wrong), [0, 0, 1, 1]);
}

#[test]
fn the_stacks_own_bytes_are_in_no_wrong_priority() {
    let mut one = rig(1);
    one.event(&job(0..1));
    let storage = one.seconds(30, |rig| {
        rig.add(0, "tx_prio3_bytes", 10 * GIB);
        rig.add(0, "tx_prio0_bytes", GIB);
        rig.add(0, "tx_bytes", GIB - GIB / 300);
    });
    assert_eq!(storage, []);
    let rdma = one.seconds(30, |rig| {
        rig.add(0, "tx_prio3_bytes", 10 * GIB);
        rig.add(0, "tx_prio0_bytes", GIB);
    });
    assert_eq!(rdma, [(0, Condition::WrongPriority, Change::Raised, Severity::Degraded)]);
    let hint = |rig: &Rig| {
        rig.state.port(&rig.keys[0]).unwrap().board.get(Condition::WrongPriority).unwrap().evidence.fact.id
    };
    assert_eq!(hint(&one), "WrongPriorityControl");
    // The job leaves: the rail has no fault.
    assert_eq!(one.event(&Event::Jobs(vec![])).len(), 1);
    let mut peer = rig(1);
    peer.event(&job(0..1));
    peer.seconds(5, |rig| rig.add(0, "rx_prio0_bytes", GIB));
    assert_eq!(hint(&peer), "WrongPriorityReceived");
}

/// For a while it looks as if the stack's count had the job's bytes in it.
#[test]
fn storage_that_outweighs_a_job_is_storage_afterwards_too() {
    let mut rig = rig(1);
    rig.event(&job(0..1));
    let second = |rig: &mut Rig, of_job: u64| {
        rig.add(0, "tx_prio3_bytes", of_job);
        rig.add(0, "tx_prio0_bytes", GIB);
        rig.add(0, "tx_bytes", GIB - GIB / 300);
    };
    assert_eq!(rig.seconds(10, |rig| second(rig, GIB / 20)), []);
    assert_eq!(rig.seconds(30, |rig| second(rig, 10 * GIB)), []);
}

#[test]
fn a_priority_is_a_jobs_and_notifications_have_their_own() {
    let mut rig = rig(1);
    let all = |rig: &mut Rig| rig.add(0, "tx_prio0_bytes", GIB);
    assert_eq!(rig.seconds(10, all), [], "no job, no data class");
    rig.event(&job(0..1));
    assert_eq!(rig.seconds(10, |rig| rig.add(0, "tx_prio6_bytes", GIB)), []);
}

#[test]
fn a_slow_rail_is_told_from_a_dip_and_from_another_load() {
    let slow = |rates: [u64; 4], seconds, reported: bool| {
        let mut rig = rig(4);
        if reported {
            rig.event(&job(0..4));
        }
        let even = |rig: &mut Rig| (0..4).for_each(|rail| rig.add(rail, "tx_prio3_bytes", 20 * GIB));
        rig.seconds(10, even);
        let mut found = rig.seconds(seconds, |rig| {
            (0..4).for_each(|rail| rig.add(rail, "tx_prio3_bytes", rates[rail] * GIB / 10));
        });
        found.extend(rig.seconds(10, even));
        found.into_iter().map(|(rail, condition, ..)| (rail, condition)).collect::<Vec<_>>()
    };
    assert_eq!(slow([200, 200, 160, 200], 10, true), [(2, Condition::Slow)]);
    assert_eq!(slow([200, 200, 160, 200], 10, false), [(2, Condition::Slow)]);
    assert_eq!(slow([200, 200, 160, 200], 3, true), [], "a dip");
    assert_eq!(slow([200, 200, 180, 200], 10, true), [], "ten percent");
    assert_eq!(slow([200, 150, 160, 100], 10, true), [], "not the same load");
    assert_eq!(slow([200, 200, 0, 200], 10, false), [], "perhaps unused");
    assert_eq!(slow([200, 200, 0, 200], 10, true), [(2, Condition::Slow)]);
    assert_eq!(slow([10, 10, 5, 10], 10, true), [], "hardly any load");
}

#[test]
fn exchanged_cables_are_told_from_one_that_is_wrong() {
    let mut rig = rig(4);
    let heard = |rig: &mut Rig, pairs: [(usize, u32); 2]| {
        for (rail, heard) in pairs {
            let key = rig.keys[rail].clone();
            rig.event(&Event::Cabling { port: &key, planned: rail as u32, heard: Some(heard) });
        }
    };
    let found = rig.seconds(5, |rig| heard(rig, [(1, 2), (2, 1)]));
    assert_eq!(found.len(), 2, "{found:?}");
    let fact = |rig: &Rig, at: usize| {
        rig.state.port(&rig.keys[at]).unwrap().board.get(Condition::Swapped).unwrap().evidence.fact.id
    };
    assert_eq!((fact(&rig, 1), fact(&rig, 2)), ("SwappedRails", "SwappedRails"));
    let over = rig.seconds(32, |rig| heard(rig, [(1, 1), (2, 2)]));
    assert_eq!(over.iter().filter(|(_, _, change, _)| *change == Change::Cleared).count(), 2, "{over:?}");
    rig.seconds(5, |rig| heard(rig, [(1, 3), (2, 2)]));
    assert_eq!(fact(&rig, 1), "WrongRail");
}

#[test]
fn rails_are_drained_before_their_server() {
    let mut rig = rig(4);
    let mut seen = Vec::new();
    for _ in 0..20 {
        (0..2).for_each(|rail| rig.add(rail, "tx_prio3_pause_duration", 990_000));
        rig.now += SECOND;
        (0..4).for_each(|rail| rig.check(rail));
        let now = rig.now;
        for verdict in rig.event(&Event::Round) {
            seen.push((now, matches!(verdict, Verdict::Node { drain: true, unfit: 2, rails: 4 })));
        }
    }
    let nodes: Vec<u64> = seen.iter().filter(|(_, node)| *node).map(|(at, _)| *at).collect();
    let rails: Vec<u64> = seen.iter().filter(|(_, node)| !*node).map(|(at, _)| *at).collect();
    assert_eq!((rails.len(), nodes.len()), (2, 1));
    assert!(nodes[0] >= rails[1] + 10 * SECOND);
    // The network's storms on half of the rails, or links that are down, are not the server's.
    let mut other = self::rig(4);
    other.links = vec![false, false, true, true];
    other.seconds(60, |_| ());
    assert!(!other.state.is_node_unfit());
    other.links = vec![false; 4];
    other.seconds(60, |_| ());
    assert!(other.state.is_node_unfit());
}

#[test]
fn what_held_before_a_restart_holds_after_it() {
    let mut rig = rig(2);
    rig.seconds(3, |rig| rig.add(1, "rx_prio3_pause_duration", 990_000));
    let kept = rig.state.kept();
    assert_eq!(kept.len(), 1);
    rig.state = State::new(Config::default());
    rig.state.restore(kept, Timestamp(rig.now));
    assert!(rig.state.is_unfit(&rig.keys[1]));
    assert_eq!(rig.seconds(120, |_| ()), [], "quiet without traffic");
    let over = rig.seconds(5, |rig| rig.add(1, "tx_prio3_bytes", GIB));
    assert_eq!(over, [(1, Condition::Storm, Change::Cleared, Severity::Drain)]);
}

#[test]
fn the_fifth_time_in_a_day_drains() {
    let mut rig = rig(2);
    let mut worst = Vec::new();
    for _ in 0..5 {
        let raised = rig.seconds(60, |rig| rig.add(1, "local_ack_timeout_err", 5));
        worst.push(raised[0].3);
        let over = rig.seconds(330, |rig| rig.add(1, "tx_prio3_bytes", GIB));
        assert_eq!(over.len(), 1);
    }
    assert_eq!(worst[..4], [Severity::Degraded; 4]);
    assert_eq!(worst[4], Severity::Drain);
}

#[test]
fn marks_without_a_notification_are_told() {
    let mut rig = rig(1);
    let found = rig.seconds(20, |rig| rig.add(0, "np_ecn_marked_roce_packets", 1000));
    assert_eq!(found, [(0, Condition::RateControlOff, Change::Raised, Severity::Degraded)]);
}

#[test]
fn rules_can_be_changed_and_names_are_checked() {
    let off = BTreeMap::from([("SymbolErrorsHour".to_owned(), None)]);
    let mut rig = Rig::new(1, Config::new(false, &off).unwrap());
    assert_eq!(rig.seconds(300, |rig| rig.add(0, "symbol_error", 1)), []);
    let wrong = Config::new(false, &BTreeMap::from([("Symbols".to_owned(), None)])).unwrap_err();
    assert!(wrong.to_string().contains("'Symbols'") && wrong.to_string().contains("SymbolErrorsHour"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No order of events, clocks that stand still or jump, and values of any kind does harm, and memory is bounded.
    #[test]
    fn anything_may_come(
        events in prop::collection::vec((0_u8..6, 0_u16..100, any::<u64>(), 0_u64..100_000, 0_u64..3), 1..300),
    ) {
        let layout = Arc::new(crate::model::full_layout(Vendor::Mlx5));
        let mut state = State::new(Config::default());
        let mut now = 1_000_000_000;
        for (kind, port, value, wait, life) in events {
            now += wait;
            let key = PortKey { pci_address: format!("0000:{port:02x}:00.0"), guid: String::new(), port: 1 };
            let values: Vec<Option<u64>> =
                (0..layout.columns().len() as u32).map(|at| (value.rotate_left(at) % 7 > 0).then(|| value.rotate_right(at))).collect();
            let event = match kind {
                0 => Event::Failed { port: &key, why: ReadFailure::Absent },
                1 => Event::Failed { port: &key, why: ReadFailure::Firmware },
                2 => Event::Cabling { port: &key, planned: 1, heard: Some(u32::from(port)) },
                3 => job(0..8),
                4 => Event::Round,
                _ => Event::Sample(Sample {
                    port: &key, at: Timestamp(now), device: "x", rail: u32::from(port) % 8, life,
                    link: Some(value % 3 > 0), speed_mbps: 0, layout: &layout, values: &values,
                }),
            };
            step(&mut state, &event, Timestamp(now));
            prop_assert!(state.ports().count() <= PORTS_MAX);
            for (_, port) in state.ports() {
                prop_assert!(score(port).value <= 100);
            }
        }
    }
}
