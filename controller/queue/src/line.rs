//! What waiting jobs of one tenant and queue have in common within one pass: looked up once.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use proto_model::{QueueName, TenantName};

use crate::{entry::Entry, pass::Pass};

/// Jobs of one tenant in one of its queues, or in none.
pub(crate) struct TenantQueue {
    /// The queue with those above it, up to the tenant.
    pub(crate) path: Vec<Option<QueueName>>,
    /// The limits that concern all of them, by their numbers in the plan.
    quotas: Rc<[usize]>,
}

/// Of a tenant, and a queue of it.
type Key<'a> = (&'a TenantName, Option<&'a QueueName>);

/// What a pass has looked up so far.
#[derive(Default)]
pub(crate) struct TenantQueues<'a> {
    /// `None`: a queue or the tenant is not known.
    lines: BTreeMap<Key<'a>, Option<Rc<TenantQueue>>>,
    /// What estimates turned out to be, by tenant and doublings of GPUs.
    errors: RefCell<BTreeMap<(&'a TenantName, u32), [u32; 3]>>,
}

impl<'a> Pass<'a> {
    /// The line of a job; `None` if its queue, one above it or its tenant is not known.
    pub(crate) fn line(&mut self, entry: &'a Entry) -> Option<Rc<TenantQueue>> {
        let key = (&entry.id.tenant, entry.queue.as_ref());
        if let Some(line) = self.lines.lines.get(&key) {
            return line.clone();
        }
        let line = self.queue_state.path(entry).map(|path| {
            let quotas = self.plan.limits(self.queue_state, &entry.id.tenant, &path, self.now).into();
            Rc::new(TenantQueue { path, quotas })
        });
        self.lines.lines.insert(key, line.clone());
        line
    }

    /// The limits that concern a job of a line.
    pub(crate) fn quotas(&mut self, entry: &Entry, line: &TenantQueue) -> Rc<[usize]> {
        let array = self.plan.array_limit(self.queue_state, entry, self.now);
        let class = self.plan.class_limits(self.queue_state, entry, self.now);
        let licenses = self.plan.license_limits(self.queue_state, entry, self.now);
        if array.is_none() && class.is_empty() && licenses.is_empty() {
            return Rc::clone(&line.quotas);
        }
        line.quotas.iter().copied().chain(array).chain(class).chain(licenses).collect()
    }

    /// What estimates of jobs like this one turned out to be.
    pub(crate) fn error(&self, entry: &'a Entry) -> [u32; 3] {
        let size = entry.gpus(entry.need.nodes).max(1).ilog2();
        let mut errors = self.lines.errors.borrow_mut();
        *errors.entry((&entry.id.tenant, size)).or_insert_with(|| self.queue_state.error(entry))
    }
}
