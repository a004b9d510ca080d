//! Names and identifiers, each its own type.

use std::{fmt, str::FromStr, sync::Arc};

use thiserror::Error;
use uuid::Uuid;

use crate::Timestamp;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// The text is empty.
    #[error("a name must not be empty")]
    Empty,
    /// Longer than the kind of name allows.
    #[error("'{name}' has {length} characters; at most {max} are allowed")]
    TooLong {
        /// What was given, shortened.
        name: String,
        /// Its length in characters.
        length: usize,
        /// The limit of this kind of name.
        max: usize,
    },
    /// A character that the kind of name does not allow at that place.
    #[error("'{name}': {found:?} is not allowed {place}; use lower-case letters, digits and '-'{extra}")]
    Character {
        /// What was given, shortened.
        name: String,
        /// The first offending character.
        found: char,
        /// "at the start", "at the end" or "inside".
        place: &'static str,
        /// What this kind of name allows beside that.
        extra: &'static str,
    },
}

fn check(text: &str, max: usize, more: &str) -> Result<(), NameError> {
    let shown = || text.chars().take(64).collect::<String>();
    let length = text.chars().count();
    if length == 0 {
        return Err(NameError::Empty);
    }
    if length > max {
        return Err(NameError::TooLong { name: shown(), length, max });
    }
    let alnum = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let extra = match more {
        "" => "",
        "." => " and '.'",
        _ => ", '_' and '.'",
    };
    for (at, found) in text.chars().enumerate() {
        let inner = alnum(found) || found == '-' || more.contains(found);
        let edge = at == 0 || at + 1 == length;
        if !inner || (edge && !alnum(found)) {
            let place = match at {
                0 => "at the start",
                at if at + 1 == length => "at the end",
                _ => "inside",
            };
            return Err(NameError::Character { name: shown(), found, place, extra });
        }
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, max $max:expr, more $more:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks the text and makes a name of it.
            ///
            /// # Errors
            /// [`NameError`] says which character or length is wrong.
            pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
                check(text.as_ref(), $max, $more)?;
                Ok(Self(text.as_ref().into()))
            }

            /// The text of the name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// A tenant: a DNS label (RFC 1123), at most 63 characters.
    TenantName, max 63, more ""
);
name!(
    /// A job within its tenant: a DNS label (RFC 1123), at most 63 characters.
    JobName, max 63, more ""
);
name!(
    /// A server: a DNS name (RFC 1123), at most 253 characters.
    NodeName, max 253, more "."
);

name!(
    /// A queue within its tenant: a DNS label (RFC 1123), at most 63 characters.
    QueueName, max 63, more ""
);
name!(
    /// A reservation: a DNS label (RFC 1123), at most 63 characters.
    ReservationName, max 63, more ""
);

name!(
    /// A service class: a DNS label (RFC 1123), at most 63 characters.
    ServiceClassName, max 63, more ""
);

name!(
    /// A license: a DNS label (RFC 1123), at most 63 characters.
    LicenseName, max 63, more ""
);

name!(
    /// A switch, as the fabric document has it: lower-case letters, digits, '-', '_' and '.', at most 63 characters.
    SwitchName, max 63, more "_."
);

name!(
    /// A credential in the controller's own folder for them, by which it reaches a switch: a DNS label (RFC 1123), at most 63 characters.
    CredentialName, max 63, more ""
);

name!(
    /// A component within its job: a DNS label (RFC 1123), at most 63 characters.
    ComponentName, max 63, more ""
);

name!(
    /// A webhook within its tenant: a DNS label (RFC 1123), at most 63 characters.
    WebhookName, max 63, more ""
);

name!(
    /// A secret or a config within its tenant: a DNS label (RFC 1123), at most 63 characters.
    ValuesName, max 63, more ""
);

name!(
    /// A schedule within its tenant: a DNS label (RFC 1123), at most 48 characters, so that its runs can be named after it.
    ScheduleName, max 48, more ""
);

/// A job is known by its tenant and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// The tenant that owns it.
    pub tenant: TenantName,
    /// Its name, unique within the tenant.
    pub name: JobName,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.name)
    }
}

/// The never reused identity of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobUid(pub Uuid);

impl JobUid {
    /// A version 4 identity from 16 random bytes; the caller brings the randomness.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// A version 7 identity: identities of a later millisecond, or of the same one with a larger `counter` (12 bits),
    /// compare as later. The caller brings time, counter and randomness.
    #[must_use]
    pub fn ordered(time: Timestamp, counter: u16, random: [u8; 8]) -> Self {
        let [high, low] = counter.to_be_bytes();
        let [a, b, c, d, e, f, g, h] = random;
        let bytes = [high, low, a, b, c, d, e, f, g, h];
        Self(uuid::Builder::from_unix_timestamp_millis(time.0, &bytes).into_uuid())
    }
}

impl fmt::Display for JobUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for JobUid {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        Uuid::parse_str(text).map(Self)
    }
}

/// Made by the client, one per submit, so that a repeated submit is the same submit. 1 to 128 printable ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// `None` unless the text is 1 to 128 printable ASCII characters without space or '/'.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=128).contains(&text.len());
        (fits && text.bytes().all(|b| b.is_ascii_graphic() && b != b'/')).then(|| Self(text.into()))
    }

    /// The text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The secret by which a job's engines know each other: 32 random bytes. Never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JobKey([u8; 32]);

impl JobKey {
    /// Takes 32 random bytes; the caller brings the randomness.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret itself, for the wire and the engine's standard input only.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(..)")
    }
}

/// Who may use a join token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenHolder {
    /// A server.
    Node(NodeName),
    /// A switch.
    Switch(SwitchName),
}

impl fmt::Display for TokenHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node '{name}'"),
            Self::Switch(name) => write!(f, "switch '{name}'"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_wrong() {
        assert!(TenantName::new("nlp-2").is_ok());
        assert!(NodeName::new("gpu001.rack-7").is_ok());
        assert_eq!(TenantName::new(""), Err(NameError::Empty));
        let error = TenantName::new("a.b").unwrap_err().to_string();
        assert!(error.contains("'.'") && error.contains("inside"), "{error}");
        assert!(JobName::new("-a").unwrap_err().to_string().contains("at the start"));
        assert!(JobName::new("a\0").unwrap_err().to_string().contains("at the end"));
        assert!(matches!(JobName::new("x".repeat(64)), Err(NameError::TooLong { length: 64, max: 63, .. })));
    }

    #[test]
    fn ordered_identities_compare_by_time_then_counter() {
        let uid = |time, counter, fill| JobUid::ordered(Timestamp(time), counter, [fill; 8]);
        assert!(uid(1, 4095, 255) < uid(2, 0, 0));
        assert!(uid(2, 0, 255) < uid(2, 1, 0) && uid(2, 255, 255) < uid(2, 256, 0));
        assert_ne!(uid(2, 1, 0), uid(2, 1, 1));
    }

    #[test]
    fn a_key_is_never_printed() {
        assert_eq!(format!("{:?}", JobKey::new([7; 32])), "JobKey(..)");
    }
}
