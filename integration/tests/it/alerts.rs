//! The alert rules in `deploy`: by Prometheus' own tool where it is there, and their series against the agent's.

use std::{fs, process::Command};

use integration::binaries::root;

#[test]
fn prometheus_takes_the_rules_and_their_tests_pass() {
    let folder = root().join("deploy/prometheus");
    // `cargo xtask test` brings it.
    let promtool = std::env::var_os("RAIL_TEST_PROMTOOL").unwrap_or_else(|| "promtool".into());
    if Command::new(&promtool).arg("--version").output().is_err() {
        println!("skipped: promtool is not installed (Debian's package prometheus has it)");
        return;
    }
    for args in [["check", "rules", "rails.rules.yaml"], ["test", "rules", "rails.test.yaml"]] {
        let output = Command::new(&promtool).args(args).current_dir(&folder).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "promtool {args:?}: {said}");
    }
}

#[test]
fn every_series_of_the_rules_is_one_that_the_agent_has() {
    let rules = fs::read_to_string(root().join("deploy/prometheus/rails.rules.yaml")).unwrap();
    let agent = fs::read_to_string(root().join("node-agent/src/agent/metrics.rs")).unwrap();
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let mut names = 0;
    for word in expressions.flat_map(|text| text.split(|c| !is_name(c))) {
        let Some(name) = word.strip_prefix("rail_") else { continue };
        let name = name.strip_suffix("_total").unwrap_or(name);
        assert!(agent.contains(&format!("\"{name}\"")), "the agent has no series rail_{name}");
        names += 1;
    }
    assert!(names >= 8, "{names}");
}
