//! The words of the house: names that `docs/glossary.md` has retired are in no code.

use std::{collections::BTreeSet, fs};

use integration_harness::binaries::root;

use crate::house::tracked;

/// What the glossary says of names that are not used any more.
struct Retired {
    types: BTreeSet<String>,
    names: BTreeSet<String>,
    parts: BTreeSet<String>,
}

impl Retired {
    fn read() -> Self {
        let text = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
        let section =
            text.split("## Retired names").nth(1).expect("the glossary has a section of retired names");
        let list = |begin: &str| -> BTreeSet<String> {
            let paragraph = section.split("\n\n").find(|text| text.trim_start().starts_with(begin));
            let words = paragraph.unwrap_or_else(|| panic!("no paragraph begins with '{begin}'"));
            words.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        Self {
            types: list("No type is called"),
            names: list("No function, field or variable is called"),
            parts: list("No name has one of these parts"),
        }
    }

    /// The retired name in an identifier, if there is one. `defined`: what follows a keyword that defines a type.
    fn found(&self, word: &str, defined: bool) -> bool {
        (defined && self.types.contains(word))
            || self.names.contains(&word.to_lowercase())
            || word.split('_').any(|part| self.parts.contains(&part.to_lowercase()))
    }
}

/// Identifiers of Rust code, each with the word before it; comments and texts are no code.
fn identifiers(code: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let (mut rest, mut before) = (code, "");
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => text(rest),
            'r' if rest.starts_with("r\"") || rest.starts_with("r#") => raw(rest),
            '\'' => character(rest),
            _ if first.is_alphanumeric() || first == '_' => {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                found.push((before, &rest[..end]));
                before = &rest[..end];
                end
            }
            _ => first.len_utf8(),
        };
        rest = &rest[length..];
    }
    found
}

fn text(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw(rest: &str) -> usize {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    if rest.as_bytes().get(1 + hashes) != Some(&b'"') {
        // A raw identifier.
        return 2;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    rest[2 + hashes..].find(&end).map_or(rest.len(), |at| 2 + hashes + at + end.len())
}

/// A character, or only the quotation mark of a lifetime.
fn character(rest: &str) -> usize {
    match rest[1..].chars().next() {
        Some('\\') => rest[3..].find('\'').map_or(1, |at| at + 4),
        Some(one) if rest[1 + one.len_utf8()..].starts_with('\'') => 2 + one.len_utf8(),
        _ => 1,
    }
}

#[test]
fn retired_names_are_in_no_code() {
    let retired = Retired::read();
    assert!(retired.types.len() > 20 && retired.names.len() > 5 && retired.parts.len() > 5);
    let mut all = Vec::new();
    for file in tracked("*.rs") {
        let code = fs::read_to_string(&file).unwrap();
        for (before, word) in identifiers(&code) {
            if retired.found(word, matches!(before, "struct" | "enum" | "trait" | "type")) {
                all.push(format!("{}: {word}", file.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    all.dedup();
    assert!(all.is_empty(), "docs/glossary.md has a better name for each of these:\n{}", all.join("\n"));
}

#[test]
fn names_are_found_in_code_alone() {
    let code = "//! told\nstruct Look<'a> { way: &'a str }\nfn told() { r#\"tell\"#; \"a \\\" wish\"; 'x'; '\\n'; let yard_of = '\"'; tell }";
    let words: Vec<&str> = identifiers(code).into_iter().map(|(_, word)| word).collect();
    assert_eq!(words, ["struct", "Look", "a", "way", "a", "str", "fn", "told", "let", "yard_of", "tell"]);
    let retired = Retired::read();
    let bad = identifiers(code).into_iter().filter(|(before, word)| retired.found(word, *before == "struct"));
    assert_eq!(bad.map(|(_, word)| word).collect::<Vec<_>>(), ["Look", "told", "yard_of", "tell"]);
}
