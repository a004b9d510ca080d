//! A channel to a server for any generated client: our TLS, keepalive, a deadline and a trace context on every
//! call, the bearer token where there is one, and errors that say what is wrong between the peers.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{HeaderValue, Request, Response, Uri, header};
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Status, TimeoutExpired};
use tower::Service;

use crate::certificate::TlsError;
use crate::connect::{ConnectError, Connector, Dial, sockets};
use crate::credentials::Credentials;
use crate::endpoint::Endpoint;
use crate::status::{ErrorClass, RpcError};
use crate::tls::CertificateSlot;
use crate::untrusted::unavailable;
use crate::watched::LastTlsError;
use crate::{deadline, trace, untrusted};

/// How a client behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientOptions {
    /// For one address, from the first packet to the end of the TLS handshake.
    pub connect_timeout: Duration,
    /// For calls that say no time of their own; none waits for ever (streams that live long).
    pub timeout: Option<Duration>,
    /// A ping is sent after so long a silence, calls or not.
    pub keepalive_interval: Duration,
    /// The connection ends if the ping is not answered in this time.
    pub keepalive_timeout: Duration,
    /// Whether there are pings while no call is at work. Some servers (etcd) take them for an attack.
    pub keepalive_while_idle: bool,
}

impl Default for ClientOptions {
    /// 5 s to connect, 30 s for a call, a ping every 20 s, calls or not, that is answered within 10 s.
    fn default() -> Self {
        ClientOptions {
            connect_timeout: Duration::from_secs(5),
            timeout: Some(Duration::from_secs(30)),
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            keepalive_while_idle: true,
        }
    }
}

/// Why a client could not be made. Being unable to reach the server is not among it: calls return that error.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The list of addresses is empty.
    #[error("no address of the server is given")]
    NoEndpoint,
    /// The credentials cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An address that cannot stand in a request.
    #[error("`{endpoint}` cannot be used as an address: {detail}")]
    BadEndpoint {
        /// The address as it was given.
        endpoint: Endpoint,
        /// What is wrong with it.
        detail: String,
    },
}

/// What generated clients are built on: `JobServiceClient::new(client.clone())`. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    authorization: Option<HeaderValue>,
    timeout: Option<Duration>,
    last_error: LastTlsError,
    slot: Option<CertificateSlot>,
}

impl Client {
    /// A client of the server at `endpoints` (several addresses of one cluster). Connects with the first call, and
    /// again whenever the connection is lost. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`ClientError`] if there is no address, if one cannot be used in a request, or if the credentials cannot be used for TLS.
    pub fn new(
        endpoints: &[Endpoint],
        credentials: &Credentials,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        let (dial, tls) = (credentials.dial(), credentials.tls()?);
        let (channel, last_error) = ChannelSpec { endpoints, dial, tls, options }.channel()?;
        let authorization = credentials.bearer().and_then(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        let slot = credentials.slot().cloned();
        Ok(Client { channel, authorization, timeout: options.timeout, last_error, slot })
    }

    /// A client of a server that is not ours (etcd), at one address: by the credentials' CA and certificate, or without
    /// TLS where there are none. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`ClientError`] if the address cannot be used in a request, or the credentials cannot be used for TLS.
    pub fn of_others(
        endpoint: &Endpoint,
        credentials: Option<&Credentials>,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        let dial = credentials.map_or(sockets as Dial, Credentials::dial);
        let tls = credentials.map(Credentials::tls).transpose()?.flatten();
        let endpoints = std::slice::from_ref(endpoint);
        let (channel, last_error) = ChannelSpec { endpoints, dial, tls, options }.channel()?;
        let slot = credentials.and_then(Credentials::slot).cloned();
        Ok(Client { channel, authorization: None, timeout: options.timeout, last_error, slot })
    }

    /// The same connection for streams that live long: calls have no deadline unless they say one.
    #[must_use]
    pub fn without_timeout(&self) -> Self {
        Client { timeout: None, ..self.clone() }
    }

    /// The same connection with another default deadline.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Client { timeout: Some(timeout), ..self.clone() }
    }
}

/// What a channel is made of.
struct ChannelSpec<'a> {
    endpoints: &'a [Endpoint],
    dial: Dial,
    tls: Option<Arc<rustls::ClientConfig>>,
    options: &'a ClientOptions,
}

impl ChannelSpec<'_> {
    fn channel(self) -> Result<(Channel, LastTlsError), ClientError> {
        let ChannelSpec { endpoints, dial, tls, options } = self;
        let first = endpoints.first().ok_or(ClientError::NoEndpoint)?;
        let bad = |detail: String| ClientError::BadEndpoint { endpoint: first.clone(), detail };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let connector = Connector::new(endpoints, dial, tls, options.connect_timeout);
        let last_error = connector.last_error();
        let origin: Uri = format!("{scheme}://{}", first.authority())
            .parse()
            .map_err(|error: axum::http::uri::InvalidUri| bad(error.to_string()))?;
        // The connector speaks TLS itself; tonic must not try to.
        let channel = Channel::from_shared(format!("http://{}", first.authority()))
            .map_err(|error| bad(error.to_string()))?
            .origin(origin)
            .user_agent(concat!("railyard/", env!("CARGO_PKG_VERSION")))
            .map_err(|error| bad(error.to_string()))?
            .http2_keep_alive_interval(options.keepalive_interval)
            .keep_alive_timeout(options.keepalive_timeout)
            .keep_alive_while_idle(options.keepalive_while_idle)
            .connect_with_connector_lazy(connector);
        Ok((channel, last_error))
    }
}

impl Service<Request<Body>> for Client {
    type Response = Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel
            .poll_ready(context)
            .map_err(|error| explain(&error, &self.last_error, self.slot.as_ref()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let headers = request.headers_mut();
        trace::inject(headers);
        if let Some(value) = &self.authorization {
            headers.insert(header::AUTHORIZATION, value.clone());
        }
        if let Some(timeout) = self.timeout {
            deadline::set_default(headers, timeout);
        }
        let timeout = headers
            .get(deadline::GRPC_TIMEOUT)
            .and_then(|value| value.to_str().ok())
            .and_then(deadline::parse);
        let answer = self.channel.call(request);
        let (last_error, slot) = (self.last_error.clone(), self.slot.clone());
        let explain = move |error| explain(&error, &last_error, slot.as_ref());
        Box::pin(async move {
            let Some(timeout) = timeout else { return answer.await.map_err(explain) };
            match tokio::time::timeout(timeout, answer).await {
                Ok(answer) => answer.map_err(explain),
                Err(_) => Err(expired()),
            }
        })
    }
}

/// Turns a transport error into a Status that says what is wrong. A peer that is not trusted is not "unavailable":
/// trying again would not help.
fn explain(error: &tonic::transport::Error, last: &LastTlsError, ours: Option<&CertificateSlot>) -> Status {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(connect) = cause.downcast_ref::<ConnectError>() {
            return match connect.tls() {
                Some(tls) => untrusted::explain(tls, &connect.to_string(), ours),
                None => unavailable(connect.to_string()),
            };
        }
        if cause.is::<TimeoutExpired>() {
            // tonic reads the same header and may be a moment earlier; its own code for this is CANCELLED.
            return expired();
        }
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    match last.get() {
        Some(tls) => untrusted::explain(&tls, "the connection was refused", ours),
        None => RpcError::new(ErrorClass::Unavailable, "CONNECTION_LOST", text).into(),
    }
}

fn expired() -> Status {
    RpcError::new(ErrorClass::Timeout, "DEADLINE_EXCEEDED", "no answer from the server in time").into()
}
