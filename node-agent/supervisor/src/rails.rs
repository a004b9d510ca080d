//! What the engine says of its rails, in types of the model: times by the wall clock, rates from two checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use node_agent_attempt::{layout::JobDir, supervisor_config::Task};
use proto_model::{
    AlgorithmChoice, RailReport, RailState, Timestamp,
    rails::{MAX_CHOICE_REASONS, MAX_CHOICES, MAX_REPORTS, report_text},
};

use crate::{
    control::{RailsReply, Request, ask},
    engine::ANSWER,
};

/// Rates of less time than this jump too much.
const WINDOW: Duration = Duration::from_millis(500);

/// Bytes of one rail at one time, and what followed from the two checks before.
#[derive(Debug, Clone, Copy)]
struct RailSample {
    at: Instant,
    tx_bytes: u64,
    rx_bytes: u64,
    tx_rate: u64,
    rx_rate: u64,
}

/// Checks the engine's rails.
#[derive(Debug, Default)]
pub struct Rails {
    checks: BTreeMap<u32, RailSample>,
}

fn rate(bytes: u64, passed: Duration) -> u64 {
    let passed = passed.as_micros().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000 / passed).unwrap_or(u64::MAX)
}

impl Rails {
    /// Asks the engine; `None` if it does not answer, or does not know the question.
    pub fn read(
        &mut self,
        dir: &JobDir,
        task: &Task,
        wall: Timestamp,
    ) -> Option<(Vec<RailReport>, Vec<AlgorithmChoice>)> {
        let reply: RailsReply = ask(&dir.engine_control(), &Request::Rails {}, ANSWER).ok()?;
        let reports = self.reports(reply.rails?, wall, Instant::now());
        // The same on all nodes of a job: the first reports it for all.
        let says = task.node_index == 0;
        let choices = reply.choices.into_iter().filter(|_| says).take(MAX_CHOICES);
        let choice = |choice: super::control::Choice| AlgorithmChoice {
            operation: report_text(choice.operation),
            bytes: choice.bytes,
            algorithm: report_text(choice.algorithm),
            reasons: choice.reasons.into_iter().take(MAX_CHOICE_REASONS).map(report_text).collect(),
        };
        Some((reports, choices.map(choice).collect()))
    }

    fn reports(
        &mut self,
        rails: Vec<super::control::Rail>,
        wall: Timestamp,
        now: Instant,
    ) -> Vec<RailReport> {
        let known = |word: &str| RailState::WORDS.iter().find(|(_, known)| *known == word).map(|pair| pair.0);
        let report = |rail: super::control::Rail| {
            let check = self.check(&rail, now);
            RailReport {
                rail: rail.rail,
                state: known(&rail.state),
                since: Timestamp(wall.0.saturating_sub(rail.for_ms)),
                tx_bytes: rail.tx_bytes,
                rx_bytes: rail.rx_bytes,
                tx_rate: check.tx_rate,
                rx_rate: check.rx_rate,
                flaps: rail.flaps,
                cause: report_text(rail.cause.unwrap_or_default()),
                peers: rail.peers,
                peers_up: rail.peers_up,
            }
        };
        rails.into_iter().take(MAX_REPORTS).map(report).collect()
    }

    fn check(&mut self, rail: &super::control::Rail, now: Instant) -> RailSample {
        let (tx_bytes, rx_bytes) = (rail.tx_bytes, rail.rx_bytes);
        let fresh = RailSample { at: now, tx_bytes, rx_bytes, tx_rate: 0, rx_rate: 0 };
        let check = self.checks.entry(rail.rail).or_insert(fresh);
        let passed = now.saturating_duration_since(check.at);
        if passed >= WINDOW {
            let tx_rate = rate(tx_bytes.saturating_sub(check.tx_bytes), passed);
            let rx_rate = rate(rx_bytes.saturating_sub(check.rx_bytes), passed);
            *check = RailSample { tx_rate, rx_rate, ..fresh };
        }
        *check
    }
}

/// Has the engine drain these rails of its own, and use its others.
///
/// # Errors
/// The engine cannot be asked, or refuses.
pub fn drain(dir: &JobDir, task: &Task, wanted: &BTreeSet<u32>) -> Result<(), String> {
    // A single node has no rails between engines; its NICs need no address.
    let single = task.placement.nodes.len() == 1;
    let own = task.place.nics.iter().filter(|nic| !single || nic.address.is_some()).map(|nic| nic.rail);
    let (on, off): (Vec<u32>, Vec<u32>) = own.partition(|rail| wanted.contains(rail));
    for (rails, on) in [(off, false), (on, true)] {
        if rails.is_empty() {
            continue;
        }
        let reply: super::control::Reply = ask(&dir.engine_control(), &Request::Drain { rails, on }, ANSWER)
            .map_err(|error| format!("rail-engine did not answer: {error}"))?;
        if let Some(error) = reply.error {
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Rail;

    #[test]
    fn rates_follow_from_two_looks_that_are_far_enough_apart() {
        let text = r#"{"rail":1,"state":"draining","for_ms":250,"tx_bytes":1000,"rx_bytes":0,"flaps":2,"cause":"reset","peers":3,"peers_up":2,"more":1}"#;
        let rail: Rail = serde_json::from_str(text).unwrap();
        let (mut rails, begin) = (Rails::default(), Instant::now());
        let first = rails.reports(vec![rail.clone()], Timestamp(10_000), begin).remove(0);
        assert_eq!((first.state, first.since), (Some(RailState::Draining), Timestamp(9_750)));
        assert_eq!((first.tx_rate, first.flaps, first.cause.as_str(), first.peers_up), (0, 2, "reset", 2));
        let later = Rail { tx_bytes: 3000, rx_bytes: 500, ..rail.clone() };
        let soon = rails.reports(vec![later.clone()], Timestamp(0), begin + WINDOW / 2).remove(0);
        assert_eq!((soon.tx_rate, soon.tx_bytes), (0, 3000));
        let then = rails.reports(vec![later.clone()], Timestamp(0), begin + Duration::from_secs(1)).remove(0);
        assert_eq!((then.tx_rate, then.rx_rate), (2000, 500));
        // A word that this release does not know is no state, and a clock that jumps is no panic.
        let odd = Rail { state: "sleeping".into(), tx_bytes: 0, ..later };
        let odd = rails.reports(vec![odd], Timestamp(0), begin + Duration::from_secs(3)).remove(0);
        assert_eq!((odd.state, odd.tx_rate), (None, 0));
    }
}
