//! What a user is told: each case is a document and the exact findings.

use prost_reflect::ReflectMessage;

use super::{json, registry, yaml};
use crate::{Format, MAX_FINDINGS};

#[track_caller]
fn finds(text: &str, expected: &[&str]) {
    let findings = registry().read("job.yaml", text.as_bytes(), Format::Yaml).unwrap_err().to_string();
    assert_eq!(findings.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_good_job_is_read() {
    let text = "\
# A comment.
apiVersion: test/v1
kind: Job
metadata:
  name: first
  labels: {team: nlp, 'on': \"1\"}
spec:
  gang: {nodes: 4, gpusPerNode: 2}
  timeLimit: 3600s
  collective:
    op: ALL_REDUCE
    bytes: 67108864
    verify: true
---
apiVersion: test/v1
kind: Tenant
metadata: {name: nlp}
---
";
    let documents = registry().read("job.yaml", text.as_bytes(), Format::Yaml).unwrap();
    assert_eq!(
        documents.iter().map(|d| (d.kind.as_str(), d.at.line)).collect::<Vec<_>>(),
        [("Job", 2), ("Tenant", 15)]
    );
    let expected = r#"{"apiVersion":"test/v1","kind":"Job","metadata":{"name":"first","labels":{"on":"1","team":"nlp"}},"spec":{"gang":{"nodes":4,"gpusPerNode":2},"timeLimit":"3600s","collective":{"op":"ALL_REDUCE","bytes":"67108864","verify":true}}}"#;
    assert_eq!(crate::to_json(&documents[0].message).unwrap().to_string(), expected);
    let again = registry().read("job.json", expected.as_bytes(), Format::Json).unwrap();
    assert_eq!(again[0].message, documents[0].message);
}

#[test]
fn every_error_is_found_and_located() {
    finds(
        "\
apiVersion: test/v1
kind: Job
metadata:
  nmae: first
  labels: {a: 1, b: yes, c: }
spec:
  nodes: 4
  gang:
    nodes: -1
    gpus: two
  timeLimit: 1 hour
  collective: {op: all-reduce, bytes: 64MiB, verify: yes}
  command: {argv: python}
  priority: 1.5
",
        &[
            "job.yaml:4:3: metadata.nmae: unknown field \"nmae\"; did you mean \"name\"?",
            "job.yaml:5:15: metadata.labels[\"a\"]: expected a string; found the number 1; write \"1\"",
            "job.yaml:5:27: metadata.labels[\"c\"]: has no value; write \"\" for an empty one",
            "job.yaml:7:3: spec.nodes: unknown field \"nodes\"; it belongs at spec.gang.nodes",
            "job.yaml:9:12: spec.gang.nodes: -1 is out of range; expected 0 to 4294967295",
            "job.yaml:10:5: spec.gang.gpus: unknown field \"gpus\"; did you mean \"gpusPerNode\"?",
            "job.yaml:11:14: spec.timeLimit: a duration has a unit; write \"3600s\"; found the text \"1 hour\"",
            "job.yaml:12:20: spec.collective.op: unknown value \"all-reduce\"; did you mean ALL_REDUCE?",
            "job.yaml:12:39: spec.collective.bytes: expected a whole number; 64MiB is 67108864; found the text \"64MiB\"",
            "job.yaml:12:54: spec.collective.verify: expected true or false; found the text \"yes\"; did you mean true?",
            "job.yaml:13:3: spec.command: only one of command or collective may be given, and collective is at line 12",
            "job.yaml:14:13: spec.priority: expected a whole number; found the number 1.5",
        ],
    );
}

#[test]
fn kinds_and_versions() {
    finds(
        "apiVersion: test/v1\nkind: Jbo\n",
        &["job.yaml:2:7: kind: unknown kind \"Jbo\"; did you mean Job?"],
    );
    finds(
        "apiVersion: test/v1\nkind: Pod\n",
        &["job.yaml:2:7: kind: unknown kind \"Pod\"; expected Job or Tenant"],
    );
    finds(
        "apiVersion: v1\nkind: Job\n",
        &["job.yaml:1:13: apiVersion: unknown version \"v1\"; expected test/v1"],
    );
    finds("kind: Job\n", &["job.yaml:1:1: apiVersion: is missing; expected test/v1"]);
    finds("apiVersion: test/v1\n", &["job.yaml:1:1: kind: is missing; expected Job or Tenant"]);
    finds(
        "kind: [Job]\napiVersion: test/v1\n",
        &["job.yaml:1:7: kind: unknown kind \"\"; expected Job or Tenant"],
    );
    finds(
        "just text\n",
        &[
            "job.yaml:1:1: expected a document with apiVersion, kind, metadata and spec; found the text \"just text\"",
        ],
    );
    finds("", &["job.yaml:1:1: no document; expected Job or Tenant"]);
    finds("# nothing\n---\n---\n", &["job.yaml:1:1: no document; expected Job or Tenant"]);
}

#[test]
fn what_yaml_can_do_and_a_manifest_may_not() {
    let head = "apiVersion: test/v1\nkind: Job\n";
    let cases = [
        ("kind: Job\n", "job.yaml:3:1: \"kind\" is given twice; the first is at line 2"),
        (
            "metadata: &a {name: x}\n",
            "job.yaml:3:11: an anchor (&name); anchors are not supported, write the value out where it is used",
        ),
        ("metadata: !x {name: x}\n", "job.yaml:3:11: a tag (!name); tags are not supported, remove it"),
        ("metadata: {? [a] : b}\n", "job.yaml:3:14: a key must be text, not a list or a mapping"),
        (
            "metadata: {<<: {name: x}}\n",
            "job.yaml:3:12: a merge key (<<); merge keys are not supported, write the fields out",
        ),
        (
            "metadata: {name: \"a\\0b\"}\n",
            "job.yaml:3:18: \"a\\u{0}b\" holds the control character U+0000; remove it",
        ),
        ("metadata: {name: x, name: y}\n", "job.yaml:3:21: \"name\" is given twice; the first is at line 3"),
        (
            "api_version: test/v1\n",
            "job.yaml:3:1: apiVersion: \"apiVersion\" is given twice under its two names; the first is at line 1",
        ),
        ("metadata:\n", "job.yaml:3:9: metadata: has no value; give one or remove the line"),
        ("metadata: []\n", "job.yaml:3:11: metadata: expected a mapping with name or labels; found a list"),
        (
            "spec: {command: {argv: [a, ~]}}\n",
            "job.yaml:3:28: spec.command.argv[1]: has no value; give one or remove the line",
        ),
        (
            "spec: {command: {argv: [a, 1.10]}}\n",
            "job.yaml:3:28: spec.command.argv[1]: expected a string; found the number 1.10; write \"1.10\"",
        ),
        (
            "spec: {command: {env: {A: true}}}\n",
            "job.yaml:3:27: spec.command.env[\"A\"]: expected a string; found the boolean true; write \"true\"",
        ),
        (
            "spec: {gang: {nodes: 010}}\n",
            "job.yaml:3:22: spec.gang.nodes: a number with leading zeros; write 10; found the number 010",
        ),
    ];
    for (text, expected) in cases {
        finds(&format!("{head}{text}"), &[expected]);
    }
    let aliased = format!("{head}metadata: &a {{name: x}}\nspec: *a\n");
    let findings = registry().read("job.yaml", aliased.as_bytes(), Format::Yaml).unwrap_err();
    assert!(findings.items[1].message.starts_with("an alias (*name)"), "{findings}");
}

#[test]
fn at_most_twenty_and_a_count() {
    let text = (0..50).map(|i| format!("wrong{i}: 1\n")).collect::<String>();
    let findings = yaml("Gang", &text).unwrap_err();
    assert_eq!((findings.items.len(), findings.more), (MAX_FINDINGS, 30));
    assert!(findings.to_string().ends_with("\nt.yaml: and 30 more"));
}

#[test]
fn every_kind_of_field() {
    let good = r#"
aDouble: 1.5e3
aFloat: 0.1
anInt32: -2147483648
anInt64: "-9223372036854775808"
aUint32: 4294967295
aUint64: 18446744073709551615
aSint32: 1e3
aFixed64: 7
aBool: true
aString: plain text
someBytes: Zm9v
anEnum: 2
itself: {itself: {}}
numbers: [1, 2, 3]
list: [{}, {aBool: true}]
byNumber: {1: ALL_REDUCE, -2: 3}
byName: {a: {}, "": {aBool: true}}
byBool: {true: 1, false: "2"}
duration: -1.000000001s
time: 2026-01-31T12:00:00.5+01:00
value: [null, 1, {a: b}]
struct: {a: {b: [true, x]}}
wrapped: 0
mask: spec,metadata.name
maybe: ""
"#;
    let expected = r#"{"aDouble":1500.0,"aFloat":0.1,"anInt32":-2147483648,"anInt64":"-9223372036854775808","aUint32":4294967295,"aUint64":"18446744073709551615","aSint32":1000,"aFixed64":"7","aBool":true,"aString":"plain text","someBytes":"Zm9v","anEnum":"ALL_GATHER","itself":{"itself":{}},"numbers":[1,2,3],"list":[{},{"aBool":true}],"byNumber":{"-2":"BARRIER","1":"ALL_REDUCE"},"byName":{"":{"aBool":true},"a":{}},"byBool":{"false":"2","true":"1"},"duration":"-1.000000001s","time":"2026-01-31T11:00:00.500Z","value":[null,1.0,{"a":"b"}],"struct":{"a":{"b":[true,"x"]}},"wrapped":0,"mask":"spec,metadata.name","maybe":""}"#;
    let message = yaml("Everything", good).unwrap();
    let written = crate::to_json(&message).unwrap().to_string();
    assert_eq!(written, expected);
    assert_eq!(json("Everything", expected).unwrap(), message);
    assert_eq!(yaml("Everything", expected).unwrap(), message);
}

#[test]
fn every_kind_of_wrong_value() {
    for (text, expected) in [
        ("aDouble: much", "aDouble: expected a number; found the text \"much\""),
        (
            "aDouble: .inf",
            "aDouble: expected a number, \"NaN\", \"Infinity\" or \"-Infinity\"; found the number .inf",
        ),
        ("aFloat: 1e39", "aFloat: 1e39 is out of range"),
        ("anInt32: 2147483648", "anInt32: 2147483648 is out of range; expected -2147483648 to 2147483647"),
        (
            "aUint64: 18446744073709551616",
            "aUint64: 18446744073709551616 is out of range; expected 0 to 18446744073709551615",
        ),
        ("aBool: 1", "aBool: expected true or false; found the number 1; did you mean true?"),
        ("aBool: \"true\"", "aBool: expected true or false; found the text \"true\"; did you mean true?"),
        ("aString: [a]", "aString: expected a string; found a list"),
        ("someBytes: \"%\"", "someBytes: expected bytes in base64"),
        ("anEnum: 9", "anEnum: unknown value \"9\"; expected ALL_REDUCE, ALL_GATHER or BARRIER"),
        ("anEnum: {}", "anEnum: expected one of its names; found a mapping"),
        (
            "numbers: 1",
            "numbers: expected a list ([a, b], or lines that begin with \"- \"); found the number 1",
        ),
        ("byNumber: {x: BARRIER}", "byNumber[\"x\"]: expected a whole number; found the text \"x\""),
        ("byNumber: {1: BARRIER, 1.0: BARRIER}", "byNumber[\"1.0\"]: this key is given twice"),
        (
            "byBool: {yes: 1}",
            "byBool[\"yes\"]: expected true or false; found the text \"yes\"; did you mean true?",
        ),
        ("byName: [a]", "byName: expected a mapping of names to values; found a list"),
        ("duration: 60", "duration: a duration has a unit; write \"60s\"; found the number 60"),
        ("duration: {}", "duration: expected a duration, for example \"90s\"; found a mapping"),
        (
            "time: tomorrow",
            "time: expected a time, for example \"2026-01-31T12:00:00Z\"; found the text \"tomorrow\"",
        ),
        (
            "time: 2026-02-31T12:00:00Z",
            "time: expected a time, for example \"2026-01-31T12:00:00Z\"; found the text \"2026-02-31T12:00:00Z\"",
        ),
        ("wrapped: -1", "wrapped: -1 is out of range; expected 0 to 4294967295"),
    ] {
        let findings = yaml("Everything", text).unwrap_err();
        let found: Vec<String> =
            findings.items.iter().map(|f| format!("{}: {}", f.field, f.message)).collect();
        assert_eq!(found, [expected], "{text}");
    }
}

#[test]
fn null_is_absence_in_json_only() {
    assert_eq!(json("Gang", r#"{"nodes": null}"#).unwrap(), json("Gang", "{}").unwrap());
    assert!(yaml("Gang", "nodes: null").is_err());
    assert!(json("Command", r#"{"argv": [null]}"#).is_err());
    assert!(json("Command", r#"{"env": {"a": null}}"#).is_err());
}

/// The real contract: its kinds are found, and a job of the issue's shape is read.
#[test]
fn rail_v1_is_known() {
    let registry = crate::Registry::rail_v1();
    let kinds: Vec<_> = registry.resources().iter().map(|resource| resource.kind.as_str()).collect();
    for kind in ["Job", "Fabric", "Node", "Tenant"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    let text = b"apiVersion: rail/v1\nkind: Job\nmetadata: {name: a}\nspec: {gang: {nodes: 4, gpusPerNode: 1}, collective: {op: ALL_REDUCE, bytes: 1048576, verify: true}}\n";
    let job = registry.read("job.yaml", text, Format::Yaml).unwrap().remove(0);
    let typed: proto_wire::v1::Job = job.message.transcode_to().unwrap();
    assert_eq!(typed.spec.as_ref().unwrap().gang.as_ref().unwrap().nodes, 4);
    let json = crate::json_of(&job.message.descriptor(), &typed).unwrap();
    assert_eq!(json, crate::to_json(&job.message).unwrap());
}
