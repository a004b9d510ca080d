//! The checks of a handshake: clients by our CA and their identity, servers by our CA or by its pin.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};

use crate::ca::only_uri;
use crate::certificate::{PeerCertificate, only_tls13, peer_identity};
use crate::hex::to_hex;
use crate::identity::Identity;
use crate::pin::CaPin;
use crate::revocation::Revocations;
use crate::trust::TrustSlot;

tokio::task_local! {
    /// What the peer of the handshake that runs in this task has shown and was refused for.
    pub(crate) static SHOWN: RefCell<Option<Shown>>;
}

/// A client's certificate that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The stable word for programs.
    pub(crate) reason: &'static str,
    /// Serial number and identity, where our authority has issued it. Whoever showed it has not proved to hold its key.
    pub(crate) ours: Option<(String, String)>,
}

fn show(reason: &'static str, ours: Option<(String, String)>) {
    // Outside of a server's handshake nobody asks.
    let _ = SHOWN.try_with(|shown| shown.replace(Some(Shown { reason, ours })));
}

/// Serial number and URI of a certificate that is ours.
fn named(der: &CertificateDer<'_>) -> Option<(String, String)> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let uri = only_uri(&certificate)?;
    Some((to_hex(certificate.raw_serial()), uri.chars().take(128).collect()))
}

/// A time at which the certificate is valid by its own dates.
fn valid_at(der: &CertificateDer<'_>) -> Option<UnixTime> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let end = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    Some(UnixTime::since_unix_epoch(Duration::from_secs(end.saturating_sub(1))))
}

/// Verifies a client's chain against the CA, then that its identity is one of this cluster, then that nobody took the
/// certificate back. A client without a certificate passes: it is anonymous, and the API decides what anonymous may do.
#[derive(Debug)]
pub(crate) struct IdentityVerifier {
    pub(crate) trust: TrustSlot,
    pub(crate) cluster: String,
    pub(crate) revocations: Revocations,
}

impl IdentityVerifier {
    /// Tells of a certificate whose chain does not hold. Dates are looked at before signatures: only a chain that would hold at
    /// another time is ours.
    fn show_untrusted(
        &self,
        error: &Error,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) {
        let dates = matches!(
            error,
            Error::InvalidCertificate(
                CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. }
            )
        );
        let then = valid_at(end_entity).filter(|_| dates);
        let ours = then.is_some_and(|then| {
            self.trust.anchors().clients.verify_client_cert(end_entity, intermediates, then).is_ok()
        });
        if ours {
            show("CERTIFICATE_EXPIRED", named(end_entity));
        } else {
            show("UNKNOWN_AUTHORITY", None);
        }
    }
}

impl ClientCertVerifier for IdentityVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Who is trusted may change while this slice is in use, and clients of ours have one certificate to show.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .trust
            .anchors()
            .clients
            .verify_client_cert(end_entity, intermediates, now)
            .inspect_err(|error| self.show_untrusted(error, end_entity, intermediates))?;
        let refused = || {
            show("FOREIGN_IDENTITY", named(end_entity));
            Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
        };
        let identity = peer_identity(end_entity, &self.cluster).map_err(|_| refused())?;
        let certificate = PeerCertificate::read(end_entity).map_err(|_| refused())?;
        if identity == Identity::Anonymous {
            return Err(refused());
        }
        if self.revocations.get().refuses(&identity, &certificate) {
            show("CERTIFICATE_REVOKED", named(end_entity));
            return Err(Error::InvalidCertificate(CertificateError::Revoked));
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trust.anchors().clients.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trust.anchors().clients.supported_verify_schemes()
    }
}

/// Verifies a server of which only pins of CAs are known: the chain it sends must hold a certificate whose key
/// has one of them, and must verify, with the server's name and dates, against exactly that certificate.
#[derive(Debug)]
pub(crate) struct PinVerifier {
    pub(crate) pins: Vec<CaPin>,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let authority = intermediates
            .iter()
            .find(|certificate| {
                CaPin::of_certificate(certificate).is_some_and(|pin| self.pins.contains(&pin))
            })
            .ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
                .build()
                .map_err(|error| Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
