//! Who is at the other end of each port, as `lldpctl -f json` says it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{invoke::Invocation, text};

/// Longest name of the schema, in bytes.
const NAME_MAX: usize = 255;

/// What is at the other end of a port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Neighbor {
    /// Name of the machine.
    pub name: String,
    /// Name of its port.
    pub port: String,
}

/// What prints it.
#[must_use]
pub fn read() -> Invocation {
    Invocation::new("lldpctl", &["-f", "json"]).saying(8 << 20)
}

/// Neighbours by port; the first that a port has. What cannot be understood is left out.
#[must_use]
pub fn neighbors(said: &str) -> BTreeMap<String, Neighbor> {
    let Ok(all) = serde_json::from_str::<Value>(said) else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    // A list of objects with one port each, or one object where there is one port only.
    let interfaces = &all["lldp"]["interface"];
    let each = interfaces.as_array().map_or(std::slice::from_ref(interfaces), Vec::as_slice);
    for (port, said) in each.iter().filter_map(Value::as_object).flatten() {
        let neighbor = Neighbor {
            name: chassis(&said["chassis"]),
            port: text::within(&self::port(&said["port"]), NAME_MAX),
        };
        if neighbor != Neighbor::default() {
            found.entry(port.clone()).or_insert(neighbor);
        }
    }
    found
}

/// `{"NAME": {"id": ...}}`; without a name `{"id": {"type": "mac", "value": ...}}`.
fn chassis(chassis: &Value) -> String {
    let Some(fields) = chassis.as_object() else { return String::new() };
    let name = match fields.get("id") {
        Some(id) if id.get("value").is_some() => id["value"].as_str().map(str::to_owned),
        _ => fields.keys().next().cloned(),
    };
    text::within(&name.unwrap_or_default(), NAME_MAX)
}

/// The name of a port: its id where that is a name, else what describes it.
fn port(port: &Value) -> String {
    let id = &port["id"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match id["type"].as_str() {
        Some("ifname" | "ifalias" | "local") => text(&id["value"]),
        _ if port["descr"].is_string() => text(&port["descr"]),
        _ => text(&id["value"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, port: &str) -> Neighbor {
        Neighbor { name: name.to_owned(), port: port.to_owned() }
    }

    #[test]
    fn neighbours_are_found_in_both_forms() {
        let several = r#"{"lldp": {"interface": [
            {"Ethernet0": {"via": "LLDP", "chassis": {"r0-leaf1": {"id": {"type": "mac", "value": "00:11"}}},
                           "port": {"id": {"type": "ifname", "value": "swp1"}, "descr": "uplink"}}},
            {"Ethernet8": {"chassis": {"id": {"type": "mac", "value": "00:22"}},
                           "port": {"id": {"type": "mac", "value": "00:23"}, "descr": "ens3f0"}}},
            {"Ethernet8": {"chassis": {"second": {}}, "port": {}}},
            {"Ethernet16": {"chassis": {}, "port": {}}}]}}"#;
        let found = neighbors(several);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (&found["Ethernet0"], &found["Ethernet8"]),
            (&of("r0-leaf1", "swp1"), &of("00:22", "ens3f0"))
        );
        let one = r#"{"lldp": {"interface": {"eth0": {"chassis": {"n0": {}}, "port": {"id": {"type": "mac", "value": "00:23"}}}}}}"#;
        assert_eq!(neighbors(one)["eth0"], of("n0", "00:23"));
        for nothing in ["", "[]", r#"{"lldp": {}}"#, r#"{"lldp": {"interface": 3}}"#] {
            assert!(neighbors(nothing).is_empty(), "{nothing}");
        }
    }
}
