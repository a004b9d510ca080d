//! Messages that the cluster's authority has signed, checked with its certificate alone.

use crate::ca::CaError;
use crate::succession::certificates;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// The public keys of the authorities that a cluster has, or had.
#[derive(Debug, Clone)]
pub struct CaKeys(Vec<CaKey>);

impl CaKeys {
    /// The keys of all certificates in a text.
    ///
    /// # Errors
    /// There is none, or one is no CA's.
    pub fn of_pem(pem: &str) -> Result<Self, CaError> {
        Ok(Self(certificates(pem)?.iter().map(|one| CaKey::of_pem(one)).collect::<Result<_, _>>()?))
    }

    /// Whether one of them has signed the message.
    #[must_use]
    pub fn have_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.iter().any(|key| key.has_signed(message, signature))
    }
}

/// The public key of a CA.
#[derive(Debug, Clone)]
pub struct CaKey {
    key: UnparsedPublicKey<Vec<u8>>,
}

impl CaKey {
    /// The key of a CA's certificate. Its end does not matter: what was signed before is still so.
    ///
    /// # Errors
    /// [`CaError::BadCa`] if the text is not the certificate of a CA in PEM form.
    pub fn of_pem(certificate_pem: &str) -> Result<Self, CaError> {
        let bad = |detail: &str| CaError::BadCa { detail: detail.to_owned() };
        let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|_| bad("no certificate in PEM form was found"))?;
        let (_, parsed) =
            x509_parser::parse_x509_certificate(&der).map_err(|_| bad("cannot be read as X.509"))?;
        if !parsed.is_ca() {
            return Err(bad("is not the certificate of a CA"));
        }
        let key = parsed.public_key().subject_public_key.data.to_vec();
        Ok(Self { key: UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key) })
    }

    /// Whether the CA has signed the message.
    #[must_use]
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key.verify(message, signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ca;
    use std::time::{Duration, SystemTime};

    #[test]
    fn what_the_authority_signs_is_checked_with_its_certificate() {
        let make = || Ca::create("c", SystemTime::now(), Duration::from_secs(60)).unwrap();
        let (ca, other) = (make(), make());
        let signature = ca.sign_message(b"message").unwrap();
        let key = CaKey::of_pem(ca.certificate_pem()).unwrap();
        assert!(key.has_signed(b"message", &signature));
        assert!(!key.has_signed(b"messagf", &signature));
        assert!(!key.has_signed(b"message", b""));
        assert!(!CaKey::of_pem(other.certificate_pem()).unwrap().has_signed(b"message", &signature));
        let leaf = ca.issue_server(&[], Duration::from_secs(60), SystemTime::now()).unwrap();
        assert!(CaKey::of_pem(&leaf.issued.chain_pem).is_err());
        assert!(CaKey::of_pem("garbage").is_err());
        let both = CaKeys::of_pem(&(other.certificate_pem().to_owned() + ca.certificate_pem())).unwrap();
        assert!(both.have_signed(b"message", &signature) && !both.have_signed(b"messagf", &signature));
        assert!(CaKeys::of_pem("garbage").is_err() && CaKeys::of_pem(&leaf.issued.chain_pem).is_err());
    }
}
