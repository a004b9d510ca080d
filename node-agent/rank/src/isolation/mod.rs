//! How ranks are kept from each other and from this server: namespaces of one attempt (`room.rs`, held by `init.rs`), what they see of
//! files and devices (`mounts.rs`, `view.rs`), and which system calls they may make (`seccomp.rs`).
//!
//! What a server permits is found by trying (`probe.rs` of this crate); what ranks get follows from that and from the operator's policy by a pure
//! function (`plan.rs`), which also says, feature by feature, what is absent, why, and what fixes it.

pub mod devices;
pub mod init;
mod mounts;
pub mod plan;
pub mod room;
pub mod seccomp;
pub mod view;

use std::{io, path::PathBuf};

use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What ranks of this server get.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Isolation {
    /// The supervisor enters a user namespace first: without root nothing else is permitted.
    pub user: bool,
    /// Namespaces of the attempt.
    pub namespaces: Namespaces,
    /// A list of system calls that are refused.
    pub seccomp: bool,
    /// Bytes of `/tmp`, and again of `/var/tmp`.
    pub tmp_bytes: u64,
    /// Size of `/dev/shm`, in bytes.
    pub shm_bytes: u64,
    /// What ranks see of this server although it lies in a folder that is private to them otherwise.
    pub shown: Vec<PathBuf>,
    /// Groups of the server's that its GPUs' device files belong to, for ranks with a user of their own.
    pub device_groups: Vec<u32>,
}

/// Namespaces that all ranks of one attempt share on a server: they need each other's memory (CUDA IPC, `/dev/shm`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Namespaces {
    /// Processes: nobody else is seen, and nothing is left when its first process ends.
    pub pid: bool,
    /// Mounts: private `/tmp`, `/dev/shm` and `/dev`; the agent's folder and other jobs' are not there.
    pub mount: bool,
    /// System V IPC and POSIX message queues.
    pub ipc: bool,
    /// A network namespace that has loopback alone.
    pub network: bool,
}

impl Namespaces {
    /// True if there is any: then there is a process that holds them.
    #[must_use]
    pub fn any(self) -> bool {
        self.pid || self.mount || self.ipc || self.network
    }

    /// What the holder makes for itself; the PID namespace is made around it.
    fn flags(self) -> UnshareFlags {
        let mut flags = UnshareFlags::empty();
        for (wanted, flag) in [
            (self.mount, UnshareFlags::NEWNS),
            (self.ipc, UnshareFlags::NEWIPC),
            (self.network, UnshareFlags::NEWNET),
        ] {
            flags.set(flag, wanted);
        }
        flags
    }
}

/// What could not be done, and what the kernel said.
#[derive(Debug, Error)]
#[error("cannot {what}: {source}")]
pub struct IsolationError {
    /// The step that failed, as the end of "cannot".
    pub what: String,
    /// What the kernel answered.
    pub source: io::Error,
}

/// Names what was attempted.
trait Attempted<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, IsolationError>;
}

impl<T, E: Into<io::Error>> Attempted<T> for Result<T, E> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, IsolationError> {
        self.map_err(|error| IsolationError { what: what(), source: error.into() })
    }
}

/// Leaves namespaces for new ones.
fn leave(flags: UnshareFlags) -> io::Result<()> {
    #[allow(deprecated, reason = "its successor is unsafe because of FILES, which no caller of this names")]
    Ok(rustix::thread::unshare(flags)?)
}
