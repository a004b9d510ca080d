//! Service classes: what jobs of one kind may ask for, and what their users may have at once.

use std::{collections::BTreeSet, time::Duration};

use crate::{Authority, QueueName, Role, ServiceClassName, TenantName, Timestamp};

/// A service class: limits and rights that a job takes by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceClass {
    /// Name of the service class, unique in the cluster.
    pub name: ServiceClassName,
    /// Identifier of this very class; a later one of the same name has another.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When it was made.
    pub created: Timestamp,
    /// A text for people; may be empty.
    pub description: String,
    /// Whose jobs may be of it.
    pub members: ClassMembers,
    /// Jobs of its members that name no class are of it.
    pub default_class: bool,
    /// What one job may ask for.
    pub job: JobLimits,
    /// What one user may have in it at once.
    pub user: UserLimits,
    /// Which jobs are stopped for which.
    pub preemption: ClassPreemption,
}

/// Whose jobs may be of a class: all that is given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassMembers {
    /// Jobs of these tenants.
    pub tenants: BTreeSet<TenantName>,
    /// Jobs of these queues, and of those within them.
    pub queues: BTreeSet<(TenantName, QueueName)>,
    /// Jobs that these have submitted.
    pub users: BTreeSet<(TenantName, String)>,
    /// Jobs that somebody of these roles has submitted.
    pub roles: BTreeSet<Role>,
}

/// What decides of which class a job may be.
#[derive(Debug, Clone, Copy)]
pub struct Applicant<'a> {
    /// The tenant that the job belongs to.
    pub tenant: &'a TenantName,
    /// Its queue with those above it.
    pub queues: &'a [QueueName],
    /// Who has submitted it.
    pub by: &'a Authority,
}

impl ClassMembers {
    /// How exactly it names somebody; `None` if it does not. The higher, the more exactly: a user, a queue, a role, a tenant, all.
    #[must_use]
    pub fn fit(&self, applicant: Applicant<'_>) -> Option<u8> {
        let Applicant { tenant, queues, by } = applicant;
        let user = by.role != Role::Admin && self.users.contains(&(tenant.clone(), by.user.clone()));
        let queue = queues.iter().any(|queue| self.queues.contains(&(tenant.clone(), queue.clone())));
        let named = [
            (self.users.is_empty(), user, 4),
            (self.queues.is_empty(), queue, 3),
            (self.roles.is_empty(), self.roles.contains(&by.role), 2),
            (self.tenants.is_empty(), self.tenants.contains(tenant), 1),
        ];
        if named.iter().any(|(open, holds, _)| !open && !holds) {
            return None;
        }
        Some(named.iter().find(|(open, ..)| !open).map_or(0, |(.., fit)| *fit))
    }

    /// Whether anybody of a tenant can be among them.
    #[must_use]
    pub fn concern(&self, tenant: &TenantName) -> bool {
        let of = |open: bool, own: bool| open || own;
        of(self.tenants.is_empty(), self.tenants.contains(tenant))
            && of(self.queues.is_empty(), self.queues.iter().any(|(owner, _)| owner == tenant))
            && of(self.users.is_empty(), self.users.iter().any(|(owner, _)| owner == tenant))
    }
}

/// What one job of a class may ask for; `None`: anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobLimits {
    /// The lowest priority that a job may ask for; `None`: any.
    pub priority_min: Option<i32>,
    /// The highest; `None`: as high as the submitter's role may go without a class.
    pub priority_max: Option<i32>,
    /// Of jobs that give none, or 0.
    pub priority_default: Option<i32>,
    /// The longest time limit; a job without one has none that is short enough.
    pub time_limit_max: Option<Duration>,
    /// Of jobs that give none; `None`: the longest.
    pub time_limit_default: Option<Duration>,
    /// Nodes of the gang, its spares counted.
    pub nodes_max: Option<u32>,
    /// GPUs on all nodes, spares too.
    pub gpus_max: Option<u32>,
    /// The longest grace period, also of preemption.
    pub grace_period_max: Option<Duration>,
}

/// What one user may have in a class at once; `None`: any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UserLimits {
    /// Jobs that hold a place at a time; `None`: any number.
    pub jobs_running: Option<u32>,
    /// Jobs that wait in the queue.
    pub jobs_waiting: Option<u32>,
    /// GPUs that these jobs hold; `None`: any number.
    pub gpus: Option<u32>,
}

/// Which jobs of a class are stopped for which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassPreemption {
    /// Jobs of lower priority may be stopped for its jobs.
    pub preempts: bool,
    /// Its jobs may be stopped for others; `None`: as they say.
    pub preemptible: Option<bool>,
    /// Between signal and SIGKILL where a job does not say.
    pub grace_period: Option<Duration>,
}

impl Default for ClassPreemption {
    fn default() -> Self {
        Self { preempts: true, preemptible: None, grace_period: None }
    }
}

/// A user of a class: what a user may have is counted so.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassUser {
    /// The service class that the limits belong to.
    pub class: ServiceClassName,
    /// The tenant of the jobs.
    pub tenant: TenantName,
    /// An administrator of the cluster, and no user of the tenant of the same name.
    pub admin: bool,
    /// Who has submitted them; empty where an earlier release did not say.
    pub user: String,
}

impl ClassUser {
    /// Whose a job is.
    #[must_use]
    pub fn of(class: &ServiceClassName, tenant: &TenantName, by: Option<&Authority>) -> Self {
        let (admin, user) = by.map_or((false, String::new()), |by| (by.role == Role::Admin, by.user.clone()));
        Self { class: class.clone(), tenant: tenant.clone(), admin, user }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_named_most_exactly_fits_best() {
        let tenant: TenantName = "red".parse().unwrap();
        let queue: QueueName = "q".parse().unwrap();
        let by = Authority { role: Role::User, user: "ann".to_owned() };
        let queues = [queue.clone()];
        let ann = Applicant { tenant: &tenant, queues: &queues, by: &by };
        let all = ClassMembers::default();
        let tenants = ClassMembers { tenants: [tenant.clone()].into(), ..all.clone() };
        let roles = ClassMembers { roles: [Role::User].into(), ..all.clone() };
        let queued = ClassMembers { queues: [(tenant.clone(), queue)].into(), ..tenants.clone() };
        let users = ClassMembers { users: [(tenant.clone(), "ann".to_owned())].into(), ..all.clone() };
        let fits = [&all, &tenants, &roles, &queued, &users].map(|members| members.fit(ann));
        assert_eq!(fits, [Some(0), Some(1), Some(2), Some(3), Some(4)]);
        let others = ClassMembers { roles: [Role::Admin].into(), ..users };
        assert_eq!(others.fit(ann), None, "all that is given must hold");
        // An administrator of the cluster is not the user of the same name.
        let root = Authority { role: Role::Admin, user: "ann".to_owned() };
        let users = ClassMembers { roles: BTreeSet::new(), ..others };
        assert_eq!(users.fit(Applicant { by: &root, ..ann }), None);
        let blue = "blue".parse().unwrap();
        assert!(users.concern(&tenant) && !users.concern(&blue) && all.concern(&blue));
    }
}
