//! What the page and `deploy/kubernetes` say is what the code takes.

use std::{collections::BTreeSet, fs, path::Path};

use controller_kubernetes_kueue::{Policy, Settings, names, topology};

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)).unwrap()
}

#[test]
fn objects_name_this_controller_and_the_label_of_its_nodes() {
    let text = file("deploy/kubernetes/kueue.yaml");
    assert!(text.contains(&format!("controllerName: {}\n", names::CONTROLLER)));
    assert!(text.contains(&format!("apiVersion: {}/{}\n", names::GROUP, names::VERSION)));
    let (label, value) = Settings::default().flavor_label;
    assert!(text.contains(&format!("nodeLabels: {{{label}: \"{value}\"}}")));
}

#[test]
fn the_page_has_every_name() {
    let page = file("docs/kubernetes.md");
    let (policy, settings) = (Policy::default(), Settings::default());
    let label = format!("`{}UID`", names::HOLD_LABEL);
    let known = [names::CONTROLLER, names::TENANT, names::HOLD, names::NODES, topology::POD, topology::LEAF];
    let own = [
        names::UID_LABEL,
        names::WORKLOAD_LABEL,
        names::QUEUE_LABEL,
        &settings.flavor_label.0,
        &policy.prefix,
    ];
    let all = known.into_iter().chain(own).chain(policy.gpu_resources.iter().map(String::as_str));
    for name in all.chain([label.as_str()]) {
        assert!(page.contains(name), "docs/kubernetes.md does not say {name}");
    }
    let options = file("controller/kubernetes/kueue/src/options.rs");
    // Its texts; those of its tests are in it, too.
    let names: BTreeSet<&str> =
        options.split('"').skip(1).step_by(2).filter(|word| word.starts_with("rail-")).collect();
    assert!(names.len() >= 6, "{names:?}");
    names.iter().for_each(|name| assert!(page.contains(&format!("`railyard.io/{name}`")), "{name}"));
}
