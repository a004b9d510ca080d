//! Alert rules of the chart are those of `deploy/prometheus`, not a copy.

use std::fs;

use serde_json::json;

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
