//! What is refused about secrets, configs, and what refers to them.

use proto_model::{TenantName, Values, ValuesId, ValuesName};
use thiserror::Error;

use crate::error::kind::ErrorKind;

/// Why an environment cannot be made. No value is told.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnvFlaw {
    /// There is no such object.
    #[error("there is no {id} in tenant '{}'{}", .id.tenant, hint(.nearest.as_ref()))]
    NoObject {
        /// The secret or config that is meant.
        id: ValuesId,
        /// What may have been meant.
        nearest: Option<ValuesName>,
    },
    /// It has no such key.
    #[error("{id} has no key '{key}'{}", hint(.nearest.as_ref()))]
    NoKey {
        /// The secret or config that is meant.
        id: ValuesId,
        /// The key that is meant.
        key: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// One of its keys cannot be the name of a variable.
    #[error(
        "key '{key}' of {id} cannot be the name of a variable; refer to the keys one by one, with `name` for this one"
    )]
    NoVariable {
        /// The secret or config that is meant.
        id: ValuesId,
        /// The key that is meant.
        key: String,
    },
    /// All together are too much for a program.
    #[error("the variables have {bytes} bytes in all; at most {max} are allowed", max = Values::MAX_ENV)]
    TooLarge {
        /// How many bytes there would be.
        bytes: usize,
    },
}

/// What is refused about secrets, configs, and what refers to them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValuesError {
    /// No such secret or config.
    #[error("tenant '{}' has no {id}{}", .id.tenant, hint(.nearest.as_ref()))]
    NotFound {
        /// The secret or config that is meant.
        id: ValuesId,
        /// What may have been meant.
        nearest: Option<ValuesName>,
    },
    /// A new one without values.
    #[error("data: is required: {0} is new, and there are no values that could stay")]
    Empty(ValuesId),
    /// The tenant has too much.
    #[error(
        "data: the secrets and configs of tenant '{tenant}' would have {bytes} bytes; at most {max} are allowed",
        max = Values::MAX_OF_TENANT
    )]
    TooMuch {
        /// The tenant that it belongs to.
        tenant: TenantName,
        /// How many bytes there would be.
        bytes: usize,
    },
    /// A job's environment cannot be made.
    #[error("{field}: {flaw}")]
    EnvSource {
        /// Which field of the job.
        field: String,
        /// What is wrong.
        flaw: EnvFlaw,
    },
}

impl ValuesError {
    /// The kind of the refusal.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::TooMuch { .. } => ErrorKind::Exhausted,
            Self::Empty(_) | Self::EnvSource { .. } => ErrorKind::Invalid,
        }
    }

    /// The stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { id, .. } => id.kind.not_found(),
            Self::Empty(_) => "INVALID_FIELD",
            Self::TooMuch { .. } => "LIMIT_REACHED",
            Self::EnvSource { .. } => "ENV_SOURCE",
        }
    }
}

impl ValuesError {
    /// The same for whoever reads a job: viewers see no keys of secrets but those that jobs name.
    pub fn for_all(&self) -> String {
        match self {
            Self::EnvSource { field, flaw: EnvFlaw::NoKey { id, key, .. } } => {
                format!("{field}: {id} has no key '{key}'")
            }
            Self::EnvSource { field, flaw: EnvFlaw::NoVariable { id, .. } } => {
                format!("{field}: a key of {id} cannot be the name of a variable")
            }
            other => other.to_string(),
        }
    }

    /// Whether it tells of the keys of an object.
    pub(crate) fn is_of_keys(&self) -> bool {
        matches!(self, Self::EnvSource { flaw, .. } if !matches!(flaw, EnvFlaw::NoObject { .. }))
    }
}

fn hint(name: Option<&impl AsRef<str>>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean '{}'?", name.as_ref()))
}
