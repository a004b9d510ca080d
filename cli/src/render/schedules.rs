//! Schedules.

use std::time::Duration;

use proto_wire::v1;

use super::{Table, sharing::stamp, words, work};
use crate::error::human;

fn concurrency(spec: &v1::ScheduleSpec) -> &'static str {
    use v1::schedule_spec::Concurrency;
    match spec.concurrency() {
        Concurrency::Unspecified => "ALLOW",
        named => named.as_str_name(),
    }
}

fn zone(spec: &v1::ScheduleSpec) -> String {
    if spec.time_zone.is_empty() { "UTC".to_owned() } else { spec.time_zone.clone() }
}

/// `in 5m0s`; nothing where there is none.
fn ahead(time: Option<&prost_types::Timestamp>, now: f64) -> String {
    let Some(time) = time else { return String::new() };
    let left = (words::seconds(time) - now).max(0.0).floor();
    format!("in {}", human(Duration::try_from_secs_f64(left).unwrap_or_default()))
}

fn next(schedule: &v1::Schedule, now: f64) -> String {
    let suspended = schedule.spec.as_ref().is_some_and(|spec| spec.suspend);
    match &schedule.status {
        _ if suspended => "suspended".to_owned(),
        status => ahead(status.as_ref().and_then(|status| status.next_run.as_ref()), now),
    }
}

/// A list of schedules.
#[must_use]
pub fn schedules(list: &[v1::Schedule], wide: bool, now: f64) -> Table {
    let mut table = Table::bare();
    let mut header = vec!["SCHEDULE", "TENANT", "CRON", "ZONE", "CONCURRENCY", "ACTIVE", "LAST", "NEXT"];
    if wide {
        header.extend(["LAST-JOB", "SUBMITTED", "LEFT-OUT", "WHY", "OWNER"]);
    }
    table.row(header.into_iter().map(str::to_owned));
    for schedule in list {
        let metadata = schedule.metadata.clone().unwrap_or_default();
        let spec = schedule.spec.clone().unwrap_or_default();
        let status = schedule.status.clone().unwrap_or_default();
        let last = words::age(status.last_run.as_ref(), None, now);
        let mut row = vec![
            metadata.name,
            metadata.tenant,
            spec.cron.clone(),
            zone(&spec),
            concurrency(&spec).to_owned(),
            status.active.len().to_string(),
            if last.is_empty() { last } else { format!("{last} ago") },
            next(schedule, now),
        ];
        if wide {
            row.extend([
                status.last_job,
                status.submitted.to_string(),
                status.left_out.to_string(),
                status.last_left_out.map(|reason| reason.code).unwrap_or_default(),
                status.owner.map(|owner| owner.user).unwrap_or_default(),
            ]);
        }
        table.row(row);
    }
    table
}

/// What there is to say of a schedule.
#[must_use]
pub fn schedule_facts(schedule: &v1::Schedule, now: f64) -> Vec<(&'static str, String)> {
    let spec = schedule.spec.clone().unwrap_or_default();
    let status = schedule.status.clone().unwrap_or_default();
    let both = |time: Option<&prost_types::Timestamp>, how: String| match time {
        Some(_) => format!("{} ({how})", stamp(time)),
        None => String::new(),
    };
    let next = match spec.suspend {
        true => "suspended".to_owned(),
        false => both(status.next_run.as_ref(), ahead(status.next_run.as_ref(), now)),
    };
    let deadline = spec.starting_deadline.map(|wire| human(Duration::try_from(wire).unwrap_or_default()));
    let last_age = format!("{} ago", words::age(status.last_run.as_ref(), None, now));
    let left_out = status
        .last_left_out
        .as_ref()
        .map(|reason| format!("{}: {}: {}", stamp(reason.since.as_ref()), reason.code, reason.message));
    let template = spec.job_template.clone().unwrap_or_default();
    let job = template.spec.unwrap_or_default();
    let mut labels: Vec<String> =
        template.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.sort();
    let kept = |count: Option<u32>, usual: u32| count.unwrap_or(usual);
    vec![
        ("Cron", format!("{} {}", spec.cron, zone(&spec))),
        ("Concurrency", concurrency(&spec).to_owned()),
        ("Starting deadline", deadline.unwrap_or_default()),
        (
            "History",
            format!("{} completed, {} failed", kept(spec.completed_history, 3), kept(spec.failed_history, 1)),
        ),
        (
            "Owner",
            status.owner.map(|by| format!("{} ({})", by.user, words::role(by.role))).unwrap_or_default(),
        ),
        ("Job", work::work(&job)),
        ("Job labels", labels.join(",")),
        ("Queue", job.queue.clone()),
        ("Array", job.array.clone()),
        ("Submitted", status.submitted.to_string()),
        ("Left out", status.left_out.to_string()),
        ("Last run", both(status.last_run.as_ref(), last_age)),
        ("Last job", status.last_job),
        ("Last left out", left_out.unwrap_or_default()),
        ("Next run", next),
        ("Active", status.active.join(", ")),
    ]
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    fn nightly() -> v1::Schedule {
        let time = |seconds| Some(Timestamp { seconds, nanos: 0 });
        v1::Schedule {
            metadata: Some(v1::Metadata {
                name: "nightly".into(),
                tenant: "nlp".into(),
                ..Default::default()
            }),
            spec: Some(v1::ScheduleSpec {
                cron: "30 2 * * *".into(),
                time_zone: "Europe/Berlin".into(),
                concurrency: v1::schedule_spec::Concurrency::Forbid.into(),
                ..Default::default()
            }),
            status: Some(v1::ScheduleStatus {
                next_run: time(7300),
                last_run: time(900),
                last_job: "nightly-19700101-0015".into(),
                submitted: 4,
                left_out: 1,
                last_left_out: Some(v1::Reason {
                    code: "StillRunning".into(),
                    message: "the run of yesterday has not ended".into(),
                    since: time(600),
                    ..Default::default()
                }),
                active: vec!["nightly-19700101-0015".into()],
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn a_table_of_schedules() {
        let expected = "SCHEDULE  TENANT  CRON        ZONE           CONCURRENCY  ACTIVE  LAST      NEXT\n\
                        nightly   nlp     30 2 * * *  Europe/Berlin  FORBID       1       1m40s ago  in 1h45m\n";
        let reported = schedules(&[nightly()], false, 1000.0).render("");
        assert_eq!(
            reported.split_whitespace().collect::<Vec<_>>(),
            expected.split_whitespace().collect::<Vec<_>>()
        );
        let mut suspended = nightly();
        suspended.spec.as_mut().unwrap().suspend = true;
        let reported = schedules(&[suspended], true, 1000.0).render("");
        assert!(reported.contains("suspended") && reported.contains("StillRunning"), "{reported}");
    }

    #[test]
    fn what_there_is_to_say_of_one() {
        let facts = schedule_facts(&nightly(), 1000.0);
        let fact = |name| facts.iter().find(|(known, _)| *known == name).map(|(_, fact)| fact.as_str());
        assert_eq!(fact("Cron"), Some("30 2 * * * Europe/Berlin"));
        assert_eq!(fact("Next run"), Some("1970-01-01T02:01:40Z (in 1h45m)"));
        let left_out = "1970-01-01T00:10:00Z: StillRunning: the run of yesterday has not ended";
        assert_eq!(fact("Last left out"), Some(left_out));
        assert_eq!(fact("History"), Some("3 completed, 1 failed"));
    }
}
