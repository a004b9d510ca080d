//! Service classes.

use proto_model::{ClassMembers, ServiceClass, TenantName};

use super::{duration_to_row, role_to_row, time_to_row};
use crate::v1;

/// Nothing that is at its default is written.
fn set<T: PartialEq + Default>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

fn spec_to_row(class: &ServiceClass) -> v1::ServiceClassSpec {
    let within = |(tenant, name): (&TenantName, &str)| format!("{tenant}/{name}");
    let ClassMembers { tenants, queues, users, roles } = &class.members;
    v1::ServiceClassSpec {
        description: class.description.clone(),
        members: set(v1::ServiceClassMembers {
            tenants: tenants.iter().map(ToString::to_string).collect(),
            queues: queues.iter().map(|(tenant, queue)| within((tenant, queue.as_str()))).collect(),
            users: users.iter().map(|(tenant, user)| within((tenant, user))).collect(),
            roles: roles.iter().map(|role| role_to_row(*role).into()).collect(),
        }),
        default_class: class.default_class,
        job: set(v1::JobLimits {
            priority_min: class.job.priority_min,
            priority_max: class.job.priority_max,
            priority_default: class.job.priority_default,
            time_limit_max: class.job.time_limit_max.map(duration_to_row),
            time_limit_default: class.job.time_limit_default.map(duration_to_row),
            nodes_max: class.job.nodes_max,
            gpus_max: class.job.gpus_max,
            grace_period_max: class.job.grace_period_max.map(duration_to_row),
        }),
        user: set(v1::UserLimits {
            jobs_running: class.user.jobs_running,
            jobs_waiting: class.user.jobs_waiting,
            gpus: class.user.gpus,
        }),
        preemption: set(v1::ClassPreemption {
            preempts: Some(class.preemption.preempts).filter(|preempts| !preempts),
            preemptible: class.preemption.preemptible,
            grace_period: class.preemption.grace_period.map(duration_to_row),
        }),
    }
}

impl From<&ServiceClass> for v1::ServiceClass {
    /// What is used follows from the jobs, and is not stored.
    fn from(class: &ServiceClass) -> Self {
        Self {
            metadata: Some(v1::Metadata {
                name: class.name.to_string(),
                uid: class.uid.clone(),
                generation: class.generation,
                create_time: Some(time_to_row(class.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(spec_to_row(class)),
        }
    }
}
