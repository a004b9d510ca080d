//! Messages as canonical JSON in the order of the proto's fields, and as YAML that our own reader reads back.

use std::fmt::Write as _;

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value,
};
use serde_json::{Map, Number, Value as Json};

use crate::scalar::{Resolved, resolve, to_base64};
use crate::wellknown::{is_special, is_wrapper};

/// Why a message has no canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A well-known type holds what JSON cannot say, for example a time before year 1.
    #[error("{message} cannot be written as JSON: {reason}")]
    WellKnown {
        /// Full name of the message type.
        message: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The bytes are not a message of the type.
    #[error("not a {message}: {reason}")]
    Decode {
        /// Full name of the message type.
        message: String,
        /// Why the bytes cannot be decoded.
        reason: String,
    },
}

/// The canonical JSON of a message: lowerCamelCase names, fields in the order of their numbers, fields at their
/// default left out, map keys in order.
///
/// # Errors
/// [`WriteError::WellKnown`] if a well-known type holds what JSON cannot express.
pub fn to_json(message: &DynamicMessage) -> Result<Json, WriteError> {
    object(message, Defaults::LeftOut)
}

/// Which fields that are at their default are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defaults {
    /// None, as the canonical mapping has it.
    LeftOut,
    /// Lists, maps, numbers and truths, so that a program finds them; texts and enums that say nothing are left out.
    Written,
}

/// The JSON of a generated message with every list, number and truth in it, also where it is empty, 0 or false; the rest as [`json_of`].
///
/// # Errors
/// [`WriteError`] if a well-known type holds what JSON cannot express, or the bytes are not a message of the type.
pub fn whole_json_of<M: prost::Message>(
    descriptor: &MessageDescriptor,
    message: &M,
) -> Result<Json, WriteError> {
    object(&decoded(descriptor, message)?, Defaults::Written)
}

/// Whether a field says something where it is not set.
fn says_something(field: &FieldDescriptor) -> bool {
    let worth = !matches!(field.kind(), Kind::Message(_) | Kind::Enum(_) | Kind::String | Kind::Bytes);
    field.is_list() || field.is_map() || (worth && !field.supports_presence())
}

fn object(message: &DynamicMessage, defaults: Defaults) -> Result<Json, WriteError> {
    let name = message.descriptor().full_name().to_owned();
    if is_wrapper(&name) {
        return match message.descriptor().get_field(1) {
            Some(field) => one_json(&field.kind(), &message.get_field(&field), defaults),
            None => Ok(Json::Null),
        };
    }
    if is_special(&name) {
        return serde_json::to_value(message)
            .map_err(|error| WriteError::WellKnown { message: name, reason: error.to_string() });
    }
    let mut object = Map::new();
    let written = |field: &FieldDescriptor| {
        message.has_field(field) || (defaults == Defaults::Written && says_something(field))
    };
    for field in message.descriptor().fields().filter(written) {
        let value = field_json(&field, &message.get_field(&field), defaults)?;
        object.insert(field.json_name().to_owned(), value);
    }
    Ok(Json::Object(object))
}

/// The canonical JSON of a generated message; `descriptor` is its type.
///
/// # Errors
/// [`WriteError`] if a well-known type holds what JSON cannot express, or the bytes are not a message of the type.
pub fn json_of<M: prost::Message>(descriptor: &MessageDescriptor, message: &M) -> Result<Json, WriteError> {
    to_json(&decoded(descriptor, message)?)
}

fn decoded<M: prost::Message>(
    descriptor: &MessageDescriptor,
    message: &M,
) -> Result<DynamicMessage, WriteError> {
    DynamicMessage::decode(descriptor.clone(), message.encode_to_vec().as_slice()).map_err(|error| {
        WriteError::Decode { message: descriptor.full_name().to_owned(), reason: error.to_string() }
    })
}

fn field_json(field: &FieldDescriptor, value: &Value, defaults: Defaults) -> Result<Json, WriteError> {
    match (value, field.kind()) {
        (Value::Map(map), Kind::Message(entry)) => {
            let kind = entry.map_entry_value_field().kind();
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            let object = entries
                .into_iter()
                .map(|(key, value)| Ok((key_text(key), one_json(&kind, value, defaults)?)));
            object.collect::<Result<Map<_, _>, _>>().map(Json::Object)
        }
        (Value::List(items), kind) => items
            .iter()
            .map(|item| one_json(&kind, item, defaults))
            .collect::<Result<_, _>>()
            .map(Json::Array),
        (value, kind) => one_json(&kind, value, defaults),
    }
}

/// A map's key as JSON and YAML write it.
#[must_use]
pub fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

/// One value of a field of this kind.
///
/// # Errors
/// [`WriteError`] if a well-known type holds what JSON cannot express.
pub fn value_json(kind: &Kind, value: &Value) -> Result<Json, WriteError> {
    one_json(kind, value, Defaults::LeftOut)
}

fn one_json(kind: &Kind, value: &Value, defaults: Defaults) -> Result<Json, WriteError> {
    Ok(match value {
        Value::Bool(value) => Json::Bool(*value),
        Value::I32(value) => Json::from(*value),
        Value::U32(value) => Json::from(*value),
        // 64-bit numbers are text: JSON's numbers are exact to 2^53 only.
        Value::I64(value) => Json::String(value.to_string()),
        Value::U64(value) => Json::String(value.to_string()),
        // By way of its own text, or 0.1 would become 0.10000000149011612.
        Value::F32(value) => {
            float_json(f64::from(*value), value.to_string().parse().unwrap_or(f64::from(*value)))
        }
        Value::F64(value) => float_json(*value, *value),
        Value::String(value) => Json::String(value.clone()),
        Value::Bytes(value) => Json::String(to_base64(value)),
        Value::EnumNumber(number) => match kind {
            Kind::Enum(descriptor) if descriptor.full_name() == "google.protobuf.NullValue" => Json::Null,
            Kind::Enum(descriptor) => match descriptor.get_value(*number) {
                Some(value) => Json::String(value.name().to_owned()),
                None => Json::from(*number),
            },
            _ => Json::from(*number),
        },
        Value::Message(message) => object(message, defaults)?,
        Value::List(items) => {
            Json::Array(items.iter().map(|item| one_json(kind, item, defaults)).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let object = map.iter().map(|(key, value)| Ok((key_text(key), one_json(kind, value, defaults)?)));
            Json::Object(object.collect::<Result<Map<_, _>, _>>()?)
        }
    })
}

fn float_json(value: f64, shortest: f64) -> Json {
    match Number::from_f64(shortest) {
        Some(number) => Json::Number(number),
        None if value.is_nan() => Json::String("NaN".to_owned()),
        None => Json::String(if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()),
    }
}

/// A message as YAML in block style; one document, without `---`.
///
/// # Errors
/// [`WriteError::WellKnown`] if a well-known type holds what JSON cannot express.
pub fn to_yaml(message: &DynamicMessage) -> Result<String, WriteError> {
    Ok(yaml_of(&to_json(message)?))
}

/// Any JSON as YAML in block style.
pub fn yaml_of(json: &Json) -> String {
    let mut out = String::new();
    block(json, 0, &mut out);
    out
}

/// Writes a value whose line has begun already (after `key:`, `-`, or nothing), with its line break.
fn block(json: &Json, indent: usize, out: &mut String) {
    match json {
        Json::Object(object) if object.is_empty() => out.push_str("{}\n"),
        Json::Array(items) if items.is_empty() => out.push_str("[]\n"),
        Json::Object(object) => {
            for (i, (key, value)) in object.iter().enumerate() {
                if i > 0 {
                    pad(indent, out);
                }
                scalar(key, out);
                out.push(':');
                nested(value, indent, out);
            }
        }
        Json::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    pad(indent, out);
                }
                out.push_str("- ");
                block(item, indent + 2, out);
            }
        }
        Json::String(text) => {
            if is_long_list(text) {
                folded(text, indent, out);
            } else {
                scalar(text, out);
            }
            out.push('\n');
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{json}");
        }
    }
}

/// Writes the value of a key: on the same line where it is small, else on the next ones.
fn nested(value: &Json, indent: usize, out: &mut String) {
    let deeper = match value {
        Json::Object(object) if !object.is_empty() => indent + 2,
        // A list stands below its key without indent, as people write it.
        Json::Array(items) if !items.is_empty() => indent,
        _ => {
            out.push(' ');
            return block(value, indent, out);
        }
    };
    out.push('\n');
    pad(deeper, out);
    block(value, deeper, out);
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Characters of a list on one line, where it is long.
const LINE: usize = 100;

/// A list without blanks, such as one of names, that is longer than a line and a half.
fn is_long_list(text: &str) -> bool {
    text.len() > LINE * 3 / 2
        && text.contains(',')
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Text in quotes on several lines, each ending behind a comma: the escaped line breaks are no part of the text.
fn folded(text: &str, indent: usize, out: &mut String) {
    out.push('"');
    let mut length = 0;
    for piece in text.split_inclusive(',') {
        if length > 0 && length + piece.len() > LINE {
            out.push_str("\\\n");
            pad(indent + 2, out);
            length = 0;
        }
        length += piece.len();
        piece.chars().for_each(|c| escaped(c, out));
    }
    out.push('"');
}

/// Text, in quotes unless every reader of YAML takes it for the same text.
fn scalar(text: &str, out: &mut String) {
    if is_safe_plain(text) {
        out.push_str(text);
        return;
    }
    out.push('"');
    text.chars().for_each(|c| escaped(c, out));
    out.push('"');
}

/// A character within double quotes.
fn escaped(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
        {
            let _ = write!(out, "\\u{:04X}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Words, paths and durations; nothing that YAML 1.1 or 1.2 takes for anything but text.
fn is_safe_plain(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+');
    let Some(first) = text.chars().next() else { return false };
    let duration = text.strip_suffix('s').is_some_and(|n| n.chars().all(|c| c.is_ascii_digit() || c == '.'));
    let old_words = ["y", "n", "yes", "no", "on", "off", "null", "true", "false"];
    (first.is_ascii_alphabetic() || matches!(first, '_' | '/') || (duration && first.is_ascii_digit()))
        && text.chars().all(word)
        && resolve(text) == Resolved::Text
        && !old_words.contains(&text.to_ascii_lowercase().as_str())
}
