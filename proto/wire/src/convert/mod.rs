//! Checked conversions between the wire and the domain, one file per noun.
//!
//! Into the domain: `TryFrom`, with every wrong field named at once. Out of it: `From`, which cannot fail.

mod agent;
mod audit;
mod certify;
mod common;
mod component;
mod fabric;
mod fabric_compact;
mod fabric_lists;
mod hardware;
mod health;
mod isolation;
mod job;
mod job_status;
mod license;
mod node;
mod placement;
mod proof;
mod qos;
mod queue;
mod rails;
mod report;
mod request;
mod reservation;
mod schedule;
mod service_class;
mod step;
mod tenant;
mod values;
mod webhook;

use std::fmt;

use proto_model::{JobName, TenantName};

use crate::v1;

pub use common::{duration_from_wire, duration_to_wire, time_from_wire, time_to_wire};
pub use fabric_compact::compact as compact_fabric;
pub use isolation::isolation_policy_to_wire;
pub use job::{LIMITS, SpecLimits, check_job_name};
pub use node::{hold, labels, node_status_phase, taints};
pub use proof::proofs_from_wire;
pub use qos::{EMPTY_PROFILE, QosOrder};
pub use rails::drained_to_wire;
pub use report::{reported_inventory, reported_observation, reported_usage};
pub use reservation::reservation_phase;
pub use schedule::job_labels;
pub use tenant::{role_from_wire, role_to_wire};
pub use values::{env_values, env_values_to_wire};
pub use webhook::{webhook_secret, webhook_secret_to_wire};

/// What every resource says of the schema that it follows.
pub const API_VERSION: &str = "rail/v1";

/// One field that cannot be taken into the domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path in lowerCamelCase, for example `spec.gang.nodes`.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Every field of one message that cannot be taken into the domain; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldErrors(pub Vec<FieldError>);

impl FieldErrors {
    /// One wrong field; `message` says what is wrong with it.
    pub fn one(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self(vec![FieldError { field: field.into(), message: message.into() }])
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldErrors {}

/// Gathers wrong fields while a message is converted.
#[derive(Default)]
struct Fields(Vec<FieldError>);

impl Fields {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a field, or one below it, is noted.
    fn has(&self, field: &str) -> bool {
        let below = |noted: &str| {
            noted.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.0.iter().any(|error| below(&error.field))
    }

    fn fail(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(FieldError { field: field.to_owned(), message: message.into() });
    }

    /// Notes the error of a plain check.
    fn take<T, E: fmt::Display>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.fail(field, error.to_string())).ok()
    }

    /// Notes the errors of a nested message, their paths put below `field`.
    fn nest<T>(&mut self, field: &str, result: Result<T, FieldErrors>) -> Option<T> {
        let errors = match result {
            Ok(value) => return Some(value),
            Err(errors) => errors,
        };
        for mut error in errors.0 {
            error.field =
                if error.field.is_empty() { field.to_owned() } else { format!("{field}.{}", error.field) };
            self.0.push(error);
        }
        None
    }

    /// Converts every element of a list, its index in the path.
    fn list<W, T: TryFrom<W, Error = FieldErrors>>(&mut self, field: &str, wire: Vec<W>) -> Vec<T> {
        let convert = |(index, item)| match T::try_from(item) {
            Ok(value) => Some(value),
            // Lists are long and mostly right: paths are made for what is wrong only.
            Err(errors) => self.nest(&format!("{field}[{index}]"), Err(errors)),
        };
        wire.into_iter().enumerate().filter_map(convert).collect()
    }

    /// A message that must be there.
    fn present<T>(&mut self, field: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.fail(field, "is required");
        }
        value
    }

    /// Metadata, which must be there, with all that is the same of every kind of document.
    fn metadata(&mut self, wire: Option<v1::Metadata>) -> v1::Metadata {
        let metadata = self.present("metadata", wire).unwrap_or_default();
        self.nest("metadata.labels", job_labels(metadata.labels.clone()));
        let begin = &metadata.generate_name;
        if !begin.is_empty() {
            // As a name that it begins.
            self.take("metadata.generateName", JobName::new(format!("{begin}aaaaaa")));
        }
        metadata
    }

    /// The tenant of a document whose kind no tenant owns: it may be there.
    fn unowned(&mut self, metadata: &v1::Metadata) {
        if !metadata.tenant.is_empty() {
            self.take("metadata.tenant", TenantName::new(&metadata.tenant));
        }
    }

    /// The value if nothing was wrong. `None` without an error cannot happen: whoever gives `None` has noted why.
    fn finish<T>(mut self, value: Option<T>) -> Result<T, FieldErrors> {
        if let (true, Some(value)) = (self.0.is_empty(), value) {
            return Ok(value);
        }
        if self.0.is_empty() {
            self.fail("", "is incomplete");
        }
        Err(FieldErrors(self.0))
    }
}

/// Maps a wire enum's number to its Rust value, if it is a known one and not UNSPECIFIED.
fn known<E: TryFrom<i32> + PartialEq + Default>(number: i32) -> Option<E> {
    E::try_from(number).ok().filter(|value| *value != E::default())
}

#[cfg(test)]
mod documents_tests;
#[cfg(test)]
mod fabric_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod schedule_tests;
#[cfg(test)]
mod tests;
