//! Service classes.

use std::time::Duration;

use proto_wire::v1;

use super::{Table, words};
use crate::error::human;

fn duration(wire: Option<prost_types::Duration>) -> String {
    wire.map(|wire| human(Duration::try_from(wire).unwrap_or_default())).unwrap_or_default()
}

fn number(count: Option<u32>) -> String {
    count.map(|count| count.to_string()).unwrap_or_default()
}

/// The range of priorities: `-10..50`; open ends are left out.
fn priorities(job: &v1::JobLimits) -> String {
    let text = |bound: Option<i32>| bound.map(|bound| bound.to_string()).unwrap_or_default();
    match (job.priority_min, job.priority_max) {
        (None, None) => String::new(),
        (least, most) => format!("{}..{}", text(least), text(most)),
    }
}

/// Whose jobs may be of it.
fn members(spec: &v1::ServiceClassSpec) -> String {
    let members = spec.members.clone().unwrap_or_default();
    let roles: Vec<String> = members.roles.iter().map(|role| words::role(*role).to_owned()).collect();
    let lists = [
        ("tenants", members.tenants),
        ("queues", members.queues),
        ("users", members.users),
        ("roles", roles),
    ];
    let given = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let given: Vec<String> = given.map(|(what, list)| format!("{what} {}", list.join(","))).collect();
    if given.is_empty() { "everybody".to_owned() } else { given.join("; ") }
}

/// A list of service classes.
#[must_use]
pub fn service_classes(list: &[v1::ServiceClass]) -> Table {
    let mut table = Table::new([
        "CLASS",
        "DEFAULT",
        "PRIORITY",
        "TIME",
        "NODES",
        "GPUS",
        "USER-JOBS",
        "USER-WAITING",
        "USER-GPUS",
        "RUNNING",
        "WAITING",
    ]);
    for class in list {
        let spec = class.spec.clone().unwrap_or_default();
        let (job, user) = (spec.job.unwrap_or_default(), spec.user.unwrap_or_default());
        let status = class.status.unwrap_or_default();
        table.row([
            class.metadata.clone().unwrap_or_default().name,
            if spec.default_class { "yes".to_owned() } else { String::new() },
            priorities(&job),
            duration(job.time_limit_max),
            number(job.nodes_max),
            number(job.gpus_max),
            number(user.jobs_running),
            number(user.jobs_waiting),
            number(user.gpus),
            status.jobs_running.to_string(),
            status.jobs_waiting.to_string(),
        ]);
    }
    table
}

/// Facts about a service class.
#[must_use]
pub fn class_facts(class: &v1::ServiceClass) -> Vec<(&'static str, String)> {
    let spec = class.spec.clone().unwrap_or_default();
    let (job, user) = (spec.job.unwrap_or_default(), spec.user.unwrap_or_default());
    let (preemption, status) = (spec.preemption.unwrap_or_default(), class.status.unwrap_or_default());
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    vec![
        ("Description", spec.description.clone()),
        ("For", members(&spec)),
        ("Default", yes(spec.default_class)),
        ("Priorities", priorities(&job)),
        ("Default priority", job.priority_default.map(|one| one.to_string()).unwrap_or_default()),
        ("Longest", duration(job.time_limit_max)),
        ("Default time", duration(job.time_limit_default)),
        ("Most nodes", number(job.nodes_max)),
        ("Most GPUs", number(job.gpus_max)),
        ("Longest grace", duration(job.grace_period_max)),
        ("User's jobs", number(user.jobs_running)),
        ("User's waiting", number(user.jobs_waiting)),
        ("User's GPUs", number(user.gpus)),
        ("Preempts", yes(preemption.preempts.unwrap_or(true))),
        ("Preemptible", preemption.preemptible.map(yes).unwrap_or_default()),
        ("Grace", duration(preemption.grace_period)),
        ("Jobs", format!("{} running, {} waiting", status.jobs_running, status.jobs_waiting)),
        ("GPUs used", status.gpus_used.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_class_allows_is_in_its_row() {
        let job = v1::JobLimits {
            priority_max: Some(50),
            time_limit_max: Some(prost_types::Duration { seconds: 3600, nanos: 0 }),
            gpus_max: Some(16),
            ..v1::JobLimits::default()
        };
        let members = v1::ServiceClassMembers {
            tenants: vec!["nlp".into()],
            roles: vec![v1::Role::User.into()],
            ..v1::ServiceClassMembers::default()
        };
        let spec = v1::ServiceClassSpec {
            members: Some(members),
            default_class: true,
            job: Some(job),
            ..v1::ServiceClassSpec::default()
        };
        let metadata = v1::Metadata { name: "short".into(), ..v1::Metadata::default() };
        let class =
            v1::ServiceClass { metadata: Some(metadata), spec: Some(spec), ..v1::ServiceClass::default() };
        let text = service_classes(std::slice::from_ref(&class)).render("");
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["short", "yes", "..50", "1h", "-", "16", "-", "-", "-", "0", "0"], "{text}");
        let facts = class_facts(&class);
        assert_eq!(facts[1].1, "tenants nlp; roles user");
        assert!(facts.contains(&("Preempts", "yes".to_owned())));
    }
}
