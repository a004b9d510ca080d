//! Page tokens of lists: opaque to callers, and of no use to anybody but the caller and the list that they were made for.
//!
//! A token is sealed (AES-256-GCM-SIV) with a key that all controllers of a cluster share. What it is bound to (the call,
//! whose things are listed, the filter) is authenticated with it. Lower-case hex of
//! `version (1) | nonce (12) | sealed (revision (8) | expires (8) | length (2) | after | zeros) | tag (16)`; the zeros fill up
//! to a multiple of 64 bytes, so that its length does not tell how long a name is.

use crate::hex::to_hex;
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use data_encoding::HEXLOWER;
use std::fmt;

/// Bytes of the key.
pub const KEY_BYTES: usize = 32;
/// Longest part of a key that a position names, in bytes.
const MAX_AFTER: usize = 512;
/// Before `after`: the revision, the end, and the length.
const HEAD: usize = 18;
/// Sealed bytes are a multiple of this.
const BLOCK: usize = 64;
const TAG: usize = 16;
const VERSION: u8 = 1;
/// Bytes of the longest token.
const MAX_BYTES: usize = 1 + NONCE_LEN + (HEAD + MAX_AFTER).next_multiple_of(BLOCK) + TAG;

/// Where a list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The revision that all pages of the list are of.
    pub revision: u64,
    /// The token is good until then, in milliseconds since 1970.
    pub expires_ms: u64,
    /// What the next page begins after.
    pub after: Vec<u8>,
}

/// Why there is no position, or no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageTokenError {
    /// Forged, damaged, of another list or caller, of another cluster, or made with an earlier key.
    #[error("was not given to you by this very list; begin again without one")]
    Foreign,
    /// The token's time is over.
    #[error("has expired; begin again without one")]
    Expired,
    /// A position that no list has.
    #[error("cannot be made: a stored key is longer than {MAX_AFTER} bytes")]
    TooLong,
    /// The system's random source failed, or the key has the wrong length.
    #[error(
        "cannot be made: the system gave no random bytes, or the cluster's key for page tokens is damaged"
    )]
    NoKey,
}

/// What a token is bound to; each part counts by itself.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a>(pub &'a [&'a [u8]]);

impl Binding<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"rail page token 1".to_vec();
        for part in self.0 {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(*part);
        }
        bytes
    }
}

/// The key of a cluster's page tokens.
#[derive(Clone)]
pub struct PageKey([u8; KEY_BYTES]);

impl fmt::Debug for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageKey")
    }
}

impl PageKey {
    /// A new one from the system's random source.
    ///
    /// # Errors
    /// [`PageTokenError::NoKey`] if the system gives no random numbers.
    pub fn generate() -> Result<Self, PageTokenError> {
        let mut key = [0; KEY_BYTES];
        rand::fill(&mut key).map_err(|_| PageTokenError::NoKey)?;
        Ok(Self(key))
    }

    /// The key with the 32 bytes that were stored.
    ///
    /// # Errors
    /// [`PageTokenError::NoKey`] for any other number of bytes.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, PageTokenError> {
        bytes.try_into().map(Self).map_err(|_| PageTokenError::NoKey)
    }

    /// The bytes of the key for the store; a secret.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn aead(&self) -> Result<LessSafeKey, PageTokenError> {
        let key = UnboundKey::new(&AES_256_GCM_SIV, &self.0).map_err(|_| PageTokenError::NoKey)?;
        Ok(LessSafeKey::new(key))
    }

    /// The token of a position.
    ///
    /// # Errors
    /// [`PageTokenError::TooLong`] if the key that the next page begins after is too long, [`PageTokenError::NoKey`] if the cipher or the
    /// system's random numbers fail.
    pub fn seal(&self, binding: Binding<'_>, position: &Position) -> Result<String, PageTokenError> {
        let length =
            u16::try_from(position.after.len()).ok().filter(|length| usize::from(*length) <= MAX_AFTER);
        let length = length.ok_or(PageTokenError::TooLong)?;
        let mut sealed = Vec::with_capacity(MAX_BYTES);
        sealed.extend(position.revision.to_be_bytes());
        sealed.extend(position.expires_ms.to_be_bytes());
        sealed.extend(length.to_be_bytes());
        sealed.extend(&position.after);
        sealed.resize(sealed.len().next_multiple_of(BLOCK), 0);
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| PageTokenError::NoKey)?;
        let unique = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(binding.bytes());
        let done = self.aead()?.seal_in_place_append_tag(unique, aad, &mut sealed);
        done.map_err(|_| PageTokenError::NoKey)?;
        Ok(to_hex(&[&[VERSION][..], &nonce, &sealed].concat()))
    }

    /// The position of a token that this key made for this binding.
    ///
    /// # Errors
    /// [`PageTokenError::Foreign`] if the token was changed or made for another caller, list or cluster, [`PageTokenError::Expired`] if
    /// its time is over, [`PageTokenError::NoKey`] if the key cannot be used.
    pub fn open(&self, binding: Binding<'_>, token: &str, now_ms: u64) -> Result<Position, PageTokenError> {
        let foreign = PageTokenError::Foreign;
        let bytes = from_hex(token).ok_or(foreign)?;
        let (version, rest) = bytes.split_first().ok_or(foreign)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN).ok_or(foreign)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| foreign)?;
        if *version != VERSION {
            return Err(foreign);
        }
        let mut sealed = sealed.to_vec();
        let opened = self.aead()?.open_in_place(nonce, Aad::from(binding.bytes()), &mut sealed);
        let position = opened.ok().and_then(|plain| read(plain)).ok_or(foreign)?;
        if position.expires_ms <= now_ms { Err(PageTokenError::Expired) } else { Ok(position) }
    }
}

fn read(plain: &[u8]) -> Option<Position> {
    let (revision, rest) = plain.split_first_chunk::<8>()?;
    let (expires, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let after = rest.get(..usize::from(u16::from_be_bytes(*length)))?.to_vec();
    let (revision, expires_ms) = (u64::from_be_bytes(*revision), u64::from_be_bytes(*expires));
    Some(Position { revision, expires_ms, after })
}

/// Bytes from lower-case hex, as many as a token can have.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() > 2 * MAX_BYTES { None } else { HEXLOWER.decode(text.as_bytes()).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(after: &str) -> Position {
        Position { revision: 294, expires_ms: 1000, after: after.as_bytes().to_vec() }
    }

    #[test]
    fn a_token_is_opened_by_whom_it_was_made_for_and_by_nobody_else() {
        let (key, other) = (PageKey::generate().unwrap(), PageKey::generate().unwrap());
        let (call, tenant): (&[u8], &[u8]) = (b"ListJobs", b"u1");
        let binding = [call, tenant];
        let token = key.seal(Binding(&binding), &position("alpha-merger-2027")).unwrap();
        assert_eq!(key.open(Binding(&binding), &token, 999), Ok(position("alpha-merger-2027")));
        assert_eq!(key.open(Binding(&binding), &token, 1000), Err(PageTokenError::Expired));
        let again = PageKey::of_bytes(key.bytes()).unwrap();
        assert!(
            again.open(Binding(&binding), &token, 0).is_ok(),
            "after a restart, and by another controller"
        );
        assert_eq!(other.open(Binding(&binding), &token, 0), Err(PageTokenError::Foreign));
        let foreign: [&[&[u8]]; 4] = [&[b"ListJobs", b"u2"], &[b"ListQueues", b"u1"], &[b"ListJobsu1"], &[]];
        for binding in foreign {
            assert_eq!(key.open(Binding(binding), &token, 0), Err(PageTokenError::Foreign));
        }
        assert!(PageKey::of_bytes(b"short").is_err());
        assert_eq!(format!("{key:?}"), "PageKey");
    }

    #[test]
    fn every_change_of_a_token_is_noticed() {
        let key = PageKey::generate().unwrap();
        let token = key.seal(Binding(&[b"x"]), &position("n0")).unwrap();
        let open = |token: &str| key.open(Binding(&[b"x"]), token, 0);
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(open(&String::from_utf8(forged).unwrap()), Err(PageTokenError::Foreign), "{at}");
            assert_eq!(open(&token[..at]), Err(PageTokenError::Foreign), "{at}");
        }
        let long = "00".repeat(MAX_BYTES + 1);
        for bad in ["", "0", "294.alpha", "1.a", &token.to_uppercase(), &format!("{token}00"), &long] {
            assert_eq!(open(bad), Err(PageTokenError::Foreign), "{bad}");
        }
    }

    #[test]
    fn a_token_tells_nothing_and_not_even_how_long_a_name_is() {
        let key = PageKey::generate().unwrap();
        let seal = |after: &str| key.seal(Binding(&[]), &position(after));
        let short = seal("a").unwrap();
        let long = seal("alpha-merger-2027").unwrap();
        assert_eq!(short.len(), long.len());
        assert!(!long.contains("616c706861"), "hex of alpha");
        assert_ne!(seal("a").unwrap(), short);
        assert!(seal(&"x".repeat(MAX_AFTER)).unwrap().len() <= 2 * MAX_BYTES);
        assert_eq!(seal(&"x".repeat(MAX_AFTER + 1)), Err(PageTokenError::TooLong));
    }
}
