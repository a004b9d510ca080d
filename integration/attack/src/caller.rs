//! Who makes attempts.

/// Who makes an attempt: the caller's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum From {
    /// Whoever reaches the port, without certificate or token.
    Anonymous,
    /// A viewer of tenant beta.
    Viewer,
    /// A user of tenant beta.
    User,
    /// An administrator of tenant beta.
    TenantAdmin,
    /// Somebody with credentials of a tenant that has been deleted.
    Deleted,
    /// Whoever holds the certificate of one node.
    Node,
    /// A process of a job of tenant beta, on a server where tenant alpha has one.
    Rank,
    /// Whoever reaches the ports of a job's rails, or sits between two servers.
    OnPath,
    /// An account of the controller's host that is not the controller's.
    Local,
}

impl From {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Anonymous,
        Self::Viewer,
        Self::User,
        Self::TenantAdmin,
        Self::Deleted,
        Self::Node,
        Self::Rank,
        Self::OnPath,
        Self::Local,
    ];

    /// As the command line and the table name them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::TenantAdmin => "tenant-admin",
            Self::Deleted => "deleted-tenant",
            Self::Node => "node",
            Self::Rank => "rank",
            Self::OnPath => "on-path",
            Self::Local => "local-account",
        }
    }
}
