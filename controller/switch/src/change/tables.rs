//! Tables of `config_db.json`, compared and merged. A switch has more than what is rendered (its platform, management, features): only what
//! is desired is looked at, and in tables that are ours also what stands there beside it.

use std::collections::BTreeSet;

use proto_model::sonic::{Part, Step};

use super::{
    difference::{CONFIG_DB, Change},
    impact::{self, Setting},
};
use crate::render::tables::{ConfigDb, Field, Row};

/// Tables of which nothing may stand on the switch but what is rendered: a row too many there changes what happens to packets.
pub const OWNED: [&str; 14] = [
    "BUFFER_PG",
    "BUFFER_QUEUE",
    "CABLE_LENGTH",
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
    "DSCP_TO_TC_MAP",
    "LOSSLESS_TRAFFIC_PATTERN",
    "MAP_PFC_PRIORITY_TO_QUEUE",
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
    "PFC_WD",
    "PORT_QOS_MAP",
    "QUEUE",
    "TC_TO_PRIORITY_GROUP_MAP",
    "TC_TO_QUEUE_MAP",
    "WRED_PROFILE",
];

/// Adds what differs.
pub(super) fn compare(desired: &ConfigDb, found: &ConfigDb, all: &mut Vec<Change>) {
    let empty = Row::new();
    for (table, rows) in &desired.0 {
        let there = found.0.get(table);
        for (key, row) in rows {
            let part = if there.is_some() { Part::Row(key) } else { Part::Table };
            let spot = Spot { table, key, found, whole: Some((part, Step::Add)) };
            match there.and_then(|rows| rows.get(key)) {
                None if row.is_empty() => all.push(spot.alone("present", "")),
                None => spot.fields(row, &empty, all),
                Some(other) => Spot { whole: None, ..spot }.fields(row, other, all),
            }
        }
    }
    for table in OWNED {
        let Some(there) = found.0.get(table) else { continue };
        let rows = desired.0.get(table).filter(|rows| !rows.is_empty());
        for (key, row) in there.iter().filter(|(key, _)| rows.is_none_or(|rows| !rows.contains_key(*key))) {
            let part = if rows.is_some() { Part::Row(key) } else { Part::Table };
            let spot = Spot { table, key, found, whole: Some((part, Step::Remove)) };
            if row.is_empty() {
                all.push(spot.alone("", "present"));
            } else {
                spot.fields(&empty, row, all);
            }
        }
    }
}

/// A row that is compared.
#[derive(Clone, Copy)]
struct Spot<'a> {
    table: &'a str,
    key: &'a str,
    /// All that the switch is set to.
    found: &'a ConfigDb,
    /// What comes or goes as a whole; none where the row stays.
    whole: Option<(Part<'a>, Step)>,
}

impl Spot<'_> {
    fn fields(&self, desired: &Row, found: &Row, all: &mut Vec<Change>) {
        for (field, value) in desired.iter() {
            let was = found.get(field);
            if was != Some(value) {
                let step = if was.is_some() { Step::Replace } else { Step::Add };
                all.push(self.change(field, step, &text(value), &was.map(text).unwrap_or_default()));
            }
        }
        if OWNED.contains(&self.table) {
            for (field, value) in found.iter().filter(|(field, _)| !desired.contains_key(field)) {
                all.push(self.change(field, Step::Remove, "", &text(value)));
            }
        }
    }

    /// A row without fields.
    fn alone(&self, desired: &str, found: &str) -> Change {
        let (part, step) = self.whole.unwrap_or((Part::Row(self.key), Step::Replace));
        let setting = Setting { table: self.table, key: self.key, field: "", part, step };
        change(&setting, self.found, format!("{}|{}", self.table, self.key), desired, found)
    }

    fn change(&self, field: &str, step: Step, desired: &str, found: &str) -> Change {
        let Self { table, key, .. } = *self;
        let (part, step) = self.whole.unwrap_or((Part::Field(key, field), step));
        let setting = Setting { table, key, field, part, step };
        change(&setting, self.found, format!("{table}|{key}|{field}"), desired, found)
    }
}

fn change(setting: &Setting<'_>, switch: &ConfigDb, path: String, desired: &str, found: &str) -> Change {
    let (impact, why) = impact::of(setting, switch);
    Change { impact, file: CONFIG_DB, path, desired: desired.to_owned(), found: found.to_owned(), why }
}

fn text(field: &Field) -> String {
    match field {
        Field::Text(text) => text.to_string(),
        Field::List(list) => list.join(","),
    }
}

/// What a switch with `found` is to be given as a whole: desired rows over its own, and of tables that are ours nothing else.
#[must_use]
pub fn merge(desired: &ConfigDb, found: &ConfigDb) -> ConfigDb {
    let owned = BTreeSet::from(OWNED);
    let mut merged = found.clone();
    merged.0.retain(|table, _| !owned.contains(table.as_str()));
    for (table, rows) in &desired.0 {
        for (key, row) in rows {
            merged.row(table, key).extend(row.iter().map(|(field, value)| (field.clone(), value.clone())));
        }
    }
    merged
}
