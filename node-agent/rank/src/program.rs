//! The program that a supervisor starts for ranks: `rail-rank`, beside the agent's own. The agent's program can do the same, but it is
//! some twelve times as large, and what a process costs before its first line is mostly its size: a start of a job pays for two a server.
//!
//! Both are built from the same code. Where files were exchanged one by one they may not be of one version, so the agent asks before it
//! uses the small one, and goes without it else.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use crate::{
    exec, isolation,
    orders::{EXEC, INIT},
};

/// Its name, beside the agent's program.
pub const NAME: &str = "rail-rank";

/// Says which orders it understands.
const ORDERS: &str = "orders";

/// Exit status for arguments that are wrong.
const USAGE: u8 = 2;

/// The sources that say what orders look like.
const SOURCES: [&[u8]; 7] = [
    include_bytes!("isolation/init.rs"),
    include_bytes!("isolation/mod.rs"),
    include_bytes!("isolation/room.rs"),
    include_bytes!("isolation/view.rs"),
    include_bytes!("exec/launch.rs"),
    include_bytes!("privileges.rs"),
    include_bytes!("ids.rs"),
];

/// Two programs understand each other's orders if this number is the same in both (FNV-1a over [`SOURCES`]).
const FINGERPRINT: u64 = fingerprint();

const fn fingerprint() -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut source = 0;
    while source < SOURCES.len() {
        let mut at = 0;
        while at < SOURCES[source].len() {
            hash = (hash ^ SOURCES[source][at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            at += 1;
        }
        source += 1;
    }
    hash
}

/// The program `rail-rank`: does what its first argument says, and gives the exit status.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let order = arguments.next();
    match order.as_deref().and_then(|order| order.to_str()) {
        Some(EXEC) => exec::run(),
        Some(INIT) => isolation::init::run(),
        Some(ORDERS) => {
            println!("{FINGERPRINT:016x}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "rail-rank: started by rail-node-agent for the ranks of a job; it is of no use by itself"
            );
            ExitCode::from(USAGE)
        }
    }
}

/// The small program beside the agent's, if it is there and understands the same orders.
///
/// # Errors
/// Why it is of no use, in one line.
pub fn beside(agent: &Path) -> Result<PathBuf, String> {
    let path = agent.with_file_name(NAME);
    if !path.is_file() {
        return Err(format!("there is no {}", path.display()));
    }
    let asked = Command::new(&path).arg(ORDERS).env_clear().current_dir("/").stdin(Stdio::null()).output();
    let output = asked.map_err(|error| format!("{} cannot be started: {error}", path.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if said == format!("{FINGERPRINT:016x}") {
        Ok(path)
    } else {
        Err(format!("{} is of another version", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn only_a_program_that_understands_the_same_orders_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let agent = folder.path().join("rail-node-agent");
        let small = folder.path().join(NAME);
        assert!(beside(&agent).unwrap_err().contains("there is no"));
        let write = |says: &str| {
            fs::write(&small, format!("#!/bin/sh\n{says}\n")).unwrap();
            fs::set_permissions(&small, fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("echo 0123456789abcdef");
        assert!(beside(&agent).unwrap_err().contains("another version"));
        write("exit 2");
        assert!(beside(&agent).unwrap_err().contains("another version"));
        write(&format!("test \"$1\" = {ORDERS} && echo {FINGERPRINT:016x}"));
        assert_eq!(beside(&agent), Ok(small));
    }
}
