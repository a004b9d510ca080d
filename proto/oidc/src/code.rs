//! The authorization code flow (OpenID Connect Core 1.0, 3.1) with PKCE (RFC 7636), as texts.

use aws_lc_rs::{digest, rand};
use data_encoding::BASE64URL_NOPAD;

use crate::document::Document;

/// The system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random bytes")]
pub struct NoRandom;

/// A text that nobody foresees: 256 random bits in 43 characters, good as state, nonce and code verifier.
///
/// # Errors
/// [`NoRandom`].
pub fn secret() -> Result<String, NoRandom> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(BASE64URL_NOPAD.encode(&bytes))
}

/// What a code verifier is known by before it is shown (S256).
#[must_use]
pub fn challenge(verifier: &str) -> String {
    BASE64URL_NOPAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()).as_ref())
}

/// Fields as a query or a form has them (`application/x-www-form-urlencoded`).
#[must_use]
pub fn form(fields: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        encode(&mut text, name);
        text.push('=');
        encode(&mut text, value);
    }
    text
}

/// Everything but what no encoding changes (RFC 3986, 2.3) as `%` and two hex digits.
pub(crate) fn encode(into: &mut String, text: &str) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            into.push(byte.into());
        } else {
            let digit = |half: u8| DIGITS.get(usize::from(half)).copied().unwrap_or('0');
            into.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// What a browser is sent to the provider with.
#[derive(Debug, Clone, Copy)]
pub struct SignOn<'a> {
    /// The client's id.
    pub client: &'a str,
    /// Where the provider sends the browser back to.
    pub redirect: &'a str,
    /// What is asked for, words separated by spaces; `openid` among them.
    pub scopes: &'a str,
    /// Comes back beside the code.
    pub state: &'a str,
    /// Comes back in the token.
    pub nonce: &'a str,
    /// Of this the provider learns the [`challenge`].
    pub verifier: &'a str,
}

/// The URL that a browser is sent to.
#[must_use]
pub fn url(document: &Document, sign_on: SignOn<'_>) -> String {
    let challenge = challenge(sign_on.verifier);
    let query = form(&[
        ("response_type", "code"),
        ("client_id", sign_on.client),
        ("redirect_uri", sign_on.redirect),
        ("scope", sign_on.scopes),
        ("state", sign_on.state),
        ("nonce", sign_on.nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    let joined = if document.authorization.contains('?') { '&' } else { '?' };
    format!("{}{joined}{query}", document.authorization)
}
