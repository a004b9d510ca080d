//! What differs is found, merging it makes a switch as desired and keeps what is its own, and every table has a rule.

use super::{Change, Impact, OWNED, Settings, bench, changes, impact, merge, worst};
use crate::{
    check::Facts,
    mutate,
    render::{
        sonic,
        tables::{ConfigDb, Field},
    },
    state::SwitchState,
};

fn settings(state: &SwitchState) -> Settings {
    Settings { tables: Some(sonic::config_db(state)), routing: state.routing.clone() }
}

/// Switches of a right fabric.
fn states(seed: u64) -> Vec<SwitchState> {
    let variant = mutate::variant(seed).unwrap();
    let switches = variant.shape.switches().unwrap();
    let facts = Facts::desired(&variant.profile, &switches, variant.model).unwrap();
    facts.switches.into_values().take(3).collect()
}

/// What is a switch's own.
fn with_own(mut db: ConfigDb) -> ConfigDb {
    db.set("MGMT_INTERFACE", "eth0|192.0.2.7/24", "gwaddr", "192.0.2.1");
    db.set("DEVICE_METADATA", "localhost", "mac", "00:11:22:33:44:55");
    db.set("FEATURE", "bgp", "state", "enabled");
    db
}

#[test]
fn a_switch_as_it_is_to_be_has_nothing_to_change() {
    for seed in 0..100 {
        for state in states(seed) {
            let own = settings(&state);
            let read = Settings { tables: own.tables.clone().map(with_own), ..own.clone() };
            assert_eq!(changes(&own, &read), [], "{seed}");
        }
    }
}

#[test]
fn what_is_merged_is_as_desired_and_keeps_what_is_the_switchs_own() {
    for seed in 0..100 {
        for (desired, found) in states(seed).iter().zip(states(seed + 1000)) {
            let (desired, found) = (settings(desired), settings(&found));
            let before = with_own(found.tables.clone().unwrap());
            let tables = desired.tables.as_ref().unwrap();
            let merged = merge(tables, &before);
            let after = Settings { tables: Some(merged.clone()), routing: desired.routing.clone() };
            assert_eq!(changes(&desired, &after), [], "{seed}");
            for own in ["MGMT_INTERFACE", "FEATURE"] {
                assert_eq!(merged.0.get(own), before.0.get(own), "{seed}");
            }
            assert_eq!(merge(tables, &merged), merged, "{seed}");
        }
    }
}

/// Changes one field and says what that does.
fn one(table: &str, key: &str, field: &str, value: &str) -> Vec<Change> {
    let state = states(1).remove(0);
    let desired = settings(&state);
    let mut found = desired.clone();
    let tables = found.tables.as_mut().unwrap();
    let before = tables.row(table, key).insert(field.into(), Field::Text(value.into()));
    assert_ne!(before, Some(Field::Text(value.into())), "{table}|{key}|{field} is so already");
    changes(&desired, &found)
}

#[test]
fn each_difference_is_named_with_what_its_change_does() {
    let state = states(1).remove(0);
    let port = state.ports.keys().next().unwrap().to_string();
    let cases = [
        ("PORT", port.as_str(), "mtu", "1500", Impact::Hitless),
        ("PORT", port.as_str(), "speed", "1000", Impact::LinkFlap),
        // The updater shuts the port for it.
        ("PORT_QOS_MAP", port.as_str(), "pfc_enable", "3,4", Impact::LinkFlap),
        ("DSCP_TO_TC_MAP", "RAIL", "26", "1", Impact::QueueDrain),
        ("PFC_WD", port.as_str(), "action", "alert", Impact::Hitless),
        ("DEVICE_METADATA", "localhost", "bgp_asn", "1", Impact::TrafficLoss),
    ];
    for (table, key, field, value, expected) in cases {
        let found = one(table, key, field, value);
        let [change] = found.as_slice() else { panic!("{table}|{key}|{field}: {found:?}") };
        assert_eq!(change.impact, expected, "{change}");
        assert_eq!(change.path, format!("{table}|{key}|{field}"));
        assert_eq!(change.found, value);
        assert!(!change.desired.is_empty() && !change.why.is_empty());
    }
    // A row too many in a table of ours; one in a table of the switch's own is none of our business.
    let [change] = &one("BUFFER_PG", &format!("{port}|7"), "profile", "x")[..] else { panic!() };
    assert_eq!((change.desired.as_str(), change.found.as_str()), ("", "x"));
    assert_eq!(one("VLAN", "Vlan100", "vlanid", "100"), []);
}

/// A leaf whose buffers are planned.
fn buffered() -> Settings {
    let fits =
        |state: &SwitchState| state.ports.len() > 1 && state.pools.values().any(|pool| pool.size.is_some());
    (0..200).flat_map(states).find(fits).map(|state| settings(&state)).unwrap()
}

#[test]
fn what_sonics_updater_refuses_is_a_reboot_beforehand() {
    let desired = buffered();
    let tables = desired.tables.as_ref().unwrap();
    let first = |table: &str| tables.0[table].keys().next().unwrap().clone();
    let (pool, profile) = (first("BUFFER_POOL"), first("BUFFER_PROFILE"));
    let cases = [
        ("BUFFER_POOL", pool.as_str(), "size", Impact::Reboot),
        ("BUFFER_PROFILE", profile.as_str(), "size", Impact::Reboot),
        ("BUFFER_PROFILE", profile.as_str(), "pool", Impact::Reboot),
        ("DEVICE_METADATA", "localhost", "buffer_model", Impact::Reboot),
        ("PFC_WD", "GLOBAL", "POLL_INTERVAL", Impact::Hitless),
    ];
    for (table, key, field, expected) in cases {
        let mut found = desired.clone();
        found.tables.as_mut().unwrap().set(table, key, field, "1234");
        let all = changes(&desired, &found);
        let [change] = &all[..] else { panic!("{table}|{key}|{field}: {all:?}") };
        assert_eq!(change.impact, expected, "{change}");
    }
    let xoff = tables.0["BUFFER_PROFILE"].iter().find(|(_, row)| row.contains_key("xoff"));
    if let Some((profile, _)) = xoff {
        let mut found = desired.clone();
        found.tables.as_mut().unwrap().set("BUFFER_PROFILE", profile, "xoff", 1234);
        assert_eq!(worst(&changes(&desired, &found)), Some(Impact::QueueDrain));
    }
    // A profile more is taken, the table as a whole is not.
    let mut found = desired.clone();
    found.tables.as_mut().unwrap().0.get_mut("BUFFER_PROFILE").unwrap().remove(&profile);
    assert_eq!(worst(&changes(&desired, &found)), Some(Impact::Hitless));
    found.tables.as_mut().unwrap().0.remove("BUFFER_PROFILE");
    let all = changes(&desired, &found);
    assert!(
        all.iter().all(|change| change.impact == Impact::Reboot && change.why.contains("updater")),
        "{all:?}"
    );
    // The same for a row that an owned table has too much, and cannot get back.
    let mut more = desired.clone();
    more.tables.as_mut().unwrap().0.get_mut("PFC_WD").unwrap().remove("GLOBAL");
    assert_eq!(worst(&changes(&desired, &more)), Some(Impact::Reboot));
    assert_eq!(worst(&changes(&more, &desired)), Some(Impact::Reboot));
}

#[test]
fn what_sonics_updater_shuts_a_port_for_is_a_link_flap_where_that_is_up() {
    let desired = buffered();
    let tables = desired.tables.as_ref().unwrap();
    let port = tables.0["PORT"].keys().next().unwrap().clone();
    let of_port = |table: &str| {
        let mut keys = tables.0[table].keys();
        keys.find(|key| key.split('|').next() == Some(port.as_str())).unwrap().clone()
    };
    for (table, field) in
        [("QUEUE", "wred_profile"), ("PORT_QOS_MAP", "pfcwd_sw_enable"), ("BUFFER_PG", "profile")]
    {
        let key = of_port(table);
        for (status, flaps) in [("up", true), ("down", false)] {
            let mut found = desired.clone();
            let own = found.tables.as_mut().unwrap();
            own.set(table, &key, field, "x");
            own.set("PORT", &port, "admin_status", status);
            let all = changes(&desired, &found);
            let change = all.iter().find(|change| change.path.starts_with(table)).unwrap();
            assert_eq!(change.impact == Impact::LinkFlap, flaps, "{change}");
            assert!(flaps || change.impact < Impact::LinkFlap, "{change}");
        }
        // Of a switch that says nothing of the port it is down.
        let mut found = desired.clone();
        let own = found.tables.as_mut().unwrap();
        own.0.remove("PORT");
        own.set(table, &key, field, "x");
        let all = changes(&desired, &found);
        let change = all.iter().find(|change| change.path.starts_with(table)).unwrap();
        assert!(change.impact < Impact::LinkFlap, "{change}");
    }
}

#[test]
fn routing_that_ends_sessions_is_traffic_loss_and_a_neighbor_more_is_not() {
    let state = states(1).remove(0);
    let desired = settings(&state);
    let mut found = desired.clone();
    let routing = found.routing.as_mut().unwrap();
    let gone = routing.neighbors.pop_first().unwrap();
    let all = changes(&desired, &found);
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].impact, all[0].path.clone()), (Impact::Hitless, format!("neighbor {gone}")));
    assert_eq!(worst(&changes(&found, &desired)), Some(Impact::TrafficLoss));
    found.routing.as_mut().unwrap().asn += 1;
    assert_eq!(worst(&changes(&desired, &found)), Some(Impact::TrafficLoss));
    assert_eq!(changes(&desired, &Settings { routing: None, ..desired.clone() }).len(), 1);
}

#[test]
fn every_table_that_is_rendered_or_owned_has_a_rule() {
    let ruled = impact::tables();
    for seed in 0..300 {
        for state in states(seed) {
            for table in sonic::config_db(&state).0.keys() {
                assert!(ruled.contains(table.as_str()), "{table}");
            }
        }
    }
    OWNED.iter().for_each(|table| assert!(ruled.contains(table), "{table}"));
}

#[test]
fn every_change_by_hand_is_found_and_nothing_else() {
    let drift = bench::drift(500, 1).unwrap();
    assert_eq!((drift.missed, drift.false_alarms), (vec![], vec![]));
    assert!(drift.made >= 500);
}
