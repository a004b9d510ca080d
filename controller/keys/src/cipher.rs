//! AES-256-GCM with a random nonce in front, for the few things that a key here ever seals.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand,
};
use zeroize::Zeroizing;

use crate::error::KeyError;

fn cipher(key: &[u8; 32]) -> Result<LessSafeKey, KeyError> {
    UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).map_err(|_| KeyError::Failed)
}

/// Bytes from the cryptographic random generator.
///
/// # Errors
/// [`KeyError::Failed`] if the system gives no random numbers.
pub fn random<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| KeyError::Failed)?;
    Ok(bytes)
}

/// Nonce, ciphertext and tag. A nonce may come twice with a chance of 2^-32 only after 2^32 messages of one key.
///
/// # Errors
/// [`KeyError::Failed`] if the cipher or the system's random numbers fail.
pub fn seal(key: &[u8; 32], about: &[u8], plain: &[u8]) -> Result<Vec<u8>, KeyError> {
    let nonce: [u8; NONCE_LEN] = random()?;
    let mut sealed = nonce.to_vec();
    sealed.extend_from_slice(plain);
    let tag = cipher(key)?
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(about),
            &mut sealed[NONCE_LEN..],
        )
        .map_err(|_| KeyError::Failed)?;
    sealed.extend_from_slice(tag.as_ref());
    Ok(sealed)
}

/// What was sealed; `None` where this is not it, or the key or `about` is another.
pub fn open(key: &[u8; 32], about: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut plain = Zeroizing::new(rest.to_vec());
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let length = cipher(key).ok()?.open_in_place(nonce, Aad::from(about), &mut plain).ok()?.len();
    plain.truncate(length);
    Some(plain)
}
