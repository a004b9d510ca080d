//! The located tree that YAML and JSON become, and the hard limits of both.

use crate::finding::{Position, Shown, Sink};

/// Largest text in bytes: that of a fabric of 125,000 servers with eight NICs whose names and ports follow no order. Documents
/// come from files of whoever runs the command; a server bounds what it is sent before it reads it.
pub const MAX_TEXT: usize = 16 * 1024 * 1024;
/// The most mappings and lists within each other.
pub const MAX_DEPTH: usize = 64;
/// Most keys and values in one text: a group of cables for each of the 16,000 leaves of 125,000 servers, and each leaf by
/// itself; or 30,000 cables one by one.
pub const MAX_NODES: usize = 400_000;

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2, several documents separated by `---`. JSON written by hand is read too.
    Yaml,
    /// Strict JSON (RFC 8259), one document. `null` stands for an absent field.
    Json,
}

impl Format {
    /// By the name of the file: `.json` is JSON, everything else YAML.
    pub fn of_path(path: &str) -> Self {
        if path.to_ascii_lowercase().ends_with(".json") { Self::Json } else { Self::Yaml }
    }
}

/// One value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub at: Position,
    pub value: Content,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    /// Text without quotes: what it means depends on what it says.
    Plain(String),
    /// Text in quotes or a block: always a string.
    Quoted(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Something that was reported already and that nothing more is to be said about.
    Broken,
}

/// One entry of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub key_at: Position,
    pub value: Node,
}

/// Counts values and depth against the limits.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    nodes: usize,
}

/// A reason to stop reading at once.
#[derive(Debug)]
pub(crate) struct Stop(pub Position, pub String);

impl Budget {
    /// Counts one more value, at this place and depth.
    ///
    /// # Errors
    /// [`Stop`] if the text has more than [`MAX_NODES`] values, or nests deeper than [`MAX_DEPTH`].
    pub fn take(&mut self, at: Position, depth: usize) -> Result<(), Stop> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Stop(at, format!("more than {MAX_NODES} values; split the file")));
        }
        if depth > MAX_DEPTH {
            return Err(Stop(at, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }
}

/// Whether a character may stand in a text or a value.
pub(crate) fn is_forbidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Size, encoding, and forbidden characters of a whole text.
pub(crate) fn check_text(bytes: &[u8]) -> Result<&str, Stop> {
    if bytes.len() > MAX_TEXT {
        return Err(Stop(Position::START, format!("{} bytes; at most {MAX_TEXT} are read", bytes.len())));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            return Err(Stop(position_after(&good), "not UTF-8 text".to_owned()));
        }
    };
    // One byte order mark at the very start is what some editors write.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some((index, c)) = text.char_indices().find(|(_, c)| is_forbidden(*c)) {
        let what = format!("control character U+{:04X}; remove it", u32::from(c));
        return Err(Stop(position_after(&text[..index]), what));
    }
    Ok(text)
}

/// The position right behind `before`.
pub(crate) fn position_after(before: &str) -> Position {
    let last = before.rsplit('\n').next().unwrap_or_default();
    Position { line: before.matches('\n').count() + 1, column: last.chars().count() + 1 }
}

/// Reports a value that holds a forbidden character (by an escape, since the text itself has none).
pub(crate) fn check_value(at: Position, value: &str, sink: &mut Sink) -> bool {
    let forbidden = value.chars().find(|c| is_forbidden(*c));
    if let Some(c) = forbidden {
        let shown = Shown(value);
        sink.add(
            at,
            "",
            format!("\"{shown}\" holds the control character U+{:04X}; remove it", u32::from(c)),
        );
    }
    forbidden.is_none()
}

/// Adds an entry to a mapping, or reports that its key is there already.
pub(crate) fn add_entry(entries: &mut Map, entry: Entry, sink: &mut Sink) {
    if let Some(line) = entries.lines.get(&entry.key) {
        let shown = Shown(&entry.key);
        sink.add(entry.key_at, "", format!("\"{shown}\" is given twice; the first is at line {line}"));
        return;
    }
    entries.lines.insert(entry.key.clone(), entry.key_at.line);
    entries.list.push(entry);
}

/// A mapping while it is read.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub list: Vec<Entry>,
    lines: std::collections::BTreeMap<String, usize>,
}
