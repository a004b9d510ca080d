//! Tables, rows and fields of `config_db.json` taken one by one, with every one that is wrong noted.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    ops::RangeInclusive,
    str::FromStr,
};

use super::answer::Wrong;
use crate::{
    model::Name,
    render::tables::{ConfigDb, Field, Row, Table, Text},
};

/// Where something is: a row, or a field of it. It is written out only for what is wrong.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    table: &'a str,
    key: &'a str,
    field: Option<&'a str>,
}

impl<'a> At<'a> {
    /// A row.
    pub(super) const fn row(table: &'a str, key: &'a str) -> Self {
        Self { table, key, field: None }
    }

    /// A field of it.
    pub(super) const fn field(self, field: &'a str) -> Self {
        Self { field: Some(field), ..self }
    }
}

impl Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, key, field } = self;
        write!(f, "{table}|{key}")?;
        field.map_or(Ok(()), |field| write!(f, ".{field}"))
    }
}

/// Tables that are being read.
pub(super) struct Tables {
    /// What has not been taken yet.
    pub(super) db: ConfigDb,
    /// What was wrong so far.
    pub(super) wrong: Vec<Wrong>,
    /// Fields that nobody took.
    pub(super) unknown: Vec<String>,
}

impl Tables {
    /// Notes that a field is wrong.
    pub(super) fn wrong(&mut self, at: impl Display, why: impl Display) {
        self.wrong.push(Wrong { at: at.to_string(), why: why.to_string() });
    }

    /// A table, which is then no longer there.
    pub(super) fn table(&mut self, name: &str) -> Table {
        self.db.0.remove(name).unwrap_or_default()
    }

    /// A field of a row as a text, which is then no longer there.
    pub(super) fn text(&mut self, at: At<'_>, row: &mut Row, field: &str) -> Option<Text> {
        match row.remove(field)? {
            Field::Text(text) => Some(text),
            Field::List(_) => {
                self.wrong(at.field(field), "a list, not a text");
                None
            }
        }
    }

    /// A field as a number.
    pub(super) fn number<T: FromStr>(&mut self, at: At<'_>, row: &mut Row, field: &str) -> Option<T> {
        let text = self.text(at, row, field)?;
        self.parsed(at.field(field), &text)
    }

    /// A number that has to be there.
    pub(super) fn needed<T: FromStr>(&mut self, at: At<'_>, row: &mut Row, field: &str) -> Option<T> {
        if !row.contains_key(field) {
            self.wrong(at.field(field), "is missing");
        }
        self.number(at, row, field)
    }

    /// A text as a number, in decimal digits.
    pub(super) fn parsed<T: FromStr>(&mut self, at: At<'_>, text: &str) -> Option<T> {
        let number = text.parse().ok();
        if number.is_none() {
            self.wrong(at, format!("{text:?} is no such number"));
        }
        number
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(
        &mut self,
        at: At<'_>,
        row: &mut Row,
        field: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(at, row, field)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(at.field(field), format!("{text:?} is none of {}", words.join(", ")));
        }
        found
    }

    /// A name.
    pub(super) fn name(&mut self, at: At<'_>, text: &str) -> Option<Name> {
        Name::new(text).map_err(|why| self.wrong(at, why)).ok()
    }

    /// A map from numbers to numbers, each with its greatest value.
    pub(super) fn map(&mut self, at: At<'_>, row: Row, from_max: u8, to_max: u8) -> BTreeMap<u8, u8> {
        let mut map = BTreeMap::new();
        for (from, to) in row {
            let place = at.field(&from);
            let pair =
                (self.parsed::<u8>(place, &from), self.parsed::<u8>(place, to.text().unwrap_or_default()));
            let (Some(from), Some(to)) = pair else { continue };
            if from > from_max || to > to_max {
                self.wrong(place, format!("{from} -> {to} is beyond {from_max} -> {to_max}"));
            }
            map.insert(from, to);
        }
        map
    }

    /// What is left of a row is not known.
    pub(super) fn rest(&mut self, at: At<'_>, row: &Row) {
        self.unknown.extend(row.keys().map(|field| at.field(field).to_string()));
    }
}

/// The ports and numbers of a key such as `Ethernet0,Ethernet4|3-4`; none where it is no such key.
pub(super) fn members(key: &str) -> Option<(impl Iterator<Item = &str>, RangeInclusive<u8>)> {
    let (ports, numbers) = key.rsplit_once('|')?;
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let (first, last): (u8, u8) = (first.parse().ok()?, last.parse().ok()?);
    // No ASIC has more queues.
    (first <= last && last < 32).then(|| (ports.split(','), first..=last))
}
