//! Bearer secrets: join tokens of nodes and API tokens of users.
//!
//! A token is shown once as `rail-join-v1.<id>.<secret>` or `rail-user-v1.<id>.<secret>`; only its id and the
//! SHA-256 of its secret are stored. The secret is 256 random bits, so a plain hash cannot be guessed back.

use crate::hex::{from_hex, to_hex};
use aws_lc_rs::{constant_time, digest, rand};
use axum::http::{HeaderMap, header};
use std::fmt;
use std::str::FromStr;

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// What a token is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenKind {
    /// Lets one node get its first certificate, once.
    Join,
    /// Speaks for a user of the API.
    User,
}

impl TokenKind {
    /// The first part of the token's text.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            TokenKind::Join => "rail-join-v1",
            TokenKind::User => "rail-user-v1",
        }
    }
}

/// Why a text is no token, or none could be made. No variant carries the text: it may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text does not have the expected shape.
    #[error("not a token: expected {expected}.<16 hex digits>.<64 hex digits>")]
    Malformed {
        /// The prefix that was expected.
        expected: &'static str,
    },
    /// The hash is not 64 hex digits.
    #[error("not a token hash: expected 64 hex digits")]
    MalformedHash,
    /// The text is no signed token either.
    #[error(
        "not a signed token: expected three parts of base64url, of at most {} bytes in all",
        SignedToken::MAX_BYTES
    )]
    NotSigned,
    /// The system's random source failed.
    #[error("the system gave no random bytes")]
    NoRandom,
}

/// A token with its secret. Neither `Debug` nor any error shows the secret; only [`Token::reveal`] does.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    kind: TokenKind,
    id: String,
    secret: [u8; SECRET_BYTES],
}

impl Token {
    /// Makes a new token from the system's random source.
    ///
    /// # Errors
    /// [`TokenError::NoRandom`] if the system gives no random numbers.
    pub fn generate(kind: TokenKind) -> Result<Self, TokenError> {
        let mut id = [0; ID_BYTES];
        let mut secret = [0; SECRET_BYTES];
        rand::fill(&mut id).map_err(|_| TokenError::NoRandom)?;
        rand::fill(&mut secret).map_err(|_| TokenError::NoRandom)?;
        Ok(Token { kind, id: to_hex(&id), secret })
    }

    /// Reads a token's text; white space around it (a file's last newline) is ignored.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] if the text is not a token of this kind.
    pub fn parse(kind: TokenKind, text: &str) -> Result<Self, TokenError> {
        let malformed = TokenError::Malformed { expected: kind.prefix() };
        let mut parts = text.trim().split('.');
        let (prefix, id, secret) = (parts.next(), parts.next(), parts.next());
        if prefix != Some(kind.prefix()) || parts.next().is_some() {
            return Err(malformed);
        }
        let id: [u8; ID_BYTES] = id.and_then(from_hex).ok_or(malformed)?;
        let secret = secret.and_then(from_hex).ok_or(malformed)?;
        Ok(Token { kind, id: to_hex(&id), secret })
    }

    /// The user token of an `authorization: Bearer` header (gRPC metadata: `into_headers`); none where there is
    /// no such header, an error where there is one of another kind or shape.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] if there is such a header and its value is not a user token.
    pub fn from_authorization(headers: &HeaderMap) -> Result<Option<Self>, TokenError> {
        let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
        let text = value.to_str().unwrap_or_default();
        let token = text.strip_prefix("Bearer ").or_else(|| text.strip_prefix("bearer ")).unwrap_or_default();
        Token::parse(TokenKind::User, token).map(Some)
    }

    /// What the token is good for.
    #[must_use]
    pub fn kind(&self) -> TokenKind {
        self.kind
    }

    /// The public part: the key under which the hash is stored.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole text, secret included: for the one time that it is shown, and for the wire.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{}.{}.{}", self.kind.prefix(), self.id, to_hex(&self.secret))
    }

    /// The hash of the token, which may be stored.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        let mut hash = [0; SECRET_BYTES];
        hash.copy_from_slice(digest::digest(&digest::SHA256, &self.secret).as_ref());
        TokenHash(hash)
    }
}

/// A token that somebody else has signed, as an OpenID provider does (RFC 7519): taken as it is, and never shown but on the wire. What it says
/// and whether it is good is the receiver's to find out.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedToken(String);

impl SignedToken {
    /// The most bytes that it may have.
    pub const MAX_BYTES: usize = 7 * 1024;

    /// Takes a text of the form of a signed token; white space around it is ignored.
    ///
    /// # Errors
    /// [`TokenError::NotSigned`] if it has another form, or is too long.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        let whole =
            text.len() <= Self::MAX_BYTES && text.split('.').count() == 3 && text.split('.').all(part);
        if whole { Ok(Self(text.to_owned())) } else { Err(TokenError::NotSigned) }
    }

    /// The whole text, for the wire and for whoever keeps it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SignedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignedToken([elided])")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}.{}.[elided])", self.kind.prefix(), self.id)
    }
}

/// The SHA-256 of a token's secret, as it is stored (64 hex digits).
#[derive(Debug, Clone, Copy)]
pub struct TokenHash([u8; SECRET_BYTES]);

impl TokenHash {
    /// Whether this is the hash of `token`'s secret; takes the same time whatever differs.
    #[must_use]
    pub fn verify(&self, token: &Token) -> bool {
        constant_time::verify_slices_are_equal(&self.0, &token.hash().0).is_ok()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl FromStr for TokenHash {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        from_hex(text).map(TokenHash).ok_or(TokenError::MalformedHash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_text_and_its_hash() {
        for kind in [TokenKind::Join, TokenKind::User] {
            let token = Token::generate(kind).unwrap();
            let again = Token::parse(kind, &format!("{}\n", token.reveal())).unwrap();
            assert_eq!(again, token);
            let stored: TokenHash = token.hash().to_string().parse().unwrap();
            assert!(stored.verify(&again));
            assert!(!stored.verify(&Token::generate(kind).unwrap()));
        }
    }

    #[test]
    fn a_header_gives_a_token_nothing_or_an_error() {
        let token = Token::generate(TokenKind::User).unwrap();
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            Token::from_authorization(&headers)
        };
        assert_eq!(Token::from_authorization(&HeaderMap::new()), Ok(None));
        assert_eq!(read(&format!("Bearer {}", token.reveal())), Ok(Some(token.clone())));
        for bad in [token.reveal(), format!("Basic {}", token.reveal()), "Bearer ".to_owned()] {
            assert!(read(&bad).is_err());
        }
        let join = Token::generate(TokenKind::Join).unwrap();
        assert!(read(&format!("Bearer {}", join.reveal())).is_err(), "a join token is no user");
    }

    #[test]
    fn a_signed_token_has_three_parts_and_is_not_shown() {
        let token = SignedToken::parse("eyJh.eyJi-_.c2ln\n").unwrap();
        assert_eq!(token.reveal(), "eyJh.eyJi-_.c2ln");
        assert!(!format!("{token:?}").contains("eyJ"));
        let long = format!("{}.a.b", "x".repeat(SignedToken::MAX_BYTES));
        for bad in ["", "a.b", "a..c", "a.b.c.d", "a.b.c=", "a b.c.d", &long] {
            assert_eq!(SignedToken::parse(bad), Err(TokenError::NotSigned), "{bad:.20}");
        }
    }

    #[test]
    fn malformed_tokens_are_refused_without_showing_them() {
        let token = Token::generate(TokenKind::Join).unwrap();
        let text = token.reveal();
        let upper = text.to_uppercase();
        for bad in ["", "rail-join-v1", "rail-join-v1..", &text[..text.len() - 1], &upper] {
            assert!(Token::parse(TokenKind::Join, bad).is_err(), "{bad:?}");
        }
        assert!(Token::parse(TokenKind::Join, &format!("{text}.x")).is_err());
        let error = Token::parse(TokenKind::User, &text).unwrap_err().to_string();
        let secret = text.rsplit('.').next().unwrap();
        assert!(!error.contains(secret));
        assert!(!format!("{token:?}").contains(secret));
        assert!("zz".parse::<TokenHash>().is_err());
    }
}
