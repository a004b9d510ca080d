//! A plan for a switch beside what SONiC would do: the plan as a JSON patch, and the settings that a change of the configuration touches.

use std::collections::BTreeSet;

use controller_switch::{
    change::{CONFIG_DB, Change, Impact},
    render::tables::{ConfigDb, Field, Row, Table, Text},
};
use serde_json::{Value, json};

/// `found` with the changes of a plan made, and nothing else. `desired` only says which parts of a path are a row's key.
#[must_use]
pub fn applied(plan: &[Change], desired: &ConfigDb, found: &ConfigDb) -> ConfigDb {
    let mut config = found.clone();
    for change in plan.iter().filter(|change| change.file == CONFIG_DB) {
        let Some((table, rest)) = change.path.split_once('|') else { continue };
        let has = |config: &ConfigDb| config.0.get(table).is_some_and(|rows| rows.contains_key(rest));
        if has(desired) || has(found) {
            // A row without fields, which is there or not.
            if change.desired.is_empty() {
                remove(&mut config, table, rest);
            } else {
                config.row(table, rest);
            }
        } else if let Some((key, field)) = rest.rsplit_once('|') {
            if !change.desired.is_empty() {
                config.set(table, key, field, &change.desired);
                continue;
            }
            let row = config.row(table, key);
            row.remove(field);
            let is_desired = desired.0.get(table).is_some_and(|rows| rows.contains_key(key));
            if row.is_empty() && !is_desired {
                remove(&mut config, table, key);
            }
        }
    }
    config
}

/// Takes a row away, and its table with the last one: the database has no empty tables.
fn remove(config: &mut ConfigDb, table: &str, key: &str) {
    if let Some(rows) = config.0.get_mut(table) {
        rows.remove(key);
        if rows.is_empty() {
            config.0.remove(table);
        }
    }
}

/// The JSON patch from one configuration to another, field by field.
#[must_use]
pub fn patch(from: &ConfigDb, to: &ConfigDb) -> Value {
    let mut steps = Vec::new();
    let names: BTreeSet<&Text> = from.0.keys().chain(to.0.keys()).collect();
    for table in names {
        match (from.0.get(table), to.0.get(table)) {
            (None, Some(rows)) => steps.push(json!({"op": "add", "path": pointer(&[table]), "value": rows})),
            (Some(_), None) => steps.push(json!({"op": "remove", "path": pointer(&[table])})),
            (Some(from), Some(to)) => rows(table, from, to, &mut steps),
            (None, None) => {}
        }
    }
    Value::Array(steps)
}

fn rows(table: &str, from: &Table, to: &Table, steps: &mut Vec<Value>) {
    let keys: BTreeSet<&Text> = from.keys().chain(to.keys()).collect();
    for key in keys {
        match (from.get(key), to.get(key)) {
            (None, Some(row)) => {
                steps.push(json!({"op": "add", "path": pointer(&[table, key]), "value": row}))
            }
            (Some(_), None) => steps.push(json!({"op": "remove", "path": pointer(&[table, key])})),
            (Some(from), Some(to)) => fields(&[table, key], from, to, steps),
            (None, None) => {}
        }
    }
}

fn fields(at: &[&str; 2], from: &Row, to: &Row, steps: &mut Vec<Value>) {
    let names: BTreeSet<&Text> = from.keys().chain(to.keys()).collect();
    for name in names {
        let path = pointer(&[at[0], at[1], name]);
        match (from.get(name), to.get(name)) {
            (None, Some(value)) => steps.push(json!({"op": "add", "path": path, "value": value})),
            (Some(_), None) => steps.push(json!({"op": "remove", "path": path})),
            (Some(was), Some(value)) if was != value => {
                steps.push(json!({"op": "replace", "path": path, "value": value}));
            }
            _ => {}
        }
    }
}

/// Whether a plan says that the switch's services start again, because its updater does not make one of the changes or could not undo it.
#[must_use]
pub fn says_reload(plan: &[Change]) -> bool {
    plan.iter().any(|change| change.impact == Impact::Reboot)
}

/// The ports of which a plan says that their links go down: a path begins with its table and the port.
#[must_use]
pub fn says_down(plan: &[Change]) -> BTreeSet<String> {
    let flaps = plan.iter().filter(|change| change.impact >= Impact::LinkFlap);
    flaps.filter_map(|change| Some(change.path.split('|').nth(1)?.to_owned())).collect()
}

/// The ports that are shut, or brought up, by settings that a change touches.
pub fn switched_ports<'a>(touched: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let port = |path: &'a String| path.strip_prefix("PORT|")?.strip_suffix("|admin_status");
    touched.filter_map(port).map(str::to_owned).collect()
}

/// A JSON pointer (RFC 6901).
fn pointer(parts: &[&str]) -> String {
    parts.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

/// The settings in which two configurations differ, in the words of a plan: `TABLE|KEY|field`, and `TABLE|KEY` for rows without fields.
#[must_use]
pub fn touched(before: &ConfigDb, after: &ConfigDb) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let no_table = Table::new();
    let names: BTreeSet<&Text> = before.0.keys().chain(after.0.keys()).collect();
    for table in names {
        let of = |config: &'_ ConfigDb| config.0.get(table).unwrap_or(&no_table).clone();
        let (before, after) = (of(before), of(after));
        let keys: BTreeSet<&Text> = before.keys().chain(after.keys()).collect();
        for key in keys {
            settings(&format!("{table}|{key}"), before.get(key), after.get(key), &mut all);
        }
    }
    all
}

fn settings(at: &str, before: Option<&Row>, after: Option<&Row>, all: &mut BTreeSet<String>) {
    let value = |row: Option<&Row>, name: &str| -> Option<Field> { row?.get(name).cloned() };
    let names: BTreeSet<&Text> = before.into_iter().chain(after).flat_map(Row::keys).collect();
    if names.is_empty() && before.is_some() != after.is_some() {
        all.insert(at.to_owned());
    }
    for name in names.into_iter().filter(|name| value(before, name) != value(after, name)) {
        all.insert(format!("{at}|{name}"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use controller_switch::change::{Settings, changes};

    use super::*;

    fn config(json: &str) -> ConfigDb {
        ConfigDb::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"))
    }

    #[test]
    fn a_plan_applied_is_what_is_desired_and_touches_what_it_says() {
        let found = config(
            r#"{"QUEUE": {"e0|3": {"scheduler": "a"}, "e0|4": {"scheduler": "a"}}, "CABLE_LENGTH": {"AZURE": {"e0": "5m"}},
                "PORT": {"e0": {"mtu": "9100", "alias": "x"}}}"#,
        );
        let desired = config(
            r#"{"QUEUE": {"e0|3": {"scheduler": "b", "wred_profile": "w"}}, "PORT": {"e0": {"mtu": "9216"}},
                "LOOPBACK_INTERFACE": {"Loopback0": {}, "Loopback0|10.0.0.1/32": {}}}"#,
        );
        let settings = |tables: &ConfigDb| Settings { tables: Some(tables.clone()), routing: None };
        let plan = changes(&settings(&desired), &settings(&found));
        let after = applied(&plan, &desired, &found);
        let wanted = config(
            r#"{"QUEUE": {"e0|3": {"scheduler": "b", "wred_profile": "w"}}, "PORT": {"e0": {"mtu": "9216", "alias": "x"}},
                "LOOPBACK_INTERFACE": {"Loopback0": {}, "Loopback0|10.0.0.1/32": {}}}"#,
        );
        assert_eq!(after, wanted);
        let paths: BTreeSet<String> = plan.iter().map(|change| change.path.clone()).collect();
        assert_eq!(touched(&found, &after), paths);
        let steps = patch(&found, &after);
        let count = |op: &str| steps.as_array().into_iter().flatten().filter(|step| step["op"] == op).count();
        let counts = ["add", "remove", "replace"].map(|op| (op, count(op)));
        assert_eq!(BTreeMap::from(counts), BTreeMap::from([("add", 2), ("remove", 2), ("replace", 2)]));
    }

    #[test]
    fn a_plan_says_which_links_go_down_and_whether_services_start_again() {
        let settings = |json: &str| Settings { tables: Some(config(json)), routing: None };
        let found = r#"{"PORT": {"e0": {"admin_status": "up"}, "e1": {"admin_status": "down"}},
            "QUEUE": {"e0|3": {"scheduler": "a"}, "e1|3": {"scheduler": "a"}}, "BUFFER_POOL": {"p": {"size": "1"}}}"#;
        let of = |desired: &str| changes(&settings(desired), &settings(found));
        let plan = of(r#"{"QUEUE": {"e0|3": {"scheduler": "b"}, "e1|3": {"scheduler": "b"}}}"#);
        assert_eq!(says_down(&plan).into_iter().collect::<Vec<_>>(), ["e0"]);
        assert!(!says_reload(&plan));
        assert!(says_reload(&of(r#"{"BUFFER_POOL": {"p": {"size": "2"}}}"#)));
        let touched = ["PORT|e0|admin_status", "PORT|e1|mtu", "QUEUE|e2|scheduler"].map(str::to_owned);
        assert_eq!(switched_ports(touched.iter()).into_iter().collect::<Vec<_>>(), ["e0"]);
    }

    #[test]
    fn a_pointer_escapes_what_means_something_in_it() {
        let steps = patch(&ConfigDb::default(), &config(r#"{"a/b~": {}}"#));
        assert_eq!(steps[0]["path"], "/a~1b~0");
    }
}
