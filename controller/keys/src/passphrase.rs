//! A provider whose key comes of a passphrase, by scrypt (RFC 7914).

use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::{
    cipher,
    error::KeyError,
    private,
    provider::{DataKey, KeyProvider, Purpose, about},
};

/// Shortest and longest passphrase, in bytes.
const LEAST: usize = 12;
const MOST: usize = 1024;
/// The costs of scrypt, as OWASP advises for 16 MiB: a tenth to a fifth of a second; OpenSSL reads it too.
pub(crate) const LOG_N: u8 = 14;
pub(crate) const R: u32 = 8;
pub(crate) const P: u32 = 5;
/// What a file may ask of us: 1 GiB and some seconds.
const MOST_LOG_N: u8 = 20;
const MOST_R: u32 = 8;
const MOST_P: u32 = 16;
const SALT: usize = 16;
const FORMAT: u8 = 1;
const HEAD: usize = 4;

/// Whether deriving a key with such costs is bounded.
pub(crate) fn bounded(log_n: u8, r: u32, p: u32) -> bool {
    (1..=MOST_LOG_N).contains(&log_n) && (1..=MOST_R).contains(&r) && (1..=MOST_P).contains(&p)
}

/// The passphrase of a file: its first line.
///
/// # Errors
/// Others can read the file, or it is too short or too long.
pub fn read_passphrase(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    let text = private::read_private(path)?;
    checked(text.lines().next().unwrap_or_default(), &path.display().to_string())
}

/// A passphrase of the right length.
pub(crate) fn checked(passphrase: &str, origin: &str) -> Result<Zeroizing<String>, KeyError> {
    if !(LEAST..=MOST).contains(&passphrase.len()) {
        let (origin, length) = (origin.to_owned(), passphrase.len());
        return Err(KeyError::PassphraseLength { origin, length, least: LEAST, most: MOST });
    }
    Ok(Zeroizing::new(passphrase.to_owned()))
}

/// Wraps with a key that comes of the passphrase in a file.
#[derive(Debug)]
pub struct PassphraseProvider {
    path: PathBuf,
}

impl PassphraseProvider {
    /// The passphrase in `path`, which is read whenever it is used.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    fn derive(&self, salt: &[u8], log_n: u8, r: u32, p: u32) -> Result<Zeroizing<[u8; 32]>, KeyError> {
        let passphrase = read_passphrase(&self.path)?;
        let costs = scrypt::Params::new(log_n, r, p, 32).map_err(|_| KeyError::Failed)?;
        let mut key = Zeroizing::new([0; 32]);
        scrypt::scrypt(passphrase.as_bytes(), salt, &costs, key.as_mut()).map_err(|_| KeyError::Failed)?;
        Ok(key)
    }
}

impl KeyProvider for PassphraseProvider {
    fn name(&self) -> &str {
        "passphrase"
    }

    /// Format, costs, salt, and what is sealed.
    fn wrap_key(&self, purpose: Purpose, key: &DataKey) -> Result<Vec<u8>, KeyError> {
        let salt: [u8; SALT] = cipher::random()?;
        let wrapping = self.derive(&salt, LOG_N, R, P)?;
        let costs = [R, P].map(|cost| u8::try_from(cost).unwrap_or(u8::MAX));
        let mut wrapped = vec![FORMAT, LOG_N, costs[0], costs[1]];
        wrapped.extend_from_slice(&salt);
        wrapped.extend(cipher::seal(&wrapping, &about(purpose), key.bytes())?);
        Ok(wrapped)
    }

    fn unwrap_key(&self, purpose: Purpose, wrapped: &[u8]) -> Result<DataKey, KeyError> {
        let refused =
            |detail: &str| KeyError::Refused { provider: self.name().to_owned(), detail: detail.to_owned() };
        let Some((&[FORMAT, log_n, r, p], rest)) = wrapped.split_first_chunk::<HEAD>() else {
            return Err(refused("it is of a format that this release does not know"));
        };
        let (r, p) = (u32::from(r), u32::from(p));
        if !bounded(log_n, r, p) || rest.len() < SALT {
            return Err(refused("it was cut, or asks for too much work"));
        }
        let (salt, sealed) = rest.split_at(SALT);
        let wrapping = self.derive(salt, log_n, r, p)?;
        let opened = cipher::open(&wrapping, &about(purpose), sealed);
        opened
            .and_then(|bytes| DataKey::of(&bytes))
            .ok_or_else(|| refused(&format!("the passphrase in {} is another one", self.path.display())))
    }

    fn health(&self) -> Result<(), KeyError> {
        read_passphrase(&self.path).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_rpc::files;

    #[test]
    fn only_the_same_passphrase_unwraps_and_work_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        let provider = PassphraseProvider::new(&path);
        files::write_secret(&path, "correct horse battery\nsecond line\n").unwrap();
        let key = DataKey::generate().unwrap();
        let wrapped = provider.wrap_key(Purpose::CaKey, &key).unwrap();
        assert_eq!(provider.unwrap_key(Purpose::CaKey, &wrapped).unwrap().bytes(), key.bytes());
        for (at, value) in [(0, 9), (1, 60), (1, 0), (2, 200), (3, 200)] {
            let mut costly = wrapped.clone();
            costly[at] = value;
            assert!(matches!(provider.unwrap_key(Purpose::CaKey, &costly), Err(KeyError::Refused { .. })));
        }
        for end in [0, 3, HEAD, HEAD + SALT, wrapped.len() - 1] {
            assert!(provider.unwrap_key(Purpose::CaKey, &wrapped[..end]).is_err(), "{end}");
        }
        files::write_secret(&path, "incorrect horse battery").unwrap();
        let reported = provider.unwrap_key(Purpose::CaKey, &wrapped).unwrap_err().to_string();
        assert!(reported.contains("passphrase in"), "{reported}");
        files::write_secret(&path, "short").unwrap();
        assert!(matches!(provider.health(), Err(KeyError::PassphraseLength { .. })));
    }
}
