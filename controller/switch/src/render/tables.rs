//! `config_db.json` as it is: tables of rows of fields, all of them texts. Read strictly and bounded; tables that are not ours are kept.

use std::{cmp::Ordering, collections::BTreeMap, fmt, mem};

use compact_str::ToCompactString;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use thiserror::Error;

pub use super::row::{Field, Row, Text};

/// No switch's configuration is larger.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Nor has more rows.
const ROWS_MAX: usize = 200_000;

/// A table: its rows by key.
pub type Table = BTreeMap<Text, Row>;

/// All tables by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
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
        self.row(table, key).insert(field.into(), Field::Text(value.to_compact_string()));
    }

    /// The row, made where it is not there.
    pub fn row(&mut self, table: &str, key: &str) -> &mut Row {
        self.0.entry(table.into()).or_default().entry(key.into()).or_default()
    }
}

impl<'de> Deserialize<'de> for ConfigDb {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// Rows as they come: put in order all at once, which is cheaper than one by one.
        struct Rows(Table);

        impl<'de> Deserialize<'de> for Rows {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct ByKey;

                impl<'de> Visitor<'de> for ByKey {
                    type Value = Rows;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("rows by key")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut rows: A) -> Result<Rows, A::Error> {
                        let mut all: Vec<(Text, Row)> = Vec::new();
                        while let Some(row) = rows.next_entry()? {
                            all.push(row);
                        }
                        // Of two rows of one key the later one holds.
                        Ok(Rows(all.into_iter().collect()))
                    }
                }

                from.deserialize_map(ByKey)
            }
        }

        let tables = BTreeMap::<Text, Rows>::deserialize(from)?;
        Ok(Self(tables.into_iter().map(|(name, Rows(rows))| (name, rows)).collect()))
    }
}

/// Tables that are being written: rows are gathered as they come, and put in order once.
#[derive(Default)]
pub(super) struct Draft {
    tables: Vec<Begun>,
    /// The table that was written last: most rows of a table come one after another.
    last: usize,
}

/// A table that is being written.
struct Begun {
    name: &'static str,
    rows: Vec<(Text, Row)>,
    /// Each row came after all rows whose keys are smaller.
    ordered: bool,
}

impl Draft {
    /// The row, to set fields of it; a new one, unless it is the one that this table had last.
    pub(super) fn fields(&mut self, table: &'static str, key: &str) -> Fields<'_> {
        let at = self.at(table);
        let Begun { rows, ordered, .. } = &mut self.tables[at];
        let order = rows.last().map(|(last, _)| last.as_str().cmp(key));
        if order != Some(Ordering::Equal) {
            *ordered &= order != Some(Ordering::Greater);
            rows.push((key.into(), Row::new()));
        }
        let last = rows.len() - 1;
        Fields(&mut rows[last].1)
    }

    /// Where this table is; a new one, unless there is one of this name.
    fn at(&mut self, table: &'static str) -> usize {
        if self.tables.get(self.last).is_none_or(|last| last.name != table) {
            let known = self.tables.iter().position(|begun| begun.name == table);
            self.last = known.unwrap_or_else(|| {
                self.tables.push(Begun { name: table, rows: Vec::new(), ordered: true });
                self.tables.len() - 1
            });
        }
        self.last
    }

    /// Sets one field.
    pub(super) fn set(&mut self, table: &'static str, key: &str, field: &str, value: impl ToCompactString) {
        self.fields(table, key).set(field, value);
    }

    /// The tables, in order.
    pub(super) fn done(self) -> ConfigDb {
        let table = |Begun { name, mut rows, ordered }: Begun| {
            if !ordered {
                rows.sort_by(|a, b| a.0.cmp(&b.0));
                // A row that was begun twice is one.
                rows.dedup_by(|later, first| {
                    let same = later.0 == first.0;
                    if same {
                        first.1.extend(mem::take(&mut later.1));
                    }
                    same
                });
            }
            (Text::from(name), rows.into_iter().collect())
        };
        ConfigDb(self.tables.into_iter().map(table).collect())
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
