//! The rules of the table on one port's counters.

use std::{sync::Arc, time::Duration};

use proto_model::Timestamp;

use crate::{
    condition::{DetectorResult, Evidence, Finding},
    judge::Step,
    layout::Layout,
    rules::{Of, Rule, Test},
    window::{Ewma, Window},
};

/// A burst counts in a mean as this many times its limit at most: what lasts a moment is not what lasts.
const CLIP: f64 = 4.0;

/// One rule on one port.
#[derive(Debug, Clone)]
pub struct Gauge {
    /// The rule that is measured.
    pub rule: &'static Rule,
    test: Test,
    places: Arc<[usize]>,
    window: Window,
    mean: Ewma,
    over_ms: u64,
    /// When it was last broken, and what showed that.
    pub broken: Option<(Timestamp, Finding)>,
    /// Since when it has been broken at each sample; where any increase breaks it, since the first that has not been decided on.
    pub broken_since: Option<Timestamp>,
}

impl Gauge {
    /// For a device with this layout; `None` if it has nothing that the rule counts.
    #[must_use]
    pub fn new(rule: &'static Rule, test: Test, layout: &Layout) -> Option<Self> {
        let places: Vec<usize> = match rule.of {
            Of::Counter(word) => layout.places(word).collect(),
            Of::Name(name) => {
                layout.columns().iter().position(|column| column.name == name).into_iter().collect()
            }
        };
        let span = match test {
            Test::Within(_, span) | Test::Rate(_, span, _) => span,
            Test::Any | Test::Mean(..) => Duration::from_secs(12),
        };
        (!places.is_empty()).then(|| Self {
            rule,
            test,
            places: places.into(),
            window: Window::new(span),
            mean: Ewma::default(),
            over_ms: 0,
            broken: None,
            broken_since: None,
        })
    }

    /// Takes over what another one saw, for the same rule on the same device.
    pub fn inherit(&mut self, other: &Self) {
        (self.window, self.mean, self.over_ms) = (other.window, other.mean, other.over_ms);
        (self.broken, self.broken_since) = (other.broken, other.broken_since);
    }

    /// What broke it has been decided on: it was reported, or is not the rail's doing.
    pub fn decided(&mut self) {
        if self.test == Test::Any {
            self.broken_since = None;
        }
    }

    /// What one more sample says.
    pub fn check(&mut self, step: &Step<'_>) -> DetectorResult {
        let Some(count) = step.sum(&self.places) else { return DetectorResult::Unknown };
        let Some((value, over)) = self.value(step, count) else {
            // An increase is not undone by a sample without one.
            if self.test != Test::Any {
                self.broken_since = None;
            }
            return DetectorResult::Good;
        };
        let evidence = Evidence { fact: &self.rule.fact, value, limit: self.test.limit(), over };
        let finding = Finding { severity: self.rule.severity, evidence };
        self.broken = Some((step.now, finding));
        self.broken_since = self.broken_since.or(Some(step.now));
        DetectorResult::Bad(finding)
    }

    /// The value and its time, where they break the rule.
    fn value(&mut self, step: &Step<'_>, count: u64) -> Option<(f64, Duration)> {
        match self.test {
            Test::Any => (count > 0).then_some((count as f64, Duration::ZERO)),
            Test::Within(most, span) => {
                if count > 0 {
                    self.window.add(step.now, step.elapsed_ms, count);
                } else if self.broken_since.is_none() {
                    return None;
                }
                let sum = self.window.sum(step.now);
                (sum > most).then_some((sum as f64, span))
            }
            Test::Rate(rate, span, hold) => {
                if count > 0 {
                    self.window.add(step.now, step.elapsed_ms, count);
                } else if self.over_ms == 0 {
                    return None;
                }
                let seen = self.window.sum(step.now) as f64 / span.as_secs_f64();
                self.over_ms = if seen > rate { self.over_ms.saturating_add(step.elapsed_ms) } else { 0 };
                let lasted = self.over_ms > 0 && Duration::from_millis(self.over_ms) >= hold;
                lasted.then_some((seen, span))
            }
            Test::Mean(rate, tau) => {
                let seen = count as f64 * 1000.0 / step.elapsed_ms as f64;
                if seen == 0.0 && self.mean.0 < 1e-6 {
                    return None;
                }
                self.mean.take(seen.min(rate * CLIP), step.elapsed_ms, tau);
                (self.mean.0 > rate).then_some((self.mean.0, tau))
            }
        }
    }
}
