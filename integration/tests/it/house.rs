//! The house cleans itself: what every file owes its reader.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use integration_harness::binaries::root;

pub(crate) fn tracked(ending: &str) -> Vec<PathBuf> {
    let listed = Command::new("git").args(["ls-files", "--", ending]).current_dir(root()).output();
    let listed =
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    listed.lines().map(|line| root().join(line)).filter(|path| path.exists()).collect()
}

#[test]
fn every_file_says_what_it_is() {
    let files = tracked("*.rs");
    assert!(files.len() > 50, "git lists {} files", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//!"), "{} must open with //!", file.display());
    }
}

#[test]
fn no_file_grows_beyond_reading() {
    for file in tracked("*.rs") {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 800, "{} has {lines} lines; split it by noun", file.display());
    }
}

#[test]
fn unsafe_lives_in_its_rooms_only() {
    let rooms = [
        "node-agent/ipc",
        "node-agent/capi",
        "node-agent/nccl",
        "node-agent/netlink",
        "node-agent/engine/verbs",
        "node-agent/gpu",
        "node-agent/dylib",
        "node-agent/probe",
    ];
    for manifest in tracked("*Cargo.toml") {
        let text = fs::read_to_string(&manifest).unwrap();
        let dir = manifest.parent().unwrap().strip_prefix(root()).unwrap().to_path_buf();
        let is_room = rooms.iter().any(|room| dir.ends_with(room));
        let inherits = text.contains("[lints]\nworkspace = true") || text.contains("[workspace]");
        assert!(inherits || is_room, "{} must inherit the workspace's lints", manifest.display());
    }
    let root_manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(root_manifest.contains("unsafe_code = \"forbid\""));
}

#[test]
fn versions_are_in_the_root_only() {
    for manifest in tracked("*Cargo.toml") {
        if manifest.parent() == Some(root()) {
            continue;
        }
        let text = fs::read_to_string(&manifest).unwrap();
        if text.contains("[workspace]") {
            // The fuzz targets are a workspace of their own, with its own lock file.
            continue;
        }
        let section = text.split("dependencies]").skip(1).flat_map(|part| part.split("\n[").next());
        for line in section.flat_map(str::lines).filter(|line| line.contains('=')) {
            assert!(line.contains("workspace = true"), "{}: {line}", manifest.display());
        }
    }
}

#[test]
fn pure_rooms_repeat_the_roots_rules() {
    let root_rules = fs::read_to_string(root().join("clippy.toml")).unwrap();
    for rules in tracked("*clippy.toml") {
        let text = fs::read_to_string(&rules).unwrap();
        assert!(
            text.starts_with(root_rules.trim_end()),
            "{} must repeat the root's clippy.toml",
            rules.display()
        );
    }
}

/// Text that is compared with the code of a cause, by its place in the file.
fn compared_codes(text: &str) -> Vec<String> {
    const COMPARED: [&str; 3] = [".code == \"", ".code != \"", "code.starts_with(\""];
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = (1..).zip(code.lines());
    let found = lines.filter(|(_, line)| COMPARED.iter().any(|compared| line.contains(compared)));
    found.map(|(at, line)| format!("{at}: {}", line.trim())).collect()
}

/// Code decides on the variants of ReasonCode, and on enumerations in general, never on the texts of codes.
#[test]
fn nothing_is_decided_by_the_text_of_a_code() {
    let is_test = |path: &Path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        path.components().any(|part| part.as_os_str() == "tests")
            || name == "tests"
            || name.ends_with("_tests")
    };
    let mut all = Vec::new();
    for file in tracked("*.rs").into_iter().filter(|file| !is_test(file)) {
        let text = fs::read_to_string(&file).unwrap();
        let found = compared_codes(&text).into_iter();
        all.extend(found.map(|one| format!("{}:{one}", file.strip_prefix(root()).unwrap().display())));
    }
    assert!(all.is_empty(), "compare variants, for example of ReasonCode:\n{}", all.join("\n"));
}

#[test]
fn texts_of_codes_are_found_outside_tests_alone() {
    let text = "fn a() { if one.code == \"Lost\" {} }\n// two\nlet b = code.starts_with(\"L\");\n#[cfg(test)]\nmod tests {\none.code != \"Lost\" }";
    let found = compared_codes(text);
    assert_eq!(found, ["1: fn a() { if one.code == \"Lost\" {} }", "3: let b = code.starts_with(\"L\");"]);
}
