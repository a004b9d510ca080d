//! What is rendered for SONiC, judged by SONiC: its YANG models, and its configuration code in a root of its own.

use controller_switch::{
    change::{Settings, changes, merge},
    check::Facts,
    model::{Nos, Switch},
    mutate, render,
    render::tables::ConfigDb,
    sample::Shape,
    state::BufferModel,
};
use integration_harness::sonic::{Referee, Yang, plan};
use node_agent_gnmi::sonic;
use proto_profile::QosProfile;

/// What the planner renders for some switches, by their names.
fn rendered(profile: &QosProfile, switches: &[Switch], model: BufferModel) -> Vec<(String, ConfigDb)> {
    let facts = Facts::desired(profile, switches, model).unwrap();
    facts.switches.values().map(|state| (state.name.to_string(), render::sonic::config_db(state))).collect()
}

/// What a switch has of its own.
fn own() -> ConfigDb {
    let text = r#"{"DEVICE_METADATA": {"localhost": {"platform": "x86_64-nvidia_sn5600-r0", "hwsku": "ACS-SN5600", "type": "LeafRouter",
        "mac": "00:11:22:33:44:55"}}, "MGMT_INTERFACE": {"eth0|192.0.2.5/24": {"gwaddr": "192.0.2.1"}},
        "FEATURE": {"bgp": {"state": "enabled", "auto_restart": "enabled", "has_global_scope": "True",
        "has_per_asic_scope": "False", "high_mem_alert": "disabled"}}, "MGMT_PORT": {"eth0": {"alias": "eth0", "admin_status": "up"}}}"#;
    ConfigDb::from_json(text).unwrap()
}

fn yang() -> Option<Yang> {
    match Yang::parts() {
        Ok(_) => Some(Yang::start().unwrap()),
        Err(why) => {
            println!("skipped: SONiC's YANG models: {why}");
            None
        }
    }
}

#[test]
fn what_is_rendered_is_valid_by_sonics_own_models() {
    let Some(mut yang) = yang() else { return };
    println!("{} models", yang.models);
    let mut count = 0;
    for seed in 0..60 {
        let mut variant = mutate::variant(seed).unwrap();
        variant.shape.nos = Nos::Sonic;
        let switches = variant.shape.switches().unwrap();
        for model in [BufferModel::Static, BufferModel::Dynamic] {
            for (name, config) in rendered(&variant.profile, &switches, model) {
                for config in [merge(&config, &own()), config] {
                    let faults = yang.faults(&name, &config.to_json().unwrap()).unwrap();
                    assert!(faults.is_empty(), "seed {seed}, {model:?}: {name}: {faults:?}");
                    count += 1;
                }
            }
        }
    }
    println!("{count} configurations");
    assert!(count > 400, "{count}");
}

#[test]
fn sonics_models_refuse_what_is_wrong() {
    let Some(mut yang) = yang() else { return };
    let switches = Shape { servers: 1, rails: 1, spines: 1, ..Shape::default() }.switches().unwrap();
    let (name, right) = rendered(&QosProfile::default(), &switches, BufferModel::Static).remove(0);
    let port = right.0["PORT"].keys().next().unwrap().clone();
    let profile = right.0["WRED_PROFILE"].keys().next().unwrap().clone();
    let share = right.0["SCHEDULER"].keys().find(|name| name.starts_with("share")).unwrap().clone();
    let group = format!("{port}|3");
    let wrong: [(&str, &str, &str, &str); 18] = [
        ("BUFFER_POOL", "ingress_lossless_pool", "size", "14MB"),
        ("BUFFER_PG", "Ethernet999|3", "profile", "NULL"),
        ("BUFFER_PG", &group, "profile", "nobody"),
        ("PORT_QOS_MAP", &port, "pfc_watchdog_status", "enable"),
        ("PORT_QOS_MAP", &port, "pfc_enable", "9"),
        ("PORT_QOS_MAP", &port, "dscp_to_tc_map", "nobody"),
        ("DSCP_TO_TC_MAP", "RAIL", "77", "3"),
        ("DSCP_TO_TC_MAP", "RAIL", "26", "99"),
        ("WRED_PROFILE", &profile, "ecn", "ecn_blue"),
        ("WRED_PROFILE", &profile, "green_min_threshold", "999999999999"),
        ("WRED_PROFILE", &profile, "green_drop_probability", "101"),
        ("PFC_WD", &port, "detection_time", "5"),
        ("PFC_WD", &port, "action", "explode"),
        ("PORT", &port, "mtu", "99999"),
        ("SCHEDULER", &share, "weight", "101"),
        ("DEVICE_METADATA", "localhost", "buffer_model", "magic"),
        ("CABLE_LENGTH", "AZURE", "Ethernet999", "5m"),
        ("NO_SUCH_TABLE", "row", "field", "value"),
    ];
    for (table, key, field, value) in wrong {
        let mut config = right.clone();
        config.set(table, key, field, value);
        let faults = yang.faults(&name, &config.to_json().unwrap()).unwrap();
        println!("{table}|{key}|{field} = {value}: {faults:?}");
        assert!(!faults.is_empty(), "{table}|{key}|{field} = {value} is taken");
    }
    assert!(yang.faults(&name, &right.to_json().unwrap()).unwrap().is_empty());
}

fn json(config: &ConfigDb) -> serde_json::Value {
    serde_json::to_value(config).unwrap()
}

/// A leaf as an earlier profile left it, with settings of its own and a change by hand, and what is desired of it.
fn earlier_and_desired() -> (ConfigDb, ConfigDb) {
    let switches = Shape { servers: 1, rails: 1, spines: 1, ..Shape::default() }.switches().unwrap();
    let (_, desired) = rendered(&QosProfile::default(), &switches, BufferModel::Static).remove(0);
    let mut found = merge(&desired, &own());
    let profile = desired.0["WRED_PROFILE"].keys().next().unwrap().clone();
    let share = desired.0["SCHEDULER"].keys().find(|name| name.starts_with("share")).unwrap().clone();
    found.set("WRED_PROFILE", &profile, "green_drop_probability", 7);
    found.set("SCHEDULER", &share, "weight", 9);
    found.set("PFC_WD", "Ethernet0", "detection_time", 800);
    (found, desired)
}

#[test]
fn a_plan_is_what_sonics_updater_does_and_its_rollback_undoes_it() {
    if let Err(why) = Referee::root() {
        println!("skipped: SONiC's configuration code: {why}");
        return;
    }
    let (found, desired) = earlier_and_desired();
    let settings = |tables: &ConfigDb| Settings { tables: Some(tables.clone()), routing: None };
    let plan = changes(&settings(&desired), &settings(&found));
    let after = plan::applied(&plan, &desired, &found);
    let patch = plan::patch(&found, &after);
    let mut referee = Referee::start().unwrap();
    referee.validate(&json(&after)).unwrap().unwrap();
    referee.load(&json(&found)).unwrap().unwrap();
    let run = referee.dry_run(&patch).unwrap().unwrap();
    assert_eq!(run.states.last(), Some(&json(&after)), "the dry run ends where the plan does");
    assert_eq!(after, merge(&desired, &found), "and that is what is desired");
    assert_eq!(referee.read().unwrap().unwrap(), json(&found), "a dry run changes nothing");
    referee.checkpoint("before").unwrap().unwrap();
    referee.apply(&patch).unwrap().unwrap();
    assert_eq!(referee.read().unwrap().unwrap(), json(&after));
    referee.roll_back("before").unwrap().unwrap();
    assert_eq!(referee.read().unwrap().unwrap(), json(&found), "rolled back");
    let mut wrong = found.clone();
    wrong.0.remove("DSCP_TO_TC_MAP");
    let why = referee.dry_run(&plan::patch(&found, &wrong)).unwrap().unwrap_err();
    println!("a map in use: {why}");
    let why = referee.validate(&json(&wrong)).unwrap().unwrap_err();
    println!("a map in use: {why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_by_gnmi_is_what_sonics_updater_makes_of_it() {
    if let Err(why) = Referee::root() {
        println!("skipped: SONiC's configuration code: {why}");
        return;
    }
    let (found, desired) = earlier_and_desired();
    let mut after = merge(&desired, &found);
    // An entry whose name has a slash, and which needs another one.
    after.row("LOOPBACK_INTERFACE", "Loopback9");
    after.row("LOOPBACK_INTERFACE", "Loopback9|198.51.100.9/32");
    let config = |tables: &ConfigDb| serde_json::from_value::<sonic::Config>(json(tables)).unwrap();
    let mut referee = Referee::start().unwrap();
    referee.load(&json(&found)).unwrap().unwrap();
    let referee = std::sync::Arc::new(std::sync::Mutex::new(referee));
    let updater = {
        let referee = std::sync::Arc::clone(&referee);
        move |patch: &serde_json::Value| {
            let mut referee = referee.lock().unwrap();
            println!("{patch}");
            referee.apply(patch).unwrap()?;
            referee.read().unwrap()
        }
    };
    let switch =
        node_agent_gnmi_server::Switch::start_with(json(&found), "127.0.0.1", Some(Box::new(updater))).await;
    let limits = node_agent_gnmi::Limits { write: std::time::Duration::from_secs(120), ..Default::default() };
    let client = node_agent_gnmi::Gnmi::new(switch.target(), limits).unwrap();
    for (from, to) in [(&found, &after), (&after, &found)] {
        sonic::apply(&client, &sonic::edits(&config(from), &config(to))).await.unwrap();
        assert_eq!(referee.lock().unwrap().read().unwrap().unwrap(), json(to));
        assert_eq!(sonic::config(&client).await.unwrap(), config(to));
    }
    // What the models refuse leaves all of it as it is.
    let mut wrong = config(&found);
    wrong.remove("DSCP_TO_TC_MAP");
    let error = sonic::apply(&client, &sonic::edits(&config(&found), &wrong)).await.unwrap_err();
    assert!(matches!(&error, node_agent_gnmi::Error::Refused(_)), "{error:?}");
    assert_eq!(referee.lock().unwrap().read().unwrap().unwrap(), json(&found));
}
