//! What errors say, all of it: `cargo test -p integration --test it messages -- --nocapture` prints the catalogue, to be read.

use std::{collections::BTreeSet, fs};

use integration_harness::binaries::root;

use crate::house::tracked;

/// Texts of errors in a source file: the first literal of each `#[error(...)]`.
fn texts(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in source.split("#[error(").skip(1) {
        let Some(literal) = part.trim_start().strip_prefix('"') else { continue };
        let (mut text, mut letters) = (String::new(), literal.chars());
        while let Some(letter) = letters.next() {
            match letter {
                '"' => break,
                '\\' => match letters.next() {
                    // A line that goes on in the next one.
                    Some('\n') => letters = letters.as_str().trim_start().chars(),
                    Some(escaped) => text.push(escaped),
                    None => break,
                },
                letter => text.push(letter),
            }
        }
        found.push(text);
    }
    found
}

/// What is wrong with how a text is written.
fn flaw(text: &str) -> Option<&'static str> {
    let first = text.split(' ').next().unwrap_or_default();
    let name = first.chars().filter(|letter| letter.is_ascii_uppercase()).count() != 1
        || first.chars().any(|letter| !letter.is_ascii_alphabetic());
    match text {
        "" => Some("it is empty"),
        text if text.ends_with('.') => Some("it ends with a full stop"),
        text if text.contains("  ") => Some("it has two spaces"),
        text if text.starts_with(char::is_uppercase) && !name => Some("it begins with a capital"),
        text if text.trim() != text => Some("it has spaces around it"),
        _ => None,
    }
}

#[test]
fn errors_are_written_alike() {
    let mut all = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in tracked("*.rs") {
        let place = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        if place.ends_with("tests/it/messages.rs") {
            continue;
        }
        for text in texts(&fs::read_to_string(&file).unwrap()) {
            wrong.extend(flaw(&text).map(|flaw| format!("{place}: {flaw}: {text}")));
            all.insert((place.split("/src/").next().unwrap_or_default().to_owned(), text));
        }
    }
    for (room, text) in &all {
        println!("{room}: {text}");
    }
    assert!(all.len() > 500, "{} texts were found", all.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_text_is_read_and_judged() {
    let source =
        "#[error(\"one {0}\")]\n#[error(\n  \"two \\\n   more \\\"x\\\"\", many(.n))]\n#[error(transparent)]";
    assert_eq!(texts(source), ["one {0}", "two more \"x\""]);
    for (text, wrong) in [
        ("the store is full", false),
        ("NVML cannot be asked", false),
        ("GPU {0} is held", false),
        ("The store is full", true),
        ("the store is full.", true),
        ("two  spaces", true),
        ("", true),
    ] {
        assert_eq!(flaw(text).is_some(), wrong, "{text}");
    }
}
