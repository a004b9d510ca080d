//! Signed tokens in the compact form (RFC 7515) and sets of keys (RFC 7517), of the algorithms that are taken (RFC 7518, RFC 8037).

use std::time::{Duration, SystemTime};

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use data_encoding::BASE64URL_NOPAD;
use serde_json::Value;

use crate::refused::{MAX_TOKEN, Refused};

/// Keys of a set at most.
pub const MAX_KEYS: usize = 64;
/// Bytes of a key's id at most.
const MAX_KID: usize = 256;
/// Bytes of an RSA modulus at least and at most: 2048 and 8192 bits.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=1024;

/// What a token may be signed with. Neither `none` nor what shares a secret is among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alg {
    /// RSA, PKCS #1 v1.5, SHA-256.
    Rs256,
    /// RSA, PSS, SHA-256.
    Ps256,
    /// ECDSA on P-256, SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl Alg {
    /// All that are taken.
    pub const ALL: [Self; 4] = [Self::Rs256, Self::Ps256, Self::Es256, Self::EdDsa];

    /// The name in headers and keys.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|alg| alg.as_str() == name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Uncompressed, 65 bytes.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A public key of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    kid: Option<String>,
    /// The one algorithm that it says it is for.
    alg: Option<Alg>,
    material: Material,
}

/// Why a text is no set of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// It is no JSON object with a list `keys`.
    #[error("is not a set of keys (RFC 7517)")]
    Malformed,
    /// There are too many.
    #[error("has more than {MAX_KEYS} keys")]
    TooMany,
    /// None is of a kind that is taken.
    #[error(
        "has no key that a token may be signed with here (RS256 or PS256 with 2048 bits or more, ES256, EdDSA)"
    )]
    None,
}

/// The public keys of a provider that can be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// Reads a set of keys. Keys of other kinds, for other uses or with less than 2048 bits are passed over.
    ///
    /// # Errors
    /// [`KeysError`] if the text is no set of keys, or nothing in it can be used.
    pub fn read(text: &[u8]) -> Result<Self, KeysError> {
        let set: Value = serde_json::from_slice(text).map_err(|_| KeysError::Malformed)?;
        let listed = set.get("keys").and_then(Value::as_array).ok_or(KeysError::Malformed)?;
        if listed.len() > MAX_KEYS {
            return Err(KeysError::TooMany);
        }
        let keys: Vec<Key> = listed.iter().filter_map(key).collect();
        if keys.is_empty() { Err(KeysError::None) } else { Ok(Self(keys)) }
    }

    /// Whether a key of this id is among them.
    #[must_use]
    pub fn has(&self, kid: &str) -> bool {
        self.0.iter().any(|key| key.kid.as_deref() == Some(kid))
    }
}

fn text<'a>(of: &'a Value, name: &str) -> Option<&'a str> {
    of.get(name).and_then(Value::as_str)
}

fn key(listed: &Value) -> Option<Key> {
    let bytes = |name: &str| BASE64URL_NOPAD.decode(text(listed, name)?.as_bytes()).ok();
    if text(listed, "use").is_some_and(|of| of != "sig") {
        return None;
    }
    let alg = match text(listed, "alg") {
        None => None,
        // One that is for something else is for nothing here.
        Some(name) => Some(Alg::named(name)?),
    };
    let material = match (text(listed, "kty")?, text(listed, "crv")) {
        ("RSA", _) => {
            let (n, e) = (bytes("n")?, bytes("e")?);
            (MODULUS.contains(&n.len()) && n.first() != Some(&0) && (1..=8).contains(&e.len()))
                .then_some(Material::Rsa { n, e })?
        }
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == 32 && y.len() == 32).then(|| Material::P256([&[4], &x[..], &y[..]].concat()))?
        }
        ("OKP", Some("Ed25519")) => bytes("x").filter(|x| x.len() == 32).map(Material::Ed25519)?,
        _ => return None,
    };
    let kid = text(listed, "kid").map(str::to_owned);
    (kid.as_ref().is_none_or(|kid| kid.len() <= MAX_KID)).then_some(Key { kid, alg, material })
}

impl Key {
    fn fits(&self, alg: Alg) -> bool {
        let kind = matches!(
            (&self.material, alg),
            (Material::Rsa { .. }, Alg::Rs256 | Alg::Ps256)
                | (Material::P256(_), Alg::Es256)
                | (Material::Ed25519(_), Alg::EdDsa)
        );
        kind && self.alg.is_none_or(|only| only == alg)
    }

    fn has_signed(&self, alg: Alg, message: &[u8], signature: &[u8]) -> bool {
        let verified = match (&self.material, alg) {
            (Material::Rsa { n, e }, Alg::Rs256) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            (Material::Rsa { n, e }, Alg::Ps256) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PSS_2048_8192_SHA256, message, signature)
            }
            (Material::P256(point), Alg::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (Material::Ed25519(point), Alg::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, point).verify(message, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}

/// A token that was taken apart and not verified yet.
#[derive(Debug)]
pub struct Signed<'a> {
    alg: Alg,
    kid: Option<String>,
    /// What is signed.
    message: &'a [u8],
    signature: Vec<u8>,
    payload: Vec<u8>,
}

impl<'a> Signed<'a> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// [`Refused`] if it is none, or of a form that is not taken.
    pub fn read(token: &'a str) -> Result<Self, Refused> {
        if token.len() > MAX_TOKEN {
            return Err(Refused::TooLong);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(Refused::Malformed)?;
        let (head, payload) = message.split_once('.').ok_or(Refused::Malformed)?;
        let part = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| Refused::Malformed);
        // A further dot is no digit of base64url: five parts, which would be an encrypted token, are refused here.
        let (head, payload, signature) = (part(head)?, part(payload)?, part(signature)?);
        let head: Value = serde_json::from_slice(&head).map_err(|_| Refused::Malformed)?;
        let alg = Alg::named(text(&head, "alg").ok_or(Refused::Malformed)?).ok_or(Refused::Algorithm)?;
        if head.get("crit").is_some() {
            return Err(Refused::Critical);
        }
        check_type(&head)?;
        let kid = match head.get("kid") {
            None => None,
            Some(Value::String(kid)) if kid.len() <= MAX_KID => Some(kid.clone()),
            Some(_) => return Err(Refused::Malformed),
        };
        Ok(Self { alg, kid, message: message.as_bytes(), signature, payload })
    }

    /// What was signed, once one of the keys has signed it. Keys that a token brings itself (`jwk`, `jku`, `x5c`) are never looked at.
    pub(crate) fn verified(self, keys: &Keys) -> Result<Value, Refused> {
        let named = |key: &&Key| self.kid.is_none() || key.kid == self.kid;
        let mut candidates = keys.0.iter().filter(named).peekable();
        if candidates.peek().is_none() {
            return Err(Refused::UnknownKey);
        }
        let mut fitting = candidates.filter(|key| key.fits(self.alg)).peekable();
        if fitting.peek().is_none() {
            return Err(Refused::WrongKey);
        }
        if !fitting.any(|key| key.has_signed(self.alg, self.message, &self.signature)) {
            return Err(Refused::Signature);
        }
        let claims: Value = serde_json::from_slice(&self.payload).map_err(|_| Refused::Malformed)?;
        if claims.is_object() { Ok(claims) } else { Err(Refused::Malformed) }
    }
}

/// Only what identifies somebody: a provider signs other things with the same keys (RFC 8725, 3.11).
fn check_type(head: &Value) -> Result<(), Refused> {
    let Some(named) = head.get("typ") else { return Ok(()) };
    let named = named.as_str().ok_or(Refused::Malformed)?.to_ascii_lowercase();
    let named = named.strip_prefix("application/").unwrap_or(&named);
    if named == "jwt" || named == "at+jwt" { Ok(()) } else { Err(Refused::Type) }
}

/// When a token says that it ends, for whoever holds it and only wants to have a new one in time: nothing of it is checked.
#[must_use]
pub fn unverified_end(token: &str) -> Option<SystemTime> {
    let payload = token.split('.').nth(1).filter(|_| token.len() <= MAX_TOKEN)?;
    let claims: Value = serde_json::from_slice(&BASE64URL_NOPAD.decode(payload.as_bytes()).ok()?).ok()?;
    let seconds = claims.get("exp")?.as_f64().filter(|seconds| (0.0..1e11).contains(seconds))?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds.floor()))
}
