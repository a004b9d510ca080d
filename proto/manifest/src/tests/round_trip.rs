//! What is written is read back the same: random messages through YAML and JSON, both read by our own reader.

use std::collections::HashMap;

use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MapKey, Value};

use super::message;
use crate::{Format, read_message, to_json, to_yaml, whole_json_of, yaml_of};

/// Text as people and machines write it, without what a manifest may not hold.
fn text() -> impl Strategy<Value = String> {
    let words = [
        "",
        "a",
        "yes",
        "null",
        "~",
        "true",
        "1",
        "1.10",
        "0x1",
        "3600s",
        "10.0.0.1",
        "- a",
        "a: b",
        "#c",
        "a #b",
        " lead",
        "trail ",
        "two\nlines",
        "tab\t",
        "\"quoted\"",
        "it's",
        "\\n",
        "{a}",
        "[b]",
        "&a",
        "*a",
        "!t",
        "|",
        ">",
        "%",
        "@",
        "`",
        "<<",
        "---",
        "...",
        "\u{e9}\u{1f600}",
        "\u{2028}",
        "?",
        ": ",
        "=",
        "2026-01-01",
        "NaN",
        "\r\n",
    ];
    let is_allowed = |c: &char| !crate::tree::is_forbidden(*c);
    prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        "\\PC{0,20}".prop_map(move |text| text.chars().filter(is_allowed).collect()),
        // Long lists, which are folded.
        "[a-z0-9\"\\\\\\[\\]#:é,-]{150,400}",
    ]
}

#[test]
fn a_long_list_is_folded_and_read_the_same() {
    let list: Vec<String> = (0..200).map(|at| format!("gpu{at:03}")).collect();
    let text = format!("labels: {{a: \"{}\", b: {}}}", list.join(","), "x".repeat(400));
    let read = super::yaml("Metadata", &text).unwrap();
    let folded = to_yaml(&read).unwrap();
    let widest = folded.lines().filter(|line| !line.contains("xxx")).map(str::len).max().unwrap();
    assert!(folded.lines().count() > 12 && widest <= 110, "{folded}");
    assert_eq!(super::yaml("Metadata", &folded).unwrap(), read);
}

/// A message that shows itself as its JSON: the derived form walks the descriptor, which contains itself.
#[derive(Clone)]
struct Shown(DynamicMessage);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", to_json(&self.0).unwrap())
    }
}

/// A message of a well-known type, made of its fields by number.
fn special(kind: &str, fields: impl IntoIterator<Item = (u32, Value)>) -> Value {
    let descriptor = super::pool().get_message_by_name(&format!("google.protobuf.{kind}")).unwrap();
    let mut special = DynamicMessage::new(descriptor);
    fields.into_iter().for_each(|(number, value)| special.set_field_by_number(number, value));
    Value::Message(special)
}

/// Random values for the numbered fields that hold scalars.
fn scalars() -> BoxedStrategy<Vec<(u32, Value)>> {
    let number = |x: f64| if x.is_nan() { 0.0 } else { x };
    (
        any::<(f64, f32, i32, i64, u32, u64, bool)>(),
        (text(), prop::collection::vec(any::<u8>(), 0..8), 0i32..4, prop::option::of(text())),
    )
        .prop_map(move |((double, float, i32, i64, u32, u64, bool), (text, bytes, op, maybe))| {
            let mut fields = vec![
                (1, Value::F64(number(double))),
                (2, Value::F32(number(f64::from(float)) as f32)),
                (3, Value::I32(i32)),
                (4, Value::I64(i64)),
                (5, Value::U32(u32)),
                (6, Value::U64(u64)),
                (7, Value::I32(i32 / 3)),
                (8, Value::U64(u64 / 3)),
                (9, Value::Bool(bool)),
                (10, Value::String(text)),
                (11, Value::Bytes(bytes.into())),
                (12, Value::EnumNumber(op)),
            ];
            fields.extend(maybe.map(|text| (25, Value::String(text))));
            fields
        })
        .boxed()
}

/// Random lists, maps and well-known types.
fn collections() -> BoxedStrategy<Vec<(u32, Value)>> {
    (
        prop::collection::vec(any::<i32>(), 0..4),
        prop::collection::hash_map(any::<i32>(), 0i32..4, 0..4),
        prop::collection::hash_map(any::<bool>(), any::<u64>(), 0..3),
        prop::option::of((0i64..1_000_000, 0i32..1_000_000_000)),
        prop::option::of(any::<u32>()),
    )
        .prop_map(|(list, ops, sizes, time, wrapped)| {
            let ops = ops.into_iter().map(|(k, v)| (MapKey::I32(k), Value::EnumNumber(v))).collect();
            let sizes = sizes.into_iter().map(|(k, v)| (MapKey::Bool(k), Value::U64(v))).collect();
            let mut fields = vec![
                (14, Value::List(list.into_iter().map(Value::I32).collect())),
                (16, Value::Map(ops)),
                (18, Value::Map(sizes)),
            ];
            let time = time.map(|(seconds, nanos)| [(1, Value::I64(seconds)), (2, Value::I32(nanos))]);
            fields.extend(time.clone().map(|time| (19, special("Duration", time))));
            fields.extend(time.map(|time| (20, special("Timestamp", time))));
            fields.extend(wrapped.map(|n| (23, special("UInt32Value", [(1, Value::U32(n))]))));
            fields
        })
        .boxed()
}

fn everything(depth: u32) -> BoxedStrategy<Shown> {
    let leaf = (scalars(), collections()).prop_map(|(scalars, collections)| {
        let mut m = DynamicMessage::new(message("Everything"));
        scalars
            .into_iter()
            .chain(collections)
            .for_each(|(number, value)| m.set_field_by_number(number, value));
        Shown(m)
    });
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = || everything(depth - 1);
    let itself = prop::option::of(inner());
    let named = prop::collection::vec((text(), inner()), 0..3);
    (leaf, itself, prop::collection::vec(inner(), 0..3), named)
        .prop_map(|(Shown(mut m), itself, list, named)| {
            if let Some(itself) = itself {
                m.set_field_by_number(13, Value::Message(itself.0));
            }
            let list = list.into_iter().map(|item| Value::Message(item.0)).collect();
            m.set_field_by_number(15, Value::List(list));
            let named: HashMap<_, _> =
                named.into_iter().map(|(k, v)| (MapKey::String(k), Value::Message(v.0))).collect();
            m.set_field_by_number(17, Value::Map(named));
            Shown(m)
        })
        .boxed()
}

proptest! {
    #![proptest_config(super::cases(200))]

    #[test]
    fn messages_survive_both_formats(m in everything(2)) {
        let descriptor = message("Everything");
        let m = DynamicMessage::decode(descriptor.clone(), m.0.encode_to_vec().as_slice()).unwrap();
        let json = to_json(&m).unwrap();
        let yaml = to_yaml(&m).unwrap();
        let from_json = read_message("t.json", json.to_string().as_bytes(), Format::Json, &descriptor);
        prop_assert!(from_json.unwrap() == m, "{json}");
        let from_yaml = read_message("t.yaml", yaml.as_bytes(), Format::Yaml, &descriptor);
        prop_assert!(from_yaml.unwrap() == m, "{yaml}");
        let whole = whole_json_of(&descriptor, &m).unwrap();
        let from_whole = read_message("t.json", whole.to_string().as_bytes(), Format::Json, &descriptor);
        prop_assert!(from_whole.unwrap() == m, "{whole}");
        // And the standard mapping reads ours the same.
        let standard = DynamicMessage::deserialize(descriptor, json).unwrap();
        prop_assert!(standard == m);
    }
}

#[test]
fn yaml_looks_as_people_write_it() {
    let json = serde_json::json!({
        "kind": "Job",
        "spec": {
            "argv": ["python", "-c", "print(1)"],
            "nodes": [{"name": "n0", "rails": [0, 1]}, {"name": "n1"}],
            "none": [], "empty": {}, "limit": "3600s", "bytes": "64", "on": true, "text": "a: b\n",
        },
    });
    let expected = "\
kind: Job
spec:
  argv:
  - python
  - \"-c\"
  - \"print(1)\"
  nodes:
  - name: n0
    rails:
    - 0
    - 1
  - name: n1
  none: []
  empty: {}
  limit: 3600s
  bytes: \"64\"
  \"on\": true
  text: \"a: b\\n\"
";
    assert_eq!(yaml_of(&json), expected);
}
