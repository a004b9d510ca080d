//! How true forecasts came of late, and bands that hold as often as they say.
//!
//! What a forecast said of a job is compared with its start once that has come: by how much longer it waited than was said,
//! as a ratio. The band of the next forecast reaches from a low to a high quantile of the last such ratios, of forecasts
//! that looked as far ahead; and which quantiles those are follows the starts that fell out of the bands that were told
//! (adaptive conformal inference: Gibbs and Candès, "Adaptive conformal inference under distribution shift", 2021). So one
//! start of ten comes before its band and one after it in the long run, whatever the law of the errors, and nothing is used
//! that was not known when a band was told. All of it is bounded, and decides nothing but what is told.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use proto_model::{Eta, JobUid, Timestamp};

/// Starts that come before their band, and after it, of a thousand.
const MISSED: i64 = 100;

/// Errors that are kept of one kind.
const KEPT: usize = 128;

/// Fewer say nothing.
const FEW: usize = 24;

/// Forecasts that wait to be compared with a start; of those that come beyond that nothing is learned.
const OPEN: usize = 4096;

/// By how much a start that missed its band moves the quantile, in parts of a million for each of a thousand.
const PACE: i64 = 5;

/// All of them, in millionths.
const ALL: i64 = 1_000_000;

/// How far the quantiles move at most, in millionths; inwards a fifth of it.
const WIDER: i64 = 2_000_000;

/// What is added to waits before they are compared: less is nothing to people.
const LEAST: Duration = Duration::from_secs(60);

/// What was said of a job, and was not compared with its start yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    at: Timestamp,
    /// What the forecast said before it was corrected.
    raw: Timestamp,
    band: (Timestamp, Timestamp),
}

/// Errors of forecasts that looked about as far ahead.
#[derive(Debug, Clone, PartialEq, Default)]
struct Kind {
    /// Logarithms of real waits by those that were told, in millionths, in the order of the starts.
    errors: VecDeque<i64>,
    sorted: Vec<i64>,
    /// By how much the quantiles of the band are wider than they would be of a law that does not change, in millionths.
    wider: [i64; 2],
}

/// What was told and what came of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Bands {
    open: BTreeMap<JobUid, Told>,
    /// When a forecast was noted last, without anybody asking.
    pub(crate) noted: Option<Timestamp>,
    kinds: BTreeMap<u32, Arc<Kind>>,
}

/// How far ahead a forecast looks: in powers of four of minutes.
fn kind(wait: Duration) -> u32 {
    u32::try_from(wait.as_secs() / 60 + 1).unwrap_or(u32::MAX).ilog2() / 2
}

/// The logarithm of a wait, in millionths.
fn log(wait: Duration) -> i64 {
    ((wait + LEAST).as_secs_f64().ln() * 1e6) as i64
}

/// The wait of a logarithm.
fn wait(log: i64) -> Duration {
    let seconds = (log as f64 / 1e6).exp().min(1e12);
    Duration::from_secs_f64(seconds).saturating_sub(LEAST)
}

impl Kind {
    fn push(&mut self, error: i64, missed: [bool; 2]) {
        if self.errors.len() >= KEPT {
            self.errors.pop_front();
        }
        self.errors.push_back(error);
        self.sorted = self.errors.iter().copied().collect();
        self.sorted.sort_unstable();
        for (wider, missed) in self.wider.iter_mut().zip(missed) {
            let by = if missed { 1000 - MISSED } else { -MISSED };
            *wider = (*wider + by * PACE).clamp(-WIDER / 5, WIDER);
        }
    }

    /// A low quantile, the middle and a high quantile of the errors.
    fn parts(&self) -> [i64; 3] {
        let share = MISSED * 1000;
        [
            self.quantile(share - self.wider[0]),
            self.quantile(ALL / 2),
            self.quantile(ALL - share + self.wider[1]),
        ]
    }

    /// The error below which such a part of them lies, in millionths, between two of them where it falls there. Beyond the
    /// least and the greatest, where too many starts have missed their bands of late, by as much of the range of all.
    fn quantile(&self, part: i64) -> i64 {
        let (Some(least), Some(greatest)) = (self.sorted.first(), self.sorted.last()) else { return 0 };
        let inside = part.clamp(0, ALL);
        if inside != part {
            let nearest = if part < 0 { least } else { greatest };
            return nearest + (greatest - least) / 1000 * (part - inside) / 1000;
        }
        let last = self.sorted.len() - 1;
        // The n errors cut the line into n + 1 parts, into each of which the next one falls as likely.
        let place = (part * (last as i64 + 2) - ALL).clamp(0, last as i64 * ALL);
        let at = usize::try_from(place / ALL).unwrap_or(0).min(last);
        let (low, high) = (self.sorted[at], self.sorted[(at + 1).min(last)]);
        low + (high - low) / 1000 * (place % ALL) / 1000
    }
}

impl Bands {
    /// What a forecast says, with the band that the last errors give; what it says itself where too little is known.
    pub(crate) fn corrected(&self, raw: Eta, now: Timestamp) -> Eta {
        let ahead = raw.start.since(now);
        let Some(errors) = self.near(kind(ahead)) else { return raw };
        let base = log(ahead);
        let [earliest, start, latest] = errors.parts().map(|error| now.plus(wait(base + error)));
        Eta { start: start.clamp(earliest, latest), earliest, latest, ..raw }
    }

    /// Errors of forecasts that looked as far, or nearly so.
    fn near(&self, kind: u32) -> Option<&Kind> {
        let enough = |kind: u32| self.kinds.get(&kind).filter(|errors| errors.errors.len() >= FEW);
        let near = (0..4).flat_map(|off| [kind.checked_sub(off), Some(kind + off)]).flatten();
        near.filter_map(enough).next().map(Arc::as_ref)
    }

    /// Something was told of a job. The first that was counts.
    pub(crate) fn tell(&mut self, uid: JobUid, raw: Timestamp, told: Eta, at: Timestamp) {
        if self.open.len() < OPEN || self.open.contains_key(&uid) {
            self.open.entry(uid).or_insert(Told { at, raw, band: (told.earliest, told.latest) });
        }
    }

    /// Whether something was told of a job that has not started since.
    pub(crate) fn is_open(&self, uid: JobUid) -> bool {
        self.open.contains_key(&uid)
    }

    /// A job has started; `None`: it went without.
    pub(crate) fn settle(&mut self, uid: JobUid, started: Option<Timestamp>) {
        let Some((told, started)) = self.open.remove(&uid).zip(started) else { return };
        let ahead = told.raw.since(told.at);
        let error = log(started.since(told.at)) - log(ahead);
        let missed = [started < told.band.0, started > told.band.1];
        let errors = self.kinds.entry(kind(ahead)).or_default();
        Arc::make_mut(errors).push(error, missed);
    }
}

#[cfg(test)]
mod tests;
