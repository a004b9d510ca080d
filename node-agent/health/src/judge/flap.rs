//! Links that go down and come back.

use std::time::Duration;

use proto_model::Timestamp;

use crate::{
    condition::{DetectorResult, Evidence, Fact, Finding, Severity},
    judge::Step,
    limits::Limits,
    window::Window,
};

static ONCE: Fact = Fact {
    id: "LinkFlap",
    what: "downs of the link",
    unit: "",
    source: "NVSentinel: any increase of link_downed",
    hint: "the link went down and came back; if it does so again, clean or replace the cable or the optics",
};
static OFTEN: Fact = Fact {
    id: "LinkFlaps",
    what: "downs of the link",
    unit: "",
    source: "gpud: 3 in 12 h",
    hint: "the link is not to be trusted; clean or replace the cable or the optics, at both ends",
};
static FAST: Fact = Fact {
    id: "CarrierChanges",
    what: "carrier_changes within one look",
    unit: "",
    source: "NVSentinel: more than 2 per interval",
    hint: "the link does not settle; clean or replace the cable or the optics, at both ends",
};
static DOWN: Fact = Fact {
    id: "LinkDown",
    what: "links down",
    unit: "",
    source: "the port's state",
    hint: "look at the cable, the optics and the leaf's port",
};
/// The facts that this detector can find.
pub(crate) const FACTS: [&Fact; 4] = [&ONCE, &OFTEN, &FAST, &DOWN];

/// Where the counters of a link are in a layout.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// Places of the counters that count how often the link went down.
    pub downs: Vec<usize>,
    /// The counter of changes, which are two for a down.
    pub carrier: Option<usize>,
}

impl Places {
    /// The places of these counters in `layout`.
    #[must_use]
    pub fn of(layout: &crate::layout::Layout) -> Self {
        let named = |name: &str| layout.columns().iter().position(|column| column.name == name);
        let downs = ["link_downed", "link_down_events_phy"].into_iter().filter_map(named).collect();
        Self { downs, carrier: named("carrier_changes") }
    }
}

/// The downs of one link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flap {
    day: Window,
    last: Option<bool>,
    /// Nothing that the link does before this is its fault.
    excused_until: Timestamp,
}

impl Flap {
    /// A detector that has seen no change of the link yet.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self { day: Window::new(limits.flap_window), last: None, excused_until: Timestamp::default() }
    }

    /// What the link does before `until` is expected: a boot, a driver that was loaded, a change of its configuration.
    pub fn excuse(&mut self, until: Timestamp) {
        self.excused_until = self.excused_until.max(until);
    }

    /// The device was opened again: what the link was before says nothing.
    pub fn forget_state(&mut self) {
        self.last = None;
    }

    /// What the link's own state says.
    #[must_use]
    pub fn state(link: Option<bool>) -> DetectorResult {
        match link {
            None => DetectorResult::Unknown,
            Some(true) => DetectorResult::Good,
            Some(false) => DetectorResult::Bad(Finding {
                severity: Severity::Drain,
                evidence: Evidence { fact: &DOWN, value: 1.0, limit: 0.0, over: Duration::ZERO },
            }),
        }
    }

    /// What one more sample says of downs.
    pub fn check(
        &mut self,
        step: &Step<'_>,
        places: &Places,
        link: Option<bool>,
        limits: &Limits,
    ) -> DetectorResult {
        let changes = places.carrier.and_then(|place| step.at(place));
        let counted = places.downs.iter().filter_map(|place| step.at(*place)).max();
        let seen = u64::from(self.last == Some(true) && link == Some(false));
        // A down that has not come back is one change of the carrier.
        let by_carrier =
            changes.map(|changes| if link == Some(false) { changes.div_ceil(2) } else { changes / 2 });
        self.last = link.or(self.last);
        let downs = counted.unwrap_or(0).max(by_carrier.unwrap_or(0)).max(seen);
        let known = counted.is_some() || changes.is_some() || link.is_some();
        let over = limits.flap_window;
        let bad = |severity, fact, value: u64, limit: u64, over| {
            let evidence = Evidence { fact, value: value as f64, limit: limit as f64, over };
            DetectorResult::Bad(Finding { severity, evidence })
        };
        if downs > 0 && step.now >= self.excused_until {
            self.day.add(step.now, step.elapsed_ms.min(1000), downs);
            let all = self.day.sum(step.now);
            // Of a long gap nobody knows how fast it was.
            let fast = changes.filter(|_| step.elapsed_ms < 10_000).unwrap_or(0);
            if fast > limits.carrier_changes {
                return bad(Severity::Drain, &FAST, fast, limits.carrier_changes, Duration::ZERO);
            }
            if all >= limits.flaps {
                return bad(Severity::Drain, &OFTEN, all, limits.flaps - 1, over);
            }
            return bad(Severity::Degraded, &ONCE, all, 0, over);
        }
        match link {
            Some(true) => DetectorResult::Good,
            _ if !known => DetectorResult::Unknown,
            Some(false) => DetectorResult::Unknown,
            None => DetectorResult::Good,
        }
    }
}
