//! The judge: a history in, every broken promise out. What is not known is kept open: a submit without an answer may be
//! stored once or not at all.

use std::collections::{BTreeMap, BTreeSet, btree_map};

use crate::history::{Entry, Point, Rank, What};

/// A promise of the product that the history must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// An acknowledged submit is there for ever.
    Lost,
    /// A request id is one job.
    Doubled,
    /// A GPU or a NIC has one owner, as stored.
    HeldTwice,
    /// And on the servers.
    RanTwice,
    /// A job that has ended stays as it is; attempts count up.
    Revived,
    /// Revisions of a watch do not go back.
    Backwards,
    /// An acknowledged change has one audit record, and the log's chain holds.
    AuditGap,
    /// After the last fault everything is as it should be, in time.
    NotConverged,
}

/// One promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The promise that was broken.
    pub promise: Promise,
    /// What broke it, with the jobs and times.
    pub detail: String,
}

/// What became of all.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Submits that were acknowledged.
    pub acknowledged: usize,
    /// Submits that were sent.
    pub submitted: usize,
    /// Submits of which nobody knows; of these so many are stored.
    pub unknown: (usize, usize),
    /// Acknowledgements of one request beyond its first.
    pub repeated: usize,
    /// Cancels that were acknowledged.
    pub cancelled: usize,
    /// Jobs that were read after their acknowledgement and were not found: another controller's past.
    pub stale: usize,
    /// Ranks that ran, over all attempts.
    pub ranks: usize,
    /// States of jobs that watches delivered.
    pub reported: usize,
    /// Time from the last fault until all was well.
    pub converged_ms: Option<u64>,
    /// Every broken promise that was found.
    pub violations: Vec<Violation>,
}

impl Verdict {
    /// How often a promise was broken.
    pub fn broken(&self, promise: Promise) -> usize {
        self.violations.iter().filter(|violation| violation.promise == promise).count()
    }

    fn add(&mut self, promise: Promise, detail: String) {
        self.violations.push(Violation { promise, detail });
    }
}

/// Judges a history, whose entries are in the order of their times.
pub fn check(entries: &[Entry]) -> Verdict {
    let mut verdict = Verdict::default();
    let submits = submits(entries, &mut verdict);
    stored(entries, &submits, &mut verdict);
    audited(entries, &submits, &mut verdict);
    watches(entries, &mut verdict);
    holds(entries, &mut verdict);
    ranks(entries, &mut verdict);
    converged(entries, &mut verdict);
    verdict
}

/// What callers know of one request id.
#[derive(Debug, Default)]
struct Known {
    /// Jobs that acknowledgements named.
    uids: BTreeSet<String>,
    /// It was sent and neither acknowledged nor refused at the first attempt.
    open: bool,
}

fn submits(entries: &[Entry], verdict: &mut Verdict) -> BTreeMap<String, Known> {
    let mut all: BTreeMap<String, Known> = BTreeMap::new();
    for entry in entries {
        match &entry.what {
            What::Submit { request, attempt } => {
                let known = all.entry(request.clone()).or_default();
                // A refusal of a second attempt says nothing of the first one.
                known.open |= *attempt > 1;
            }
            What::Acknowledged { request, uid, .. } => {
                let known = all.entry(request.clone()).or_default();
                verdict.repeated += usize::from(!known.uids.is_empty());
                known.uids.insert(uid.clone());
            }
            What::Unanswered { request, refused: false, .. } => {
                all.entry(request.clone()).or_default().open = true;
            }
            What::Cancelled { .. } => verdict.cancelled += 1,
            What::Read { found: false, .. } => verdict.stale += 1,
            _ => {}
        }
    }
    verdict.submitted = all.len();
    verdict.acknowledged = all.values().filter(|known| !known.uids.is_empty()).count();
    for (request, known) in all.iter().filter(|(_, known)| known.uids.len() > 1) {
        verdict
            .add(Promise::Doubled, format!("request {request} was answered with the jobs {:?}", known.uids));
    }
    all
}

fn stored(entries: &[Entry], submits: &BTreeMap<String, Known>, verdict: &mut Verdict) {
    let mut by_request: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        if let What::Stored { uid, request, .. } = &entry.what {
            by_request.entry(request).or_default().push(uid);
        }
    }
    for (request, known) in submits {
        let found = by_request.get(request.as_str()).map(Vec::as_slice).unwrap_or_default();
        if found.len() > 1 {
            verdict.add(Promise::Doubled, format!("request {request} is stored as the jobs {found:?}"));
        }
        for uid in &known.uids {
            if !found.contains(&uid.as_str()) {
                verdict.add(
                    Promise::Lost,
                    format!("request {request} was acknowledged as {uid}; stored: {found:?}"),
                );
            }
        }
        match (known.uids.is_empty(), known.open, found.is_empty()) {
            (true, true, empty) => {
                verdict.unknown.0 += 1;
                verdict.unknown.1 += usize::from(!empty);
            }
            (true, false, false) => {
                verdict.add(Promise::Doubled, format!("request {request} was refused; stored: {found:?}"));
            }
            _ => {}
        }
    }
    for (request, uids) in by_request.iter().filter(|(request, _)| !submits.contains_key(**request)) {
        verdict.add(Promise::Doubled, format!("nobody sent request '{request}'; stored: {uids:?}"));
    }
}

fn audited(entries: &[Entry], submits: &BTreeMap<String, Known>, verdict: &mut Verdict) {
    let mut records: BTreeMap<&str, usize> = BTreeMap::new();
    let mut verified = None;
    for entry in entries {
        match &entry.what {
            What::Audited { rpc, request, .. } if rpc == "CreateJob" => {
                *records.entry(request).or_default() += 1;
            }
            What::Verified { good, said } => verified = Some((*good, said)),
            _ => {}
        }
    }
    match verified {
        Some((true, _)) => {}
        Some((false, said)) => verdict.add(Promise::AuditGap, format!("audit verify: {said}")),
        None => verdict.add(Promise::AuditGap, "the audit log was not verified".to_owned()),
    }
    for (request, known) in submits {
        let count = records.get(request.as_str()).copied().unwrap_or_default();
        if count > 1 || (count == 0 && !known.uids.is_empty()) {
            verdict.add(Promise::AuditGap, format!("request {request} has {count} records"));
        }
    }
}

/// What one watch has delivered so far.
#[derive(Default)]
struct WatchState {
    revision: u64,
    /// All of the present state has been delivered.
    synced: bool,
    jobs: BTreeMap<String, Vec<String>>,
    ended: BTreeMap<String, (String, u32)>,
}

fn watches(entries: &[Entry], verdict: &mut Verdict) {
    let mut all: BTreeMap<usize, WatchState> = BTreeMap::new();
    for entry in entries {
        match &entry.what {
            What::Watching { watch, afresh } => {
                let reported = all.entry(*watch).or_default();
                // The present state comes in any order.
                reported.synced = false;
                if *afresh {
                    reported.jobs.clear();
                }
            }
            What::Synced { watch, revision } => {
                let reported = all.entry(*watch).or_default();
                at(*watch, reported, *revision, verdict);
                reported.synced = true;
            }
            What::Job { watch, revision, uid, phase, attempt, ended, holds } => {
                let reported = all.entry(*watch).or_default();
                verdict.reported += 1;
                at(*watch, reported, *revision, verdict);
                if let Some((was, attempts)) = reported.ended.get(uid)
                    && (was != phase || attempts != attempt)
                {
                    verdict.add(
                        Promise::Revived,
                        format!("watch {watch}, revision {revision}: {uid} was {was} and is {phase}"),
                    );
                }
                if *ended {
                    reported.ended.insert(uid.clone(), (phase.clone(), *attempt));
                }
                if holds.is_empty() {
                    reported.jobs.remove(uid);
                } else {
                    reported.jobs.insert(uid.clone(), holds.clone());
                }
            }
            What::Gone { watch, revision, uid } => {
                let reported = all.entry(*watch).or_default();
                at(*watch, reported, *revision, verdict);
                reported.jobs.remove(uid);
            }
            _ => {}
        }
    }
    for (watch, reported) in &all {
        owners(*watch, reported, verdict);
    }
}

/// Events of one revision are one change: owners are counted when the next one comes.
fn at(watch: usize, reported: &mut WatchState, revision: u64, verdict: &mut Verdict) {
    if !reported.synced || revision == reported.revision {
        reported.revision = reported.revision.max(revision);
        return;
    }
    if revision < reported.revision {
        verdict.add(
            Promise::Backwards,
            format!("watch {watch} told of revision {revision} after {}", reported.revision),
        );
    }
    owners(watch, reported, verdict);
    reported.revision = revision;
}

fn owners(watch: usize, reported: &WatchState, verdict: &mut Verdict) {
    let held = reported.jobs.iter().flat_map(|(uid, holds)| holds.iter().map(move |thing| (thing, uid)));
    let what = format!("watch {watch}, revision {}", reported.revision);
    twice(&what, held, verdict);
}

fn twice<'a>(what: &str, held: impl Iterator<Item = (&'a String, &'a String)>, verdict: &mut Verdict) {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for (thing, uid) in held {
        match owners.entry(thing) {
            btree_map::Entry::Vacant(free) => _ = free.insert(uid),
            btree_map::Entry::Occupied(owner) => {
                verdict.add(
                    Promise::HeldTwice,
                    format!("{what}: {thing} is held by {} and by {uid}", owner.get()),
                );
            }
        }
    }
}

fn holds(entries: &[Entry], verdict: &mut Verdict) {
    for entry in entries {
        if let What::Holds { revision, held } = &entry.what {
            let held = held.iter().map(|(thing, uid)| (thing, uid));
            twice(&format!("nodes at revision {revision}"), held, verdict);
        }
    }
}

/// The life of one rank's process.
struct Life<'a> {
    from: u64,
    to: u64,
    rank: &'a Rank,
}

fn ranks(entries: &[Entry], verdict: &mut Verdict) {
    let mut lives: BTreeMap<(&str, u32, u32), BTreeMap<u32, Life>> = BTreeMap::new();
    for entry in entries {
        let What::Rank(rank) = &entry.what else { continue };
        if rank.point == Point::Clash {
            let who = format!("rank {} of {} attempt {}", rank.rank, rank.uid, rank.attempt);
            verdict.add(Promise::RanTwice, format!("{who} found one of {:?} in use", rank.things));
            continue;
        }
        let life = lives.entry((&rank.uid, rank.attempt, rank.rank)).or_default();
        let life = life.entry(rank.pid).or_insert(Life { from: rank.ns, to: rank.ns, rank });
        life.from = life.from.min(rank.ns);
        life.to = life.to.max(rank.ns);
    }
    let mut by_thing: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
    for ((uid, attempt, rank), lives) in &lives {
        if lives.len() > 1 {
            let count = lives.len();
            verdict.add(
                Promise::RanTwice,
                format!("rank {rank} of {uid} attempt {attempt} was started {count} times"),
            );
        }
        verdict.ranks += lives.len();
        for life in lives.values() {
            for thing in &life.rank.things {
                by_thing.entry(thing).or_default().push(life);
            }
        }
    }
    for (thing, mut lives) in by_thing {
        lives.sort_by_key(|life| life.from);
        let mut longest: Option<&Life> = None;
        for life in lives {
            if let Some(before) = longest.filter(|before| before.to > life.from) {
                let (one, other) = (before.rank, life.rank);
                verdict.add(
                    Promise::RanTwice,
                    format!(
                        "{thing} was used by rank {} of {} and by rank {} of {} at once",
                        one.rank, one.uid, other.rank, other.uid
                    ),
                );
            }
            if longest.is_none_or(|before| before.to < life.to) {
                longest = Some(life);
            }
        }
    }
}

fn converged(entries: &[Entry], verdict: &mut Verdict) {
    let reported = entries.iter().rev().find_map(|entry| match &entry.what {
        What::Converged { after_ms, note } => Some((*after_ms, note.clone())),
        _ => None,
    });
    match reported {
        Some((Some(after), _)) => verdict.converged_ms = Some(after),
        Some((None, note)) => verdict.add(Promise::NotConverged, note),
        None => verdict.add(Promise::NotConverged, "nobody looked".to_owned()),
    }
}

#[cfg(test)]
mod tests;
