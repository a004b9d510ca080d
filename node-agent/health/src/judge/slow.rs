//! Rails that carry less than their peers under the same load.
//!
//! The load is the same where the same jobs use the rails and most of them carry the same. What this end sees may be the
//! other end's doing: the controller has both.

use std::time::Duration;

use crate::{
    condition::{DetectorResult, Evidence, Fact, Finding, Severity},
    counter_kind::CounterKind,
    judge::Step,
    layout::Priorities,
    limits::Limits,
};

static SLOW: Fact = Fact {
    id: "SlowRail",
    what: "bytes of what the middle one of its peers carries, share",
    unit: "",
    source: "20 % must be found; SuperBench: 5 % below a baseline",
    hint: "it or its other end is slow: compare speed, width and PCIe of both, and measure the pair",
};
/// The facts that this detector can find.
pub(crate) const FACTS: [&Fact; 1] = [&SLOW];

/// Samples that are kept.
const CHECKS: usize = 12;
/// Rails that are needed for a middle that says something.
const RAILS_MIN: usize = 3;

/// Notifications a second that do not count as congestion.
const CNPS_FEW: f64 = 10.0;
/// Samples in a row that may show nothing before what was known is of no use.
const SILENT_MOST: u8 = 4;

/// The bytes of the last samples of one port.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    checks: [(u64, u64); CHECKS],
    next: usize,
    /// Notifications of congestion (CNPs) a second that came, by the last sample.
    cnps: f64,
    /// Samples in a row that did not show how much was carried.
    silent: u8,
}

impl Load {
    /// Takes one more sample.
    pub fn take(&mut self, step: &Step<'_>) -> Option<u64> {
        let sent = bytes(step, step.layout.tx());
        let received = bytes(step, step.layout.rx());
        let all = sent.zip(received).map(|(tx, rx)| tx.saturating_add(rx));
        match all {
            None if self.silent >= SILENT_MOST => self.forget(),
            None => self.silent += 1,
            Some(all) => {
                self.silent = 0;
                let places = step.layout.places(CounterKind::CnpGot);
                let rates = places.filter_map(|place| step.rate_at(place));
                let cnps = rates.fold(0_u64, u64::saturating_add);
                self.cnps = cnps as f64 * 1000.0 / step.elapsed_ms as f64;
                self.checks[self.next % CHECKS] = (all, step.elapsed_ms);
                self.next = (self.next + 1) % CHECKS;
            }
        }
        all
    }

    /// Notifications of congestion a second that came, by the last sample.
    #[must_use]
    pub fn cnps(&self) -> f64 {
        self.cnps
    }

    /// Whether the last sample says nothing, for or against.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.silent > 0
    }

    /// Nothing is known any more.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Bytes a second over the last samples that make up `over`; `None` if they do not.
    #[must_use]
    pub fn rate(&self, over: Duration) -> Option<f64> {
        let wanted = u64::try_from(over.as_millis()).unwrap_or(u64::MAX).saturating_sub(250);
        let (mut sum, mut ms) = (0_u64, 0_u64);
        for back in 1..=CHECKS {
            let (bytes, elapsed) = self.checks[(self.next + CHECKS - back) % CHECKS];
            if elapsed == 0 {
                return None;
            }
            (sum, ms) = (sum.saturating_add(bytes), ms.saturating_add(elapsed));
            if ms >= wanted {
                return Some(sum as f64 * 1000.0 / ms as f64);
            }
        }
        None
    }
}

/// Bytes of one direction: of all priorities where each is counted, else by the device's or the stack's own count.
fn bytes(step: &Step<'_>, priorities: &Priorities) -> Option<u64> {
    if priorities.is_split() {
        let add = |sum: u64, place: &Option<usize>| Some(sum.saturating_add(step.rate_at((*place)?)?));
        return priorities.by_priority.iter().try_fold(0, add);
    }
    step.rate_at(priorities.total.or(priorities.stack)?)
}

/// One rail beside its peers.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Bytes a second, by the last sample.
    pub now: f64,
    /// Bytes a second, the mean over [`Limits::slow_over`].
    pub mean: f64,
    /// Its speed in bytes a second; 0 if not known.
    pub line: f64,
    /// Notifications of congestion a second, by the last sample.
    pub cnps: f64,
}

/// How a rail compares with the middle one of its peers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The share by the last sample, 1 being as much as the middle one of its peers.
    pub now: f64,
    /// The mean over the time of [`Limits::slow_over`].
    pub mean: f64,
    /// The fabric slows this rail, and not its peers.
    pub congested: bool,
}

/// Compares rails with the same jobs. `jobs_known` is whether anybody has said which jobs use them. Nothing where they
/// cannot be compared: too few, too little load, or not the same load.
pub fn compare(peers: &[Peer], jobs_known: bool, limits: &Limits, mut report: impl FnMut(usize, Share)) {
    if peers.len() < RAILS_MIN {
        return;
    }
    let middle = |of: &dyn Fn(&Peer) -> f64| {
        let mut rates: Vec<f64> = peers.iter().map(of).collect();
        rates.sort_by(f64::total_cmp);
        let middle = rates[rates.len() / 2];
        let near = rates.iter().filter(|rate| (*rate / middle - 1.0).abs() <= limits.slow_agree).count();
        (middle, near * 5 >= rates.len() * 3)
    };
    let (now, _) = middle(&|peer| peer.now);
    let (mean, same) = middle(&|peer| peer.mean);
    let (cnps, _) = middle(&|peer| peer.cnps);
    let line = peers.iter().map(|peer| peer.line).fold(0.0, f64::max);
    // Without a known speed: 1 Gbit/s.
    let least = if line > 0.0 { line * limits.slow_load } else { 125e6 };
    if !same || mean < least || now < least {
        return;
    }
    for (at, peer) in peers.iter().enumerate() {
        let congested = peer.cnps > 2.0 * cnps + CNPS_FEW;
        let share = Share { now: peer.now / now, mean: peer.mean / mean, congested };
        // Of rails whose jobs are not known, one that does nothing is not used.
        if jobs_known || share.mean >= 0.5 {
            report(at, share);
        }
    }
}

/// For how long a rail has been slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slow {
    slow_ms: u64,
}

impl Slow {
    /// What one more sample says. A dip of a moment is congestion; slow is what is below at each sample.
    pub fn check(&mut self, share: Option<Share>, elapsed_ms: u64, limits: &Limits) -> DetectorResult {
        let Some(share) = share else {
            self.slow_ms = 0;
            return DetectorResult::Unknown;
        };
        let below = share.now < limits.slow_remediated;
        // Congestion of this rail may be the fabric's doing or the sign of a slow end: such a sample counts half.
        let counts = if share.congested { elapsed_ms / 2 } else { elapsed_ms };
        self.slow_ms = if below { self.slow_ms.saturating_add(counts) } else { 0 };
        let lasted = Duration::from_millis(self.slow_ms + 250) >= limits.slow_over;
        if lasted && share.mean <= limits.slow_ratio {
            let (value, limit, over) = (share.mean, limits.slow_ratio, limits.slow_over);
            let evidence = Evidence { fact: &SLOW, value, limit, over };
            DetectorResult::Bad(Finding { severity: Severity::Degraded, evidence })
        } else if share.mean >= limits.slow_remediated {
            DetectorResult::Good
        } else {
            DetectorResult::Unknown
        }
    }
}
