//! How well a rail is, from 0 to 100, and what makes it so.

use crate::{
    condition::{Condition, Severity},
    port::Port,
};

/// What takes points away.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The code of a condition or the name of a mean.
    pub what: &'static str,
    /// Points that are taken away, of 100.
    pub minus: u32,
    /// What shows it, in one line.
    pub evidence: String,
}

/// The score of a rail: how far a new job should use it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Score {
    /// 100: nothing is known against it. 0: no new job should use it.
    pub value: u32,
    /// What took points away, the most first.
    pub parts: Vec<Part>,
}

const fn points(severity: Severity) -> u32 {
    match severity {
        Severity::Drain => 100,
        Severity::Degraded => 40,
        Severity::Note => 5,
    }
}

/// The most that pauses below a storm take away.
const PAUSED_MOST: f64 = 20.0;
/// A share of time paused above which points go.
const PAUSED_FREE: f64 = 0.02;

/// The score by conditions that hurt only: it changes only with them.
#[must_use]
pub fn conditions_score(port: &Port) -> u32 {
    let hurts = port.board.held().filter(|(_, held)| held.severity > Severity::Note);
    let minus = hurts.fold(0_u32, |sum, (_, held)| sum.saturating_add(points(held.severity)));
    100_u32.saturating_sub(minus)
}

/// The score of one port.
#[must_use]
pub fn score(port: &Port) -> Score {
    let mut parts: Vec<Part> = port
        .board
        .held()
        .map(|(condition, held)| Part {
            what: condition.code(),
            minus: points(held.severity),
            evidence: held.evidence.to_string(),
        })
        .collect();
    let paused = port.detectors.storm.share();
    if paused > PAUSED_FREE && port.board.get(Condition::Storm).is_none() {
        let minus = (paused * 2.0 * PAUSED_MOST).min(PAUSED_MOST).ceil() as u32;
        parts.push(Part {
            what: "Paused",
            minus,
            evidence: format!("{:.1} % of the time paused", paused * 100.0),
        });
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.minus));
    let minus = parts.iter().fold(0_u32, |sum, part| sum.saturating_add(part.minus));
    Score { value: 100_u32.saturating_sub(minus), parts }
}
