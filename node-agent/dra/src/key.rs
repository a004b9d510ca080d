//! Names: of the driver, and of what Kubernetes calls it with. [pure]

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The driver's name in ResourceSlices, claims and at kubelet.
pub const DRIVER: &str = "rail.railyard.io";

/// Longest name of a Kubernetes object, in characters (RFC 1123 subdomain).
const NAME_MAX: usize = 253;
/// Longest UID that is taken: Kubernetes makes UUIDs of 36 characters.
const UID_MAX: usize = 64;

/// Part of a claim's identity that is not of Kubernetes' making.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the claim's {field} {text:?} is no name of Kubernetes")]
pub struct BadName {
    field: &'static str,
    text: String,
}

/// A ResourceClaim. A name may come back with another UID, which is another claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimKey {
    /// Identity of the claim; names of files are made of it.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl ClaimKey {
    /// A claim as kubelet names it.
    ///
    /// # Errors
    /// [`BadName`] if one of them cannot be of Kubernetes' making: they become parts of paths.
    pub fn new(uid: &str, namespace: &str, name: &str) -> Result<Self, BadName> {
        let bad = |field, text: &str| BadName { field, text: text.chars().take(NAME_MAX).collect() };
        if !is_uid(uid) {
            return Err(bad("uid", uid));
        }
        if !is_name(namespace) || namespace.contains('.') {
            return Err(bad("namespace", namespace));
        }
        if !is_name(name) {
            return Err(bad("name", name));
        }
        Ok(Self { uid: uid.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// Whether it can be the UID of an object: letters, digits and dashes alone, so that no path comes of it.
#[must_use]
pub fn is_uid(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.len() <= UID_MAX && text.bytes().all(fine)
}

/// Whether it can be the name of an object (RFC 1123 subdomain).
#[must_use]
pub fn is_name(text: &str) -> bool {
    let alnum = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(alnum)
            && bytes.last().is_some_and(alnum)
            && bytes.iter().all(|byte| alnum(byte) || *byte == b'-')
    };
    text.len() <= NAME_MAX && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_another_path_is_refused_by_its_field() {
        assert!(ClaimKey::new("0b5c-1", "default", "a.b-c").is_ok());
        let long = "a".repeat(254);
        for (uid, namespace, name, field) in [
            ("", "default", "a", "uid"),
            ("../x", "default", "a", "uid"),
            (&*"a".repeat(65), "default", "a", "uid"),
            ("u", "a.b", "a", "namespace"),
            ("u", "A", "a", "namespace"),
            ("u", "default", "", "name"),
            ("u", "default", "a/b", "name"),
            ("u", "default", "-a", "name"),
            ("u", "default", "a..b", "name"),
            ("u", "default", &long, "name"),
        ] {
            let error = ClaimKey::new(uid, namespace, name).unwrap_err().to_string();
            assert!(error.contains(field), "{uid} {namespace} {name}: {error}");
        }
    }
}
