//! How a client reaches a server: TCP or unix socket, then TLS; several addresses are tried in turn.

use crate::endpoint::{Endpoint, EndpointError};
use crate::listen::BoxedStream;
use crate::watched::{LastTlsError, Watched, tls_error};
use axum::http::Uri;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tower::Service;

/// Opens the way to an address. Another one than the system's sockets is a simulation's; see [`Credentials::over`].
///
/// [`Credentials::over`]: crate::Credentials::over
pub type Dial = fn(Endpoint) -> Pin<Box<dyn Future<Output = io::Result<BoxedStream>> + Send>>;

/// Connects to the endpoint by the system's sockets.
pub(crate) fn sockets(endpoint: Endpoint) -> Pin<Box<dyn Future<Output = io::Result<BoxedStream>> + Send>> {
    Box::pin(async move {
        let stream: BoxedStream = match endpoint {
            Endpoint::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), port)).await?;
                // Small calls must not wait for Nagle; failing to say so costs only time.
                let _ = stream.set_nodelay(true);
                Box::new(stream)
            }
            Endpoint::Unix { path } => Box::new(UnixStream::connect(path).await?),
        };
        Ok(stream)
    })
}

/// Why one address could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    /// The address itself is wrong.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// No connection was made; the error says why.
    #[error("{0}")]
    Connect(io::Error),
    /// Connected, but the peers do not trust or understand each other.
    #[error("TLS: {0}")]
    Tls(io::Error),
    /// There was no connection within the time.
    #[error("no connection within {} ms", .0.as_millis())]
    Timeout(Duration),
}

/// None of the addresses could be reached; says what happened at each.
#[derive(Debug)]
pub struct ConnectError(pub Vec<(Endpoint, ReachError)>);

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot reach the server at ")?;
        for (index, (endpoint, error)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "; " };
            write!(f, "{comma}{endpoint}: {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConnectError {}

impl ConnectError {
    /// The rustls error of the first address that answered but was not trusted.
    pub(crate) fn tls(&self) -> Option<&rustls::Error> {
        self.0.iter().find_map(|(_, error)| match error {
            ReachError::Tls(error) => tls_error(error),
            _ => None,
        })
    }
}

/// Makes connections for a channel. Remembers the address that worked last and begins there.
#[derive(Clone)]
pub(crate) struct Connector {
    endpoints: Arc<[Endpoint]>,
    dial: Dial,
    tls: Option<TlsConnector>,
    timeout: Duration,
    last_good: Arc<AtomicUsize>,
    last_error: LastTlsError,
}

impl Connector {
    /// `tls` is `None` only for a server of others on this machine, and in a simulation; ours all speak TLS.
    pub(crate) fn new(
        endpoints: &[Endpoint],
        dial: Dial,
        tls: Option<Arc<rustls::ClientConfig>>,
        timeout: Duration,
    ) -> Self {
        Connector {
            endpoints: endpoints.into(),
            dial,
            tls: tls.map(TlsConnector::from),
            timeout,
            last_good: Arc::default(),
            last_error: LastTlsError::default(),
        }
    }

    pub(crate) fn last_error(&self) -> LastTlsError {
        self.last_error.clone()
    }

    async fn connect(self) -> Result<TokioIo<Watched>, ConnectError> {
        self.last_error.set(None);
        let count = self.endpoints.len();
        let first = self.last_good.load(Ordering::Relaxed);
        let mut tried = Vec::with_capacity(count);
        for index in (first..first + count).map(|index| index % count) {
            let endpoint = &self.endpoints[index];
            let reached =
                tokio::time::timeout(self.timeout, reach(endpoint, self.dial, self.tls.as_ref())).await;
            match reached.unwrap_or(Err(ReachError::Timeout(self.timeout))) {
                Ok(stream) => {
                    self.last_good.store(index, Ordering::Relaxed);
                    return Ok(TokioIo::new(Watched::new(stream, self.last_error)));
                }
                Err(error) => tried.push((endpoint.clone(), error)),
            }
        }
        Err(ConnectError(tried))
    }
}

async fn reach(
    endpoint: &Endpoint,
    dial: Dial,
    tls: Option<&TlsConnector>,
) -> Result<BoxedStream, ReachError> {
    let name = endpoint.server_name()?;
    let stream = dial(endpoint.clone()).await.map_err(ReachError::Connect)?;
    let Some(tls) = tls else { return Ok(stream) };
    Ok(Box::new(tls.connect(name, stream).await.map_err(ReachError::Tls)?))
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Watched>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}
