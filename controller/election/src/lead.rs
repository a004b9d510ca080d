//! Who leads: how a controller takes the leader key of the store, and how it takes it anew. No clock, no IO.
//!
//! The key's creation revision is the epoch. Every write compares it, every command to an agent carries it: that is the
//! only guard. A lease, a watch, a stream between controllers are evidence, which may be wrong: whoever acts on it
//! removes the key of exactly the leader that it has seen, and then claims the key that is absent. A leader that was
//! alive after all loses nothing but the lead.
//!
//! A transaction whose outcome is not known may still come, even after many later ones: the fence of its own epoch does
//! not stop it. So a leader that is in doubt ends its own epoch and takes the key anew, before it reads what is stored
//! ([`Told::Doubt`]). For the same reason an epoch that was ended is never taken up again.

/// What the shell is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Read the leader key; answer with [`Told::Key`].
    Read,
    /// Delete the key if its creation revision is this one; answer with [`Told::Removed`].
    Remove(u64),
    /// Write the key if it is absent; answer with [`Told::Claimed`].
    Claim,
    /// This controller leads, with this epoch. What is stored may be read now: nobody else writes any more.
    Lead(u64),
    /// Another one leads, with this epoch. Wait for evidence that it is gone, and read the key now and then.
    Follow(u64),
}

/// What the candidate is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The leader key: its creation revision, and whether its value is this very process's. `None`: it is absent.
    Key(Option<(u64, bool)>),
    /// Evidence that the leader of this epoch is gone: its lease has ended, its stream broke, its process is dead.
    Gone(u64),
    /// Whether the key was deleted.
    Removed(bool),
    /// The revision at which the key was written; `None` if it was there.
    Claimed(Option<u64>),
    /// The store did not answer, or the outcome of what was asked is not known.
    Failed,
    /// This controller leads, and the outcome of a write of its own is not known.
    Doubt,
    /// A write of this leader was refused, because the key is not of its epoch any more.
    Fenced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Looking,
    Following(u64),
    Removing,
    Claiming,
    Leading(u64),
}

/// A controller that leads or wants to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    at: At,
    /// Epochs of its own that it has ended: up to this one.
    ended: u64,
}

impl Default for Candidate {
    fn default() -> Self {
        Self { at: At::Looking, ended: 0 }
    }
}

impl Candidate {
    /// The first thing to do.
    #[must_use]
    pub fn begin() -> (Self, Ask) {
        (Self::default(), Ask::Read)
    }

    /// The epoch with which it leads.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        match self.at {
            At::Leading(epoch) => Some(epoch),
            _ => None,
        }
    }

    /// What follows. Total: late and repeated answers do no harm.
    pub fn step(&mut self, told: Told) -> Ask {
        let (at, ask) = match (self.at, told) {
            // Read before its own claim.
            (At::Leading(epoch), Told::Key(Some((read, _)))) if read < epoch => {
                (At::Leading(epoch), Ask::Lead(epoch))
            }
            // A claim of this process whose answer was lost; but what it has ended, it ends for good.
            (_, Told::Key(Some((epoch, true)))) if epoch > self.ended => {
                (At::Leading(epoch), Ask::Lead(epoch))
            }
            (_, Told::Key(Some((epoch, true)))) => (At::Removing, Ask::Remove(epoch)),
            (_, Told::Key(Some((epoch, false)))) => (At::Following(epoch), Ask::Follow(epoch)),
            (_, Told::Key(None)) => (At::Claiming, Ask::Claim),
            (At::Following(epoch), Told::Gone(gone)) if epoch == gone => (At::Removing, Ask::Remove(epoch)),
            (At::Following(epoch), _) => (At::Following(epoch), Ask::Follow(epoch)),
            (At::Removing, Told::Removed(true)) => (At::Claiming, Ask::Claim),
            (At::Claiming, Told::Claimed(Some(epoch))) if epoch > self.ended => {
                (At::Leading(epoch), Ask::Lead(epoch))
            }
            (At::Leading(epoch), Told::Doubt) => {
                self.ended = epoch;
                (At::Removing, Ask::Remove(epoch))
            }
            (At::Leading(epoch), Told::Fenced) => {
                self.ended = epoch;
                (At::Looking, Ask::Read)
            }
            (At::Leading(epoch), _) => (At::Leading(epoch), Ask::Lead(epoch)),
            _ => (At::Looking, Ask::Read),
        };
        self.at = at;
        ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The store's side: the key's creation revision and whose it is.
    #[derive(Default)]
    struct Store {
        revision: u64,
        key: Option<(u64, usize)>,
    }

    impl Store {
        fn answer(&mut self, who: usize, ask: Ask) -> Told {
            match ask {
                Ask::Read => Told::Key(self.key.map(|(epoch, holder)| (epoch, holder == who))),
                Ask::Remove(epoch) => {
                    let is = self.key.is_some_and(|(created, _)| created == epoch);
                    if is {
                        (self.revision, self.key) = (self.revision + 1, None);
                    }
                    Told::Removed(is)
                }
                Ask::Claim => {
                    let free = self.key.is_none();
                    if free {
                        self.revision += 1;
                        self.key = Some((self.revision, who));
                    }
                    Told::Claimed(free.then_some(self.revision))
                }
                Ask::Lead(_) | Ask::Follow(_) => Told::Failed,
            }
        }

        fn settle(&mut self, who: usize, candidate: &mut Candidate, mut ask: Ask) -> Ask {
            while !matches!(ask, Ask::Lead(_) | Ask::Follow(_)) {
                ask = candidate.step(self.answer(who, ask));
            }
            ask
        }
    }

    #[test]
    fn the_first_leads_and_the_second_follows() {
        let mut store = Store::default();
        let (mut first, ask) = Candidate::begin();
        assert_eq!(store.settle(0, &mut first, ask), Ask::Lead(1));
        let (mut second, ask) = Candidate::begin();
        assert_eq!(store.settle(1, &mut second, ask), Ask::Follow(1));
        assert_eq!(second.step(Told::Gone(0)), Ask::Follow(1), "evidence against another one says nothing");
        let ask = second.step(Told::Gone(1));
        assert_eq!(ask, Ask::Remove(1));
        assert_eq!(store.settle(1, &mut second, ask), Ask::Lead(3));
        assert_eq!(second.leads(), Some(3));
    }

    #[test]
    fn of_two_with_the_same_evidence_one_leads() {
        let mut store = Store { revision: 5, key: Some((5, 9)) };
        let (mut a, _) = Candidate::begin();
        let (mut b, _) = Candidate::begin();
        a.step(Told::Key(Some((5, false))));
        b.step(Told::Key(Some((5, false))));
        let (one, other) = (a.step(Told::Gone(5)), b.step(Told::Gone(5)));
        let one = a.step(store.answer(0, one));
        let other = store.settle(1, &mut b, other);
        let one = store.settle(0, &mut a, one);
        assert_eq!((one, other), (Ask::Follow(7), Ask::Lead(7)));
    }

    #[test]
    fn a_claim_whose_answer_was_lost_is_taken_up() {
        let mut store = Store::default();
        let (mut a, ask) = Candidate::begin();
        let ask = a.step(store.answer(0, ask));
        assert_eq!(ask, Ask::Claim);
        store.answer(0, ask);
        let ask = a.step(Told::Failed);
        assert_eq!(ask, Ask::Read);
        assert_eq!(store.settle(0, &mut a, ask), Ask::Lead(1));
    }

    #[test]
    fn a_leader_in_doubt_ends_its_own_epoch() {
        let mut store = Store::default();
        let (mut a, ask) = Candidate::begin();
        store.settle(0, &mut a, ask);
        let ask = a.step(Told::Doubt);
        assert_eq!(ask, Ask::Remove(1));
        // The removal does not come through at first: the old epoch is not taken up again.
        let ask = a.step(Told::Failed);
        let ask = a.step(store.answer(0, ask));
        assert_eq!(ask, Ask::Remove(1));
        assert_eq!(store.settle(0, &mut a, ask), Ask::Lead(3));
        assert_eq!(a.step(Told::Removed(true)), Ask::Lead(3), "late answers do no harm");
    }

    #[test]
    fn a_leader_in_doubt_that_was_replaced_follows() {
        let mut store = Store { revision: 8, key: Some((8, 1)) };
        let (mut a, _) = Candidate::begin();
        a.step(Told::Key(Some((4, true))));
        let ask = a.step(Told::Doubt);
        assert_eq!(store.settle(0, &mut a, ask), Ask::Follow(8));
    }

    #[test]
    fn a_leader_that_looks_finds_what_is() {
        let mut store = Store::default();
        let (mut a, ask) = Candidate::begin();
        store.settle(0, &mut a, ask);
        assert_eq!(a.step(store.answer(0, Ask::Read)), Ask::Lead(1), "still its own");
        // Somebody removed the key and nobody has claimed it: it is taken anew, with another epoch.
        store.answer(9, Ask::Remove(1));
        let ask = a.step(store.answer(0, Ask::Read));
        assert_eq!(store.settle(0, &mut a, ask), Ask::Lead(3));
        assert_eq!(a.step(Told::Key(Some((2, false)))), Ask::Lead(3), "read before it was claimed anew");
        store.answer(9, Ask::Remove(3));
        store.answer(9, Ask::Claim);
        assert_eq!(a.step(store.answer(0, Ask::Read)), Ask::Follow(5));
        assert_eq!(a.leads(), None);
    }

    #[test]
    fn a_leader_whose_write_was_refused_asks_who_leads() {
        for (replaced, expected) in [(true, Ask::Follow(3)), (false, Ask::Lead(3))] {
            let mut store = Store::default();
            let (mut a, ask) = Candidate::begin();
            store.settle(0, &mut a, ask);
            store.answer(9, Ask::Remove(1));
            if replaced {
                store.answer(9, Ask::Claim);
            }
            let ask = a.step(Told::Fenced);
            assert_eq!((ask, a.leads()), (Ask::Read, None));
            assert_eq!(store.settle(0, &mut a, ask), expected);
        }
    }
}
