//! Runs: a month of noise in which nothing may be found, and faults of which each must be.

use std::time::Duration;

use super::{Fault, Kind, Random, server::Server, traffic::Job};
use crate::{
    board::Change,
    condition::{Condition, Severity},
    step::{RailVerdict, Verdict},
    vendor::Vendor,
};

/// A NIC that was away so long ago may still be called so.
const AWAY: u64 = 5000;
/// Alarms that are kept.
const ALARMS_MAX: usize = 64;

/// An alarm that nothing justified.
#[derive(Debug, Clone, PartialEq)]
pub struct Alarm {
    /// Milliseconds since the run began.
    pub at: u64,
    /// Of which rail; `None` of the whole server.
    pub rail: Option<u32>,
    /// What it said.
    pub what: String,
}

/// What came of a run without faults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Noise {
    /// Looks at ports.
    pub samples: u64,
    /// Conditions that were true: a driver was loaded anew, and its device was away.
    pub justified: u64,
    /// The first alarms that were not.
    pub alarms: Vec<Alarm>,
}

/// So many seconds of a healthy server, from this seed.
#[must_use]
pub fn month(seed: u64, seconds: u64, vendor: Vendor) -> Noise {
    let mut server = Server::new(seed, vendor);
    let began = server.now;
    let mut noise = Noise::default();
    while server.now - began < seconds * 1000 {
        for verdict in server.second() {
            let at = server.now - began;
            match judge(&verdict, &server, &[]) {
                Some(false) => noise.justified += 1,
                Some(true) if noise.alarms.len() < ALARMS_MAX => noise.alarms.push(alarm(at, &verdict)),
                Some(true) | None => {}
            }
        }
    }
    noise.samples = server.samples;
    noise
}

/// Whether a verdict is an alarm that nothing justifies; `None` if it is no alarm.
fn judge(verdict: &Verdict, server: &Server, faulty: &[u32]) -> Option<bool> {
    let Verdict::Rail(RailVerdict { rail, condition, change, held, .. }) = verdict else {
        return matches!(verdict, Verdict::Node { drain: true, .. }).then_some(true);
    };
    if matches!(change, Change::Cleared | Change::Eased) || held.severity < Severity::Degraded {
        return None;
    }
    let away = server
        .nics
        .iter()
        .any(|nic| nic.rail == *rail && server.now <= nic.away_at.max(nic.absent_until) + AWAY);
    let is_true = matches!(condition, Condition::LinkDown | Condition::Gone) && away;
    Some(!is_true && !faulty.contains(rail))
}

fn alarm(at: u64, verdict: &Verdict) -> Alarm {
    match verdict {
        Verdict::Rail(one) => {
            let what = format!("{} ({}): {}", one.condition, one.held.severity.name(), one.held.evidence);
            Alarm { at, rail: Some(one.rail), what }
        }
        Verdict::Node { .. } => Alarm { at, rail: None, what: "the server is to be drained".to_owned() },
        Verdict::Probe { .. } => Alarm { at, rail: None, what: "a probe ended".to_owned() },
    }
}

/// What came of one fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What was put in.
    pub fault: Fault,
    /// How long it took until it was found on a rail (of a swapped pair: on both); `None`: not found.
    pub after: Option<Duration>,
    /// Whether its rail was drained, where that is what it calls for.
    pub drained: bool,
    /// Alarms on other rails, and before.
    pub alarms: Vec<Alarm>,
}

/// Puts one fault into a busy server, after a while of noise.
#[must_use]
pub fn inject(seed: u64, kind: Kind, vendor: Vendor) -> Found {
    let mut server = Server::new(seed, vendor);
    let job = Job::steady(1, &mut Random::new(seed ^ 0x5eed));
    server.calm = true;
    server.run(job);
    let began = server.now;
    let fault = Fault::random(kind, server.random());
    let mut found = Found { fault: fault.clone(), after: None, drained: false, alarms: Vec::new() };
    let quiet = server.random().within(60, 180);
    for _ in 0..quiet {
        for verdict in server.second() {
            if judge(&verdict, &server, &[]) == Some(true) {
                found.alarms.push(alarm(server.now - began, &verdict));
            }
        }
    }
    let put = server.now;
    server.put(fault.clone());
    let mut left = if kind == Kind::Swapped { fault.rails.clone() } else { vec![u32::MAX] };
    while server.now - put < 30_000 {
        for verdict in server.second() {
            if judge(&verdict, &server, &fault.rails) == Some(true) {
                found.alarms.push(alarm(server.now - began, &verdict));
            }
            let Verdict::Rail(one) = &verdict else { continue };
            if one.condition == kind.shows()
                && one.change == Change::Raised
                && fault.rails.contains(&one.rail)
            {
                left.retain(|rail| *rail != one.rail && *rail != u32::MAX);
                if left.is_empty() {
                    found.after = found.after.or(Some(Duration::from_millis(server.now - put)));
                }
            }
        }
        found.drained |= fault.rails.iter().any(|rail| server.is_unfit(*rail));
    }
    found
}
