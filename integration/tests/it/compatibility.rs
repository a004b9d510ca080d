//! Inside rail.v1 and rail.store.v1 no field is renamed, retyped or removed: today's schemas against every released one.
//!
//! `proto/released/NAME.binpb` is the API's schema as released, `proto/released/store/N.binpb` that of stored rows of version N; neither is ever
//! changed. A release, and a version of rows, adds its own by `RAIL_BLESS=NAME cargo test -p integration -- compatibility`.

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

/// Compares a schema with all that a folder has of it; those that it was compared with, by name.
fn unbroken(folder: &str, schema: &[u8]) -> Vec<String> {
    let today = DescriptorPool::decode(schema).unwrap();
    let mut checked = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "binpb") {
            let old = DescriptorPool::decode(fs::read(&path).unwrap().as_slice()).unwrap();
            let found = breaks(&old, &today);
            assert!(found.is_empty(), "{} is broken: {found:#?}", path.display());
            checked.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    checked
}

/// Adds today's schema under a name that is new.
fn bless(folder: &str, name: &str, schema: &[u8]) {
    let path = root().join(folder).join(format!("{name}.binpb"));
    assert!(!path.exists(), "{name} is released; it is never changed");
    let mut set = FileDescriptorSet::decode(schema).unwrap();
    set.file.iter_mut().for_each(|file| file.source_code_info = None);
    fs::write(path, set.encode_to_vec()).unwrap();
}

#[test]
fn nothing_released_is_broken() {
    if let Ok(name) = std::env::var("RAIL_BLESS") {
        bless("proto/released", &name, proto_wire::FILE_DESCRIPTOR_SET);
    }
    assert!(!unbroken("proto/released", proto_wire::FILE_DESCRIPTOR_SET).is_empty(), "no released schema");
}

/// The version of the rows of the newest release.
fn released_rows() -> u32 {
    let commits = fs::read_to_string(root().join("proto/released/commits")).unwrap();
    let last = commits.lines().rfind(|line| !line.starts_with('#')).expect("a release");
    last.split(' ').nth(1).and_then(|rows| rows.parse().ok()).expect("its rows")
}

/// A program refuses rows that it does not know, with the reason, by their version alone: with the same one it would take a new kind of row for a
/// foreign key, and lose a new field when it writes the row again.
#[test]
fn nothing_is_added_to_the_rows_of_a_released_version() {
    let (released, current) = (released_rows(), controller_rows::format::CURRENT);
    assert!(
        (released..=released + 1).contains(&current),
        "one step between two releases, which is this one's"
    );
    if released < current {
        return;
    }
    let path = root().join(format!("proto/released/store/{current}.binpb"));
    let then = DescriptorPool::decode(fs::read(&path).unwrap().as_slice()).unwrap();
    let today = DescriptorPool::decode(controller_rows::FILE_DESCRIPTOR_SET).unwrap();
    let added = breaks(&today, &then);
    assert!(
        added.is_empty(),
        "rows of version {current} are released without {added:#?}: this needs another `CURRENT` in controller/rows/src/format.rs"
    );
}

/// The rule has to be able to fail: usage records came after version 2 was released.
#[test]
fn an_addition_to_released_rows_is_found() {
    let then = fs::read(root().join("proto/released/store/2.binpb")).unwrap();
    let then = DescriptorPool::decode(then.as_slice()).unwrap();
    let today = DescriptorPool::decode(controller_rows::FILE_DESCRIPTOR_SET).unwrap();
    let added = breaks(&today, &then);
    assert!(added.iter().any(|what| what.contains("rail.store.v1.Usage")), "{added:?}");
}

/// Version 1 of the rows was rail.v1 itself.
#[test]
fn no_row_that_was_stored_is_broken() {
    let (folder, schema) = ("proto/released/store", controller_rows::FILE_DESCRIPTOR_SET);
    let current = controller_rows::format::CURRENT.to_string();
    if std::env::var("RAIL_BLESS").is_ok_and(|name| name == current) {
        bless(folder, &current, schema);
    }
    let mut checked = unbroken(folder, schema);
    checked.sort();
    let versions: Vec<String> =
        (2..=controller_rows::format::CURRENT).map(|version| version.to_string()).collect();
    assert_eq!(checked, versions, "each version of rows has its schema");
}

/// Rows are apart from the API: neither schema changes with the other.
#[test]
fn rows_import_nothing_of_the_api() {
    let set = FileDescriptorSet::decode(controller_rows::FILE_DESCRIPTOR_SET).unwrap();
    for file in set.file.iter().filter(|file| file.package() == "rail.store.v1") {
        let foreign =
            |name: &&String| !name.starts_with("rail/store/v1/") && !name.starts_with("google/protobuf/");
        assert_eq!(file.dependency.iter().find(foreign), None, "{}", file.name());
    }
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
