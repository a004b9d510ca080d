//! A job's environment, of the secrets and configs that it refers to.

use proto_model::{
    Authority, EnvSource, HiddenEnv, Role, TenantName, Value, Values, ValuesId, ValuesKind, ValuesName, Work,
    values::is_variable,
};
use thiserror::Error;

use crate::{error::ErrorKind, state::State, tenant::documents::nearest};

/// Why an environment cannot be made. No value is told.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnvFlaw {
    /// There is no such object.
    #[error("there is no {id} in tenant '{}'{}", .id.tenant, hint(.nearest.as_ref()))]
    NoObject {
        /// Which.
        id: ValuesId,
        /// What may have been meant.
        nearest: Option<ValuesName>,
    },
    /// It has no such key.
    #[error("{id} has no key '{key}'{}", hint(.nearest.as_ref()))]
    NoKey {
        /// Of which.
        id: ValuesId,
        /// Which.
        key: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// One of its keys cannot be the name of a variable.
    #[error(
        "key '{key}' of {id} cannot be the name of a variable; refer to the keys one by one, with `name` for this one"
    )]
    NoVariable {
        /// Of which.
        id: ValuesId,
        /// Which.
        key: String,
    },
    /// All together are too much for a program.
    #[error("the variables have {bytes} bytes in all; at most {max} are allowed", max = Values::MAX_ENV)]
    TooLarge {
        /// How much.
        bytes: usize,
    },
}

/// What is refused about secrets, configs, and what refers to them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValuesError {
    /// No such secret or config.
    #[error("tenant '{}' has no {id}{}", .id.tenant, hint(.nearest.as_ref()))]
    NotFound {
        /// Which.
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
        /// Whose.
        tenant: TenantName,
        /// How much.
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
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::TooMuch { .. } => ErrorKind::Exhausted,
            Self::Empty(_) | Self::EnvSource { .. } => ErrorKind::Invalid,
        }
    }

    pub(crate) fn code(&self) -> &'static str {
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
    pub(crate) fn for_all(&self) -> String {
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
    fn is_of_keys(&self) -> bool {
        matches!(self, Self::EnvSource { flaw, .. } if !matches!(flaw, EnvFlaw::NoObject { .. }))
    }
}

fn hint(name: Option<&impl AsRef<str>>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean '{}'?", name.as_ref()))
}

/// The field of a job that a source is.
fn field(work: &Work, at: usize, source: &EnvSource, below: &str) -> String {
    let work = match work {
        Work::Allocation(_) => "allocation",
        Work::Command(_) | Work::Collective(_) => "command",
    };
    format!("spec.{work}.envFrom[{at}].{}.{below}", source.kind.reference())
}

impl State {
    /// The one of a tenant that is called nearly so.
    pub(crate) fn nearest_values(&self, id: &ValuesId) -> Option<ValuesName> {
        let same = |kind: ValuesKind| self.values_of(&id.tenant).filter(move |one| one.id.kind == kind);
        let names: Vec<&ValuesName> = same(id.kind).map(|one| &one.id.name).collect();
        nearest(id.name.as_str(), names.into_iter())
    }

    /// Whether the environment of a job can be made.
    pub(crate) fn check_env(&self, tenant: &TenantName, work: &Work) -> Result<(), ValuesError> {
        self.env_of(tenant, work).map(drop)
    }

    /// The same for whoever asks what would become of a job: viewers learn nothing of keys.
    pub(crate) fn check_env_for(
        &self,
        by: &Authority,
        tenant: &TenantName,
        work: &Work,
    ) -> Result<(), ValuesError> {
        let checked = self.check_env(tenant, work);
        checked
            .or_else(|error| if by.role == Role::Viewer && error.is_of_keys() { Ok(()) } else { Err(error) })
    }

    /// What of a job's environment secrets and configs hold; later sources win.
    pub(crate) fn env_of(&self, tenant: &TenantName, work: &Work) -> Result<HiddenEnv, ValuesError> {
        let mut env = HiddenEnv::new();
        for (at, source) in work.env_from().iter().enumerate() {
            self.add_source(tenant, source, &mut env).map_err(|flaw| {
                let below = if matches!(flaw, EnvFlaw::NoKey { .. }) { "key" } else { "name" };
                ValuesError::EnvSource { field: field(work, at, source, below), flaw }
            })?;
        }
        Ok(env)
    }

    fn add_source(
        &self,
        tenant: &TenantName,
        source: &EnvSource,
        env: &mut HiddenEnv,
    ) -> Result<(), EnvFlaw> {
        let id = ValuesId { tenant: tenant.clone(), kind: source.kind, name: source.object.clone() };
        let Some(values) = self.values(&id) else {
            let nearest = self.nearest_values(&id);
            return Err(EnvFlaw::NoObject { id, nearest });
        };
        let mut take = |name: &str, value: &Value| env.insert(name.to_owned(), value.text.clone());
        if source.key.is_empty() {
            for (key, value) in &values.data {
                if !is_variable(key) {
                    return Err(EnvFlaw::NoVariable { id, key: key.clone() });
                }
                take(key, value);
            }
        } else {
            let key = &source.key;
            let Some(value) = values.data.get(key) else {
                let nearest = nearest(key, values.data.keys());
                return Err(EnvFlaw::NoKey { id, key: key.clone(), nearest });
            };
            take(if source.variable.is_empty() { key } else { &source.variable }, value);
        }
        let bytes = env.iter().map(|(name, value)| name.len() + value.expose().len()).sum();
        if bytes > Values::MAX_ENV { Err(EnvFlaw::TooLarge { bytes }) } else { Ok(()) }
    }
}
