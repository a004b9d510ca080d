//! What a provider says of itself (OpenID Connect Discovery 1.0, 3), as far as it is needed.

use proto_rpc::outbound::Target;
use serde_json::Value;

/// Where a provider's endpoints are. All of them are `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Where browsers are sent to sign on; an absolute URL.
    pub authorization: String,
    /// Where codes are exchanged for tokens.
    pub token: Target,
    /// Where its keys are.
    pub keys: Target,
    /// Where a device's sign-on begins (RFC 8628), where it has that.
    pub device: Option<Target>,
    /// A client's secret goes into the form instead of a header.
    pub secret_in_form: bool,
    /// Answers to browsers always name the issuer (RFC 9207).
    pub names_issuer: bool,
}

/// Why a text is not what a provider says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is no JSON object.
    #[error("is not a JSON object")]
    Malformed,
    /// It is of another issuer, so that its tokens would be refused.
    #[error("names another issuer than the one that was configured; they have to be the same, byte by byte")]
    Issuer,
    /// An endpoint is missing, or no https URL.
    #[error("`{0}` is missing, or no https URL without user and fragment")]
    Endpoint(&'static str),
    /// Codes cannot be bound to who asked for them.
    #[error("the provider does not support PKCE with S256")]
    NoPkce,
}

/// Where the document of an issuer is; `None` for a text that is no issuer: an https URL without query and fragment.
#[must_use]
pub fn place(issuer: &str) -> Option<Target> {
    if issuer.contains(['?', '#']) {
        return None;
    }
    Target::https(&format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')))
}

impl Document {
    /// Reads the document of an issuer.
    ///
    /// # Errors
    /// [`DocumentError`] if it is of another issuer, or an endpoint is missing.
    pub fn read(text: &[u8], issuer: &str) -> Result<Self, DocumentError> {
        let all: Value = serde_json::from_slice(text).map_err(|_| DocumentError::Malformed)?;
        if !all.is_object() {
            return Err(DocumentError::Malformed);
        }
        let text = |name: &str| all.get(name).and_then(Value::as_str);
        if text("issuer") != Some(issuer) {
            return Err(DocumentError::Issuer);
        }
        let target =
            |name: &'static str| text(name).and_then(Target::https).ok_or(DocumentError::Endpoint(name));
        let lists = |name: &str, value: &str| {
            let listed = all.get(name).and_then(Value::as_array);
            listed.map(|listed| listed.iter().any(|one| one.as_str() == Some(value)))
        };
        // One that says nothing of it may support it; one that lists others does not.
        if lists("code_challenge_methods_supported", "S256") == Some(false) {
            return Err(DocumentError::NoPkce);
        }
        target("authorization_endpoint")?;
        let methods = |name| lists("token_endpoint_auth_methods_supported", name);
        Ok(Self {
            authorization: text("authorization_endpoint").unwrap_or_default().to_owned(),
            token: target("token_endpoint")?,
            keys: target("jwks_uri")?,
            device: text("device_authorization_endpoint").and_then(Target::https),
            secret_in_form: methods("client_secret_basic") == Some(false)
                && methods("client_secret_post") == Some(true),
            names_issuer: all.get("authorization_response_iss_parameter_supported")
                == Some(&Value::Bool(true)),
        })
    }
}
