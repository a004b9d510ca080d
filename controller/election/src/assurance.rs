//! How recently a leader has confirmed that it still leads, and the answers that wait for a confirmation. No clock, no IO.
//!
//! A leader that was replaced learns it when it writes: its fence fails. One that has nothing to write reads the leader key
//! at least once per interval (a leader check). A check or a write confirms the leadership for the moment at which it began,
//! not for the moment at which it was answered.
//!
//! An answer that was decided without a write (a refusal, or "nothing to do") may be based on state that is not current. It
//! is held until a check or a write that began after the decision confirms that this controller still led; one of them
//! releases all answers that wait.

use std::time::Duration;

use proto_model::Timestamp;

/// When the next leader check is due, and the answers that wait for a confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assurance<T> {
    every: Duration,
    /// The newest time at which it is confirmed that this controller led.
    sure: Timestamp,
    /// When the check in progress began, and the answers that were held by then.
    asked: Option<(Timestamp, Vec<T>)>,
    /// Answers held since then.
    waiting: Vec<T>,
    hurried: bool,
}

impl<T> Assurance<T> {
    /// Of a controller that has taken the lead at `now`; a check is due when `every` has passed since the last confirmation.
    #[must_use]
    pub fn new(now: Timestamp, every: Duration) -> Self {
        Self { every, sure: now, asked: None, waiting: Vec::new(), hurried: false }
    }

    /// When the next check is due; `None` while one is in progress.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let at_once = self.hurried || !self.waiting.is_empty();
        let due = if at_once { self.sure } else { self.sure.plus(self.every) };
        self.asked.is_none().then_some(due)
    }

    /// There is a sign that another controller leads: the next check is due at once, or as soon as the one in progress ends.
    pub fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Holds an answer until it is confirmed that this controller still led when it was decided.
    pub fn hold(&mut self, answer: T) {
        self.waiting.push(answer);
    }

    /// Number of answers held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.waiting.len() + self.asked.as_ref().map_or(0, |(_, held)| held.len())
    }

    /// A check begins at `now`; it covers all answers held so far.
    pub fn begin_check(&mut self, now: Timestamp) {
        let mut held = self.asked.take().map_or_else(Vec::new, |(_, held)| held);
        held.append(&mut self.waiting);
        (self.asked, self.hurried) = (Some((now, held)), false);
    }

    /// The check in progress confirmed the leadership. Returns the answers that may be sent.
    #[must_use]
    pub fn confirmed(&mut self) -> Vec<T> {
        let Some((begun, held)) = self.asked.take() else { return Vec::new() };
        self.sure = self.sure.max(begun);
        held
    }

    /// A write of this leader that began at `begun`, after all held answers were decided, was stored. Returns the answers
    /// that may be sent.
    #[must_use]
    pub fn wrote(&mut self, begun: Timestamp) -> Vec<T> {
        self.sure = self.sure.max(begun);
        let mut held = Vec::new();
        if let Some((_, asked)) = self.asked.as_mut() {
            held.append(asked);
        }
        held.append(&mut self.waiting);
        held
    }

    /// There was no confirmation, and no check is in progress any more. Returns the answers that must not be sent.
    #[must_use]
    pub fn give_up(&mut self) -> Vec<T> {
        let mut held = self.asked.take().map_or_else(Vec::new, |(_, held)| held);
        held.append(&mut self.waiting);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(2);

    fn at(ms: u64) -> Timestamp {
        Timestamp(ms)
    }

    #[test]
    fn a_leader_that_writes_needs_no_check_and_one_that_does_not_checks_in_time() {
        let mut assurance = Assurance::<()>::new(at(0), EVERY);
        assert_eq!(assurance.due(), Some(at(2000)));
        let _ = assurance.wrote(at(1500));
        assert_eq!(assurance.due(), Some(at(3500)));
        let _ = assurance.wrote(at(1000));
        assert_eq!(assurance.due(), Some(at(3500)), "an older one says nothing new");
        assurance.begin_check(at(3500));
        assert_eq!(assurance.due(), None, "one at a time");
        let _ = assurance.confirmed();
        assert_eq!(
            assurance.due(),
            Some(at(5500)),
            "sure of when it was asked, however long the answer took"
        );
    }

    #[test]
    fn what_was_not_confirmed_is_checked_again_at_once() {
        let mut assurance = Assurance::<()>::new(at(0), EVERY);
        assurance.begin_check(at(2000));
        let _ = assurance.give_up();
        assert_eq!(assurance.due(), Some(at(2000)));
        assurance.begin_check(at(2100));
        assurance.hurry();
        let _ = assurance.confirmed();
        assert_eq!(assurance.due(), Some(at(2100)), "a sign that came meanwhile is checked too");
        assurance.begin_check(at(2200));
        let _ = assurance.confirmed();
        assert_eq!(assurance.due(), Some(at(4200)));
    }

    #[test]
    fn an_answer_waits_for_a_confirmation_that_began_after_it() {
        let mut assurance = Assurance::new(at(0), EVERY);
        assurance.hold('a');
        assert_eq!(assurance.due(), Some(at(0)), "at once");
        assurance.begin_check(at(100));
        assurance.hold('b');
        assurance.hold('c');
        assert_eq!((assurance.due(), assurance.held()), (None, 3));
        assert_eq!(assurance.confirmed(), ['a'], "this check began before the others were decided");
        assert_eq!(assurance.due(), Some(at(100)));
        assurance.begin_check(at(200));
        assurance.hold('d');
        assert_eq!(assurance.wrote(at(201)), ['b', 'c', 'd'], "a write shows it for all of them");
        assert!(assurance.confirmed().is_empty(), "and its own check has nothing left to release");
        assurance.hold('e');
        assurance.begin_check(at(300));
        assurance.hold('f');
        assert_eq!((assurance.give_up(), assurance.held()), (vec!['e', 'f'], 0));
    }

    /// A store, leaders that replace each other, and answers, in many orders: whatever is sent was decided by a leader
    /// that led at some time after it had decided it; and who was replaced knows it in time.
    #[test]
    fn nothing_that_a_deposed_leader_decided_is_sent() {
        for seed in 1..400_u64 {
            let mut dice = seed;
            let mut roll = |sides: u64| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (dice >> 33) % sides
            };
            let replaced = 1000 + roll(9000);
            let (mut now, mut read_at, mut ended, mut sent) = (0, None, None, 0);
            let mut assurance = Assurance::new(at(0), EVERY);
            while ended.is_none() {
                now += 1 + roll(300);
                assert!(
                    now < replaced + 2000 + 1200,
                    "seed {seed}: it decides on at {now}, replaced at {replaced}"
                );
                // A check reads the key some time after it began, and its answer comes later still.
                if let Some((reads, comes)) = read_at
                    && comes <= now
                {
                    read_at = None;
                    if reads >= replaced {
                        ended = Some(assurance.give_up());
                        continue;
                    }
                    for decided in assurance.confirmed() {
                        sent += 1;
                        assert!(
                            decided < replaced,
                            "seed {seed}: decided at {decided}, replaced at {replaced}"
                        );
                    }
                }
                match roll(4) {
                    0 => assurance.hold(now),
                    1 if now < replaced => drop(assurance.wrote(at(now))),
                    _ => {}
                }
                if assurance.due().is_some_and(|due| due <= at(now)) {
                    assurance.begin_check(at(now));
                    let reads = now + roll(300);
                    read_at = Some((reads, reads + roll(300)));
                }
            }
            assert!(sent > 0 || ended.is_some_and(|held| !held.is_empty()) || replaced < 2000, "seed {seed}");
        }
    }
}
