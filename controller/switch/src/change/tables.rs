//! Tables of `config_db.json`, compared and merged. A switch has more than what is rendered (its platform, management, features): only what
//! is desired is looked at, and in tables that are ours also what stands there beside it.

use std::collections::BTreeSet;

use super::{
    difference::{CONFIG_DB, Change},
    impact,
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
            let at = format!("{table}|{key}");
            match there.and_then(|rows| rows.get(key)) {
                None if row.is_empty() => all.push(change(table, "", at, "present", "")),
                other => fields(table, &at, row, other.unwrap_or(&empty), all),
            }
        }
    }
    for table in OWNED {
        let Some(there) = found.0.get(table) else { continue };
        let rows = desired.0.get(table);
        for (key, row) in there.iter().filter(|(key, _)| rows.is_none_or(|rows| !rows.contains_key(*key))) {
            let at = format!("{table}|{key}");
            if row.is_empty() {
                all.push(change(table, "", at, "", "present"));
            } else {
                fields(table, &at, &empty, row, all);
            }
        }
    }
}

fn fields(table: &str, at: &str, desired: &Row, found: &Row, all: &mut Vec<Change>) {
    for (field, value) in desired {
        if found.get(field) != Some(value) {
            let was = found.get(field).map(text).unwrap_or_default();
            all.push(change(table, field, format!("{at}|{field}"), &text(value), &was));
        }
    }
    if OWNED.contains(&table) {
        for (field, value) in found.iter().filter(|(field, _)| !desired.contains_key(*field)) {
            all.push(change(table, field, format!("{at}|{field}"), "", &text(value)));
        }
    }
}

fn change(table: &str, field: &str, path: String, desired: &str, found: &str) -> Change {
    let (impact, why) = impact::of(table, field);
    Change { impact, file: CONFIG_DB, path, desired: desired.to_owned(), found: found.to_owned(), why }
}

fn text(field: &Field) -> String {
    match field {
        Field::Text(text) => text.clone(),
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
