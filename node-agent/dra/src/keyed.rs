//! One at a time for each claim: a lock by its UID, there for as long as somebody has or wants it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::OwnedMutexGuard;

type Locks = Arc<Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// The locks.
#[derive(Debug, Clone, Default)]
pub struct Keyed(Locks);

/// Whoever has it is the only one at work on this claim.
#[derive(Debug)]
pub struct KeyedGuard {
    locks: Locks,
    key: String,
    guard: Option<OwnedMutexGuard<()>>,
}

fn entries(locks: &Locks) -> MutexGuard<'_, BTreeMap<String, Arc<tokio::sync::Mutex<()>>>> {
    // A poisoned lock holds a whole map all the same.
    locks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keyed {
    /// Waits until nobody else has it.
    pub async fn lock(&self, key: &str) -> KeyedGuard {
        let one = Arc::clone(entries(&self.0).entry(key.to_owned()).or_default());
        // Made before the wait, so that a wait that is given up cleans up as well.
        let mut waiting = KeyedGuard { locks: Arc::clone(&self.0), key: key.to_owned(), guard: None };
        waiting.guard = Some(one.lock_owned().await);
        waiting
    }
}

impl Drop for KeyedGuard {
    fn drop(&mut self) {
        let mut entries = entries(&self.locks);
        drop(self.guard.take());
        // Others are counted by their own handle; only the map's is left when nobody wants it.
        if entries.get(&self.key).is_some_and(|one| Arc::strong_count(one) == 1) {
            entries.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_is_there_only_while_somebody_has_or_wants_it() {
        let keyed = Keyed::default();
        let first = keyed.lock("a").await;
        let second = {
            let keyed = keyed.clone();
            tokio::spawn(async move { drop(keyed.lock("a").await) })
        };
        let given_up = {
            let keyed = keyed.clone();
            tokio::spawn(async move { drop(keyed.lock("a").await) })
        };
        drop(keyed.lock("b").await);
        given_up.abort();
        let _ = given_up.await;
        drop(first);
        second.await.unwrap();
        assert!(entries(&keyed.0).is_empty());
    }
}
