//! All of these tests once more with rails over verbs, and over nothing else: on the library that stands in for libibverbs, whose devices
//! read what is sent where it lies, some time after it was posted.

use std::process::Command;

use node_agent_engine::Transport;

/// Says in a second process of this program that its rails go over verbs.
const AGAIN: &str = "RAIL_TEST_OVER_VERBS";

/// What the rails of these tests go over.
pub fn transport() -> Transport {
    if std::env::var_os(AGAIN).is_some() { Transport::Verbs } else { Transport::default() }
}

#[test]
fn everything_again_over_verbs() {
    if std::env::var_os(AGAIN).is_some() {
        return;
    }
    let program = std::env::current_exe().unwrap();
    let library = program.ancestors().nth(2).unwrap().join("examples/libfake_ibverbs.so");
    if !library.is_file() {
        println!(
            "skipped: {} is missing: cargo build -p node-agent-engine-verbs --examples",
            library.display()
        );
        return;
    }
    // Devices that stand in are joined within one process, so engines that are processes of their own have none; nor has the test of what
    // happens without any.
    let without = ["over_verbs::", "processes::", "verbs_that_cannot_be_had"];
    let output = Command::new(&program)
        .args(without.iter().flat_map(|name| ["--skip", name]))
        .env(AGAIN, "1")
        .env("RAIL_VERBS_LIBRARY", &library)
        .env("RAIL_FAKE_VERBS_ALL", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed = said.lines().find_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next());
    let passed: u32 = passed.and_then(|number| number.parse().ok()).unwrap_or_default();
    assert!(passed >= 50, "{passed} passed: {said}");
    println!("{passed} tests passed over verbs");
}
