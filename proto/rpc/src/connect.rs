//! How a client reaches a server: TCP or unix socket, then TLS; several addresses are tried in turn.

use crate::endpoint::{Endpoint, EndpointError};
use crate::listen::BoxedStream;
use axum::http::Uri;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tower::Service;

/// Why one address could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    /// The address itself is wrong.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// No connection.
    #[error("{0}")]
    Connect(io::Error),
    /// Connected, but the peers do not trust or understand each other.
    #[error("TLS: {0}")]
    Tls(io::Error),
    /// Nothing happened in time.
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

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref::<rustls::Error>()
}

/// The TLS error that ended the newest connection. In TLS 1.3 a client learns only after its own handshake that
/// the server refused its certificate, and HTTP/2 keeps no more than the text of such an error.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastTlsError(Arc<Mutex<Option<rustls::Error>>>);

impl LastTlsError {
    pub(crate) fn get(&self) -> Option<rustls::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, error: Option<rustls::Error>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

/// A connection that notes the TLS error it ends with.
pub(crate) struct Watched {
    stream: BoxedStream,
    last: LastTlsError,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &result
            && let Some(tls) = tls_error(error)
        {
            self.last.set(Some(tls.clone()));
        }
        result
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Makes connections for a channel. Remembers the address that worked last and begins there.
#[derive(Clone)]
pub(crate) struct Connector {
    endpoints: Arc<[Endpoint]>,
    tls: Option<TlsConnector>,
    timeout: Duration,
    last_good: Arc<AtomicUsize>,
    last_error: LastTlsError,
}

impl Connector {
    /// `tls` is `None` only for a server of others on this machine; ours all speak TLS.
    pub(crate) fn new(
        endpoints: &[Endpoint],
        tls: Option<Arc<rustls::ClientConfig>>,
        timeout: Duration,
    ) -> Self {
        Connector {
            endpoints: endpoints.into(),
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
            let reached = tokio::time::timeout(self.timeout, reach(endpoint, self.tls.as_ref())).await;
            match reached.unwrap_or(Err(ReachError::Timeout(self.timeout))) {
                Ok(stream) => {
                    self.last_good.store(index, Ordering::Relaxed);
                    return Ok(TokioIo::new(Watched { stream, last: self.last_error }));
                }
                Err(error) => tried.push((endpoint.clone(), error)),
            }
        }
        Err(ConnectError(tried))
    }
}

async fn reach(endpoint: &Endpoint, tls: Option<&TlsConnector>) -> Result<BoxedStream, ReachError> {
    let name = endpoint.server_name()?;
    let stream: BoxedStream = match endpoint {
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(ReachError::Connect)?;
            // Small calls must not wait for Nagle; failing to say so costs only time.
            let _ = stream.set_nodelay(true);
            Box::new(stream)
        }
        Endpoint::Unix { path } => Box::new(UnixStream::connect(path).await.map_err(ReachError::Connect)?),
    };
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
