//! Where the cluster's state is kept: in the data folder, or in etcd.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use controller_keys::Guards;
use controller_store::{
    EmbeddedOptions, EmbeddedStore, EtcdEndpoint, EtcdLogin, EtcdOptions, EtcdStore, EtcdTls, Limits, Lock,
    Store, StoreError, lock_file,
};
use proto_rpc::files::{self, FileError};
use thiserror::Error;

use crate::{
    arg_values::{Wait, duration, duration_or_never},
    sealing::{self, SealingError, StoreKeys},
};

/// An etcd on this machine, as distributions start it.
const LOCAL: &str = "http://127.0.0.1:2379";

/// What keeps the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// A database in the data folder, for one controller.
    Embedded,
    /// etcd, for several.
    Etcd,
}

/// Which store.
#[derive(Debug, Clone, clap::Args)]
pub struct StoreArgs {
    /// What keeps the state.
    #[arg(long, env = "RAIL_CONTROLLER_STORE", default_value = "embedded", value_enum)]
    pub store: Kind,
    /// The file of keys that seal secret values in the store; every controller of the cluster needs the same one. Default:
    /// store.keys in the data folder, which `init` or the first start makes. `none`: they are stored as they are, and
    /// whoever reads the store or a backup reads tenants' secrets.
    #[arg(long, env = "RAIL_CONTROLLER_STORE_KEYS")]
    pub store_keys: Option<StoreKeys>,
    /// etcd.
    #[command(flatten)]
    pub etcd: EtcdArgs,
}

/// How to reach etcd.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "etcd")]
pub struct EtcdArgs {
    /// Its members, https://host:2379 or http:// on this machine; default: http://127.0.0.1:2379. May be repeated.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_ENDPOINTS", value_delimiter = ',')]
    pub etcd_endpoints: Vec<EtcdEndpoint>,
    /// Everything of this cluster is under it; several clusters may share an etcd.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_PREFIX", default_value = "/railyard")]
    pub etcd_prefix: String,
    /// The CA that signed etcd's certificates, PEM.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_CA")]
    pub etcd_ca: Option<PathBuf>,
    /// Our certificate for etcd, PEM; read again every minute.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_CERT", requires = "etcd_key")]
    pub etcd_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_KEY", requires = "etcd_cert")]
    pub etcd_key: Option<PathBuf>,
    /// The etcd user, where it is not named by the certificate.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_USER", requires = "etcd_password_file")]
    pub etcd_user: Option<String>,
    /// A file with its password.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_PASSWORD_FILE", requires = "etcd_user")]
    pub etcd_password_file: Option<PathBuf>,
    /// Also speak to other machines without TLS. Whoever can listen then reads job keys and hashes of tokens.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_PLAINTEXT")]
    pub etcd_plaintext: bool,
    /// Longest wait for one answer of etcd.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_DEADLINE", default_value = "2s", value_parser = duration)]
    pub etcd_deadline: Duration,
    /// etcd's history that is older is compacted, for everybody in that etcd; `never`: somebody else does it.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_KEEP_HISTORY", default_value = "5m", value_parser = duration_or_never)]
    pub etcd_keep_history: Wait,
    /// What etcd was started with as --max-request-bytes; large arrays and gangs are one request.
    #[arg(long, env = "RAIL_CONTROLLER_ETCD_MAX_REQUEST_BYTES", default_value_t = 1_572_864,
          value_parser = clap::value_parser!(u32).range(65_536..=104_857_600))]
    pub etcd_max_request_bytes: u32,
}

/// Why there is no store.
#[derive(Debug, Error)]
pub enum StoreArgsError {
    /// Options that do not go together.
    #[error("--etcd-endpoints is given, but the store is the embedded one; say --store etcd")]
    EtcdWithoutEtcd,
    /// The file with the password of the store could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The keys that seal the store's values cannot be used.
    #[error(transparent)]
    Sealing(#[from] SealingError),
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Limits of the embedded store: transactions are as large as a batch of the loop, values as large as the placement of
/// the largest gang. (A store in a network of its own keeps its own, smaller limits; the loop splits by them.)
fn embedded_limits() -> Limits {
    Limits {
        value_bytes: 16 << 20,
        txn_bytes: 64 << 20,
        txn_ops: 65_536,
        total_bytes: 8 << 30,
        ..Limits::default()
    }
}

/// Options of the embedded store in a data folder.
#[must_use]
pub fn embedded(data_dir: &Path) -> EmbeddedOptions {
    let mut options = EmbeddedOptions::new(data_dir.join("store"));
    options.limits = embedded_limits();
    options
}

impl EtcdArgs {
    /// Options of the etcd store.
    ///
    /// # Errors
    /// The password file cannot be read.
    pub fn options(&self) -> Result<EtcdOptions, FileError> {
        let mut endpoints = self.etcd_endpoints.clone();
        if endpoints.is_empty() {
            endpoints.extend(LOCAL.parse::<EtcdEndpoint>());
        }
        let login = match (&self.etcd_user, &self.etcd_password_file) {
            (Some(user), Some(file)) => {
                let password = files::read_text(file)?.trim_end_matches(['\r', '\n']).to_owned();
                Some(EtcdLogin { user: user.clone(), password })
            }
            _ => None,
        };
        Ok(EtcdOptions {
            prefix: self.etcd_prefix.clone(),
            tls: EtcdTls {
                ca: self.etcd_ca.clone(),
                certificate: self.etcd_cert.clone(),
                key: self.etcd_key.clone(),
            },
            login,
            plaintext: self.etcd_plaintext,
            deadline: self.etcd_deadline,
            patience: self.etcd_deadline * 3,
            keep_history: self.etcd_keep_history.0,
            max_request_bytes: self.etcd_max_request_bytes as usize,
            ..EtcdOptions::new(endpoints)
        })
    }
}

/// A store that a controller runs on.
pub(crate) struct OpenStore {
    /// With secret values in the plain.
    pub store: Arc<dyn Store>,
    /// As it is stored: with secret values sealed. For backups.
    pub stored: Arc<dyn Store>,
    /// Keeps a second process out of the data folder, where the store does not.
    pub lock: Option<Lock>,
}

impl StoreArgs {
    /// Opens the store; secret values are sealed underneath. The lock keeps a second process out of the data folder; the
    /// embedded store has its own.
    ///
    /// # Errors
    /// [`StoreArgsError`] if the options or the store cannot be used; nothing was overwritten.
    pub(crate) async fn open(&self, data_dir: &Path, guards: &Guards) -> Result<OpenStore, StoreArgsError> {
        let (stored, lock): (Arc<dyn Store>, _) = match self.store {
            Kind::Embedded if !self.etcd.etcd_endpoints.is_empty() => {
                return Err(StoreArgsError::EtcdWithoutEtcd);
            }
            Kind::Embedded => {
                let options = embedded(data_dir);
                let opened = tokio::task::spawn_blocking(|| EmbeddedStore::open(options)).await;
                (Arc::new(opened.map_err(|_| StoreError::Closed)??), None)
            }
            Kind::Etcd => {
                let lock = lock_file(&data_dir.join("lock"))?;
                let options = self.etcd.options()?;
                let place: Vec<_> = options.endpoints.iter().map(ToString::to_string).collect();
                let store = EtcdStore::open(options).await?;
                tracing::info!(
                    members = place.join(", "),
                    prefix = self.etcd.etcd_prefix,
                    "the state is in etcd"
                );
                (Arc::new(store), Some(lock))
            }
        };
        let store = sealing::opened(Arc::clone(&stored), self.store_keys.as_ref(), data_dir, guards).await?;
        Ok(OpenStore { store, stored, lock })
    }
}
