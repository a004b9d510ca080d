//! `config_db.json` as it is: tables of rows of fields, all of them texts. Read strictly and bounded; tables that are not ours are kept.

use std::{collections::BTreeMap, fmt};

use compact_str::{CompactString, ToCompactString};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{SeqAccess, Visitor},
};
use thiserror::Error;

/// No switch's configuration is larger.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Nor has more rows.
const ROWS_MAX: usize = 200_000;

/// A name or a value: nearly all of a configuration's are so short that they need no memory of their own.
pub type Text = CompactString;

/// A field: a text, or a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Field {
    /// A text.
    Text(Text),
    /// Several.
    List(Box<[Text]>),
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Field;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Field, E> {
                Ok(Field::Text(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Field, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Field::List(all.into()))
            }
        }

        from.deserialize_any(OneOrMany)
    }
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
pub type Row = BTreeMap<Text, Field>;
/// A table: its rows by key.
pub type Table = BTreeMap<Text, Row>;

/// All tables by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfigDb(pub BTreeMap<Text, Table>);

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
        // A leaf of 128 ports has about 100 kB.
        let mut text = Vec::with_capacity(128 * 1024);
        serde_json::to_writer_pretty(&mut text, self)?;
        text.push(b'\n');
        String::from_utf8(text).map_err(serde::ser::Error::custom)
    }

    /// Sets one field.
    pub fn set(&mut self, table: &str, key: &str, field: &str, value: impl ToCompactString) {
        self.fields(table, key).set(field, value);
    }

    /// The row, made where it is not there.
    pub fn row(&mut self, table: &str, key: &str) -> &mut Row {
        self.0.entry(table.into()).or_default().entry(key.into()).or_default()
    }

    /// The same, to set several fields of it.
    pub(super) fn fields(&mut self, table: &str, key: &str) -> Fields<'_> {
        Fields(self.row(table, key))
    }
}

/// A row whose fields are being set.
pub(super) struct Fields<'a>(&'a mut Row);

impl Fields<'_> {
    /// Sets one field.
    pub(super) fn set(self, field: &str, value: impl ToCompactString) -> Self {
        self.0.insert(field.into(), Field::Text(value.to_compact_string()));
        self
    }

    /// Sets one field, where there is a value.
    pub(super) fn set_some(self, field: &str, value: Option<impl ToCompactString>) -> Self {
        match value {
            Some(value) => self.set(field, value),
            None => self,
        }
    }
}
