//! Where what we build comes from: nothing in CI that somebody else can exchange, and no build beside Cargo.lock.

use std::{fs, path::PathBuf};

use integration_harness::binaries::root;

/// Files that CI runs: workflows, and the scripts of .ci.
fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in [".github/workflows", ".ci"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    assert!(files.len() >= 2, "{files:?}");
    files
}

/// What is wrong with a line that uses an action: only a full commit with the release beside it cannot be moved.
fn unpinned(line: &str) -> Option<&'static str> {
    let used = line.trim().trim_start_matches("- ").strip_prefix("uses:")?.trim();
    let (action, comment) = used.split_once('#').unwrap_or((used, ""));
    let action = action.trim().trim_matches(['"', '\'']);
    if action.starts_with("./") {
        return None;
    }
    let Some((_, version)) = action.split_once('@') else { return Some("names no version") };
    let commit =
        version.len() == 40 && version.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let release =
        comment.trim().strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    match (commit, release) {
        (true, true) => None,
        (true, false) => Some("does not say which release the commit is: # v1.2.3"),
        (false, _) => Some("is pinned by a name that can be moved; write the full commit"),
    }
}

/// Whether a line runs cargo in a way that may change Cargo.lock. `cargo xtask` is `run --locked` (see .cargo/config.toml).
fn unlocked(line: &str) -> bool {
    let code = line.split(" #").next().unwrap_or_default();
    if code.trim_start().starts_with('#') {
        return false;
    }
    let calls = code.match_indices("cargo ").map(|(at, _)| code[at + "cargo ".len()..].trim_start());
    calls.into_iter().any(|rest| {
        let command = rest.split(['&', ';', '|']).next().unwrap_or_default();
        let first = command.split_whitespace().find(|word| !word.starts_with('+')).unwrap_or_default();
        !["xtask", "fmt"].contains(&first) && !command.split_whitespace().any(|word| word == "--locked")
    })
}

#[test]
fn ci_uses_no_action_that_can_be_moved_and_no_build_beside_the_lock_file() {
    for file in files() {
        let text = fs::read_to_string(&file).unwrap();
        for (at, line) in text.lines().enumerate() {
            let place = format!("{}:{}: {}", file.display(), at + 1, line.trim());
            assert_eq!(unpinned(line), None, "{place}");
            assert!(!unlocked(line), "{place}: cargo without --locked");
        }
    }
    let config = fs::read_to_string(root().join(".cargo/config.toml")).unwrap();
    assert!(config.contains("xtask = \"run --locked "), "`cargo xtask` builds beside Cargo.lock");
}

#[test]
fn ci_may_only_read() {
    for file in files().into_iter().filter(|file| file.extension().is_some_and(|end| end == "yml")) {
        let text = fs::read_to_string(&file).unwrap();
        let permissions: Vec<_> = text
            .lines()
            .skip_while(|line| *line != "permissions:")
            .skip(1)
            .take_while(|line| line.starts_with(' '))
            .collect();
        assert_eq!(permissions, ["  contents: read"], "{}", file.display());
        assert!(!text.contains(": write") && !text.contains("pull_request_target"), "{}", file.display());
    }
}

#[test]
fn what_can_be_moved_is_found() {
    let commit = "a".repeat(40);
    for good in [
        format!("      - uses: actions/checkout@{commit} # v4.2.2"),
        "  - uses: ./here".to_owned(),
        "  - run: cargo xtask demo".to_owned(),
    ] {
        assert_eq!(unpinned(&good), None, "{good}");
        assert!(!unlocked(&good), "{good}");
    }
    for bad in [
        "- uses: actions/checkout@v4".to_owned(),
        "- uses: actions/checkout".to_owned(),
        "  uses: dtolnay/rust-toolchain@stable".to_owned(),
        format!("- uses: actions/checkout@{}", &commit[1..]),
        format!("- uses: actions/checkout@{commit}"),
        format!("- uses: actions/checkout@{commit} # main"),
    ] {
        assert!(unpinned(&bad).is_some(), "{bad}");
    }
    for bad in ["cargo build", "x && cargo +nightly test -q", "cargo install y; cargo build --locked"] {
        assert!(unlocked(bad), "{bad}");
    }
}
