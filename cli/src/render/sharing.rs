//! Queues and reservations, and what a job asks of both.

use std::{fmt::Write as _, time::Duration};

use proto_model::many;
use proto_wire::v1;

use super::{Table, words};
use crate::error::human;

/// A shape in few letters: `1 pod, 2 nodes`.
#[must_use]
pub fn shape(shape: Option<v1::Shape>) -> String {
    let shape = shape.unwrap_or_default();
    let parts = [(shape.pods, "pod"), (shape.nodes, "node"), (shape.gpus, "GPU")];
    let part = |(count, what): &(u32, &str)| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{count} {what}s")),
    };
    parts.iter().filter_map(part).collect::<Vec<_>>().join(", ")
}

/// What the order of a queue is for: `MEAN_WAIT, patience 1d at 500 GPU-hours`; nothing where it says nothing.
fn objective(spec: &v1::QueueSpec) -> String {
    match spec.objective() {
        v1::queue_spec::Objective::Unspecified => String::new(),
        named => {
            let mut text = named.as_str_name().to_owned();
            if spec.patience.is_some() {
                let _ = write!(text, ", patience {}", duration(spec.patience));
            }
            if let Some(hours) = spec.full_delay_gpu_hours {
                let _ = write!(text, " at {hours} GPU-hours");
            }
            text
        }
    }
}

/// A list of queues, each below its parent.
#[must_use]
pub fn queues(list: &[v1::Queue]) -> Table {
    let mut table = Table::new([
        "QUEUE",
        "TENANT",
        "PARENT",
        "GUARANTEED",
        "LIMIT",
        "WEIGHT",
        "OBJECTIVE",
        "USED",
        "ACTIVE",
    ]);
    for queue in list {
        let metadata = queue.metadata.clone().unwrap_or_default();
        let spec = queue.spec.clone().unwrap_or_default();
        let status = queue.status.unwrap_or_default();
        table.row([
            metadata.name,
            metadata.tenant,
            spec.parent.clone(),
            shape(spec.guaranteed),
            spec.limit.map(|limit| limit.to_string()).unwrap_or_default(),
            spec.weight.unwrap_or(1).to_string(),
            objective(&spec),
            status.gpus_used.to_string(),
            status.jobs_active.to_string(),
        ]);
    }
    table
}

/// A time as text.
#[must_use]
pub fn stamp(time: Option<&prost_types::Timestamp>) -> String {
    let format = &time::format_description::well_known::Rfc3339;
    time.and_then(|time| time::OffsetDateTime::from_unix_timestamp(time.seconds).ok())
        .and_then(|at| at.format(format).ok())
        .unwrap_or_default()
}

fn duration(wire: Option<prost_types::Duration>) -> String {
    wire.map(|wire| human(Duration::try_from(wire).unwrap_or_default())).unwrap_or_default()
}

/// Which servers a reservation keeps.
fn kept(spec: &v1::ReservationSpec) -> String {
    match (spec.count, spec.pods_at_most) {
        (0, _) => spec.nodes.join(","),
        (count, 0) => format!("any {count}"),
        (count, 1) => format!("any {count} of 1 pod"),
        (count, pods) => format!("any {count} of {pods} pods"),
    }
}

fn whose(spec: &v1::ReservationSpec) -> String {
    if spec.maintenance { "(maintenance)".to_owned() } else { spec.tenants.join(",") }
}

fn phase(one: &v1::Reservation) -> &'static str {
    use v1::reservation_status::Phase;
    match one.status.map(|status| status.phase()).unwrap_or_default() {
        Phase::Unspecified => "",
        Phase::Waiting => "Waiting",
        Phase::Active => "Active",
        Phase::Over => "Over",
    }
}

/// A list of reservations.
#[must_use]
pub fn reservations(list: &[v1::Reservation], now: f64) -> Table {
    let mut table = Table::new(["RESERVATION", "PHASE", "START", "IN", "DURATION", "NODES", "FOR", "REASON"]);
    for one in list {
        let spec = one.spec.clone().unwrap_or_default();
        let ahead = spec.start.as_ref().map_or(0.0, |start| words::seconds(start) - now);
        let ahead = Duration::try_from_secs_f64(ahead.floor()).map(human).unwrap_or_default();
        table.row([
            one.metadata.clone().unwrap_or_default().name,
            phase(one).to_owned(),
            stamp(spec.start.as_ref()),
            ahead,
            duration(spec.duration),
            kept(&spec),
            whose(&spec),
            spec.reason.clone(),
        ]);
    }
    table
}

/// The labels that select a server, and the taints that keep jobs off it.
#[must_use]
pub fn node_marks(spec: &v1::NodeSpec) -> Vec<(&'static str, String)> {
    let mut labels: Vec<String> = spec.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.sort();
    let taint = |taint: &v1::Taint| match taint.value.as_str() {
        "" => taint.key.clone(),
        value => format!("{}={value}", taint.key),
    };
    let taints: Vec<String> = spec.taints.iter().map(taint).collect();
    vec![("Selectable", labels.join(", ")), ("Taints", taints.join(", "))]
}

/// Facts about a queue.
#[must_use]
pub fn queue_facts(queue: &v1::Queue) -> Vec<(&'static str, String)> {
    let spec = queue.spec.clone().unwrap_or_default();
    let status = queue.status.unwrap_or_default();
    vec![
        ("Parent", spec.parent.clone()),
        ("Guaranteed", shape(spec.guaranteed)),
        ("Limit", spec.limit.map(|limit| many(limit, "GPU")).unwrap_or_default()),
        ("Weight", spec.weight.unwrap_or(1).to_string()),
        ("Objective", objective(&spec)),
        ("GPUs used", status.gpus_used.to_string()),
        ("Jobs", format!("{} active", status.jobs_active)),
    ]
}

/// Facts about a reservation.
#[must_use]
pub fn reservation_facts(one: &v1::Reservation) -> Vec<(&'static str, String)> {
    let spec = one.spec.clone().unwrap_or_default();
    vec![
        ("Phase", phase(one).to_owned()),
        ("Start", stamp(spec.start.as_ref())),
        ("Duration", duration(spec.duration)),
        ("Nodes", kept(&spec)),
        ("For", whose(&spec)),
        ("Reason", spec.reason),
    ]
}

/// A word of the wire as people write it: `ALL_TO_ALL` is `all-to-all`.
fn word(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

/// Where a job wants to be; nothing if anywhere.
#[must_use]
pub fn place(spec: &v1::JobSpec) -> String {
    use v1::placement_request::{Arrange, Pattern, Within};
    let place = spec.placement.clone().unwrap_or_default();
    let mut asked = Vec::new();
    match place.within() {
        Within::Leaves => asked.push("on the same leaves".to_owned()),
        Within::Pod => asked.push("within a pod".to_owned()),
        Within::Fabric | Within::Unspecified => {}
    }
    for group in &place.groups {
        let strict = if group.required { "" } else { " if possible" };
        let within = if group.within() == Within::Leaves { "on the same leaves" } else { "within a pod" };
        asked.push(format!("groups of {} {within}{strict}", group.size));
    }
    if place.arrange() == Arrange::Spread {
        asked.push("spread".to_owned());
    }
    match place.pattern() {
        Pattern::AllToAll => asked.push("all-to-all".to_owned()),
        Pattern::Pipeline => asked.push(format!("pipeline of {}-node stages", place.stage_nodes)),
        Pattern::Ring | Pattern::Unspecified => {}
    }
    if place.exclusive {
        asked.push("exclusive".to_owned());
    }
    if !place.nodes.is_empty() {
        asked.push(format!("only {}", place.nodes.join(",")));
    }
    if !place.exclude.is_empty() {
        asked.push(format!("not {}", place.exclude.join(",")));
    }
    asked.join("; ")
}

/// Conditions on labels, as one line.
#[must_use]
pub fn selector(spec: &v1::JobSpec) -> String {
    let terms = spec.placement.iter().flat_map(|place| &place.selector).map(|term| match &term.any_of[..] {
        [] => condition(term),
        any => any.iter().map(condition).collect::<Vec<_>>().join(" or "),
    });
    terms.collect::<Vec<_>>().join(", ")
}

fn condition(term: &v1::SelectorTerm) -> String {
    use v1::selector_term::Operator;
    match term.operator() {
        Operator::In if term.values.len() == 1 => format!("{}={}", term.key, term.values[0]),
        Operator::In => format!("{} in ({})", term.key, term.values.join(",")),
        Operator::NotIn => format!("{} not in ({})", term.key, term.values.join(",")),
        Operator::Absent => format!("!{}", term.key),
        Operator::Exists | Operator::Unspecified => term.key.clone(),
    }
}

/// Models of GPU of which any will do.
fn models(spec: &v1::JobSpec) -> String {
    let models: Vec<&str> =
        spec.placement.iter().flat_map(|place| &place.gpu_model).map(String::as_str).collect();
    models.join(" or ")
}

/// What a job waits for, whose place it may take and who may take its.
#[must_use]
pub fn turn(job: &v1::Job) -> Vec<(&'static str, String)> {
    let spec = job.spec.clone().unwrap_or_default();
    let status = job.status.clone().unwrap_or_default();
    let after: Vec<String> =
        spec.after.iter().map(|one| format!("{} {}", one.job, word(one.when().as_str_name()))).collect();
    let element = status.array.as_ref();
    let element = element.map(|at| format!("{} of {} ({})", at.index, at.array, many(at.size, "element")));
    let failure = spec.failure.unwrap_or_default();
    let spares = spec.placement.as_ref().map_or(0, |place| place.spares);
    let count = |count: u32| if count == 0 { String::new() } else { count.to_string() };
    vec![
        ("Queue", spec.queue.clone()),
        ("Reservation", spec.reservation.clone()),
        ("Array", element.unwrap_or_else(|| spec.array.clone())),
        ("After", after.join(", ")),
        ("Begin", stamp(spec.begin_time.as_ref())),
        ("Start before", stamp(spec.start_before.as_ref())),
        ("Deadline", stamp(spec.deadline.as_ref())),
        ("Place", place(&spec)),
        ("GPU model", models(&spec)),
        ("Selector", selector(&spec)),
        ("Tolerates", tolerations(&spec)),
        ("Spares", if spares == 0 { String::new() } else { format!("{spares}, {}", replaced_by(failure)) }),
        ("Expected", duration(spec.expected_duration)),
        ("Preemption", preemption(&spec)),
        ("Certification", certification(&spec).to_owned()),
        ("Held by", holds(&status)),
        ("Preempted", count(status.preempted)),
        ("Restarts", count(status.restarts)),
        ("Replaced", count(status.replaced)),
        ("ETA", eta(&status)),
    ]
}

/// Who holds or suspends it, since when and why: of a job that runs its causes do not tell.
fn holds(status: &v1::JobStatus) -> String {
    let one = |hold: &v1::JobHold| {
        let how = if hold.suspended { "suspended by " } else { "" };
        let (role, since) = (super::role(hold.role), stamp(hold.since.as_ref()));
        let why = if hold.reason.is_empty() { String::new() } else { format!(": {}", hold.reason) };
        format!("{how}{} ({role}) since {since}{why}", hold.by)
    };
    status.holds.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn replaced_by(failure: v1::FailurePolicy) -> &'static str {
    use v1::failure_policy::Replace;
    match failure.replace() {
        Replace::Any => "then free nodes",
        _ => "for nodes that fail",
    }
}

fn tolerations(spec: &v1::JobSpec) -> String {
    let all = spec.placement.iter().flat_map(|place| &place.tolerations);
    let one = |one: &v1::Toleration| match (&one.key, &one.value) {
        (None, None) => "every taint".to_owned(),
        (Some(key), None) => key.clone(),
        (None, Some(value)) => format!("*={value}"),
        (Some(key), Some(value)) => format!("{key}={value}"),
    };
    all.map(one).collect::<Vec<_>>().join(", ")
}

fn certification(spec: &v1::JobSpec) -> &'static str {
    match spec.certification() {
        v1::job_spec::Certification::Unspecified => "",
        v1::job_spec::Certification::Warn => "before its ranks start, warnings only",
        v1::job_spec::Certification::Require => "required before its ranks start",
    }
}

fn preemption(spec: &v1::JobSpec) -> String {
    let Some(preemption) = &spec.preemption else { return String::new() };
    let mut said =
        vec![if preemption.preemptible() { "may be preempted" } else { "not preempted" }.to_owned()];
    if !preemption.signal.is_empty() {
        said.push(format!("by {}", preemption.signal));
    }
    for (what, time) in [
        ("grace", preemption.grace_period),
        ("checkpoint every", preemption.checkpoint_every),
        ("restart costs", preemption.restart_cost),
    ] {
        if time.is_some() {
            said.push(format!("{what} {}", duration(time)));
        }
    }
    said.join(", ")
}

/// When a queued job will probably start: `2026-08-20T10:00:00Z (09:50:00 to 10:30:00)`.
#[must_use]
pub fn eta(status: &v1::JobStatus) -> String {
    let Some(eta) = &status.eta else { return String::new() };
    let hour = |text: String| text.split_once('T').map(|(_, hour)| hour.to_owned()).unwrap_or_default();
    if eta.latest.is_none() {
        return format!("not before {}", stamp(eta.earliest.as_ref()));
    }
    let (earliest, latest) = (hour(stamp(eta.earliest.as_ref())), hour(stamp(eta.latest.as_ref())));
    format!("{} ({earliest} to {latest})", stamp(eta.start.as_ref()))
}

#[cfg(test)]
mod tests {
    use prost_types::{Duration as Wire, Timestamp};

    use super::*;

    #[test]
    fn a_table_of_queues() {
        let guaranteed = Some(v1::Shape { pods: 1, nodes: 2, gpus: 0 });
        let patience = Some(Wire { seconds: 86_400, nanos: 0 });
        let objective = v1::queue_spec::Objective::MeanWait.into();
        let spec = v1::QueueSpec {
            parent: "lab".into(),
            guaranteed,
            limit: Some(64),
            objective,
            patience,
            ..Default::default()
        };
        let metadata = v1::Metadata { name: "vision".into(), tenant: "nlp".into(), ..Default::default() };
        let queue = v1::Queue {
            metadata: Some(metadata),
            spec: Some(spec),
            status: Some(v1::QueueStatus { gpus_used: 8, jobs_active: 2 }),
            ..Default::default()
        };
        let expected = "QUEUE   TENANT  PARENT  GUARANTEED      LIMIT  WEIGHT  OBJECTIVE                 USED  ACTIVE\n\
                        vision  nlp     lab     1 pod, 2 nodes  64     1       MEAN_WAIT, patience 1d0h  8     2\n";
        assert_eq!(queues(&[queue]).render(""), expected);
    }

    #[test]
    fn a_table_of_reservations() {
        let spec = v1::ReservationSpec {
            nodes: vec!["gpu[001-004]".into()],
            start: Some(Timestamp { seconds: 7200, nanos: 0 }),
            duration: Some(Wire { seconds: 3600, nanos: 0 }),
            maintenance: true,
            reason: "firmware".into(),
            ..Default::default()
        };
        let one = v1::Reservation {
            metadata: Some(v1::Metadata { name: "fw".into(), ..Default::default() }),
            spec: Some(spec),
            status: Some(v1::ReservationStatus { phase: 1 }),
            ..Default::default()
        };
        let text = reservations(&[one], 3600.0).render("");
        let row = text.lines().nth(1).unwrap();
        let cells: Vec<&str> = row.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect();
        let expected = [
            "fw",
            "Waiting",
            "1970-01-01T02:00:00Z",
            "1h",
            "1h",
            "gpu[001-004]",
            "(maintenance)",
            "firmware",
        ];
        assert_eq!(cells, expected, "{text}");
    }

    fn hold(
        role: v1::Role,
        by: &str,
        reason: &str,
        since: Option<Timestamp>,
        suspended: bool,
    ) -> v1::JobHold {
        v1::JobHold { role: role.into(), by: by.into(), reason: reason.into(), since, suspended }
    }

    #[test]
    fn what_a_job_asks_is_told_in_words() {
        let group = v1::placement_request::Group { size: 8, within: 2, required: true };
        let term = |key: &str, operator, values: &[&str]| v1::SelectorTerm {
            key: key.into(),
            operator,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            any_of: Vec::new(),
        };
        let any_of = vec![term("a100", 3, &[]), term("gpu", 2, &["v100"])];
        let either = v1::SelectorTerm { any_of, ..Default::default() };
        let place = v1::PlacementRequest {
            groups: vec![group],
            pattern: 3,
            stage_nodes: 8,
            spares: 2,
            exclude: vec!["n[1-3]".into()],
            selector: vec![term("gpu", 1, &["h100"]), term("old", 4, &[]), either],
            gpu_model: vec!["H100".into(), "H200".into()],
            ..Default::default()
        };
        let spec = v1::JobSpec {
            placement: Some(place),
            queue: "vision".into(),
            after: vec![v1::Dependency { job: "prepare".into(), when: 1 }],
            preemption: Some(v1::Preemption {
                preemptible: Some(true),
                checkpoint_every: Some(Wire { seconds: 600, nanos: 0 }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let time = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let status = v1::JobStatus {
            preempted: 2,
            eta: Some(v1::Eta {
                start: time(100),
                earliest: time(90),
                latest: time(200),
                ..v1::Eta::default()
            }),
            array: Some(v1::ArrayPlace { array: "sweep".into(), index: 7, size: 10 }),
            holds: vec![
                hold(v1::Role::Admin, "root", "maintenance", time(100), true),
                hold(v1::Role::User, "ann", "", time(90), false),
            ],
            ..Default::default()
        };
        let facts = turn(&v1::Job { spec: Some(spec), status: Some(status), ..Default::default() });
        let said = |name: &str| facts.iter().find(|(fact, _)| *fact == name).map(|(_, text)| text.as_str());
        assert_eq!(said("Place"), Some("groups of 8 within a pod; pipeline of 8-node stages; not n[1-3]"));
        assert_eq!(said("Selector"), Some("gpu=h100, !old, a100 or gpu not in (v100)"));
        assert_eq!(said("GPU model"), Some("H100 or H200"));
        assert_eq!(said("After"), Some("prepare succeeded"));
        assert_eq!(said("Array"), Some("7 of sweep (10 elements)"));
        assert_eq!(said("Preemption"), Some("may be preempted, checkpoint every 10m"));
        assert_eq!(said("Preempted"), Some("2"));
        assert_eq!(
            said("Held by"),
            Some(
                "suspended by root (admin) since 1970-01-01T00:01:40Z: maintenance; ann (user) since 1970-01-01T00:01:30Z"
            )
        );
        assert_eq!(said("ETA"), Some("1970-01-01T00:01:40Z (00:01:30Z to 00:03:20Z)"));
        assert_eq!(said("Spares"), Some("2, for nodes that fail"));
    }
}
