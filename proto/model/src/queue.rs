//! Queues: how tenants share what there is.

use crate::{QueueName, TenantName, Timestamp};

/// A queue of a tenant. The tenant itself is the root of its queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Whose it is.
    pub tenant: TenantName,
    /// Its name, unique within the tenant.
    pub name: QueueName,
    /// The queue that it is part of; `None`: right below the tenant.
    pub parent: Option<QueueName>,
    /// What its jobs can always have; part of its parent's.
    pub guaranteed: Shape,
    /// GPUs that its jobs hold at most, borrowed ones too; `None`: as many as are free.
    pub limit: Option<u32>,
    /// Share of what is free, against its siblings' weights; at least 1.
    pub weight: u32,
    /// Never reused.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When it was made.
    pub created: Timestamp,
}

/// Quota by usable shape: whole pods, further whole nodes, further single GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Shape {
    /// Whole pods.
    pub pods: u32,
    /// Whole nodes beside them.
    pub nodes: u32,
    /// Single GPUs beside them.
    pub gpus: u32,
}

impl Shape {
    /// Nothing at all.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}
