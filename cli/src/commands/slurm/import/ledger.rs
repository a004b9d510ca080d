//! Everything that the inputs say, setting by setting, and what becomes of each.

use std::{collections::BTreeMap, fmt};

use super::{
    fate::Fate,
    known::{self, Section},
};

/// Where something stands in an input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Name of the file, as the user wrote it.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A name and a value, as they stand in an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Name of the parameter, as it is written.
    pub name: String,
    /// Value, without its quotation marks.
    pub value: String,
    /// Where the name begins.
    pub place: Position,
}

/// Number of a setting in its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(usize);

/// One setting of an input, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The parameter, its value and its place.
    pub token: Token,
    /// What kind of line it stands in.
    pub section: Section,
    /// Whose setting it is, for example `partition gpu`; empty for those of the whole cluster.
    pub of: String,
    /// What becomes of it.
    pub fate: Fate,
    /// What it does in Slurm; empty where that is not known.
    pub there: String,
    /// What says it here, or is nearest to it.
    pub here: String,
    /// The parameter is not known.
    pub is_unknown: bool,
}

/// All settings of all inputs in their order, and all that is wrong with them.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    settled: BTreeMap<usize, (Fate, String)>,
    errors: Vec<(Position, String)>,
}

impl Ledger {
    /// Notes a setting. Until somebody says more, it becomes what the table of parameters says; one that the table does not know is not
    /// carried over, with the nearest name that it knows.
    pub fn add(&mut self, section: Section, of: &str, token: &Token) -> Id {
        let entry = match known::find(section, &token.name) {
            Some(known) => Entry {
                token: token.clone(),
                section,
                of: of.to_owned(),
                fate: known.fate,
                there: known.there.clone(),
                here: known.here.clone(),
                is_unknown: false,
            },
            None => Entry {
                token: token.clone(),
                section,
                of: of.to_owned(),
                fate: Fate::Lost,
                there: String::new(),
                here: format!(
                    "`{}` is not known in {}; did you mean {}?",
                    token.name,
                    section.title(),
                    known::nearest(section, &token.name)
                ),
                is_unknown: true,
            },
        };
        self.entries.push(entry);
        Id(self.entries.len() - 1)
    }

    /// Says what has become of a setting. Of several words on one setting the worst counts, with the texts of all that say so.
    pub fn settle(&mut self, id: Id, fate: Fate, here: impl Into<String>) {
        let here = here.into();
        let Some((old, text)) = self.settled.get_mut(&id.0) else {
            self.settled.insert(id.0, (fate, here));
            return;
        };
        if fate < *old {
            (*old, *text) = (fate, here);
        } else if fate == *old && !text.contains(here.as_str()) && text.len() < 400 {
            text.push_str("; ");
            text.push_str(&here);
        }
    }

    /// Says that a setting makes no sense.
    pub fn wrong(&mut self, token: &Token, why: impl fmt::Display) {
        self.errors.push((token.place.clone(), format!("{}: {}: {why}", token.place, token.name)));
    }

    /// All settings with what has become of them, in the order of the inputs, and all errors.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Entry>, Vec<String>) {
        for (at, (fate, here)) in self.settled {
            if let Some(entry) = self.entries.get_mut(at) {
                (entry.fate, entry.here) = (fate, here);
            }
        }
        self.errors.sort();
        self.errors.dedup();
        (self.entries, self.errors.into_iter().map(|(_, error)| error).collect())
    }
}
