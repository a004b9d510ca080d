//! Which provider, as an option says it.

use std::{path::PathBuf, str::FromStr, sync::Arc};

use crate::{FileProvider, KeyError, KeyProvider, PassphraseProvider, ProgramProvider};

/// A provider by its option: `file:PATH`, `passphrase-file:PATH` or `exec:PROGRAM`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderSpec {
    /// A file that holds a key-encryption key.
    File(PathBuf),
    /// A file that holds a passphrase.
    Passphrase(PathBuf),
    /// A program of the site, which wraps and unwraps keys.
    Program(PathBuf),
}

impl ProviderSpec {
    /// The provider that is meant.
    ///
    /// # Errors
    /// A program that cannot be one.
    pub fn open(&self) -> Result<Arc<dyn KeyProvider>, KeyError> {
        Ok(match self {
            Self::File(path) => Arc::new(FileProvider::new(path)),
            Self::Passphrase(path) => Arc::new(PassphraseProvider::new(path)),
            Self::Program(path) => Arc::new(ProgramProvider::new(path)?),
        })
    }
}

impl FromStr for ProviderSpec {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || KeyError::NoSuchProvider { text: text.to_owned() };
        let (kind, path) = text.split_once(':').ok_or_else(wrong)?;
        let path = PathBuf::from(path);
        match kind {
            _ if path.as_os_str().is_empty() => Err(wrong()),
            "file" => Ok(Self::File(path)),
            "passphrase-file" => Ok(Self::Passphrase(path)),
            "exec" if path.is_absolute() => Ok(Self::Program(path)),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_named() {
        let read = |text: &str| text.parse::<ProviderSpec>();
        assert_eq!(read("file:/a").unwrap(), ProviderSpec::File("/a".into()));
        assert_eq!(read("passphrase-file:b").unwrap(), ProviderSpec::Passphrase("b".into()));
        assert_eq!(read("exec:/usr/bin/kms").unwrap(), ProviderSpec::Program("/usr/bin/kms".into()));
        for bad in ["", "file", "file:", "exec:kms", "kms:/a", "/a"] {
            assert!(matches!(read(bad), Err(KeyError::NoSuchProvider { .. })), "{bad}");
        }
    }
}
