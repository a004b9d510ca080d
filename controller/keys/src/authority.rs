//! The folder of the cluster's authority: its certificate, and its key in whatever form it is protected.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use proto_rpc::{
    Ca, Standing,
    ca::CaError,
    files::{self, FileError},
};
use thiserror::Error;

use crate::{Form, Guards, KeyError, Purpose};

/// Name of the file with the authority's certificate.
pub const CA_CERTIFICATE: &str = "ca.pem";
/// Name of the file with the authority's private key.
pub const CA_KEY: &str = "ca.key";
/// The keys that there may be while one authority follows another (see `rotation`).
pub(crate) const KEYS: [&str; 3] = [CA_KEY, "ca.next.key", "ca.old.key"];
/// The name of a cluster that nobody named.
const DEFAULT_CLUSTER: &str = "rail";

/// Why there is no authority.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// A file of the folder cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The key cannot be opened with what was given.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The certificate, or the two together.
    #[error(transparent)]
    Ca(#[from] CaError),
    /// Nothing is given to encrypt the key with.
    #[error(
        "nothing is given to encrypt the key with: --ca-passphrase-file, RAIL_CONTROLLER_CA_PASSPHRASE or --key-provider"
    )]
    NoGuard,
    /// There is nothing in the file of certificates.
    #[error("ca.pem holds no certificate")]
    NoCertificate,
    /// The step is not possible in the phase that the rotation is in.
    #[error("`ca {step}` cannot be done now: {is}")]
    Phase {
        /// The step that was to be done.
        step: &'static str,
        /// The phase that the rotation is in, in words.
        is: &'static str,
    },
}

/// The authority in a data folder.
#[derive(Debug)]
pub struct CaFolder {
    folder: PathBuf,
    pub(crate) guards: Guards,
}

impl CaFolder {
    /// The authority in `folder`, whose key is protected with what is here.
    #[must_use]
    pub fn new(folder: &Path, guards: Guards) -> Self {
        Self { folder: folder.to_owned(), guards }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Loads it, or makes it where neither file is there. A key whose certificate is missing (a crash between the two
    /// writes) gets a new certificate and keeps its pin; a certificate without its key is an error, because a new authority
    /// would lock out every node that trusts the old one.
    ///
    /// # Errors
    /// It cannot be read, its key does not open, or it is of another cluster than the one that is named.
    pub fn load_or_create(
        &self,
        cluster: Option<&str>,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Standing, AuthorityError> {
        let (certificate, key) = (self.file(CA_CERTIFICATE), self.file(CA_KEY));
        if certificate.exists() {
            return self.standing(cluster, now);
        }
        let ca = if key.exists() {
            self.certified_again(cluster, lifetime, now)?
        } else {
            let cluster = cluster.unwrap_or(DEFAULT_CLUSTER);
            let ca = Ca::create(cluster, now, lifetime)?;
            let form = self.guards.write(&key, Purpose::CaKey, &ca.key_pem())?;
            tracing::info!(cluster, ca_pin = %ca.pin(), key = %form, "the cluster's authority was made");
            ca
        };
        files::write_public(&certificate, ca.certificate_pem())?;
        Ok(Standing::alone(ca))
    }

    /// What [`CaFolder::load_or_create`] makes of a key whose certificate is missing; nothing is written.
    ///
    /// # Errors
    /// There is no key, or it does not open.
    pub fn certified_again(
        &self,
        cluster: Option<&str>,
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Ca, AuthorityError> {
        Ok(Ca::create_for(&self.key()?.0, cluster.unwrap_or(DEFAULT_CLUSTER), now, lifetime)?)
    }

    /// An authority of another cluster is none.
    pub(crate) fn check_cluster(&self, ca: &Ca, cluster: Option<&str>) -> Result<(), AuthorityError> {
        let Some(expected) = cluster.filter(|name| *name != ca.cluster()) else { return Ok(()) };
        let (expected, found) = (expected.to_owned(), ca.cluster().to_owned());
        Err(CaError::ForeignCa { expected, found }.into())
    }

    /// Says that the key is in the clear although it need not be.
    pub(crate) fn tell_of_a_clear_key(&self, form: &Form) {
        if *form == Form::Clear && self.guards.guards_the_authority() {
            tracing::warn!(
                key = %self.file(CA_KEY).display(),
                "the authority's key is in the clear, although there is something to encrypt it with: `rail-controller ca encrypt`"
            );
        }
    }

    pub(crate) fn key(&self) -> Result<(zeroize::Zeroizing<String>, Form), KeyError> {
        self.guards.read(&self.file(CA_KEY), Purpose::CaKey)
    }

    /// Protects the key with what is in `with`, whatever it was protected with before; the certificate and its pin stay. While
    /// one authority follows another, the keys of both.
    ///
    /// # Errors
    /// It does not open, or there is nothing to protect it with; it is then as it was.
    pub fn encrypt(&self, with: &Guards, now: SystemTime) -> Result<(Form, Form), AuthorityError> {
        if !with.guards_the_authority() {
            return Err(AuthorityError::NoGuard);
        }
        // A key that is not the certificate's would be found out at the next start only.
        self.standing(None, now)?;
        let all: Vec<_> = KEYS.iter().map(|name| self.file(name)).filter(|path| path.exists()).collect();
        let read = |path: &PathBuf| Ok((path.clone(), self.guards.read(path, Purpose::CaKey)?));
        // All of them first: none is left behind that only what is given up opens.
        let keys = all.iter().map(read).collect::<Result<Vec<_>, KeyError>>()?;
        let mut forms = (Form::Clear, Form::Clear);
        for (path, (key, before)) in &keys {
            let form = with.write(path, Purpose::CaKey, key)?;
            // What was written opens again, or whoever asked hears of it while the old key may still be had.
            with.read(path, Purpose::CaKey)?;
            if *path == self.file(CA_KEY) {
                forms = (before.clone(), form);
            }
        }
        Ok(forms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_rpc::ca::CA_LIFETIME;
    use std::fs;

    fn words(text: &str) -> Guards {
        Guards::default().with_passphrase(text, "test").unwrap()
    }

    fn ca(folder: &Path, guards: &Guards) -> Result<Standing, AuthorityError> {
        CaFolder::new(folder, guards.clone()).load_or_create(None, CA_LIFETIME, SystemTime::now())
    }

    fn pin(folder: &Path, guards: &Guards) -> proto_rpc::CaPin {
        ca(folder, guards).unwrap().issuing().pin()
    }

    #[test]
    fn a_new_authority_s_key_is_never_in_the_clear_where_a_passphrase_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let guards = words("correct horse battery");
        let made = pin(folder.path(), &guards);
        let key = fs::read_to_string(folder.path().join(CA_KEY)).unwrap();
        assert!(key.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"), "{key}");
        assert_eq!(pin(folder.path(), &guards), made);
        let reported = ca(folder.path(), &words("incorrect horse battery")).unwrap_err().to_string();
        assert!(reported.contains("does not open") && reported.contains("ca.key"), "{reported}");
        let reported = ca(folder.path(), &Guards::default()).unwrap_err().to_string();
        assert!(reported.contains("--ca-passphrase-file"), "{reported}");
        // A crash between the two writes.
        fs::remove_file(folder.path().join(CA_CERTIFICATE)).unwrap();
        assert_eq!(pin(folder.path(), &guards), made);
        fs::remove_file(folder.path().join(CA_KEY)).unwrap();
        assert!(matches!(ca(folder.path(), &guards), Err(AuthorityError::Key(KeyError::File(_)))));
    }

    #[test]
    fn a_plain_key_is_converted_and_keeps_its_pin() {
        let folder = tempfile::tempdir().unwrap();
        let made = pin(folder.path(), &Guards::default());
        let before = fs::read_to_string(folder.path().join(CA_KEY)).unwrap();
        assert!(before.contains("BEGIN PRIVATE KEY"));
        let now = SystemTime::now();
        let plain = CaFolder::new(folder.path(), Guards::default());
        assert!(matches!(plain.encrypt(&Guards::default(), now), Err(AuthorityError::NoGuard)));
        let first = words("correct horse battery");
        assert_eq!(plain.encrypt(&first, now).unwrap(), (Form::Clear, Form::Passphrase));
        let after = fs::read_to_string(folder.path().join(CA_KEY)).unwrap();
        assert!(!after.contains("BEGIN PRIVATE KEY"));
        assert!(plain.encrypt(&first, now).is_err(), "the old passphrase is needed to change it");
        let second = words("another horse battery");
        CaFolder::new(folder.path(), first.clone()).encrypt(&second, now).unwrap();
        assert!(ca(folder.path(), &first).is_err());
        assert_eq!(pin(folder.path(), &second), made);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let in_folder = CaFolder::new(folder.path(), Guards::default());
        let load = |cluster, at| in_folder.load_or_create(cluster, CA_LIFETIME, at);
        let now = SystemTime::now();
        load(Some("dev"), now).unwrap();
        assert_eq!(load(None, now).unwrap().issuing().cluster(), "dev");
        assert!(matches!(load(Some("prod"), now), Err(AuthorityError::Ca(CaError::ForeignCa { .. }))));
        assert!(matches!(load(None, now + CA_LIFETIME * 2), Err(AuthorityError::Ca(CaError::CaExpired))));
        let other = proto_rpc::KeyRequest::generate().unwrap().key_pem;
        files::write_secret(&folder.path().join(CA_KEY), &other).unwrap();
        assert!(matches!(load(None, now), Err(AuthorityError::Ca(CaError::KeyMismatch))));
        files::write_public(&folder.path().join(CA_KEY), &other).unwrap();
        assert!(matches!(load(None, now), Err(AuthorityError::Key(KeyError::Loose { .. }))));
    }
}
