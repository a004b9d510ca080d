//! Who wraps keys: something that has a key of its own which never leaves it, such as a KMS or a TPM.

use std::fmt;

use zeroize::Zeroizing;

use crate::{cipher, error::KeyError};

/// 32 random bytes that seal one secret file; wiped when dropped, never shown.
pub struct DataKey(Zeroizing<[u8; 32]>);

impl DataKey {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        Ok(Self(Zeroizing::new(cipher::random()?)))
    }

    /// One that was unwrapped; `None` where it is not of 32 bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Some(Self(Zeroizing::new(bytes.try_into().ok()?)))
    }

    /// The key itself, for who wraps it or uses it.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}

/// What a key is for. It is authenticated, so that one kind cannot be passed off as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The keys by which secret values of the store are sealed.
    StoreKeys,
    /// The private key of the cluster's authority.
    CaKey,
}

impl Purpose {
    /// Its name in files and for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StoreKeys => "store-keys",
            Self::CaKey => "ca-key",
        }
    }
}

/// Wraps and unwraps data keys. Called at the start, when a key is made, and when a file of keys is read again: not in any
/// call's way. May block for a bounded time.
pub trait KeyProvider: fmt::Debug + Send + Sync {
    /// What files say of who wrapped them, such as `file`, `passphrase` or `exec`.
    fn name(&self) -> &str;

    /// Wraps a key.
    ///
    /// # Errors
    /// [`KeyError`] that says why the provider did not wrap the key.
    fn wrap_key(&self, purpose: Purpose, key: &DataKey) -> Result<Vec<u8>, KeyError>;

    /// The key that was wrapped.
    ///
    /// # Errors
    /// Why not; also where it was wrapped by another key, or for another purpose.
    fn unwrap_key(&self, purpose: Purpose, wrapped: &[u8]) -> Result<DataKey, KeyError>;

    /// Whether it would answer now.
    ///
    /// # Errors
    /// [`KeyError`] that says why the provider cannot be used now.
    fn health(&self) -> Result<(), KeyError>;
}

/// What is authenticated with a wrapped key.
pub(crate) fn about(purpose: Purpose) -> Vec<u8> {
    [b"railyard wrapped key v1 ", purpose.as_str().as_bytes()].concat()
}
