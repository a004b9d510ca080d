//! SONiC's own settings (`CONFIG_DB`) by gNMI: read whole, and changed by entries of tables. Its gNMI server makes a JSON patch of a
//! change and has SONiC's updater (generic_config_updater) validate and apply it as one. Source: sonic-net/sonic-gnmi,
//! `sonic_data_client/mixed_db_client.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::client::{Change, DataType, Gnmi};
use crate::error::Error;
use crate::path::Path;
use crate::value::Value;

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

/// Reads all settings.
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

/// Changes settings; the switch does all of it or nothing, and keeps it over a restart. Nothing to do is done without a call.
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
}
