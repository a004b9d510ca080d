//! What is counted of a run of everything: passed, failed, skipped and why.

use crate::process::Result;

/// The results of the steps and the tests.
#[derive(Default)]
pub struct Tally {
    /// Steps and tests that held.
    pub passed: u64,
    /// Steps and tests that did not.
    pub failed: u64,
    /// Why something could not be tried here.
    pub skipped: Vec<String>,
    /// What failed, by its name.
    pub failures: Vec<String>,
    /// The lines that follow name failed tests.
    naming: bool,
}

impl Tally {
    /// Counts a step, and says at once that it failed.
    pub fn step(&mut self, name: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(error) => {
                self.failed += 1;
                self.failures.push(format!("{name}: {error}"));
                println!("    FAILED {name}: {error}");
            }
        }
    }

    /// Reads one line of what `a test program with `--show-output` prints.
    pub fn line(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            let count = |word: &str| -> u64 {
                let before = counts.split(word).next().unwrap_or_default();
                before.split_whitespace().next_back().and_then(|n| n.parse().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.failed += count(" failed");
            self.naming = false;
        } else if line == "failures:" {
            self.naming = true;
        } else if let Some(name) = line.strip_prefix("    ").filter(|name| self.naming && is_path(name)) {
            let name = format!("test {name}");
            if !self.failures.contains(&name) {
                self.failures.push(name);
            }
        } else if let Some(reason) = line.trim_start().strip_prefix("skipped: ") {
            self.skipped.push(reason.to_owned());
        }
    }
}

/// Whether a line is nothing but the path of a test in a module.
fn is_path(line: &str) -> bool {
    line.contains("::") && line.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_program_prints_is_counted_and_failures_are_named() {
        let printed = "\
successes:

---- one::passes stdout ----
skipped: no etcd

successes:
    one::passes

failures:

---- two::fails stdout ----
thread 'two::fails' panicked at a.rs:1:1:
    an indented line that is no name
    left

failures:
    two::fails

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
    three
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        let mut tally = Tally::default();
        printed.lines().for_each(|line| tally.line(line));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (3, 1, vec!["no etcd".to_owned()]));
        assert_eq!(tally.failures, ["test two::fails"]);
    }
}
