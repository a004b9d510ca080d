//! Random texts and random damage: a message, or findings that say where; never a panic.

use proptest::prelude::*;

use super::{message, pool, registry};
use crate::{Findings, Format, MAX_FINDINGS, read_message};

const GOOD: &str = r#"apiVersion: test/v1
kind: Job
metadata:
  name: first
  labels: {team: nlp, "x": 'y'}
spec:
  gang:
    nodes: 4
    gpusPerNode: 2
  timeLimit: 3600s
  command:
    argv: [python, "-c", 'print(1)']
    env:
      A: |
        two
        lines
  everything: {byNumber: {1: BARRIER}, time: 2026-01-31T12:00:00Z, value: [null, 1.5, {a: b}]}
"#;

fn sane(text: &[u8], findings: &Findings) {
    assert!((1..=MAX_FINDINGS).contains(&findings.items.len()));
    let lines = text.iter().filter(|b| **b == b'\n' || **b == b'\r').count() + 2;
    for item in &findings.items {
        assert!((1..=lines + 1).contains(&item.at.line) && item.at.column >= 1, "{item:?}");
        assert!(!item.message.is_empty() && item.message.len() < 2000, "{item:?}");
        assert!(!item.message.chars().any(char::is_control), "{item:?}");
    }
}

fn try_all(text: &[u8]) {
    for format in [Format::Yaml, Format::Json] {
        if let Err(findings) = registry().read("t", text, format) {
            sane(text, &findings);
        }
        for name in ["Everything", "Metadata"] {
            match read_message("t", text, format, &message(name)) {
                Err(findings) => sane(text, &findings),
                Ok(message) => drop(crate::to_yaml(&message)),
            }
        }
    }
}

/// Pieces that mean something to a parser.
fn token() -> impl Strategy<Value = String> {
    let tokens = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        ": ",
        "- ",
        "? ",
        "\n",
        "\n  ",
        "\n    ",
        "\"",
        "'",
        "|",
        ">",
        "|2",
        ">-",
        "#",
        " #",
        "&a ",
        "*a",
        "!t ",
        "!!str ",
        "%YAML 1.2\n",
        "---",
        "...",
        "\n---\n",
        "<<",
        "~",
        "null",
        "true",
        "1",
        "-1",
        "1e9",
        ".nan",
        "a",
        "name",
        "labels",
        "spec",
        "kind",
        "\\",
        "\\u00",
        "\t",
        "\r",
        "\u{e9}",
        "\u{2028}",
        "@",
        "`",
        "\u{feff}",
        "\u{0}",
        "=",
    ];
    prop::sample::select(tokens.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(super::cases(400))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        try_all(&bytes);
    }

    #[test]
    fn random_text(text in "\\PC{0,200}") {
        try_all(text.as_bytes());
    }

    #[test]
    fn random_tokens(tokens in prop::collection::vec(token(), 0..60)) {
        try_all(tokens.concat().as_bytes());
    }

    #[test]
    fn a_good_text_with_random_damage(
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6, token()), 1..6),
    ) {
        let mut text: Vec<char> = GOOD.chars().collect();
        for (at, remove, insert) in damage {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = (at + remove).min(text.len());
            text.splice(at..end, insert.chars());
        }
        try_all(text.into_iter().collect::<String>().as_bytes());
    }

    /// The canonical JSON of random messages, cut and flipped at random.
    #[test]
    fn damaged_json(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let good = registry().read("t", GOOD.as_bytes(), Format::Yaml).unwrap().remove(0).message;
        let mut text = crate::to_json(&good).unwrap().to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        try_all(&text);
        try_all(&text[..at]);
    }
}

#[test]
fn the_good_text_is_good() {
    assert!(pool().all_messages().len() > 5);
    registry().read("t", GOOD.as_bytes(), Format::Yaml).unwrap();
}
