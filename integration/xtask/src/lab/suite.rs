//! What can run in the guest: scripts in `integration/lab`, each with the programs of the project that it needs.

use std::path::PathBuf;

use crate::process;

/// One suite that runs in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suite {
    /// Its script is `integration/lab/suite-NAME.sh`.
    pub name: &'static str,
    /// What it shows, in a few words for people.
    pub about: &'static str,
    /// Part of the short run.
    pub smoke: bool,
    /// What it needs of the project's own.
    pub programs: &'static [Program],
    /// Whether it needs the lab's own kernel module, `integration/lab/labnic`.
    pub module: bool,
}

/// A program of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The package that it is built from.
    pub package: &'static str,
    /// The name of the program's file.
    pub name: &'static str,
}

const ENGINE: Program = Program { package: "node-agent-engine", name: "rail-engine" };
const AGENT: Program = Program { package: "node-agent", name: "rail-node-agent" };
const CONTROLLER: Program = Program { package: "controller", name: "rail-controller" };
const RAILCTL: Program = Program { package: "cli", name: "railctl" };

/// All suites, in the order in which they run.
pub const ALL: &[Suite] = &[
    Suite {
        name: "rails",
        about: "four Soft-RoCE rails between two hosts: data flows on each, a lost link is an error on its port alone",
        smoke: false,
        programs: &[],
        module: false,
    },
    Suite {
        name: "verbs",
        about: "all-reduce of two engines over verbs on four rails, every element checked, links cut meanwhile",
        smoke: true,
        programs: &[ENGINE],
        module: false,
    },
    Suite {
        name: "qos-short",
        about: "class of service by the real kernel: applied, read back, changed by dcb, mended, refused, a NIC pulled out",
        smoke: true,
        programs: &[AGENT],
        module: true,
    },
    Suite {
        name: "qos",
        about: "all of that, trials, and the marks and lanes of verbs on the wire",
        smoke: false,
        programs: &[ENGINE, AGENT],
        module: true,
    },
    Suite {
        name: "agent-short",
        about: "the agent: its inventory compared with rdma, ip and sysfs, and what others change mended as the kernel tells of it",
        smoke: false,
        programs: &[AGENT],
        module: true,
    },
    Suite {
        name: "agent",
        about: "all of that, with a controller: GIDs that move, links that go, counters, storms, loss, and no false alarm",
        smoke: false,
        programs: &[AGENT, CONTROLLER, RAILCTL],
        module: true,
    },
    Suite {
        name: "e1",
        about: "row E1: all-reduce over verbs against the sum of ib_write_bw on the same rails",
        smoke: false,
        programs: &[ENGINE],
        module: false,
    },
    Suite {
        name: "e2",
        about: "row E2: 50 rails cut in the middle of operations over verbs",
        smoke: false,
        programs: &[ENGINE],
        module: false,
    },
];

/// The suites that a word means: `smoke`, `all`, or the name of one.
///
/// # Errors
/// There is no such suite; the text has the names of all.
pub fn named(word: &str) -> Result<Vec<Suite>, String> {
    let chosen: Vec<Suite> = match word {
        "all" => ALL.to_vec(),
        "smoke" => ALL.iter().copied().filter(|suite| suite.smoke).collect(),
        name => ALL.iter().copied().filter(|suite| suite.name == name).collect(),
    };
    if chosen.is_empty() {
        let names: Vec<&str> = ALL.iter().map(|suite| suite.name).collect();
        return Err(format!("the lab has no suite {word}; it has smoke, all, {}", names.join(", ")));
    }
    Ok(chosen)
}

/// The folder of the suites' scripts, and of the lab's own kernel module.
pub(super) fn scripts() -> PathBuf {
    process::root().join("integration/lab")
}

/// Where a suite's script is.
pub(super) fn script(suite: &Suite) -> PathBuf {
    scripts().join(format!("suite-{}.sh", suite.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_found_by_name_and_every_one_has_its_script() {
        assert_eq!(named("all").unwrap().len(), ALL.len());
        assert!(!named("smoke").unwrap().is_empty());
        assert!(named("nothing").unwrap_err().contains("smoke, all, rails, verbs"));
        for suite in ALL {
            assert!(super::script(suite).exists(), "{}", suite.name);
        }
    }
}
