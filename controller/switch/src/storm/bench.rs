//! Storms of the model that are to be named, and a month without one: row F7.

use super::interval::Watch;
use super::judge::{Action, Cause, judge};
use super::model::{Fault, GBPS, Model, Size};

/// What became of storms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Storms {
    /// How many there were.
    pub made: u32,
    /// Those of which the right port was named first, and isolated.
    pub named: u32,
    /// The longest time from the beginning to the name, in milliseconds.
    pub longest_ms: u64,
    /// Most rails of one leaf that were isolated.
    pub most_isolated: u32,
    /// Seeds of those that were named late, wrongly or not at all.
    pub missed: Vec<u64>,
}

/// What a month without a storm brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Month {
    /// Times that all ports were judged.
    pub looks: u64,
    /// Verdicts; there should be none.
    pub alarms: u64,
}

const SIZE: Size = Size { leaves: 4, spines: 3, servers: 8 };
/// Every port is read so often, in milliseconds: twice in the second that a storm is given, so that one reading may fail.
const EVERY: u64 = 500;

fn sample(model: &mut Model, watch: &mut Watch) {
    for port in model.plane.ports() {
        if let Some(reading) = model.read(port) {
            watch.take(port, reading);
        }
    }
}

/// One storm of each seed: a NIC that somebody sends to pauses for ever, beside a slow receiver, at any moment of a second.
#[must_use]
pub fn storms(seeds: std::ops::Range<u64>) -> Storms {
    let mut found = Storms::default();
    for seed in seeds {
        let mut model = Model::new(SIZE, seed);
        let mut watch = Watch::new(&model.plane, GBPS);
        let (stormy, slow) = (model.receiver(), model.receiver());
        let from = 3_000 + seed * 37 % 1_000;
        if slow != stormy {
            model.faults.push(Fault { nic: slow, from: 0, share: 600 });
        }
        model.faults.push(Fault { nic: stormy, from, share: 1_000 });
        found.made += 1;
        let mut named = None;
        while named.is_none() && model.now < from + 10_000 {
            model.step(EVERY);
            sample(&mut model, &mut watch);
            let verdicts = judge(&model.plane, &watch, model.now);
            let isolated =
                verdicts.iter().filter(|verdict| matches!(verdict.action, Action::Isolate(_))).count();
            found.most_isolated = found.most_isolated.max(u32::try_from(isolated).unwrap_or(u32::MAX));
            // A port that could not be read this time is waited for, and accuses nobody.
            let first = verdicts.into_iter().find(|verdict| !matches!(verdict.cause, Cause::Unread { .. }));
            named = first.map(|verdict| (verdict.cause, model.now - from));
        }
        match named {
            Some((Cause::Nic { nic, .. }, took)) if nic == stormy => {
                found.named += 1;
                found.longest_ms = found.longest_ms.max(took);
            }
            _ => found.missed.push(seed),
        }
    }
    found
}

/// So many seconds with incast, slow receivers, readings that fail and counters that begin anew.
#[must_use]
pub fn month(seconds: u64, seed: u64) -> Month {
    let mut model = Model::new(SIZE, seed);
    let mut watch = Watch::new(&model.plane, GBPS);
    let mut found = Month::default();
    for step in 0..seconds * 1_000 / EVERY {
        // Jobs come and go; now and then a receiver is slow.
        if step % 120 == 0 {
            model.shuffle();
            let nic = model.receiver();
            model.faults = vec![Fault { nic, from: 0, share: step / 120 % 19 * 50 }];
        }
        model.step(EVERY);
        sample(&mut model, &mut watch);
        found.looks += 1;
        found.alarms += judge(&model.plane, &watch, model.now).len() as u64;
    }
    found
}
