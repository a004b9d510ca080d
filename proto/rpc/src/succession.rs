//! One authority after another: the next one's certificate, and that certificate as the one before signs it.

use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, IsCa, KeyPair};

use crate::ca::{CLOCK_SKEW, Ca, CaError, authority_params, serial, utc};
use crate::hex::to_hex;
use crate::pin::CaPin;

impl Ca {
    /// Makes the authority that is to follow this one, with a key that is there already (PEM, PKCS#8) or a new one. Its
    /// name says a number that this one's does not, so that who looks for an issuer by name finds the right one.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn successor(
        &self,
        key_pem: Option<&str>,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<Self, CaError> {
        let key = match key_pem {
            Some(pem) => Ca::read_key(pem)?,
            None => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?,
        };
        let number = to_hex(&serial()?.to_bytes()[..4]);
        Ca::create_named(
            key,
            self.cluster(),
            &format!("Railyard CA {number} {}", self.cluster()),
            now,
            lifetime,
        )
    }

    /// The certificate of `next` as this authority signs it. It ends with this one's, or with its own if that is earlier.
    ///
    /// # Errors
    /// The library refuses; with authorities of one cluster this does not happen.
    pub fn cross_sign(&self, next: &Ca, now: SystemTime) -> Result<String, CaError> {
        let mut params = authority_params(next.cluster(), next.name())?;
        params.not_before = utc(now.checked_sub(CLOCK_SKEW).ok_or(CaError::BadTime)?)?;
        params.not_after = utc(next.not_after().min(self.not_after()))?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(next.issuer().key(), self.issuer())?.pem())
    }
}

/// The certificates in a text, each as PEM of its own, in their order; nothing else that the text holds is in them.
///
/// # Errors
/// There is none, or one that cannot be read.
pub fn certificates(pem: &str) -> Result<Vec<String>, CaError> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let bad = |detail: &str| CaError::BadCa { detail: detail.to_owned() };
    let mut found = Vec::new();
    for part in pem.split_inclusive(END) {
        let Some(begin) = part.rfind(BEGIN).filter(|_| part.ends_with(END)) else { continue };
        let one = part[begin..].to_owned() + "\n";
        CaPin::of_pem(&one).ok_or_else(|| bad("holds what is no certificate"))?;
        found.push(one);
    }
    if found.is_empty() { Err(bad("no certificate in PEM form was found")) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::CA_LIFETIME;
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;

    #[test]
    fn a_bundle_is_its_certificates_and_never_a_key() {
        let now = SystemTime::now();
        let ca = Ca::create("dev", now, CA_LIFETIME).unwrap();
        let next = ca.successor(None, now, CA_LIFETIME).unwrap();
        assert_ne!(ca.pin(), next.pin());
        let mixed = format!("words\n{}{}\n{}", ca.key_pem(), ca.certificate_pem(), next.certificate_pem());
        let found = certificates(&mixed).unwrap();
        assert_eq!(found.len(), 2);
        assert!(!found.concat().contains("PRIVATE") && !found.concat().contains("words"));
        assert_eq!(certificates(&found.concat()).unwrap(), found);
        assert!(certificates("").is_err() && certificates(&ca.key_pem()).is_err());
        let cut = &ca.certificate_pem()[..200];
        assert!(certificates(&format!("{cut}\n-----END CERTIFICATE-----")).is_err());
        // The next one's key and name, signed by the one before, and no longer than that one lives.
        let short = Ca::create("dev", now, CA_LIFETIME / 10).unwrap();
        let cross = short.cross_sign(&next, now).unwrap();
        assert_eq!(CaPin::of_pem(&cross), Some(next.pin()));
        let der = CertificateDer::from_pem_slice(cross.as_bytes()).unwrap();
        assert!(crate::certificate::PeerCertificate::read(&der).unwrap().not_after <= short.not_after());
    }
}
