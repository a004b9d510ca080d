//! Giving up every privilege for good, in the one order in which the kernel lets nothing back in.

use std::io;

use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
        clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
        set_no_new_privs,
    },
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::Ids;

/// The kernel has no capability beyond this (it keeps them in 64 bits).
const CAPABILITIES: u32 = 64;
/// What a rank makes is its own to write, whatever the agent's umask is.
const UMASK: u32 = 0o022;

/// Limits of each process of a rank, or of all of its user's processes (setrlimit(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankLimits {
    /// Open files of a process.
    pub open_files: u64,
    /// Processes and threads of the rank's user. Has no effect on root.
    pub processes: u64,
    /// Bytes of memory that a process may lock.
    pub locked_bytes: u64,
}

impl Default for RankLimits {
    fn default() -> Self {
        Self { open_files: 1 << 20, processes: 1 << 15, locked_bytes: 1 << 30 }
    }
}

/// What the kernel refused.
#[derive(Debug, Error)]
#[error("cannot {what}: {source}")]
pub struct PrivilegeError {
    /// The step that failed, as the end of "cannot".
    pub what: &'static str,
    /// What the kernel answered.
    pub source: io::Error,
}

/// The kernel's answer with what was attempted.
fn at<T>(what: &'static str, answer: rustix::io::Result<T>) -> Result<T, PrivilegeError> {
    answer.map_err(|error| PrivilegeError { what, source: error.into() })
}

/// Becomes `ids` where given, and keeps no capability, no way to get one, and no core dumps.
///
/// # Errors
/// What the kernel refused; then nothing of the tenant's may be looked at.
pub fn give_up(ids: Option<&Ids>, limits: RankLimits) -> Result<(), PrivilegeError> {
    empty_bounding_set()?;
    // A kernel without ambient capabilities has none to clear.
    let _ = clear_ambient_capability_set();
    if let Some(ids) = ids {
        ids.assume().map_err(|source| PrivilegeError { what: "become the ranks' user", source })?;
    }
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    at("give up capabilities", set_capabilities(None, none))?;
    at("forbid new privileges", set_no_new_privs(true))?;
    umask(Mode::from_raw_mode(UMASK));
    set_limits(limits)?;
    verify(ids)
}

/// Needs the right to; who lacks it (an agent that is not root) has no capability that it could pass on.
fn empty_bounding_set() -> Result<(), PrivilegeError> {
    let held = at("read capabilities", capabilities(None))?;
    if !held.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for number in 0..CAPABILITIES {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if capability_is_in_bounding_set(one).unwrap_or(false) {
            at("empty the capability bounding set", remove_capability_from_bounding_set(one))?;
        }
    }
    Ok(())
}

fn set_limits(limits: RankLimits) -> Result<(), PrivilegeError> {
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Nofile, limits.open_files),
        (Resource::Nproc, limits.processes),
        (Resource::Memlock, limits.locked_bytes),
    ] {
        at("set resource limits", setrlimit(resource, lower(getrlimit(resource), most)))?;
    }
    Ok(())
}

/// No limit of ours raises one that is there.
fn lower(now: Rlimit, most: u64) -> Rlimit {
    let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    Rlimit { current: least(now.current), maximum: least(now.maximum) }
}

/// The kernel has done as it said.
fn verify(ids: Option<&Ids>) -> Result<(), PrivilegeError> {
    let held = at("read capabilities", capabilities(None))?;
    let all = held.effective | held.permitted | held.inheritable;
    let uid = ids.is_none_or(|ids| geteuid().as_raw() == ids.uid);
    if all.is_empty() && uid {
        return Ok(());
    }
    let source = io::Error::other("the kernel said yes, and they are still there");
    Err(PrivilegeError { what: "give up privileges", source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_only_ever_lowered() {
        let now = |current, maximum| Rlimit { current, maximum };
        assert_eq!(lower(now(Some(1024), Some(4096)), 8192), now(Some(1024), Some(4096)));
        assert_eq!(lower(now(Some(1024), None), 512), now(Some(512), Some(512)));
        assert_eq!(lower(now(None, None), 512), now(Some(512), Some(512)));
        assert_eq!(lower(now(Some(9), Some(9)), 0), now(Some(0), Some(0)));
    }
}
