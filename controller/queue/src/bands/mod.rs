//! How true forecasts came of late, and bands that hold as often as they say.
//!
//! What a forecast said of a job is compared with its start once that has come: by how much longer it waited than was said,
//! as a ratio. The band of the next forecast reaches from a low to a high quantile of the last such ratios, of forecasts
//! that looked as far ahead; and which quantiles those are follows the starts that fell out of the bands that were given
//! (adaptive conformal inference: Gibbs and Candès, "Adaptive conformal inference under distribution shift", 2021). So one
//! start of ten comes before its band and one after it in the long run, whatever the law of the errors, and nothing is used
//! that was not known when a band was given. Who still waits counts too, with the wait so far. All of it is bounded, and
//! decides nothing but the bands that are shown.
//!
//! Three things make that run short enough to be of use:
//! - All bands move their quantiles together, however far ahead they look: what is promised is a share of all starts, and a
//!   quantile that learns of every start follows sooner than ten that hear of a tenth each.
//! - Jobs come in bursts and share one fate, and hours go by until the first of a burst starts. Until then it counts what the
//!   newest forecast says of those that wait: that it will come before or after the band that it was given, or in it. That is
//!   reckoned anew with every forecast and gives way to what really came.
//! - Which side of its band a start has missed, or not, is learned as soon as it is known, not first at the start.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use proto_model::{Eta, JobUid, Timestamp};

/// Starts that come before their band, and after it, of a thousand.
const MISSED: i64 = 100;

/// Forecasts that are kept of one kind: of a law that changes, old errors say little.
const KEPT: usize = 80;

/// Ratios of one kind from which a band is made at the least; from fewer there is none.
const FEW: usize = 24;

/// Forecasts that wait to be compared with a start; of those that come beyond that nothing is learned.
const OPEN: usize = 4096;

/// By how much a start that missed its band moves the quantile, in parts of a million for each of a thousand: the step of
/// Gibbs and Candès, 0.025. As long as it is not at its bounds, the share of n starts that misses a side is off by
/// (1.6 / 0.025 + starts that are still to come) / n at most.
const PACE: i64 = 25;

/// All of them, in millionths.
const ALL: i64 = 1_000_000;

/// How far the quantiles move outwards at most, in millionths: beyond the errors that were seen, by as much as the outermost
/// is off the middle one.
const WIDER: i64 = ALL;

/// And inwards: beyond the middle, for where the law has changed the errors that are kept lie on one side of what comes.
const NARROWER: i64 = 600_000;

/// Bands are given in whole ones of this: nobody reads more of them, and what a forecast says to the millisecond is not missed
/// for the last digit of a logarithm.
const DIGIT: u64 = 1000;

/// What is added to waits before they are compared: less is nothing to people.
const LEAST: Duration = Duration::from_secs(60);

/// What was said of a job, and was not compared with its start yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prediction {
    at: Timestamp,
    /// What the forecast said before it was corrected.
    raw: Timestamp,
    band: (Timestamp, Timestamp),
    /// When the newest forecast says that it starts; `None`: none has said it since.
    newest: Option<Timestamp>,
    /// The band rests on errors, so that something is to be learned of it.
    earned: bool,
    /// It still waited when its band began, and when that ended: that counts already.
    begun: bool,
    late: bool,
}

impl Prediction {
    /// Whether a start at this time misses the band: before it, after it.
    fn misses(&self, start: Timestamp) -> [bool; 2] {
        [start < self.band.0, start > self.band.1]
    }

    /// Which sides of the band are still open.
    fn open(&self) -> [bool; 2] {
        [self.earned && !self.begun, self.earned && !self.late]
    }
}

/// The error of one forecast: the logarithm of the real wait by the forecast one, in millionths.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Error {
    /// The job has started.
    Known(i64),
    /// It still waits: the time of the forecast, with the logarithm of the wait that it gave.
    Open { at: Timestamp, ahead: i64 },
}

/// Forecasts that looked about as far ahead.
#[derive(Debug, Clone, PartialEq, Default)]
struct Kind {
    /// The last forecasts that were given, in that order.
    reported: VecDeque<(JobUid, Error)>,
}

/// The forecasts that were given, and their errors.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Bands {
    open: BTreeMap<JobUid, Prediction>,
    /// When a forecast was noted last, without anybody asking.
    pub(crate) noted: Option<Timestamp>,
    kinds: BTreeMap<u32, Arc<Kind>>,
    /// By how much the quantiles of bands are wider than they would be of a law that does not change, in millionths.
    wider: Wider,
}

/// At the low and at the high end.
type Wider = [i64; 2];

/// What a start that missed a side of its band, or did not, moves the quantile by.
fn step(missed: bool) -> i64 {
    if missed { (1000 - MISSED) * PACE } else { -MISSED * PACE }
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
    fn report(&mut self, uid: JobUid, at: Timestamp, ahead: i64) {
        if self.reported.len() >= KEPT {
            self.reported.pop_front();
        }
        self.reported.push_back((uid, Error::Open { at, ahead }));
    }

    fn settle(&mut self, uid: JobUid, error: Option<i64>) {
        let place = self.reported.iter().rposition(|(other, _)| *other == uid);
        match (place, error) {
            (Some(at), Some(error)) => self.reported[at].1 = Error::Known(error),
            (Some(at), None) => drop(self.reported.remove(at)),
            _ => {}
        }
    }

    fn known(&self) -> usize {
        self.reported.iter().filter(|(_, error)| matches!(error, Error::Known(_))).count()
    }

    /// What is known of the law of the errors now.
    fn law(&self, now: Timestamp) -> Law {
        // Who still waits has an error of this at least, and after all starts with the same.
        let seen = self.reported.iter().map(|(_, error)| match error {
            Error::Known(error) => (*error, false),
            Error::Open { at, ahead } => (log(now.since(*at)) - ahead, true),
        });
        let mut seen: Vec<(i64, bool)> = seen.collect();
        seen.sort_unstable();
        let all = seen.len() as i64;
        let (mut left, mut rest) = (ALL, all);
        let mut steps = Vec::new();
        for (error, open) in seen {
            if !open {
                // Of what is left by now, one part of those that were still waiting.
                let part = left / rest;
                left -= part;
                steps.push((error, (ALL - left) / (all + 1) * all));
            }
            rest -= 1;
        }
        Law { steps }
    }
}

/// Which part of the errors lies below which, in millionths: with those that still wait as Kaplan and Meier count them
/// ("Nonparametric estimation from incomplete observations", 1958). Without them the last errors would be those of jobs that
/// did not wait for long.
struct Law {
    steps: Vec<(i64, i64)>,
}

impl Law {
    /// The first error that half of them do not exceed; the last where that is not known.
    fn middle(&self) -> i64 {
        let at =
            self.steps.partition_point(|(_, below)| *below < ALL / 2).min(self.steps.len().saturating_sub(1));
        self.steps.get(at).map_or(0, |(error, _)| *error)
    }

    /// A low quantile, the middle and a high quantile of the errors.
    fn parts(&self, wider: Wider) -> [i64; 3] {
        let share = MISSED * 1000;
        [self.quantile(share - wider[0]), self.quantile(ALL / 2), self.quantile(ALL - share + wider[1])]
    }

    /// The error below which such a part of them lies, in millionths, between two of them where it falls there. Beyond the
    /// least and the greatest, where too many starts have missed their bands of late, by as much of how far these are off the
    /// middle one: each end goes by its own side, so that a long tail of late starts does not stretch the other.
    fn quantile(&self, part: i64) -> i64 {
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else { return 0 };
        if part <= first.1 {
            return first.0 - (self.middle() - first.0) / 1000 * (first.1 - part) / 1000;
        }
        if part >= last.1 {
            return last.0 + (last.0 - self.middle()) / 1000 * (part - last.1) / 1000;
        }
        let at = self.steps.partition_point(|(_, below)| *below <= part).clamp(1, self.steps.len() - 1);
        let ((low, from), (high, to)) = (self.steps[at - 1], self.steps[at]);
        low + (high - low) / 1000 * ((part - from) * 1000 / (to - from).max(1))
    }
}

/// The corrections of one forecast, by how far it looks ahead.
pub(crate) struct Corrections<'a> {
    bands: &'a Bands,
    now: Timestamp,
    wider: Wider,
    /// A low quantile, the middle and a high quantile of the errors; `None`: too little is known.
    parts: BTreeMap<u32, Option<[i64; 3]>>,
}

impl Corrections<'_> {
    /// What the forecast says, with the band that the last errors give to a wait from then on; what it says itself where too little is
    /// known.
    pub(crate) fn of(&mut self, raw: Eta, from: Timestamp) -> Eta {
        let (bands, now, wider) = (self.bands, self.now, self.wider);
        let ahead = raw.start.since(from);
        let kind = kind(ahead);
        let found = || bands.near(kind).map(|errors| errors.law(now).parts(wider));
        let parts = self.parts.entry(kind).or_insert_with(found);
        let Some(parts) = parts else { return raw };
        let base = log(ahead);
        let [low, middle, high] = *parts;
        // Quantiles that have moved inwards may have passed each other.
        let parts = [low.min(high), middle, high.max(low)];
        let [earliest, start, latest] = parts.map(|error| from.plus(wait(base + error)));
        let earliest = Timestamp(earliest.0 / DIGIT * DIGIT).max(from);
        let latest = Timestamp(latest.0.div_ceil(DIGIT).saturating_mul(DIGIT));
        Eta { start: start.clamp(earliest, latest), earliest, latest, ..raw }
    }
}

impl Bands {
    /// What one forecast is corrected by.
    pub(crate) fn corrections(&self, now: Timestamp) -> Corrections<'_> {
        Corrections { bands: self, now, wider: self.expected(), parts: BTreeMap::new() }
    }

    /// How much wider bands are, with those that still wait as the newest forecast has them.
    fn expected(&self) -> Wider {
        let mut wider = self.wider;
        for (reported, newest) in self.open.values().filter_map(|reported| Some((reported, reported.newest?)))
        {
            for ((wider, missed), open) in wider.iter_mut().zip(reported.misses(newest)).zip(reported.open())
            {
                *wider += if open { step(missed) } else { 0 };
            }
        }
        wider.map(|wider| wider.clamp(-NARROWER, WIDER))
    }

    /// What one forecast says of all that wait.
    pub(crate) fn revise(&mut self, start: impl Fn(JobUid) -> Option<Timestamp>) {
        for (uid, reported) in &mut self.open {
            reported.newest = start(*uid).or(reported.newest);
        }
    }

    /// A start has missed a side of its band, or has not.
    fn learn(&mut self, side: usize, missed: bool) {
        self.wider[side] = (self.wider[side] + step(missed)).clamp(-NARROWER, WIDER);
    }

    /// Errors of forecasts that looked as far, or nearly so.
    fn near(&self, kind: u32) -> Option<&Kind> {
        let enough = |kind: u32| self.kinds.get(&kind).filter(|errors| errors.known() >= FEW);
        let near = (0..4).flat_map(|off| [kind.checked_sub(off), Some(kind + off)]).flatten();
        near.filter_map(enough).next().map(Arc::as_ref)
    }

    /// A forecast of a job's start was given. The first one counts.
    pub(crate) fn report(&mut self, uid: JobUid, raw: Timestamp, reported: Eta, at: Timestamp) {
        if self.open.len() >= OPEN || self.open.contains_key(&uid) {
            return;
        }
        let (ahead, band) = (raw.since(at), (reported.earliest, reported.latest));
        let earned = self.near(kind(ahead)).is_some();
        self.open.insert(uid, Prediction { at, raw, band, newest: None, earned, begun: false, late: false });
        Arc::make_mut(self.kinds.entry(kind(ahead)).or_default()).report(uid, at, log(ahead));
    }

    /// Whether a forecast was given for a job that has not started since.
    pub(crate) fn is_open(&self, uid: JobUid) -> bool {
        self.open.contains_key(&uid)
    }

    /// Who still waits when its band begins does not start before that, and who still waits behind the band has missed it,
    /// whenever it starts: that counts from now on.
    pub(crate) fn pass_time(&mut self, now: Timestamp) {
        let mut learned = Vec::new();
        for reported in self.open.values_mut() {
            let ([before, after], open) = (reported.misses(now), reported.open());
            learned.extend((open[0] && !before).then_some((0, false)));
            learned.extend((open[1] && after).then_some((1, true)));
            reported.begun |= !before;
            reported.late |= after;
        }
        learned.into_iter().for_each(|(side, missed)| self.learn(side, missed));
    }

    /// A job has started; `None`: it went without.
    pub(crate) fn settle(&mut self, uid: JobUid, started: Option<Timestamp>) {
        let Some(reported) = self.open.remove(&uid) else { return };
        let ahead = reported.raw.since(reported.at);
        if let Some(started) = started {
            let sides = reported.open().into_iter().zip(reported.misses(started)).enumerate();
            sides.filter(|(_, (open, _))| *open).for_each(|(side, (_, missed))| self.learn(side, missed));
        }
        let error = started.map(|started| log(started.since(reported.at)) - log(ahead));
        if let Some(kind) = self.kinds.get_mut(&kind(ahead)) {
            Arc::make_mut(kind).settle(uid, error);
        }
    }
}

#[cfg(test)]
mod tests;
