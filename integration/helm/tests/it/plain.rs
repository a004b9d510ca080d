//! `deploy/kubernetes` is what the chart makes of the driver alone; `RAILYARD_BLESS=1` writes it anew.

use std::fs;

use serde_json::json;

use crate::chart::{rendered, root};

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
