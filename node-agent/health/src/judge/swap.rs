//! Cables that lead to another rail: what is found at a port (LLDP neighbour, subnet, probe) against what is planned.

use std::time::Duration;

use proto_model::Timestamp;

use crate::{
    condition::{DetectorResult, Evidence, Fact, Finding, Severity},
    limits::Limits,
};

const SOURCE: &str = "the plan of the rails";
static SWAPPED: Fact = Fact {
    id: "SwappedRails",
    what: "heard on rail",
    unit: "",
    source: SOURCE,
    hint: "its cable and that of the NIC of that rail are exchanged: move both, or exchange both rails in the plan",
};
static ELSEWHERE: Fact = Fact {
    id: "WrongRail",
    what: "heard on rail",
    unit: "",
    source: SOURCE,
    hint: "its cable leads to a leaf of another rail: move it",
};
/// The facts that this detector can find.
pub(crate) const FACTS: [&Fact; 2] = [&SWAPPED, &ELSEWHERE];

/// The rail that one port's cable leads to, as it was found and as it is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swap {
    /// The rail that was found last, and the one that is planned.
    pub heard: Option<(u32, u32)>,
    wrong_since: Option<Timestamp>,
}

impl Swap {
    /// What was found now; `heard` is `None` where nothing was found.
    pub fn on_report(&mut self, planned: u32, heard: Option<u32>, now: Timestamp) {
        let wrong = heard.is_some_and(|rail| rail != planned);
        self.wrong_since = if wrong { self.wrong_since.or(Some(now)) } else { None };
        self.heard = heard.map(|rail| (rail, planned));
    }

    /// What that says. `exchanged` is whether the cable of the found rail's port leads to this port's rail.
    #[must_use]
    pub fn check(&self, exchanged: bool, now: Timestamp, limits: &Limits) -> DetectorResult {
        let (Some((heard, planned)), wrong) = (self.heard, self.wrong_since) else {
            return DetectorResult::Unknown;
        };
        match wrong.map(|since| now.since(since)) {
            None => DetectorResult::Good,
            Some(over) if over >= limits.swapped_for => {
                let fact = if exchanged { &SWAPPED } else { &ELSEWHERE };
                let over = Duration::from_millis(u64::try_from(over.as_millis()).unwrap_or(u64::MAX));
                let evidence = Evidence { fact, value: f64::from(heard), limit: f64::from(planned), over };
                DetectorResult::Bad(Finding { severity: Severity::Drain, evidence })
            }
            Some(_) => DetectorResult::Unknown,
        }
    }
}
