//! A copy of everything that is stored, by a listing and the store's own watch: what any reader of the store relies on.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use controller_leader::{SharedStore, keys};
use controller_store::{Event, StoreError};
use tokio_stream::StreamExt as _;

/// Wait before the store is listed again.
const AGAIN: Duration = Duration::from_millis(150);

/// The copy; clones share it.
#[derive(Clone, Default)]
pub struct Reader(Arc<Mutex<Copy>>);

/// Keys with the revision of their last change and their value.
#[derive(Default)]
pub struct Copy {
    /// The rows by key, each with the revision of its last change.
    pub rows: BTreeMap<Bytes, (u64, Bytes)>,
    /// How often it began with a listing.
    pub listed: u64,
    /// A watch delivered something again, or of the past.
    pub wrong: Option<String>,
    at: u64,
}

impl Reader {
    /// Locks the copy as it is now.
    pub fn copy(&self) -> MutexGuard<'_, Copy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows for as long as the store is there.
    pub async fn follow(self, store: SharedStore) {
        loop {
            if let Ok(all) = store.range_all(keys::ROOT.into()).await {
                {
                    let mut copy = self.copy();
                    copy.listed += 1;
                    copy.at = all.revision;
                    let rows = all.items.into_iter().map(|kv| (kv.key, (kv.mod_revision, kv.value)));
                    copy.rows = rows.collect();
                }
                if let Err(StoreError::Closed) = self.watch(&store, all.revision + 1).await {
                    return;
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn watch(&self, store: &SharedStore, from: u64) -> Result<(), StoreError> {
        let mut changes = store.watch(keys::ROOT.into(), from).await?;
        while let Some(batch) = changes.next().await {
            let batch = batch?;
            let mut copy = self.copy();
            if batch.revision <= copy.at {
                let text = format!("revision {} after {}", batch.revision, copy.at);
                copy.wrong.get_or_insert(text);
            }
            copy.at = batch.revision;
            for event in batch.events {
                match event {
                    Event::Put { kv, .. } => _ = copy.rows.insert(kv.key, (kv.mod_revision, kv.value)),
                    Event::Delete { key, .. } => _ = copy.rows.remove(&key),
                }
            }
        }
        Ok(())
    }
}
