//! How far a server keeps the processes of different jobs apart, and how far a cluster or a tenant demands it.

use std::fmt;

word!(
    /// One way in which a server keeps a job's processes apart from everything else on it.
    IsolationFeature {
        /// Each attempt has a user and a group of its own.
        UidPerAttempt = "uid-per-attempt",
        /// A user namespace: the user is nobody outside of it.
        UserNamespace = "user-namespace",
        /// A PID namespace: it sees only its own processes, and ends whole.
        PidNamespace = "pid-namespace",
        /// A mount namespace: a file tree of its own.
        MountNamespace = "mount-namespace",
        /// An IPC namespace: System V memory and queues of its own.
        IpcNamespace = "ipc-namespace",
        /// A network namespace: no way to the server's own sockets.
        NetworkNamespace = "network-namespace",
        /// A private /tmp and /dev/shm of bounded size.
        PrivateTmp = "private-tmp",
        /// /proc shows nothing of others.
        HiddenProc = "hidden-proc",
        /// A /dev with the job's devices only.
        PrivateDev = "private-dev",
        /// No program that it runs gains privileges.
        NoNewPrivileges = "no-new-privileges",
        /// A list of the system calls that it may make.
        Seccomp = "seccomp",
        /// Its memory is limited.
        CgroupMemory = "cgroup-memory",
        /// The number of its processes and threads is limited.
        CgroupPids = "cgroup-pids",
        /// It runs on CPUs of its own.
        CgroupCpuset = "cgroup-cpuset",
        /// The kernel opens no other device to it.
        CgroupDevices = "cgroup-devices",
    }
);

impl IsolationFeature {
    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IsolationSet(u16);

impl IsolationSet {
    /// The set without any feature.
    pub const EMPTY: Self = Self(0);

    /// What a job gets where isolation is required. Not in it: a user namespace (a user of its own is as good), a network namespace
    /// (ranks reach each other over the server's network unless a site asks for it), a CPU set (which is about speed),
    /// and the devices controller (a private /dev has no other device in it).
    pub const REQUIRED: Self = Self::of(&[
        IsolationFeature::UidPerAttempt,
        IsolationFeature::PidNamespace,
        IsolationFeature::MountNamespace,
        IsolationFeature::IpcNamespace,
        IsolationFeature::PrivateTmp,
        IsolationFeature::HiddenProc,
        IsolationFeature::PrivateDev,
        IsolationFeature::NoNewPrivileges,
        IsolationFeature::Seccomp,
        IsolationFeature::CgroupMemory,
        IsolationFeature::CgroupPids,
    ]);

    /// The set of all features.
    pub const ALL: Self = Self::of(IsolationFeature::ALL);

    /// The set of the features given.
    #[must_use]
    pub const fn of(features: &[IsolationFeature]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < features.len() {
            set |= features[at].bit();
            at += 1;
        }
        Self(set)
    }

    /// Whether this one is among them.
    #[must_use]
    pub const fn has(self, feature: IsolationFeature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// Whether all of `other` are among them.
    #[must_use]
    pub const fn has_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the set has no feature.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// One by one, in the order of [`IsolationFeature::ALL`].
    pub fn iter(self) -> impl Iterator<Item = IsolationFeature> {
        IsolationFeature::ALL.iter().copied().filter(move |feature| self.has(*feature))
    }

    /// Whether a server with these may run jobs of two tenants at the same time: with less than a user of its own for each attempt one
    /// job's processes read another's memory and files.
    #[must_use]
    pub const fn may_share_tenants(self) -> bool {
        self.has(IsolationFeature::UidPerAttempt)
    }
}

impl FromIterator<IsolationFeature> for IsolationSet {
    fn from_iter<I: IntoIterator<Item = IsolationFeature>>(features: I) -> Self {
        Self(features.into_iter().fold(0, |set, feature| set | feature.bit()))
    }
}

impl fmt::Display for IsolationSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.iter().map(IsolationFeature::as_str).collect();
        f.write_str(&words.join(", "))
    }
}

/// What an agent says of one feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolationState {
    /// The feature that this is about.
    pub feature: IsolationFeature,
    /// Whether jobs on this server get it.
    pub active: bool,
    /// How it is done, or why it is not.
    pub reason: String,
    /// What an administrator does to have it; empty where it is active, or where nothing can be done.
    pub fix: String,
}

impl IsolationState {
    /// A feature that jobs get, and how.
    pub fn active(feature: IsolationFeature, how: impl Into<String>) -> Self {
        Self { feature, active: true, reason: how.into(), fix: String::new() }
    }

    /// A feature that is absent, why, and what mends that.
    pub fn absent(feature: IsolationFeature, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { feature, active: false, reason: why.into(), fix: fix.into() }
    }
}

/// How far a server keeps jobs apart. A feature that is not named is absent: so is everything on a server whose agent is too old to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Isolation(Vec<IsolationState>);

impl Isolation {
    /// The last word on each feature, in the order of [`IsolationFeature::ALL`].
    #[must_use]
    pub fn new(states: impl IntoIterator<Item = IsolationState>) -> Self {
        let mut kept: Vec<IsolationState> = Vec::new();
        for state in states {
            kept.retain(|other| other.feature != state.feature);
            kept.push(state);
        }
        kept.sort_by_key(|state| state.feature);
        Self(kept)
    }

    /// A server that gives all of these and says no more; for models of servers.
    #[must_use]
    pub fn with(features: IsolationSet) -> Self {
        Self(features.iter().map(|feature| IsolationState::active(feature, "")).collect())
    }

    /// What is said of each feature, in the order of [`IsolationFeature::ALL`].
    #[must_use]
    pub fn states(&self) -> &[IsolationState] {
        &self.0
    }

    /// The features that jobs on this server get.
    #[must_use]
    pub fn active(&self) -> IsolationSet {
        self.0.iter().filter(|state| state.active).map(|state| state.feature).collect()
    }
}

/// How much isolation jobs must have. Who may only ask for more takes the greater of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum IsolationPolicy {
    /// What the server can give; two tenants still never share one that cannot tell them apart.
    #[default]
    BestEffort,
    /// The job gets [`IsolationSet::REQUIRED`], or it waits.
    Required,
}

impl IsolationPolicy {
    /// Features that a server must have.
    #[must_use]
    pub const fn demands(self) -> IsolationSet {
        match self {
            Self::BestEffort => IsolationSet::EMPTY,
            Self::Required => IsolationSet::REQUIRED,
        }
    }

    /// The word that command lines use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BestEffort => "best-effort",
            Self::Required => "required",
        }
    }
}

impl fmt::Display for IsolationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        let set: IsolationSet =
            [IsolationFeature::Seccomp, IsolationFeature::UidPerAttempt].into_iter().collect();
        assert_eq!(set.to_string(), "uid-per-attempt, seccomp");
        assert!(set.may_share_tenants() && !IsolationSet::EMPTY.may_share_tenants());
        assert!(IsolationSet::ALL.has_all(IsolationSet::REQUIRED) && !set.has_all(IsolationSet::REQUIRED));
        assert_eq!(IsolationSet::ALL.iter().count(), IsolationFeature::ALL.len());
        assert_eq!(IsolationSet::ALL.without(set).iter().count(), IsolationFeature::ALL.len() - 2);
        assert!(IsolationSet::REQUIRED.may_share_tenants());
    }

    #[test]
    fn what_is_said_last_holds_and_silence_is_absence() {
        let on = IsolationState::active(IsolationFeature::Seccomp, "list 1");
        let off = IsolationState::absent(IsolationFeature::Seccomp, "kernel too old", "Linux 5.10");
        let pids = IsolationState::active(IsolationFeature::UidPerAttempt, "range");
        let isolation = Isolation::new([on, pids, off]);
        assert_eq!(isolation.states().len(), 2);
        assert_eq!(isolation.active(), IsolationSet::of(&[IsolationFeature::UidPerAttempt]));
        assert_eq!(Isolation::default().active(), IsolationSet::EMPTY);
        assert_eq!(Isolation::with(IsolationSet::ALL).active(), IsolationSet::ALL);
    }

    #[test]
    fn the_stricter_policy_holds() {
        let (weak, strict) = (IsolationPolicy::BestEffort, IsolationPolicy::Required);
        assert_eq!(weak.max(strict), strict);
        assert!(weak.demands().is_empty() && strict.demands() == IsolationSet::REQUIRED);
    }
}
