//! Sockets that a server listens on: TCP addresses and unix sockets, and who is at the other end.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// Where to listen: `127.0.0.1:7443`, `[::]:7443`, or `unix:/run/railyard/controller.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address; port 0 takes any free port.
    Tcp(SocketAddr),
    /// A unix socket that the process makes; its file gets mode 0660.
    Unix(PathBuf),
}

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Neither of the two forms.
    #[error("`{text}` is not an address to listen on: expected IP:port or unix:/path")]
    Malformed {
        /// The text that was given.
        text: String,
    },
    /// The system refused to bind the address.
    #[error("cannot listen on {listen}: {source}")]
    Bind {
        /// The address that cannot be listened on.
        listen: Listen,
        /// What the system said.
        source: io::Error,
    },
    /// A process answers on the unix socket already.
    #[error("cannot listen on unix:{}: another process does", path.display())]
    InUse {
        /// Path of the socket that another process listens on.
        path: PathBuf,
    },
    /// The path is something else than a socket; it is not touched.
    #[error("cannot listen on unix:{}: the path is there and is no socket", path.display())]
    NotASocket {
        /// Path of what is there and is not a socket.
        path: PathBuf,
    },
    /// Plain HTTP is only for this machine.
    #[error("{address} is not a loopback address: unencrypted HTTP stays on this machine")]
    NotLoopback {
        /// The address that was given.
        address: SocketAddr,
    },
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || ListenError::Malformed { text: text.chars().take(256).collect() };
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Listen::Unix(path.into())),
            Some(_) => Err(malformed()),
            None => text.parse().map(Listen::Tcp).map_err(|_| malformed()),
        }
    }
}

/// Who is at the other end, as the system tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddress {
    /// A peer over TCP, with its address and port.
    Tcp(SocketAddr),
    /// A process on this machine.
    Unix {
        /// User id of the peer's process.
        uid: u32,
        /// Its process id, where the system tells.
        pid: Option<i32>,
    },
}

impl PeerAddress {
    /// What the cap per address counts: the IPv4 address or the IPv6 /64; none for unix sockets.
    pub(crate) fn cap_key(&self) -> Option<IpAddr> {
        let PeerAddress::Tcp(address) = self else { return None };
        match address.ip().to_canonical() {
            IpAddr::V4(v4) => Some(IpAddr::V4(v4)),
            IpAddr::V6(v6) if v6.is_loopback() => Some(IpAddr::V6(v6)),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                Some(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)))
            }
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Tcp(address) => write!(f, "{address}"),
            PeerAddress::Unix { uid, pid: Some(pid) } => write!(f, "unix(uid {uid}, pid {pid})"),
            PeerAddress::Unix { uid, pid: None } => write!(f, "unix(uid {uid})"),
        }
    }
}

/// Any byte stream between two processes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
/// A byte stream of any kind, for example TCP, a unix socket or TLS over either.
pub type BoxedStream = Box<dyn Stream>;

/// A bound socket that accepts connections.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
    /// Fails so many times with "too many open files" before it listens.
    #[cfg(test)]
    Exhausted(TcpListener, std::sync::atomic::AtomicU32),
}

impl Listener {
    pub(crate) async fn bind(listen: &Listen) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Bind { listen: listen.clone(), source };
        match listen {
            Listen::Tcp(address) => Ok(Listener::Tcp(TcpListener::bind(address).await.map_err(failed)?)),
            Listen::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path).map_err(failed)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(failed)?;
                Ok(Listener::Unix(listener, path.clone()))
            }
        }
    }

    /// The address in use, with the port that the system chose.
    pub(crate) fn address(&self) -> io::Result<Listen> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(Listen::Tcp),
            Listener::Unix(_, path) => Ok(Listen::Unix(path.clone())),
            #[cfg(test)]
            Listener::Exhausted(listener, _) => listener.local_addr().map(Listen::Tcp),
        }
    }

    pub(crate) fn transport(&self) -> &'static str {
        match self {
            Listener::Tcp(_) => "tcp",
            Listener::Unix(..) => "unix",
            #[cfg(test)]
            Listener::Exhausted(..) => "tcp",
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<(BoxedStream, PeerAddress)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // Small answers must not wait for Nagle; failing to say so costs only time.
                let _ = stream.set_nodelay(true);
                Ok((Box::new(stream), PeerAddress::Tcp(address)))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let peer = stream.peer_cred()?;
                Ok((Box::new(stream), PeerAddress::Unix { uid: peer.uid(), pid: peer.pid() }))
            }
            #[cfg(test)]
            Listener::Exhausted(listener, left) => {
                use std::sync::atomic::Ordering::Relaxed;
                let more = |left: u32| left.checked_sub(1);
                if left.fetch_update(Relaxed, Relaxed, more).is_ok() {
                    return Err(no_descriptors());
                }
                let (stream, address) = listener.accept().await?;
                Ok((Box::new(stream), PeerAddress::Tcp(address)))
            }
        }
    }
}

/// What accept gives when the process has no file descriptor left (EMFILE).
#[cfg(test)]
fn no_descriptors() -> io::Error {
    io::Error::from_raw_os_error(24)
}

/// A socket file outlives the process that was killed; it is removed only if nobody answers on it.
fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let failed = |source| ListenError::Bind { listen: Listen::Unix(path.to_owned()), source };
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !meta.file_type().is_socket() {
        return Err(ListenError::NotASocket { path: path.to_owned() });
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(ListenError::InUse { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stale_sockets_are_replaced_and_live_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let listen: Listen = format!("unix:{}", path.display()).parse().unwrap();
        let live = Listener::bind(&listen).await.unwrap();
        assert!(matches!(Listener::bind(&listen).await, Err(ListenError::InUse { .. })));
        drop(live);
        assert!(path.exists());
        drop(Listener::bind(&listen).await.unwrap());
        let file = folder.path().join("file");
        std::fs::write(&file, "keep").unwrap();
        assert!(matches!(
            Listener::bind(&Listen::Unix(file.clone())).await,
            Err(ListenError::NotASocket { .. })
        ));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "keep");
    }

    #[test]
    fn addresses_parse_and_caps_count_networks() {
        assert_eq!("127.0.0.1:0".parse::<Listen>().unwrap().to_string(), "127.0.0.1:0");
        for bad in ["", "localhost:1", "127.0.0.1", "unix:", "unix:here"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad:?}");
        }
        let key = |text: &str| PeerAddress::Tcp(text.parse().unwrap()).cap_key();
        assert_eq!(key("[2001:db8::1]:1"), key("[2001:db8::2:3]:9"));
        assert_ne!(key("[2001:db8::1]:1"), key("[2001:db8:0:1::1]:1"));
        assert_eq!(key("[::ffff:10.0.0.1]:1"), key("10.0.0.1:2"));
        assert_eq!(PeerAddress::Unix { uid: 0, pid: None }.cap_key(), None);
    }
}
