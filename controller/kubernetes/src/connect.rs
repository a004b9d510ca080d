//! The way to the API server: `kube` over proto-rpc's connections, so that there is one TLS in all programs.

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
};

use proto_rpc::{
    Client, ClientOptions, CredentialFiles, Credentials, Endpoint, client::ClientError,
    credentials::CredentialsError,
};
use thiserror::Error;
use tonic::{
    Status,
    body::Body,
    codegen::http::{HeaderValue, Request, Response, header},
};
use tower::Service;

/// Why there is no client of the API server.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Its authority cannot be used.
    #[error("the API server's authority: {0}")]
    Credentials(#[from] CredentialsError),
    /// The client could not be made.
    #[error("the API server: {0}")]
    Client(#[from] ClientError),
    /// There is no token.
    #[error("{} is not there: name the service account's token with --api-token", .0.display())]
    NoToken(PathBuf),
}

/// What carries calls to the API server.
#[derive(Clone)]
struct Transport {
    calls: Client,
    /// Watches live long.
    watches: Client,
    token: PathBuf,
}

/// A client of the API server at this address, whose authority is in `ca`, as the service account whose token is in `token`; that is read for each call.
///
/// # Errors
/// A file cannot be used. The API server is not called.
pub fn client(endpoint: &Endpoint, ca: &Path, token: &Path) -> Result<kube::Client, ConnectError> {
    if !token.exists() {
        return Err(ConnectError::NoToken(token.to_owned()));
    }
    let files = CredentialFiles { ca: Some(ca.to_owned()), ..CredentialFiles::default() };
    let calls = Client::of_others(endpoint, Some(&Credentials::load(&files)?), &ClientOptions::default())?;
    let transport = Transport { watches: calls.without_timeout(), calls, token: token.to_owned() };
    Ok(kube::Client::new(transport, "default"))
}

impl Service<Request<kube::client::Body>> for Transport {
    type Response = Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.calls.poll_ready(context)
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let is_watch =
            request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        // The channel that was found ready is the one that is called: both share it.
        let ready = if is_watch { self.watches.clone() } else { self.calls.clone() };
        let mut client = ready;
        let mut request = request.map(Body::new);
        let read = std::fs::read_to_string(&self.token);
        Box::pin(async move {
            let token = read
                .map_err(|error| Status::unauthenticated(format!("the service account's token: {error}")))?;
            let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
            let mut value =
                value.map_err(|_| Status::unauthenticated("the service account's token is no text"))?;
            value.set_sensitive(true);
            request.headers_mut().insert(header::AUTHORIZATION, value);
            std::future::poll_fn(|context| client.poll_ready(context)).await?;
            client.call(request).await
        })
    }
}
