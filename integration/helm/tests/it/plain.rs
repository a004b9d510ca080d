//! `deploy/kubernetes` is what the chart makes of the driver alone; `RAILYARD_BLESS=1` writes it anew.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use crate::{
    chart::{manifests, rendered, root},
    yaml,
};

const HEAD: &str = "\
# rail-dra-driver on every server with rails: its rights, and a DaemonSet. Yours to put in: the image, the controller, and the label of the servers.
# The secret `railyard` holds ca.pem (the controller's authority) and token (a viewer's, of `railctl tenant issue-token`).
# Made of the chart in deploy/helm/railyard, and compared with it by a test: change that.
apiVersion: v1
kind: Namespace
metadata:
  name: railyard
  labels:
    # Kubelet's folders are the host's.
    pod-security.kubernetes.io/enforce: privileged
---
";

/// The class, and all the rest: whoever installs without Helm is not told that Helm manages it.
fn made() -> Option<(String, String)> {
    let values = json!({
        "image": {"repository": "registry.example/railyard"},
        "controllerUrl": "https://controller.example:7443",
        "controller": {"enabled": false},
    });
    let files = rendered(&values)?.unwrap();
    let kept =
        |line: &&str| !line.contains("app.kubernetes.io/managed-by:") && !line.contains("helm.sh/chart:");
    let text: String =
        files["templates/dra.yaml"].lines().filter(kept).map(|line| format!("{line}\n")).collect();
    let (class, rest) = text.split_once("---\n").unwrap();
    Some((class.to_owned(), format!("{HEAD}{}\n", rest.trim_end())))
}

#[test]
fn the_plain_manifests_are_what_the_chart_makes() {
    let Some((class, driver)) = made() else { return };
    for (name, text) in [("class.yaml", class), ("driver.yaml", driver)] {
        let path = root().join("deploy/kubernetes").join(name);
        if std::env::var_os("RAILYARD_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap();
        let mut lines = text.lines().zip(there.lines()).zip(1..);
        let first = lines.find(|((one, other), _)| one != other);
        assert!(there == text, "{name}: RAILYARD_BLESS=1 writes it anew; first other line: {first:?}");
    }
}

/// Of the operator's plain manifests rights and settings are compared: they are written by hand.
#[test]
fn the_plain_operator_has_the_rights_and_settings_of_the_charts() {
    // A release without it has no such file.
    let Ok(text) = fs::read_to_string(root().join("deploy/kubernetes/operator.yaml")) else { return };
    let plain = yaml::documents(&text).unwrap();
    let values = json!({"image": {"repository": "registry.example/railyard"}, "operator": {"enabled": true}});
    let Some(files) = rendered(&values) else { return };
    let all = manifests(&files.unwrap());
    let of_operator = |one: &&Value| one["metadata"]["labels"]["app.kubernetes.io/component"] == "operator";
    let chart: Vec<&Value> = all.iter().filter(of_operator).collect();
    let one = |all: &[&Value], kind: &str| -> Value {
        let found: Vec<&&Value> = all.iter().filter(|one| one["kind"] == kind).collect();
        assert_eq!(found.len(), 1, "{kind}");
        (*found[0]).clone()
    };
    let plain: Vec<&Value> = plain.iter().collect();
    for kind in ["ClusterRole", "Role"] {
        assert_eq!(one(&chart, kind)["rules"], one(&plain, kind)["rules"], "{kind}");
    }
    let (chart, plain) = (one(&chart, "Deployment"), one(&plain, "Deployment"));
    let pod = |deployment: &Value| deployment["spec"]["template"]["spec"].clone();
    let container = |deployment: &Value| pod(deployment)["containers"][0].clone();
    assert_eq!(chart["spec"]["replicas"], plain["spec"]["replicas"]);
    assert_eq!(pod(&chart)["terminationGracePeriodSeconds"], pod(&plain)["terminationGracePeriodSeconds"]);
    assert_eq!(pod(&chart)["volumes"], pod(&plain)["volumes"]);
    for part in ["command", "ports", "volumeMounts", "resources"] {
        assert_eq!(container(&chart)[part], container(&plain)[part], "{part}");
    }
    let variables = |deployment: &Value| -> BTreeSet<String> {
        let env = container(deployment)["env"].clone();
        env.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(variables(&plain).is_subset(&variables(&chart)));
}
