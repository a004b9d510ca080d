//! What `deploy/kubernetes` says is what the program takes.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use node_agent_dra::{key::DRIVER, slice::TAINT};

fn manifest(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes");
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn variables_and_folders_of_the_daemonset_are_the_programs_own() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_rail-dra-driver")).args(["run", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let text = manifest("driver.yaml");
    let names: BTreeSet<&str> = text
        .split(|c: char| !c.is_ascii_uppercase() && c != '_')
        .filter(|word| word.starts_with("RAIL_") || *word == "NODE_NAME")
        .collect();
    assert!(names.len() >= 4, "{names:?}");
    names.iter().for_each(|name| assert!(help.contains(&format!("[env: {name}=")), "{name}\n{help}"));
    for folder in [
        "/var/lib/rail-dra-driver",
        "/var/lib/kubelet/plugins",
        "/var/lib/kubelet/plugins_registry",
        "/var/run/cdi",
    ] {
        assert!(text.contains(&format!("mountPath: {folder}}}")), "{folder}");
        assert!(help.contains(&format!("[default: {folder}]")), "{folder}\n{help}");
    }
}

#[test]
fn classes_claims_and_the_page_name_this_driver() {
    for name in ["class.yaml", "pod.yaml"] {
        assert!(manifest(name).contains(DRIVER), "{name}");
    }
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubernetes.md")).unwrap();
    assert!(page.contains(&format!("`{TAINT}`")));
}
