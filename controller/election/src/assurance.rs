//! How sure a leader is that it still leads, and whose answers hang on it. No clock, no IO.
//!
//! A leader that was replaced hears of it when it writes: its fence does not hold. One that has nothing to write looks at
//! the leader key, at least once in an interval. Whatever shows that it leads shows it for the moment at which it was
//! begun, not for the one at which it was answered.
//!
//! An answer that was decided without a write (a refusal, or that there is nothing to do) may come of a state that is
//! not the newest one any more. It is held until something that began after it shows that the decider still led: one
//! look, or one write, for all that wait.

use std::time::Duration;

use proto_model::Timestamp;

/// When a leader is to look at the leader key, and the answers that wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assurance<T> {
    every: Duration,
    /// It led at this time, for sure.
    sure: Timestamp,
    /// When the look was begun that is under way, and what was held by then.
    asked: Option<(Timestamp, Vec<T>)>,
    /// Held since then.
    waiting: Vec<T>,
    hurried: bool,
}

impl<T> Assurance<T> {
    /// Of a controller that has taken the lead at `now`, and is to look again `every` so often.
    #[must_use]
    pub fn new(now: Timestamp, every: Duration) -> Self {
        Self { every, sure: now, asked: None, waiting: Vec::new(), hurried: false }
    }

    /// When the next look is due; `None` while one is under way.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let at_once = self.hurried || !self.waiting.is_empty();
        let due = if at_once { self.sure } else { self.sure.plus(self.every) };
        self.asked.is_none().then_some(due)
    }

    /// Something speaks against it: the next look is due at once, also where one is under way.
    pub fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Holds an answer until it is shown that the decider still led.
    pub fn hold(&mut self, answer: T) {
        self.waiting.push(answer);
    }

    /// How many answers are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.waiting.len() + self.asked.as_ref().map_or(0, |(_, held)| held.len())
    }

    /// A look begins.
    pub fn begin_check(&mut self, now: Timestamp) {
        let mut held = self.asked.take().map_or_else(Vec::new, |(_, held)| held);
        held.append(&mut self.waiting);
        (self.asked, self.hurried) = (Some((now, held)), false);
    }

    /// The look that was under way showed that it leads. Answers what may be told.
    #[must_use]
    pub fn confirmed(&mut self) -> Vec<T> {
        let Some((begun, held)) = self.asked.take() else { return Vec::new() };
        self.sure = self.sure.max(begun);
        held
    }

    /// A write of this leader, begun then and after all that is held was decided, was taken. Answers what may be told.
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

    /// Nothing was shown and no look is under way any more. Answers what must not be told.
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
    fn who_writes_need_not_look_and_who_does_not_looks_in_time() {
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
    fn what_was_not_shown_is_asked_again_at_once() {
        let mut assurance = Assurance::<()>::new(at(0), EVERY);
        assurance.begin_check(at(2000));
        let _ = assurance.give_up();
        assert_eq!(assurance.due(), Some(at(2000)));
        assurance.begin_check(at(2100));
        assurance.hurry();
        let _ = assurance.confirmed();
        assert_eq!(assurance.due(), Some(at(2100)), "what came up meanwhile is looked at too");
        assurance.begin_check(at(2200));
        let _ = assurance.confirmed();
        assert_eq!(assurance.due(), Some(at(4200)));
    }

    #[test]
    fn an_answer_waits_for_what_began_after_it() {
        let mut assurance = Assurance::new(at(0), EVERY);
        assurance.hold('a');
        assert_eq!(assurance.due(), Some(at(0)), "at once");
        assurance.begin_check(at(100));
        assurance.hold('b');
        assurance.hold('c');
        assert_eq!((assurance.due(), assurance.held()), (None, 3));
        assert_eq!(assurance.confirmed(), ['a'], "this look began before the others were decided");
        assert_eq!(assurance.due(), Some(at(100)));
        assurance.begin_check(at(200));
        assurance.hold('d');
        assert_eq!(assurance.wrote(at(201)), ['b', 'c', 'd'], "a write shows it for all of them");
        assert!(assurance.confirmed().is_empty(), "and its own look has nothing left to tell");
        assurance.hold('e');
        assurance.begin_check(at(300));
        assurance.hold('f');
        assert_eq!((assurance.give_up(), assurance.held()), (vec!['e', 'f'], 0));
    }

    /// A store, leaders that replace each other, and answers, in many orders: whatever is told was decided by a leader
    /// that led at some time after it had decided it; and who was replaced knows it in time.
    #[test]
    fn nobody_is_told_what_a_deposed_leader_decided() {
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
                // A look reads the key some time after it was begun, and its answer comes later still.
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
