//! What a client shows and trusts: a CA or its pin, a certificate of its own, a bearer token.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::certificate::TlsError;
use crate::connect::{Dial, sockets};
use crate::endpoint::Endpoint;
use crate::files;
use crate::files::FileError;
use crate::pin::{BadPin, CaPin};
use crate::tls::{CertificateSlot, Trust, client_config};
use crate::token::{SignedToken, Token, TokenError, TokenKind};
use crate::trust::TrustSlot;

/// Why credentials cannot be used. Texts name the file, never its content.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file's content cannot be used.
    #[error("{}: {source}", path.display())]
    Tls {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        source: TlsError,
    },
    /// A token file's content is no token.
    #[error("{}: {source}", path.display())]
    Token {
        /// Path of the token file.
        path: PathBuf,
        /// What is wrong with it.
        source: TokenError,
    },
    /// The pin cannot be read.
    #[error(transparent)]
    Pin(#[from] BadPin),
    /// Nothing to know the server by.
    #[error("neither a CA certificate nor a CA pin is given: the server could not be verified")]
    NoTrust,
    /// A certificate without its key, or a key without its certificate.
    #[error("a client certificate and its key go together: {missing} is not given")]
    HalfIdentity {
        /// The one of the two that is not given: certificate or key.
        missing: &'static str,
    },
    /// The TLS library refused.
    #[error(transparent)]
    Config(#[from] TlsError),
}

/// Where credentials are on disk; fields that are none are not used.
#[derive(Debug, Clone, Default)]
pub struct CredentialFiles {
    /// The CA's certificate, PEM.
    pub ca: Option<PathBuf>,
    /// The CA's pin, `sha256:<hex>`, or several with commas between them; used where `ca` is none.
    pub pin: Option<String>,
    /// The client's certificate chain, PEM.
    pub certificate: Option<PathBuf>,
    /// The client's key, PEM.
    pub key: Option<PathBuf>,
    /// A file with a `rail-user-v1` token.
    pub token: Option<PathBuf>,
}

/// What a client shows and trusts. Cheap to clone; clones share the certificate slot, so that a renewal reaches
/// every channel.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// `None`: what `dial` opens is trusted as it is.
    trust: Option<Trust>,
    dial: Dial,
    slot: Option<CertificateSlot>,
    token: Option<Token>,
    signed: Option<SignedToken>,
}

impl Credentials {
    /// Trusts a CA and shows nothing.
    #[must_use]
    pub fn new(trust: Trust) -> Self {
        Credentials { trust: Some(trust), dial: sockets, slot: None, token: None, signed: None }
    }

    /// For a simulation: streams are opened by `dial`, and trusted as it hands them over, without TLS.
    #[must_use]
    pub fn over(dial: Dial) -> Self {
        Credentials { trust: None, dial, slot: None, token: None, signed: None }
    }

    /// Shows the certificate in this slot to servers; one that is swapped in later is shown on the next connection.
    #[must_use]
    pub fn with_certificate(mut self, slot: CertificateSlot) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Sends this token with every call.
    #[must_use]
    pub fn with_token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Sends this token with every call, which somebody else has signed.
    #[must_use]
    pub fn with_signed(mut self, token: SignedToken) -> Self {
        self.signed = Some(token);
        self
    }

    /// Reads what the files say.
    ///
    /// # Errors
    /// [`CredentialsError`] if a file cannot be read or its content cannot be used, if neither a CA nor a pin is given, or if a
    /// certificate comes without its key or a key without its certificate.
    pub fn load(from: &CredentialFiles) -> Result<Self, CredentialsError> {
        let trust = match (&from.ca, &from.pin) {
            (Some(path), _) => {
                let slot = TrustSlot::new(&files::read_text(path)?);
                Trust::Slot(slot.map_err(|source| CredentialsError::Tls { path: path.clone(), source })?)
            }
            (None, Some(pins)) => Trust::Pins(CaPin::several(pins)?),
            (None, None) => return Err(CredentialsError::NoTrust),
        };
        let slot = match (&from.certificate, &from.key) {
            (Some(certificate), Some(key)) => {
                let (chain, secret) = (files::read_text(certificate)?, files::read_text(key)?);
                let slot = CertificateSlot::new(&chain, &secret);
                Some(slot.map_err(|source| CredentialsError::Tls { path: certificate.clone(), source })?)
            }
            (None, None) => None,
            (Some(_), None) => return Err(CredentialsError::HalfIdentity { missing: "the key" }),
            (None, Some(_)) => return Err(CredentialsError::HalfIdentity { missing: "the certificate" }),
        };
        let token = match &from.token {
            Some(path) => Some(
                Token::parse(TokenKind::User, &files::read_text(path)?)
                    .map_err(|source| CredentialsError::Token { path: path.clone(), source })?,
            ),
            None => None,
        };
        Ok(Credentials { trust: Some(trust), dial: sockets, slot, token, signed: None })
    }

    /// The slot of the certificate that is shown, for renewal and for its end.
    #[must_use]
    pub fn slot(&self) -> Option<&CertificateSlot> {
        self.slot.as_ref()
    }

    /// Whom this trusts, where that can be exchanged: what was read from a file.
    #[must_use]
    pub fn trust(&self) -> Option<&TrustSlot> {
        match &self.trust {
            Some(Trust::Slot(slot)) => Some(slot),
            _ => None,
        }
    }

    /// The token that is sent.
    #[must_use]
    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// The text of the token that is sent, whoever has made it; one of ours before one that somebody else has signed.
    #[must_use]
    pub fn bearer(&self) -> Option<String> {
        let ours = self.token.as_ref().map(Token::reveal);
        ours.or_else(|| self.signed.as_ref().map(|token| token.reveal().to_owned()))
    }

    /// Opens a connection and ends it before anything is said.
    ///
    /// # Errors
    /// What the other side, or the way to it, says.
    pub async fn knock(&self, endpoint: &Endpoint) -> io::Result<()> {
        (self.dial)(endpoint.clone()).await.map(drop)
    }

    pub(crate) fn dial(&self) -> Dial {
        self.dial
    }

    /// The rustls configuration of these credentials; `None` without trust.
    pub(crate) fn tls(&self) -> Result<Option<Arc<rustls::ClientConfig>>, TlsError> {
        self.trust.as_ref().map(|trust| client_config(trust, self.slot.as_ref())).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::{CA_LIFETIME, Ca, KeyRequest, LEAF_LIFETIME};
    use crate::identity::Identity;
    use std::time::SystemTime;

    #[test]
    fn files_load_and_errors_name_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let ca = Ca::create("dev", SystemTime::now(), CA_LIFETIME).unwrap();
        let request = KeyRequest::generate().unwrap();
        let node = Identity::node("n0").unwrap();
        let issued = ca.issue(&request.csr_pem, &node, LEAF_LIFETIME, SystemTime::now()).unwrap();
        files::write_public(&path("ca.pem"), ca.certificate_pem()).unwrap();
        files::write_public(&path("cert.pem"), &issued.chain_pem).unwrap();
        files::write_secret(&path("key.pem"), &request.key_pem).unwrap();
        files::write_secret(&path("other.pem"), &KeyRequest::generate().unwrap().key_pem).unwrap();
        let token = Token::generate(TokenKind::User).unwrap();
        files::write_secret(&path("token"), &token.reveal()).unwrap();

        let good = CredentialFiles {
            ca: Some(path("ca.pem")),
            pin: None,
            certificate: Some(path("cert.pem")),
            key: Some(path("key.pem")),
            token: Some(path("token")),
        };
        let credentials = Credentials::load(&good).unwrap();
        assert_eq!(credentials.token(), Some(&token));
        let shown = credentials.slot().unwrap().certificate().unwrap();
        assert_eq!((shown.serial, shown.not_after), (issued.serial, issued.not_after));

        let fails = |change: fn(&mut CredentialFiles), base: &CredentialFiles| {
            let mut files = base.clone();
            change(&mut files);
            Credentials::load(&files).unwrap_err().to_string()
        };
        assert!(fails(|f| f.ca = None, &good).contains("neither a CA certificate nor a CA pin"));
        assert!(fails(|f| f.key = None, &good).contains("the key is not given"));
        assert!(fails(|f| f.certificate = None, &good).contains("the certificate is not given"));
        let mut crossed = good.clone();
        crossed.key = Some(path("other.pem"));
        assert!(Credentials::load(&crossed).unwrap_err().to_string().contains("cert.pem"));
        crossed = good.clone();
        crossed.ca = Some(path("key.pem"));
        assert!(Credentials::load(&crossed).unwrap_err().to_string().contains("key.pem"));
        crossed = good;
        crossed.token = Some(path("cert.pem"));
        assert!(matches!(Credentials::load(&crossed), Err(CredentialsError::Token { .. })));
    }
}
