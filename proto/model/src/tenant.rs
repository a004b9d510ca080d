//! Tenants and roles.

use std::{fmt, str::FromStr};

use crate::{IsolationPolicy, Shape, TenantName, Timestamp};

/// A tenant: a group of users with a quota and jobs of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Name of the tenant, unique in the cluster.
    pub name: TenantName,
    /// Identifier of this very tenant; a later one of the same name has another.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When the tenant was made.
    pub created: Timestamp,
    /// A text for people; may be empty.
    pub description: String,
    /// What its jobs may hold at a time.
    pub quota: Quota,
    /// How much isolation its jobs must have; the cluster's own setting holds where that is stricter.
    pub isolation: IsolationPolicy,
}

/// What a tenant may hold at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// GPUs held by jobs that are placed.
    pub gpus: u32,
    /// Jobs that have not ended; 0 means the controller's own limit.
    pub jobs: u32,
    /// What it can always have, by usable shape; part of `gpus`.
    pub guaranteed: Shape,
    /// Share of what is free, against other tenants' weights; at least 1.
    pub weight: u32,
    /// Bytes of the store that its jobs may take, ended ones included; 0 means the controller's own limit.
    pub stored_bytes: u64,
    /// Schedules that it may have; 0 means the controller's own limit.
    pub schedules: u32,
}

impl Quota {
    /// So much at most; nothing guaranteed, and the common weight.
    #[must_use]
    pub fn new(gpus: u32, jobs: u32) -> Self {
        Self { gpus, jobs, guaranteed: Shape::default(), weight: 1, stored_bytes: 0, schedules: 0 }
    }
}

impl Default for Quota {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

/// What a caller may do; who may do more comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Everything, in all tenants and on the cluster itself.
    Admin,
    /// Everything within one tenant.
    TenantAdmin,
    /// Submit, cancel and read within one tenant.
    User,
    /// Read everything within one tenant.
    Viewer,
    /// A server's agent: its own desired state and observations.
    Node,
    /// A switch's agent: its own desired state and reports.
    Switch,
}

impl Role {
    /// All roles, in the order of the enumeration.
    pub const ALL: [Self; 6] =
        [Self::Admin, Self::TenantAdmin, Self::User, Self::Viewer, Self::Node, Self::Switch];

    /// Whether it may take back what somebody of another role has laid down.
    #[must_use]
    pub fn overrules(self, other: Self) -> bool {
        self <= other
    }

    /// The text of the role.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::TenantAdmin => "tenant-admin",
            Self::User => "user",
            Self::Viewer => "viewer",
            Self::Node => "node",
            Self::Switch => "switch",
        }
    }
}

/// Somebody who asks, as far as rules look at it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Authority {
    /// The role by which they ask, the one that may most.
    pub role: Role,
    /// The name of the administrator, or of the user within their tenant.
    pub user: String,
}

impl Authority {
    /// Whether they may change what belongs to `owner` within their tenant: administrators of the tenant and of the cluster everything, users
    /// what is their own. What nobody is known to own is for administrators. A user of a tenant and an administrator of the cluster
    /// with the same name are two people.
    #[must_use]
    pub fn may_change(&self, owner: Option<&Self>) -> bool {
        match self.role {
            Role::Admin | Role::TenantAdmin => true,
            Role::User => owner.is_some_and(|owner| owner.role != Role::Admin && owner.user == self.user),
            Role::Viewer | Role::Node | Role::Switch => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            format!("'{text}' is not a role; roles are admin, tenant-admin, user, viewer and node")
        })
    }
}
