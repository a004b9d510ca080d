//! Ports, from what SONiC's server says of its tables. Names of the tables' fields: sonic-net/sonic-swss (`doc/swss-schema.md`) and
//! sonic-net/sonic-sairedis (SAI's names of counters).

use std::collections::BTreeMap;

use proto_wire::v1::SwitchPortStatus;
use serde_json::{Map, Value};

use crate::{
    counters::{
        PORTS_MAX,
        lldp::Neighbor,
        sonic::{self, number},
        sysfs::natural,
    },
    text,
};

/// The schema's longest names, in bytes.
const NAME_MAX: usize = 255;
const PORT_NAME_MAX: usize = 63;

/// Ports by `PORT_TABLE`, with what `COUNTERS/Ethernet*` and `COUNTERS/Ethernet*/Queues` count. The server gives those two by the vendor's
/// alias of a port, where it has one.
pub(super) fn ports(
    table: &Map<String, Value>,
    counters: &Map<String, Value>,
    queues: &Map<String, Value>,
    neighbors: &BTreeMap<String, Neighbor>,
) -> Vec<SwitchPortStatus> {
    let is_port = |name: &String| name.starts_with("Ethernet") && text::within(name, PORT_NAME_MAX) == *name;
    let mut named: Vec<(&String, &Value)> = table.iter().filter(|(name, _)| is_port(name)).collect();
    named.sort_by_cached_key(|(name, _)| natural(name));
    named.truncate(PORTS_MAX);
    let mut by_port: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for (key, said) in queues {
        if let Some((port, queue)) = key.rsplit_once(':') {
            by_port.entry(port).or_default().insert(format!("q{queue}"), said.clone());
        }
    }
    let port = |(name, row): (&String, &Value)| {
        let alias = row["alias"].as_str().filter(|alias| counters.contains_key(*alias)).unwrap_or(name);
        let nothing = Value::Object(Map::new());
        let counted = counters.get(alias).unwrap_or(&nothing);
        let of = |field: &str| number(&counted[field]);
        let mut port = SwitchPortStatus {
            name: name.clone(),
            up: row["oper_status"].as_str() == Some("up"),
            speed_mbps: number(&row["speed"]),
            mtu: u32::try_from(number(&row["mtu"])).unwrap_or(0),
            rx_bytes: of("SAI_PORT_STAT_IF_IN_OCTETS"),
            tx_bytes: of("SAI_PORT_STAT_IF_OUT_OCTETS"),
            rx_errors: of("SAI_PORT_STAT_IF_IN_ERRORS"),
            tx_drops: of("SAI_PORT_STAT_IF_OUT_DISCARDS"),
            link_changes: number(&row["flap_count"]),
            ..SwitchPortStatus::default()
        };
        sonic::of_port(counted, by_port.get(alias).unwrap_or(&Map::new())).add(&mut port);
        if let Some(neighbor) = neighbors.get(name) {
            port.neighbor.clone_from(&neighbor.name);
            port.neighbor_port.clone_from(&neighbor.port);
        }
        port
    };
    named.into_iter().map(port).collect()
}

/// Who is at the other ends, by `LLDP_ENTRY_TABLE`.
pub(super) fn neighbors(table: &Map<String, Value>) -> BTreeMap<String, Neighbor> {
    let of = |row: &Value| {
        let text = |field: &str| text::within(row[field].as_str().unwrap_or_default(), NAME_MAX);
        // Subtype 5 is the name of an interface, 7 one that is given locally (IEEE 802.1AB, 8.5.3.2); others are addresses.
        let is_name = matches!(row["lldp_rem_port_id_subtype"].as_str(), Some("1" | "5" | "7"));
        let described = text("lldp_rem_port_desc");
        let port = if is_name || described.is_empty() { text("lldp_rem_port_id") } else { described };
        let named = text("lldp_rem_sys_name");
        Neighbor { name: if named.is_empty() { text("lldp_rem_chassis_id") } else { named }, port }
    };
    let all = table.iter().map(|(port, row)| (port.clone(), of(row)));
    all.filter(|(_, neighbor)| *neighbor != Neighbor::default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(json: Value) -> Map<String, Value> {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn ports_are_joined_by_name_or_alias() {
        let table = object(json!({
            "Ethernet8": {"alias": "etp2", "oper_status": "down", "speed": "400000", "mtu": "9100"},
            "Ethernet0": {"alias": "etp1", "oper_status": "up", "speed": "400000", "mtu": "9216", "flap_count": "3"},
            "PortConfigDone": {"count": "2"},
        }));
        let counters = object(json!({
            "etp1": {"SAI_PORT_STAT_IF_IN_OCTETS": "77", "SAI_PORT_STAT_PFC_3_RX_PKTS": "5"},
            "Ethernet8": {"SAI_PORT_STAT_IF_OUT_DISCARDS": "9"},
        }));
        let queues =
            object(json!({"etp1:3": {"SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": "4"}, "etp1:12": {}}));
        let lldp = object(json!({
            "Ethernet0": {"lldp_rem_sys_name": "n0", "lldp_rem_port_id": "0c:42", "lldp_rem_port_id_subtype": "3",
                          "lldp_rem_port_desc": "eth0"},
            "Ethernet8": {"lldp_rem_sys_name": "spine0", "lldp_rem_port_id": "swp1", "lldp_rem_port_id_subtype": "5",
                          "lldp_rem_port_desc": "to r0"},
            "eth0": {},
        }));
        let found = ports(&table, &counters, &queues, &neighbors(&lldp));
        let names: Vec<&str> = found.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ["Ethernet0", "Ethernet8"]);
        let [first, second] = &found[..] else { panic!() };
        assert_eq!((first.up, first.mtu, first.rx_bytes, first.link_changes), (true, 9216, 77, 3));
        assert_eq!((first.priorities[0].pause_rx, first.priorities[0].ecn_marked), (5, 4));
        assert_eq!((first.neighbor.as_str(), first.neighbor_port.as_str()), ("n0", "eth0"));
        assert_eq!((second.up, second.speed_mbps, second.tx_drops), (false, 400_000, 9));
        assert_eq!((second.neighbor.as_str(), second.neighbor_port.as_str()), ("spine0", "swp1"));
        assert!(ports(&Map::new(), &counters, &queues, &BTreeMap::new()).is_empty());
    }
}
