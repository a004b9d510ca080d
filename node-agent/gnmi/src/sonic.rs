//! SONiC's own settings (`CONFIG_DB`) by gNMI: read whole, and changed by entries of tables. Its gNMI server makes a JSON patch of a
//! change and has SONiC's updater (generic_config_updater) validate it as a whole and make it step by step. Source: sonic-net/sonic-gnmi,
//! `sonic_data_client/mixed_db_client.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use crate::client::{Change, DataType, Gnmi};
use crate::error::Error;
use crate::path::Path;
use crate::value::{Update, Value};

/// The settings: table, then entry, then fields; every value is text or a list of texts.
pub type Config = BTreeMap<String, Map<String, Json>>;

/// One step of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// Name of the table, as `PORT_QOS_MAP`.
    pub table: String,
    /// Key of the entry, as `Ethernet0` or `Ethernet0|3`; `None` is the whole table.
    pub key: Option<String>,
    /// Name of the field; `None` is the whole entry.
    pub field: Option<String>,
    /// What stands there afterwards; `None` removes it.
    pub value: Option<Json>,
}

/// Reads all settings. While SONiC's server makes a change it answers with what was there before (the checkpoint that it keeps for that time).
///
/// # Errors
/// [`Error`] of [`Gnmi::get`], or [`Error::Malformed`] if what comes is not tables of entries.
pub async fn config(switch: &Gnmi) -> Result<Config, Error> {
    let found = switch.get(&[root()], DataType::All).await?;
    let mut config = Config::new();
    for update in found {
        let below: Vec<&str> = update.path.names().skip(2).collect();
        let Value::Json(json) = update.value else {
            return Err(Error::Malformed(format!("{} is not JSON", update.path)));
        };
        match below.as_slice() {
            [] => {
                for (name, entries) in object(json, &update.path)? {
                    let entries = object(entries, &update.path.clone().child(name.as_str()))?;
                    config.entry(name).or_default().extend(entries);
                }
            }
            [table] => {
                let table = (*table).to_owned();
                let entries = object(json, &update.path)?;
                config.entry(table).or_default().extend(entries);
            }
            _ => return Err(Error::Malformed(format!("{} was not asked for", update.path))),
        }
    }
    Ok(config)
}

/// Reads one object of another database: `names` below `target`, as `PORT_TABLE` of `APPL_DB`, or the virtual paths that SONiC's server has
/// in `COUNTERS_DB` (`COUNTERS`, `Ethernet*`). A table that is not there is an empty object.
///
/// # Errors
/// [`Error`] of [`Gnmi::get`], or [`Error::Malformed`] if what comes is no object.
pub async fn entries(switch: &Gnmi, target: &str, names: &[&str]) -> Result<Map<String, Json>, Error> {
    objects(switch.get_of(target, &[Path::of("", names)], DataType::All).await?)
}

/// Reads one table of any database by its plain name, past the virtual paths. A table that is not there is an empty object.
///
/// # Errors
/// As [`entries`].
pub async fn table(switch: &Gnmi, database: &str, table: &str) -> Result<Map<String, Json>, Error> {
    let path = Path::of("sonic-db", &[database, "localhost", table]);
    match switch.get(&[path], DataType::All).await {
        Err(Error::NotFound(_)) => Ok(Map::new()),
        found => objects(found?),
    }
}

fn objects(found: Vec<Update>) -> Result<Map<String, Json>, Error> {
    let mut entries = Map::new();
    for update in found {
        let Value::Json(json) = update.value else {
            return Err(Error::Malformed(format!("{} is not JSON", update.path)));
        };
        entries.extend(object(json, &update.path)?);
    }
    Ok(entries)
}

/// What makes `found` into `wanted`. A table or an entry that is not there is added whole, since a JSON patch adds nothing below what is not
/// there (RFC 6902, 4.1); a table of which nothing stays is removed, since SONiC has none without entries. A table with a `~` in a key is
/// written whole: the server does not read that escape.
#[must_use]
pub fn edits(found: &Config, wanted: &Config) -> Vec<Edit> {
    let mut all = Vec::new();
    let edit = |table: &str, key: Option<&str>, field: Option<&str>, value: Option<Json>| Edit {
        table: table.to_owned(),
        key: key.map(str::to_owned),
        field: field.map(str::to_owned),
        value,
    };
    let empty = Map::new();
    let names: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    for name in names {
        let (is, becomes) = (found.get(name).unwrap_or(&empty), wanted.get(name).unwrap_or(&empty));
        if is == becomes {
            continue;
        }
        let is_odd = is.keys().chain(becomes.keys()).any(|key| key.contains('~'));
        if becomes.is_empty() {
            all.push(edit(name, None, None, None));
            continue;
        }
        if is.is_empty() || is_odd {
            all.push(edit(name, None, None, Some(Json::Object(becomes.clone()))));
            continue;
        }
        for key in is.keys().filter(|key| !becomes.contains_key(*key)) {
            all.push(edit(name, Some(key), None, None));
        }
        for (key, entry) in becomes {
            match (is.get(key).and_then(Json::as_object), entry.as_object()) {
                (Some(fields), Some(wanted))
                    if !fields.keys().chain(wanted.keys()).any(|name| name.contains(['~', '/'])) =>
                {
                    let gone = fields.keys().filter(|field| !wanted.contains_key(*field));
                    all.extend(gone.map(|field| edit(name, Some(key), Some(field), None)));
                    let new = wanted.iter().filter(|(field, value)| fields.get(*field) != Some(*value));
                    all.extend(
                        new.map(|(field, value)| edit(name, Some(key), Some(field), Some(value.clone()))),
                    );
                }
                _ if is.get(key) == Some(entry) => {}
                _ => all.push(edit(name, Some(key), None, Some(entry.clone()))),
            }
        }
    }
    all
}

/// Changes settings. The switch validates all of it before it begins, makes it step by step, and keeps it over a restart; what stops in the middle
/// stays so. Nothing to do is done without a call.
///
/// # Errors
/// [`Error`] of [`Gnmi::set`]; where [`Error::may_have_happened`] holds, read what is there.
pub async fn apply(switch: &Gnmi, edits: &[Edit]) -> Result<(), Error> {
    let change = change(edits);
    if change.is_empty() {
        return Ok(());
    }
    switch.set(&change).await
}

/// The change as gNMI knows it. SONiC does deletions before updates, whatever their order here; the updater orders the steps itself.
#[must_use]
pub fn change(edits: &[Edit]) -> Change {
    let mut change = Change::default();
    for edit in edits {
        let mut path = root().child(edit.table.as_str());
        for step in edit.key.iter().chain(&edit.field) {
            path = path.child(pointer(step));
        }
        match &edit.value {
            // In a JSON patch `add` replaces what stands there, and `replace` fails where nothing does (RFC 6902, 4.1).
            Some(value) => change.update.push((path, value.clone())),
            None => change.delete.push(path),
        }
    }
    change
}

/// The server joins elements to a JSON pointer without escaping them, so that is done here (RFC 6901, 3).
fn pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn root() -> Path {
    Path::of("sonic-db", &["CONFIG_DB", "localhost"])
}

fn object(json: Json, path: &Path) -> Result<Map<String, Json>, Error> {
    match json {
        Json::Object(map) => Ok(map),
        _ => Err(Error::Malformed(format!("{path} is not an object"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn edit(table: &str, key: Option<&str>, field: Option<&str>, value: Option<Json>) -> Edit {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Edit { table: table.to_owned(), key: own(key), field: own(field), value }
    }

    #[test]
    fn a_change_is_paths_of_the_database() {
        let made = change(&[
            edit("PORT_QOS_MAP", Some("Ethernet0"), Some("pfc_enable"), Some(json!("3"))),
            edit("LOOPBACK_INTERFACE", Some("Loopback0|10.0.0.1/32"), None, Some(json!({}))),
            edit("PFC_WD", None, None, None),
        ]);
        let shown = |path: &Path| path.names().collect::<Vec<_>>().join(" ");
        assert_eq!(shown(&made.update[0].0), "CONFIG_DB localhost PORT_QOS_MAP Ethernet0 pfc_enable");
        assert_eq!(shown(&made.update[1].0), "CONFIG_DB localhost LOOPBACK_INTERFACE Loopback0|10.0.0.1~132");
        assert_eq!(shown(&made.delete[0]), "CONFIG_DB localhost PFC_WD");
        assert_eq!(made.delete[0].origin, "sonic-db");
        assert!(change(&[]).is_empty());
    }

    fn config(json: Json) -> Config {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn what_separates_two_configurations_is_edits_that_a_patch_can_make() {
        let found = config(json!({
            "PORT": {"Ethernet0": {"mtu": "9100", "fec": "rs"}, "Ethernet8": {"mtu": "9100"}},
            "QUEUE": {"Ethernet0|3": {"wred_profile": "AZURE"}},
            "VLAN": {"Vlan1": {"vlanid": "1"}},
            "ODD": {"a~b": {"x": "1"}},
        }));
        let wanted = config(json!({
            "PORT": {"Ethernet0": {"mtu": "9216"}, "Ethernet4": {"mtu": "9216"}},
            "LOOPBACK_INTERFACE": {"Loopback0|10.0.0.1/32": {}},
            "VLAN": {"Vlan1": {"vlanid": "1"}},
            "ODD": {"a~b": {"x": "2"}},
        }));
        let expected = [
            edit("LOOPBACK_INTERFACE", None, None, Some(json!({"Loopback0|10.0.0.1/32": {}}))),
            edit("ODD", None, None, Some(json!({"a~b": {"x": "2"}}))),
            edit("PORT", Some("Ethernet8"), None, None),
            edit("PORT", Some("Ethernet0"), Some("fec"), None),
            edit("PORT", Some("Ethernet0"), Some("mtu"), Some(json!("9216"))),
            edit("PORT", Some("Ethernet4"), None, Some(json!({"mtu": "9216"}))),
            edit("QUEUE", None, None, None),
        ];
        assert_eq!(edits(&found, &wanted), expected);
        assert_eq!(edits(&wanted, &wanted), []);
    }
}
