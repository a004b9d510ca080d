//! What calls of the etcd store and its background tasks share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::{link::Link, options::EtcdOptions, slots::Slots, space::Space};
use crate::{
    hub::Hub,
    types::{Limits, StoreStatus},
};

/// What calls and background tasks share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub link: Link,
    pub space: Space,
    pub slots: Slots,
    pub mirror: Mirror,
    pub limits: Limits,
    pub options: EtcdOptions,
    /// etcd said that its quota is used up; the keeper frees space.
    pub full: AtomicBool,
    pub full_cause: std::sync::Mutex<Option<String>>,
    pub commits: AtomicU64,
    pub transactions: AtomicU64,
    /// Ends the background tasks.
    pub stop: CancellationToken,
}

/// Keys in a page where the caller names no number; fewer where they are large.
pub(crate) const PAGE: usize = 4000;

/// The mirror; made when somebody watches first.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    pub(crate) hub: OnceCell<Arc<Hub>>,
    /// It knows all keys, and not only those that changed since it was made.
    pub(crate) whole: AtomicBool,
    /// History up to here was compacted through this store, and is not served from memory either.
    pub(crate) floor: AtomicU64,
    /// How often it started anew.
    pub mended: AtomicU64,
}

impl Mirror {
    /// What it knows, and whether that is all keys; `None` before anybody watched.
    pub fn status(&self) -> Option<(StoreStatus, bool)> {
        self.hub.get().map(|hub| (hub.status(), self.whole.load(Ordering::SeqCst)))
    }

    /// False while it does not know all keys.
    #[cfg(test)]
    pub fn lose_sight_of(&self, key: &bytes::Bytes) -> bool {
        let Some(hub) = self.hub.get().filter(|_| self.whole.load(Ordering::SeqCst)) else { return false };
        let mut state = hub.state().clone();
        state.set(key.clone(), None);
        hub.swap(state);
        true
    }

    /// The history up to `revision` was compacted by this process.
    pub fn forget(&self, revision: u64) {
        self.floor.fetch_max(revision, Ordering::SeqCst);
    }
}
