//! How sure a leader is that it still leads. No clock, no IO.
//!
//! A leader that was replaced hears of it when it writes: its fence does not hold. One that has nothing to write looks at
//! the leader key, at least once in an interval. Whatever shows that it leads shows it for the moment at which it was
//! begun, not for the one at which it was answered.

use std::time::Duration;

use proto_model::Timestamp;

/// When a leader is to look at the leader key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assurance {
    every: Duration,
    /// It led at this time, for sure.
    sure: Timestamp,
    /// When the look was begun that is under way.
    asked: Option<Timestamp>,
    hurried: bool,
}

impl Assurance {
    /// Of a controller that has taken the lead at `now`, and is to look again `every` so often.
    #[must_use]
    pub fn new(now: Timestamp, every: Duration) -> Self {
        Self { every, sure: now, asked: None, hurried: false }
    }

    /// When the next look is due; `None` while one is under way.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let due = if self.hurried { self.sure } else { self.sure.plus(self.every) };
        self.asked.is_none().then_some(due)
    }

    /// Something speaks against it: the next look is due at once, also where one is under way.
    pub fn hurry(&mut self) {
        self.hurried = true;
    }

    /// A look begins.
    pub fn ask(&mut self, now: Timestamp) {
        (self.asked, self.hurried) = (Some(now), false);
    }

    /// The look that was under way showed that it leads.
    pub fn confirmed(&mut self) {
        if let Some(begun) = self.asked.take() {
            self.sure = self.sure.max(begun);
        }
    }

    /// The look that was under way has shown nothing, or nobody waits for it any more.
    pub fn forget(&mut self) {
        self.asked = None;
    }

    /// A write of this leader, begun then, was taken.
    pub fn wrote(&mut self, begun: Timestamp) {
        self.sure = self.sure.max(begun);
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
        let mut assurance = Assurance::new(at(0), EVERY);
        assert_eq!(assurance.due(), Some(at(2000)));
        assurance.wrote(at(1500));
        assert_eq!(assurance.due(), Some(at(3500)));
        assurance.wrote(at(1000));
        assert_eq!(assurance.due(), Some(at(3500)), "an older one says nothing new");
        assurance.ask(at(3500));
        assert_eq!(assurance.due(), None, "one at a time");
        assurance.confirmed();
        assert_eq!(
            assurance.due(),
            Some(at(5500)),
            "sure of when it was asked, however long the answer took"
        );
    }

    #[test]
    fn what_was_not_shown_is_asked_again_at_once() {
        let mut assurance = Assurance::new(at(0), EVERY);
        assurance.ask(at(2000));
        assurance.forget();
        assert_eq!(assurance.due(), Some(at(2000)));
        assurance.ask(at(2100));
        assurance.hurry();
        assurance.confirmed();
        assert_eq!(assurance.due(), Some(at(2100)), "what came up meanwhile is looked at too");
        assurance.ask(at(2200));
        assurance.confirmed();
        assert_eq!(assurance.due(), Some(at(4200)));
    }
}
