//! Alert rules of the chart are those of `deploy/prometheus`, and its dashboards those of `deploy/grafana`, not copies.

use std::fs;

use serde_json::{Value, json};

use crate::{
    chart::{manifests, rendered, root},
    yaml,
};

#[test]
fn alert_rules_are_those_of_prometheus_own_files() {
    let values = json!({"image": {"repository": "registry.example/railyard"}, "metrics": {"prometheusRule": {"enabled": true}}});
    let Some(files) = rendered(&values) else { return };
    let all = manifests(&files.unwrap());
    let mut seen = 0;
    for name in ["controller", "rails", "slo"] {
        let file = format!("deploy/prometheus/{name}.rules.yaml");
        let rules = yaml::document(&fs::read_to_string(root().join(&file)).unwrap()).unwrap();
        let mut own = all.iter().filter(|one| one["kind"] == "PrometheusRule");
        let own = own.find(|one| one["metadata"]["name"] == format!("railyard-{name}"));
        assert_eq!(own.unwrap_or_else(|| panic!("no {name}"))["spec"], rules, "{file}");
        seen += 1;
        let link = root().join(format!("deploy/helm/railyard/files/{name}.rules.yaml"));
        assert!(link.is_symlink(), "{}: a link to {file}, so that there is no second copy", link.display());
    }
    assert_eq!(seen, 3);
}

#[test]
fn dashboards_are_those_of_grafanas_own_files_and_off_by_default() {
    let is_dashboard =
        |one: &Value| one["metadata"]["name"].as_str().is_some_and(|name| name.contains("-dashboard-"));
    for enabled in [false, true] {
        let values = json!({"image": {"repository": "registry.example/railyard"}, "metrics": {"dashboards": {"enabled": enabled}}});
        let Some(files) = rendered(&values) else { return };
        let all: Vec<Value> = manifests(&files.unwrap()).into_iter().filter(is_dashboard).collect();
        assert_eq!(all.len(), if enabled { 5 } else { 0 });
        for one in &all {
            assert_eq!(
                (&one["kind"], &one["metadata"]["labels"]["grafana_dashboard"]),
                (&json!("ConfigMap"), &json!("1"))
            );
            let data = one["data"].as_object().unwrap();
            let (file, text) = data.iter().next().unwrap();
            let name = file.strip_prefix("railyard-").unwrap();
            let link =
                root().join("deploy/helm/railyard/files").join(name.replace(".json", ".dashboard.json"));
            assert!(link.is_symlink(), "{}", link.display());
            let own: Value =
                serde_json::from_str(&fs::read_to_string(root().join("deploy/grafana").join(name)).unwrap())
                    .unwrap();
            assert_eq!(serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap(), own, "{file}");
        }
    }
}
