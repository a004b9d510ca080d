//! The queue that tasks share, and the signal for who waits for it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

use crate::queue::{Outcome, Queue};

/// The queue, and who waits for it.
#[derive(Clone, Default)]
pub(crate) struct Work {
    queue: Arc<Mutex<Queue>>,
    changed: Arc<Notify>,
}

impl Work {
    fn with<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        change(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// These workloads are worked on as soon as somebody can.
    pub(crate) fn add(&self, uids: impl IntoIterator<Item = String>) {
        let now = Instant::now();
        let refused = self.with(|queue| uids.into_iter().filter(|uid| !queue.add(uid, now)).count());
        if refused > 0 {
            tracing::warn!(refused, "too many workloads wait; these are found when all is compared again");
        }
        self.changed.notify_waiters();
    }

    /// Waits for the next workload that is due. It is nobody else's until [`Work::done`].
    pub(crate) async fn next(&self) -> String {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on a change is noticed.
            changed.as_mut().enable();
            let (uid, next) = self.with(|queue| (queue.take(Instant::now()), queue.next()));
            match (uid, next) {
                (Some(uid), _) => return uid,
                (None, Some(next)) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(next.into()) => {}
                        () = changed => {}
                    }
                }
                (None, None) => changed.await,
            }
        }
    }

    /// A pass is over. Gives how often it has failed since it last succeeded.
    pub(crate) fn done(&self, uid: &str, outcome: Outcome) -> u32 {
        let failures = self.with(|queue| {
            queue.done(uid, outcome, Instant::now());
            queue.failures(uid)
        });
        self.changed.notify_waiters();
        failures
    }
}
