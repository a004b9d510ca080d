//! What the generators of pages read in the programs' own sources: calls with their arguments, and texts that are written out.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::process::{self, Result};

/// One file of a program, without its tests.
pub struct Source {
    /// Its path, from the repository's root.
    pub path: String,
    /// Its text up to where its tests begin.
    pub text: String,
}

/// All Rust files in these folders of the repository, or these files, in the order of their paths, without tests.
///
/// # Errors
/// A folder or a file cannot be read.
pub fn read(folders: &[&str]) -> Result<Vec<Source>> {
    let root = process::root();
    let mut found = Vec::new();
    for folder in folders {
        let mut paths = Vec::new();
        let path = root.join(folder);
        if path.is_file() {
            paths.push(path);
        } else {
            rust_files(&path, &mut paths)?;
        }
        paths.sort();
        for path in paths {
            let text = fs::read_to_string(&path)?;
            let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
            let path = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
            found.push(Source { path, text });
        }
    }
    Ok(found)
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            if !["tests", "target", "benches", "examples"].contains(&name.as_str()) {
                rust_files(&path, found)?;
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// A call: where in the text it begins, and its arguments as they are written.
pub struct Call {
    /// Offset of its opening bracket, in bytes.
    pub at: usize,
    /// Its arguments, trimmed.
    pub args: Vec<String>,
}

/// Every call of something that ends with `name(`.
pub fn calls(text: &str, name: &str) -> Vec<Call> {
    let opening = format!("{name}(");
    let ends = text.match_indices(&opening).map(|(at, found)| at + found.len() - 1);
    ends.filter_map(|at| Some(Call { at, args: arguments(text.get(at + 1..)?)? })).collect()
}

/// What stands up to the bracket that closes, split at commas of its own level; nothing if none closes.
fn arguments(text: &str) -> Option<Vec<String>> {
    let (mut args, mut depth, mut begin) = (Vec::new(), 0_usize, 0);
    let mut at = 0;
    while let Some(c) = text.get(at..)?.chars().next() {
        let length = token(text.get(at..)?, c);
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                args.push(text.get(begin..at)?.trim().to_owned());
                args.retain(|arg| !arg.is_empty());
                return Some(args);
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                args.push(text.get(begin..at)?.trim().to_owned());
                begin = at + 1;
            }
            _ => {}
        }
        at += length;
    }
    None
}

/// How many bytes the token is long that begins here: all of a text, all of a character, or one.
fn token(text: &str, first: char) -> usize {
    match first {
        '"' => text_length(text),
        '\'' => {
            let mut rest = text.char_indices().skip(1);
            match (rest.next(), rest.next()) {
                (Some((_, '\\')), Some(_)) => {
                    rest.find(|(_, c)| *c == '\'').map_or(1, |(closing, _)| closing + 1)
                }
                (Some(_), Some((closing, '\''))) => closing + 1,
                _ => 1,
            }
        }
        other => other.len_utf8(),
    }
}

fn text_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The first text that is written out in a piece of source: its content, with lines that go on joined.
pub fn literal(source: &str) -> Option<String> {
    let begin = source.find('"')?;
    let rest = source.get(begin..)?;
    let inner = rest.get(1..text_length(rest).checked_sub(1)?)?;
    let mut said = String::new();
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().copied()) {
            ('\\', Some('\n')) => while chars.next_if(|c| c.is_whitespace()).is_some() {},
            ('\\', Some('n')) => {
                chars.next();
                said.push(' ');
            }
            ('\\', Some(other)) => {
                chars.next();
                said.push(other);
            }
            (c, _) => said.push(c),
        }
    }
    Some(said)
}

/// What an argument says: the text in it or, where it is a name, the text that this name was last given before `at`.
pub fn said(text: &str, at: usize, argument: &str) -> Option<String> {
    let begin = argument.trim_start_matches('&');
    let name = begin.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    literal(argument).or_else(|| literal(given(text, at, name)?))
}

/// What a name was last given by `let` before `at`, from the equals sign on.
pub fn given<'a>(text: &'a str, at: usize, name: &str) -> Option<&'a str> {
    let before = text.get(..at)?;
    let from = before.rfind(&format!("let {name} ="))?;
    let rest = text.get(from..)?;
    rest.get(..rest.find(";\n")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_with_their_arguments_whatever_stands_in_them() {
        let text = "a.gauge_by(\"x, (y\", \"one \\\n    two\", [\"a\", ')', \"b\"]);\nlet kinds = \"three\";\nb.gauge_by(n, kinds)";
        let found = calls(text, "gauge_by");
        assert_eq!(found[0].args, ["\"x, (y\"", "\"one \\\n    two\"", "[\"a\", ')', \"b\"]"]);
        assert_eq!(literal(&found[0].args[1]).as_deref(), Some("one two"));
        assert_eq!(said(text, found[1].at, &found[1].args[1]).as_deref(), Some("three"));
        assert_eq!(said(text, found[1].at, "other"), None);
    }
}
