//! Tier R for a minute: real controllers, agents and etcd under faults of every kind. `cargo xtask chaos` goes on for longer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on must stop")]

use std::{path::Path, process::Command};

use integration_harness::binaries;

#[test]
fn a_minute_of_faults_loses_nothing_and_doubles_nothing() {
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_rail-chaos"));
    chaos.args(["run", "--seconds", "60", "--agents", "8", "--seed", "1", "--json"]);
    chaos.env("RAIL_BIN_DIR", binaries::directory().unwrap());
    let output = chaos.output().unwrap();
    let (reported, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if let Some(reason) = reported.lines().find(|line| line.starts_with("skipped: ")) {
        println!("{reason}");
        return;
    }
    let places = said.lines().filter_map(|line| line.split_once("files in ")).map(|(_, place)| place);
    assert!(output.status.success(), "{reported}\n{said}");
    assert!(reported.lines().count() > 10, "{reported}");
    for place in places {
        assert!(!Path::new(place).exists(), "{place} is left behind");
    }
}
