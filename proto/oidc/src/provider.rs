//! A provider, as it is called: its document, its keys, and the endpoint that gives tokens. Over the same TLS as all else here; every call
//! has bounds on its time and on the size of its answer, and no redirect is followed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proto_rpc::Outbound;
use proto_rpc::PostError;
use proto_rpc::outbound::{Asked, BundleError, Target};
use serde_json::Value;

use crate::code::{encode, form};
use crate::document::{self, Document, DocumentError};
use crate::jose::{Keys, KeysError};

/// Bytes of an answer at most.
const DOCUMENT: usize = 64 * 1024;
const KEYS: usize = 256 * 1024;
const TOKENS: usize = 64 * 1024;
/// Characters of a provider's own words that are shown.
const SHOWN: usize = 200;

/// Why a provider could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The issuer is no https URL.
    #[error("'{0}' is not an issuer: it has to be an https URL without user, query and fragment")]
    Issuer(String),
    /// The file of trusted authorities cannot be used.
    #[error("{0}")]
    Trust(String),
    /// It has not answered.
    #[error("the provider's {what}: {error}")]
    Call {
        /// What it was asked for.
        what: &'static str,
        /// What came of that.
        error: PostError,
    },
    /// It has answered with something else.
    #[error("the provider's {what} was answered with status {status}")]
    Status {
        /// What it was asked for.
        what: &'static str,
        /// The HTTP status.
        status: u16,
    },
    /// What it says of itself cannot be used.
    #[error("the provider's document: {0}")]
    Document(#[from] DocumentError),
    /// Its keys cannot be used.
    #[error("the provider's list of keys {0}")]
    Keys(#[from] KeysError),
    /// It gives no token, and says why (RFC 6749, 5.2).
    #[error("the provider refuses: {error}{}", if .description.is_empty() { String::new() } else { format!(" ({})", .description) })]
    Refused {
        /// Its word for the cause, as `invalid_grant`.
        error: String,
        /// Its text for people, shortened; may be empty.
        description: String,
    },
    /// It has answered with what is no token.
    #[error("the provider's answer to {0} cannot be read")]
    Answer(&'static str),
    /// It has no endpoint for that.
    #[error("the provider has no {0}")]
    Without(&'static str),
}

/// A client of the provider, with its secret where it has one.
#[derive(Clone, PartialEq, Eq)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.id)
    }
}

/// Tokens that a provider gave.
#[derive(Clone, PartialEq, Eq)]
pub struct Given {
    /// Who signed on; a renewal may have none (OpenID Connect Core, 12.2).
    pub id_token: Option<String>,
    /// What new ones are asked for with.
    pub refresh_token: Option<String>,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Given")
    }
}

impl Given {
    /// Who signed on.
    ///
    /// # Errors
    /// [`ProviderError::Answer`] if the provider has not said.
    pub fn signed(self) -> Result<String, ProviderError> {
        self.id_token.ok_or(ProviderError::Answer("token endpoint"))
    }
}

/// A sign-on of a device that has begun (RFC 8628, 3.2).
#[derive(Clone, PartialEq, Eq)]
pub struct Begun {
    /// What the device asks for its token with.
    pub device_code: String,
    /// What somebody types.
    pub user_code: String,
    /// Where.
    pub uri: String,
    /// The same with the code in it, where the provider has that.
    pub complete: Option<String>,
    /// Seconds until it is too late.
    pub expires: u64,
    /// Seconds between two questions.
    pub interval: u64,
}

/// Calls one provider; clones share it.
#[derive(Debug, Clone)]
pub struct Provider {
    issuer: String,
    place: Target,
    outbound: Outbound,
}

impl Provider {
    /// The provider with this issuer, trusted by the authorities of a file, or by those of the system.
    ///
    /// # Errors
    /// [`ProviderError::Issuer`] or [`ProviderError::Trust`].
    pub fn new(issuer: &str, ca: Option<&Path>) -> Result<Self, ProviderError> {
        let place = document::place(issuer)
            .ok_or_else(|| ProviderError::Issuer(issuer.chars().take(SHOWN).collect()))?;
        // The site has named it: it may be anywhere, also inside the site.
        let outbound = Outbound::new(ca, Arc::new(|_| None));
        let outbound = outbound.map_err(|error: BundleError| ProviderError::Trust(error.to_string()))?;
        Ok(Self { issuer: issuer.to_owned(), place, outbound })
    }

    /// What it says of itself now.
    ///
    /// # Errors
    /// [`ProviderError`].
    pub async fn document(&self) -> Result<Document, ProviderError> {
        let body = self.read("document", &self.place, DOCUMENT).await?;
        Ok(Document::read(&body, &self.issuer)?)
    }

    /// Its keys now.
    ///
    /// # Errors
    /// [`ProviderError`].
    pub async fn keys(&self, document: &Document) -> Result<Keys, ProviderError> {
        let body = self.read("list of keys", &document.keys, KEYS).await?;
        Ok(Keys::read(&body)?)
    }

    /// Asks for tokens, by whatever the fields show: a code, a refresh token, a device's code.
    ///
    /// # Errors
    /// [`ProviderError`]; [`ProviderError::Refused`] has the provider's word for it.
    pub async fn tokens(
        &self,
        document: &Document,
        client: &Client,
        fields: &[(&str, &str)],
    ) -> Result<Given, ProviderError> {
        const WHAT: &str = "token endpoint";
        let answer = self.post(WHAT, &document.token, document, client, fields).await?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Given { id_token: text("id_token"), refresh_token: text("refresh_token") })
    }

    /// Begins the sign-on of a device.
    ///
    /// # Errors
    /// [`ProviderError`]; [`ProviderError::Without`] where the provider has no such sign-on.
    pub async fn begin(
        &self,
        document: &Document,
        client: &Client,
        scopes: &str,
    ) -> Result<Begun, ProviderError> {
        const WHAT: &str = "endpoint for devices";
        let target = document.device.as_ref().ok_or(ProviderError::Without(WHAT))?;
        let answer = self.post(WHAT, target, document, client, &[("scope", scopes)]).await?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let needed = |name: &str| text(name).ok_or(ProviderError::Answer(WHAT));
        let seconds = |name: &str| answer.get(name).and_then(Value::as_u64);
        Ok(Begun {
            device_code: needed("device_code")?,
            user_code: needed("user_code")?,
            uri: needed("verification_uri")?,
            complete: text("verification_uri_complete"),
            expires: seconds("expires_in").ok_or(ProviderError::Answer(WHAT))?,
            // RFC 8628, 3.2.
            interval: seconds("interval").unwrap_or(5),
        })
    }

    async fn read(&self, what: &'static str, target: &Target, most: usize) -> Result<Vec<u8>, ProviderError> {
        let fetched = self.outbound.fetch(target, Asked::Read, &[], most).await;
        let fetched = fetched.map_err(|error| ProviderError::Call { what, error })?;
        if fetched.status != 200 {
            return Err(ProviderError::Status { what, status: fetched.status });
        }
        Ok(fetched.body)
    }

    async fn post(
        &self,
        what: &'static str,
        target: &Target,
        document: &Document,
        client: &Client,
        fields: &[(&str, &str)],
    ) -> Result<Value, ProviderError> {
        let (mut fields, mut headers) = (fields.to_vec(), Vec::new());
        match &client.secret {
            Some(secret) if !document.secret_in_form => {
                headers.push(("authorization", basic(&client.id, secret)))
            }
            Some(secret) => fields.extend([("client_id", &*client.id), ("client_secret", secret)]),
            None => fields.push(("client_id", &client.id)),
        }
        let fetched = self.outbound.fetch(target, Asked::Form(&form(&fields)), &headers, TOKENS).await;
        let fetched = fetched.map_err(|error| ProviderError::Call { what, error })?;
        let answer: Option<Value> = serde_json::from_slice(&fetched.body).ok();
        match (fetched.status, answer) {
            (200, Some(answer)) => Ok(answer),
            (200, None) => Err(ProviderError::Answer(what)),
            (status, answer) => Err(refusal(what, status, &answer.unwrap_or_default())),
        }
    }
}

/// The provider's own words for a refusal, as far as they are texts that can be shown.
fn refusal(what: &'static str, status: u16, answer: &Value) -> ProviderError {
    let shown = |name: &str| {
        let text = answer.get(name).and_then(Value::as_str).unwrap_or_default();
        text.chars().filter(|shown| !shown.is_control()).take(SHOWN).collect::<String>()
    };
    match shown("error") {
        error if error.is_empty() => ProviderError::Status { what, status },
        error => ProviderError::Refused { error, description: shown("error_description") },
    }
}

/// A client's id and secret as RFC 6749, 2.3.1 has them: each encoded as in a form.
fn basic(id: &str, secret: &str) -> String {
    let mut pair = String::new();
    encode(&mut pair, id);
    pair.push(':');
    encode(&mut pair, secret);
    format!("Basic {}", STANDARD.encode(pair))
}
