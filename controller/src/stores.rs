//! The stores that maintenance reads and writes, and what can go wrong with them.

use std::{path::PathBuf, sync::Arc};

use controller_keys::KeyError;
use controller_leader::keys;
use controller_store::{
    EmbeddedStore, EtcdStore, KeyId, KeyRing, KeyRingError, SealedStore, Store, StoreError,
};
use proto_rpc::files::FileError;
use thiserror::Error;

use crate::{
    args::Which,
    sealing,
    snapshot::SnapshotError,
    store_args::{Kind, StoreArgsError, embedded},
};

/// Why it was not done.
#[derive(Debug, Error)]
pub enum KeepError {
    /// The embedded store is in the data folder.
    #[error("--data-dir is needed: the embedded store is in it")]
    NoDataDir,
    /// There is no embedded store.
    #[error("there is no embedded store in {}", .0.display())]
    NoStore(PathBuf),
    /// It would be copied onto itself.
    #[error("--to says where the store goes to; --store is not needed beside it")]
    BothSaid,
    /// A copy that is not the same.
    #[error("the copy differs from its source; it was not put in place. Was something written meanwhile?")]
    Differs,
    /// What `verify` found wrong with the store, in words.
    #[error("{0}")]
    Unsound(String),
    /// The store could not be opened, read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The backup could not be written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The file of store keys could not be used.
    #[error("--store-keys: {0}")]
    Keys(#[from] KeyRingError),
    /// The file of store keys could not be opened with what protects it.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store's values are sealed with another key than those that are here.
    #[error(
        "the keys do not fit: secret values of this backup are sealed with key {id}, and {there}. Without that key the backup is worthless: give the store.keys of its cluster (--store-keys), which is in every controller's data folder and wherever its copy is kept"
    )]
    OtherKeys {
        /// Id of the key that they are sealed with.
        id: KeyId,
        /// Which keys are here, in words.
        there: String,
    },
    /// A controller would not start from the backup, in words.
    #[error("no controller would start from {file}: {faults}")]
    Worthless {
        /// The backup.
        file: String,
        /// Why.
        faults: String,
    },
    /// The folder for a drill.
    #[error("the folder for the drill (TMPDIR says where): {0}")]
    Scratch(std::io::Error),
    /// The system does not tell of signals, at which a drill tidies up.
    #[error("signals are not heard: {0}")]
    Signals(std::io::Error),
    /// There is no key to seal with.
    #[error(
        "--store-keys is needed, where there is no store.keys in the data folder: the first key in it seals (--plain, with the keys that open, ends the sealing)"
    )]
    NoKeys,
    /// A controller leads on the store and writes to it.
    #[error(
        "a controller leads on this store; stop all of them first (where the last one was killed, start one and stop it: it lets the lead go)"
    )]
    Led,
    /// The options for the store contradict each other, or one cannot be used.
    #[error(transparent)]
    Args(#[from] StoreArgsError),
    /// The file with the password of the store could not be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A store with its secret values in the plain, by the keys that are here.
pub(crate) fn opened(which: &Which, store: Arc<dyn Store>) -> Result<Arc<dyn Store>, KeepError> {
    Ok(Arc::new(SealedStore::new(store, ring(which)?, keys::SECRET)))
}

/// The ring of store keys that the options name, or that of the data folder.
pub(crate) fn ring(which: &Which) -> Result<KeyRing, KeepError> {
    let guards = which.keys.guards()?;
    Ok(sealing::ring_to_read(which.store.store_keys.as_ref(), which.data_dir.as_deref(), &guards)?)
}

/// Opens the store of this kind, to be read.
pub(crate) async fn source(which: &Which, kind: Kind) -> Result<Arc<dyn Store>, KeepError> {
    match kind {
        Kind::Embedded => {
            let folder = which.data_dir.as_deref().ok_or(KeepError::NoDataDir)?;
            let options = embedded(folder);
            if !options.dir.join("state.db").exists() {
                return Err(KeepError::NoStore(folder.to_owned()));
            }
            Ok(Arc::new(EmbeddedStore::open(options)?))
        }
        Kind::Etcd => {
            let mut options = which.store.etcd.options()?;
            options.create = false;
            // Whoever runs on it compacts.
            options.keep_history = None;
            Ok(Arc::new(EtcdStore::open(options).await?))
        }
    }
}
