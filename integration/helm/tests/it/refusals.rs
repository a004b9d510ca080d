//! Values that make no sense are refused, and the message says what to do. And the schema names exactly the values that there are.

use serde_json::{Value, json};

use crate::{
    chart::{least, manifests, read, rendered},
    yaml,
};

/// The least, with one value at a path of names.
fn with(path: &str, value: &Value) -> Value {
    let mut all = least();
    let mut at = &mut all;
    let names: Vec<&str> = path.split('.').collect();
    for name in &names[..names.len() - 1] {
        at = at.as_object_mut().unwrap().entry(*name).or_insert_with(|| json!({}));
    }
    at[*names.last().unwrap()] = value.clone();
    all
}

/// Each is refused, and the message has these words.
fn refused<const CASES: usize>(cases: [(&str, Value, &str); CASES]) {
    for (path, value, expected) in cases {
        let Some(answer) = rendered(&with(path, &value)) else { return };
        let error = answer.err().unwrap_or_else(|| panic!("{path}: {value} is taken"));
        assert!(error.contains(expected), "{path}: {value}: {error}");
    }
}

#[test]
fn bad_values_of_image_and_controller_are_refused_with_what_to_do() {
    let etcd = json!({"kind": "etcd", "etcd": {"endpoints": ["https://e0:2379"], "secretName": "etcd"}});
    refused([
        ("image.repository", json!(""), "image.repository is empty: name the image"),
        ("image.tag", json!("latest"), "image.tag is latest: name a version"),
        ("image.tag", json!(1.5), "image.tag: got number, want string"),
        ("image.digest", json!("sha256:abc"), "image.digest: \"sha256:abc\" does not match"),
        ("image.pullPolicy", json!("Sometimes"), "image.pullPolicy: Sometimes is none of"),
        ("image.name", json!("x"), "image.name: there is no such value"),
        ("controler", json!({}), "controler: there is no such value"),
        (
            "controller.store.kind",
            json!("sqlite"),
            "controller.store.kind: sqlite is none of [embedded etcd]",
        ),
        (
            "controller.store.kind",
            json!("etcd"),
            "controller.store.etcd.endpoints is empty: list its members",
        ),
        (
            "controller.store",
            etcd,
            "controller.authority.secretName is empty: all controllers need the same authority",
        ),
        ("controller.store.etcd.endpoints", json!(["http://e0:2379"]), "controller.store.etcd.endpoints[0]"),
        ("controller.store.etcd.replicas", json!(1), "controller.store.etcd.replicas: 1 is below 2"),
        ("controller.service.port", json!(70000), "controller.service.port: 70000 is above 65535"),
        ("controller.resources", json!({"limits": {"memory": "much"}}), "controller.resources.limits.memory"),
        ("controller.resources", json!({"limit": {}}), "controller.resources.limit: there is no such value"),
        (
            "controller.resources",
            json!({"limits": {"cpu": -1}}),
            "controller.resources.limits.cpu: -1 is below 0",
        ),
        (
            "controller.resources",
            json!({"limits": {"cpu": true}}),
            "controller.resources.limits.cpu: got boolean, want string or number",
        ),
        (
            "controller.extraArgs",
            json!(["--metrics=0.0.0.0:7444"]),
            "controller.extraArgs has --metrics, which the chart sets itself",
        ),
        ("ipFamily", json!("6"), "ipFamily: 6 is none of [IPv4 IPv6]"),
        ("controller.cluster", json!("Rail One"), "controller.cluster"),
        ("controller.enabled", json!("yes"), "controller.enabled: got string, want boolean"),
        (
            "controller.enabled",
            json!(false),
            "controllerUrl is empty and controller.enabled is false: say where",
        ),
        ("controllerUrl", json!("http://c:7443"), "controllerUrl: \"http://c:7443\" does not match"),
    ]);
}

#[test]
fn bad_values_of_agents_and_of_what_stands_beside_are_refused_with_what_to_do() {
    refused([
        (
            "agent.extraArgs",
            json!(["--data-dir", "/data"]),
            "agent.extraArgs has --data-dir, which the chart sets itself",
        ),
        ("agent.rankUids", json!("200000"), "agent.rankUids"),
        ("agent.lldp", json!("yes"), "agent.lldp: yes is none of [none lldpd networkd]"),
        ("dra.rails", json!("by-hand"), "dra.rails"),
        ("dra.kubeletDir", json!("var/lib/kubelet"), "dra.kubeletDir"),
        ("operator.secretName", json!(""), "operator.secretName: \"\" does not match"),
        ("operator.replicas", json!(0), "operator.replicas: 0 is below 1"),
        ("metrics.serviceMonitor.enabled", json!(true), "Enable the proxy and name its image"),
        ("metrics.proxy.enabled", json!(true), "metrics.proxy.image.repository is empty"),
    ]);
}

#[test]
fn all_that_is_wrong_is_named_at_once_and_a_chart_of_nothing_is_refused() {
    let all = json!({"image": {"repository": "UPPER", "tag": 3}, "agent": {"metricsPort": 0}});
    let Some(answer) = rendered(&all) else { return };
    let error = answer.unwrap_err();
    assert_eq!(error.matches("\n- ").count(), 3, "{error}");
    let nothing = json!({"controller": {"enabled": false}, "dra": {"enabled": false}});
    assert!(rendered(&nothing).unwrap().unwrap_err().contains("nothing is enabled: set one of"));
}

#[test]
fn numbers_are_quantities_and_longer_options_are_others() {
    let values = json!({
        "image": {"repository": "registry.example/railyard"},
        "controller": {
            "extraArgs": ["--metrics-of-another-name=x", "--advertise=https://rail.example:7443"],
            "resources": {"limits": {"cpu": 2}, "requests": {"cpu": 0.5}}},
    });
    let Some(files) = rendered(&values) else { return };
    let all = manifests(&files.unwrap());
    let pod = all.iter().find_map(|one| one.pointer("/spec/template/spec/containers/0")).unwrap();
    assert_eq!(pod["resources"]["limits"]["cpu"], 2);
}

/// Names of values by their paths, as far as they are fixed.
fn paths(at: &str, values: &Value, schema: &Value, found: &mut Vec<String>) {
    let properties = schema["properties"].as_object();
    if let (Some(properties), Some(values)) = (properties, values.as_object()) {
        let fixed = schema["additionalProperties"] == json!(false);
        assert!(fixed, "{at}: further names are taken");
        for name in properties.keys().chain(values.keys()) {
            let below = format!("{at}.{name}");
            let both = properties.contains_key(name) && values.contains_key(name);
            let open = ["requests", "limits", "global"].contains(&name.as_str());
            assert!(both || open, "{below} is in one of values.yaml and values.schema.json");
            paths(&below, values.get(name).unwrap_or(&Value::Null), &properties[name], found);
        }
    }
    found.push(at.to_owned());
}

#[test]
fn the_schema_names_the_values_that_there_are() {
    let values = yaml::document(&read("values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let mut found = Vec::new();
    paths("", &values, &schema, &mut found);
    assert!(found.len() > 100, "{}", found.len());
}

#[test]
fn what_the_readme_names_is_a_value() {
    let (readme, schema) = (read("README.md"), read("values.schema.json"));
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let quoted = readme.split('`').skip(1).step_by(2);
    let parts = ["image.", "credentials.", "controller.", "agent.", "dra.", "operator.", "metrics."];
    let mut count = 0;
    for path in quoted.filter(|text| parts.iter().any(|part| text.starts_with(part))) {
        let path = path.split(':').next().unwrap_or_default();
        let pointer: String = path.split('.').map(|name| format!("/properties/{name}")).collect();
        assert!(schema.pointer(&pointer).is_some(), "{path}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}
