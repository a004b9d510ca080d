//! What is wrong with a document: one finding per error, each with its place, its field, and what would be right.

use std::fmt;

/// Findings kept; the rest is counted only.
pub const MAX_FINDINGS: usize = 20;

/// A place in the text; both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line of the text, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Position {
    /// The first character of a text: line 1, column 1.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where in the text it is.
    pub at: Position,
    /// The field, for example `spec.gang.nodes`; empty where it is about the document itself.
    pub field: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Everything that is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Findings {
    /// Name of the file, or of what stands for it.
    pub file: String,
    /// The first [`MAX_FINDINGS`], in the order of the text.
    pub items: Vec<Finding>,
    /// Findings beyond those in `items`, which are only counted.
    pub more: usize,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.items.iter().enumerate() {
            let (line_end, colon) =
                (if i == 0 { "" } else { "\n" }, if item.field.is_empty() { "" } else { ": " });
            let Position { line, column } = item.at;
            write!(f, "{line_end}{}:{line}:{column}: {}{colon}{}", self.file, item.field, item.message)?;
        }
        if self.more > 0 {
            write!(f, "\n{}: and {} more", self.file, self.more)?;
        }
        Ok(())
    }
}

/// Collects findings up to the bound.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    items: Vec<Finding>,
    more: usize,
}

impl Sink {
    pub fn add(&mut self, at: Position, field: impl fmt::Display, message: impl Into<String>) {
        if self.items.len() < MAX_FINDINGS {
            self.items.push(Finding { at, field: field.to_string(), message: message.into() });
        } else {
            self.more += 1;
        }
    }

    /// Whether what is added from now on is only counted: its words need not be found.
    pub fn is_full(&self) -> bool {
        self.items.len() >= MAX_FINDINGS
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// `value` when nothing was found.
    ///
    /// # Errors
    /// All findings, in the order of the text, if there are any.
    pub fn finish<T>(self, file: &str, value: T) -> Result<T, Findings> {
        if self.items.is_empty() {
            return Ok(value);
        }
        let mut items = self.items;
        items.sort_by_key(|item| item.at);
        Err(Findings { file: file.to_owned(), items, more: self.more })
    }
}

/// Where a value stands in its message, built up on the stack while reading.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
    Key(&'a Path<'a>, &'a str),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => write!(f, "{}", Shown(name)),
            Self::Field(parent, name) => write!(f, "{parent}.{}", Shown(name)),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) => write!(f, "{parent}[\"{}\"]", Shown(key)),
        }
    }
}

/// Text of a user inside a message: escaped, and cut where it is long.
pub(crate) struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 60;
        for c in self.0.chars().take(LONGEST) {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                write!(f, "{c}")?;
            }
        }
        if self.0.chars().nth(LONGEST).is_some() { write!(f, "...") } else { Ok(()) }
    }
}
