//! When waiting jobs will probably start: a look at the queue that does nothing.
//!
//! What is promised reckons with limits, so that nobody is delayed. A forecast reckons with what is likely:
//! - a job takes of its estimate what jobs of its tenant and size took of theirs of late, and a running one what those took
//!   that had not ended by its age (after Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions",
//!   2007, who take the mean of the user's last two jobs);
//! - the time ahead brings what the time behind has brought: every job that came within a window comes once more, one
//!   window later. Those of tenants that used less of late overtake who waits, as they will.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_scheduler::{Need, Placer, RailNeed, Snapshot};
use proto_model::{Eta, JobUid, Timestamp};

use crate::{
    defs::{Act, Budget},
    entry::{Entry, State},
    ledger::Past,
    pass::PassPurpose,
    tables::QueueState,
};

/// Arrivals that say how many come; fewer say nothing.
const FEW: usize = 64;

/// The window has so many arrivals as wait, but not fewer than this.
const LEAST: usize = 256;

/// And not more than this.
const MOST: usize = 20_000;

/// So often a forecast is noted at most, to learn from what becomes of it.
const NOTED_EVERY: Duration = Duration::from_secs(60);

/// Of a queue of more waiting jobs none is: it would take too long.
const NOTED_WAITING: usize = 256;

/// A job that came.
enum Came<'a> {
    Here(&'a Arc<Entry>),
    Gone(&'a Past),
}

impl Came<'_> {
    fn key(&self) -> (Timestamp, JobUid) {
        match self {
            Self::Here(entry) => (entry.submitted, entry.uid),
            Self::Gone(past) => (past.submitted, past.uid),
        }
    }

    /// One that asks the same and comes then.
    fn again(&self, uid: JobUid, submitted: Timestamp) -> Entry {
        let entry = match self {
            Self::Here(entry) => Entry::clone(entry),
            Self::Gone(past) => {
                let gpus = past.gpus / u64::from(past.nodes.max(1));
                let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
                let need = Need::plain(past.nodes.max(1), gpus, RailNeed::Any(0));
                let length = past.estimate.or_else(|| Some(past.ended.since(past.started)));
                Entry {
                    queue: past.queue.clone(),
                    priority: past.priority,
                    limit: length,
                    ..Entry::plain(uid, past.id.clone(), need, submitted)
                }
            }
        };
        Entry {
            uid,
            submitted,
            not_before: Some(submitted),
            reservation: None,
            array: None,
            hold: Vec::new(),
            after: Vec::new(),
            preempted: 0,
            state: State::Waiting,
            ..entry
        }
    }
}

impl QueueState {
    /// Only looks: when every waiting job will probably start, and why it waits. What a pass would do is not done.
    pub fn forecast(&mut self, snapshot: &mut Snapshot, placer: &mut Placer, now: Timestamp) -> Vec<Act> {
        let (marks, next) = (self.marks.clone(), self.cache.next);
        self.find_nodes(snapshot);
        self.keep_guarantees(snapshot, now);
        let arrivals = self.arrivals(now);
        for entry in &arrivals {
            self.set_job(entry.uid, Some(Arc::clone(entry)));
        }
        let acts = self.check(snapshot, placer, now, Budget::ALL, PassPurpose::Forecast);
        for entry in arrivals {
            self.set_job(entry.uid, None);
        }
        self.restore(marks);
        self.cache.next = next;
        self.correct(now);
        acts
    }

    /// Gives the starts that were forecast the bands that forecasts of late have earned.
    fn correct(&mut self, now: Timestamp) {
        self.cache.raw.clear();
        let waiting = || self.waiting.values().flat_map(BTreeMap::values);
        let seen = &self.cache.seen;
        let raw: Vec<(JobUid, Eta, Option<Timestamp>)> = waiting()
            .filter_map(|entry| {
                let why = seen.get(&entry.uid).filter(|why| why.checked == now)?;
                let eta = why.eta.filter(|eta| eta.latest != Timestamp(u64::MAX))?;
                Some((entry.uid, eta, entry.not_before))
            })
            .collect();
        self.cache.raw.extend(raw.iter().map(|(uid, raw, _)| (*uid, (now, raw.start))));
        let (bands, starts) = (Arc::make_mut(&mut self.marks.bands), &self.cache.raw);
        bands.pass_time(now);
        bands.revise(|uid| starts.get(&uid).map(|(_, start)| *start));
        let mut corrections = bands.corrections(now);
        for (uid, raw, begin) in raw {
            if let Some(why) = self.cache.seen.get_mut(&uid) {
                // What other starts have taught is of waits in the queue, not of the time that the job itself names.
                let from = begin.map_or(now, |begin| begin.max(now).min(raw.start));
                why.eta = Some(no_sooner(corrections.of(raw, from), begin));
            }
        }
    }

    /// The last forecast of a waiting job was shown to somebody: when it starts its band is judged by that, and those
    /// of later forecasts are made wider or narrower.
    pub fn reported(&mut self, uid: JobUid) {
        let Some(((at, raw), reported)) = self.cache.raw.get(&uid).copied().zip(self.eta(uid)) else {
            return;
        };
        Arc::make_mut(&mut self.marks.bands).report(uid, raw, reported, at);
    }

    /// Now and then, what a forecast says of the jobs that wait is noted as if it had been shown: so that bands follow what
    /// becomes of it, whoever asks. Of each job the first that was said counts. Whether it was done now.
    pub fn note_forecast(&mut self, snapshot: &Snapshot, placer: &mut Placer, now: Timestamp) -> bool {
        let waiting = self.waiting();
        let bands = &self.marks.bands;
        let early = bands.noted.is_some_and(|noted| now.since(noted) < NOTED_EVERY);
        let waits = || self.waiting.values().flat_map(BTreeMap::values);
        if early || waiting > NOTED_WAITING || waits().all(|entry| bands.is_open(entry.uid)) {
            return false;
        }
        let new: Vec<JobUid> =
            waits().map(|entry| entry.uid).filter(|uid| !self.marks.bands.is_open(*uid)).collect();
        // What was found of waiting jobs stays as the last pass has found it.
        let mut asked = self.clone();
        asked.forecast(&mut snapshot.clone(), placer, now);
        new.into_iter().for_each(|uid| asked.reported(uid));
        self.marks.bands = asked.marks.bands;
        Arc::make_mut(&mut self.marks.bands).noted = Some(now);
        true
    }

    /// Whether a job has a forecast that will be compared with its start.
    #[must_use]
    pub fn is_predicted(&self, uid: JobUid) -> bool {
        self.marks.bands.is_open(uid)
    }

    /// What will probably come: what has come in a window of time before now, one window later.
    fn arrivals(&self, now: Timestamp) -> Vec<Arc<Entry>> {
        let (known, gone) = self.marks.ledger.arrivals();
        let here = self.jobs.values().filter(|entry| entry.hold.is_empty()).map(Came::Here);
        let gone = gone.filter(|past| !self.jobs.contains_key(&past.uid)).map(Came::Gone);
        let came = here.chain(gone).map(|came| (came.key(), came));
        let mut came: Vec<((Timestamp, JobUid), Came<'_>)> =
            came.filter(|((time, _), _)| *time >= known && *time <= now).collect();
        came.sort_unstable_by_key(|(key, _)| std::cmp::Reverse(*key));
        came.dedup_by_key(|(key, _)| *key);
        came.truncate(self.waiting().clamp(LEAST, MOST));
        let window = came.last().map_or(Duration::ZERO, |((oldest, _), _)| now.since(*oldest));
        if came.len() < FEW || window.is_zero() {
            return Vec::new();
        }
        let mut number = 0_u64;
        let again = |((time, _), came): &((Timestamp, JobUid), Came<'_>)| {
            number += 1;
            let time = time.plus(window);
            let uid = JobUid::ordered(time, 4095, (u64::MAX - number).to_be_bytes());
            Arc::new(came.again(uid, time))
        };
        came.iter().rev().map(again).collect()
    }

    /// How long a job will probably run in all, as far as the estimates of its tenant have come true of late.
    #[must_use]
    pub fn predicted(&self, entry: &Entry, now: Timestamp) -> Duration {
        if let Some(run) = entry.run() {
            return self.predicted_end(entry, now).since(run.started);
        }
        let length = self.length(entry);
        if entry.expected.is_none() && entry.limit.is_none() {
            return length;
        }
        let [_, mean, _] = self.error(entry);
        length.checked_mul(mean).map_or(length, |length| length / 1000)
    }

    /// When a running job will probably end: after as long as those took that had not ended by its age.
    pub(crate) fn predicted_end(&self, entry: &Entry, now: Timestamp) -> Timestamp {
        let latest = self.end(entry, now);
        let Some(run) = entry.run().filter(|run| run.ending.is_none()) else { return latest };
        let length = self.length(entry);
        let (age, whole) = (now.since(run.started).as_millis(), length.as_millis());
        if whole == 0 || age >= whole || entry.expected.is_none() && entry.limit.is_none() {
            return latest;
        }
        let part = u32::try_from(age * 1000 / whole).unwrap_or(1000);
        let gpus = entry.gpus(entry.need.nodes);
        let likely = self.marks.ledger.later_than(&entry.id.tenant, gpus, part);
        // Longer than all of late: anywhere between now and its limit.
        let likely = likely.unwrap_or(u32::midpoint(part, 1000));
        let end = run.started.plus(length.checked_mul(likely).map_or(length, |length| length / 1000));
        end.max(now.plus(Duration::from_millis(1))).min(latest)
    }

    /// What jobs like this one took of their estimates: thousandths, a low, the mean and a high one.
    pub(crate) fn error(&self, entry: &Entry) -> [u32; 3] {
        self.marks.ledger.error(&entry.id.tenant, entry.gpus(entry.need.nodes))
    }
}

/// The start with its band: as much earlier or later as the estimates of the tenant's jobs were wrong.
pub(crate) fn band([low, mean, high]: [u32; 3], start: Timestamp, now: Timestamp, predicted: bool) -> Eta {
    let wait = start.since(now);
    // A forecast has reckoned with the mean already.
    let whole = if predicted { mean.max(1) } else { 1000 };
    let at = |part: u32| {
        let ahead = wait.as_millis() * u128::from(part) / u128::from(whole);
        Timestamp(now.0.saturating_add(u64::try_from(ahead).unwrap_or(u64::MAX)))
    };
    Eta::estimate(at(mean), at(low.min(mean)), at(high.max(mean)))
}

/// A band that does not reach before the time at which a job may begin, whatever other starts have taught.
fn no_sooner(eta: Eta, begin: Option<Timestamp>) -> Eta {
    let Some(begin) = begin else { return eta };
    let (start, earliest) = (eta.start.max(begin), eta.earliest.max(begin));
    Eta { start, earliest, latest: eta.latest.max(start), ..eta }
}
