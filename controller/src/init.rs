//! `init`: the certificate authority and the first administrator. Works once; doing it again needs this host.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use controller_keys::{AuthorityError, CaFolder, Guards};
use proto_rpc::{
    Authority, Identity, KeyRequest, Standing,
    ca::CaError,
    files::{self, FileError},
    identity::IdentityError,
    otlp,
    telemetry::{self, TelemetryError, TelemetryOptions},
};
use thiserror::Error;

use crate::{
    args::{Cluster, Init, Logs},
    key_args::CaLife,
    sealing,
};

/// Says that the first administrator was made.
const MARKER: &str = "admin.issued";

/// Why `init` did nothing.
#[derive(Debug, Error)]
pub enum InitError {
    /// A folder cannot be made.
    #[error("cannot make the folder {}: {source}", path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The first administrator was made before.
    #[error(
        "the first administrator was made already ({record}); to make another one without an administrator's certificate, remove {} on this host", path.display()
    )]
    Done {
        /// Path of the file that says that it was done.
        path: PathBuf,
        /// What that file says of it.
        record: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The authority could not be made or loaded, or did not issue the certificate.
    #[error(transparent)]
    Ca(#[from] CaError),
    /// The administrator's name is not valid.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Logs could not be started.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}

/// Makes a private folder if it is not there.
///
/// # Errors
/// [`InitError::Folder`] if the folder cannot be made.
pub fn folder(path: &Path) -> Result<(), InitError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| InitError::Folder { path: path.to_owned(), source })
}

/// Starts logs, and traces where the environment names a collector.
///
/// # Errors
/// [`TelemetryError`] if the options or the collector cannot be used, or logs were already started in this process.
pub fn telemetry(logs: &Logs) -> Result<telemetry::Telemetry, TelemetryError> {
    telemetry::init(&TelemetryOptions {
        service: "rail-controller",
        version: env!("CARGO_PKG_VERSION"),
        level: logs.log_level.clone(),
        format: logs.log_format,
        collector: otlp::from_env()?,
    })
}

/// The cluster's authority; made by the first start.
///
/// # Errors
/// It cannot be read or its key does not open, or it is of another cluster than the one that is named.
pub fn authority(cluster: &Cluster, guards: &Guards, life: CaLife) -> Result<Standing, AuthorityError> {
    let folder = CaFolder::new(&cluster.data_dir, guards.clone());
    folder.load_or_create(cluster.cluster.as_deref(), life.lifetime(), SystemTime::now())
}

/// Does it.
///
/// # Errors
/// [`InitError`]; nothing is half done: what exists is used again by the next attempt.
pub fn init(init: &Init) -> Result<(), Box<dyn std::error::Error>> {
    let _telemetry = telemetry(&init.logs)?;
    let data_dir = &init.cluster.data_dir;
    folder(data_dir)?;
    let marker = data_dir.join(MARKER);
    if marker.exists() {
        let record = files::read_text(&marker)?.trim().to_owned();
        return Err(InitError::Done { path: marker, record }.into());
    }
    let guards = init.keys.guards()?;
    let ca = Authority::new(authority(&init.cluster, &guards, init.ca_life)?)?;
    sealing::make(init.store_keys.as_ref(), data_dir, &guards)?;
    let out = init.admin_out.as_ref().unwrap_or(data_dir);
    folder(out)?;
    let identity = Identity::admin(&init.admin_user).map_err(InitError::Identity)?;
    let request = KeyRequest::generate().map_err(InitError::Ca)?;
    let lifetime = Duration::from_secs(u64::from(init.admin_days) * 86_400);
    let issued = ca.issue(&request.csr_pem, &identity, lifetime, SystemTime::now()).map_err(InitError::Ca)?;
    if out != data_dir {
        files::write_public(&out.join("ca.pem"), &ca.certificate_pem())?;
    }
    files::write_secret(&out.join("admin.key"), &request.key_pem)?;
    files::write_public(&out.join("admin.pem"), &issued.chain_pem)?;
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    files::write_public(&marker, &format!("{identity}, serial {}, unix time {seconds}\n", issued.serial))?;
    tracing::info!(%identity, serial = issued.serial, ca_pin = %ca.pin(), out = %out.display(), "first administrator made");
    Ok(())
}
