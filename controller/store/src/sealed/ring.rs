//! The keys that secret values are sealed with, from a file: the first seals, all of them open.
//!
//! A sealed value is `00 01`, the key's id (4 bytes), a salt (16 random bytes), and the ciphertext with its tag
//! (AES-256-GCM, NIST SP 800-38D). Each value has a key and a nonce of its own, derived from the ring's key and the salt
//! (HKDF-SHA-256, RFC 5869), so that no number of values wears a key out; the row's name is authenticated with it, so
//! that values cannot be exchanged. No message of ours begins with a zero byte: so plain values are distinguished.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{self, HKDF_SHA256};
use aws_lc_rs::rand;
use bytes::Bytes;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use proto_rpc::files::{self, FileError};

/// What a sealed value begins with; the second byte is the format.
const MARK: [u8; 2] = [0, 1];
const SALT: usize = 16;
const TAG: usize = 16;
const HEAD: usize = MARK.len() + 4 + SALT;
/// By so many bytes a sealed value is longer.
pub const OVERHEAD: usize = HEAD + TAG;
/// Keys that a file may hold.
const MOST_KEYS: usize = 64;
/// A file that lacks a key is read again at most so often.
const READ_AGAIN: Duration = Duration::from_secs(1);
const HEADING: &str =
    "# Keys of secret values in the store: the first seals, all of them open. Lose none that is in use.\n";
const INFO: &[u8] = b"railyard store value v1";

/// Names a key without telling it: the first 4 bytes of its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// What is wrong with a file of keys, or with a sealed value.
#[derive(Debug, thiserror::Error)]
pub enum KeyRingError {
    /// The file of keys cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Others can read it.
    #[error("{} can be read by others (mode {mode:03o}); chmod 600 it", path.display())]
    Open {
        /// The path of the file.
        path: PathBuf,
        /// The permission bits that the file has.
        mode: u32,
    },
    /// A line that is no key.
    #[error("{}, line {line}: a key is 64 hex digits (rail-controller store key makes one)", path.display())]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    /// The same key, or two keys with one id.
    #[error("{}, line {line}: key {id} is there twice", path.display())]
    Twice {
        /// The path of the file.
        path: PathBuf,
        /// The number of the second one's line, from 1.
        line: usize,
        /// The id that the two keys share.
        id: KeyId,
    },
    /// Not a single key, or too many.
    #[error("{} holds {count} keys; it must hold 1 to {MOST_KEYS}", path.display())]
    Count {
        /// The path of the file.
        path: PathBuf,
        /// The number of keys in it.
        count: usize,
    },
    /// Whoever protects the file does not give it out.
    #[error("{cause}")]
    Protected {
        /// What it says; it names the file.
        cause: String,
    },
    /// There is no such key.
    #[error("it is sealed with key {id}, {}", match path {
        Some(path) => format!("which is not in {}", path.display()),
        None => "and no keys are given: --store-keys, or store.keys in the data folder".to_owned(),
    })]
    NoKey {
        /// The key that is needed.
        id: KeyId,
        /// Where it was looked for.
        path: Option<PathBuf>,
    },
    /// Not what was sealed.
    #[error("it is sealed with key {id} and was changed since, or belongs to another row")]
    Forged {
        /// The id of the key that the value names.
        id: KeyId,
    },
    /// Written by something newer, or cut.
    #[error("it is sealed in a way that this release does not know")]
    Unknown,
    /// The system's random numbers or the cipher.
    #[error("sealing failed")]
    Failed,
}

struct Key {
    id: KeyId,
    secret: hkdf::Prk,
}

/// 32 bytes of key and 12 of nonce.
struct Derived;

impl hkdf::KeyType for Derived {
    fn len(&self) -> usize {
        44
    }
}

impl Key {
    fn new(bytes: &[u8; 32]) -> Self {
        let hash = digest(&SHA256, bytes);
        let mut id = [0; 4];
        id.copy_from_slice(&hash.as_ref()[..4]);
        Key { id: KeyId(id), secret: hkdf::Prk::new_less_safe(HKDF_SHA256, bytes) }
    }

    /// The cipher of one value.
    fn cipher(&self, salt: &[u8]) -> Result<(LessSafeKey, Nonce), KeyRingError> {
        let mut derived = [0; 44];
        self.secret
            .expand(&[INFO, salt], Derived)
            .and_then(|okm| okm.fill(&mut derived))
            .map_err(|_| KeyRingError::Failed)?;
        let (key, nonce) = derived.split_at(32);
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| KeyRingError::Failed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| KeyRingError::Failed)?;
        Ok((LessSafeKey::new(key), nonce))
    }
}

impl FromStr for KeyId {
    type Err = KeyRingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u32::from_str_radix(text, 16).ok().filter(|_| digits).ok_or(KeyRingError::Unknown)?;
        Ok(KeyId(id.to_be_bytes()))
    }
}

/// Gives the text of a file of keys, however that is protected.
type Reader = Box<dyn Fn(&Path) -> Result<String, KeyRingError> + Send + Sync>;

/// Keys by which values are sealed and opened. Without a file it seals nothing, and names what it cannot open.
pub struct KeyRing {
    path: Option<PathBuf>,
    reader: Reader,
    keys: RwLock<Arc<[Key]>>,
    read: Mutex<Instant>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("path", &self.path).finish_non_exhaustive()
    }
}

impl KeyRing {
    /// A ring without keys: it leaves values plain, and opens no sealed one.
    #[must_use]
    pub fn empty() -> Self {
        Self::new(None, Box::new(read), Arc::new([]))
    }

    fn new(path: Option<PathBuf>, reader: Reader, keys: Arc<[Key]>) -> Self {
        KeyRing { path, reader, keys: RwLock::new(keys), read: Mutex::new(Instant::now()) }
    }

    /// The keys of a file: one in a line, as 64 hex digits; `#` begins a comment. Where a value names a key that is
    /// not there, the file is read again.
    ///
    /// # Errors
    /// The file cannot be read, can be read by others, or holds something else.
    pub fn open(path: &Path) -> Result<Self, KeyRingError> {
        Self::open_with(path, read)
    }

    /// The keys of a file that `reader` can read.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub fn open_with(
        path: &Path,
        reader: impl Fn(&Path) -> Result<String, KeyRingError> + Send + Sync + 'static,
    ) -> Result<Self, KeyRingError> {
        let keys = parse(&reader(path)?, path)?;
        Ok(Self::new(Some(path.to_owned()), Box::new(reader), keys))
    }

    /// Puts a new key in front of a file's, which is made where there is none. Gives its id.
    ///
    /// # Errors
    /// As [`open`](Self::open); what was there is as it was.
    pub fn add_key(path: &Path) -> Result<KeyId, KeyRingError> {
        let before = path.exists().then(|| read(path)).transpose()?;
        let (id, text) = Self::with_new_key(before.as_deref(), path)?;
        files::write_secret(path, &text)?;
        Ok(id)
    }

    /// The text of a file of keys with a new one in front, and its id; `path` names the file in errors.
    ///
    /// # Errors
    /// The text before is of no such file, or there are no random numbers.
    pub fn with_new_key(before: Option<&str>, path: &Path) -> Result<(KeyId, String), KeyRingError> {
        let mut secret = [0; 32];
        rand::fill(&mut secret).map_err(|_| KeyRingError::Failed)?;
        let id = Key::new(&secret).id;
        if let Some(before) = before {
            parse(before, path)?;
        }
        let before = before.unwrap_or(HEADING);
        let (comments, keys): (Vec<_>, Vec<_>) = before.lines().partition(|line| line.starts_with('#'));
        let hex = HEXLOWER.encode(&secret);
        let lines: Vec<_> = comments.into_iter().chain([hex.as_str()]).chain(keys).collect();
        Ok((id, lines.join("\n") + "\n"))
    }

    /// Whether a key is here; where it is not, the file is read again.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub fn has(&self, id: KeyId) -> Result<bool, KeyRingError> {
        let among = |keys: &[Key]| keys.iter().any(|key| key.id == id);
        Ok(among(&self.keys()) || among(&self.again()?))
    }

    /// The key that seals.
    #[must_use]
    pub fn newest(&self) -> Option<KeyId> {
        self.keys().first().map(|key| key.id)
    }

    /// The key that a value is sealed with; `None` for a plain one.
    ///
    /// # Errors
    /// Sealed in a way that this release does not know.
    pub fn sealed_with(value: &[u8]) -> Result<Option<KeyId>, KeyRingError> {
        match value.strip_prefix(&MARK) {
            Some(rest) if value.len() >= OVERHEAD => {
                let mut id = [0; 4];
                id.copy_from_slice(&rest[..4]);
                Ok(Some(KeyId(id)))
            }
            None if value.first() != Some(&0) => Ok(None),
            _ => Err(KeyRingError::Unknown),
        }
    }

    /// Seals the value of a row; as it is where there are no keys.
    ///
    /// # Errors
    /// No random numbers.
    pub fn seal(&self, row: &[u8], value: &Bytes) -> Result<Bytes, KeyRingError> {
        let keys = self.keys();
        let Some(key) = keys.first() else { return Ok(value.clone()) };
        let mut sealed = Vec::with_capacity(value.len() + OVERHEAD);
        sealed.extend(MARK);
        sealed.extend(key.id.0);
        sealed.resize(HEAD, 0);
        rand::fill(&mut sealed[HEAD - SALT..]).map_err(|_| KeyRingError::Failed)?;
        let (cipher, nonce) = key.cipher(&sealed[HEAD - SALT..])?;
        sealed.extend_from_slice(value);
        let tag = cipher
            .seal_in_place_separate_tag(nonce, Aad::from(row), &mut sealed[HEAD..])
            .map_err(|_| KeyRingError::Failed)?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed.into())
    }

    /// The plain value of a row.
    ///
    /// # Errors
    /// Its key is not there, or it is not what was sealed.
    pub fn open_value(&self, row: &[u8], value: &Bytes) -> Result<Bytes, KeyRingError> {
        let Some(id) = Self::sealed_with(value)? else { return Ok(value.clone()) };
        let mut keys = self.keys();
        if !keys.iter().any(|key| key.id == id) {
            keys = self.again()?;
        }
        let key = keys
            .iter()
            .find(|key| key.id == id)
            .ok_or_else(|| KeyRingError::NoKey { id, path: self.path.clone() })?;
        let (cipher, nonce) = key.cipher(&value[HEAD - SALT..HEAD])?;
        let mut plain = value[HEAD..].to_vec();
        let length = cipher
            .open_in_place(nonce, Aad::from(row), &mut plain)
            .map_err(|_| KeyRingError::Forged { id })?
            .len();
        plain.truncate(length);
        Ok(plain.into())
    }

    fn keys(&self) -> Arc<[Key]> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the file again, unless that was done just now.
    fn again(&self) -> Result<Arc<[Key]>, KeyRingError> {
        let Some(path) = &self.path else { return Ok(self.keys()) };
        let mut last = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() >= READ_AGAIN {
            let keys = parse(&(self.reader)(path)?, path)?;
            *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
            *last = Instant::now();
        }
        Ok(self.keys())
    }
}

/// The text of a file that only its owner can read.
fn read(path: &Path) -> Result<String, KeyRingError> {
    use std::os::unix::fs::PermissionsExt;
    let text = files::read_text(path)?;
    let mode = std::fs::metadata(path)
        .map_err(|source| FileError::Io { action: "read", path: path.to_owned(), source })?
        .permissions()
        .mode()
        & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyRingError::Open { path: path.to_owned(), mode });
    }
    Ok(text)
}

fn parse(text: &str, path: &Path) -> Result<Arc<[Key]>, KeyRingError> {
    let mut keys: Vec<Key> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let line_number = at + 1;
        let wrong = || KeyRingError::Line { path: path.to_owned(), line: line_number };
        let key = Key::new(&secret(line).ok_or_else(wrong)?);
        if keys.iter().any(|other| other.id == key.id) {
            return Err(KeyRingError::Twice { path: path.to_owned(), line: line_number, id: key.id });
        }
        keys.push(key);
    }
    if keys.is_empty() || keys.len() > MOST_KEYS {
        return Err(KeyRingError::Count { path: path.to_owned(), count: keys.len() });
    }
    Ok(keys.into())
}

fn secret(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let whole = text.len() == 64 && HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), &mut bytes).is_ok();
    whole.then_some(bytes)
}
