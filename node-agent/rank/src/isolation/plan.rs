//! What ranks get, as a pure function of what this server permits and of what its operator wants; and, feature by feature, what is
//! absent, why, and what fixes it.

use std::path::PathBuf;

use proto_model::{IsolationFeature as Kind, IsolationState};

use super::{Isolation, Namespaces};

/// The features that are decided here, in the order in which they are reported.
const FEATURES: [Kind; 11] = [
    Kind::UidPerAttempt,
    Kind::UserNamespace,
    Kind::PidNamespace,
    Kind::MountNamespace,
    Kind::IpcNamespace,
    Kind::NetworkNamespace,
    Kind::PrivateTmp,
    Kind::HiddenProc,
    Kind::PrivateDev,
    Kind::NoNewPrivileges,
    Kind::Seccomp,
];

/// The user that ranks run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The agent's own user, who is not root.
    Agent,
    /// Root, as the operator says.
    Root,
    /// One user of their own for all attempts.
    Shared,
    /// A user of its own for each attempt.
    PerAttempt,
}

/// What was found by trying. An error is what the kernel, or we, said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The user that ranks run as.
    pub identity: Identity,
    /// The agent is root: it needs no user namespace.
    pub root: bool,
    /// PID, mount and IPC namespaces together.
    pub all: Result<(), String>,
    /// Mount and IPC namespaces without a PID namespace; tried only where all do not work.
    pub files: Result<(), String>,
    /// The list of system calls.
    pub seccomp: Result<(), String>,
}

/// What the operator wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Namespaces, where they can be had.
    pub namespaces: bool,
    /// The list of system calls, where it can be had.
    pub seccomp: bool,
    /// A network namespace: ranks reach each other over rails alone.
    pub network: bool,
    /// Size of `/tmp`, in bytes.
    pub tmp_bytes: u64,
    /// Size of `/dev/shm`, in bytes.
    pub shm_bytes: u64,
    /// What ranks see of this server's private folders.
    pub shown: Vec<PathBuf>,
    /// Groups of device files.
    pub device_groups: Vec<u32>,
}

/// Decides what ranks get by what the server can do and the operator wants, and says of each feature whether it is there.
#[must_use]
pub fn plan(facts: &Facts, policy: &Policy) -> (Isolation, Vec<IsolationState>) {
    let namespaces = match (policy.namespaces, &facts.all, &facts.files) {
        (false, ..) | (true, Err(_), Err(_)) => Namespaces::default(),
        (true, Ok(()), _) => Namespaces { pid: true, mount: true, ipc: true, network: policy.network },
        (true, Err(_), Ok(())) => Namespaces { pid: false, mount: true, ipc: true, network: policy.network },
    };
    let isolation = Isolation {
        user: namespaces.any() && !facts.root,
        namespaces,
        seccomp: policy.seccomp && facts.seccomp.is_ok(),
        tmp_bytes: policy.tmp_bytes,
        shm_bytes: policy.shm_bytes,
        shown: policy.shown.clone(),
        device_groups: policy.device_groups.clone(),
    };
    let features = FEATURES.map(|kind| feature(kind, facts, policy, &isolation));
    (isolation, features.into())
}

fn feature(kind: Kind, facts: &Facts, policy: &Policy, isolation: &Isolation) -> IsolationState {
    let namespaces = isolation.namespaces;
    let (active, (reason, fix)) = match kind {
        Kind::UidPerAttempt => (facts.identity == Identity::PerAttempt, identity(facts.identity)),
        Kind::UserNamespace => (isolation.user, user_namespace(facts, policy)),
        Kind::PidNamespace | Kind::HiddenProc => (namespaces.pid, absent(&facts.all, facts, policy)),
        Kind::MountNamespace | Kind::PrivateTmp | Kind::PrivateDev => {
            (namespaces.mount, absent(&facts.files, facts, policy))
        }
        Kind::IpcNamespace => (namespaces.ipc, absent(&facts.files, facts, policy)),
        Kind::NetworkNamespace => (namespaces.network, network(facts, policy)),
        // Needs nothing but Linux 3.5, and rank-exec starts nothing without it.
        Kind::NoNewPrivileges => (true, Refusal::default()),
        Kind::Seccomp => (isolation.seccomp, seccomp(facts, policy)),
        Kind::CgroupMemory | Kind::CgroupPids | Kind::CgroupCpuset | Kind::CgroupDevices => {
            (false, why("decided elsewhere", ""))
        }
    };
    match active {
        true => IsolationState::active(kind, how(kind, policy)),
        false => IsolationState::absent(kind, reason, fix),
    }
}

fn how(kind: Kind, policy: &Policy) -> String {
    match kind {
        Kind::UidPerAttempt => "a user and group id of its own from --rank-uids".to_owned(),
        Kind::PrivateTmp => {
            format!(
                "/tmp of {} bytes, /dev/shm of {}, both the attempt's alone",
                policy.tmp_bytes, policy.shm_bytes
            )
        }
        Kind::HiddenProc => "/proc of the PID namespace, /proc/sys and /sys read-only".to_owned(),
        Kind::PrivateDev => {
            "a few files that every program needs, and the job's GPUs; never a NIC".to_owned()
        }
        Kind::Seccomp => "a list of refused system calls".to_owned(),
        Kind::NoNewPrivileges => "no_new_privs, and an empty capability bounding set".to_owned(),
        _ => "one for all ranks of an attempt".to_owned(),
    }
}

type Refusal = (String, String);

fn why(reason: impl Into<String>, fix: impl Into<String>) -> Refusal {
    (reason.into(), fix.into())
}

fn identity(identity: Identity) -> Refusal {
    let range = "run the agent as root with --rank-uids FIRST-LAST";
    match identity {
        Identity::Agent => why("the agent is not root: ranks run as its own user", range),
        Identity::Root => {
            why("ranks run as root, as --ranks-as-root says", "give --rank-uids FIRST-LAST instead")
        }
        Identity::Shared => why("all attempts share --rank-user", "give --rank-uids FIRST-LAST instead"),
        Identity::PerAttempt => Refusal::default(),
    }
}

fn user_namespace(facts: &Facts, policy: &Policy) -> Refusal {
    if facts.root {
        return why("the agent is root: namespaces need none, and ranks have no capability", "");
    }
    absent(&facts.all, facts, policy)
}

fn absent(tried: &Result<(), String>, facts: &Facts, policy: &Policy) -> Refusal {
    if !policy.namespaces {
        return why("--no-rank-namespaces", "start the agent without --no-rank-namespaces");
    }
    let reason = tried.as_ref().err().cloned().unwrap_or_default();
    let fix = match facts.root {
        true => "let the agent make namespaces (CAP_SYS_ADMIN; in a container: no masked /proc)",
        false => {
            "run the agent as root, or permit user namespaces (sysctl user.max_user_namespaces, \
                  kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
        }
    };
    why(reason, fix)
}

fn network(facts: &Facts, policy: &Policy) -> Refusal {
    if !policy.network {
        return why("ranks use this server's network, as is the default", "give --rank-network none");
    }
    absent(&facts.files, facts, policy)
}

fn seccomp(facts: &Facts, policy: &Policy) -> Refusal {
    match &facts.seccomp {
        _ if !policy.seccomp => why("--no-rank-seccomp", "start the agent without --no-rank-seccomp"),
        Err(error) => why(error.clone(), "use a kernel with CONFIG_SECCOMP_FILTER"),
        Ok(()) => Refusal::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy {
            namespaces: true,
            seccomp: true,
            network: false,
            tmp_bytes: 1,
            shm_bytes: 2,
            shown: Vec::new(),
            device_groups: Vec::new(),
        }
    }

    fn every() -> impl Iterator<Item = (Facts, Policy)> {
        let outcome = |works: bool| if works { Ok(()) } else { Err("the kernel said no".to_owned()) };
        let identities = [Identity::Agent, Identity::Root, Identity::Shared, Identity::PerAttempt];
        identities.into_iter().flat_map(move |identity| {
            (0_u32..128).map(move |bits| {
                let bit = |at: u32| bits >> at & 1 == 1;
                let (all, files) = (outcome(bit(1)), outcome(bit(1) || bit(2)));
                let facts = Facts { identity, root: bit(0), all, files, seccomp: outcome(bit(3)) };
                let policy = Policy { namespaces: bit(4), seccomp: bit(5), network: bit(6), ..policy() };
                (facts, policy)
            })
        })
    }

    #[test]
    fn every_feature_says_how_it_is_done_or_why_it_is_not() {
        for (facts, policy) in every() {
            let (isolation, features) = plan(&facts, &policy);
            for state in &features {
                assert!(!state.reason.is_empty(), "{facts:?} {policy:?} {state:?}");
                assert!(!state.active || state.fix.is_empty());
            }
            let active = |kind| features.iter().any(|state| state.feature == kind && state.active);
            assert_eq!(active(Kind::PidNamespace), isolation.namespaces.pid);
            assert_eq!(active(Kind::Seccomp), isolation.seccomp);
            assert!(active(Kind::NoNewPrivileges));
        }
    }

    #[test]
    fn nothing_is_planned_that_was_not_seen_to_work_or_is_not_wanted() {
        for (facts, policy) in every() {
            let (isolation, _) = plan(&facts, &policy);
            let Namespaces { pid, mount, ipc, network } = isolation.namespaces;
            assert!(!pid || (facts.all.is_ok() && policy.namespaces && mount && ipc));
            assert!(!mount || (facts.files.is_ok() && policy.namespaces));
            assert!(!network || (policy.network && mount));
            assert_eq!(isolation.user, isolation.namespaces.any() && !facts.root);
            assert!(!isolation.seccomp || (facts.seccomp.is_ok() && policy.seccomp));
            // And all that works and is wanted is.
            assert!(pid || facts.all.is_err() || !policy.namespaces);
        }
    }
}
