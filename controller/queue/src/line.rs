//! What waiting jobs of one tenant and queue have in common within one pass: looked up once.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use proto_model::{QueueName, TenantName};

/// Jobs of one tenant in one of its queues, or in none.
pub(crate) struct TenantQueue {
    /// The queue with those above it, up to the tenant.
    pub(crate) path: Vec<Option<QueueName>>,
    /// The limits that concern all of them, by their numbers in the plan.
    pub(crate) quotas: Rc<[usize]>,
}

/// Of a tenant, and a queue of it.
type Key<'a> = (&'a TenantName, Option<&'a QueueName>);

/// What a pass has looked up so far.
#[derive(Default)]
pub(crate) struct TenantQueues<'a> {
    /// `None`: a queue or the tenant is not known.
    pub(crate) lines: BTreeMap<Key<'a>, Option<Rc<TenantQueue>>>,
    /// What estimates turned out to be, by tenant and doublings of GPUs.
    pub(crate) errors: RefCell<BTreeMap<(&'a TenantName, u32), [u32; 3]>>,
}
