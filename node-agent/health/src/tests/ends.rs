//! What ends a condition, and what does not.

use proto_model::Timestamp;

use super::rig::{GIB, Rig, SECOND, job, rig};
use crate::{Change, Condition, Config, Event, Layout, Severity, Source, State, Vendor};

type Reported = (u32, Condition, Change, Severity);

fn raised(condition: Condition, severity: Severity) -> Vec<Reported> {
    vec![(0, condition, Change::Raised, severity)]
}

#[test]
fn a_storm_is_not_over_while_one_direction_is_paused() {
    let mut rig = rig(1);
    let storm = rig.seconds(3, |rig| rig.add(0, "rx_prio3_pause_duration", 990_000));
    assert_eq!(storm, raised(Condition::Storm, Severity::Drain));
    let busy = rig.seconds(120, |rig| {
        rig.add(0, "rx_prio3_pause_duration", 400_000);
        rig.add(0, "tx_prio3_bytes", GIB);
    });
    assert_eq!(busy, [], "neither worse nor better");
    let calm = rig.seconds(62, |rig| rig.add(0, "tx_prio3_bytes", GIB));
    assert_eq!(calm, [(0, Condition::Storm, Change::Cleared, Severity::Drain)]);
}

/// A rig that counts one thing more.
fn with(rails: usize, source: Source, name: &str) -> Rig {
    let mut rig = rig(rails);
    let columns = rig.layout.columns().iter();
    let known: Vec<(Source, String)> =
        columns.map(|column| (column.row.source, column.name.clone())).collect();
    let names = known.iter().map(|(source, name)| (*source, name.as_str())).chain([(source, name)]);
    rig.layout = std::sync::Arc::new(Layout::new(Vendor::Mlx5, names));
    rig.values = vec![vec![Some(1000); rig.layout.columns().len()]; rails];
    rig.life += 1;
    rig.second();
    rig.now += 60 * SECOND;
    rig.second();
    rig
}

#[test]
fn a_counter_that_is_missing_is_not_proved_for_by_another() {
    let name = "local_link_integrity_errors";
    let mut rig = with(1, Source::Port, name);
    rig.add(0, name, 1);
    assert_eq!(rig.seconds(1, |_| ()), raised(Condition::Corrupt, Severity::Drain));
    let at = rig.layout.columns().iter().position(|column| column.name == name).unwrap();
    let value = rig.values[0][at].take();
    let missing = rig.seconds(600, |rig| rig.add(0, "tx_prio3_bytes", GIB));
    assert_eq!(missing, [], "that there are no symbol errors says nothing of it");
    rig.values[0][at] = value;
    let over = rig.seconds(302, |rig| rig.add(0, "tx_prio3_bytes", GIB));
    assert_eq!(over, [(0, Condition::Corrupt, Change::Cleared, Severity::Drain)]);
}

#[test]
fn a_queue_pair_that_died_once_is_told_unless_the_others_died_with_it() {
    let dead = "req_transport_retries_exceeded";
    let mut one = with(4, Source::Hardware, dead);
    one.event(&job(0..4));
    one.add(0, dead, 1);
    assert_eq!(one.seconds(4, |_| ()), raised(Condition::QpDied, Severity::Note));
    let over = one.seconds(62, |_| ());
    assert_eq!(over, [(0, Condition::QpDied, Change::Cleared, Severity::Note)]);
    let mut all = with(4, Source::Hardware, dead);
    all.event(&job(0..4));
    (0..4).for_each(|rail| all.add(rail, dead, 1));
    assert_eq!(all.seconds(30, |_| ()), [], "the job died, not a rail");
}

#[test]
fn a_clock_that_was_ahead_does_not_keep_a_condition_for_ever() {
    let mut rig = rig(1);
    rig.seconds(60, |rig| rig.add(0, "local_ack_timeout_err", 5));
    let mut kept = rig.state.kept();
    for (_, _, held) in &mut kept {
        (held.since, held.last_sign) = (Timestamp(u64::MAX / 2), Timestamp(u64::MAX / 2));
    }
    rig.state = State::new(Config::default());
    rig.state.restore(kept, Timestamp(rig.now));
    assert_eq!(rig.seconds(40, |_| ()), []);
    let key = rig.keys[0].clone();
    assert!(rig.state.port(&key).unwrap().board.wants_probe(Condition::Lossy));
    rig.event(&Event::Probed { port: &key, passed: true });
    assert_eq!(rig.second(), [(0, Condition::Lossy, Change::Cleared, Severity::Degraded)]);
}
