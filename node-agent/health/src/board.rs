//! The conditions of one port: raised at once, over only after proof.

use std::time::Duration;

use proto_model::Timestamp;

use crate::{
    condition::{Condition, DetectorResult, Evidence, Fact, Finding, Proof, Severity},
    limits::Limits,
};

/// Within this time conditions add up.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// A sample says nothing about more time than this, however long the last one is ago.
const CHECK_MAX_MS: u64 = 5000;
/// Episodes that are remembered.
const KEPT: usize = 8;
/// A rail that recovers, but not for long, is quiet this many times as long before a probe is believed.
const OFTEN_TIMES: u32 = 10;

static EPISODES_FACT: Fact = Fact {
    id: "TooOften",
    what: "conditions within a day",
    unit: "",
    source: "NVSentinel: 5 that are not fatal in 24 h",
    hint: "the rail recovers, but not for long; see what it had before, and replace its cable or its optics",
};
/// All that it says itself.
pub(crate) const EPISODES: &Fact = &EPISODES_FACT;

/// A condition that holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActiveCondition {
    /// The worst that it has been.
    pub severity: Severity,
    /// Since when the condition holds.
    pub since: Timestamp,
    /// When there was a sign of it last.
    pub last_sign: Timestamp,
    /// The measurement that showed the condition last.
    pub evidence: Evidence,
    /// Time without a sign in which there could have been one, in milliseconds.
    pub quiet_ms: u64,
    /// Bytes carried in that time.
    pub bytes: u64,
}

impl ActiveCondition {
    /// It is that bad only because there was so much within a day.
    fn is_often(&self) -> bool {
        self.evidence.fact.id == EPISODES_FACT.id
    }

    fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet_ms)
    }

    /// What must be seen before it is over.
    #[must_use]
    pub fn proof(&self, condition: Condition) -> Proof {
        let proof = condition.proof();
        let often = |least: Duration| least.saturating_mul(if self.is_often() { OFTEN_TIMES } else { 1 });
        Proof { probed: proof.probed.map(often), ..proof }
    }

    /// What it shows, and how it ends, in one line.
    #[must_use]
    pub fn reported(&self, condition: Condition) -> String {
        let lapses = self.is_often() && self.severity == Severity::Drain;
        let lapses = if lapses { "; after a day without a sign jobs may use the rail again" } else { "" };
        format!("{}; over after {}{lapses}", self.evidence, self.proof(condition))
    }
}

/// What became of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The condition holds from now on.
    Raised,
    /// The condition held already, and is more severe now.
    Worse,
    /// It is not over, but jobs may use the rail again.
    Eased,
    /// It is proved to be over.
    Cleared,
}

/// All conditions of one port.
#[derive(Debug, Clone, Default)]
pub struct Board {
    held: [Option<ActiveCondition>; Condition::COUNT],
    /// When conditions of the rail that are not fatal began, newest last.
    episodes: [Option<Timestamp>; KEPT],
    probed: Option<Timestamp>,
}

impl Board {
    /// All conditions that hold, each with its state.
    pub fn held(&self) -> impl Iterator<Item = (Condition, &ActiveCondition)> {
        Condition::ALL
            .into_iter()
            .zip(&self.held)
            .filter_map(|(condition, held)| Some((condition, held.as_ref()?)))
    }

    /// The worst severity of all that hold.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.held().map(|(_, held)| held.severity).max()
    }

    /// The state of `condition`; `None` where it does not hold.
    #[must_use]
    pub fn get(&self, condition: Condition) -> Option<&ActiveCondition> {
        self.held[condition.index()].as_ref()
    }

    /// Takes over what another one had seen.
    pub fn restore(&mut self, condition: Condition, held: ActiveCondition) {
        self.held[condition.index()] = Some(held);
    }

    /// A probe of the rail passed.
    pub fn probed(&mut self, now: Timestamp) {
        self.probed = Some(now);
    }

    /// Whether a probe that passes now would end a condition: it holds, and was quiet long enough.
    #[must_use]
    pub fn wants_probe(&self, condition: Condition) -> bool {
        let Some(held) = self.get(condition) else { return false };
        let quiet = held.proof(condition).probed.is_some_and(|least| held.quiet() >= least);
        quiet && self.probed.is_none_or(|probed| probed <= held.last_sign)
    }

    /// Drops a condition whose cause is gone without proof: a job that had it has left.
    pub fn drop_of(&mut self, condition: Condition) -> Option<(Change, ActiveCondition)> {
        self.held[condition.index()].take().map(|held| (Change::Cleared, held))
    }

    /// What one sample says of one condition; what changed.
    pub fn take(
        &mut self,
        condition: Condition,
        check: DetectorResult,
        (elapsed_ms, bytes): (u64, u64),
        now: Timestamp,
        limits: &Limits,
    ) -> Option<(Change, ActiveCondition)> {
        match (check, &mut self.held[condition.index()]) {
            (DetectorResult::Unknown, _) | (DetectorResult::Good, None) => None,
            (DetectorResult::Bad(finding), None) => {
                Some((Change::Raised, self.raise(condition, finding, now, limits)))
            }
            (DetectorResult::Bad(finding), Some(held)) => {
                let worse = finding.severity > held.severity;
                if finding.severity >= held.severity {
                    (held.severity, held.evidence) = (finding.severity, finding.evidence);
                }
                (held.last_sign, held.quiet_ms, held.bytes) = (now, 0, 0);
                worse.then_some((Change::Worse, *held))
            }
            (DetectorResult::Good, Some(held)) => {
                held.quiet_ms = held.quiet_ms.saturating_add(elapsed_ms.min(CHECK_MAX_MS));
                held.bytes = held.bytes.saturating_add(bytes);
                let (proof, quiet) = (held.proof(condition), held.quiet());
                let probed = proof.probed.is_some_and(|least| {
                    quiet >= least && self.probed.is_some_and(|probed| probed > held.last_sign)
                });
                let over = probed || quiet >= proof.quiet && held.bytes >= proof.bytes;
                if !over && quiet >= DAY && held.is_often() && held.severity == Severity::Drain {
                    // What was too much for a day is not any more. What it was itself goes on until it is proved over.
                    held.severity = Severity::Degraded;
                    return Some((Change::Eased, *held));
                }
                over.then(|| self.drop_of(condition)).flatten()
            }
        }
    }

    fn raise(
        &mut self,
        condition: Condition,
        finding: Finding,
        now: Timestamp,
        limits: &Limits,
    ) -> ActiveCondition {
        let Finding { mut severity, mut evidence } = finding;
        if severity == Severity::Degraded && condition.is_of_rail() {
            self.episodes.rotate_left(1);
            self.episodes[KEPT - 1] = Some(now);
            let recent = self.episodes.iter().flatten().filter(|began| now.since(**began) <= DAY).count();
            if recent >= limits.episodes {
                severity = Severity::Drain;
                let (value, limit) = (recent as f64, limits.episodes as f64 - 1.0);
                evidence = Evidence { fact: &EPISODES_FACT, value, limit, over: DAY };
            }
        }
        let held = ActiveCondition { severity, since: now, last_sign: now, evidence, quiet_ms: 0, bytes: 0 };
        self.held[condition.index()] = Some(held);
        held
    }
}
