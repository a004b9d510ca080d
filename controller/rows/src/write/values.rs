//! Secrets and configs, and what of a job's environment is in them.

use proto_model::{EnvSource, Value, Values, ValuesKind};

use super::time_to_row;
use crate::v1;

impl From<&Values> for v1::Values {
    /// With the values.
    fn from(values: &Values) -> Self {
        let key =
            |(name, value): (&String, &Value)| v1::DataKey { name: name.clone(), revision: value.revision };
        let text = |(key, value): (&String, &Value)| (key.clone(), value.text.expose().to_owned());
        Self {
            metadata: Some(v1::Metadata {
                name: values.id.name.to_string(),
                tenant: values.id.tenant.to_string(),
                uid: values.uid.clone(),
                generation: values.generation,
                create_time: Some(time_to_row(values.created)),
                ..v1::Metadata::default()
            }),
            description: values.description.clone(),
            data: values.data.iter().map(text).collect(),
            status: Some(v1::DataStatus {
                keys: values.data.iter().map(key).collect(),
                update_time: Some(time_to_row(values.updated)),
                updated_by: values.updated_by.clone(),
            }),
        }
    }
}

/// Sources of variables as the row carries them.
pub(crate) fn sources_to_row(sources: &[EnvSource]) -> Vec<v1::EnvSource> {
    use v1::env_source::Source as S;
    let one = |source: &EnvSource| {
        let reference = v1::DataRef { name: source.object.to_string(), key: source.key.clone() };
        let from = match source.kind {
            ValuesKind::Secret => S::SecretRef(reference),
            ValuesKind::Config => S::ConfigRef(reference),
        };
        v1::EnvSource { name: source.variable.clone(), source: Some(from) }
    };
    sources.iter().map(one).collect()
}
