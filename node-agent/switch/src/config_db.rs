//! SONiC's `config_db.json`: what is rendered for a switch laid over what it has. Platform, addresses of management and whatever else the
//! plan does not speak of stay.

use serde_json::{Map, Value};
use thiserror::Error;

/// The file.
pub const FILE: &str = "config_db.json";
/// Why a text is no configuration.
#[derive(Debug, Error)]
pub enum ConfigDbError {
    /// It is no JSON.
    #[error("{FILE} is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is not tables of rows.
    #[error("{FILE} is not tables of rows of fields: {0}")]
    Shape(String),
}

type Table = Map<String, Value>;

/// What is desired, laid over what was found: the whole of what the switch is to have. Of a table that is `owned` nothing stays but what is
/// desired; rows of all others are laid over those that are there, field by field.
///
/// # Errors
/// One of the two is no configuration.
pub fn merge(found: &str, desired: &str, owned: &[String]) -> Result<String, ConfigDbError> {
    let (mut all, desired) = (tables(found)?, tables(desired)?);
    all.retain(|name, _| !owned.contains(name));
    for (name, table) in &desired {
        let Value::Object(wanted) = table else { return Err(ConfigDbError::Shape(name.clone())) };
        let table = all.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(table) = table else { return Err(ConfigDbError::Shape(name.clone())) };
        for (key, row) in wanted {
            let Value::Object(fields) = row else {
                return Err(ConfigDbError::Shape(format!("{name}|{key}")));
            };
            match table.get_mut(key) {
                Some(Value::Object(there)) => {
                    there.extend(fields.iter().map(|(field, value)| (field.clone(), value.clone())));
                }
                _ => {
                    table.insert(key.clone(), row.clone());
                }
            }
        }
    }
    // SONiC has no table without rows.
    all.retain(|_, table| table.as_object().is_none_or(|table| !table.is_empty()));
    Ok(format!("{:#}\n", Value::Object(all)))
}

/// The tables of a text.
///
/// # Errors
/// It is no configuration.
pub(crate) fn tables(text: &str) -> Result<Table, ConfigDbError> {
    match serde_json::from_str(text)? {
        Value::Object(tables) => Ok(tables),
        _ => Err(ConfigDbError::Shape("it is no object".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(found: &Value, desired: &Value, owned: &[&str]) -> Value {
        let owned: Vec<String> = owned.iter().map(|one| (*one).to_owned()).collect();
        serde_json::from_str(&merge(&found.to_string(), &desired.to_string(), &owned).unwrap()).unwrap()
    }

    #[test]
    fn what_the_plan_does_not_speak_of_stays_but_in_tables_of_its_own() {
        let found = json!({
            "MGMT_INTERFACE": {"eth0|10.0.0.5/24": {"gwaddr": "10.0.0.1"}},
            "DEVICE_METADATA": {"localhost": {"platform": "x86_64-x", "hostname": "sonic"}},
            "PORT": {"Ethernet0": {"alias": "etp1", "mtu": "9100"}, "Ethernet8": {"mtu": "9100"}},
            "WRED_PROFILE": {"RAIL": {"ecn": "ecn_none", "wred_green_enable": "true"}, "AZURE": {"ecn": "ecn_all"}},
            "BUFFER_PG": {"Ethernet0|3-4": {"profile": "a"}},
            "QUEUE": {"Ethernet0|3": {"wred_profile": "AZURE"}},
        });
        let desired = json!({
            "DEVICE_METADATA": {"localhost": {"hostname": "r0-leaf1"}},
            "PORT": {"Ethernet0": {"mtu": "9216"}, "Ethernet4": {"mtu": "9216"}},
            "WRED_PROFILE": {"RAIL": {"ecn": "ecn_all"}},
            "BUFFER_PG": {"Ethernet0|3": {"profile": "b"}},
        });
        let owned = ["WRED_PROFILE", "BUFFER_PG", "QUEUE"];
        let all = merged(&found, &desired, &owned);
        assert_eq!(all["MGMT_INTERFACE"], found["MGMT_INTERFACE"]);
        let device = json!({"platform": "x86_64-x", "hostname": "r0-leaf1"});
        assert_eq!(all["DEVICE_METADATA"]["localhost"], device);
        assert_eq!(all["PORT"]["Ethernet0"], json!({"alias": "etp1", "mtu": "9216"}));
        assert_eq!(all["PORT"].as_object().unwrap().len(), 3);
        assert_eq!(
            (&all["WRED_PROFILE"], &all["BUFFER_PG"]),
            (&desired["WRED_PROFILE"], &desired["BUFFER_PG"])
        );
        assert!(all.get("QUEUE").is_none(), "{all}");
        // Laid over itself it is the same.
        assert_eq!(merged(&all, &desired, &owned), all);
        let merged = merged(&found, &desired, &[]);
        assert_eq!(merged["BUFFER_PG"].as_object().unwrap().len(), 2);
        assert_eq!(merged["QUEUE"], found["QUEUE"]);
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        for bad in ["", "[]", "{\"PORT\": 3}", "{\"PORT\": {\"Ethernet0\": \"up\"}}"] {
            assert!(merge("{}", bad, &[]).is_err(), "{bad}");
        }
        assert!(merge("{\"PORT\": 3}", "{\"PORT\": {\"Ethernet0\": {}}}", &[]).is_err());
    }
}
