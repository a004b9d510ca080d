//! Which authorities are trusted. They can be exchanged while connections live: new handshakes take the new ones, and
//! what only an authority vouches for that is trusted no more ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use tokio::sync::watch;
use x509_parser::extensions::ParsedExtension;

use crate::certificate::{TlsError, chain, provider, roots};
use crate::hex::to_hex;
use crate::identity::Identity;
use crate::pin::CaPin;

/// So many holders of certificates are remembered.
const HOLDERS: usize = 200_000;

/// The authorities that are trusted now; clones share them, and what they have seen.
#[derive(Clone)]
pub struct TrustSlot {
    now: watch::Sender<Arc<Anchors>>,
    holders: Arc<Mutex<BTreeMap<String, Holder>>>,
}

/// Who has shown a certificate, and whose: the newest that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The identity, as it is shown.
    pub who: String,
    /// The authority that issued it.
    pub authority: CaPin,
    /// When its certificate ends.
    pub not_after: SystemTime,
    /// When it was shown last.
    pub seen: SystemTime,
}

/// Authorities, and the checks against them.
pub(crate) struct Anchors {
    pem: String,
    pins: Vec<CaPin>,
    /// By the identifiers of their keys.
    names: Vec<(String, CaPin)>,
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
}

impl Anchors {
    fn read(ca_pem: &str) -> Result<Self, TlsError> {
        let roots = Arc::new(roots(ca_pem)?);
        let config = |error: &dyn fmt::Display| TlsError::Config(error.to_string());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider())
            .allow_unauthenticated()
            .build()
            .map_err(|error| config(&error))?;
        let servers = WebPkiServerVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|error| config(&error))?;
        let certificates = chain(ca_pem)?;
        let pins = certificates.iter().filter_map(|der| CaPin::of_certificate(der)).collect();
        let name = |der: &CertificateDer<'_>| Some((own_key(der)?, CaPin::of_certificate(der)?));
        let names = certificates.iter().filter_map(name).collect();
        Ok(Self { pem: ca_pem.to_owned(), pins, names, clients, servers })
    }
}

impl TrustSlot {
    /// Trusts the authorities whose certificates are in the text, PEM.
    ///
    /// # Errors
    /// There is none, or one that cannot be trusted.
    pub fn new(ca_pem: &str) -> Result<Self, TlsError> {
        Ok(Self { now: watch::Sender::new(Arc::new(Anchors::read(ca_pem)?)), holders: Arc::default() })
    }

    /// Trusts these from now on, and no others.
    ///
    /// # Errors
    /// As [`new`](Self::new); those before are kept.
    pub fn swap(&self, ca_pem: &str) -> Result<(), TlsError> {
        let next = Anchors::read(ca_pem)?;
        self.now.send_if_modified(|now| {
            let other = now.pem != next.pem;
            if other {
                *now = Arc::new(next);
            }
            other
        });
        Ok(())
    }

    /// The certificates of all trusted authorities, as PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.now.borrow().pem.clone()
    }

    /// Their pins, in the order of the certificates.
    #[must_use]
    pub fn pins(&self) -> Vec<CaPin> {
        self.now.borrow().pins.clone()
    }

    pub(crate) fn anchors(&self) -> Arc<Anchors> {
        Arc::clone(&self.now.borrow())
    }

    /// Notes who has shown a certificate that was found good. Controllers' live an hour and are made anew by themselves.
    pub(crate) fn seen(&self, der: &CertificateDer<'_>, identity: &Identity, not_after: SystemTime) {
        if *identity == Identity::Controller {
            return;
        }
        let issuer = issuers_key(der);
        let anchors = self.anchors();
        let Some((_, authority)) = anchors.names.iter().find(|(name, _)| Some(name) == issuer.as_ref())
        else {
            return;
        };
        let (who, seen) = (identity.to_string(), SystemTime::now());
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if holders.len() >= HOLDERS {
            holders.retain(|_, holder| holder.not_after > seen);
        }
        if holders.len() < HOLDERS || holders.contains_key(&who) {
            holders.insert(who.clone(), Holder { who, authority: *authority, not_after, seen });
        }
    }

    /// Who has shown a certificate since the start that has not ended: nodes, users and administrators.
    #[must_use]
    pub fn holders(&self) -> Vec<Holder> {
        let now = SystemTime::now();
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        holders.retain(|_, holder| holder.not_after > now);
        holders.values().cloned().collect()
    }

    /// Remembers who was seen before the start; what was seen since is newer.
    pub fn remember(&self, before: impl IntoIterator<Item = Holder>) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        for holder in before.into_iter().take(HOLDERS) {
            holders.entry(holder.who.clone()).or_insert(holder);
        }
    }

    /// Returns when none of those that are trusted vouches for a client's chain any more.
    pub(crate) async fn until_refused(&self, chain: &[CertificateDer<'static>]) {
        let mut changes = self.now.subscribe();
        let Some((leaf, others)) = chain.split_first() else { return std::future::pending().await };
        loop {
            if self.anchors().clients.verify_client_cert(leaf, others, UnixTime::now()).is_err() {
                return;
            }
            if changes.changed().await.is_err() {
                // Cannot happen: a sender is here.
                return std::future::pending().await;
            }
        }
    }
}

/// The identifier of a certificate's own key, hex.
fn own_key(der: &[u8]) -> Option<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(key) => Some(to_hex(key.0)),
        _ => None,
    })
}

/// The identifier of the key that signed a certificate, hex, as the certificate says.
fn issuers_key(der: &[u8]) -> Option<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(key) => Some(to_hex(key.key_identifier.as_ref()?.0)),
        _ => None,
    })
}

impl fmt::Debug for TrustSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.pins().iter().map(ToString::to_string)).finish()
    }
}

/// Checks servers against whatever is trusted at the time.
#[derive(Debug)]
pub(crate) struct SlotVerifier(pub(crate) TrustSlot);

impl ServerCertVerifier for SlotVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let anchors = self.0.anchors();
        anchors.servers.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(crate::certificate::only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.anchors().servers.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.anchors().servers.supported_verify_schemes()
    }
}
