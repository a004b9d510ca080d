//! Named values of a tenant that its jobs can have in their environment: secrets, whose values nobody reads back, and configs.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{TenantName, Timestamp, ValuesName};

/// Whether values are secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValuesKind {
    /// Values that nobody reads back.
    Secret,
    /// Everybody of the tenant reads them.
    Config,
}

impl ValuesKind {
    /// Both kinds, secrets first.
    pub const ALL: [Self; 2] = [Self::Secret, Self::Config];

    /// The kind as documents name it.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::Config => "Config",
        }
    }

    /// The kind as sentences name it.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Config => "config",
        }
    }

    /// The word for programs where one is not there.
    #[must_use]
    pub fn not_found(self) -> &'static str {
        match self {
            Self::Secret => "SECRET_NOT_FOUND",
            Self::Config => "CONFIG_NOT_FOUND",
        }
    }

    /// The field of a job that refers to one.
    #[must_use]
    pub fn reference(self) -> &'static str {
        match self {
            Self::Secret => "secretRef",
            Self::Config => "configRef",
        }
    }
}

/// Names one secret or one config of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValuesId {
    /// The tenant that they belong to.
    pub tenant: TenantName,
    /// Whether they are a secret or a config.
    pub kind: ValuesKind,
    /// The name, unique among the tenant's of that kind.
    pub name: ValuesName,
}

impl fmt::Display for ValuesId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}'", self.kind.noun(), self.name)
    }
}

/// A value. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ValueText(Arc<str>);

impl ValueText {
    /// Keeps a copy of the text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The value itself: for ranks and the store, and for readers of a config.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ValueText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueText(..)")
    }
}

/// Variables with values that are not to be shown.
pub type HiddenEnv = BTreeMap<String, ValueText>;

/// A value, and since when it is this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The text of the value.
    pub text: ValueText,
    /// The object's generation in which it was last changed.
    pub revision: u64,
}

/// Named values of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// Tenant, kind and name.
    pub id: ValuesId,
    /// Identifier of these very values; later ones of the same name have another.
    pub uid: String,
    /// Number of the version: it grows with each change of the values.
    pub generation: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When the values were last changed.
    pub updated: Timestamp,
    /// Who changed the values last: a user or an administrator.
    pub updated_by: String,
    /// A text for people; may be empty.
    pub description: String,
    /// The values by their keys; empty only in a document that says nothing of them.
    pub data: BTreeMap<String, Value>,
}

impl Values {
    /// Keys of one object at most.
    pub const MAX_KEYS: usize = 256;
    /// Bytes of a key at most.
    pub const MAX_KEY: usize = 253;
    /// Bytes of an object's keys and values at most.
    pub const MAX_BYTES: usize = 64 << 10;
    /// Bytes of all objects of one tenant at most.
    pub const MAX_OF_TENANT: usize = 1 << 20;
    /// Bytes of a description at most.
    pub const MAX_DESCRIPTION: usize = 1024;
    /// Bytes of all variables that one job has of secrets and configs, at most.
    pub const MAX_ENV: usize = 96 << 10;

    /// Bytes of all keys and values together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.data.iter().map(|(key, value)| key.len() + value.text.expose().len()).sum()
    }

    /// Whether another one says the same.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let texts =
            |of: &Self| of.data.iter().map(|(key, value)| (key.clone(), value.text.clone())).collect();
        let (one, another): (HiddenEnv, HiddenEnv) = (texts(self), texts(other));
        self.description == other.description && one == another
    }
}

/// Whether a key is one: letters, digits, `_`, `-` and `.`.
#[must_use]
pub fn is_key(text: &str) -> bool {
    let fits = (1..=Values::MAX_KEY).contains(&text.len());
    fits && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// Whether a text can be the name of a variable: letters, digits and `_`, no digit first.
#[must_use]
pub fn is_variable(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().next().is_some_and(|first| !first.is_ascii_digit()) && text.bytes().all(plain)
}

/// Where a job's environment comes from, beside its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvSource {
    /// The variable; empty: called as its key is.
    pub variable: String,
    /// Of which kind the object is.
    pub kind: ValuesKind,
    /// The object, of the job's tenant.
    pub object: ValuesName,
    /// One of its keys; empty: all.
    pub key: String,
}

impl EnvSource {
    /// Sources of one job at most.
    pub const MAX: usize = 64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_never_printed() {
        let value = Value { text: ValueText::new("hunter2"), revision: 1 };
        assert_eq!(format!("{value:?}"), "Value { text: ValueText(..), revision: 1 }");
    }

    #[test]
    fn keys_and_variables_have_their_letters() {
        for (text, key, variable) in [
            ("TOKEN_2", true, true),
            ("tls.crt", true, false),
            ("2nd", true, false),
            ("a-b", true, false),
            ("", false, false),
            ("a b", false, false),
            ("a=b", false, false),
            ("ä", false, false),
        ] {
            assert_eq!((is_key(text), is_variable(text)), (key, variable), "{text}");
        }
        assert!(!is_key(&"k".repeat(254)));
    }
}
