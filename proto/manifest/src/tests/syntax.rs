//! JSON is read as strictly as its standard says, and both formats within hard limits.

use std::time::{Duration, Instant};

use super::{json, message, yaml};
use crate::{Format, MAX_DEPTH, MAX_TEXT, Position, read_message};

#[track_caller]
fn json_says(text: &str, at: (usize, usize), expected: &str) {
    let findings = json("Everything", text).unwrap_err();
    let first = &findings.items[0];
    assert_eq!((first.at, first.message.as_str()), (Position { line: at.0, column: at.1 }, expected));
}

#[test]
fn json_is_strict() {
    json_says("{\"aBool\": true,}", (1, 16), "a comma before '}'; JSON has no trailing comma");
    json_says("{\n  'aBool': true}", (2, 3), "found '\\''; expected a key in double quotes");
    json_says("{\"aBool\": True}", (1, 11), "not a JSON value; text stands in double quotes");
    json_says("{\"aString\": x}", (1, 13), "not a JSON value; text stands in double quotes");
    json_says("{\"numbers\": [1 2]}", (1, 16), "found '2'; expected ',' or ']'");
    json_says("{\"anInt32\": 01}", (1, 15), "a number with a leading zero");
    json_says("{\"anInt32\": 1.}", (1, 15), "found '}'; expected a digit");
    json_says("{} {}", (1, 4), "'{' after the end of the JSON value; a JSON file holds one document");
    json_says("{\"aString\": \"a\nb\"}", (1, 15), "a line break or tab inside a string; write \\n or \\t");
    json_says("{\"aString\": \"\\x\"}", (1, 15), "found 'x'; expected one of \" \\ / b f n r t u after '\\'");
    json_says("{\"aString\": \"\\ud800\"}", (1, 20), "half of a surrogate pair");
    json_says(
        "{\"aString\": \"\\u0000\"}",
        (1, 13),
        "\"\\u{0}\" holds the control character U+0000; remove it",
    );
    json_says("{\"aBool\": true", (1, 15), "the text ends here; expected ',' or '}'");
    json_says("{// no\n}", (1, 2), "found '/'; expected a key in double quotes");
    json_says("", (1, 1), "the text ends here; expected a JSON value");
    json_says(
        "{\"aBool\": true, \"aBool\": false}",
        (1, 17),
        "\"aBool\" is given twice; the first is at line 1",
    );
    let text = "{\"aString\": \"\\\"\\\\\\/\\n\\t\\u00e9\\ud83d\\ude00 \u{e9}\"}";
    let value = json("Everything", text).unwrap();
    assert_eq!(
        value.get_field_by_name("a_string").unwrap().as_str(),
        Some("\"\\/\n\t\u{e9}\u{1f600} \u{e9}")
    );
}

#[test]
fn control_characters_and_bad_encodings() {
    for (bytes, at, expected) in [
        (&b"a: b\nname: \0"[..], (2, 7), "control character U+0000; remove it"),
        (b"a: \x1b[31m", (1, 4), "control character U+001B; remove it"),
        (b"a: \xc3\xa9\xff", (1, 5), "not UTF-8 text"),
    ] {
        let findings = read_message("t", bytes, Format::Yaml, &message("Gang")).unwrap_err();
        assert_eq!(
            (findings.items[0].at, findings.items[0].message.as_str()),
            (Position { line: at.0, column: at.1 }, expected)
        );
    }
    assert!(yaml("Gang", "\u{feff}nodes: 1\r\n").is_ok(), "what some editors on other systems write");
}

#[test]
fn yaml_syntax_errors_are_located() {
    let findings = yaml("Gang", "nodes: 1\n gpusPerNode: 2\n").unwrap_err();
    assert_eq!(findings.items[0].at.line, 2, "{findings}");
    let findings = yaml("Gang", "nodes: [1\n").unwrap_err();
    assert!(!findings.items[0].message.is_empty(), "{findings}");
    let findings = yaml("Gang", "nodes: 1\n---\nnodes: 2\n").unwrap_err();
    assert_eq!(findings.to_string(), "t.yaml:3:1: a second document; expected one");
    let findings = yaml("Gang", "nodes: *unknown\n").unwrap_err();
    assert_eq!(findings.items[0].at.line, 1, "{findings}");
}

/// Enough to hurt: what takes more than its share of time takes it here already.
const LARGE: usize = 1024 * 1024;

/// What would hurt a careless reader is refused, and at once.
#[test]
fn bombs_are_refused_quickly() {
    let lol = (1..30).map(|i| {
        let previous = format!("*l{}, ", i - 1).repeat(10);
        format!("l{i}: &l{i} [{}]\n", previous.trim_end_matches(", "))
    });
    let bombs = [
        ("too much", "a: b\n".repeat(MAX_TEXT / 5 + 1)),
        ("aliases", format!("l0: &l0 lol\n{}", lol.collect::<String>())),
        ("deep lists", "[".repeat(LARGE - 10)),
        ("deep mappings", "{a: ".repeat(LARGE / 4 - 10)),
        ("deep block lists", "- ".repeat(LARGE / 2 - 10)),
        ("deep lines", (0..1000).map(|i| format!("{}a:\n", " ".repeat(i))).collect()),
        ("question marks", "? ".repeat(LARGE / 2 - 10)),
        ("wide list", format!("[{}]", "1,".repeat(LARGE / 2 - 10))),
        ("one key", format!("{}: 1", "k".repeat(LARGE - 10))),
        ("quotes", "\"".repeat(LARGE)),
        ("colons", ":".repeat(LARGE)),
        ("commas", format!("[{}", ",".repeat(LARGE - 10))),
        ("anchors", "&a ".repeat(LARGE / 3)),
        ("tags", "!a ".repeat(LARGE / 3)),
        ("documents", "---\n".repeat(LARGE / 4)),
        ("document values", "---\na\n".repeat(LARGE / 6)),
        ("percent", "%a\n".repeat(LARGE / 3)),
        ("long folded", format!("a: >\n{}", "  x\n\n".repeat(LARGE / 5 - 10))),
        ("many keys", (0..100_000).map(|i| format!("k{i}: 1\n")).take(70_000).collect()),
        ("brackets on lines", "[\n".repeat(LARGE / 2 - 10)),
        ("closed brackets", "[]".repeat(LARGE / 2 - 10)),
    ];
    for (name, text) in bombs {
        for format in [Format::Yaml, Format::Json] {
            let begun = Instant::now();
            let refused = read_message("bomb", text.as_bytes(), format, &message("Gang"));
            let took = begun.elapsed();
            println!("{name} {format:?}: {took:?} {}", refused.as_ref().unwrap_err().items[0].message);
            assert!(refused.is_err(), "{name}");
            assert!(took < Duration::from_secs(15), "{name} took {took:?}");
        }
    }
    let nested = |depth: usize| format!("{}{{}}{}", "{itself: ".repeat(depth - 1), "}".repeat(depth - 1));
    assert!(yaml("Everything", &nested(MAX_DEPTH)).is_ok());
    assert!(json("Everything", &nested(MAX_DEPTH).replace("itself", "\"itself\"")).is_ok());
    let findings = yaml("Everything", &nested(MAX_DEPTH + 1)).unwrap_err();
    assert_eq!(findings.items[0].message, format!("nested deeper than {MAX_DEPTH} levels"));
}

#[test]
fn a_document_may_be_as_large_as_its_bounds_say() {
    let list = format!("labels: {{a: \"{}\"}}\n", "n1,".repeat((MAX_TEXT - 100) / 3));
    assert!(yaml("Metadata", &list).is_ok());
    let findings = yaml("Metadata", &format!("{list}{}", "#".repeat(200))).unwrap_err();
    assert!(findings.items[0].message.ends_with(&format!("at most {MAX_TEXT} are read")), "{findings}");
}
