//! Rails that nobody uses: when a probe is wanted, what it ends and what it does not.

use proto_model::Timestamp;

use super::rig::{GIB, Rig, SECOND, rig};
use crate::{Change, Condition, CounterKind, Event, Severity, Verdict, step};

#[test]
fn without_traffic_nothing_is_proved_but_by_a_probe() {
    let mut rig = rig(2);
    let hurt = |rig: &mut Rig| rig.add(1, "local_ack_timeout_err", 5);
    let raised = rig.seconds(60, hurt);
    assert_eq!(raised, [(1, Condition::Lossy, Change::Raised, Severity::Degraded)]);
    assert_eq!(rig.seconds(3600, |_| ()), [], "quiet alone proves nothing");
    let key = rig.keys[1].clone();
    rig.event(&Event::Probed { port: &key, passed: false });
    assert_eq!(rig.second(), [], "a probe that failed proves nothing");
    rig.event(&Event::Probed { port: &key, passed: true });
    assert_eq!(rig.second(), [(1, Condition::Lossy, Change::Cleared, Severity::Degraded)]);
}

#[test]
fn a_probe_before_the_last_sign_proves_nothing() {
    let mut rig = rig(2);
    let key = rig.keys[1].clone();
    rig.seconds(60, |rig| rig.add(1, "local_ack_timeout_err", 5));
    rig.event(&Event::Probed { port: &key, passed: true });
    rig.seconds(2, |rig| rig.add(1, "local_ack_timeout_err", 50));
    assert_eq!(rig.seconds(120, |_| ()), []);
}

/// Until the condition is raised; its severity.
fn lossy(rig: &mut Rig) -> Severity {
    let raised = rig.seconds(60, |rig| rig.add(1, "local_ack_timeout_err", 5));
    let [(1, Condition::Lossy, Change::Raised, severity)] = raised[..] else { panic!("{raised:?}") };
    severity
}

fn wants_probe(rig: &Rig, condition: Condition) -> bool {
    rig.state.port(&rig.keys[1]).unwrap().board.wants_probe(condition)
}

#[test]
fn a_probe_is_wanted_when_it_would_end_something() {
    let mut rig = rig(2);
    assert!(!wants_probe(&rig, Condition::Lossy), "nothing is wrong");
    lossy(&mut rig);
    let since = rig.state.port(&rig.keys[1]).unwrap().board.get(Condition::Lossy).unwrap().last_sign;
    let mut quiet = 0;
    while !wants_probe(&rig, Condition::Lossy) {
        assert_eq!(rig.second(), []);
        quiet = rig.state.port(&rig.keys[1]).unwrap().board.get(Condition::Lossy).unwrap().quiet_ms;
        assert!(quiet <= 30 * SECOND, "{quiet}");
    }
    assert_eq!(quiet, 30 * SECOND, "since {since}");
    // Signs again: it is not the time for a probe.
    rig.seconds(32, |rig| rig.add(1, "local_ack_timeout_err", 500));
    assert!(!wants_probe(&rig, Condition::Lossy));
    rig.seconds(60, |_| ());
    assert!(wants_probe(&rig, Condition::Lossy));
    let key = rig.keys[1].clone();
    rig.event(&Event::Probed { port: &key, passed: true });
    assert!(!wants_probe(&rig, Condition::Lossy), "it is over with the next look");
    assert_eq!(rig.second(), [(1, Condition::Lossy, Change::Cleared, Severity::Drain)]);
}

/// What is less than any rule's limit speaks against a probe, for nobody else uses the rail.
#[test]
fn counters_have_the_last_word_on_a_probe() {
    for (counter, during, word) in [
        ("local_ack_timeout_err", true, Some(CounterKind::Timeout)),
        ("symbol_error", false, Some(CounterKind::Corrupt)),
        ("tx_prio3_bytes", true, None),
    ] {
        let mut rig = rig(2);
        lossy(&mut rig);
        rig.seconds(60, |_| ());
        let key = rig.keys[1].clone();
        rig.event(&Event::Probing { port: &key });
        if during {
            rig.add(1, counter, 1);
        }
        assert_eq!(rig.seconds(3, |_| ()), [], "{counter}");
        rig.event(&Event::Probed { port: &key, passed: true });
        // Some drivers tell late.
        assert_eq!(rig.second(), [], "{counter}");
        if !during {
            rig.add(1, counter, 1);
        }
        rig.now += SECOND;
        (0..2).for_each(|rail| rig.check(rail));
        let verdicts = step(&mut rig.state, &Event::Round, Timestamp(rig.now));
        let outcome = word.map_or(Ok(()), Err);
        assert_eq!(verdicts[0], Verdict::Probe { port: key.clone(), outcome }, "{counter}");
        assert_eq!(verdicts.len(), 1 + usize::from(word.is_none()), "{counter}: {verdicts:?}");
        assert_eq!(wants_probe(&rig, Condition::Lossy), word.is_some(), "{counter}");
    }
}

#[test]
fn a_probe_that_ends_without_a_result_leaves_nothing_behind() {
    let mut rig = rig(2);
    lossy(&mut rig);
    let key = rig.keys[1].clone();
    rig.event(&Event::Probing { port: &key });
    rig.event(&Event::Probed { port: &key, passed: false });
    rig.add(1, "local_ack_timeout_err", 1);
    rig.seconds(60, |_| ());
    rig.event(&Event::Probing { port: &key });
    rig.event(&Event::Probed { port: &key, passed: true });
    let cleared = rig.seconds(2, |_| ());
    assert_eq!(cleared, [(1, Condition::Lossy, Change::Cleared, Severity::Degraded)]);
}

#[test]
fn a_probe_says_nothing_of_what_it_does_not_show() {
    let mut rig = rig(2);
    let raised = rig.seconds(60, |rig| rig.add(1, "np_ecn_marked_roce_packets", 5000));
    assert_eq!(raised, [(1, Condition::RateControlOff, Change::Raised, Severity::Degraded)]);
    rig.seconds(3600, |_| ());
    assert!(!wants_probe(&rig, Condition::RateControlOff));
    let key = rig.keys[1].clone();
    rig.event(&Event::Probed { port: &key, passed: true });
    assert_eq!(rig.seconds(10, |_| ()), []);
    for condition in [Condition::Slow, Condition::HostStalled, Condition::WrongPriority] {
        assert_eq!(condition.proof().probed, None, "{condition}");
        assert!(condition.proof().bytes > 0, "{condition}");
    }
}

#[test]
fn what_came_too_often_is_proved_longer_and_lapses_after_a_day() {
    let mut rig = rig(2);
    let key = rig.keys[1].clone();
    for episode in 1..=4 {
        assert_eq!(lossy(&mut rig), Severity::Degraded, "{episode}");
        rig.seconds(60, |_| ());
        rig.event(&Event::Probed { port: &key, passed: true });
        assert_eq!(rig.second().len(), 1, "{episode}");
    }
    assert_eq!(lossy(&mut rig), Severity::Drain);
    rig.seconds(200, |_| ());
    assert!(!wants_probe(&rig, Condition::Lossy));
    rig.event(&Event::Probed { port: &key, passed: true });
    assert_eq!(rig.second(), []);
    let held = *rig.state.port(&key).unwrap().board.get(Condition::Lossy).unwrap();
    let reported = held.reported(Condition::Lossy);
    assert!(
        reported.contains("300 s without a sign and 10 GiB carried, or 300 s and a probe that"),
        "{reported}"
    );
    assert!(reported.ends_with("after a day without a sign jobs may use the rail again"), "{reported}");
    // Without anybody to probe it with.
    let mut other = rig;
    other.event(&Event::Probed { port: &key, passed: false });
    other.state.port_mut(&key).unwrap().board.probed(Timestamp(0));
    let day = other.seconds(24 * 3600, |_| ());
    assert_eq!(day, [(1, Condition::Lossy, Change::Eased, Severity::Degraded)]);
    assert!(!other.state.is_unfit(&key));
    // It is not over: only traffic, or a probe, shows that.
    assert!(other.state.port(&key).unwrap().board.get(Condition::Lossy).is_some());
    let cleared = other.seconds(300, |rig| rig.add(1, "tx_prio3_bytes", GIB));
    assert_eq!(cleared, [(1, Condition::Lossy, Change::Cleared, Severity::Degraded)]);
}
