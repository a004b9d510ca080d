//! A store filled whole, by a restore or a migration: until it is finished no controller starts on it, and an embedded
//! store is only replaced at the very end.
//!
//! Revisions go on far above those of the store that is copied: agents refuse a controller whose epoch, which is a
//! revision, is lower than one that they have seen, and what was written after a backup was made is not in it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::embedded::lock::{Lock, acquire, at};
use crate::embedded::{EmbeddedOptions, EmbeddedStore, FILE, LOCK_FILE};
use crate::error::StoreError;
use crate::etcd::EtcdStore;
use crate::etcd::options::EtcdOptions;
use crate::store::Store;
use crate::types::{Op, Txn};

/// Revisions that are left out, as `etcdutl snapshot restore --bump-revision` does.
pub const REVISION_GAP: u64 = 1_000_000_000;
/// The folder in a store's own in which its successor grows.
const FOLDER: &str = "filling";
/// Operations and bytes of one transaction.
const OPS: usize = 1000;
const BYTES: usize = 512 * 1024;

/// A store that is being filled.
pub struct Filling {
    store: Arc<dyn Store>,
    target: Target,
    txn: Txn,
    bytes: usize,
}

#[derive(Debug)]
enum Target {
    Embedded { store: Arc<EmbeddedStore>, dir: PathBuf, lock: Lock },
    Etcd(Arc<EtcdStore>),
}

impl Filling {
    /// An embedded store whose revisions begin at `revision`. What is there is kept under another name, and needs `force`.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::InUse`], the disk's.
    pub fn embedded(mut options: EmbeddedOptions, revision: u64, force: bool) -> Result<Self, StoreError> {
        let dir = options.dir.clone();
        fs::create_dir_all(&dir).map_err(|error| at(&dir, &error))?;
        let lock = acquire(&dir.join(LOCK_FILE))?;
        if dir.join(FILE).exists() && !force {
            return Err(StoreError::Exists { place: dir.display().to_string() });
        }
        options.dir = dir.join(FOLDER);
        if options.dir.exists() {
            // An earlier attempt that did not end.
            fs::remove_dir_all(&options.dir).map_err(|error| at(&options.dir, &error))?;
        }
        let store = Arc::new(EmbeddedStore::open_at(options, revision)?);
        let target = Target::Embedded { store: Arc::clone(&store), dir, lock };
        Ok(Self { store, target, txn: Txn::new(), bytes: 0 })
    }

    /// A store in etcd whose revisions begin above `revision`. What is there is deleted, and needs `force`; a controller
    /// that still runs on it is deposed.
    ///
    /// # Errors
    /// [`StoreError::Exists`] and those of [`EtcdStore::open`].
    pub async fn etcd(options: EtcdOptions, revision: u64, force: bool) -> Result<Self, StoreError> {
        let store = Arc::new(EtcdStore::open_to_fill(options, revision, force).await?);
        Ok(Self { store: store.clone(), target: Target::Etcd(store), txn: Txn::new(), bytes: 0 })
    }

    /// The store as it is so far.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Adds one key.
    ///
    /// # Errors
    /// The store's.
    pub async fn put(&mut self, key: Bytes, value: Bytes) -> Result<(), StoreError> {
        let size = key.len() + value.len() + 64;
        let most = BYTES.min(self.store.limits().txn_bytes / 2);
        if self.txn.success.len() >= OPS.min(self.store.limits().txn_ops) || self.bytes + size > most {
            self.flush().await?;
        }
        self.bytes += size;
        self.txn.success.push(Op::put(key, value));
        Ok(())
    }

    /// Writes what was added and not written yet.
    ///
    /// # Errors
    /// The store's.
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        self.bytes = 0;
        let txn = std::mem::take(&mut self.txn);
        if txn.success.is_empty() { Ok(()) } else { self.store.txn(txn).await.map(|_| ()) }
    }

    /// Makes it the store. Answers where the former one is, if it was kept.
    ///
    /// # Errors
    /// The store's; then it is not the store.
    pub async fn finish(mut self) -> Result<Option<PathBuf>, StoreError> {
        self.flush().await?;
        match self.target {
            Target::Etcd(store) => store.filled().await.map(|()| None),
            Target::Embedded { store, dir, lock } => {
                store.close();
                let kept = replace(&dir);
                drop(lock);
                kept
            }
        }
    }
}

/// Moves the new file into the place of the old one, which gets another name.
fn replace(dir: &std::path::Path) -> Result<Option<PathBuf>, StoreError> {
    let (now, new) = (dir.join(FILE), dir.join(FOLDER).join(FILE));
    let kept = if now.exists() {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let kept = dir.join(format!("{FILE}.replaced-{seconds}"));
        fs::hard_link(&now, &kept).map_err(|error| at(&kept, &error))?;
        Some(kept)
    } else {
        None
    };
    fs::rename(&new, &now).map_err(|error| at(&now, &error))?;
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| at(dir, &error))?;
    // Its lock file and an empty folder; they are in nobody's way.
    let _ = fs::remove_dir_all(dir.join(FOLDER));
    Ok(kept)
}
