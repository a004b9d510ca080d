//! Bugs that can be planted at the edges of what is real, each as if the real part had it: the checks must find it.

/// A bug that can be planted for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A leader's writes do not compare the leader key.
    NoFence,
    /// Transactions do not compare their writer's slot.
    NoGuard,
    /// A transaction whose outcome is not known is taken for refused.
    UnknownIsRefused,
    /// A transaction is acknowledged and never stored.
    AckWithoutStore,
    /// A watch begins one revision later than it should.
    WatchOneTooFar,
    /// A watch whose history is gone goes on with what is left.
    ForgetCompaction,
    /// Reads answer what was stored a second ago.
    StaleReads,
    /// Connections to etcd have no keepalive.
    NoKeepalive,
    /// A submit that is repeated names itself anew.
    NewRequestId,
}

impl Bug {
    /// All bugs, in the order of their definition.
    pub const ALL: &[Self] = &[
        Self::NoFence,
        Self::NoGuard,
        Self::UnknownIsRefused,
        Self::AckWithoutStore,
        Self::WatchOneTooFar,
        Self::ForgetCompaction,
        Self::StaleReads,
        Self::NoKeepalive,
        Self::NewRequestId,
    ];
}

impl Bug {
    /// What the bug does, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NoFence => "a leader's writes do not compare the leader key",
            Self::NoGuard => "transactions do not compare their writer's slot",
            Self::UnknownIsRefused => "a transaction whose outcome is not known is taken for refused",
            Self::AckWithoutStore => "a transaction is acknowledged and never stored",
            Self::WatchOneTooFar => "a watch begins one revision later than it should",
            Self::ForgetCompaction => "a watch whose history is gone goes on with what is left",
            Self::StaleReads => "reads answer what was stored a little before",
            Self::NoKeepalive => "connections to etcd have no keepalive",
            Self::NewRequestId => "a submit that is repeated names itself anew",
        }
    }
}
