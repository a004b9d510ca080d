//! The CA's pin: by it a joining node knows the controller before it has any certificate.

use crate::hex::{from_hex, to_hex};
use aws_lc_rs::digest;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fmt;
use std::str::FromStr;

/// SHA-256 of a CA's SubjectPublicKeyInfo, written `sha256:<64 hex digits>`. It travels beside a join token so
/// that a node can know the controller before it has any certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaPin([u8; 32]);

impl CaPin {
    /// The pin of a certificate's key; none if the certificate cannot be read.
    #[must_use]
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        let (rest, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let mut pin = [0; 32];
        pin.copy_from_slice(digest::digest(&digest::SHA256, certificate.public_key().raw).as_ref());
        Some(CaPin(pin))
    }
}

impl CaPin {
    /// The pin of the first certificate in a text, PEM; none if there is none that can be read.
    #[must_use]
    pub fn of_pem(pem: &str) -> Option<Self> {
        Self::of_certificate(&CertificateDer::from_pem_slice(pem.as_bytes()).ok()?)
    }

    /// Several pins in one text, as they are written: with commas between them.
    ///
    /// # Errors
    /// One of them is none, or there is none.
    pub fn several(text: &str) -> Result<Vec<Self>, BadPin> {
        text.split(',').map(str::parse).collect()
    }
}

impl fmt::Display for CaPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", to_hex(&self.0))
    }
}

/// A text is no CA pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a CA pin: expected sha256:<64 hex digits>")]
pub struct BadPin;

impl FromStr for CaPin {
    type Err = BadPin;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.trim().strip_prefix("sha256:").and_then(from_hex).map(CaPin).ok_or(BadPin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_survives_its_text() {
        let pin = CaPin([0xab; 32]);
        assert_eq!(format!("{pin}\n").parse::<CaPin>().unwrap(), pin);
        for bad in ["", "sha256:", "sha256:zz", &pin.to_string()[1..], &format!("{pin}0")] {
            assert!(bad.parse::<CaPin>().is_err(), "{bad:?}");
        }
        assert_eq!(CaPin::of_certificate(b"rubbish"), None);
        let other = CaPin([0xcd; 32]);
        assert_eq!(CaPin::several(&format!("{pin}, {other}")).unwrap(), [pin, other]);
        assert!(CaPin::several("").is_err() && CaPin::several(&format!("{pin},")).is_err());
    }
}
