//! Secrets and configs, and what of a job's environment is in them.

use std::collections::{BTreeMap, HashMap};

use proto_model::{
    EnvSource, HiddenEnv, TenantName, Value, ValueText, Values, ValuesId, ValuesKind, ValuesName,
    values::{is_key, is_variable},
};

use super::{API_VERSION, FieldErrors, Fields, metadata, time_from_wire, time_to_wire};
use crate::v1;

const KEY: &str = "must be of letters, digits, `_`, `-` and `.`, at most 253 of them";
const VARIABLE: &str = "must be of letters, digits and `_`, and begin with no digit";

/// Both messages have the same fields.
struct Wire {
    api_version: String,
    kind: String,
    metadata: Option<v1::Metadata>,
    description: String,
    data: HashMap<String, String>,
    status: Option<v1::DataStatus>,
}

fn data(fields: &mut Fields, wire: HashMap<String, String>, keys: &[v1::DataKey]) -> BTreeMap<String, Value> {
    if wire.len() > Values::MAX_KEYS {
        fields.fail("data", format!("has {} keys; at most {} are allowed", wire.len(), Values::MAX_KEYS));
        return BTreeMap::new();
    }
    let wire: BTreeMap<String, String> = wire.into_iter().collect();
    let bytes: usize = wire.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > Values::MAX_BYTES {
        fields.fail("data", format!("has {bytes} bytes; at most {} are allowed", Values::MAX_BYTES));
    }
    for (key, value) in &wire {
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
    wire.into_iter().map(value).collect()
}

fn read(kind: ValuesKind, wire: Wire) -> Result<Values, FieldErrors> {
    let mut fields = Fields::default();
    super::fields::header(&mut fields, &wire.api_version, &wire.kind, kind.kind());
    let metadata = metadata::metadata(&mut fields, wire.metadata);
    let tenant = fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
    let name = fields.take("metadata.name", ValuesName::new(&metadata.name));
    let created =
        fields.nest("metadata.createTime", time_from_wire(metadata.create_time.unwrap_or_default()));
    if wire.description.len() > Values::MAX_DESCRIPTION {
        let text = format!("must be at most {} bytes long", Values::MAX_DESCRIPTION);
        fields.fail("description", text);
    }
    let status = wire.status.unwrap_or_default();
    let data = data(&mut fields, wire.data, &status.keys);
    let updated = fields.nest("status.updateTime", time_from_wire(status.update_time.unwrap_or_default()));
    let values =
        tenant.zip(name).zip(created.zip(updated)).map(|((tenant, name), (created, updated))| Values {
            id: ValuesId { tenant, kind, name },
            uid: metadata.uid,
            generation: metadata.generation,
            created,
            updated,
            updated_by: status.updated_by,
            description: wire.description,
            data,
        });
    fields.finish(values)
}

fn write(values: &Values) -> Wire {
    let key = |(name, value): (&String, &Value)| v1::DataKey {
        name: name.clone(),
        size: u32::try_from(value.text.expose().len()).unwrap_or(u32::MAX),
        revision: value.revision,
    };
    let text = |(key, value): (&String, &Value)| (key.clone(), value.text.expose().to_owned());
    Wire {
        api_version: API_VERSION.to_owned(),
        kind: values.id.kind.kind().to_owned(),
        metadata: Some(v1::Metadata {
            name: values.id.name.to_string(),
            tenant: values.id.tenant.to_string(),
            uid: values.uid.clone(),
            generation: values.generation,
            create_time: Some(time_to_wire(values.created)),
            ..v1::Metadata::default()
        }),
        description: values.description.clone(),
        data: values.data.iter().map(text).collect(),
        status: Some(v1::DataStatus {
            keys: values.data.iter().map(key).collect(),
            update_time: Some(time_to_wire(values.updated)),
            updated_by: values.updated_by.clone(),
        }),
    }
}

macro_rules! wire {
    ($message:ident, $kind:expr) => {
        impl TryFrom<v1::$message> for Values {
            type Error = FieldErrors;

            fn try_from(wire: v1::$message) -> Result<Self, FieldErrors> {
                let v1::$message { api_version, kind, metadata, description, data, status } = wire;
                read($kind, Wire { api_version, kind, metadata, description, data, status })
            }
        }

        impl From<&Values> for v1::$message {
            /// With the values: for the store, and for whoever may read them. Whoever answers others takes them out.
            fn from(values: &Values) -> Self {
                let Wire { api_version, kind, metadata, description, data, status } = write(values);
                Self { api_version, kind, metadata, description, data, status }
            }
        }
    };
}

wire!(Secret, ValuesKind::Secret);
wire!(Config, ValuesKind::Config);

fn source(fields: &mut Fields, field: &str, wire: v1::EnvSource) -> Option<EnvSource> {
    use v1::env_source::Source as S;
    let (kind, reference) = match wire.source {
        Some(S::SecretRef(reference)) => (ValuesKind::Secret, reference),
        Some(S::ConfigRef(reference)) => (ValuesKind::Config, reference),
        None => {
            fields.fail(field, "needs a secretRef or a configRef");
            return None;
        }
    };
    let at = format!("{field}.{}", kind.reference());
    let object = fields.take(&format!("{at}.name"), ValuesName::new(&reference.name));
    let (variable, key) = (wire.name, reference.key);
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
pub(super) fn sources(fields: &mut Fields, field: &str, wire: Vec<v1::EnvSource>) -> Vec<EnvSource> {
    if wire.len() > EnvSource::MAX {
        fields.fail(field, format!("has {} entries; at most {} are allowed", wire.len(), EnvSource::MAX));
        return Vec::new();
    }
    let one = |(at, wire)| source(fields, &format!("{field}[{at}]"), wire);
    wire.into_iter().enumerate().filter_map(one).collect()
}

/// Sources of variables as the wire carries them.
pub(super) fn sources_to_wire(sources: &[EnvSource]) -> Vec<v1::EnvSource> {
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

/// Variables that are not to be shown, from the controller to an agent.
#[must_use]
pub fn env_values_to_wire(env: &HiddenEnv) -> HashMap<String, String> {
    env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
}

/// The same, read back. What no program could be given is an error, which does not tell the value.
///
/// # Errors
/// A name that is none, a value with a NUL byte, or too much.
pub fn env_values(wire: HashMap<String, String>) -> Result<HiddenEnv, FieldErrors> {
    let bytes: usize = wire.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > Values::MAX_ENV {
        let text = format!("has {bytes} bytes; at most {} are allowed", Values::MAX_ENV);
        return Err(FieldErrors::one("", text));
    }
    if wire.iter().any(|(name, value)| !is_variable(name) || value.contains('\0')) {
        return Err(FieldErrors::one("", format!("a name {VARIABLE}, and a value has no NUL byte")));
    }
    Ok(wire.into_iter().map(|(name, value)| (name, ValueText::new(&value))).collect())
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use proto_model::Timestamp;

    use super::*;

    fn secret(data: &[(&str, &str)]) -> v1::Secret {
        let metadata = v1::Metadata { name: "s3".into(), tenant: "red".into(), ..Default::default() };
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        v1::Secret { metadata: Some(metadata), data, ..Default::default() }
    }

    fn fields(wire: v1::Secret) -> Vec<String> {
        let errors = Values::try_from(wire).unwrap_err();
        assert!(!errors.to_string().contains("hunter2"), "{errors}");
        errors.0.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn values_survive_the_wire() {
        let mut values = Values::try_from(secret(&[("token", "hunter2"), ("tls.crt", "")])).unwrap();
        values.data.get_mut("token").unwrap().revision = 3;
        values.generation = 3;
        values.updated = Timestamp(5000);
        values.updated_by = "ann".into();
        values.description = "bucket".into();
        let bytes = v1::Secret::from(&values).encode_to_vec();
        let read = v1::Secret::decode(bytes.as_slice()).unwrap();
        let keys = read.status.clone().unwrap().keys;
        assert_eq!(
            keys.iter().map(|key| (key.name.as_str(), key.size)).collect::<Vec<_>>(),
            [("tls.crt", 0), ("token", 7)]
        );
        assert_eq!(Values::try_from(read), Ok(values.clone()));
        values.id.kind = ValuesKind::Config;
        assert_eq!(Values::try_from(v1::Config::from(&values)), Ok(values));
    }

    #[test]
    fn what_is_wrong_is_named_and_no_value_told() {
        assert_eq!(fields(secret(&[("a b", "hunter2")])), ["data"]);
        assert_eq!(fields(secret(&[("a", "hunter2\0")])), ["data.a"]);
        assert_eq!(fields(secret(&[("a", &"hunter2".repeat(10_000))])), ["data"]);
        let many: Vec<(String, String)> = (0..257).map(|at| (format!("k{at}"), String::new())).collect();
        let many: Vec<(&str, &str)> =
            many.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(fields(secret(&many)), ["data"]);
        let wrong = v1::Secret { kind: "Config".into(), description: "x".repeat(1025), ..secret(&[]) };
        assert_eq!(fields(wrong), ["kind", "description"]);
    }

    fn source_of(name: &str, object: &str, key: &str) -> v1::EnvSource {
        let reference = v1::DataRef { name: object.into(), key: key.into() };
        let source = Some(v1::env_source::Source::SecretRef(reference));
        v1::EnvSource { name: name.into(), source }
    }

    #[test]
    fn sources_are_read_strictly() {
        let all = vec![
            v1::EnvSource { name: "A".into(), source: None },
            source_of("", "S3", ""),
            source_of("A-B", "s3", "a"),
            source_of("A", "s3", ""),
            source_of("", "s3", "tls.crt"),
            source_of("A", "s3", "a b"),
        ];
        let mut wrong = Fields::default();
        sources(&mut wrong, "envFrom", all);
        let named: Vec<&str> = wrong.0.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(
            named,
            [
                "envFrom[0]",
                "envFrom[1].secretRef.name",
                "envFrom[2].name",
                "envFrom[3].secretRef.key",
                "envFrom[4].name",
                "envFrom[5].secretRef.key",
            ]
        );
        let fine = vec![source_of("", "s3", ""), source_of("A", "s3", "tls.crt"), source_of("", "s3", "KEY")];
        let mut fields = Fields::default();
        let read = sources(&mut fields, "envFrom", fine.clone());
        assert!(fields.is_empty());
        assert_eq!(sources_to_wire(&read), fine);
        sources(&mut fields, "envFrom", vec![source_of("", "s3", ""); 65]);
        assert_eq!(fields.0.len(), 1);
    }

    #[test]
    fn an_agent_takes_what_a_program_can_be_given() {
        let env: HiddenEnv = [("A".to_owned(), ValueText::new("hunter2"))].into();
        assert_eq!(env_values(env_values_to_wire(&env)), Ok(env));
        for (name, value) in [("A=", "hunter2"), ("A", "hunter2\0"), ("A", &"x".repeat(Values::MAX_ENV))] {
            let error = env_values([(name.to_owned(), value.to_owned())].into()).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
