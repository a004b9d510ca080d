//! `config_db.json` as it is: tables of rows of fields, all of them texts. Read strictly and bounded; tables that are not ours are kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// No switch's configuration is larger.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Nor has more rows.
const ROWS_MAX: usize = 200_000;

/// A field: a text, or a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Field {
    /// A text.
    Text(String),
    /// Several.
    List(Vec<String>),
}

impl Field {
    /// It as one text; none for a list.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(_) => None,
        }
    }
}

/// A row: its fields by name.
pub type Row = BTreeMap<String, Field>;
/// A table: its rows by key.
pub type Table = BTreeMap<String, Row>;

/// All tables by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfigDb(pub BTreeMap<String, Table>);

/// Why a text is no `config_db.json`.
#[derive(Debug, Error)]
pub enum ConfigDbError {
    /// It is too large.
    #[error("the configuration is larger than {BYTES_MAX} bytes")]
    TooLarge,
    /// It has too many rows.
    #[error("the configuration has {0} rows; {ROWS_MAX} are allowed")]
    TooMany(usize),
    /// It is not JSON of this shape; the text names line and column.
    #[error("the configuration is not tables of rows of texts: {0}")]
    Shape(#[from] serde_json::Error),
}

impl ConfigDb {
    /// Reads a document.
    ///
    /// # Errors
    /// [`ConfigDbError`] with line and column, or where it is larger than any switch's.
    pub fn from_json(text: &str) -> Result<Self, ConfigDbError> {
        if text.len() > BYTES_MAX {
            return Err(ConfigDbError::TooLarge);
        }
        let db: Self = serde_json::from_str(text)?;
        let rows = db.0.values().map(BTreeMap::len).sum();
        if rows > ROWS_MAX { Err(ConfigDbError::TooMany(rows)) } else { Ok(db) }
    }

    /// It as a document, in one order for one content.
    ///
    /// # Errors
    /// None in practice: texts always become JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Sets one field.
    pub fn set(&mut self, table: &str, key: &str, field: &str, value: impl ToString) {
        self.row(table, key).insert(field.to_owned(), Field::Text(value.to_string()));
    }

    /// The row, made where it is not there.
    pub fn row(&mut self, table: &str, key: &str) -> &mut Row {
        self.0.entry(table.to_owned()).or_default().entry(key.to_owned()).or_default()
    }
}
