//! The table of attempts in docs/SECURITY.md is that of the suite. The suite itself is a step of its own of `cargo xtask test`: a part
//! of it is about who is served how fast while a port is flooded, so that nothing else may run beside it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on must stop")]

use std::process::Command;

#[test]
fn the_page_lists_the_attempts_that_are_made() {
    let output = Command::new(env!("CARGO_BIN_EXE_rail-attack")).arg("docs").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
