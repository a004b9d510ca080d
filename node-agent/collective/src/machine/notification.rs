//! Notifications, and what a node remembers of those to and from a peer.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::{MAX_NOTIFICATIONS, Rank};

/// A few words from one rank to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// The rank that made it.
    pub from: Rank,
    /// The rank that gets it.
    pub to: Rank,
    /// What it says: the ranks' own affair.
    pub words: [u64; 3],
}

/// In a notification's `to`: it is for the engine of that rank, not for the rank.
const FOR_ENGINE: Rank = 1 << 31;

impl Notification {
    /// The same, for the engine of the rank.
    #[must_use]
    pub fn for_engine(self) -> Self {
        Self { to: self.to | FOR_ENGINE, ..self }
    }

    /// Whether it is for the engine of the rank.
    #[must_use]
    pub fn is_for_engine(&self) -> bool {
        self.to & FOR_ENGINE != 0
    }

    /// The rank that it is for, or whose engine.
    #[must_use]
    pub fn recipient(&self) -> Rank {
        self.to & !FOR_ENGINE
    }
}

/// Notifications to one peer, and from it.
#[derive(Debug, Clone, Default)]
pub struct Notifications {
    /// How many were made for the peer.
    pub made: u64,
    /// It has acknowledged all of those before this number.
    acknowledged: u64,
    /// What it has acknowledged beyond the first that it has not.
    beyond: BTreeSet<u64>,
    /// How many of the peer's were handed out.
    pub taken: u64,
    /// Those that came before earlier ones, by number.
    pub held: BTreeMap<u64, Notification>,
}

impl Notifications {
    /// Whether one more may be made. The peer takes them in order and holds those that came before earlier ones, so what counts is how far the
    /// next one is from the first that may be missing there, however many of those between have arrived.
    pub fn has_room(&self) -> bool {
        self.made - self.acknowledged < MAX_NOTIFICATIONS as u64
    }

    /// The peer has this one.
    pub fn acknowledge(&mut self, number: u64) {
        if number < self.acknowledged {
            return;
        }
        self.beyond.insert(number);
        while self.beyond.remove(&self.acknowledged) {
            self.acknowledged += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: u64 = MAX_NOTIFICATIONS as u64;

    /// What a peer would take: the same rule as [`Machine::notified`](crate::Machine), on numbers alone.
    #[derive(Default)]
    struct Peer {
        taken: u64,
        held: BTreeSet<u64>,
    }

    impl Peer {
        fn arrives(&mut self, number: u64) -> bool {
            let ahead = number.checked_sub(self.taken).is_some_and(|ahead| ahead < MOST);
            self.held.insert(number);
            while self.held.remove(&self.taken) {
                self.taken += 1;
            }
            ahead
        }
    }

    proptest! {
        /// Whatever arrives and is acknowledged in whichever order: the peer has room for all that may be made.
        #[test]
        fn both_ends_count_alike(steps in prop::collection::vec((0..3, any::<prop::sample::Index>(), 1_u64..MOST / 2), 1..60)) {
            let (mut own, mut peer) = (Notifications::default(), Peer::default());
            let (mut flying, mut arrived) = (Vec::new(), Vec::new());
            for (kind, which, count) in steps {
                match kind {
                    0 => {
                        for _ in 0..count {
                            if own.has_room() {
                                flying.push(own.made);
                                own.made += 1;
                            }
                        }
                    }
                    1 => {
                        for _ in 0..count.min(flying.len() as u64) {
                            let number = flying.swap_remove(which.index(flying.len()));
                            prop_assert!(peer.arrives(number), "{} beyond {}", number, peer.taken);
                            arrived.push(number);
                        }
                    }
                    _ => {
                        for _ in 0..count.min(arrived.len() as u64) {
                            own.acknowledge(arrived.swap_remove(which.index(arrived.len())));
                        }
                    }
                }
                prop_assert!(own.beyond.len() < MAX_NOTIFICATIONS);
            }
            arrived.extend(flying);
            arrived.iter().for_each(|number| own.acknowledge(*number));
            prop_assert_eq!((own.acknowledged, own.beyond.len()), (own.made, 0));
        }
    }
}
