//! Service classes.

use std::{collections::BTreeSet, fmt::Display, time::Duration};

use proto_model::{
    ClassMembers, ClassPreemption, JobLimits, NameError, QueueName, Role, ServiceClass, ServiceClassName,
    TenantName, UserLimits,
};

use super::{common::duration, metadata, role_from_row, time_from_row};
use crate::v1;
use proto_model::fields::{FieldErrors, Fields, bounded};

/// Entries of one list of members at most.
const MAX_MEMBERS: usize = 4096;

/// Characters of a user's name at most.
const MAX_USER: usize = 128;

/// A list without repetition; each entry is read by `read`.
fn list<W, T: Ord, E: Display>(
    fields: &mut Fields,
    field: &str,
    row: Vec<W>,
    read: impl Fn(W) -> Result<T, E>,
) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    if !bounded(fields, field, &row, MAX_MEMBERS) {
        return set;
    }
    for (index, entry) in row.into_iter().enumerate() {
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
    role_from_row(number).and_then(|role| Some(role).filter(person).ok_or_else(wrong))
}

fn members(fields: &mut Fields, row: v1::ServiceClassMembers) -> ClassMembers {
    let queue = |name: &str| QueueName::new(name).map_err(|error: NameError| error.to_string());
    ClassMembers {
        tenants: list(fields, "spec.members.tenants", row.tenants, TenantName::new),
        queues: list(fields, "spec.members.queues", row.queues, |text| within(&text, "QUEUE", queue)),
        users: list(fields, "spec.members.users", row.users, |text| within(&text, "USER", user)),
        roles: list(fields, "spec.members.roles", row.roles, role),
    }
}

fn job_limits(fields: &mut Fields, row: v1::JobLimits) -> JobLimits {
    let priorities = [
        ("spec.job.priorityMin", row.priority_min),
        ("spec.job.priorityMax", row.priority_max),
        ("spec.job.priorityDefault", row.priority_default),
    ];
    for (field, priority) in priorities {
        if let Some(wrong) = priority.filter(|priority| !(-1000..=1000).contains(priority)) {
            fields.fail(field, format!("{wrong} is out of range; it must be from -1000 to 1000"));
        }
    }
    let (least, most) = (row.priority_min.unwrap_or(-1000), row.priority_max.unwrap_or(1000));
    if least > most {
        fields.fail("spec.job.priorityMin", format!("{least} is more than priorityMax, {most}"));
    } else if let Some(wrong) = row.priority_default.filter(|default| !(least..=most).contains(default)) {
        fields.fail("spec.job.priorityDefault", format!("{wrong} is not from {least} to {most}"));
    }
    let time_limit_max = positive(fields, "spec.job.timeLimitMax", row.time_limit_max);
    let time_limit_default = positive(fields, "spec.job.timeLimitDefault", row.time_limit_default);
    if time_limit_max.zip(time_limit_default).is_some_and(|(most, default)| default > most) {
        fields.fail("spec.job.timeLimitDefault", "is longer than timeLimitMax");
    }
    if row.nodes_max == Some(0) {
        fields.fail("spec.job.nodesMax", "must be at least 1: every job has a node");
    }
    JobLimits {
        priority_min: row.priority_min,
        priority_max: row.priority_max,
        priority_default: row.priority_default,
        time_limit_max,
        time_limit_default,
        nodes_max: row.nodes_max,
        gpus_max: row.gpus_max,
        grace_period_max: duration(fields, "spec.job.gracePeriodMax", row.grace_period_max),
    }
}

fn positive(fields: &mut Fields, field: &str, row: Option<prost_types::Duration>) -> Option<Duration> {
    let duration = duration(fields, field, row)?;
    if duration.is_zero() {
        fields.fail(field, "must be more than 0");
    }
    Some(duration)
}

impl TryFrom<v1::ServiceClass> for ServiceClass {
    type Error = FieldErrors;

    fn try_from(row: v1::ServiceClass) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = metadata::metadata(&mut fields, row.metadata);
        metadata::unowned(&mut fields, &metadata);
        let spec = fields.present("spec", row.spec).unwrap_or_default();
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
            fields.nest("metadata.createTime", time_from_row(metadata.create_time.unwrap_or_default()));
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
