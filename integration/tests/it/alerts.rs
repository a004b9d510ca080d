//! The alert rules in `deploy`: by Prometheus' own tool where it is there, and their series against those that there are.

use std::{fs, process::Command};

use integration_harness::binaries::root;

#[test]
fn prometheus_takes_the_rules_and_their_tests_pass() {
    let folder = root().join("deploy/prometheus");
    // `cargo xtask test` brings it.
    let promtool = std::env::var_os("RAIL_TEST_PROMTOOL").unwrap_or_else(|| "promtool".into());
    if Command::new(&promtool).arg("--version").output().is_err() {
        println!("skipped: promtool is not installed (Debian's package prometheus has it)");
        return;
    }
    for group in ["rails", "controller", "slo"] {
        for args in [["check", &format!("{group}.rules.yaml")], ["test", &format!("{group}.test.yaml")]] {
            let [verb, file] = args;
            let output =
                Command::new(&promtool).args([verb, "rules", file]).current_dir(&folder).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "promtool {args:?}: {said}");
        }
    }
}

/// Whose series the rules of a file may name: where those are registered.
const SOURCES: [(&str, &[&str], usize); 2] = [
    ("rails", &["node-agent/src/agent/metrics.rs"], 8),
    (
        "controller",
        &[
            "controller/leader/src/metrics.rs",
            "controller/src/backups/metrics.rs",
            "controller/api/src/guard.rs",
            "controller/api/src/fair/gate.rs",
        ],
        14,
    ),
];

#[test]
fn every_series_of_the_rules_is_one_that_there_is() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    for (group, sources, least) in SOURCES {
        let rules = read(&format!("deploy/prometheus/{group}.rules.yaml"));
        let registered: String = sources.iter().map(|path| read(path)).collect();
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
        let mut names = 0;
        for word in expressions.flat_map(|text| text.split(|c| !is_name(c))) {
            let Some(name) = word.strip_prefix("rail_") else { continue };
            let name = ["_total", "_bucket"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(registered.contains(&format!("\"{name}\"")), "{group}: there is no series rail_{name}");
            names += 1;
        }
        assert!(names >= least, "{group}: {names}");
    }
}
