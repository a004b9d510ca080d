//! A planner of its own, exact to the millisecond: which starts delay a planned start of a job that waits ahead.
//!
//! It shares no code with the plan. It knows one pool of alike nodes that jobs take whole, no limits, no places, no shares:
//! for tests and figures of queues of such jobs, in the order of priority and age.

use std::{cmp::Reverse, time::Duration};

use proto_model::{JobUid, Timestamp};

use crate::{defs::Act, entry::Entry, tables::QueueState};

/// A job that would start later because another one starts now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// The job that waits ahead and would start later.
    pub job: JobUid,
    /// The job whose start delays it.
    pub by: JobUid,
    /// When it was planned to start.
    pub from: Timestamp,
    /// When it is planned to start with the other one running.
    pub to: Timestamp,
    /// How many of those that wait for nodes are ahead of it.
    pub ahead: usize,
    /// When it was submitted.
    pub submitted: Timestamp,
}

/// The delays that were found, with the starts that were looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delays {
    /// Starts of jobs while others wait ahead of them.
    pub backfills: usize,
    /// Those of them that delay somebody.
    pub harmful: usize,
    /// Who is delayed, by every start.
    pub found: Vec<Delay>,
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// Nodes of the cluster.
    pub nodes: u32,
    /// A job may be delayed up to so long after its submission.
    pub slack: Duration,
}

/// Nodes that are free from each time on.
#[derive(Clone)]
struct Free(Vec<(u64, i64)>);

impl Free {
    fn take(&mut self, from: u64, to: u64, nodes: i64) {
        for time in [from, to] {
            let at = self.0.partition_point(|(start, _)| *start < time);
            if self.0.get(at).is_none_or(|(start, _)| *start != time) {
                let before = at.checked_sub(1).map_or(0, |before| self.0[before].1);
                self.0.insert(at, (time, before));
            }
        }
        let held = self.0.iter_mut().filter(|(time, _)| (from..to).contains(time));
        held.for_each(|(_, free)| *free -= nodes);
    }

    fn fits(&self, start: u64, nodes: i64, length: u64) -> bool {
        let first = self.0.partition_point(|(time, _)| *time <= start).saturating_sub(1);
        let until = start.saturating_add(length);
        self.0[first..].iter().take_while(|(time, _)| *time < until).all(|(_, free)| *free >= nodes)
    }

    /// The first time from which on so many nodes are free for so long.
    fn earliest(&self, nodes: i64, length: u64) -> Option<u64> {
        let mut start = None;
        for (at, (time, free)) in self.0.iter().enumerate() {
            start = if *free < nodes { None } else { start.or(Some(*time)) };
            let end = self.0.get(at + 1).map_or(u64::MAX, |(next, _)| *next);
            if let Some(start) = start.filter(|start| start.saturating_add(length) <= end) {
                return Some(start);
            }
        }
        None
    }
}

fn nodes(entry: &Entry) -> i64 {
    i64::from(entry.min_nodes) + i64::from(entry.need.spares)
}

fn length(entry: &Entry) -> u64 {
    let length = entry.expected.or(entry.limit).unwrap_or(Duration::ZERO);
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// When each of these starts, one behind the other, as early as what those ahead have left allows; or where its slack ends, if
/// it fits there.
fn plan(free: &Free, list: &[&Entry], slack: Duration) -> Vec<Option<u64>> {
    let mut free = free.clone();
    let each = list.iter().map(|entry| {
        let mut start = free.earliest(nodes(entry), length(entry))?;
        let until = entry.submitted.plus(slack).0;
        if until > start && free.fits(until, nodes(entry), length(entry)) {
            start = until;
        }
        free.take(start, start.saturating_add(length(entry)), nodes(entry));
        Some(start)
    });
    each.collect()
}

/// Adds what a pass starts whose acts are not done yet.
pub fn delays(queue_state: &QueueState, acts: &[Act], now: Timestamp, watch: Watch, into: &mut Delays) {
    let Watch { nodes: cluster, slack } = watch;
    let starts =
        |entry: &Entry| acts.iter().any(|act| matches!(act, Act::Start { uid, .. } if *uid == entry.uid));
    let mut waiting: Vec<&Entry> =
        queue_state.jobs().map(AsRef::as_ref).filter(|entry| entry.run().is_none()).collect();
    waiting.retain(|entry| nodes(entry) <= i64::from(cluster));
    waiting.sort_by_key(|entry| (Reverse(entry.priority), entry.submitted, entry.uid));
    let mut free = Free(vec![(now.0, i64::from(cluster))]);
    for entry in queue_state.jobs() {
        let Some(run) = entry.run() else { continue };
        let held = i64::try_from(run.placement.nodes.len() + run.placement.spares.len()).unwrap_or(i64::MAX);
        free.take(now.0, run.started.0.saturating_add(length(entry)).max(now.0 + 1), held);
    }
    let mut ahead: Vec<&Entry> = Vec::new();
    for entry in waiting {
        if !starts(entry) {
            ahead.push(entry);
            continue;
        }
        let mut with = free.clone();
        with.take(now.0, now.0.saturating_add(length(entry)), nodes(entry));
        if !ahead.is_empty() {
            into.backfills += 1;
            let (before, after) = (plan(&free, &ahead, slack), plan(&with, &ahead, slack));
            let times = before.iter().zip(&after).zip(&ahead).enumerate();
            let later = times.filter_map(|(at, ((before, after), job))| {
                let (from, to) = (Timestamp((*before)?), Timestamp(after.unwrap_or(u64::MAX)));
                let (job, submitted) = (job.uid, job.submitted);
                (to > from).then_some(Delay { job, by: entry.uid, from, to, ahead: at, submitted })
            });
            let known = into.found.len();
            into.found.extend(later);
            into.harmful += usize::from(into.found.len() > known);
        }
        free = with;
    }
}

#[cfg(test)]
mod tests {
    use super::Free;

    #[test]
    fn the_first_gap_that_is_long_enough_is_found() {
        let mut free = Free(vec![(100, 8)]);
        free.take(100, 160, 5);
        free.take(150, 200, 3);
        assert_eq!(free.0, [(100, 3), (150, 0), (160, 5), (200, 8)]);
        let fits = |start, nodes, length| free.fits(start, nodes, length);
        assert_eq!((fits(100, 3, 50), fits(120, 3, 31), fits(170, 5, 9)), (true, false, true));
        let earliest = |nodes, length| free.earliest(nodes, length);
        assert_eq!((earliest(3, 50), earliest(3, 51), earliest(1, 60)), (Some(100), Some(160), Some(160)));
        assert_eq!((earliest(5, 1000), earliest(6, 1), earliest(9, 1)), (Some(160), Some(200), None));
    }
}
