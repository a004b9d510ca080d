//! Queues: made, changed and removed.

use std::sync::Arc;

use controller_state::CoreError;
use proto_model::{Queue, QueueName, TenantName};

use crate::{context::Step, event::Reply};

/// Queues at most.
const MAX_QUEUES: usize = 10_000;

impl Step<'_> {
    pub(crate) fn apply_queue(&mut self, queue: Queue, dry_run: bool) -> Result<Reply, CoreError> {
        let key = (queue.tenant.clone(), queue.name.clone());
        let Some(tenant) = self.state.base.tenants.get(&queue.tenant) else {
            return Err(CoreError::TenantUnknown { tenant: queue.tenant, nearest: None });
        };
        let quota = tenant.quota;
        self.state.check_parents(&queue)?;
        self.state.check_guarantee(&queue, quota)?;
        let old = self.state.base.queues.get(&key).cloned();
        let wanted = match &old {
            Some(old) => {
                Queue { uid: old.uid.clone(), generation: old.generation, created: old.created, ..queue }
            }
            None if self.state.base.queues.len() >= MAX_QUEUES => {
                let remedy = "delete some that are not used";
                return Err(CoreError::Full { what: "queues", limit: MAX_QUEUES, remedy });
            }
            None => Queue { uid: self.random_uid(), generation: 0, created: self.now, ..queue },
        };
        if let Some(old) = old.filter(|old| **old == wanted) {
            return Ok(Reply::Queue(old));
        }
        let queue = Arc::new(Queue { generation: wanted.generation + 1, ..wanted });
        if !dry_run {
            self.state.put(Arc::clone(&queue));
            self.request_scheduling_pass();
        }
        Ok(Reply::Queue(queue))
    }

    pub(crate) fn delete_queue(&mut self, tenant: &TenantName, name: &QueueName) -> Result<Reply, CoreError> {
        if self.state.queue(tenant, name).is_none() {
            return Err(self.state.no_queue(tenant, name));
        }
        let within = self.state.queues_of(tenant).filter(|queue| queue.parent.as_ref() == Some(name)).count();
        let jobs = self.state.jobs_in(tenant, name).count();
        if within > 0 || jobs > 0 {
            let (tenant, queue) = (tenant.clone(), name.clone());
            return Err(CoreError::QueueBusy { tenant, queue, jobs, within });
        }
        self.state.remove::<Queue>(&(tenant.clone(), name.clone()));
        self.request_scheduling_pass();
        Ok(Reply::Done)
    }
}
