//! Secret files: read whatever way they are protected, written as the operator wants them protected.

use std::{fmt, path::Path, sync::Arc};

use proto_rpc::files::{self};
use zeroize::Zeroizing;

use crate::{
    envelope::{Envelope, is_envelope},
    error::KeyError,
    passphrase, pkcs8,
    private::read_private,
    provider::{KeyProvider, Purpose},
};

/// How a secret file is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// Protected by the permissions of its file alone.
    Clear,
    /// Encrypted with a passphrase.
    Passphrase,
    /// Sealed with a key that this provider has wrapped.
    Provider(String),
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clear => f.write_str("in the clear"),
            Self::Passphrase => f.write_str("encrypted with a passphrase"),
            Self::Provider(name) => write!(f, "wrapped by the key provider '{name}'"),
        }
    }
}

impl Form {
    /// What a file's text is.
    ///
    /// # Errors
    /// It begins like an envelope and is none.
    pub fn of(text: &str, place: &str) -> Result<Self, KeyError> {
        if is_envelope(text) {
            Ok(Self::Provider(Envelope::parse(text, place)?.provider().to_owned()))
        } else if pkcs8::is_encrypted(text) {
            Ok(Self::Passphrase)
        } else {
            Ok(Self::Clear)
        }
    }
}

/// What the operator gave to protect secret files with.
#[derive(Debug, Clone, Default)]
pub struct Guards {
    provider: Option<Arc<dyn KeyProvider>>,
    passphrase: Option<Passphrase>,
}

#[derive(Clone)]
struct Passphrase(Arc<Zeroizing<String>>);

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase")
    }
}

impl Guards {
    /// A provider for the store's keys and, where there is no passphrase, for the authority's.
    #[must_use]
    pub fn with_provider(mut self, provider: Option<Arc<dyn KeyProvider>>) -> Self {
        self.provider = provider;
        self
    }

    /// A passphrase for the authority's key; `origin` names where it comes from.
    ///
    /// # Errors
    /// It is too short or too long.
    pub fn with_passphrase(mut self, passphrase: &str, origin: &str) -> Result<Self, KeyError> {
        self.passphrase = Some(Passphrase(Arc::new(passphrase::checked(passphrase, origin)?)));
        Ok(self)
    }

    /// The provider that wraps and unwraps keys; `None`: keys are not wrapped.
    #[must_use]
    pub fn provider(&self) -> Option<&dyn KeyProvider> {
        self.provider.as_deref()
    }

    /// Whether the authority's key can be protected with what is here.
    #[must_use]
    pub fn guards_the_authority(&self) -> bool {
        self.passphrase.is_some() || self.provider.is_some()
    }

    /// Reads a secret file, and says how it was protected.
    ///
    /// # Errors
    /// Others can read the file, or what it is protected with is not here.
    pub fn read(&self, path: &Path, purpose: Purpose) -> Result<(Zeroizing<String>, Form), KeyError> {
        let text = Zeroizing::new(read_private(path)?);
        let place = path.display().to_string();
        let form = Form::of(&text, &place)?;
        let plain = match &form {
            Form::Clear => text,
            Form::Passphrase => {
                let passphrase = self.passphrase.as_ref();
                let passphrase = passphrase.ok_or_else(|| KeyError::NoPassphrase { place: place.clone() })?;
                pkcs8::decrypt(&text, &passphrase.0, &place)?
            }
            Form::Provider(name) => {
                let none = || KeyError::NoProvider { place: place.clone(), provider: name.clone() };
                let provider = self.provider().ok_or_else(none)?;
                Envelope::parse(&text, &place)?.open(provider, purpose, &place)?
            }
        };
        Ok((plain, form))
    }

    /// Writes a secret file: the authority's key with the passphrase where there is one, else with the provider where
    /// there is one, else in the clear; readable by its owner only, whole or not at all.
    ///
    /// # Errors
    /// The provider refuses, or the file cannot be written.
    pub fn write(&self, path: &Path, purpose: Purpose, plain: &str) -> Result<Form, KeyError> {
        let place = path.display().to_string();
        let (text, form) = match (&self.passphrase, self.provider()) {
            (Some(passphrase), _) if purpose == Purpose::CaKey => {
                (pkcs8::encrypt(plain, &passphrase.0, &place)?, Form::Passphrase)
            }
            (_, Some(provider)) => {
                let text = Envelope::seal(provider, purpose, plain)?.to_text()?;
                (Zeroizing::new(text), Form::Provider(provider.name().to_owned()))
            }
            _ => (Zeroizing::new(plain.to_owned()), Form::Clear),
        };
        files::write_secret(path, &text)?;
        Ok(form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileProvider;
    use proto_rpc::KeyRequest;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_read_by_what_protects_it_and_named_where_that_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, kek) = (folder.path().join("ca.key"), folder.path().join("kek"));
        files::write_secret(&kek, &"0c".repeat(32)).unwrap();
        let key = KeyRequest::generate().unwrap().key_pem.replace("\r\n", "\n");
        let clear = Guards::default();
        let words = Guards::default().with_passphrase("correct horse battery", "test").unwrap();
        let wrong = Guards::default().with_passphrase("incorrect horse battery", "test").unwrap();
        let provider = Guards::default().with_provider(Some(Arc::new(FileProvider::new(&kek))));
        let read = |guards: &Guards| guards.read(&path, Purpose::CaKey);

        assert_eq!(clear.write(&path, Purpose::CaKey, &key).unwrap(), Form::Clear);
        assert_eq!(read(&words).unwrap().1, Form::Clear, "what an older release wrote is read");
        assert_eq!(words.write(&path, Purpose::CaKey, &key).unwrap(), Form::Passphrase);
        assert_eq!(read(&words).unwrap().0.trim(), key.trim());
        assert!(matches!(read(&clear), Err(KeyError::NoPassphrase { .. })));
        assert!(matches!(read(&provider), Err(KeyError::NoPassphrase { .. })));
        assert!(matches!(read(&wrong), Err(KeyError::WrongPassphrase { .. })));
        assert_eq!(provider.write(&path, Purpose::CaKey, &key).unwrap(), Form::Provider("file".to_owned()));
        assert_eq!(read(&provider).unwrap().0.trim(), key.trim());
        assert!(matches!(read(&words), Err(KeyError::NoProvider { .. })));
        assert!(!std::fs::read_to_string(&path).unwrap().contains("PRIVATE KEY"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let reported = read(&provider).unwrap_err().to_string();
        assert!(reported.contains("chmod 600"), "{reported}");
        assert!(!format!("{words:?}").contains("horse"));
    }
}
