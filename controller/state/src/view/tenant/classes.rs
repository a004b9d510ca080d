//! Which service class a job is of, and what that allows.

use std::{sync::Arc, time::Duration};

use proto_model::{
    Applicant, Authority, ClassUser, JobSpec, QueueName, Role, ServiceClass, ServiceClassName, TenantName,
};

use crate::{
    error::{nearest::nearest, refusal::CoreError},
    index::classes::ClassUse,
    tables::state::State,
    view::tenant::documents::MAX_DEPTH,
};

impl State {
    /// A service class.
    #[must_use]
    pub fn service_class(&self, name: &ServiceClassName) -> Option<&Arc<ServiceClass>> {
        self.base.classes.get(name)
    }

    /// What jobs of a class use: those of one tenant, or all.
    #[must_use]
    pub fn class_use(&self, name: &ServiceClassName, of: Option<&TenantName>) -> ClassUse {
        let users = self.index.classes.get(name).into_iter().flatten();
        let own = users.filter(|(user, _)| of.is_none_or(|tenant| user.tenant == *tenant));
        own.fold(ClassUse::default(), |sum, (_, one)| sum.change(*one, true))
    }

    /// The queue with those above it, the nearest first.
    fn queue_path(&self, tenant: &TenantName, queue: Option<&QueueName>) -> Vec<QueueName> {
        let mut path: Vec<QueueName> = Vec::new();
        let mut at = queue.cloned();
        while let Some(name) = at.take() {
            if path.len() > MAX_DEPTH {
                break;
            }
            at = self.queue(tenant, &name).and_then(|queue| queue.parent.clone());
            path.push(name);
        }
        path
    }

    /// The refusal for a class that is not there, with the name that may have been meant.
    pub fn no_class(&self, name: &ServiceClassName) -> CoreError {
        let nearest = nearest(name.as_str(), self.base.classes.keys());
        CoreError::ClassNotFound { class: name.clone(), nearest }
    }

    /// The class that a job is of: the one that it names, or the default class that fits it best.
    ///
    /// # Errors
    /// The class that it names is not there for it, or not for its submitter.
    pub fn class_of(
        &self,
        tenant: &TenantName,
        by: &Authority,
        spec: &JobSpec,
    ) -> Result<Option<Arc<ServiceClass>>, CoreError> {
        if self.base.classes.is_empty() && spec.service_class.is_none() {
            return Ok(None);
        }
        let queues = self.queue_path(tenant, spec.queue.as_ref());
        let applicant = Applicant { tenant, queues: &queues, by };
        if let Some(name) = &spec.service_class {
            // One that is for others only is none: neither its name nor that it is there is told.
            let seen = |class: &&Arc<ServiceClass>| by.role == Role::Admin || class.members.concern(tenant);
            let Some(class) = self.base.classes.get(name).filter(seen) else {
                let names = self.base.classes.values().filter(seen).map(|class| &class.name);
                let nearest = nearest(name.as_str(), names);
                return Err(CoreError::ClassNotFound { class: name.clone(), nearest });
            };
            // Administrators put jobs where they like.
            let may = by.role == Role::Admin || class.members.fit(applicant).is_some();
            let refused = CoreError::ClassNotAllowed { class: name.clone() };
            return if may { Ok(Some(Arc::clone(class))) } else { Err(refused) };
        }
        let mut best: Option<(u8, &Arc<ServiceClass>)> = None;
        for class in self.base.classes.values().filter(|class| class.default_class) {
            if let Some(fit) = class.members.fit(applicant)
                && best.is_none_or(|(most, _)| fit > most)
            {
                best = Some((fit, class));
            }
        }
        Ok(best.map(|(_, class)| Arc::clone(class)))
    }

    /// Gives a job its class and what follows from it, and refuses what the class, or without one the submitter's role, does not allow.
    ///
    /// # Errors
    /// The class is not there for it, or does not allow what it asks for.
    pub fn classify(&self, tenant: &TenantName, by: &Authority, spec: &mut JobSpec) -> Result<(), CoreError> {
        let class = self.class_of(tenant, by, spec)?;
        if let Some(class) = &class {
            take_defaults(class, spec);
        }
        self.check_priority(by, class.as_deref(), spec.priority)?;
        let Some(class) = class else { return Ok(()) };
        if by.role != Role::Admin {
            within_limits(&class, spec, None)?;
        }
        Ok(())
    }

    /// Whether somebody may give a job this priority: it decides against other tenants' jobs too.
    ///
    /// # Errors
    /// It is beyond what the class, or the role, allows.
    pub fn check_priority(
        &self,
        by: &Authority,
        class: Option<&ServiceClass>,
        priority: i32,
    ) -> Result<(), CoreError> {
        let most = match by.role {
            Role::Admin => return Ok(()),
            Role::TenantAdmin => self.config.tenant_admin_priority,
            Role::User | Role::Viewer | Role::Node | Role::Switch => self.config.user_priority,
        };
        let limits = class.map(|class| &class.job);
        let least = limits.and_then(|limits| limits.priority_min).unwrap_or(i32::MIN);
        match (class, limits.and_then(|limits| limits.priority_max)) {
            (Some(class), allowed) if priority < least || allowed.is_some_and(|most| priority > most) => {
                let least = class.job.priority_min.unwrap_or(-1000);
                let allowed = format!("{least} to {}", allowed.unwrap_or(most.max(least)));
                let (class, asked) = (class.name.clone(), priority.to_string());
                Err(CoreError::ClassLimit { class, field: "spec.priority", asked, allowed })
            }
            (_, Some(_)) => Ok(()),
            (_, None) if priority <= most.max(least) => Ok(()),
            (_, None) => Err(CoreError::PriorityTooHigh { asked: priority, most, role: by.role }),
        }
    }

    /// Whether a user may have so many more waiting jobs of a class.
    ///
    /// # Errors
    /// So many of the class wait already.
    pub fn may_wait(
        &self,
        tenant: &TenantName,
        by: &Authority,
        spec: &JobSpec,
        new: usize,
    ) -> Result<(), CoreError> {
        let Some(class) = spec.service_class.as_ref().and_then(|name| self.base.classes.get(name)) else {
            return Ok(());
        };
        let Some(limit) = class.user.jobs_waiting else { return Ok(()) };
        let user = ClassUser::of(&class.name, tenant, Some(by));
        let users = self.index.classes.get(&class.name);
        let used = users.and_then(|users| users.get(&user)).map_or(0, |used| used.waiting);
        if used as usize + new > limit as usize {
            return Err(CoreError::ClassWaiting { class: class.name.clone(), user: user.user, used, limit });
        }
        Ok(())
    }
}

/// What a class gives to a job that does not say.
fn take_defaults(class: &ServiceClass, spec: &mut JobSpec) {
    spec.service_class = Some(class.name.clone());
    if spec.priority == 0 {
        set_priority(spec, class.job.priority_default.unwrap_or(0));
    }
    if spec.time_limit.is_none() {
        let given = class.job.time_limit_default.or(class.job.time_limit_max);
        // Not less than what it says that it will take.
        spec.time_limit = given.map(|given| given.max(spec.expected.unwrap_or_default()));
    }
    spec.preemption.preemptible = class.preemption.preemptible.unwrap_or(spec.preemption.preemptible);
    spec.preemption.grace = spec.preemption.grace.or(class.preemption.grace_period);
    if let Some(most) = class.job.grace_period_max.filter(|_| spec.grace_period == JobSpec::GRACE) {
        spec.grace_period = spec.grace_period.min(most);
    }
}

/// Another priority; what follows from it where the file does not say goes on to.
pub fn set_priority(spec: &mut JobSpec, priority: i32) {
    let default = |priority| proto_model::Preemption::of_priority(priority).preemptible;
    if spec.preemption.preemptible == default(spec.priority) {
        spec.preemption.preemptible = default(priority);
    }
    spec.priority = priority;
}

/// Refuses what a class does not allow one job; with `old`, only what differs from that.
///
/// # Errors
/// [`CoreError::ClassLimit`] with the first field that is beyond a limit.
pub fn within_limits(class: &ServiceClass, spec: &JobSpec, old: Option<&JobSpec>) -> Result<(), CoreError> {
    let limits = &class.job;
    let new = |same: bool| old.is_none() || !same;
    let over = |field, asked: String, most: String| {
        let allowed = format!("at most {most}");
        Err(CoreError::ClassLimit { class: class.name.clone(), field, asked, allowed })
    };
    let nodes = spec.gang.nodes.saturating_add(spec.placement.spares);
    let same = old.is_some_and(|old| {
        (old.gang, old.placement.spares) == (spec.gang, spec.placement.spares)
            && old.components == spec.components
    });
    if let Some(most) = limits.nodes_max.filter(|most| new(same) && nodes > *most) {
        return over("spec.gang.nodes", proto_model::many(nodes, "node"), most.to_string());
    }
    // An elastic job may start with what its user may have.
    let least = spec.gang.min_nodes.saturating_add(spec.placement.spares);
    let spares = spec.placement.spares;
    for (nodes, most) in [(nodes, limits.gpus_max), (least, class.user.gpus)] {
        let gpus = spec.gpus(nodes.saturating_sub(spares));
        if let Some(most) = most.filter(|most| new(same) && gpus > u64::from(*most)) {
            return over("spec.gang", proto_model::many(gpus, "GPU"), most.to_string());
        }
    }
    let same = old.is_some_and(|old| old.time_limit == spec.time_limit);
    if let Some(most) = limits.time_limit_max.filter(|_| new(same))
        && spec.time_limit.is_none_or(|limit| limit > most)
    {
        let asked = spec.time_limit.map_or_else(|| "no limit".to_owned(), seconds);
        return over("spec.timeLimit", asked, seconds(most));
    }
    // No change of a job changes its grace.
    if let Some(most) = limits.grace_period_max.filter(|_| old.is_none()) {
        let graces = [
            ("spec.gracePeriod", Some(spec.grace_period)),
            ("spec.preemption.gracePeriod", spec.preemption.grace),
        ];
        for (field, grace) in graces {
            if let Some(grace) = grace.filter(|grace| *grace > most) {
                return over(field, seconds(grace), seconds(most));
            }
        }
    }
    Ok(())
}

fn seconds(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{} s", duration.as_secs_f64()),
    }
}
