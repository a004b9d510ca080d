//! What `deploy/kubernetes` says is what the program takes.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use controller_kubernetes::{
    crds,
    kind::{FINALIZER, Kind},
    nodes::{CONDITION, LABELS, TAINT},
};

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rail-operator")).args(arguments).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_program_prints_the_committed_definitions() {
    assert_eq!(printed(&["crds"]), file("deploy/kubernetes/crds.yaml"));
    assert_eq!(crds::yaml(), printed(&["crds"]));
}

#[test]
fn variables_of_the_deployment_are_the_programs_own() {
    let (help, text) = (printed(&["run", "--help"]), file("deploy/kubernetes/operator.yaml"));
    let names: BTreeSet<&str> = text
        .split(|c: char| !c.is_ascii_uppercase() && c != '_')
        .filter(|word| word.starts_with("RAIL_") || *word == "POD_NAME")
        .collect();
    assert!(names.len() >= 4, "{names:?}");
    names.iter().for_each(|name| assert!(help.contains(&format!("[env: {name}=")), "{name}\n{help}"));
}

#[test]
fn rights_are_of_the_kinds_that_there_are_and_the_page_names_what_is_written() {
    let text = file("deploy/kubernetes/operator.yaml");
    let all = Kind::ALL.map(Kind::plural).join(", ");
    assert!(text.contains(&format!("resources: [{all}]")));
    for kind in Kind::ALL {
        assert!(text.contains(&format!("{}/status", kind.plural())), "{kind:?}");
    }
    let page = file("docs/kubernetes.md");
    for name in [CONDITION, TAINT, FINALIZER].into_iter().chain(LABELS).chain(Kind::ALL.map(Kind::name)) {
        assert!(page.contains(name), "{name}");
    }
}
