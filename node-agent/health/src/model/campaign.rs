//! Runs: a month of noise in which nothing may be found, and faults of which each must be.

use std::time::Duration;

use proto_random::Random;

use super::{Fault, Kind, server::Server, traffic::Job};
use crate::{
    board::Change,
    condition::{Condition, Severity},
    step::{RailVerdict, Verdict},
    vendor::Vendor,
};

/// A NIC that was away this long ago may still be called so.
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
    /// The text of the alarm.
    pub what: String,
}

/// The outcome of a run without faults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Noise {
    /// Number of samples of ports.
    pub samples: u64,
    /// Conditions that were true: a driver was reloaded, and its device was away.
    pub justified: u64,
    /// The first alarms that were not.
    pub alarms: Vec<Alarm>,
}

/// This many seconds of a healthy server, from this seed.
#[must_use]
pub fn month(seed: u64, seconds: u64, vendor: Vendor) -> Noise {
    let mut server = Server::new(seed, vendor);
    let began = server.now;
    let mut noise = Noise::default();
    while server.now - began < seconds * 1000 {
        for verdict in server.second() {
            let at = server.now - began;
            match judge(&verdict, &server, None) {
                Some(false) => noise.justified += 1,
                Some(true) if noise.alarms.len() < ALARMS_MAX => noise.alarms.push(alarm(at, &verdict)),
                Some(true) | None => {}
            }
        }
    }
    noise.samples = server.samples;
    noise
}

/// Whether a verdict is an alarm that nothing justifies; `None` if it is no alarm. On a rail with a fault only what that shows is
/// justified, and what follows from it.
fn judge(verdict: &Verdict, server: &Server, fault: Option<&Fault>) -> Option<bool> {
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
    let shown = fault.filter(|fault| fault.rails.contains(rail)).map(|fault| fault.kind);
    let follows = shown.is_some_and(|kind| *condition == kind.shows() || kind.follows().contains(condition));
    Some(!is_true && !follows)
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

/// The outcome of one fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The fault that was put into the model.
    pub fault: Fault,
    /// How long it took until it was found on a rail (of a swapped pair: on both); `None`: not found.
    pub after: Option<Duration>,
    /// Whether all of its rails were drained.
    pub drained: bool,
    /// Alarms on other rails, and before; on its own rails those of something else.
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
            if judge(&verdict, &server, None) == Some(true) {
                found.alarms.push(alarm(server.now - began, &verdict));
            }
        }
    }
    let put = server.now;
    server.put(fault.clone());
    let mut used = fault.rails.clone();
    let mut left = if kind == Kind::Swapped { fault.rails.clone() } else { vec![u32::MAX] };
    while server.now - put < 30_000 {
        for verdict in server.second() {
            if judge(&verdict, &server, Some(&fault)) == Some(true) {
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
        used.retain(|rail| !server.is_unfit(*rail));
        found.drained = used.is_empty();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{board::ActiveCondition, condition::Evidence};

    #[test]
    fn a_fault_justifies_what_it_shows_and_nothing_else() {
        let server = Server::new(1, Vendor::Mlx5);
        let fault = |kind| Fault { rails: vec![2], ..Fault::random(kind, &mut Random::new(1)) };
        let says = |rail: u32, condition: Condition, fault: &Fault| {
            let fact = crate::port::MARKED_FACT;
            let evidence = Evidence { fact, value: 1.0, limit: 0.0, over: Duration::ZERO };
            let at = proto_model::Timestamp(server.now);
            let severity = Severity::Degraded;
            let held =
                ActiveCondition { severity, since: at, last_sign: at, evidence, quiet_ms: 0, bytes: 0 };
            let port = server.nics[rail as usize].key.clone();
            let (device, change, drain) = ("x".to_owned(), Change::Raised, false);
            let verdict = Verdict::Rail(RailVerdict { port, device, rail, condition, change, held, drain });
            judge(&verdict, &server, Some(fault))
        };
        let storm = fault(Kind::Storm);
        assert_eq!(says(2, Condition::Storm, &storm), Some(false));
        assert_eq!(says(2, Condition::Slow, &storm), Some(false), "it follows");
        assert_eq!(says(2, Condition::Lossy, &storm), Some(true));
        assert_eq!(says(3, Condition::Storm, &storm), Some(true));
        assert_eq!(says(2, Condition::Slow, &fault(Kind::WrongPriority)), Some(true));
    }

    #[test]
    fn some_rails_have_the_right_priority_beside_a_wrong_one() {
        let rails =
            (0..100).map(|seed| Fault::random(Kind::WrongPriority, &mut Random::new(seed)).rails.len());
        let counts: std::collections::BTreeSet<usize> = rails.collect();
        assert!(counts.contains(&1) && counts.len() >= 5 && !counts.contains(&8), "{counts:?}");
    }
}
