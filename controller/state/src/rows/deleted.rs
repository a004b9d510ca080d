//! What was deleted and can be brought back for a time.

use std::{fmt, sync::Arc};

use proto_model::{
    Fabric, JobSchedule, Queue, Reservation, ServiceClass, Tenant, TenantName, Timestamp, Webhook,
};

/// Which deleted thing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeletedKey {
    /// The fabric document of this name.
    Fabric(String),
    /// The tenant of this name.
    Tenant(TenantName),
}

impl fmt::Display for DeletedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fabric(name) => write!(f, "fabric/{name}"),
            Self::Tenant(name) => write!(f, "tenant/{name}"),
        }
    }
}

/// Something that was deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct Tombstone {
    /// Which thing was deleted.
    pub key: DeletedKey,
    /// When it was deleted, by the controller's clock.
    pub deleted: Timestamp,
    /// Who has asked for it.
    pub by: String,
    /// What is kept of it.
    pub content: DeletedContent,
}

/// What is kept of something that was deleted.
#[derive(Debug, Clone, PartialEq)]
pub enum DeletedContent {
    /// The document.
    Fabric(Arc<Fabric>),
    /// The tenant, and what went along.
    Tenant(Box<DeletedTenant>),
}

/// What is kept of a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct DeletedTenant {
    /// It.
    pub tenant: Arc<Tenant>,
    /// Its queues, each behind the one that it is within.
    pub queues: Vec<Arc<Queue>>,
    /// Its schedules of jobs.
    pub schedules: Vec<Arc<JobSchedule>>,
    /// Its webhooks. They hold secrets.
    pub webhooks: Vec<Arc<Webhook>>,
    /// Reservations that it had a share in, with itself alone.
    pub reservations: Vec<Arc<Reservation>>,
    /// Service classes that named it, with its own members alone.
    pub classes: Vec<Arc<ServiceClass>>,
    /// Documents that were too many to be kept.
    pub left_out: u32,
}
