//! Schedules.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proto_model::{
    Concurrency, Cron, History, JobName, JobSchedule, JobSpec, ScheduleName, ScheduleProgress, ScheduledRun,
    TenantName, Timestamp, Zone,
};

use super::{check_job_name, duration_from_row, job_labels, metadata, time_from_row};
use crate::v1;
use proto_model::fields::{FieldErrors, Fields, known};

/// What each run is: a job without moments of its own.
fn template(
    fields: &mut Fields,
    row: Option<v1::JobTemplate>,
) -> Option<(BTreeMap<String, String>, JobSpec)> {
    let row = fields.present("spec.jobTemplate", row)?;
    let labels = fields.nest("spec.jobTemplate.labels", job_labels(row.labels));
    let spec = fields.present("spec.jobTemplate.spec", row.spec)?;
    for (field, given) in [
        ("beginTime", spec.begin_time.is_some()),
        ("startBefore", spec.start_before.is_some()),
        ("deadline", spec.deadline.is_some()),
    ] {
        if given {
            let field = format!("spec.jobTemplate.spec.{field}");
            fields
                .fail(&field, "is one moment, and a schedule has many runs; `timeLimit` bounds each of them");
        }
    }
    let spec = fields.nest("spec.jobTemplate.spec", spec.try_into());
    labels.zip(spec)
}

fn concurrency(fields: &mut Fields, row: i32) -> Concurrency {
    use v1::schedule_spec::Concurrency as C;
    match known::<C>(row) {
        Some(C::Forbid) => Concurrency::Forbid,
        Some(C::Replace) => Concurrency::Replace,
        Some(C::Allow) => Concurrency::Allow,
        _ => {
            if row != 0 {
                fields.fail("spec.concurrency", format!("{row} is none of ALLOW, FORBID and REPLACE"));
            }
            Concurrency::Allow
        }
    }
}

fn deadline(fields: &mut Fields, row: Option<prost_types::Duration>) -> Option<Duration> {
    let field = "spec.startingDeadline";
    let given = fields.nest(field, duration_from_row(row?))?;
    let longest = JobSchedule::LONGEST_DEADLINE;
    if !(Duration::from_secs(1)..=longest).contains(&given) {
        fields.fail(field, format!("is not from 1 second to {} days", longest.as_secs() / 86_400));
    }
    Some(given)
}

fn history(fields: &mut Fields, spec: &v1::ScheduleSpec) -> History {
    let usual = History::default();
    let mut kept = |field, given: Option<u32>, usual| {
        let kept = given.unwrap_or(usual);
        if kept > History::MAX {
            fields.fail(field, format!("{kept} is more than {}", History::MAX));
        }
        kept
    };
    History {
        completed: kept("spec.completedHistory", spec.completed_history, usual.completed),
        failed: kept("spec.failedHistory", spec.failed_history, usual.failed),
    }
}

impl TryFrom<v1::Schedule> for JobSchedule {
    type Error = FieldErrors;

    fn try_from(row: v1::Schedule) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = metadata::metadata(&mut fields, row.metadata);
        let spec = fields.present("spec", row.spec).unwrap_or_default();
        let tenant = fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
        let name = fields.take("metadata.name", ScheduleName::new(&metadata.name));
        let created =
            fields.nest("metadata.createTime", time_from_row(metadata.create_time.unwrap_or_default()));
        let cron = fields.take("spec.cron", Cron::new(&spec.cron));
        let zone = fields.take("spec.timeZone", Zone::new(&spec.time_zone));
        let concurrency = concurrency(&mut fields, spec.concurrency);
        let starting_deadline = deadline(&mut fields, spec.starting_deadline);
        let history = history(&mut fields, &spec);
        let template = template(&mut fields, spec.job_template);
        let status = row.status.unwrap_or_default();
        let owner = status.owner.clone().and_then(|row| fields.nest("status.owner", row.try_into()));
        let progress = fields.nest("status", status.try_into());
        let (Some((labels, job)), Some(tenant), Some(name)) = (template, tenant, name) else {
            return fields.finish(None);
        };
        let schedule =
            created.zip(cron.zip(zone)).zip(progress).map(|((created, (cron, zone)), progress)| Self {
                tenant,
                name,
                uid: metadata.uid,
                generation: metadata.generation,
                created,
                cron,
                zone,
                labels,
                job: Arc::new(job),
                concurrency,
                starting_deadline,
                suspended: spec.suspend,
                history,
                owner,
                progress,
            });
        if let Some(schedule) = &schedule {
            // Of an array the elements have names of their own behind that of the run.
            let run = fields.take("metadata.name", schedule.run_name(Timestamp::default()));
            let checked = run.map_or(Ok(()), |run| check_job_name(&run, &schedule.job));
            fields.nest("spec.jobTemplate.spec", checked);
        }
        fields.finish(schedule)
    }
}

impl TryFrom<v1::ScheduleStatus> for ScheduleProgress {
    type Error = FieldErrors;

    fn try_from(row: v1::ScheduleStatus) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let looked = fields.nest("checkedUntil", time_from_row(row.checked_until.unwrap_or_default()));
        let time = row.last_run.and_then(|time| fields.nest("lastRun", time_from_row(time)));
        let job = match row.last_job.as_str() {
            "" => None,
            text => fields.take("lastJob", JobName::new(text)),
        };
        let last_left_out = row.last_left_out.and_then(|row| fields.nest("lastLeftOut", row.try_into()));
        let progress = looked.map(|checked_until| Self {
            checked_until,
            last: time.zip(job),
            submitted: row.submitted,
            left_out: row.left_out,
            last_left_out,
        });
        fields.finish(progress)
    }
}

impl TryFrom<v1::ScheduledRun> for ScheduledRun {
    type Error = FieldErrors;

    fn try_from(row: v1::ScheduledRun) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let schedule = fields.take("schedule", ScheduleName::new(&row.schedule));
        let time = fields.nest("time", time_from_row(row.time.unwrap_or_default()));
        fields.finish(schedule.zip(time).map(|(schedule, time)| Self { schedule, time }))
    }
}
