//! Calls out to receivers that tenants choose, and to services that the site names ([`Outbound::fetch`]): one HTTP request, to an address that may be called, and as little of the answer as
//! is needed. No proxy, no redirects, no cookies, nothing of an earlier call; whoever answers slowly, at length or not at all costs one
//! bounded try.
//!
//! Which addresses may be called is asked of the address that is connected to, after the name was looked up: what a name means
//! meanwhile changes nothing.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{hmac, rand};
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::certificate;
use crate::certificate::TlsError;
use crate::listen::BoxedStream;

/// From the look-up of the name to the end of the handshake.
const CONNECT: Duration = Duration::from_secs(5);
/// The most time for a whole call.
const WHOLE: Duration = Duration::from_secs(10);
/// Bytes of an answer's body that are read at most.
const READ: usize = 1024;
/// Bytes of an answer's head, and headers in it, at most.
const HEAD: usize = 16 * 1024;
const HEADERS: usize = 64;
/// Bytes of a body that is sent at most.
pub const MAX_BODY: usize = 16 * 1024;
/// Addresses of one name that are tried at most.
const ADDRESSES: usize = 4;
/// Names that are looked up at a time. A look-up goes on after the call that wanted it has given up.
const LOOKUPS: usize = 64;
/// Where systems keep the certificates that they trust.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Says why an address may not be called: of what kind it is.
pub type Refuses = Arc<dyn Fn(IpAddr) -> Option<&'static str> + Send + Sync>;

/// Why no receiver can be trusted.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file cannot be read.
    #[error("cannot read the certificates of authorities in {}: {error}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// It holds no certificate that could be used.
    #[error("no certificate of an authority in {} can be used: {error}", .path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with its content.
        error: TlsError,
    },
    /// There is none where systems have them.
    #[error("this system has no file of trusted authorities (looked for {}); name one with --webhook-ca or --oidc-ca", BUNDLES.join(", "))]
    None,
}

/// Why a receiver has not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The body is too long.
    #[error("the message has more than {MAX_BODY} bytes; nothing was sent")]
    TooLong,
    /// Something of the request is no HTTP.
    #[error("the request cannot be made: {0}")]
    Request(String),
    /// No certificates to trust.
    #[error("no receiver can be trusted over https: {0}")]
    NoTrust(String),
    /// The name of the host cannot be resolved.
    #[error("'{host}' cannot be looked up: {error}")]
    Lookup {
        /// The host name of the receiver's URL.
        host: String,
        /// What the resolver said.
        error: String,
    },
    /// None of its addresses may be called.
    #[error(
        "'{host}' is at {address}, which is {kind}: it is not called unless an administrator allows it (--webhook-allow)"
    )]
    Refused {
        /// The host name of the receiver's URL.
        host: String,
        /// The first of the addresses that the name resolves to.
        address: IpAddr,
        /// The kind of address that it is, in words.
        kind: &'static str,
    },
    /// No connection was made, or TLS failed.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke, or what came is no HTTP.
    #[error("no answer: {0}")]
    Answer(String),
    /// The answer is longer than its reader takes, or was cut off.
    #[error("the answer is not whole, or has more than {most} bytes")]
    Cut {
        /// Bytes that are read at most.
        most: usize,
    },
    /// The receiver was too slow; the call was given up.
    #[error("no {what} within {} s", .limit.as_secs())]
    Slow {
        /// What did not come in time.
        what: &'static str,
        /// The time that it had.
        limit: Duration,
    },
}

/// Where a call goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The call goes over TLS; else over plain HTTP.
    pub tls: bool,
    /// A DNS name or an address, without brackets.
    pub host: String,
    /// TCP port of the receiver.
    pub port: u16,
    /// What the header `host` says.
    pub authority: String,
    /// Path and query of the request, beginning with `/`.
    pub path: String,
}

impl Target {
    /// The target of an absolute `https` URL without user, password and fragment; `None` for any other text.
    #[must_use]
    pub fn https(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let authority =
            uri.authority().filter(|_| uri.scheme_str() == Some("https") && !url.contains('#'))?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return None;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        let port = authority.port_u16().unwrap_or(443);
        Some(Self { tls: true, host, port, authority: authority.to_string(), path })
    }
}

/// What is asked for by [`Outbound::fetch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<'a> {
    /// GET.
    Read,
    /// POST of fields in the form `application/x-www-form-urlencoded`.
    Form(&'a str),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The HTTP status code of the answer.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
}

/// What a receiver has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The HTTP status code of the answer.
    pub status: u16,
    /// What it says in `retry-after`, in seconds; a date is not taken.
    pub retry_after: Option<Duration>,
}

/// Makes calls; clones share it.
#[derive(Clone)]
pub struct Outbound {
    tls: Result<TlsConnector, Arc<str>>,
    refuses: Refuses,
    lookups: Arc<Semaphore>,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outbound")
    }
}

impl Outbound {
    /// With the authorities of a file, or of the system where none is named. Where the system has none it calls nobody over TLS, and
    /// says why.
    ///
    /// # Errors
    /// The named file cannot be used.
    pub fn new(bundle: Option<&Path>, refuses: Refuses) -> Result<Self, BundleError> {
        let tls = match (trusted(bundle), bundle) {
            (Ok(config), _) => Ok(TlsConnector::from(config)),
            (Err(error), Some(_)) => return Err(error),
            (Err(error), None) => {
                tracing::warn!(%error, "webhooks cannot be sent over https");
                Err(error.to_string().into())
            }
        };
        Ok(Self { tls, refuses, lookups: Arc::new(Semaphore::new(LOOKUPS)) })
    }

    /// Why a host that is written as an address is not called. A name is looked up when it is called, and then asked of.
    ///
    /// # Errors
    /// [`PostError::Refused`] if the host is an address that may not be called.
    pub fn check(&self, host: &str) -> Result<(), PostError> {
        let Ok(address) = host.parse::<IpAddr>() else { return Ok(()) };
        match (self.refuses)(address) {
            Some(kind) => Err(PostError::Refused { host: host.to_owned(), address, kind }),
            None => Ok(()),
        }
    }

    /// Posts a body of JSON.
    ///
    /// # Errors
    /// [`PostError`]: there is no answer. Any status is an answer.
    pub async fn post(
        &self,
        target: &Target,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<Answered, PostError> {
        if body.len() > MAX_BODY {
            return Err(PostError::TooLong);
        }
        let request = request(target, Method::POST, Some("application/json"), headers, body)?;
        let (answered, _, _) = self.exchange(target, request, READ).await?;
        Ok(answered)
    }

    /// Asks a service for one document, and reads all of it; redirects are not followed.
    ///
    /// # Errors
    /// [`PostError`]: there is no answer, or it has more than `most` bytes. Any status is an answer.
    pub async fn fetch(
        &self,
        target: &Target,
        asked: Asked<'_>,
        headers: &[(&'static str, String)],
        most: usize,
    ) -> Result<Fetched, PostError> {
        let (method, kind, body) = match asked {
            Asked::Read => (Method::GET, None, Vec::new()),
            Asked::Form(fields) => {
                (Method::POST, Some("application/x-www-form-urlencoded"), fields.as_bytes().to_vec())
            }
        };
        if body.len() > MAX_BODY {
            return Err(PostError::TooLong);
        }
        let mut request = request(target, method, kind, headers, body)?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let (answered, body, whole) = self.exchange(target, request, most).await?;
        if !whole {
            return Err(PostError::Cut { most });
        }
        Ok(Fetched { status: answered.status, body })
    }

    /// One request and its answer: the body as far as it was read, and whether that is all of it.
    async fn exchange(
        &self,
        target: &Target,
        request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<(Answered, Vec<u8>, bool), PostError> {
        let call = self.call(target, request, most);
        let slow = Err(PostError::Slow { what: "answer", limit: WHOLE });
        timeout(WHOLE, call).await.unwrap_or(slow)
    }

    async fn call(
        &self,
        target: &Target,
        request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<(Answered, Vec<u8>, bool), PostError> {
        let slow = Err(PostError::Slow { what: "connection", limit: CONNECT });
        let stream = timeout(CONNECT, self.connect(target)).await.unwrap_or(slow)?;
        let lost = |error: hyper::Error| PostError::Answer(error.to_string());
        let mut http = hyper::client::conn::http1::Builder::new();
        http.max_buf_size(HEAD).max_headers(HEADERS);
        let (mut sender, connection) = http.handshake(TokioIo::new(stream)).await.map_err(lost)?;
        let asked = async {
            let mut answer = sender.send_request(request).await.map_err(lost)?;
            let seconds = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
            let retry_after = seconds.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
            let answered = Answered { status: answer.status().as_u16(), retry_after };
            // A receiver that has written its answer may want to see it read. More than this is its own affair.
            let mut body = Vec::new();
            loop {
                match answer.body_mut().frame().await {
                    Some(Ok(frame)) => body.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                    other => return Ok((answered, body, other.is_none())),
                }
                if body.len() > most {
                    return Ok((answered, body, false));
                }
            }
        };
        tokio::select! {
            answered = asked => answered,
            // It ends only when nobody asks any more, or by an error that the question hears of too.
            () = async { let _ = connection.await; std::future::pending().await } => {
                Err(PostError::Answer("the connection has ended".to_owned()))
            }
        }
    }

    async fn connect(&self, target: &Target) -> Result<BoxedStream, PostError> {
        let addresses = self.addresses(target).await?;
        let mut failed = String::from("no address");
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return self.protected(target, stream).await,
                Err(error) => failed = format!("{address}: {error}"),
            }
        }
        Err(PostError::Connect(failed))
    }

    /// The addresses of the target that may be called.
    async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, PostError> {
        let host = target.host.clone();
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, target.port)],
            Err(_) => self.lookup(host.clone(), target.port).await?,
        };
        let refused = |address: &SocketAddr| (self.refuses)(address.ip());
        let first = found.iter().find_map(|address| Some((address.ip(), refused(address)?)));
        let allowed: Vec<SocketAddr> =
            found.into_iter().filter(|address| refused(address).is_none()).take(ADDRESSES).collect();
        match first.filter(|_| allowed.is_empty()) {
            Some((address, kind)) => Err(PostError::Refused { host, address, kind }),
            None => Ok(allowed),
        }
    }

    async fn lookup(&self, host: String, port: u16) -> Result<Vec<SocketAddr>, PostError> {
        let failed = |error: String| PostError::Lookup { host: host.clone(), error };
        let place =
            Arc::clone(&self.lookups).acquire_owned().await.map_err(|error| failed(error.to_string()))?;
        let name = host.clone();
        let asked = tokio::spawn(async move {
            let found = tokio::net::lookup_host((name.as_str(), port)).await.map(Iterator::collect);
            drop(place);
            found
        });
        match asked.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    async fn protected(&self, target: &Target, stream: TcpStream) -> Result<BoxedStream, PostError> {
        // Failing to say so costs only time.
        let _ = stream.set_nodelay(true);
        if !target.tls {
            return Ok(Box::new(stream));
        }
        let tls = self.tls.as_ref().map_err(|cause| PostError::NoTrust(cause.to_string()))?;
        let name = ServerName::try_from(target.host.clone());
        let name = name.map_err(|error| PostError::Connect(format!("TLS: {error}")))?;
        let stream = tls.connect(name, stream).await;
        Ok(Box::new(stream.map_err(|error| PostError::Connect(format!("TLS: {error}")))?))
    }
}

fn request(
    target: &Target,
    method: Method,
    kind: Option<&'static str>,
    headers: &[(&'static str, String)],
    body: Vec<u8>,
) -> Result<Request<Full<Bytes>>, PostError> {
    let mut request = Request::builder()
        .method(method)
        .uri(&target.path)
        .header(header::HOST, &target.authority)
        .header(header::USER_AGENT, concat!("railyard/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| PostError::Request(error.to_string()))?;
    if let Some(kind) = kind {
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).map_err(|error| PostError::Request(error.to_string()))?;
        request.headers_mut().insert(HeaderName::from_static(name), value);
    }
    Ok(request)
}

fn trusted(bundle: Option<&Path>) -> Result<Arc<ClientConfig>, BundleError> {
    let found = BUNDLES.iter().map(Path::new).find(|path| path.exists());
    let path = bundle.or(found).ok_or(BundleError::None)?;
    let pem = std::fs::read_to_string(path);
    let pem = pem.map_err(|error| BundleError::Read { path: path.to_owned(), error })?;
    let unusable = |error| BundleError::Empty { path: path.to_owned(), error };
    let mut roots = rustls::RootCertStore::empty();
    // One among hundreds that cannot be used does not keep the others from it.
    let (usable, _) = roots.add_parsable_certificates(certificate::chain(&pem).map_err(unusable)?);
    if usable == 0 {
        return Err(unusable(TlsError::NoCertificate));
    }
    let mut config = ClientConfig::builder_with_provider(certificate::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| unusable(TlsError::Config(error.to_string())))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// HMAC-SHA256 of the message under the secret, 32 bytes.
#[must_use]
pub fn sign(secret: &[u8], message: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref());
    out
}

/// A number that nobody foresees; 0 where the system gives none.
#[must_use]
pub fn seed() -> u64 {
    let mut bytes = [0; 8];
    rand::fill(&mut bytes).map_or(0, |()| u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls;
    use std::time::SystemTime;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    fn outbound(bundle: Option<&Path>) -> Outbound {
        Outbound::new(bundle, Arc::new(|_| None)).unwrap()
    }

    fn target(port: u16, tls: bool) -> Target {
        let (host, path) = ("127.0.0.1".to_owned(), "/hook".to_owned());
        Target { tls, host, port, authority: format!("127.0.0.1:{port}"), path }
    }

    /// A receiver that reads the head of one request, answers these bytes, and stays until the other side goes.
    async fn answering(answer: Vec<u8>) -> (u16, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            let mut chunk = [0; 1024];
            while !seen.windows(2).any(|pair| pair == b"{}") {
                let read = stream.read(&mut chunk).await.unwrap();
                seen.extend_from_slice(&chunk[..read]);
            }
            // Who does not read on ends the connection.
            let _ = stream.write_all(&answer).await;
            let _ = stream.read(&mut chunk).await;
            String::from_utf8(seen).unwrap()
        });
        (port, task)
    }

    async fn post(answer: &str) -> (Result<Answered, PostError>, String) {
        let (port, task) = answering(answer.as_bytes().to_vec()).await;
        let headers = [("webhook-id", "m1".to_owned())];
        let answered = outbound(None).post(&target(port, false), &headers, b"{}".to_vec()).await;
        (answered, task.await.unwrap())
    }

    #[tokio::test]
    async fn a_request_has_its_headers_and_any_status_is_an_answer() {
        let (answered, seen) = post("HTTP/1.1 204 No Content\r\n\r\n").await;
        assert_eq!(answered, Ok(Answered { status: 204, retry_after: None }));
        assert!(seen.starts_with("POST /hook HTTP/1.1\r\n") && seen.contains("webhook-id: m1\r\n"), "{seen}");
        let (answered, _) = post("HTTP/1.1 503 x\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(answered, Ok(Answered { status: 503, retry_after: Some(Duration::from_secs(7)) }));
        let (answered, _) = post("nonsense\r\n\r\n").await;
        assert!(matches!(answered, Err(PostError::Answer(_))), "{answered:?}");
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_and_is_not_followed() {
        let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = elsewhere.local_addr().unwrap().port();
        let answer =
            format!("HTTP/1.1 307 x\r\nlocation: http://127.0.0.1:{port}/\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(post(&answer).await.0.unwrap().status, 307);
        let called = timeout(Duration::from_millis(1), elsewhere.accept()).await;
        assert!(called.is_err(), "nobody came");
    }

    #[tokio::test]
    async fn no_more_of_an_answer_is_read_than_is_needed() {
        let answer = format!("HTTP/1.1 200 x\r\ncontent-length: 100000000\r\n\r\n{}", "x".repeat(2 << 20));
        assert_eq!(post(&answer).await.0.unwrap().status, 200);
        let head = format!("HTTP/1.1 200 x\r\nx: {}\r\n\r\n", "x".repeat(64 << 10));
        assert!(matches!(post(&head).await.0, Err(PostError::Answer(_))));
    }

    #[tokio::test]
    async fn a_document_is_read_whole_or_not_at_all() {
        for (answer, whole) in [
            ("HTTP/1.1 200 x\r\ncontent-length: 5\r\n\r\nhello", true),
            ("HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\nmore than", false),
            ("HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n", true),
        ] {
            let (port, task) = answering(answer.as_bytes().to_vec()).await;
            let form = Asked::Form("a=b&c={}");
            let fetched = outbound(None).fetch(&target(port, false), form, &[], 8).await;
            assert_eq!(fetched.is_ok(), whole, "{fetched:?}");
            assert!(whole || fetched == Err(PostError::Cut { most: 8 }));
            let seen = task.await.unwrap();
            assert!(seen.contains("x-www-form-urlencoded") && seen.ends_with("a=b&c={}"), "{seen}");
        }
    }

    #[test]
    fn only_an_absolute_https_url_without_a_user_is_a_target() {
        let target = Target::https("https://[::1]:8443/a/b?c=d").unwrap();
        assert_eq!((&*target.host, target.port, &*target.path), ("::1", 8443, "/a/b?c=d"));
        let target = Target::https("https://idp.example").unwrap();
        assert_eq!((&*target.host, target.port, &*target.path), ("idp.example", 443, "/"));
        for bad in
            ["", "/a", "http://a/", "https://u:p@a/", "https://a/#b", "https://", "ftp://a/", "https://a b/"]
        {
            assert_eq!(Target::https(bad), None, "{bad}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_that_says_nothing_is_left_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let slow = outbound(None).post(&target(port, false), &[], b"{}".to_vec()).await;
        assert!(matches!(slow, Err(PostError::Slow { .. })), "{slow:?}");
        let slow = outbound(None).post(&target(port, true), &[], b"{}".to_vec()).await;
        assert!(matches!(slow, Err(PostError::Slow { .. } | PostError::NoTrust(_))), "{slow:?}");
    }

    #[tokio::test]
    async fn what_may_not_be_called_is_refused_by_its_address() {
        let refuses: Refuses = Arc::new(|address| address.is_loopback().then_some("loopback"));
        let outbound = Outbound::new(None, refuses).unwrap();
        for host in ["127.0.0.1", "localhost", "::1"] {
            let target = Target { host: host.to_owned(), ..target(9, false) };
            let refused = outbound.post(&target, &[], Vec::new()).await;
            assert!(matches!(refused, Err(PostError::Refused { kind: "loopback", .. })), "{refused:?}");
        }
        let long = outbound.post(&target(9, false), &[], vec![0; MAX_BODY + 1]).await;
        assert_eq!(long, Err(PostError::TooLong));
    }

    #[tokio::test]
    async fn over_tls_only_an_authority_of_the_bundle_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let year = Duration::from_secs(365 * 24 * 3600);
        let (ca, other) = (
            crate::Ca::create("t", SystemTime::now(), year).unwrap(),
            crate::Ca::create("u", SystemTime::now(), year).unwrap(),
        );
        for (trusts, fine) in [(&ca, true), (&other, false)] {
            let bundle = folder.path().join("bundle.pem");
            std::fs::write(&bundle, trusts.certificate_pem()).unwrap();
            let (port, server) = tls_server(&ca).await;
            let answered = outbound(Some(&bundle)).post(&target(port, true), &[], b"{}".to_vec()).await;
            assert_eq!(answered.is_ok(), fine, "{answered:?}");
            assert!(fine || answered.unwrap_err().to_string().contains("TLS"));
            server.abort();
        }
        assert!(matches!(
            Outbound::new(Some(Path::new("/nowhere")), Arc::new(|_| None)),
            Err(BundleError::Read { .. })
        ));
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        assert!(matches!(Outbound::new(Some(&empty), Arc::new(|_| None)), Err(BundleError::Empty { .. })));
    }

    async fn tls_server(ca: &crate::Ca) -> (u16, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let leaf =
            ca.issue_server(&["127.0.0.1".into()], Duration::from_secs(3600), SystemTime::now()).unwrap();
        let slot = crate::CertificateSlot::new(&leaf.issued.chain_pem, &leaf.key_pem).unwrap();
        let trust = crate::TrustSlot::new(ca.certificate_pem()).unwrap();
        let config = tls::server_config(&trust, "t", &slot, &crate::Revocations::default()).unwrap();
        let task = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = tokio_rustls::TlsAcceptor::from(config).accept(stream).await else { return };
            let mut chunk = [0; 4096];
            let _ = stream.read(&mut chunk).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            let _ = stream.read(&mut chunk).await;
        });
        (port, task)
    }

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // RFC 4231, test case 2.
        let signed = sign(b"Jefe", b"what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(crate::hex::to_hex(&signed), expected);
    }
}
