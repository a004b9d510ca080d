//! What every rendering owes Kubernetes: names, labels, least rights, and no reference that leads nowhere. The default one is compared with what is
//! recorded beside this file; `RAILYARD_BLESS=1` writes it anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use crate::chart::{least, manifests, released, rendered, sites};

const KINDS: [(&str, &str); 17] = [
    ("v1", "ServiceAccount"),
    ("v1", "Service"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("policy/v1", "PodDisruptionBudget"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("resource.k8s.io/v1", "DeviceClass"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    ("monitoring.coreos.com/v1", "ServiceMonitor"),
    ("monitoring.coreos.com/v1", "PodMonitor"),
    ("monitoring.coreos.com/v1", "PrometheusRule"),
];
const CLUSTERS: [&str; 5] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "DeviceClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];
const LABELS: [&str; 7] = [
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "app.kubernetes.io/version",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
];

pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub fn kind(manifest: &Value) -> &str {
    text(manifest, "/kind")
}

pub fn name(manifest: &Value) -> &str {
    text(manifest, "/metadata/name")
}

/// Containers of a pod, those that begin before the others too.
pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/initContainers").iter().chain(list(pod, "/containers"))
}

/// Every site's manifests.
pub fn each(judge: impl Fn(&str, &[Value])) {
    for (site, values) in sites() {
        let Some(files) = rendered(&values) else { return };
        let files = files.unwrap_or_else(|error| panic!("{site}: {error}"));
        let manifests = manifests(&files);
        assert!(!manifests.is_empty(), "{site}");
        judge(site, &manifests);
    }
}

#[test]
fn every_manifest_says_what_it_is() {
    each(|site, manifests| {
        let mut seen = BTreeSet::new();
        for manifest in manifests {
            let what = format!("{site}: {} {}", kind(manifest), name(manifest));
            let own = (text(manifest, "/apiVersion"), kind(manifest));
            assert!(KINDS.contains(&own), "{what}");
            assert!(!name(manifest).is_empty() && name(manifest).len() <= 63, "{what}");
            assert!(seen.insert((kind(manifest), name(manifest))), "{what} is there twice");
            let namespace = text(manifest, "/metadata/namespace");
            assert_eq!(namespace.is_empty(), CLUSTERS.contains(&kind(manifest)), "{what}: {namespace:?}");
            for label in LABELS {
                assert!(!manifest["metadata"]["labels"][label].is_null(), "{what}: {label}");
            }
            if let Some(labels) = manifest.pointer("/spec/template/metadata/labels") {
                for (label, value) in manifest["spec"]["selector"]["matchLabels"].as_object().unwrap() {
                    assert_eq!(&labels[label], value, "{what} does not select its own pods");
                }
            }
        }
    });
}

#[test]
fn every_reference_leads_somewhere() {
    // Secrets are the administrator's, as NOTES.txt and values.yaml say.
    let secrets = ["railyard", "railyard-join", "etcd", "authority", "words", "railyard-operator"];
    each(|site, manifests| {
        let there: BTreeSet<(&str, &str)> = manifests.iter().map(|one| (kind(one), name(one))).collect();
        let has = |kind: &'static str, name: &str| there.iter().any(|own| *own == (kind, name));
        for manifest in manifests {
            let what = format!("{site}: {} {}", kind(manifest), name(manifest));
            for subject in list(manifest, "/subjects") {
                let own = text(subject, "/namespace") == "railyard";
                assert!(!own || has("ServiceAccount", text(subject, "/name")), "{what}: {subject}");
            }
            let role = text(manifest, "/roleRef/name");
            assert!(
                role.is_empty()
                    || role.starts_with("system:")
                    || has(
                        if text(manifest, "/roleRef/kind") == "Role" { "Role" } else { "ClusterRole" },
                        role
                    ),
                "{what}: {role}"
            );
            let policy = text(manifest, "/spec/policyName");
            assert!(policy.is_empty() || has("ValidatingAdmissionPolicy", policy), "{what}: {policy}");
            let service = text(manifest, "/spec/serviceName");
            assert!(service.is_empty() || has("Service", service), "{what}: {service}");
            let Some(pod) = manifest.pointer("/spec/template/spec") else { continue };
            assert!(has("ServiceAccount", text(pod, "/serviceAccountName")), "{what}");
            let mut volumes: BTreeSet<&str> =
                list(pod, "/volumes").iter().map(|one| text(one, "/name")).collect();
            volumes.extend(list(manifest, "/spec/volumeClaimTemplates").iter().map(name));
            let mut mounted = BTreeSet::new();
            for container in containers(pod) {
                let ports: BTreeSet<&str> =
                    list(container, "/ports").iter().map(|one| text(one, "/name")).collect();
                for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
                    let port = text(&container[probe], "/httpGet/port");
                    assert!(port.is_empty() || ports.contains(port), "{what}: {probe} {port}");
                }
                let paths = list(container, "/volumeMounts").iter().map(|one| text(one, "/mountPath"));
                assert_eq!(
                    paths.clone().collect::<BTreeSet<_>>().len(),
                    paths.count(),
                    "{what}: a path is mounted twice"
                );
                mounted.extend(list(container, "/volumeMounts").iter().map(|one| text(one, "/name")));
                for variable in list(container, "/env") {
                    let secret = text(variable, "/valueFrom/secretKeyRef/name");
                    assert!(secret.is_empty() || secrets.contains(&secret), "{what}: {variable}");
                }
            }
            assert_eq!(volumes, mounted, "{what}: volumes, and what is mounted");
            for volume in list(pod, "/volumes") {
                let secret = text(volume, "/secret/secretName");
                assert!(secret.is_empty() || secrets.contains(&secret), "{what}: {volume}");
            }
        }
    });
}

/// What selects pods, by their labels and the names of their ports.
#[test]
fn services_and_policies_find_their_pods() {
    each(|site, manifests| {
        let pods: Vec<&Value> = manifests.iter().filter_map(|one| one.pointer("/spec/template")).collect();
        let found = |selector: &Value| {
            let wanted = selector.as_object().unwrap();
            pods.iter()
                .find(|pod| wanted.iter().all(|(label, value)| &pod["metadata"]["labels"][label] == value))
        };
        for manifest in manifests {
            let what = format!("{site}: {} {}", kind(manifest), name(manifest));
            let (selector, ports): (&Value, Vec<&str>) = match kind(manifest) {
                "Service" => {
                    let ports = list(manifest, "/spec/ports").iter().map(|port| text(port, "/targetPort"));
                    (&manifest["spec"]["selector"], ports.collect())
                }
                "NetworkPolicy" => {
                    let rules = list(manifest, "/spec/ingress").iter().flat_map(|rule| list(rule, "/ports"));
                    (
                        &manifest["spec"]["podSelector"]["matchLabels"],
                        rules.map(|port| text(port, "/port")).collect(),
                    )
                }
                "PodDisruptionBudget" => (&manifest["spec"]["selector"]["matchLabels"], Vec::new()),
                "ServiceMonitor" => {
                    let selector = manifest["spec"]["selector"]["matchLabels"].as_object().unwrap();
                    let services = manifests.iter().filter(|one| kind(one) == "Service");
                    let own: Vec<&str> = services
                        .filter(|one| {
                            selector.iter().all(|(label, value)| &one["metadata"]["labels"][label] == value)
                        })
                        .flat_map(|service| list(service, "/spec/ports"))
                        .map(|port| text(port, "/name"))
                        .collect();
                    for endpoint in list(manifest, "/spec/endpoints") {
                        let port = text(endpoint, "/port");
                        // Of two it would be asked twice.
                        let found = own.iter().filter(|name| **name == port).count();
                        assert_eq!(found, 1, "{what}: {port} of {own:?}");
                    }
                    continue;
                }
                _ => continue,
            };
            let pod = found(selector).unwrap_or_else(|| panic!("{what} selects nothing"));
            let own: BTreeSet<&str> = containers(&pod["spec"])
                .flat_map(|container| list(container, "/ports"))
                .map(|port| text(port, "/name"))
                .collect();
            assert!(ports.iter().all(|port| own.contains(port)), "{what}: {ports:?} of {own:?}");
        }
    });
}

#[test]
fn containers_have_the_least_that_they_need() {
    each(|site, manifests| {
        for manifest in manifests {
            let Some(pod) = manifest.pointer("/spec/template/spec") else { continue };
            let component = text(manifest, "/metadata/labels/app.kubernetes.io~1component");
            assert_eq!(pod["enableServiceLinks"], false, "{site}: {component}");
            for container in containers(pod) {
                let what = format!("{site}: {component} {}", text(container, "/name"));
                let security = &container["securityContext"];
                let agent = component == "agent" && text(container, "/name") == "agent";
                assert_eq!(security["privileged"] == true, agent, "{what}");
                if !agent {
                    assert_eq!(security["allowPrivilegeEscalation"], false, "{what}");
                    assert_eq!(security["readOnlyRootFilesystem"], true, "{what}");
                    assert_eq!(security["capabilities"]["drop"], serde_json::json!(["ALL"]), "{what}");
                    assert!(container["resources"]["limits"]["memory"].is_string(), "{what}");
                }
                assert!(container["resources"]["requests"]["memory"].is_string(), "{what}");
                let image = text(container, "/image");
                assert!(
                    image.contains('@') || image.rsplit('/').next().unwrap().contains(':'),
                    "{what}: {image}"
                );
                assert!(!image.ends_with(":latest"), "{what}: {image}");
            }
            if component == "controller" {
                assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{site}");
                assert!(pod.get("hostNetwork").is_none(), "{site}");
            }
        }
    });
}

#[test]
fn releases_beside_one_another_do_not_meet() {
    let values =
        serde_json::json!({"image": {"repository": "registry.example/railyard"}, "dra": {"enabled": false}});
    let (Some(one), Some(other)) = (rendered(&values), released("second", "railyard", &values)) else {
        return;
    };
    let (one, other) = (manifests(&one.unwrap()), manifests(&other.unwrap()));
    let names = |all: &[Value]| -> BTreeSet<(String, String)> {
        all.iter().map(|one| (kind(one).to_owned(), name(one).to_owned())).collect()
    };
    assert!(names(&one).is_disjoint(&names(&other)));
    assert!(names(&other).iter().all(|(_, name)| name.starts_with("second-railyard-")));
    let long = released(&"x".repeat(53), "railyard", &values).unwrap().unwrap();
    assert!(names(&manifests(&long)).iter().all(|(_, name)| name.len() <= 52 && !name.contains("--")));
}

/// As Helm prints it: each file with its name.
pub fn printed(files: &BTreeMap<String, String>) -> String {
    let whole = files
        .iter()
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(name, text)| format!("---\n# Source: {name}\n{}\n", text.trim()));
    whole.collect()
}

#[test]
fn the_default_rendering_is_the_recorded_one() {
    let Some(files) = rendered(&least()) else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/default.txt");
    let made = printed(&files.unwrap());
    if std::env::var_os("RAILYARD_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    let mut lines = made.lines().zip(recorded.lines()).zip(1..);
    let first = lines.find(|((one, other), _)| one != other);
    assert!(made == recorded, "RAILYARD_BLESS=1 records it anew; first other line: {first:?}");
}
