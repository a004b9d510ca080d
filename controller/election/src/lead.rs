//! Leader election: how a controller takes the leader key of the store, and how it takes it again. No clock, no IO.
//!
//! The key's creation revision is the epoch. Every write compares it and every command to an agent carries it: this fence is
//! the only guard. Leases, watches and streams between controllers are evidence, which may be wrong. Whoever acts on evidence
//! deletes the key of exactly the leader that it has seen, and then claims the absent key. A leader that was alive all the
//! same loses nothing but the lead.
//!
//! A transaction whose outcome is unknown may be applied late, even after many later ones: the fence of its own epoch does
//! not stop it. Therefore a leader in doubt ends its own epoch and takes the key again before it reads the stored state
//! ([`LeaderReport::Doubt`]). For the same reason an epoch that was ended is never resumed.

/// What the shell does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Read the leader key; answer with [`LeaderReport::Key`].
    Read,
    /// Delete the key if its creation revision is this one; answer with [`LeaderReport::Removed`].
    Remove(u64),
    /// Write the key if it is absent; answer with [`LeaderReport::Claimed`].
    Claim,
    /// This controller leads with this epoch. The stored state may be read now: no other controller can write.
    Lead(u64),
    /// Another controller leads with this epoch. Wait for evidence that it is gone, and read the key from time to time.
    Follow(u64),
}

/// What the shell reports to the candidate: answers of the store, and events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaderReport {
    /// The leader key: its creation revision, and whether this life of the process wrote its value. `None`: it is absent.
    Key(Option<(u64, bool)>),
    /// Evidence that the leader of this epoch is gone: its lease has expired, its stream broke, its process is dead.
    Gone(u64),
    /// Whether the key was deleted.
    Removed(bool),
    /// The revision at which the key was written; `None` if it was not absent.
    Claimed(Option<u64>),
    /// The store did not answer, or the outcome of the request is unknown.
    Failed,
    /// This controller leads, and the outcome of one of its writes is unknown.
    Doubt,
    /// A write of this leader was refused because the key is no longer of its epoch.
    Fenced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Looking,
    Following(u64),
    Removing,
    Claiming,
    Leading(u64),
}

/// A controller that leads or is a candidate for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    phase: Phase,
    /// The newest epoch of its own that it has ended; 0: none. It never leads with this epoch or an older one.
    ended: u64,
}

impl Default for Candidate {
    fn default() -> Self {
        Self { phase: Phase::Looking, ended: 0 }
    }
}

impl Candidate {
    /// A new candidate, and its first action.
    #[must_use]
    pub fn begin() -> (Self, Action) {
        (Self::default(), Action::Read)
    }

    /// The epoch with which it leads; `None` while it does not.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        match self.phase {
            Phase::Leading(epoch) => Some(epoch),
            _ => None,
        }
    }

    /// The next action after a report. Total: late and repeated reports do no harm.
    pub fn step(&mut self, report: LeaderReport) -> Action {
        let (phase, action) = match (self.phase, report) {
            // The key was read before this controller claimed it.
            (Phase::Leading(epoch), LeaderReport::Key(Some((read, _)))) if read < epoch => {
                (Phase::Leading(epoch), Action::Lead(epoch))
            }
            // A claim of this process whose answer was lost. An epoch that it has ended stays ended.
            (_, LeaderReport::Key(Some((epoch, true)))) if epoch > self.ended => {
                (Phase::Leading(epoch), Action::Lead(epoch))
            }
            (_, LeaderReport::Key(Some((epoch, true)))) => (Phase::Removing, Action::Remove(epoch)),
            (_, LeaderReport::Key(Some((epoch, false)))) => (Phase::Following(epoch), Action::Follow(epoch)),
            (_, LeaderReport::Key(None)) => (Phase::Claiming, Action::Claim),
            (Phase::Following(epoch), LeaderReport::Gone(gone)) if epoch == gone => {
                (Phase::Removing, Action::Remove(epoch))
            }
            (Phase::Following(epoch), _) => (Phase::Following(epoch), Action::Follow(epoch)),
            (Phase::Removing, LeaderReport::Removed(true)) => (Phase::Claiming, Action::Claim),
            (Phase::Claiming, LeaderReport::Claimed(Some(epoch))) if epoch > self.ended => {
                (Phase::Leading(epoch), Action::Lead(epoch))
            }
            (Phase::Leading(epoch), LeaderReport::Doubt) => {
                self.ended = epoch;
                (Phase::Removing, Action::Remove(epoch))
            }
            (Phase::Leading(epoch), LeaderReport::Fenced) => {
                self.ended = epoch;
                (Phase::Looking, Action::Read)
            }
            (Phase::Leading(epoch), _) => (Phase::Leading(epoch), Action::Lead(epoch)),
            _ => (Phase::Looking, Action::Read),
        };
        self.phase = phase;
        action
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of the store: the key's creation revision and its holder.
    #[derive(Default)]
    struct Store {
        revision: u64,
        key: Option<(u64, usize)>,
    }

    impl Store {
        fn answer(&mut self, who: usize, action: Action) -> LeaderReport {
            match action {
                Action::Read => LeaderReport::Key(self.key.map(|(epoch, holder)| (epoch, holder == who))),
                Action::Remove(epoch) => {
                    let is = self.key.is_some_and(|(created, _)| created == epoch);
                    if is {
                        (self.revision, self.key) = (self.revision + 1, None);
                    }
                    LeaderReport::Removed(is)
                }
                Action::Claim => {
                    let free = self.key.is_none();
                    if free {
                        self.revision += 1;
                        self.key = Some((self.revision, who));
                    }
                    LeaderReport::Claimed(free.then_some(self.revision))
                }
                Action::Lead(_) | Action::Follow(_) => LeaderReport::Failed,
            }
        }

        fn settle(&mut self, who: usize, candidate: &mut Candidate, mut action: Action) -> Action {
            while !matches!(action, Action::Lead(_) | Action::Follow(_)) {
                action = candidate.step(self.answer(who, action));
            }
            action
        }
    }

    #[test]
    fn the_first_leads_and_the_second_follows() {
        let mut store = Store::default();
        let (mut first, action) = Candidate::begin();
        assert_eq!(store.settle(0, &mut first, action), Action::Lead(1));
        let (mut second, action) = Candidate::begin();
        assert_eq!(store.settle(1, &mut second, action), Action::Follow(1));
        assert_eq!(
            second.step(LeaderReport::Gone(0)),
            Action::Follow(1),
            "evidence against another one says nothing"
        );
        let action = second.step(LeaderReport::Gone(1));
        assert_eq!(action, Action::Remove(1));
        assert_eq!(store.settle(1, &mut second, action), Action::Lead(3));
        assert_eq!(second.leads(), Some(3));
    }

    #[test]
    fn of_two_with_the_same_evidence_one_leads() {
        let mut store = Store { revision: 5, key: Some((5, 9)) };
        let (mut a, _) = Candidate::begin();
        let (mut b, _) = Candidate::begin();
        a.step(LeaderReport::Key(Some((5, false))));
        b.step(LeaderReport::Key(Some((5, false))));
        let (one, other) = (a.step(LeaderReport::Gone(5)), b.step(LeaderReport::Gone(5)));
        let one = a.step(store.answer(0, one));
        let other = store.settle(1, &mut b, other);
        let one = store.settle(0, &mut a, one);
        assert_eq!((one, other), (Action::Follow(7), Action::Lead(7)));
    }

    #[test]
    fn a_claim_whose_answer_was_lost_is_taken_up() {
        let mut store = Store::default();
        let (mut a, action) = Candidate::begin();
        let action = a.step(store.answer(0, action));
        assert_eq!(action, Action::Claim);
        store.answer(0, action);
        let action = a.step(LeaderReport::Failed);
        assert_eq!(action, Action::Read);
        assert_eq!(store.settle(0, &mut a, action), Action::Lead(1));
    }

    #[test]
    fn a_leader_in_doubt_ends_its_own_epoch() {
        let mut store = Store::default();
        let (mut a, action) = Candidate::begin();
        store.settle(0, &mut a, action);
        let action = a.step(LeaderReport::Doubt);
        assert_eq!(action, Action::Remove(1));
        // The removal does not come through at first: the old epoch is not taken up again.
        let action = a.step(LeaderReport::Failed);
        let action = a.step(store.answer(0, action));
        assert_eq!(action, Action::Remove(1));
        assert_eq!(store.settle(0, &mut a, action), Action::Lead(3));
        assert_eq!(a.step(LeaderReport::Removed(true)), Action::Lead(3), "late answers do no harm");
    }

    #[test]
    fn a_leader_in_doubt_that_was_replaced_follows() {
        let mut store = Store { revision: 8, key: Some((8, 1)) };
        let (mut a, _) = Candidate::begin();
        a.step(LeaderReport::Key(Some((4, true))));
        let action = a.step(LeaderReport::Doubt);
        assert_eq!(store.settle(0, &mut a, action), Action::Follow(8));
    }

    #[test]
    fn a_leader_that_looks_finds_what_is() {
        let mut store = Store::default();
        let (mut a, action) = Candidate::begin();
        store.settle(0, &mut a, action);
        assert_eq!(a.step(store.answer(0, Action::Read)), Action::Lead(1), "still its own");
        // Somebody removed the key and nobody has claimed it: it is taken anew, with another epoch.
        store.answer(9, Action::Remove(1));
        let action = a.step(store.answer(0, Action::Read));
        assert_eq!(store.settle(0, &mut a, action), Action::Lead(3));
        assert_eq!(
            a.step(LeaderReport::Key(Some((2, false)))),
            Action::Lead(3),
            "read before it was claimed anew"
        );
        store.answer(9, Action::Remove(3));
        store.answer(9, Action::Claim);
        assert_eq!(a.step(store.answer(0, Action::Read)), Action::Follow(5));
        assert_eq!(a.leads(), None);
    }

    #[test]
    fn a_leader_whose_write_was_refused_asks_who_leads() {
        for (replaced, expected) in [(true, Action::Follow(3)), (false, Action::Lead(3))] {
            let mut store = Store::default();
            let (mut a, action) = Candidate::begin();
            store.settle(0, &mut a, action);
            store.answer(9, Action::Remove(1));
            if replaced {
                store.answer(9, Action::Claim);
            }
            let action = a.step(LeaderReport::Fenced);
            assert_eq!((action, a.leads()), (Action::Read, None));
            assert_eq!(store.settle(0, &mut a, action), expected);
        }
    }
}
