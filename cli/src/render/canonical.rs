//! The canonical JSON mapping of any rail.v1 message, and the same as YAML.

use prost_reflect::MessageDescriptor;
use proto_manifest::{json_of, whole_json_of, yaml_of};
use serde_json::Value;

use crate::error::Error;

/// The type of this name.
///
/// # Errors
/// [`Error::Config`] if the schema has no message of this name.
pub fn descriptor(full_name: &str) -> Result<MessageDescriptor, Error> {
    proto_wire::descriptor_pool().get_message_by_name(full_name).ok_or_else(|| {
        Error::Config(format!("cannot show a {full_name}: this railctl does not know the message"))
    })
}

/// The message as a JSON value: lowerCamelCase fields, enums by name, 64-bit numbers as texts, RFC 3339 times.
///
/// # Errors
/// [`Error::Config`] if the message has a value that JSON cannot express.
pub fn to_value<M: prost::Message>(message: &M, full_name: &str) -> Result<Value, Error> {
    json_of(&descriptor(full_name)?, message)
        .map_err(|error| Error::Config(format!("cannot show a {full_name}: {error}")))
}

/// The same with every list, number and truth, also where it is empty, 0 or false: what programs read.
///
/// # Errors
/// [`Error::Config`] if the message has a value that JSON cannot express.
pub fn to_whole_value<M: prost::Message>(message: &M, full_name: &str) -> Result<Value, Error> {
    whole_json_of(&descriptor(full_name)?, message)
        .map_err(|error| Error::Config(format!("cannot show a {full_name}: {error}")))
}

/// Indented JSON with a final newline, with every list, number and truth.
///
/// # Errors
/// [`Error::Config`] if the message has a value that JSON cannot express.
pub fn to_json<M: prost::Message>(message: &M, full_name: &str) -> Result<String, Error> {
    Ok(format!("{:#}\n", to_whole_value(message, full_name)?))
}

/// Block style YAML of the message, fields in the order of the schema.
///
/// # Errors
/// [`Error::Config`] if the message has a value that JSON cannot express.
pub fn to_yaml<M: prost::Message>(message: &M, full_name: &str) -> Result<String, Error> {
    Ok(yaml_of(&to_value(message, full_name)?))
}

#[cfg(test)]
mod tests {
    use proto_wire::v1;

    use super::*;

    fn node() -> v1::Node {
        let gpu = v1::Gpu { index: 1, model: "dev GPU".into(), memory_bytes: 1 << 40, ..Default::default() };
        let inventory = v1::Inventory { gpus: vec![v1::Gpu::default(), gpu], ..Default::default() };
        v1::Node {
            metadata: Some(v1::Metadata { name: "n0".into(), uid: "12".into(), ..Default::default() }),
            status: Some(v1::NodeStatus { phase: 1, inventory: Some(inventory), ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn json_is_canonical() {
        let value = to_value(&node(), "rail.v1.Node").unwrap();
        assert_eq!(value["status"]["phase"], "READY");
        assert_eq!(value["status"]["inventory"]["gpus"][1]["memoryBytes"], "1099511627776");
    }

    #[test]
    fn programs_find_zeroes_and_empty_lists() {
        let value = to_whole_value(&node(), "rail.v1.Node").unwrap();
        let gpu = &value["status"]["inventory"]["gpus"][0];
        assert_eq!((&gpu["index"], &gpu["memoryBytes"]), (&0.into(), &"0".into()));
        assert_eq!(value["status"]["holds"], serde_json::json!([]));
        assert_eq!(value["metadata"]["labels"], serde_json::json!({}));
        assert!(value.get("spec").is_none(), "what is not there is not made up");
        let list =
            to_whole_value(&v1::ListReservationsResponse::default(), "rail.v1.ListReservationsResponse");
        assert_eq!(list.unwrap()["reservations"], serde_json::json!([]));
    }

    #[test]
    fn yaml_is_the_same() {
        let text = to_yaml(&node(), "rail.v1.Node").unwrap();
        let expected = "metadata:\n  name: n0\n  uid: \"12\"\nstatus:\n  inventory:\n    gpus:\n    - {}\n";
        let flat: String = text.lines().map(|line| format!("{line}\n")).collect();
        assert!(flat.starts_with("metadata:\n  name: n0\n  uid: \"12\"\nstatus:\n"), "{text}\n{expected}");
        assert!(text.contains("- index: 1\n"), "{text}");
    }
}
