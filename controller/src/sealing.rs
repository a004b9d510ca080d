//! Secrets at rest: sealed unless the operator says otherwise, with keys that are the store's.
//!
//! The store says by the id of a key whether it is sealed and with which one, so that a controller that has another key, or
//! none, gets an error before it writes anything.

use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use controller_keys::{Guards, KeyError, Purpose};
use controller_leader::keys;
use controller_store::{
    Compare, KeyId, KeyRing, KeyRingError, KeyValue, Op, RangeRequest, SealedStore, Store, StoreError, Txn,
};
use thiserror::Error;

/// The file of keys in the data folder.
pub const STORE_KEYS: &str = "store.keys";
/// So many values of a kind tell whether an older release wrote them in the plain.
const CHECK_AT: usize = 100;

/// What `--store-keys` says about sealing values in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreKeys {
    /// Nothing in the store is sealed.
    None,
    /// The path of the file of keys.
    File(PathBuf),
}

impl FromStr for StoreKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err("write a path, or none".to_owned()),
            "none" => Ok(Self::None),
            path => Ok(Self::File(path.into())),
        }
    }
}

/// Why the store is not opened.
#[derive(Debug, Error)]
pub enum SealingError {
    /// The file of keys is not valid.
    #[error("--store-keys: {0}")]
    Ring(#[from] KeyRingError),
    /// The file, or who protects it.
    #[error("--store-keys: {0}")]
    Key(#[from] KeyError),
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be removed.
    #[error("cannot remove {}: {source}", path.display())]
    Remove {
        /// Path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that was named is not there.
    #[error("--store-keys: {} is not there; `rail-controller store key {}` makes it", .0.display(), .0.display())]
    NoFile(PathBuf),
    /// The store is sealed with a key that the file does not have.
    #[error(
        "the store is sealed with key {id}, which is not in {}: copy the file of keys from a controller of this cluster (store.keys in its data folder, as ca.key), or name it by --store-keys", path.display()
    )]
    NotHere {
        /// Id of the key that the store is sealed with.
        id: KeyId,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The store is sealed, and `--store-keys` is none.
    #[error(
        "the store is sealed with key {id}, but --store-keys is none: give the file of keys, or write everything in the plain first (`rail-controller store reseal --plain` with the keys)"
    )]
    Sealed {
        /// Id of the key that the store is sealed with.
        id: KeyId,
    },
    /// The store's own record of its key cannot be read.
    #[error("the store's record of its key cannot be read: {0}")]
    Record(KeyRingError),
}

/// The file of keys, in the data folder unless another one is named.
fn place(choice: Option<&StoreKeys>, data_dir: Option<&Path>) -> Option<PathBuf> {
    match choice {
        Some(StoreKeys::None) => None,
        Some(StoreKeys::File(path)) => Some(path.clone()),
        None => Some(data_dir?.join(STORE_KEYS)),
    }
}

/// The keys of a file, however it is protected.
///
/// # Errors
/// It cannot be read, or does not open.
pub fn ring(path: &Path, guards: &Guards) -> Result<KeyRing, KeyRingError> {
    let guards = guards.clone();
    KeyRing::open_with(path, move |path| {
        let read = guards.read(path, Purpose::StoreKeys);
        let (text, _) = read.map_err(|error| KeyRingError::Protected { cause: error.to_string() })?;
        Ok((*text).clone())
    })
}

/// What there is of keys, for who only reads: an empty ring where there is none.
///
/// # Errors
/// A file that is there, or was named, does not open.
pub fn ring_to_read(
    choice: Option<&StoreKeys>,
    data_dir: Option<&Path>,
    guards: &Guards,
) -> Result<KeyRing, KeyRingError> {
    match place(choice, data_dir) {
        Some(path) if choice.is_some() || path.exists() => ring(&path, guards),
        _ => Ok(KeyRing::empty()),
    }
}

/// Makes the file of keys of a new cluster, where there is none yet.
///
/// # Errors
/// It cannot be written, or the provider does not wrap it.
pub fn make(choice: Option<&StoreKeys>, data_dir: &Path, guards: &Guards) -> Result<(), SealingError> {
    match place(choice, Some(data_dir)) {
        Some(path) if !path.exists() => make_at(&path, guards),
        _ => Ok(()),
    }
}

fn make_at(path: &Path, guards: &Guards) -> Result<(), SealingError> {
    let (id, text) = KeyRing::with_new_key(None, path)?;
    let form = guards.write(path, Purpose::StoreKeys, &text)?;
    tracing::info!(
        keys = %path.display(), %id, protected = %form,
        "a key for secret values at rest was made; every controller of the cluster needs this file, and without it nothing is read: keep a copy apart from backups"
    );
    Ok(())
}

/// A store as a controller sees it: secret values in the plain, and sealed underneath.
///
/// # Errors
/// [`SealingError`] if the store cannot be opened with these keys; nothing was written.
pub async fn opened(
    store: Arc<dyn Store>,
    choice: Option<&StoreKeys>,
    data_dir: &Path,
    guards: &Guards,
) -> Result<Arc<dyn Store>, SealingError> {
    let recorded = record(store.as_ref()).await?;
    let ring = match place(choice, Some(data_dir)) {
        None => {
            if let Some((id, _)) = recorded {
                return Err(SealingError::Sealed { id });
            }
            tracing::warn!(
                "secret values are stored in the plain (--store-keys none): whoever reads the store or a backup reads tenants' secrets"
            );
            KeyRing::empty()
        }
        Some(path) => {
            let made = !path.exists();
            if made {
                if let Some(id) = sealed_with(store.as_ref(), recorded.as_ref()).await? {
                    return Err(SealingError::NotHere { id, path });
                }
                if choice.is_some() {
                    return Err(SealingError::NoFile(path));
                }
                make_at(&path, guards)?;
            }
            let ring = ring(&path, guards)?;
            match claim(store.as_ref(), &ring, recorded, &path).await {
                Err(error @ SealingError::NotHere { .. }) if made => {
                    // Another controller was first; nothing was sealed with this one.
                    fs::remove_file(&path).map_err(|source| SealingError::Remove { path, source })?;
                    return Err(error);
                }
                claimed => claimed?,
            }
            ring
        }
    };
    Ok(Arc::new(SealedStore::new(store, ring, keys::SECRET)))
}

/// The key that the store says it is sealed with, and the revision of that.
///
/// # Errors
/// [`SealingError::Record`], or the store cannot be read.
pub async fn record(store: &dyn Store) -> Result<Option<(KeyId, u64)>, SealingError> {
    let Some(kv) = store.get(keys::SEAL.into()).await? else { return Ok(None) };
    let text = std::str::from_utf8(&kv.value).unwrap_or_default();
    let id = text.parse().map_err(SealingError::Record)?;
    Ok(Some((id, kv.mod_revision)))
}

/// The key that values are sealed with although the store has no record of it: a release before it kept one.
async fn sealed_with(
    store: &dyn Store,
    recorded: Option<&(KeyId, u64)>,
) -> Result<Option<KeyId>, SealingError> {
    if let Some((id, _)) = recorded {
        return Ok(Some(*id));
    }
    let values = some_values(store).await?;
    Ok(values.iter().find_map(|kv| KeyRing::sealed_with(&kv.value).ok().flatten()))
}

async fn some_values(store: &dyn Store) -> Result<Vec<KeyValue>, StoreError> {
    let mut values = Vec::new();
    for prefix in keys::SECRET {
        let request = RangeRequest { limit: CHECK_AT, ..RangeRequest::prefix(prefix) };
        values.extend(store.range(request).await?.items);
    }
    Ok(values)
}

/// Records which key seals from now on, where the store's own is among ours.
async fn claim(
    store: &dyn Store,
    ring: &KeyRing,
    mut recorded: Option<(KeyId, u64)>,
    path: &Path,
) -> Result<(), SealingError> {
    let Some(newest) = ring.newest() else { return Ok(()) };
    loop {
        let still = match recorded {
            Some((id, _)) if id == newest => return Ok(()),
            Some((id, _)) if !ring.has(id)? => {
                return Err(SealingError::NotHere { id, path: path.to_owned() });
            }
            Some((_, revision)) => Compare::mod_revision(keys::SEAL, revision),
            None => Compare::absent(keys::SEAL),
        };
        let txn = Txn::new().when(still).then(Op::put(keys::SEAL, newest.to_string()));
        if store.txn(txn).await?.succeeded {
            return begun(store, newest, recorded.is_none()).await;
        }
        recorded = record(store).await?;
    }
}

/// Told once: what an older release has left.
async fn begun(store: &dyn Store, id: KeyId, first: bool) -> Result<(), SealingError> {
    let plain = |kv: &KeyValue| matches!(KeyRing::sealed_with(&kv.value), Ok(None));
    if first && some_values(store).await?.iter().any(plain) {
        tracing::warn!(
            %id,
            "secret values that are written from now on are sealed; those that an older release wrote are in the plain until they change, or until `rail-controller store reseal`"
        );
    } else {
        tracing::info!(%id, "secret values are sealed with this key from now on");
    }
    Ok(())
}
