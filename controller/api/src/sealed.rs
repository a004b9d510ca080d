//! What a browser holds for this process, and can neither read nor change: sealed with a key that this process alone has, for one purpose,
//! and good until a time.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand,
};
use data_encoding::BASE64URL_NOPAD;

/// Bytes of a sealed text at most: a cookie has room for 4096.
const MAX_SEALED: usize = 3800;
/// What was used is remembered up to this many; what has used it up is refused by the provider too.
const MAX_USED: usize = 4096;

/// Seals and opens.
pub(crate) struct Sealer {
    key: LessSafeKey,
    /// What may be opened once, and was.
    used: Mutex<VecDeque<Vec<u8>>>,
}

/// What a browser has shown, and may not have been spent.
pub(crate) struct Opened {
    /// What was sealed.
    pub text: String,
    nonce: Vec<u8>,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    /// With a new key; `None` if the system gives no random bytes.
    pub(crate) fn new() -> Option<Self> {
        let mut key = [0; 32];
        rand::fill(&mut key).ok()?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM_SIV, &key).ok()?);
        Some(Self { key, used: Mutex::default() })
    }

    /// Seals a text for a purpose until a time; `None` if it is too long, or the system gives no random bytes.
    pub(crate) fn seal(&self, purpose: &str, text: &str, until: SystemTime) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let ends = until.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let mut sealed = [&ends.to_be_bytes()[..], text.as_bytes()].concat();
        let (purpose, once) = (Aad::from(purpose.as_bytes()), Nonce::assume_unique_for_key(nonce));
        self.key.seal_in_place_append_tag(once, purpose, &mut sealed).ok()?;
        let text = BASE64URL_NOPAD.encode(&[&nonce[..], &sealed].concat());
        (text.len() <= MAX_SEALED).then_some(text)
    }

    /// What was sealed for that purpose, until it is spent; `None` for anything else, and afterwards.
    pub(crate) fn open(&self, purpose: &str, text: &str, now: SystemTime) -> Option<Opened> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok().filter(|_| text.len() <= MAX_SEALED)?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let once = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut opened = sealed.to_vec();
        let opened = self.key.open_in_place(once, Aad::from(purpose.as_bytes()), &mut opened).ok()?;
        let (ends, text) = opened.split_at_checked(8)?;
        let ends = u64::from_be_bytes(ends.try_into().ok()?);
        let good = now < UNIX_EPOCH + Duration::from_secs(ends);
        let text = std::str::from_utf8(text).ok().filter(|_| good)?.to_owned();
        Some(Opened { text, nonce: nonce.to_vec() })
    }

    /// What was opened, if it is used for the first time; from now on it is not.
    pub(crate) fn spend(&self, opened: Opened) -> Option<String> {
        let Opened { text, nonce } = opened;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains(&nonce) {
            return None;
        }
        if used.len() == MAX_USED {
            used.pop_front();
        }
        used.push_back(nonce);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_sealed_is_spent_once_for_its_purpose_and_in_time() {
        let sealer = Sealer::new().unwrap();
        let sealed = sealer.seal("a", "text", at(100)).unwrap();
        assert!(!sealed.contains("text"));
        assert!(sealer.open("b", &sealed, at(99)).is_none(), "another purpose");
        assert!(sealer.open("a", &sealed, at(100)).is_none(), "too late");
        assert!(Sealer::new().unwrap().open("a", &sealed, at(99)).is_none(), "another process");
        let open = || sealer.open("a", &sealed, at(99)).unwrap();
        assert_eq!(open().text, "text", "to be looked at is not to be spent");
        assert_eq!(sealer.spend(open()).as_deref(), Some("text"));
        assert_eq!(sealer.spend(open()), None, "the second time");
    }

    #[test]
    fn what_was_changed_is_nothing() {
        let sealer = Sealer::new().unwrap();
        let sealed = sealer.seal("a", "text", at(100)).unwrap();
        for at_byte in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at_byte] = if bytes[at_byte] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(sealer.open("a", &changed, at(99)).is_none(), "{at_byte}");
        }
        for bad in ["", "AA", &"A".repeat(MAX_SEALED + 4)] {
            assert!(sealer.open("a", bad, at(99)).is_none());
        }
        assert_eq!(sealer.seal("a", &"x".repeat(MAX_SEALED), at(100)), None, "no cookie has room for it");
    }
}
