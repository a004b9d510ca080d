//! Storms of pause, by the time that was paused and not by frames: a pause of 65,535 quanta lasts 84 µs at 400 Gbit/s, so
//! a storm is many frames, but many frames are no storm.

use std::time::Duration;

use crate::{
    condition::{DetectorResult, Evidence, Fact, Finding, Severity},
    judge::Step,
    limits::Limits,
};

const SOURCE: &str = "SONiC's watchdog: 99 % of a poll of 200 ms; mlx5's prevention: 100 ms";
static FROM_NETWORK: Fact = Fact {
    id: "StormFromNetwork",
    what: "pause_rx_us, share of time",
    unit: "",
    source: SOURCE,
    hint: "the network makes this host wait: look for the receiver at fault behind the leaf, or a switch without watchdog",
};
static FROM_HOST: Fact = Fact {
    id: "StormFromHost",
    what: "pause_tx_us, share of time",
    unit: "",
    source: SOURCE,
    hint: "this host makes the network wait: look at its PCIe, its memory and a receiver that hangs",
};
/// The facts that this detector can find.
pub(crate) const FACTS: [&Fact; 2] = [&FROM_NETWORK, &FROM_HOST];

/// How long the pauses have been too long, by direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Storm {
    rx: Since,
    tx: Since,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Since {
    storm_ms: u64,
    pause_ms: u64,
    share: f64,
}

impl Storm {
    /// What one more sample says. It is calm where each direction that is counted is: a storm is not over because the other one is calm.
    pub fn check(&mut self, step: &Step<'_>, limits: &Limits) -> DetectorResult {
        let (rx, tx) = (step.layout.pause_rx(), step.layout.pause_tx());
        let from_network = self.rx.check(step, rx, &FROM_NETWORK, limits);
        let from_host = self.tx.check(step, tx, &FROM_HOST, limits);
        match (rx.is_empty(), tx.is_empty()) {
            (false, false) => from_network.half(from_host),
            _ => from_network.and(from_host),
        }
    }

    /// The greater share of time that is paused in one direction.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.rx.share.max(self.tx.share)
    }
}

impl Since {
    /// `places` are of one priority each; a storm of one is a storm.
    fn check(
        &mut self,
        step: &Step<'_>,
        places: &[usize],
        fact: &'static Fact,
        limits: &Limits,
    ) -> DetectorResult {
        let most = |most: u64, place: &usize| Some(most.max(step.rate_at(*place)?));
        // A sample at which one is missing says nothing, and does not end what the others have shown.
        let Some(us) = places.iter().try_fold(0, most).filter(|_| !places.is_empty()) else {
            return DetectorResult::Unknown;
        };
        let share = (us as f64 / (step.elapsed_ms as f64 * 1000.0)).min(1.0);
        self.share = share;
        let count = |ms: u64, over: bool| if over { ms.saturating_add(step.elapsed_ms) } else { 0 };
        self.storm_ms = count(self.storm_ms, share >= limits.storm_share);
        self.pause_ms = count(self.pause_ms, share >= limits.pause_share);
        let bad = |severity, limit: f64, ms| {
            let evidence = Evidence { fact, value: share, limit, over: Duration::from_millis(ms) };
            DetectorResult::Bad(Finding { severity, evidence })
        };
        // A sample comes a little early at times.
        let lasted =
            |ms: u64, wanted: Duration| Duration::from_millis(ms) + Duration::from_millis(250) >= wanted;
        if share >= limits.storm_share && lasted(self.storm_ms, limits.storm_for) {
            bad(Severity::Drain, limits.storm_share, self.storm_ms)
        } else if share >= limits.pause_share && lasted(self.pause_ms, limits.pause_for) {
            bad(Severity::Degraded, limits.pause_share, self.pause_ms)
        } else if share <= limits.calm_share {
            DetectorResult::Good
        } else {
            DetectorResult::Unknown
        }
    }
}
