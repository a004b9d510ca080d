//! What works.

use std::time::Duration;

use node_agent_gnmi::sonic::{self, Edit};
use node_agent_gnmi::{Error, Event, Mode, Path, Subscription, Value};
use serde_json::json;

use node_agent_gnmi_server::Switch;

fn edit(table: &str, key: &str, field: Option<&str>, value: Option<serde_json::Value>) -> Edit {
    Edit { table: table.into(), key: Some(key.into()), field: field.map(str::to_owned), value }
}

#[tokio::test]
async fn settings_are_read_and_changed() {
    let config = json!({
        "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4"}},
        "LOOPBACK_INTERFACE": {"Loopback0": {}},
        "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "200"}, "Ethernet0": {"action": "drop"}},
    });
    let switch = Switch::start(config, "127.0.0.1").await;
    let client = switch.client();
    let can = client.capabilities().await.unwrap();
    assert!(can.json_ietf);
    assert_eq!(can.models[0], ("sonic-port".to_owned(), "1.0".to_owned()));
    let before = sonic::config(&client).await.unwrap();
    assert_eq!(before["PORT_QOS_MAP"]["Ethernet0"], json!({"pfc_enable": "3,4"}));
    let edits = [
        edit("PORT_QOS_MAP", "Ethernet0", Some("pfc_enable"), Some(json!("3"))),
        edit("LOOPBACK_INTERFACE", "Loopback0|10.0.0.1/32", None, Some(json!({}))),
        edit("PFC_WD", "Ethernet0", None, None),
    ];
    sonic::apply(&client, &edits).await.unwrap();
    let after = sonic::config(&client).await.unwrap();
    assert_eq!(after["PORT_QOS_MAP"]["Ethernet0"], json!({"pfc_enable": "3"}));
    assert_eq!(after["LOOPBACK_INTERFACE"]["Loopback0|10.0.0.1/32"], json!({}));
    assert_eq!(after["PFC_WD"].keys().collect::<Vec<_>>(), ["GLOBAL"]);
}

#[tokio::test]
async fn other_databases_are_read_by_their_name() {
    let switch = Switch::start(json!({}), "127.0.0.1").await;
    let ports = json!({"Ethernet0": {"oper_status": "up"}});
    switch.answer("APPL_DB/PORT_TABLE", ports.clone());
    let client = switch.client();
    let found = sonic::entries(&client, "APPL_DB", &["PORT_TABLE"]).await.unwrap();
    assert_eq!(json!(found), ports);
    assert!(sonic::entries(&client, "APPL_DB", &["LLDP_ENTRY_TABLE"]).await.unwrap().is_empty());
    assert!(sonic::entries(&client, "COUNTERS_DB", &["COUNTERS", "Ethernet*"]).await.is_err());
    assert!(sonic::table(&client, "COUNTERS_DB", "COUNTERS_PORT_NAME_MAP").await.unwrap().is_empty());
    let map = json!({"Ethernet0": "oid:0x1"});
    switch.answer("COUNTERS_DB/localhost/COUNTERS_PORT_NAME_MAP", map.clone());
    assert_eq!(json!(sonic::table(&client, "COUNTERS_DB", "COUNTERS_PORT_NAME_MAP").await.unwrap()), map);
}

#[tokio::test]
async fn a_change_that_the_switch_cannot_make_changes_nothing() {
    let config = json!({"PORT": {"Ethernet0": {"mtu": "9100"}}});
    let switch = Switch::start(config, "127.0.0.1").await;
    let client = switch.client();
    let below_nothing = [
        edit("PORT", "Ethernet0", Some("mtu"), Some(json!("9216"))),
        edit("QUEUE", "Ethernet0|3", None, Some(json!({}))),
    ];
    let error = sonic::apply(&client, &below_nothing).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("QUEUE")), "{error:?}");
    let before = sonic::config(&client).await.unwrap();
    assert_eq!(before["PORT"]["Ethernet0"], json!({"mtu": "9100"}));
    let mut wanted = before.clone();
    wanted.entry("QUEUE".into()).or_default().insert("Ethernet0|3".into(), json!({}));
    wanted.get_mut("PORT").unwrap()["Ethernet0"] = json!({"mtu": "9216"});
    sonic::apply(&client, &sonic::edits(&before, &wanted)).await.unwrap();
    assert_eq!(sonic::config(&client).await.unwrap(), wanted);
}

#[tokio::test]
async fn nothing_to_change_calls_nobody() {
    let switch = Switch::start(json!({}), "127.0.0.1").await;
    switch.break_by(node_agent_gnmi_server::Fault::ReadOnly);
    sonic::apply(&switch.client(), &[]).await.unwrap();
}

#[tokio::test]
async fn changes_are_followed() {
    let switch = Switch::start(json!({"A": {}}), "127.0.0.1").await;
    let client = switch.client();
    let wanted = Subscription {
        target: "CONFIG_DB".into(),
        paths: vec![Path::of("sonic-db", &["CONFIG_DB", "localhost"])],
        mode: Mode::OnChange,
        silence: Duration::from_secs(30),
    };
    let mut updates = client.subscribe(&wanted).await.unwrap();
    let values = |event: Option<Event>| match event {
        Some(Event::Values { at: 7, updates, .. }) => updates[0].value.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(values(updates.next().await.unwrap()), Value::Json(json!({"A": {}})));
    assert_eq!(updates.next().await.unwrap(), Some(Event::Synced));
    sonic::apply(&client, &[edit("A", "x", None, Some(json!({"y": "1"})))]).await.unwrap();
    assert_eq!(values(updates.next().await.unwrap()), Value::Json(json!({"A": {"x": {"y": "1"}}})));
    // A heartbeat is asked for in a third of the silence that is borne.
    assert_eq!(*switch.state.asked.lock().unwrap(), [("CONFIG_DB".to_owned(), 0, 10_000_000_000)]);
}

#[tokio::test]
async fn counters_are_sampled() {
    let switch = Switch::start(json!({"x": "3"}), "127.0.0.1").await;
    let wanted = Subscription {
        target: "COUNTERS_DB".into(),
        paths: vec![Path::of("", &["COUNTERS", "Ethernet*", "Pfcwd"])],
        mode: Mode::Sample(Duration::from_secs(1)),
        silence: Duration::from_secs(30),
    };
    let mut updates = switch.client().subscribe(&wanted).await.unwrap();
    assert!(matches!(updates.next().await.unwrap(), Some(Event::Values { .. })));
    assert_eq!(*switch.state.asked.lock().unwrap(), [("COUNTERS_DB".to_owned(), 1_000_000_000, 0)]);
}
