//! rustls configurations: TLS 1.3 only, aws-lc-rs named explicitly, certificates that can be swapped live.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig, SignatureScheme};

pub use crate::certificate::{PeerCertificate, TlsError, peer_identity};
use crate::certificate::{chain, provider};
use crate::pin::CaPin;
use crate::revocation::Revocations;
use crate::trust::{SlotVerifier, TrustSlot};
use crate::verify::{IdentityVerifier, PinVerifier};

const ALPN_H2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// A certificate and key in use, which can be replaced while connections live: new handshakes take the new one.
#[derive(Clone)]
pub struct CertificateSlot {
    current: Arc<RwLock<Arc<CertifiedKey>>>,
}

impl CertificateSlot {
    /// Reads a chain (leaf first) and its key.
    ///
    /// # Errors
    /// [`TlsError`] if the chain or the key cannot be read, or the key is not that of the leaf.
    pub fn new(chain_pem: &str, key_pem: &str) -> Result<Self, TlsError> {
        Ok(CertificateSlot { current: Arc::new(RwLock::new(certified_key(chain_pem, key_pem)?)) })
    }

    /// Replaces the certificate for all handshakes from now on; on an error the old one stays.
    ///
    /// # Errors
    /// [`TlsError`] if the chain or the key cannot be read, or the key is not that of the leaf.
    pub fn swap(&self, chain_pem: &str, key_pem: &str) -> Result<(), TlsError> {
        let next = certified_key(chain_pem, key_pem)?;
        // A poisoned lock cannot hold half a value: the guard only ever swaps one pointer.
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// The pin of the authority that issued the leaf, where it is shown with it.
    ///
    /// # Errors
    /// [`TlsError::NoCertificate`] if the slot holds an empty chain.
    pub fn issuer(&self) -> Result<Option<CaPin>, TlsError> {
        let current = self.get();
        current.cert.first().ok_or(TlsError::NoCertificate)?;
        Ok(current.cert.get(1).and_then(|der| CaPin::of_certificate(der)))
    }

    /// The leaf in use, and when it ends.
    ///
    /// # Errors
    /// [`TlsError`] if the slot holds an empty chain, or the leaf cannot be read.
    pub fn certificate(&self) -> Result<PeerCertificate, TlsError> {
        let current = self.get();
        PeerCertificate::read(current.cert.first().ok_or(TlsError::NoCertificate)?)
    }

    fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for CertificateSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateSlot")
    }
}

impl ResolvesServerCert for CertificateSlot {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

impl ResolvesClientCert for CertificateSlot {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// How a client knows that the server is the right one.
#[derive(Debug, Clone)]
pub enum Trust {
    /// By the CA's certificate in PEM form.
    Ca(String),
    /// By whichever CAs are trusted at the time.
    Slot(TrustSlot),
    /// By the CA's pin: for joining, before the CA's certificate is known.
    Pin(CaPin),
    /// By one of several pins.
    Pins(Vec<CaPin>),
}

/// The server's side: our certificate from `slot`; clients' certificates, where they have one, from a CA that is trusted at
/// the time, with an identity of `cluster`, and not among the `revocations`.
///
/// # Errors
/// [`TlsError::Config`] if the TLS library refuses the configuration.
pub fn server_config(
    trust: &TrustSlot,
    cluster: &str,
    slot: &CertificateSlot,
    revocations: &Revocations,
) -> Result<Arc<ServerConfig>, TlsError> {
    let revocations = revocations.clone();
    let verifier = IdentityVerifier { trust: trust.clone(), cluster: cluster.to_owned(), revocations };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| TlsError::Config(error.to_string()))?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(slot.clone()));
    config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
    // A resumed session would keep a client's identity beyond the end of its certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The client's side: the server by `trust`, ourselves by `slot` where there is one.
///
/// # Errors
/// [`TlsError`] if the trusted certificates cannot be read, or the TLS library refuses the configuration.
pub fn client_config(trust: &Trust, slot: Option<&CertificateSlot>) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| TlsError::Config(error.to_string()))?;
    let builder = match trust {
        Trust::Ca(pem) => {
            let verifier = SlotVerifier(TrustSlot::new(pem)?);
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        Trust::Slot(slot) => {
            let verifier = SlotVerifier(slot.clone());
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        Trust::Pin(pin) => {
            let verifier = PinVerifier { pins: vec![*pin], provider: provider() };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        Trust::Pins(pins) => {
            let verifier = PinVerifier { pins: pins.clone(), provider: provider() };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    let mut config = match slot {
        Some(slot) => builder.with_client_cert_resolver(Arc::new(slot.clone())),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN_H2.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn certified_key(chain_pem: &str, key_pem: &str) -> Result<Arc<CertifiedKey>, TlsError> {
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(|_| TlsError::NoKey)?;
    let certified = CertifiedKey::from_der(chain(chain_pem)?, key, &provider()).map_err(TlsError::Key)?;
    Ok(Arc::new(certified))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rubbish_is_named() {
        assert!(matches!(CertificateSlot::new("", ""), Err(TlsError::NoKey)));
        assert!(matches!(PeerCertificate::read(b"x"), Err(TlsError::BadCertificate)));
        assert!(matches!(peer_identity(b"x", "dev"), Err(TlsError::BadCertificate)));
        assert!(client_config(&Trust::Ca("x".to_owned()), None).is_err());
    }
}
