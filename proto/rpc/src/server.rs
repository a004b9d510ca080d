//! Our own acceptor: TCP and unix sockets, TLS on both, limits on everything, and an end with a deadline.
//!
//! A connection is nobody's until its peer has shaken hands and said something whole, all within one deadline; then it
//! belongs to an identity, or to nobody (`places`). What anonymous peers may use is bounded apart (`anonymous`).
//!
//! An error of one connection never ends the loop; what is refused is counted by cause.

pub use crate::anonymous::Unproved;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::anonymous::Budget;
use crate::builders::{Builders, builders};
use crate::certificate::{PeerCertificate, TlsError, peer_identity};
use crate::identity::Identity;
use crate::listen::{BoxedStream, Listen, ListenError, Listener, PeerAddress};
use crate::opening::{Opened, Protocol, Rationed};
use crate::places::{ConnectionSlot, Open};
use crate::revocation::Revocations;
use crate::tls::{CertificateSlot, server_config};
use crate::trust::TrustSlot;
use crate::verify::{SHOWN, Shown};
use crate::{anonymous, opening};

pub use crate::caps::{AnonymousLimits, Limits, ServerMetrics};

/// How long the loop rests after the system had no room for a connection (file descriptors, memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often it is looked whether an anonymous connection has had its time.
const WATCH: Duration = Duration::from_secs(1);
/// How long, and for how many bytes, a refused peer is listened to so that it can read why.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES: u64 = 64 * 1024;
/// How long the calls of a peer whose certificate is not good any more may take to tell it so; then it is cut.
const PARTING: Duration = Duration::from_millis(500);

/// Who sent a request; in its extensions. For gRPC: `request.extensions().get::<PeerInfo>()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// From the client certificate; [`Identity::Anonymous`] where there is none.
    pub identity: Identity,
    /// The address that the peer connects from.
    pub address: PeerAddress,
    /// The certificate that proved it.
    pub certificate: Option<PeerCertificate>,
}

/// A peer whose certificate was refused at the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPeer {
    /// The address that the peer connects from.
    pub address: PeerAddress,
    /// The stable word for programs: `CERTIFICATE_REVOKED`, `CERTIFICATE_EXPIRED`, `FOREIGN_IDENTITY` or `UNKNOWN_AUTHORITY`.
    pub reason: &'static str,
    /// Serial number (hex) and identity (URI) of the certificate, where the cluster's authority has issued it. Whoever showed it
    /// has not proved to hold its key.
    pub shown: Option<(String, String)>,
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A socket could not be made.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket's own address could not be read.
    #[error("cannot read the address of a socket: {0}")]
    Address(io::Error),
}

/// What a server shows and whom it believes.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// The CAs of clients' certificates; what only one vouches for that is trusted no more ends.
    pub trust: TrustSlot,
    /// The cluster that their identities must be of.
    pub cluster: String,
    /// The server's own certificate; swap it to rotate.
    pub slot: CertificateSlot,
    /// Clients that are refused although their certificates have not ended; their connections end too.
    pub revocations: Revocations,
}

/// Bound sockets, ready to serve.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<Listener>,
    acceptor: Option<Arc<Acceptor>>,
    limits: Limits,
    metrics: ServerMetrics,
    refused: Option<mpsc::Sender<RefusedPeer>>,
}

struct Acceptor {
    tls: Arc<rustls::ServerConfig>,
    cluster: String,
    revocations: Revocations,
    trust: TrustSlot,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

impl Server {
    /// Binds all addresses for TLS.
    ///
    /// # Errors
    /// [`ServerError`] if the TLS configuration cannot be made, or an address cannot be listened on.
    pub async fn bind(
        listens: &[Listen],
        tls: &ServerTls,
        limits: Limits,
        metrics: ServerMetrics,
    ) -> Result<Self, ServerError> {
        let config = server_config(&tls.trust, &tls.cluster, &tls.slot, &tls.revocations)?;
        let acceptor = Acceptor {
            tls: config,
            cluster: tls.cluster.clone(),
            revocations: tls.revocations.clone(),
            trust: tls.trust.clone(),
        };
        let mut listeners = Vec::with_capacity(listens.len());
        for listen in listens {
            listeners.push(Listener::bind(listen).await?);
        }
        Ok(Server { listeners, acceptor: Some(Arc::new(acceptor)), limits, metrics, refused: None })
    }

    /// Binds a loopback address for unencrypted HTTP: `/metrics` and `/healthz`, nothing that matters.
    ///
    /// # Errors
    /// [`ServerError`] if the address is not a loopback address, or cannot be listened on.
    pub async fn bind_plain(
        address: SocketAddr,
        limits: Limits,
        metrics: ServerMetrics,
    ) -> Result<Self, ServerError> {
        if !address.ip().is_loopback() {
            return Err(ListenError::NotLoopback { address }.into());
        }
        let listeners = vec![Listener::bind(&Listen::Tcp(address)).await?];
        Ok(Server { listeners, acceptor: None, limits, metrics, refused: None })
    }

    /// Tells of peers whose certificates are refused. What does not fit into the channel is counted only: a handshake waits for
    /// nobody.
    #[must_use]
    pub fn reporting(mut self, refused: mpsc::Sender<RefusedPeer>) -> Self {
        self.refused = Some(refused);
        self
    }

    /// The addresses in use, with the ports that the system chose, in the order of `bind`.
    ///
    /// # Errors
    /// [`ServerError::Address`] if the system does not tell the address of a socket.
    pub fn addresses(&self) -> Result<Vec<Listen>, ServerError> {
        self.listeners.iter().map(|listener| listener.address().map_err(ServerError::Address)).collect()
    }

    /// Serves until `stop` is cancelled, then lets calls end for `limits.drain`, then cuts what is left. Returns
    /// the number of connections that were cut.
    pub async fn serve(self, router: Router, stop: CancellationToken) -> usize {
        let shared = Arc::new(Shared {
            router,
            acceptor: self.acceptor,
            http: builders(&self.limits),
            open: Open::new(self.limits, self.metrics.clone()),
            budget: Budget::new(self.limits.anonymous, self.metrics.clone()),
            limits: self.limits,
            metrics: self.metrics,
            refused: self.refused,
            stop,
            cut: CancellationToken::new(),
            connections: TaskTracker::new(),
        });
        let loops = TaskTracker::new();
        for listener in self.listeners {
            loops.spawn(accept_loop(listener, Arc::clone(&shared)));
        }
        loops.close();
        loops.wait().await;
        shared.connections.close();
        let drained = tokio::time::timeout(shared.limits.drain, shared.connections.wait()).await;
        let left = if drained.is_ok() { 0 } else { shared.connections.len() };
        shared.cut.cancel();
        shared.connections.wait().await;
        left
    }
}

struct Shared {
    router: Router,
    acceptor: Option<Arc<Acceptor>>,
    http: Builders,
    limits: Limits,
    metrics: ServerMetrics,
    open: Arc<Open>,
    budget: Arc<Budget>,
    refused: Option<mpsc::Sender<RefusedPeer>>,
    /// No new connections, and no new calls on old ones.
    stop: CancellationToken,
    /// Cancelled when old connections have to end.
    cut: CancellationToken,
    connections: TaskTracker,
}

async fn accept_loop(listener: Listener, shared: Arc<Shared>) {
    let name = if shared.acceptor.is_some() { listener.transport() } else { "plain" };
    let plain = shared.acceptor.is_none();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.stop.cancelled() => break,
            accepted = async {
                shared.open.room().await;
                listener.accept().await
            } => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                shared.metrics.accepted.inc([name]);
                match shared.open.arrive(&address, name, plain) {
                    Ok(place) => {
                        let connection = connection(Arc::clone(&shared), stream, address, place);
                        shared.connections.spawn(connection);
                    }
                    Err(cause) => {
                        shared.metrics.refused.inc([cause]);
                        tracing::debug!(%address, cause, "connection refused: too many");
                    }
                }
            }
            Err(error) => {
                shared.metrics.refused.inc(["accept"]);
                if !of_one_connection(&error) {
                    tracing::warn!(%error, listener = name, "cannot accept connections; trying again");
                    tokio::select! {
                        () = shared.stop.cancelled() => break,
                        () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                    }
                }
            }
        }
    }
    if let Listener::Unix(_, path) = &listener {
        // The next process that listens removes it too; leaving it is only untidy.
        let _ = std::fs::remove_file(path);
    }
}

/// The peer went away between its SYN and our accept; the next accept is as good as ever.
fn of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

async fn connection(shared: Arc<Shared>, stream: BoxedStream, address: PeerAddress, place: ConnectionSlot) {
    let served = async {
        match &shared.acceptor {
            Some(acceptor) => encrypted(&shared, acceptor, stream, address, &place).await,
            None => {
                let peer = PeerInfo { identity: Identity::Anonymous, address, certificate: None };
                let never = std::future::pending();
                http(&shared, &shared.http.http1, TokioIo::new(stream), peer, None, never).await;
                Ok(())
            }
        }
    };
    let outcome = tokio::select! {
        outcome = served => outcome,
        () = shared.cut.cancelled() => Ok(()),
        // Nothing more is said: whoever needs the place needs it now.
        () = place.cut.cancelled() => Ok(()),
    };
    if let Err(refusal) = outcome {
        shared.metrics.refused.inc([refusal.cause()]);
        tracing::debug!(%address, %refusal, "connection refused");
    }
    drop(place);
}

/// Why a connection ended before its first call.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("no TLS handshake in time")]
    HandshakeTimeout,
    #[error("TLS handshake: {0}")]
    Handshake(io::Error),
    #[error("certificate: {0}")]
    Certificate(TlsError),
    #[error("nothing whole was sent after the handshake")]
    Silent,
    #[error("what was sent after the handshake begins no connection: {0}")]
    Opening(io::Error),
    #[error("no room: {0}")]
    Full(&'static str),
    #[error("the server is stopping")]
    Stopping,
}

impl Refusal {
    fn cause(&self) -> &'static str {
        match self {
            Refusal::HandshakeTimeout => "handshake-timeout",
            Refusal::Handshake(_) | Refusal::Certificate(_) => "handshake",
            Refusal::Silent => "silent",
            Refusal::Opening(_) => "opening",
            Refusal::Full(cause) => cause,
            Refusal::Stopping => "stopping",
        }
    }
}

type Encrypted = TlsStream<Rationed<BoxedStream>>;

/// Shakes hands; a peer whose certificate is refused is reported.
async fn shake(
    shared: &Shared,
    acceptor: &Acceptor,
    stream: BoxedStream,
    address: PeerAddress,
    place: &ConnectionSlot,
) -> Result<Encrypted, Refusal> {
    let stream = Rationed::new(stream, shared.limits.handshake_bytes);
    let mut hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream);
    let begun = match (&mut hello).await {
        Ok(begun) => begun,
        Err(error) => {
            if let Some(stream) = hello.take_io() {
                linger(stream).await;
            }
            return Err(Refusal::Handshake(error));
        }
    };
    place.hello_received();
    let accept = SHOWN.scope(RefCell::new(None), async {
        let accepted = begun.into_stream(Arc::clone(&acceptor.tls)).into_fallible().await;
        (accepted, SHOWN.with(RefCell::take))
    });
    let (accepted, shown) = accept.await;
    match accepted {
        Ok(stream) => Ok(stream),
        Err((error, stream)) => {
            if let Some(shown) = shown {
                report(shared, address, shown);
            }
            linger(stream).await;
            Err(Refusal::Handshake(error))
        }
    }
}

fn report(shared: &Shared, address: PeerAddress, shown: Shown) {
    let Some(refused) = &shared.refused else { return };
    let Shown { reason, ours: shown } = shown;
    if refused.try_send(RefusedPeer { address, reason, shown }).is_err() {
        shared.metrics.refused.inc(["untold"]);
    }
}

fn known(stream: &Encrypted, cluster: &str) -> Result<(Identity, Option<PeerCertificate>), Refusal> {
    Ok(match stream.get_ref().1.peer_certificates().and_then(<[_]>::first) {
        None => (Identity::Anonymous, None),
        Some(der) => (
            peer_identity(der, cluster).map_err(Refusal::Certificate)?,
            Some(PeerCertificate::read(der).map_err(Refusal::Certificate)?),
        ),
    })
}

async fn encrypted(
    shared: &Shared,
    acceptor: &Acceptor,
    stream: BoxedStream,
    address: PeerAddress,
    place: &ConnectionSlot,
) -> Result<(), Refusal> {
    // One deadline for all of it: a peer that has the server wait between two steps gains nothing.
    let deadline = tokio::time::Instant::now() + shared.limits.handshake;
    let mut stream = tokio::select! {
        shaken = tokio::time::timeout_at(deadline, shake(shared, acceptor, stream, address, place)) => {
            shaken.map_err(|_| Refusal::HandshakeTimeout)??
        }
        () = shared.stop.cancelled() => return Err(Refusal::Stopping),
    };
    let (identity, certificate) = known(&stream, &acceptor.cluster)?;
    let protocol = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Protocol::Http2,
        _ => Protocol::Http1,
    };
    let most = usize::try_from(shared.limits.header_bytes).unwrap_or(usize::MAX);
    stream.get_mut().0.ration(Some(most.saturating_mul(2)));
    let first = tokio::select! {
        first = tokio::time::timeout_at(deadline, opening::read(&mut stream, protocol, most)) => first,
        () = shared.stop.cancelled() => return Err(Refusal::Stopping),
    };
    let first = match first {
        Ok(Ok(first)) => first,
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => return Err(Refusal::Opening(error)),
        Ok(Err(_)) | Err(_) => return Err(Refusal::Silent),
    };
    stream.get_mut().0.ration(None);
    place.settle(&identity).map_err(Refusal::Full)?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
    if let (Some(der), Some(certificate)) = (chain.first(), &certificate) {
        acceptor.trust.seen(der, &identity, certificate.not_after);
    }
    let builder = match (protocol, &identity) {
        (Protocol::Http2, Identity::Controller) => &shared.http.controllers,
        (Protocol::Http2, Identity::Anonymous) => &shared.http.anonymous,
        (Protocol::Http2, _) => &shared.http.http2,
        (Protocol::Http1, Identity::Anonymous) => &shared.http.anonymous1,
        (Protocol::Http1, _) => &shared.http.http1,
    };
    let peer = PeerInfo { identity, address, certificate };
    let io = TokioIo::new(Opened::new(first, stream));
    if peer.identity == Identity::Anonymous {
        let over = anonymous::over(place.standing(), WATCH);
        http(shared, builder, io, peer, Some(place), over).await;
    } else {
        let over = over(acceptor.revocations.clone(), acceptor.trust.clone(), chain, peer.clone());
        http(shared, builder, io, peer, None, over).await;
    }
    Ok(())
}

/// Closing with unread bytes would reset the connection, and the peer would not see the alert that says why it
/// was refused. So our side ends first, and what the peer still sends is read and dropped, for a short while.
async fn linger(mut stream: Rationed<BoxedStream>) {
    stream.ration(None);
    let end = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut (&mut stream).take(LINGER_BYTES), &mut tokio::io::sink()).await
    };
    // The connection is over in any case.
    let _ = tokio::time::timeout(LINGER, end).await;
}

/// Returns when the peer's certificate is revoked or ends, or its authority is trusted no more, and says which; a peer without
/// one may stay.
async fn over(
    revocations: Revocations,
    trust: TrustSlot,
    chain: Vec<CertificateDer<'static>>,
    peer: PeerInfo,
) -> &'static str {
    let Some(certificate) = peer.certificate else { return std::future::pending().await };
    let left = certificate.not_after.duration_since(SystemTime::now()).unwrap_or_default();
    tokio::select! {
        () = revocations.until(|now| now.refuses(&peer.identity, &certificate)) => "revoked",
        () = tokio::time::sleep(left) => "expired",
        () = trust.until_refused(&chain) => "authority-retired",
    }
}

async fn http<I>(
    shared: &Shared,
    builder: &auto::Builder<TokioExecutor>,
    io: I,
    peer: PeerInfo,
    anonymous: Option<&ConnectionSlot>,
    over: impl Future<Output = &'static str>,
) where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let router = shared.router.clone();
    let address = peer.address;
    let anonymous = anonymous.map(|place| (Arc::clone(&shared.budget), place.standing(), address.cap_key()));
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let (mut router, anonymous) = (router.clone(), anonymous.clone());
        async move {
            match anonymous {
                // An axum router is always ready.
                None => router.call(request).await,
                Some((budget, standing, key)) => {
                    Ok(anonymous::answer(budget, standing, key, router, request.map(Body::new)).await)
                }
            }
        }
    });
    let connection = builder.serve_connection(io, service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = shared.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        cause = over => {
            shared.metrics.refused.inc([cause]);
            tracing::debug!(%address, cause, "connection ended: its certificate is not good any more, or it had its time");
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(PARTING, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = result {
        // Mostly peers that went away; the calls themselves are logged where they are handled.
        tracing::debug!(%address, %error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use std::sync::atomic::AtomicU32;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn running_out_of_descriptors_does_not_end_the_loop() {
        let metrics = ServerMetrics::new(&Metrics::new("test", "0", SystemTime::UNIX_EPOCH));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server {
            listeners: vec![Listener::Exhausted(listener, AtomicU32::new(3))],
            acceptor: None,
            limits: Limits::default(),
            metrics: metrics.clone(),
            refused: None,
        };
        let router = Router::new().route("/", axum::routing::get(|| async { "here" }));
        let stop = CancellationToken::new();
        let task = tokio::spawn(server.serve(router, stop.clone()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with("here"), "{text}");
        assert_eq!(metrics.refused("accept"), 3);
        stop.cancel();
        assert_eq!(task.await.unwrap(), 0);
    }
}
