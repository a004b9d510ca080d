//! Inside rail.v1 no field is renamed, retyped or removed: today's schema against every released one.
//!
//! `proto/released/NAME.binpb` is the schema as released, never changed. A release adds its own by
//! `RAIL_BLESS=NAME cargo test -p integration -- compatibility`.

use std::fs;

use integration_harness::binaries::root;
use prost::Message as _;
use prost_reflect::{DescriptorPool, EnumDescriptor, MessageDescriptor, prost_types::FileDescriptorSet};

/// Everything that clients of `old` would find broken in `new`.
fn breaks(old: &DescriptorPool, new: &DescriptorPool) -> Vec<String> {
    let ours = |name: &str| name.starts_with("rail.");
    let mut found = Vec::new();
    for message in old.all_messages().filter(|m| ours(m.full_name())) {
        match new.get_message_by_name(message.full_name()) {
            Some(now) => message_breaks(&message, &now, &mut found),
            None => found.push(format!("{} is gone", message.full_name())),
        }
    }
    for old_enum in old.all_enums().filter(|e| ours(e.full_name())) {
        match new.get_enum_by_name(old_enum.full_name()) {
            Some(now) => enum_breaks(&old_enum, &now, &mut found),
            None => found.push(format!("{} is gone", old_enum.full_name())),
        }
    }
    for service in old.services() {
        let now = new.get_service_by_name(service.full_name());
        for method in service.methods() {
            let same =
                now.as_ref().and_then(|s| s.methods().find(|m| m.name() == method.name())).is_some_and(|m| {
                    m.input().full_name() == method.input().full_name()
                        && m.output().full_name() == method.output().full_name()
                        && m.is_client_streaming() == method.is_client_streaming()
                        && m.is_server_streaming() == method.is_server_streaming()
                });
            if !same {
                found.push(format!("{} is gone or changed", method.full_name()));
            }
        }
    }
    found
}

fn message_breaks(old: &MessageDescriptor, new: &MessageDescriptor, found: &mut Vec<String>) {
    for field in old.fields() {
        let same = new.get_field(field.number()).is_some_and(|now| {
            now.json_name() == field.json_name()
                && now.name() == field.name()
                && now.cardinality() == field.cardinality()
                && format!("{:?}", now.kind()) == format!("{:?}", field.kind())
                && now.containing_oneof().map(|o| o.name().to_owned())
                    == field.containing_oneof().map(|o| o.name().to_owned())
        });
        if !same {
            found.push(format!(
                "{} (field {}) is gone, renamed or retyped",
                field.full_name(),
                field.number()
            ));
        }
    }
}

fn enum_breaks(old: &EnumDescriptor, new: &EnumDescriptor, found: &mut Vec<String>) {
    for value in old.values() {
        if new.get_value(value.number()).is_none_or(|now| now.name() != value.name()) {
            found.push(format!("{} is gone or renamed", value.full_name()));
        }
    }
}

#[test]
fn nothing_released_is_broken() {
    let released = root().join("proto/released");
    if let Ok(name) = std::env::var("RAIL_BLESS") {
        let path = released.join(format!("{name}.binpb"));
        assert!(!path.exists(), "{name} is released; it is never changed");
        let mut set = FileDescriptorSet::decode(proto_wire::FILE_DESCRIPTOR_SET).unwrap();
        set.file.iter_mut().for_each(|file| file.source_code_info = None);
        fs::write(path, set.encode_to_vec()).unwrap();
    }
    let mut checked = 0;
    for entry in fs::read_dir(released).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "binpb") {
            let old = DescriptorPool::decode(fs::read(&path).unwrap().as_slice()).unwrap();
            let found = breaks(&old, &proto_wire::descriptor_pool());
            assert!(found.is_empty(), "{} is broken: {found:#?}", path.display());
            checked += 1;
        }
    }
    assert!(checked > 0, "no released schema");
}

/// The check itself must be able to fail.
#[test]
fn a_planted_break_is_found() {
    let old = proto_wire::descriptor_pool();
    let mut set = FileDescriptorSet::decode(proto_wire::FILE_DESCRIPTOR_SET).unwrap();
    let file = set.file.iter_mut().find(|file| file.name().ends_with("job.proto")).unwrap();
    let gang = file.message_type.iter_mut().find(|message| message.name() == "Gang").unwrap();
    gang.field[0].name = Some("servers".into());
    gang.field[0].json_name = Some("servers".into());
    gang.field.pop();
    let new = DescriptorPool::from_file_descriptor_set(set).unwrap();
    let found = breaks(&old, &new);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().any(|text| text.contains("Gang.nodes")), "{found:?}");
    assert!(breaks(&old, &old).is_empty());
}
