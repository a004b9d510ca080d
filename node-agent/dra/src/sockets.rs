//! The sockets that kubelet calls. Kubelet finds a plugin by its socket in a folder, so one that somebody has removed is made again: with that
//! kubelet registers the driver anew.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{net::UnixListener, sync::watch};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{service::Routes, transport::Server};

use crate::{error::DriverError, key::DRIVER};

/// How often it is looked whether a socket is still there.
const CHECKED: Duration = Duration::from_secs(1);
/// Calls at their end have so long.
const DRAIN: Duration = Duration::from_secs(5);
/// Calls at a time of one connection; kubelet has one.
const CALLS_MAX: usize = 512;

/// Kubelet's folders.
#[derive(Debug, Clone)]
pub struct KubeletFolders {
    /// Where plugins have folders of their own: `/var/lib/kubelet/plugins`.
    pub plugins: PathBuf,
    /// Where kubelet looks for sockets: `/var/lib/kubelet/plugins_registry`.
    pub registry: PathBuf,
}

impl KubeletFolders {
    /// The socket on which claims are prepared.
    #[must_use]
    pub fn plugin(&self) -> PathBuf {
        self.plugins.join(DRIVER).join("dra.sock")
    }

    /// The socket by which kubelet finds that one.
    #[must_use]
    pub fn registration(&self) -> PathBuf {
        self.registry.join(format!("{DRIVER}-reg.sock"))
    }
}

/// A socket of ours.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    inode: u64,
    listener: UnixListener,
}

impl Socket {
    /// Listens, in place of what an earlier process has left there; for the driver's user alone.
    ///
    /// # Errors
    /// [`DriverError::Listen`].
    pub fn bind(path: &Path) -> Result<Self, DriverError> {
        let bound = || -> io::Result<Self> {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            match fs::symlink_metadata(path) {
                Ok(about) if !about.file_type().is_socket() => {
                    return Err(io::Error::other("what is there is no socket, and is not touched"));
                }
                Ok(_) => fs::remove_file(path)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            let listener = UnixListener::bind(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            let inode = fs::symlink_metadata(path)?.ino();
            Ok(Self { path: path.to_owned(), inode, listener })
        };
        bound().map_err(|source| DriverError::Listen { path: path.to_owned(), source })
    }

    /// Serves for as long as the socket is there, and makes it again where it is not, until `stop` is true.
    pub async fn serve(self, routes: impl Fn() -> Routes, mut stop: watch::Receiver<bool>) {
        let path = self.path.clone();
        let mut socket = Some(self);
        let mut failures = 0_u32;
        while !*stop.borrow() {
            let bound = match socket.take() {
                Some(socket) => Ok(socket),
                None => Self::bind(&path),
            };
            match bound {
                Ok(bound) => {
                    failures = 0;
                    bound.once(routes(), stop.clone()).await;
                    if !*stop.borrow() {
                        tracing::warn!(path = %path.display(), "this socket was removed, and is made again");
                    }
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    if failures.is_power_of_two() {
                        tracing::error!(%error, failures, "trying again");
                    }
                    let _ = tokio::time::timeout(CHECKED, stop.wait_for(|stop| *stop)).await;
                }
            }
        }
    }

    /// Serves until the socket is gone or `stop` is true.
    async fn once(self, routes: Routes, stop: watch::Receiver<bool>) {
        let Self { path, inode, listener } = self;
        let over = until_over(path.clone(), inode, stop.clone());
        let mut server = Server::builder().concurrency_limit_per_connection(CALLS_MAX);
        let served =
            server.add_routes(routes).serve_with_incoming_shutdown(UnixListenerStream::new(listener), over);
        let limit = async {
            until_over(path.clone(), inode, stop).await;
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            served = served => {
                if let Err(error) = served {
                    tracing::error!(path = %path.display(), %error, "this socket is served no more");
                }
            }
            () = limit => {}
        }
        if is_there(&path, inode) {
            // Nobody finds a socket that is not served; failing that, the next start removes it.
            let _ = fs::remove_file(&path);
        }
    }
}

fn is_there(path: &Path, inode: u64) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.ino() == inode)
}

async fn until_over(path: PathBuf, inode: u64, mut stop: watch::Receiver<bool>) {
    while is_there(&path, inode) {
        if tokio::time::timeout(CHECKED, stop.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
    }
}
