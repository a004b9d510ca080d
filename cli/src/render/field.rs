//! One field of a message, named as people write it: `.status.submitTime`, `metadata.labels.team`, `.spec.gang.nodes`.

use std::cmp::Ordering;

use controller_fabric::natural;
use prost_reflect::{DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value};

use crate::error::Error;

/// A field's name within a message, checked against its type.
#[derive(Debug, Clone)]
pub struct Field {
    steps: Vec<Step>,
    /// What is there, where it is one value.
    kind: Option<Kind>,
}

#[derive(Debug, Clone)]
enum Step {
    /// A field of a message, by its number.
    Field(u32),
    /// An entry of a map.
    Entry(String),
    /// An item of a list, from 0.
    Item(usize),
}

impl Field {
    /// Reads a name and checks that messages of this type have it.
    ///
    /// # Errors
    /// What of the name is wrong, and what was probably meant.
    pub fn new(text: &str, of: &MessageDescriptor) -> Result<Self, Error> {
        let parts = text.strip_prefix('.').unwrap_or(text).split('.');
        let mut steps = Vec::new();
        // What the next part is looked up in: a message, a map, or nothing that has parts.
        let mut inside = Some(Kind::Message(of.clone()));
        let mut is_map = false;
        for part in parts {
            let (name, items) = indices(part).ok_or_else(|| wrong(text, &format!("`{part}` is no name")))?;
            if is_map {
                steps.push(Step::Entry(name.to_owned()));
                is_map = false;
            } else {
                let Some(Kind::Message(message)) = &inside else {
                    return Err(wrong(text, &format!("what is before `{name}` has no fields")));
                };
                let found = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name));
                let Some(field) = found else { return Err(unknown(text, name, message)) };
                steps.push(Step::Field(field.number()));
                is_map = field.is_map();
                inside = match field.kind() {
                    Kind::Message(entry) if is_map => Some(entry.map_entry_value_field().kind()),
                    kind => Some(kind),
                };
            }
            steps.extend(items.into_iter().map(Step::Item));
        }
        Ok(Self { steps, kind: inside })
    }

    /// A value of it in a cell: enums by name, texts as they are, the rest as its JSON.
    #[must_use]
    pub fn text(&self, value: &Value) -> String {
        let one = |value: &Value| match &self.kind {
            Some(kind) => proto_manifest::value_json(kind, value).ok(),
            None => None,
        };
        match value {
            Value::List(items) => {
                items.iter().map(|item| cell(one(item).as_ref())).collect::<Vec<_>>().join(",")
            }
            Value::Map(entries) => {
                let mut lines: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| {
                        format!("{}={}", proto_manifest::key_text(key), cell(one(value).as_ref()))
                    })
                    .collect();
                lines.sort_unstable();
                lines.join(",")
            }
            value => cell(one(value).as_ref()),
        }
    }

    /// What a message has there; nothing where it is not set.
    #[must_use]
    pub fn of(&self, message: &DynamicMessage) -> Option<Value> {
        let mut value = Value::Message(message.clone());
        for step in &self.steps {
            value = match (step, &value) {
                (Step::Field(number), Value::Message(message)) => {
                    let field = message.descriptor().get_field(*number)?;
                    if field.supports_presence() && !message.has_field(&field) {
                        return None;
                    }
                    message.get_field(&field).into_owned()
                }
                (Step::Entry(key), Value::Map(map)) => map.get(&MapKey::String(key.clone()))?.clone(),
                (Step::Item(at), Value::List(items)) => items.get(*at)?.clone(),
                _ => return None,
            };
        }
        Some(value)
    }
}

/// `name[0][1]` as its name and indices.
fn indices(part: &str) -> Option<(&str, Vec<usize>)> {
    let (name, rest) = part.split_once('[').map_or((part, ""), |(name, rest)| (name, rest));
    if name.is_empty() {
        return None;
    }
    if rest.is_empty() {
        return (!part.contains('[')).then_some((name, Vec::new()));
    }
    let items = rest.strip_suffix(']')?.split("][").map(|item| item.parse().ok());
    Some((name, items.collect::<Option<_>>()?))
}

fn wrong(text: &str, why: &str) -> Error {
    Error::Usage(format!("`{text}` is not a field: {why}"))
}

fn unknown(text: &str, name: &str, message: &MessageDescriptor) -> Error {
    let names: Vec<String> = message.fields().map(|field| field.json_name().to_owned()).collect();
    let near = names
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase()), known))
        .min()
        .filter(|(distance, known)| *distance <= 1.max(known.len() / 3));
    let hint = match near {
        Some((_, near)) => format!("did you mean `{near}`?"),
        None => format!("there are {}", names.join(", ")),
    };
    wrong(text, &format!("{} has no `{name}`; {hint}", message.name()))
}

/// The order of two values of one field: by their type, what is absent last.
#[must_use]
pub fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::String(a)), Some(Value::String(b))) => natural::compare(a, b),
        (Some(a), Some(b)) => match (number(a), number(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        },
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// What counts: numbers, truths, enums, times and durations in seconds, the lengths of lists.
fn number(value: &Value) -> Option<f64> {
    Some(match value {
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::I32(value) | Value::EnumNumber(value) => f64::from(*value),
        Value::U32(value) => f64::from(*value),
        Value::I64(value) => *value as f64,
        Value::U64(value) => *value as f64,
        Value::F32(value) => f64::from(*value),
        Value::F64(value) => *value,
        Value::List(items) => items.len() as f64,
        Value::Map(entries) => entries.len() as f64,
        Value::Message(message) => seconds(message)?,
        Value::String(_) | Value::Bytes(_) => return None,
    })
}

/// Of a `google.protobuf.Timestamp` or `Duration`.
fn seconds(message: &DynamicMessage) -> Option<f64> {
    let descriptor = message.descriptor();
    if !matches!(descriptor.full_name(), "google.protobuf.Timestamp" | "google.protobuf.Duration") {
        return None;
    }
    let part = |number| descriptor.get_field(number).map(|field| message.get_field(&field).into_owned());
    let (seconds, nanos) = (part(1)?.as_i64()?, part(2)?.as_i32()?);
    Some(seconds as f64 + f64::from(nanos) / 1e9)
}

/// A value in a cell: texts as they are, the rest as its JSON.
#[must_use]
pub fn cell(value: Option<&serde_json::Value>) -> String {
    match value {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proto_wire::v1;

    use super::*;
    use crate::render::jobs::tests::{pending, running};

    fn job() -> MessageDescriptor {
        proto_wire::descriptor_pool().get_message_by_name("rail.v1.Job").unwrap()
    }

    fn value(text: &str, of: &v1::Job) -> Option<Value> {
        let bytes = prost::Message::encode_to_vec(of);
        Field::new(text, &job()).unwrap().of(&DynamicMessage::decode(job(), bytes.as_slice()).unwrap())
    }

    #[test]
    fn fields_are_found() {
        let mut job = running();
        job.metadata.get_or_insert_default().labels.insert("team".into(), "red".into());
        assert_eq!(value(".metadata.name", &job), Some(Value::String("sum".into())));
        assert_eq!(value("spec.gang.gpusPerNode", &job), Some(Value::U32(2)));
        assert_eq!(value("spec.gang.gpus_per_node", &job), Some(Value::U32(2)));
        assert_eq!(value("metadata.labels.team", &job), Some(Value::String("red".into())));
        assert_eq!(value("metadata.labels.other", &job), None);
        assert_eq!(value("status.placement.nodes[1].node", &job), Some(Value::String("n1".into())));
        assert_eq!(value("status.placement.nodes[2].node", &job), None);
        assert_eq!(value("status.endTime", &job), None);
    }

    #[test]
    fn what_is_no_field_is_told_with_what_was_meant() {
        for (text, hint) in [
            (".metadata.nmae", "did you mean `name`?"),
            ("statsu.phase", "did you mean `status`?"),
            ("metadata.name.first", "what is before `first` has no fields"),
            ("metadata..name", "`` is no name"),
            ("status.placement.nodes[x].node", "`nodes[x]` is no name"),
            ("", "is no name"),
        ] {
            let error = Field::new(text, &job()).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }

    #[test]
    fn values_are_ordered_by_their_type() {
        let order = |text: &str| compare(value(text, &running()).as_ref(), value(text, &pending()).as_ref());
        assert_eq!(order(".status.submitTime"), Ordering::Greater);
        assert_eq!(order(".status.phase"), Ordering::Greater);
        assert_eq!(order(".status.startTime"), Ordering::Less, "what is absent comes last");
        assert_eq!(order(".spec.priority"), Ordering::Equal);
        let (two, ten) = (Value::String("n2".into()), Value::String("n10".into()));
        assert_eq!(compare(Some(&two), Some(&ten)), Ordering::Less);
    }
}
