//! What the chart renders, and the files of `deploy/kubernetes`, before a real API server: it takes all of it, field by field.

use std::{collections::BTreeSet, fs};

use integration_harness::{Kubernetes, kubernetes::missing};
use serde_json::{Value, json};

use crate::chart::{manifests, rendered, root, sites};

/// Kinds that Prometheus' operator defines, whose definitions are not here.
const OTHERS: &str = "monitoring.coreos.com/v1";

#[test]
fn a_real_api_server_takes_all_that_the_chart_renders() {
    if let Some(missing) = missing(false) {
        println!("skipped: {missing}");
        return;
    }
    let kubernetes = Kubernetes::with_controllers(&[], "").unwrap();
    kubernetes.kubectl(&["create", "namespace", "railyard"]).unwrap();
    let mut kinds = BTreeSet::new();
    for (site, values) in sites() {
        let Some(files) = rendered(&values) else { return };
        let mut items = manifests(&files.unwrap());
        items.retain(|item| item["apiVersion"] != OTHERS);
        kinds.extend(items.iter().map(|item| item["kind"].as_str().unwrap().to_owned()));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let arguments = [
            "apply",
            "--server-side",
            "--dry-run=server",
            "--validate=strict",
            "--output=json",
            "--filename=-",
        ];
        let answer = kubernetes.kubectl_with(&arguments, &list.to_string());
        let taken: Value =
            serde_json::from_str(&answer.unwrap_or_else(|error| panic!("{site}: {error}"))).unwrap();
        let taken = taken["items"].as_array().unwrap();
        assert_eq!(taken.len(), items.len(), "{site}");
        for (said, kept) in items.iter().zip(taken) {
            assert_eq!(lost(said, kept, ""), None, "{site}: {said:#}\nis kept as {kept:#}");
        }
    }
    for kind in ["StatefulSet", "DaemonSet", "Deployment", "DeviceClass", "ValidatingAdmissionPolicy"] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
}

#[test]
fn a_real_api_server_takes_the_files_of_deploy() {
    if let Some(missing) = missing(false) {
        println!("skipped: {missing}");
        return;
    }
    let kubernetes = Kubernetes::with_controllers(&[], "").unwrap();
    kubernetes.kubectl(&["create", "namespace", "railyard"]).unwrap();
    // A pod has an account, which a controller makes that does not run here.
    kubernetes.kubectl(&["create", "serviceaccount", "default"]).unwrap();
    let folder = root().join("deploy/kubernetes");
    let mut taken = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Their definitions are Kueue's.
        if ["kueue.yaml", "gang.yaml"].contains(&name.as_str()) {
            continue;
        }
        let path = path.display().to_string();
        let arguments =
            ["apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", &path];
        kubernetes.kubectl(&arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
        taken += 1;
    }
    assert!(taken >= 5, "{taken} files of {}", folder.display());
}

/// The first field that was said and is not kept: a field that the API server does not know would be gone.
fn lost(said: &Value, kept: &Value, path: &str) -> Option<String> {
    match (said, kept) {
        (Value::Object(said), Value::Object(kept)) => said.iter().find_map(|(name, value)| {
            let path = format!("{path}.{name}");
            match kept.get(name) {
                Some(kept) => lost(value, kept, &path),
                // What is empty is left out.
                None if is_empty(value) => None,
                None => Some(path),
            }
        }),
        (Value::Array(said), Value::Array(kept)) if said.len() == kept.len() => {
            said.iter().zip(kept).find_map(|(said, kept)| lost(said, kept, path))
        }
        (Value::Array(_), _) => Some(path.to_owned()),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Number(number) => number.as_f64() == Some(0.0),
    }
}
