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
use tokio::time::timeout;
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
/// How long one call may take, its answer's body included.
const CALL: Duration = Duration::from_secs(5);
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
    /// There is no such object.
    #[error("the API server has no object for {0}")]
    NotFound(String),
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
    limit: Duration,
}

impl Kube {
    /// Connects with the first call. The token's file is read for each call, since it is replaced while the pod runs. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// [`ClientError`] if the address or the credentials cannot be used.
    pub fn new(endpoint: &Endpoint, credentials: &Credentials, token: PathBuf) -> Result<Self, ClientError> {
        let options = ClientOptions {
            // That of a call is around the whole of it.
            timeout: None,
            keepalive_interval: Duration::from_secs(30),
            keepalive_while_idle: false,
            ..ClientOptions::default()
        };
        Ok(Self { client: Client::of_others(endpoint, Some(credentials), &options)?, token, limit: CALL })
    }

    /// The same with another limit for each call.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Reads an object; `None` if the API server says that there is none: a Status with reason NotFound that names it. Any other 404 is of something
    /// before it, or of an API that is not served.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn get(&self, path: &str) -> Result<Option<Value>, KubeError> {
        match self.call(Method::GET, path, None).await {
            Err(KubeError::NotFound(_)) => Ok(None),
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
        let once = |_| async {
            let answer = timeout(self.limit, self.once(&method, path, &token, body.clone())).await;
            answer.unwrap_or_else(|_| Err(Status::unavailable(format!("no answer within {:?}", self.limit))))
        };
        let answered = retry(&RetryPolicy::default(), &mut Jitter::from_os(), once).await;
        let (status, answer) = answered
            .map_err(|status| KubeError::Away { call: call.clone(), message: status.message().to_owned() })?;
        let parsed = serde_json::from_slice::<Value>(&answer);
        if (200..300).contains(&status) {
            return parsed.map_err(|error| KubeError::Answer(format!("{call}: {error}")));
        }
        // A Status of Kubernetes, or the page of something before it.
        let parsed = parsed.ok();
        if status == 404 && method == Method::GET && parsed.as_ref().is_some_and(|answer| names(answer, path))
        {
            return Err(KubeError::NotFound(call));
        }
        let message = parsed.and_then(|status| Some(status["message"].as_str()?.to_owned()));
        let message = message.unwrap_or_else(|| String::from_utf8_lossy(&answer).into_owned());
        let message = message.chars().filter(|c| !c.is_control()).take(MESSAGE_MAX).collect();
        let hint = match status {
            401 => " (is the service account's token of this cluster?)",
            403 => " (is the driver's ClusterRole bound to its ServiceAccount?)",
            404 => " (does this address serve resource.k8s.io/v1, Kubernetes 1.34 and later?)",
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

/// Whether an answer is a Status that says of the object at this path that it is not there.
fn names(answer: &Value, path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let (name, resource) = (parts.next(), parts.next());
    let details = &answer["details"];
    answer["kind"] == "Status"
        && answer["reason"] == "NotFound"
        && details["name"].as_str().is_some_and(|text| Some(text) == name)
        && details["kind"].as_str().is_some_and(|text| Some(text) == resource)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_status_that_names_the_object_says_that_it_is_gone() {
        let path = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/rails";
        let details = json!({"name": "rails", "group": "resource.k8s.io", "kind": "resourceclaims"});
        let gone = json!({"kind": "Status", "reason": "NotFound", "details": details});
        assert!(names(&gone, path));
        for (pointer, value) in [
            ("/kind", json!("Page")),
            ("/reason", json!("Gone")),
            ("/details", json!({})),
            ("/details/name", json!("other")),
            ("/details/kind", json!("namespaces")),
        ] {
            let mut other = gone.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            assert!(!names(&other, path), "{pointer}");
        }
        assert!(!names(&json!("404 page not found"), path));
    }
}
