//! Which workload is worked on next: each by one worker at a time, none twice for one reason, later again after a failure. [pure]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Workloads that may wait at a time; what comes beyond that is found when all is compared again.
const WAITING_MAX: usize = 100_000;
/// The first pause after a failure, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How a pass over a workload has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is to be done before this time, unless something changes.
    Settled(Option<Instant>),
    /// Something failed: again after a pause.
    Failed,
}

/// Workloads by when they are due.
#[derive(Debug, Default)]
pub struct Queue {
    due: BTreeSet<(Instant, String)>,
    when: BTreeMap<String, Instant>,
    active: BTreeSet<String>,
    /// Those that have changed while they were worked on.
    again: BTreeSet<String>,
    failures: BTreeMap<String, u32>,
}

impl Queue {
    /// A workload is to be worked on at this time, or earlier if that was said before. False if there are too many.
    pub fn add(&mut self, uid: &str, at: Instant) -> bool {
        if self.active.contains(uid) {
            self.again.insert(uid.to_owned());
            return true;
        }
        match self.when.get(uid).copied() {
            Some(before) if before <= at => return true,
            Some(before) => {
                self.due.remove(&(before, uid.to_owned()));
            }
            None if self.when.len() >= WAITING_MAX => return false,
            None => {}
        }
        self.when.insert(uid.to_owned(), at);
        self.due.insert((at, uid.to_owned()));
        true
    }

    /// The workload that has been due for longest; it is nobody else's until [`Queue::done`].
    pub fn take(&mut self, now: Instant) -> Option<String> {
        let (at, uid) = self.due.first()?.clone();
        if at > now {
            return None;
        }
        self.due.remove(&(at, uid.clone()));
        self.when.remove(&uid);
        self.active.insert(uid.clone());
        Some(uid)
    }

    /// A pass is over.
    pub fn done(&mut self, uid: &str, outcome: Outcome, now: Instant) {
        self.active.remove(uid);
        let changed = self.again.remove(uid);
        let next = match outcome {
            Outcome::Settled(next) => {
                self.failures.remove(uid);
                if changed { Some(now) } else { next }
            }
            // A change does not make it come sooner: what fails at once would be tried all the time.
            Outcome::Failed => {
                let failures = self.failures.entry(uid.to_owned()).or_default();
                *failures = failures.saturating_add(1);
                Some(now + pause(*failures))
            }
        };
        if let Some(next) = next {
            self.add(uid, next);
        }
    }

    /// When the next one is due.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// How often it has failed without a success in between.
    #[must_use]
    pub fn failures(&self, uid: &str) -> u32 {
        self.failures.get(uid).copied().unwrap_or_default()
    }
}

fn pause(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_has_a_workload_and_changes_meanwhile_are_not_lost() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        assert!(queue.add("a", now) && queue.add("a", now) && queue.add("b", now));
        assert_eq!(queue.take(now).as_deref(), Some("a"));
        queue.add("a", now);
        assert_eq!(queue.take(now).as_deref(), Some("b"));
        assert_eq!(queue.take(now), None);
        queue.done("a", Outcome::Settled(None), now);
        queue.done("b", Outcome::Settled(None), now);
        assert_eq!((queue.take(now).as_deref(), queue.take(now)), (Some("a"), None));
        queue.done("a", Outcome::Settled(None), now);
        assert_eq!((queue.take(now), queue.next()), (None, None));
    }

    #[test]
    fn what_is_due_earlier_comes_earlier_and_failures_wait_longer() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(9);
        queue.add("a", later);
        assert_eq!((queue.take(now), queue.next()), (None, Some(later)));
        queue.add("a", now);
        assert_eq!(queue.take(now).as_deref(), Some("a"));
        let mut last = Duration::ZERO;
        for failures in 1..40 {
            queue.done("a", Outcome::Failed, now);
            let pause = queue.next().unwrap() - now;
            assert!(pause >= last && pause <= LONGEST_PAUSE);
            assert_eq!((queue.failures("a"), queue.take(now)), (failures, None));
            last = pause;
            assert_eq!(queue.take(now + pause).as_deref(), Some("a"));
            queue.add("a", now);
        }
        assert_eq!(last, LONGEST_PAUSE);
        queue.done("a", Outcome::Settled(None), now);
        assert_eq!(queue.failures("a"), 0);
    }

    #[test]
    fn there_is_a_bound() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for at in 0..WAITING_MAX {
            assert!(queue.add(&at.to_string(), now));
        }
        assert!(!queue.add("one more", now) && queue.add("7", now));
    }
}
