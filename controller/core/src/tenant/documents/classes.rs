//! Service classes: made, changed and removed; which one a job is of, and what that allows.

use std::sync::Arc;

use controller_state::{CoreError, index::classes::ClassUse};
use proto_model::{ServiceClass, ServiceClassName, TenantName};

use crate::{context::Step, event::Reply};

/// Service classes at most.
const MAX_CLASSES: usize = 1000;

impl Step<'_> {
    pub(crate) fn apply_class(&mut self, class: ServiceClass, dry_run: bool) -> Result<Reply, CoreError> {
        let name = class.name.clone();
        let old = self.state.base.classes.get(&name).cloned();
        let wanted = match &old {
            Some(old) => ServiceClass {
                uid: old.uid.clone(),
                generation: old.generation,
                created: old.created,
                ..class
            },
            None if self.state.base.classes.len() >= MAX_CLASSES => {
                let remedy = "delete some that are not used";
                return Err(CoreError::Full { what: "service classes", limit: MAX_CLASSES, remedy });
            }
            None => ServiceClass { uid: self.random_uid(), generation: 0, created: self.now, ..class },
        };
        if let Some(old) = old.filter(|old| **old == wanted) {
            return Ok(Reply::ServiceClass(old));
        }
        let class = Arc::new(ServiceClass { generation: wanted.generation + 1, ..wanted });
        if !dry_run {
            self.state.put(Arc::clone(&class));
            self.request_scheduling_pass();
        }
        Ok(Reply::ServiceClass(class))
    }

    pub(crate) fn delete_class(&mut self, name: &ServiceClassName) -> Result<Reply, CoreError> {
        if self.state.service_class(name).is_none() {
            return Err(self.state.no_class(name));
        }
        let ClassUse { waiting, running, .. } = self.state.class_use(name, None);
        if waiting + running > 0 {
            return Err(CoreError::ClassBusy { class: name.clone(), jobs: waiting.saturating_add(running) });
        }
        self.state.remove::<ServiceClass>(name);
        Ok(Reply::Done)
    }

    /// A later tenant of that name must not come into what was for this one. A class that would then be for everybody keeps
    /// the tenant.
    pub(crate) fn leave_classes(&mut self, tenant: &TenantName) -> Result<(), CoreError> {
        let classes: Vec<Arc<ServiceClass>> = self.state.base.classes.values().cloned().collect();
        for class in classes {
            let mut left = (*class).clone();
            let members = &mut left.members;
            members.tenants.retain(|name| name != tenant);
            members.queues.retain(|(name, _)| name != tenant);
            members.users.retain(|(name, _)| name != tenant);
            let was = &class.members;
            let opened = members.tenants.is_empty() && !was.tenants.is_empty()
                || members.queues.is_empty() && !was.queues.is_empty()
                || members.users.is_empty() && !was.users.is_empty();
            if opened {
                return Err(CoreError::ClassOfTenant { tenant: tenant.clone(), class: class.name.clone() });
            }
            if left != *class {
                left.generation += 1;
                self.state.put(Arc::new(left));
            }
        }
        Ok(())
    }
}
