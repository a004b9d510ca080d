//! The well-known types that JSON writes in a form of their own.

use prost_reflect::{DynamicMessage, MessageDescriptor, Value};

use crate::check::describe;
use crate::scalar::{Resolved, duration, resolve, whole};
use crate::tree::{Content, Node};

/// Reads a node as the given well-known type; the message says what is wrong.
pub(crate) type Reader = fn(&MessageDescriptor, &Node) -> Result<DynamicMessage, String>;

/// The reader of a type with a form of its own; `None` for an ordinary message.
pub(crate) fn reader(full_name: &str) -> Option<Reader> {
    match full_name.strip_prefix("google.protobuf.")? {
        "Duration" => Some(read_duration),
        "Timestamp" => Some(read_timestamp),
        "FieldMask" => Some(read_field_mask),
        "Struct" | "Value" | "ListValue" | "Any" => Some(read_json),
        _ => None,
    }
}

/// Whether the type is one of the wrappers (`google.protobuf.UInt32Value` and so on): written as their value.
pub(crate) fn is_wrapper(full_name: &str) -> bool {
    let wrappers = [
        "DoubleValue",
        "FloatValue",
        "Int64Value",
        "UInt64Value",
        "Int32Value",
        "UInt32Value",
        "BoolValue",
        "StringValue",
        "BytesValue",
    ];
    full_name.strip_prefix("google.protobuf.").is_some_and(|name| wrappers.contains(&name))
}

/// Whether the type is written in a form of its own.
pub(crate) fn is_special(full_name: &str) -> bool {
    reader(full_name).is_some() || is_wrapper(full_name)
}

fn text_of(node: &Node) -> Option<&str> {
    match &node.value {
        Content::Plain(text) | Content::Quoted(text) => Some(text),
        _ => None,
    }
}

fn read_duration(descriptor: &MessageDescriptor, node: &Node) -> Result<DynamicMessage, String> {
    let (seconds, nanos) = match text_of(node) {
        Some(text) => duration(text).map_err(|what| format!("{what}; found {}", describe(node)))?,
        None => return Err(format!("expected a duration, for example \"90s\"; found {}", describe(node))),
    };
    let mut message = DynamicMessage::new(descriptor.clone());
    // Zero is the default of a field without presence and stands for itself.
    message.set_field_by_number(1, Value::I64(seconds));
    message.set_field_by_number(2, Value::I32(nanos));
    Ok(message)
}

fn read_timestamp(descriptor: &MessageDescriptor, node: &Node) -> Result<DynamicMessage, String> {
    let wrong = || format!("expected a time, for example \"2026-01-31T12:00:00Z\"; found {}", describe(node));
    let text = text_of(node).filter(|text| is_rfc3339(text)).ok_or_else(wrong)?;
    let json = serde_json::Value::String(text.to_owned());
    DynamicMessage::deserialize(descriptor.clone(), json).map_err(|_| wrong())
}

/// The shape of RFC 3339 with `T` and an offset; the numbers are checked by whoever converts them.
fn is_rfc3339(text: &str) -> bool {
    let shape =
        |text: &str| text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect::<String>();
    let Some((date_time, rest)) = text.split_at_checked(19) else { return false };
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let digits = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
            if !(1..=9).contains(&digits) {
                return false;
            }
            &fraction[digits..]
        }
        None => rest,
    };
    shape(date_time) == "0000-00-00T00:00:00"
        && (zone == "Z" || matches!(shape(zone).as_str(), "+00:00" | "-00:00"))
}

fn read_field_mask(descriptor: &MessageDescriptor, node: &Node) -> Result<DynamicMessage, String> {
    let wrong = || format!("expected field names separated by commas; found {}", describe(node));
    let json = serde_json::Value::String(text_of(node).ok_or_else(wrong)?.to_owned());
    DynamicMessage::deserialize(descriptor.clone(), json).map_err(|_| wrong())
}

/// Free JSON. The tree is within the limits already.
fn read_json(descriptor: &MessageDescriptor, node: &Node) -> Result<DynamicMessage, String> {
    DynamicMessage::deserialize(descriptor.clone(), json_value(node)).map_err(|error| error.to_string())
}

fn json_value(node: &Node) -> serde_json::Value {
    use serde_json::Value as Json;
    match &node.value {
        Content::Quoted(text) => Json::String(text.clone()),
        Content::List(items) => Json::Array(items.iter().map(json_value).collect()),
        Content::Map(entries) => {
            Json::Object(entries.iter().map(|entry| (entry.key.clone(), json_value(&entry.value))).collect())
        }
        Content::Plain(text) => match resolve(text) {
            Resolved::Null => Json::Null,
            Resolved::Bool => Json::Bool(text.eq_ignore_ascii_case("true")),
            Resolved::Number => {
                let whole = whole(text).ok().and_then(|number| i64::try_from(number).ok());
                let number =
                    whole.map(Into::into).or_else(|| serde_json::Number::from_f64(text.parse().ok()?));
                number.map_or_else(|| Json::String(text.clone()), Json::Number)
            }
            Resolved::Text => Json::String(text.clone()),
        },
        Content::Broken => Json::Null,
    }
}
