//! Secrets and configs, and what of a job's environment is in them.

use std::collections::BTreeMap;

use proto_model::{
    EnvSource, TenantName, Value, ValueText, Values, ValuesId, ValuesKind, ValuesName,
    values::{is_key, is_variable},
};

use super::{metadata, time_from_row};
use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

const KEY: &str = "must be of letters, digits, `_`, `-` and `.`, at most 253 of them";

const VARIABLE: &str = "must be of letters, digits and `_`, and begin with no digit";

fn data(fields: &mut Fields, row: BTreeMap<String, String>, keys: &[v1::DataKey]) -> BTreeMap<String, Value> {
    if row.len() > Values::MAX_KEYS {
        fields.fail("data", format!("has {} keys; at most {} are allowed", row.len(), Values::MAX_KEYS));
        return BTreeMap::new();
    }
    let bytes: usize = row.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > Values::MAX_BYTES {
        fields.fail("data", format!("has {bytes} bytes; at most {} are allowed", Values::MAX_BYTES));
    }
    for (key, value) in &row {
        if !is_key(key) {
            // It may be a value that was put in the wrong place.
            fields.fail("data", format!("a key {KEY}"));
        }
        if value.contains('\0') {
            fields.fail(&format!("data.{}", key.escape_debug()), "must not contain a NUL byte");
        }
    }
    let revisions: BTreeMap<&str, u64> = keys.iter().map(|key| (key.name.as_str(), key.revision)).collect();
    let value = |(key, text): (String, String)| {
        let revision = revisions.get(key.as_str()).copied().unwrap_or(0);
        (key, Value { text: ValueText::new(&text), revision })
    };
    row.into_iter().map(value).collect()
}

/// A secret or a config; which of both it is does not stand in the row.
///
/// # Errors
/// Every wrong field.
pub fn values(kind: ValuesKind, row: v1::Values) -> Result<Values, FieldErrors> {
    let mut fields = Fields::default();
    let metadata = metadata::metadata(&mut fields, row.metadata);
    let tenant = fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
    let name = fields.take("metadata.name", ValuesName::new(&metadata.name));
    let created = fields.nest("metadata.createTime", time_from_row(metadata.create_time.unwrap_or_default()));
    if row.description.len() > Values::MAX_DESCRIPTION {
        let text = format!("must be at most {} bytes long", Values::MAX_DESCRIPTION);
        fields.fail("description", text);
    }
    let status = row.status.unwrap_or_default();
    let data = data(&mut fields, row.data, &status.keys);
    let updated = fields.nest("status.updateTime", time_from_row(status.update_time.unwrap_or_default()));
    let values =
        tenant.zip(name).zip(created.zip(updated)).map(|((tenant, name), (created, updated))| Values {
            id: ValuesId { tenant, kind, name },
            uid: metadata.uid,
            generation: metadata.generation,
            created,
            updated,
            updated_by: status.updated_by,
            description: row.description,
            data,
        });
    fields.finish(values)
}

fn source(fields: &mut Fields, field: &str, row: v1::EnvSource) -> Option<EnvSource> {
    use v1::env_source::Source as S;
    let (kind, reference) = match row.source {
        Some(S::SecretRef(reference)) => (ValuesKind::Secret, reference),
        Some(S::ConfigRef(reference)) => (ValuesKind::Config, reference),
        None => {
            fields.fail(field, "needs a secretRef or a configRef");
            return None;
        }
    };
    let at = format!("{field}.{}", kind.reference());
    let object = fields.take(&format!("{at}.name"), ValuesName::new(&reference.name));
    let (variable, key) = (row.name, reference.key);
    match (variable.as_str(), key.as_str()) {
        (variable, _) if !variable.is_empty() && !is_variable(variable) => {
            fields.fail(&format!("{field}.name"), VARIABLE);
        }
        (_, key) if !key.is_empty() && !is_key(key) => fields.fail(&format!("{at}.key"), KEY),
        ("", "") => {}
        (_, "") => {
            fields.fail(&format!("{at}.key"), "is required where `name` says how its variable is called")
        }
        ("", key) if !is_variable(key) => {
            let text = "is required: no variable can be called as the key is";
            fields.fail(&format!("{field}.name"), text);
        }
        _ => {}
    }
    object.map(|object| EnvSource { variable, kind, object, key })
}

/// What of a job's environment is in secrets and configs.
pub(crate) fn sources(fields: &mut Fields, field: &str, row: Vec<v1::EnvSource>) -> Vec<EnvSource> {
    if row.len() > EnvSource::MAX {
        fields.fail(field, format!("has {} entries; at most {} are allowed", row.len(), EnvSource::MAX));
        return Vec::new();
    }
    let one = |(at, row)| source(fields, &format!("{field}[{at}]"), row);
    row.into_iter().enumerate().filter_map(one).collect()
}
