//! One place for the controller's last word: a later one replaces one that nobody has read yet.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What waiting for a word brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mail<T> {
    /// A word.
    Word(T),
    /// None came in time.
    Nothing,
    /// None will come any more.
    Closed,
}

#[derive(Debug)]
struct Slot<T> {
    word: Option<T>,
    closed: bool,
}

/// The place; clones are the same one.
#[derive(Debug)]
pub struct Mailbox<T>(Arc<(Mutex<Slot<T>>, Condvar)>);

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self(Arc::new((Mutex::new(Slot { word: None, closed: false }), Condvar::new())))
    }
}

impl<T> Mailbox<T> {
    fn slot(&self) -> MutexGuard<'_, Slot<T>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the word that is there.
    pub fn put(&self, word: T) {
        self.slot().word = Some(word);
        self.0.1.notify_one();
    }

    /// Nothing more comes; what is there is not read any more.
    pub fn close(&self) {
        self.slot().closed = true;
        self.0.1.notify_one();
    }

    /// Waits for a word.
    #[must_use]
    pub fn take(&self, limit: Duration) -> Mail<T> {
        let empty = |slot: &mut Slot<T>| slot.word.is_none() && !slot.closed;
        let waited = self.0.1.wait_timeout_while(self.slot(), limit, empty);
        let (mut slot, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if slot.closed {
            return Mail::Closed;
        }
        slot.word.take().map_or(Mail::Nothing, Mail::Word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let (mailbox, moment) = (Mailbox::default(), Duration::from_millis(5));
        assert_eq!(mailbox.take(moment), Mail::Nothing);
        mailbox.put(1);
        mailbox.put(2);
        assert_eq!((mailbox.take(moment), mailbox.take(moment)), (Mail::Word(2), Mail::Nothing));
        let other = mailbox.clone();
        let waits = std::thread::spawn(move || other.take(Duration::from_secs(60)));
        mailbox.put(3);
        assert_eq!(waits.join().unwrap(), Mail::Word(3));
        mailbox.put(4);
        mailbox.close();
        assert_eq!(mailbox.take(moment), Mail::Closed);
    }
}
