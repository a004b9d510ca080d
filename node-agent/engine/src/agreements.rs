//! Numbers that all ranks of a job are to know alike: the first node decides them when they are asked for first. [pure]

use std::collections::{BTreeMap, VecDeque};

use node_agent_collective::Notification;
use node_agent_ipc::RailModel;

/// Keys whose numbers are remembered; the oldest is forgotten. And what is to be said to other engines, but finds no room.
const MOST: usize = 4096;
/// What engines say to each other, in the lowest byte of the first word.
const ASKED: u64 = 1;
const DECIDED: u64 = 2;

/// A rank's request that waits for the first node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) token: usize,
    pub(crate) id: u64,
}

/// What was decided, here on the first node; and who waits, elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Agreements {
    decided: BTreeMap<u64, RailModel>,
    order: VecDeque<u64>,
    waiting: BTreeMap<u64, Vec<Asker>>,
    deferred: VecDeque<Notification>,
}

impl Agreements {
    /// What all are told under a key: what `now` says if nobody has asked before.
    pub(crate) fn decide(&mut self, key: u64, now: impl FnOnce() -> RailModel) -> RailModel {
        if let Some(model) = self.decided.get(&key) {
            return *model;
        }
        if self.order.len() >= MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.decided.remove(&oldest);
        }
        let model = now();
        self.order.push_back(key);
        self.decided.insert(key, model);
        model
    }

    /// A rank waits. Says whether the first node is to be asked, for nobody has yet.
    pub(crate) fn wait(&mut self, key: u64, asker: Asker) -> bool {
        let waiting = self.waiting.entry(key).or_default();
        waiting.push(asker);
        waiting.len() == 1
    }

    /// Those that have waited for a key.
    pub(crate) fn decided(&mut self, key: u64) -> Vec<Asker> {
        self.waiting.remove(&key).unwrap_or_default()
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, token: usize) {
        self.waiting.values_mut().for_each(|askers| askers.retain(|asker| asker.token != token));
    }

    /// Whether anybody waits.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Keeps what there is no room for at the moment, to be tried again. `false`: there is too much of that already.
    pub(crate) fn defer(&mut self, notification: Notification) -> bool {
        let room = self.deferred.len() < MOST;
        if room {
            self.deferred.push_back(notification);
        }
        room
    }

    /// What is to be tried again.
    pub(crate) fn take_deferred(&mut self) -> VecDeque<Notification> {
        std::mem::take(&mut self.deferred)
    }

    /// All that wait: nobody will answer them.
    pub(crate) fn end(&mut self) -> Vec<Asker> {
        self.deferred.clear();
        std::mem::take(&mut self.waiting).into_values().flatten().collect()
    }
}

/// What one engine says to another about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saying {
    /// What is it?
    Asked(u64),
    /// This is it.
    Decided(u64, RailModel),
}

impl Saying {
    /// As the words of a notification.
    pub(crate) fn words(self) -> [u64; 3] {
        match self {
            Self::Asked(key) => [ASKED, key, 0],
            Self::Decided(key, model) => {
                let rails = u64::from(model.rails.min(u16::from(u8::MAX)));
                let first = DECIDED | rails << 8 | u64::from(model.capacity) << 16;
                [first, key, u64::from(model.alpha_ns) | u64::from(model.beta_ps) << 32]
            }
        }
    }

    /// Reads the words of a notification; `None` where they say nothing that is known here.
    pub(crate) fn read([first, key, last]: [u64; 3]) -> Option<Self> {
        let low = |word: u64| (word & u64::from(u32::MAX)) as u32;
        match first & 0xff {
            ASKED => Some(Self::Asked(key)),
            DECIDED => Some(Self::Decided(
                key,
                RailModel {
                    rails: (first >> 8 & 0xff) as u16,
                    capacity: (first >> 16 & 0xffff) as u16,
                    alpha_ns: low(last),
                    beta_ps: low(last >> 32),
                },
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(beta_ps: u32) -> RailModel {
        RailModel { rails: 8, capacity: 1024, alpha_ns: 3000, beta_ps }
    }

    #[test]
    fn what_is_decided_stays() {
        let mut agreements = Agreements::default();
        assert_eq!(agreements.decide(7, || model(20)), model(20));
        assert_eq!(agreements.decide(7, || model(30)), model(20));
        assert_eq!(agreements.decide(8, || model(30)), model(30));
        for key in 100..100 + MOST as u64 {
            agreements.decide(key, || model(1));
        }
        assert_eq!((agreements.decided.len(), agreements.order.len()), (MOST, MOST));
        assert_eq!(agreements.decide(7, || model(40)), model(40), "the oldest is forgotten");
    }

    #[test]
    fn those_that_wait_are_answered_together() {
        let mut agreements = Agreements::default();
        let asker = |token| Asker { token, id: 1 };
        assert!(agreements.wait(7, asker(1)));
        assert!(!agreements.wait(7, asker(2)));
        assert!(agreements.wait(8, asker(3)));
        assert_eq!(agreements.decided(7), [asker(1), asker(2)]);
        assert!(agreements.decided(7).is_empty());
        assert_eq!(agreements.end(), [asker(3)]);
    }

    #[test]
    fn what_finds_no_room_is_kept_up_to_a_bound() {
        let mut agreements = Agreements::default();
        let notification = |key| Notification { from: 1, to: 0, words: Saying::Asked(key).words() };
        assert!((0..MOST as u64).all(|key| agreements.defer(notification(key))));
        assert!(!agreements.defer(notification(0)));
        let deferred = agreements.take_deferred();
        assert_eq!((deferred.len(), deferred[7]), (MOST, notification(7)));
        assert!(agreements.defer(notification(0)) && !agreements.is_awaited());
        agreements.end();
        assert!(agreements.take_deferred().is_empty());
    }

    #[test]
    fn words_are_read_as_written() {
        let decided = RailModel { rails: 64, capacity: 1023, alpha_ns: u32::MAX, beta_ps: 20 };
        for saying in [Saying::Asked(u64::MAX), Saying::Decided(5, decided)] {
            assert_eq!(Saying::read(saying.words()), Some(saying));
        }
        assert_eq!(Saying::read([3, 0, 0]), None);
    }
}
