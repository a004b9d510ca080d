//! Service classes.

use std::{collections::BTreeSet, fmt::Display, time::Duration};

use proto_model::{
    ClassMembers, ClassPreemption, JobLimits, NameError, QueueName, Role, ServiceClass, ServiceClassName,
    TenantName, UserLimits,
};

use super::{
    API_VERSION, FieldErrors, Fields, common::duration, duration_to_wire, fields::bounded, metadata,
    role_from_wire, role_to_wire, time_from_wire, time_to_wire,
};
use crate::v1;

/// Entries of one list of members at most.
const MAX_MEMBERS: usize = 4096;
/// Characters of a user's name at most.
const MAX_USER: usize = 128;

/// A list without repetition; each entry is read by `read`.
fn list<W, T: Ord, E: Display>(
    fields: &mut Fields,
    field: &str,
    wire: Vec<W>,
    read: impl Fn(W) -> Result<T, E>,
) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    if !bounded(fields, field, &wire, MAX_MEMBERS) {
        return set;
    }
    for (index, entry) in wire.into_iter().enumerate() {
        let at = format!("{field}[{index}]");
        if let Some(entry) = fields.take(&at, read(entry))
            && !set.insert(entry)
        {
            fields.fail(&at, "is given twice");
        }
    }
    set
}

/// Reads `TENANT/NAME`; `read` reads the name.
fn within<T>(
    text: &str,
    what: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(TenantName, T), String> {
    let (tenant, name) = text.split_once('/').ok_or_else(|| format!("write TENANT/{what}"))?;
    let tenant = TenantName::new(tenant).map_err(|error| error.to_string())?;
    Ok((tenant, read(name)?))
}

fn user(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > MAX_USER || !name.chars().all(plain) {
        return Err(format!("a user has 1 to {MAX_USER} of a-z A-Z 0-9 . _ -"));
    }
    Ok(name.to_owned())
}

fn role(number: i32) -> Result<Role, FieldErrors> {
    let person = |role: &Role| matches!(role, Role::Admin | Role::TenantAdmin | Role::User);
    let wrong =
        || FieldErrors::one("", "nobody of this role submits jobs; write ADMIN, TENANT_ADMIN or USER");
    role_from_wire(number).and_then(|role| Some(role).filter(person).ok_or_else(wrong))
}

fn members(fields: &mut Fields, wire: v1::ServiceClassMembers) -> ClassMembers {
    let queue = |name: &str| QueueName::new(name).map_err(|error: NameError| error.to_string());
    ClassMembers {
        tenants: list(fields, "spec.members.tenants", wire.tenants, TenantName::new),
        queues: list(fields, "spec.members.queues", wire.queues, |text| within(&text, "QUEUE", queue)),
        users: list(fields, "spec.members.users", wire.users, |text| within(&text, "USER", user)),
        roles: list(fields, "spec.members.roles", wire.roles, role),
    }
}

fn job_limits(fields: &mut Fields, wire: v1::JobLimits) -> JobLimits {
    let priorities = [
        ("spec.job.priorityMin", wire.priority_min),
        ("spec.job.priorityMax", wire.priority_max),
        ("spec.job.priorityDefault", wire.priority_default),
    ];
    for (field, priority) in priorities {
        if let Some(wrong) = priority.filter(|priority| !(-1000..=1000).contains(priority)) {
            fields.fail(field, format!("{wrong} is out of range; it must be from -1000 to 1000"));
        }
    }
    let (least, most) = (wire.priority_min.unwrap_or(-1000), wire.priority_max.unwrap_or(1000));
    if least > most {
        fields.fail("spec.job.priorityMin", format!("{least} is more than priorityMax, {most}"));
    } else if let Some(wrong) = wire.priority_default.filter(|default| !(least..=most).contains(default)) {
        fields.fail("spec.job.priorityDefault", format!("{wrong} is not from {least} to {most}"));
    }
    let time_limit_max = positive(fields, "spec.job.timeLimitMax", wire.time_limit_max);
    let time_limit_default = positive(fields, "spec.job.timeLimitDefault", wire.time_limit_default);
    if time_limit_max.zip(time_limit_default).is_some_and(|(most, default)| default > most) {
        fields.fail("spec.job.timeLimitDefault", "is longer than timeLimitMax");
    }
    if wire.nodes_max == Some(0) {
        fields.fail("spec.job.nodesMax", "must be at least 1: every job has a node");
    }
    JobLimits {
        priority_min: wire.priority_min,
        priority_max: wire.priority_max,
        priority_default: wire.priority_default,
        time_limit_max,
        time_limit_default,
        nodes_max: wire.nodes_max,
        gpus_max: wire.gpus_max,
        grace_period_max: duration(fields, "spec.job.gracePeriodMax", wire.grace_period_max),
    }
}

fn positive(fields: &mut Fields, field: &str, wire: Option<prost_types::Duration>) -> Option<Duration> {
    let duration = duration(fields, field, wire)?;
    if duration.is_zero() {
        fields.fail(field, "must be more than 0");
    }
    Some(duration)
}

impl TryFrom<v1::ServiceClass> for ServiceClass {
    type Error = FieldErrors;

    fn try_from(wire: v1::ServiceClass) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        super::fields::header(&mut fields, &wire.api_version, &wire.kind, "ServiceClass");
        let metadata = metadata::metadata(&mut fields, wire.metadata);
        metadata::unowned(&mut fields, &metadata);
        let spec = fields.present("spec", wire.spec).unwrap_or_default();
        let name = fields.take("metadata.name", ServiceClassName::new(&metadata.name));
        if spec.description.len() > 1024 {
            fields.fail("spec.description", "must be at most 1024 bytes long");
        }
        let members = members(&mut fields, spec.members.unwrap_or_default());
        let job = job_limits(&mut fields, spec.job.unwrap_or_default());
        let user = spec.user.unwrap_or_default();
        let preemption = spec.preemption.unwrap_or_default();
        let grace_period = duration(&mut fields, "spec.preemption.gracePeriod", preemption.grace_period);
        if job.grace_period_max.zip(grace_period).is_some_and(|(most, grace)| grace > most) {
            fields.fail("spec.preemption.gracePeriod", "is longer than job.gracePeriodMax");
        }
        let created =
            fields.nest("metadata.createTime", time_from_wire(metadata.create_time.unwrap_or_default()));
        let class = name.zip(created).map(|(name, created)| Self {
            name,
            uid: metadata.uid,
            generation: metadata.generation,
            created,
            description: spec.description,
            members,
            default_class: spec.default_class,
            job,
            user: UserLimits {
                jobs_running: user.jobs_running,
                jobs_waiting: user.jobs_waiting,
                gpus: user.gpus,
            },
            preemption: ClassPreemption {
                preempts: preemption.preempts.unwrap_or(true),
                preemptible: preemption.preemptible,
                grace_period,
            },
        });
        fields.finish(class)
    }
}

/// Nothing that is at its default is written.
fn set<T: PartialEq + Default>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

fn spec_to_wire(class: &ServiceClass) -> v1::ServiceClassSpec {
    let within = |(tenant, name): (&TenantName, &str)| format!("{tenant}/{name}");
    let ClassMembers { tenants, queues, users, roles } = &class.members;
    v1::ServiceClassSpec {
        description: class.description.clone(),
        members: set(v1::ServiceClassMembers {
            tenants: tenants.iter().map(ToString::to_string).collect(),
            queues: queues.iter().map(|(tenant, queue)| within((tenant, queue.as_str()))).collect(),
            users: users.iter().map(|(tenant, user)| within((tenant, user))).collect(),
            roles: roles.iter().map(|role| role_to_wire(*role).into()).collect(),
        }),
        default_class: class.default_class,
        job: set(v1::JobLimits {
            priority_min: class.job.priority_min,
            priority_max: class.job.priority_max,
            priority_default: class.job.priority_default,
            time_limit_max: class.job.time_limit_max.map(duration_to_wire),
            time_limit_default: class.job.time_limit_default.map(duration_to_wire),
            nodes_max: class.job.nodes_max,
            gpus_max: class.job.gpus_max,
            grace_period_max: class.job.grace_period_max.map(duration_to_wire),
        }),
        user: set(v1::UserLimits {
            jobs_running: class.user.jobs_running,
            jobs_waiting: class.user.jobs_waiting,
            gpus: class.user.gpus,
        }),
        preemption: set(v1::ClassPreemption {
            preempts: Some(class.preemption.preempts).filter(|preempts| !preempts),
            preemptible: class.preemption.preemptible,
            grace_period: class.preemption.grace_period.map(duration_to_wire),
        }),
    }
}

impl From<&ServiceClass> for v1::ServiceClass {
    /// The status (what is used) is added by whoever knows the jobs.
    fn from(class: &ServiceClass) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "ServiceClass".to_owned(),
            metadata: Some(v1::Metadata {
                name: class.name.to_string(),
                uid: class.uid.clone(),
                generation: class.generation,
                create_time: Some(time_to_wire(class.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(spec_to_wire(class)),
            status: None,
        }
    }
}
