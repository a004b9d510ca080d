//! Certificates as they are read, and what can be wrong with them.

use rustls_pki_types::pem::PemObject;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::{Error, PeerIncompatible, RootCertStore};

use crate::ca::{CLOCK_SKEW, only_uri};
use crate::identity::{Identity, IdentityError};

/// Why a TLS configuration or a certificate in memory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The text has no certificate.
    #[error("no certificate in PEM form was found")]
    NoCertificate,
    /// The text has no private key.
    #[error("no private key in PEM form was found")]
    NoKey,
    /// The key is not the certificate's, or of an unsupported kind.
    #[error("the private key cannot be used with the certificate: {0}")]
    Key(rustls::Error),
    /// The CA certificate cannot be a trust anchor.
    #[error("the CA certificate cannot be trusted: {0}")]
    Anchor(rustls::Error),
    /// The library refused; with sound arguments this does not happen.
    #[error("cannot make a TLS configuration: {0}")]
    Config(String),
    /// A certificate that cannot be read.
    #[error("the certificate cannot be read as X.509")]
    BadCertificate,
    /// A certificate without exactly one URI among its names.
    #[error("the certificate does not carry exactly one identity")]
    NoIdentity,
    /// The identity is not one of ours.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// The one crypto provider. It is passed explicitly everywhere, so that no other crate's choice of a process
/// default can change it.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// What of a certificate the layers above need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Serial number, hex: what a revocation names.
    pub serial: String,
    /// When it was issued: its validity begins [`CLOCK_SKEW`] before.
    pub issued: SystemTime,
    /// When the certificate ends.
    pub not_after: SystemTime,
}

impl PeerCertificate {
    /// Reads a certificate in DER form.
    ///
    /// # Errors
    /// [`TlsError::BadCertificate`] if the bytes are not a certificate, or a time in it cannot be expressed.
    pub fn read(der: &[u8]) -> Result<Self, TlsError> {
        let (_, certificate) =
            x509_parser::parse_x509_certificate(der).map_err(|_| TlsError::BadCertificate)?;
        let time = |seconds: i64| {
            let since = Duration::from_secs(u64::try_from(seconds).ok()?);
            SystemTime::UNIX_EPOCH.checked_add(since)
        };
        let validity = certificate.validity();
        let begin = time(validity.not_before.timestamp()).ok_or(TlsError::BadCertificate)?;
        Ok(PeerCertificate {
            serial: crate::hex::to_hex(certificate.raw_serial()),
            issued: begin.checked_add(CLOCK_SKEW).ok_or(TlsError::BadCertificate)?,
            not_after: time(validity.not_after.timestamp()).ok_or(TlsError::BadCertificate)?,
        })
    }
}

/// The identity in a certificate of `cluster`; exactly one URI must be there.
///
/// # Errors
/// [`TlsError`] if the bytes are not a certificate, if it has no URI or several, or if the URI is not an identity of the cluster.
pub fn peer_identity(der: &[u8], cluster: &str) -> Result<Identity, TlsError> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).map_err(|_| TlsError::BadCertificate)?;
    let uri = only_uri(&certificate).ok_or(TlsError::NoIdentity)?;
    Ok(Identity::from_uri(&uri, cluster)?)
}

pub(crate) fn roots(ca_pem: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(ca_pem)? {
        roots.add(certificate).map_err(TlsError::Anchor)?;
    }
    Ok(roots)
}

pub(crate) fn chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| TlsError::NoCertificate)?;
    if chain.is_empty() { Err(TlsError::NoCertificate) } else { Ok(chain) }
}

pub(crate) fn only_tls13() -> Error {
    Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered)
}
