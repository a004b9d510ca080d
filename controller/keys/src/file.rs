//! A provider whose key is a file: on another disk, a removable one, or what a service manager hands over.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER_PERMISSIVE;
use zeroize::Zeroizing;

use crate::{
    cipher,
    error::KeyError,
    private,
    provider::{DataKey, KeyProvider, Purpose, about},
};

/// Wraps with the key in a file (64 hex digits; `#` begins a comment).
#[derive(Debug)]
pub struct FileProvider {
    path: PathBuf,
}

impl FileProvider {
    /// The key in `path`, which is read whenever it is used.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    fn key(&self) -> Result<Zeroizing<[u8; 32]>, KeyError> {
        let text = private::read_private(&self.path)?;
        let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let wrong = || KeyError::NotAKey { path: self.path.clone() };
        let line = lines.find(|line| !line.is_empty()).ok_or_else(wrong)?;
        hex(line).ok_or_else(wrong)
    }
}

impl KeyProvider for FileProvider {
    fn name(&self) -> &str {
        "file"
    }

    fn wrap_key(&self, purpose: Purpose, key: &DataKey) -> Result<Vec<u8>, KeyError> {
        cipher::seal(&*self.key()?, &about(purpose), key.bytes())
    }

    fn unwrap_key(&self, purpose: Purpose, wrapped: &[u8]) -> Result<DataKey, KeyError> {
        let opened = cipher::open(&*self.key()?, &about(purpose), wrapped);
        opened.and_then(|bytes| DataKey::of(&bytes)).ok_or_else(|| KeyError::Refused {
            provider: self.name().to_owned(),
            detail: format!("the key in {} is another one", self.path.display()),
        })
    }

    fn health(&self) -> Result<(), KeyError> {
        self.key().map(drop)
    }
}

fn hex(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    let whole = text.len() == 64 && HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), &mut *bytes).is_ok();
    whole.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_rpc::files;

    #[test]
    fn only_the_same_file_and_purpose_unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        files::write_secret(&one, &format!("# ours\n{}\n", "0a".repeat(32))).unwrap();
        files::write_secret(&two, &"0b".repeat(32)).unwrap();
        let (right, wrong) = (FileProvider::new(&one), FileProvider::new(&two));
        let key = DataKey::generate().unwrap();
        let wrapped = right.wrap_key(Purpose::CaKey, &key).unwrap();
        assert_eq!(right.unwrap_key(Purpose::CaKey, &wrapped).unwrap().bytes(), key.bytes());
        assert!(matches!(right.unwrap_key(Purpose::StoreKeys, &wrapped), Err(KeyError::Refused { .. })));
        let reported = wrong.unwrap_key(Purpose::CaKey, &wrapped).unwrap_err().to_string();
        assert!(reported.contains("two") && wrong.health().is_ok(), "{reported}");
        for bad in ["", "# nothing", "0a", &"zz".repeat(32)] {
            files::write_secret(&two, bad).unwrap();
            assert!(matches!(wrong.health(), Err(KeyError::NotAKey { .. })), "{bad:?}");
        }
        files::write_public(&two, &"0b".repeat(32)).unwrap();
        assert!(matches!(wrong.health(), Err(KeyError::Loose { .. })));
    }
}
