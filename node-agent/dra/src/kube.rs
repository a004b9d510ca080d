//! The API server of Kubernetes: objects read, made and replaced as JSON, no more than this driver needs.
//!
//! It is `proto-rpc`'s client, which speaks HTTP/2 over TLS 1.3 as the API server does, so that nothing is linked that the other programs do not
//! have. (The crate `kube` with its generated types would be some sixty crates and a second stack of TLS for five calls.)

use std::{future::poll_fn, io, path::PathBuf, time::Duration};

use http_body_util::{BodyExt as _, Full, Limited};
use proto_rpc::{
    Client, ClientOptions, Credentials, Endpoint, Jitter, RetryPolicy, client::ClientError, retry,
};
use serde_json::Value;
use thiserror::Error;
use tonic::{
    Status,
    body::Body,
    codegen::{
        Bytes, Service as _,
        http::{Method, Request, header},
    },
};

/// The longest answer that is read, in bytes: an object of Kubernetes has at most some 1.5 MiB.
const ANSWER_MAX: usize = 3 * 1024 * 1024;
/// Bytes of a message of the API server that are shown.
const MESSAGE_MAX: usize = 512;

/// Why an object was not read or written.
#[derive(Debug, Error)]
pub enum KubeError {
    /// Nobody answers, or whoever does cannot be trusted; asked again as often as the policy allows.
    #[error("the API server does not answer {call}: {message}")]
    Away {
        /// Method and path.
        call: String,
        /// The last failure.
        message: String,
    },
    /// It was answered, and refused.
    #[error("the API server refuses {call} with {status}: {message}{hint}")]
    Refused {
        /// Method and path.
        call: String,
        /// Status code of HTTP.
        status: u16,
        /// What the API server said.
        message: String,
        /// What may help.
        hint: &'static str,
    },
    /// What was answered cannot be.
    #[error("the API server's answer makes no sense: {0}")]
    Answer(String),
    /// The token cannot be read.
    #[error("the token of the service account, {}: {source}", path.display())]
    Token {
        /// Its file.
        path: PathBuf,
        /// What the operating system answered.
        source: io::Error,
    },
}

/// Whether an object is really written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// It is.
    Done,
    /// The API server answers as if it had been.
    Tried,
}

impl Writing {
    const fn query(self) -> &'static str {
        match self {
            Self::Done => "",
            Self::Tried => "?dryRun=All",
        }
    }
}

/// The API server.
#[derive(Debug, Clone)]
pub struct Kube {
    client: Client,
    token: PathBuf,
}

impl Kube {
    /// Connects with the first call. The token's file is read for each call, since it is replaced while the pod runs. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// [`ClientError`] if the address or the credentials cannot be used.
    pub fn new(endpoint: &Endpoint, credentials: &Credentials, token: PathBuf) -> Result<Self, ClientError> {
        let options = ClientOptions {
            timeout: Some(Duration::from_secs(5)),
            keepalive_interval: Duration::from_secs(30),
            keepalive_while_idle: false,
            ..ClientOptions::default()
        };
        Ok(Self { client: Client::of_others(endpoint, Some(credentials), &options)?, token })
    }

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn get(&self, path: &str) -> Result<Option<Value>, KubeError> {
        match self.call(Method::GET, path, None).await {
            Err(KubeError::Refused { status: 404, .. }) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Makes an object in the collection at this path, and gives it as it was stored.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn create(&self, path: &str, object: &Value, writing: Writing) -> Result<Value, KubeError> {
        self.call(Method::POST, &format!("{path}{}", writing.query()), Some(object)).await
    }

    /// Replaces an object, and gives it as it was stored.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn replace(&self, path: &str, object: &Value, writing: Writing) -> Result<Value, KubeError> {
        self.call(Method::PUT, &format!("{path}{}", writing.query()), Some(object)).await
    }

    async fn call(&self, method: Method, path: &str, object: Option<&Value>) -> Result<Value, KubeError> {
        let call = format!("{method} {}", path.split('?').next().unwrap_or_default());
        let token = self.token().await?;
        let body = object.map_or_else(Bytes::new, |object| Bytes::from(object.to_string()));
        let once = |_| self.once(&method, path, &token, body.clone());
        let answered = retry(&RetryPolicy::default(), &mut Jitter::from_os(), once).await;
        let (status, answer) = answered
            .map_err(|status| KubeError::Away { call: call.clone(), message: status.message().to_owned() })?;
        let parsed = serde_json::from_slice::<Value>(&answer);
        if (200..300).contains(&status) {
            return parsed.map_err(|error| KubeError::Answer(format!("{call}: {error}")));
        }
        // A Status of Kubernetes, or the page of something before it.
        let message = parsed.ok().and_then(|status| Some(status["message"].as_str()?.to_owned()));
        let message = message.unwrap_or_else(|| String::from_utf8_lossy(&answer).into_owned());
        let message = message.chars().filter(|c| !c.is_control()).take(MESSAGE_MAX).collect();
        let hint = match status {
            401 => " (is the service account's token of this cluster?)",
            403 => " (is the driver's ClusterRole bound to its ServiceAccount?)",
            _ => "",
        };
        Err(KubeError::Refused { call, status, message, hint })
    }

    async fn token(&self) -> Result<String, KubeError> {
        let text = tokio::fs::read_to_string(&self.token).await;
        let text = text.map_err(|source| KubeError::Token { path: self.token.clone(), source })?;
        Ok(format!("Bearer {}", text.trim()))
    }

    /// One call; what may be different the next time is UNAVAILABLE.
    async fn once(
        &self,
        method: &Method,
        path: &str,
        token: &str,
        body: Bytes,
    ) -> Result<(u16, Bytes), Status> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, token)
            .body(Body::new(Full::new(body)));
        let request = request.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mut client = self.client.clone();
        poll_fn(|context| client.poll_ready(context)).await?;
        let answer = client.call(request).await?;
        let status = answer.status().as_u16();
        let read = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
        let read =
            read.map_err(|error| Status::unavailable(format!("the answer broke off: {error}")))?.to_bytes();
        match status {
            429 | 500 | 502..=504 => {
                let text: String = String::from_utf8_lossy(&read).chars().take(MESSAGE_MAX).collect();
                Err(Status::unavailable(format!("{status}: {text}")))
            }
            _ => Ok((status, read)),
        }
    }
}
