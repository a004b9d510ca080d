//! The key and the certificate of an agent on its disk, replaced so that no end of the program or of the machine leaves a certificate
//! without its key: until the certificate is there the old pair is whole; from then on the key is beside its place or in it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::certificate::TlsError;
use crate::credentials::{CredentialFiles, Credentials, CredentialsError};
use crate::files::{self, FileError};
use crate::tls::CertificateSlot;
use crate::trust::TrustSlot;

/// Why the pair cannot be used or replaced.
#[derive(Debug, thiserror::Error)]
pub enum IdentityFilesError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is in the files is no key or certificate that can be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// What was issued cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Tls(#[from] TlsError),
    /// The certificate has expired.
    #[error("the certificate has expired")]
    Expired,
}

/// What a certificate authority has answered to a request.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The certificate and its chain, PEM.
    pub certificate_pem: &'a str,
    /// Whom to trust from now on, PEM.
    pub ca_pem: &'a str,
}

/// Where the pair is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    dir: PathBuf,
    key: PathBuf,
    /// The key of a certificate that is being put in its place.
    next_key: PathBuf,
    certificate: PathBuf,
    revoked: PathBuf,
    ca: PathBuf,
    name: PathBuf,
}

impl IdentityFiles {
    /// `KIND.key`, `KIND.pem`, `ca.pem` and `name` in a folder.
    #[must_use]
    pub fn new(dir: PathBuf, kind: &str) -> Self {
        Self {
            key: dir.join(format!("{kind}.key")),
            next_key: dir.join(format!("{kind}.key.next")),
            certificate: dir.join(format!("{kind}.pem")),
            revoked: dir.join(format!("{kind}.revoked.pem")),
            ca: dir.join("ca.pem"),
            name: dir.join("name"),
            dir,
        }
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// There is a certificate.
    #[must_use]
    pub fn exist(&self) -> bool {
        self.certificate.exists()
    }

    /// Where the certificate is.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// Whose it is.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn name(&self) -> Result<String, FileError> {
        Ok(files::read_text(&self.name)?.trim().to_owned())
    }

    /// The pair on disk. Where the program ended in the middle of [`Self::store`], the key that fits is still beside its place.
    ///
    /// # Errors
    /// There is no key and certificate that fit each other.
    pub fn load(&self) -> Result<Credentials, IdentityFilesError> {
        let with = |key: &Path| {
            Credentials::load(&CredentialFiles {
                ca: Some(self.ca.clone()),
                pin: None,
                certificate: Some(self.certificate.clone()),
                key: Some(key.to_owned()),
                token: None,
            })
        };
        let error = match with(&self.key) {
            Ok(credentials) => return Ok(credentials),
            Err(error) => error,
        };
        // The first error says more than that there is no other key.
        let Ok(credentials) = with(&self.next_key) else { return Err(error.into()) };
        self.settle()?;
        Ok(credentials)
    }

    /// [`Self::load`], if it is good at this time.
    ///
    /// # Errors
    /// As [`Self::load`], or the certificate has expired.
    pub fn load_valid(&self, now: SystemTime) -> Result<Credentials, IdentityFilesError> {
        let credentials = self.load()?;
        let certificate = credentials.slot().map(CertificateSlot::certificate).transpose()?;
        match certificate {
            Some(certificate) if certificate.not_after > now => Ok(credentials),
            _ => Err(IdentityFilesError::Expired),
        }
    }

    /// Replaces the pair, durably.
    ///
    /// # Errors
    /// The answer does not fit the key, or a file cannot be written.
    pub fn store(&self, name: &str, key_pem: &str, answer: &Answer<'_>) -> Result<(), IdentityFilesError> {
        // Refused before the old files are touched, if it does not fit the key.
        CertificateSlot::new(answer.certificate_pem, key_pem)?;
        TrustSlot::new(answer.ca_pem)?;
        files::write_secret(&self.next_key, key_pem)?;
        files::write_secret(&self.ca, answer.ca_pem)?;
        files::write_secret(&self.name, name)?;
        // Its presence says that the others are there.
        files::write_secret(&self.certificate, answer.certificate_pem)?;
        self.settle()
    }

    /// The new key takes its place, durably.
    fn settle(&self) -> Result<(), IdentityFilesError> {
        let moved = std::fs::rename(&self.next_key, &self.key)
            .and_then(|()| File::open(&self.dir))
            .and_then(|folder| folder.sync_all());
        moved.map_err(|source| FileError::Io { action: "rename", path: self.next_key.clone(), source }.into())
    }

    /// A certificate that is refused is put aside, so that the next start joins again; gives where it is now. `None` where it was
    /// put aside before.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn set_aside(&self) -> io::Result<Option<&Path>> {
        match std::fs::rename(&self.certificate, &self.revoked) {
            Ok(()) => Ok(Some(&self.revoked)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::{CA_LIFETIME, Ca, KeyRequest, LEAF_LIFETIME};
    use crate::identity::Identity;
    use std::fs;

    fn pair(ca: &Ca) -> (KeyRequest, String) {
        let key = KeyRequest::generate().unwrap();
        let identity = Identity::node("n0").unwrap();
        let issued = ca.issue(&key.csr_pem, &identity, LEAF_LIFETIME, SystemTime::now()).unwrap();
        (key, issued.chain_pem)
    }

    #[test]
    fn a_renewal_that_breaks_off_anywhere_leaves_a_pair_that_fits() {
        let room = tempfile::tempdir().unwrap();
        let at = IdentityFiles::new(room.path().to_owned(), "node");
        let ca = Ca::create("test", SystemTime::now(), CA_LIFETIME).unwrap();
        let ((first, old), (second, new)) = (pair(&ca), pair(&ca));
        let answer = Answer { certificate_pem: &old, ca_pem: ca.certificate_pem() };
        let good = || at.load_valid(SystemTime::now()).is_ok();
        at.store("n0", &first.key_pem, &answer).unwrap();
        assert!(good() && !at.next_key.exists() && at.name().unwrap() == "n0");
        assert!(matches!(
            at.load_valid(SystemTime::now() + LEAF_LIFETIME * 2),
            Err(IdentityFilesError::Expired)
        ));
        // It ends before the certificate is there.
        files::write_secret(&at.next_key, &second.key_pem).unwrap();
        assert!(good() && at.next_key.exists());
        // It ends right after.
        files::write_secret(&at.certificate, &new).unwrap();
        assert!(good() && !at.next_key.exists());
        assert_eq!(fs::read_to_string(&at.key).unwrap(), second.key_pem);
        // A key of nobody's is an error, not a panic and not an identity.
        fs::write(&at.key, &first.key_pem).unwrap();
        assert!(matches!(at.load(), Err(IdentityFilesError::Credentials(_))));
        // What does not fit touches nothing.
        assert!(at.store("n0", &second.key_pem, &answer).is_err() && !at.next_key.exists());
        assert!(at.set_aside().unwrap().is_some() && !at.exist() && at.set_aside().unwrap().is_none());
    }
}
