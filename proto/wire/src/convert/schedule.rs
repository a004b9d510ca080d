//! Schedules.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proto_model::{
    Concurrency, Cron, History, JobName, JobSchedule, JobSpec, ScheduleName, ScheduleProgress, ScheduledRun,
    TenantName, Timestamp, Zone,
};

use super::{
    API_VERSION, FieldErrors, Fields, check_job_name, duration_from_wire, duration_to_wire, job_labels,
    known, metadata, time_from_wire, time_to_wire,
};
use crate::v1;

/// What each run is: a job without moments of its own.
fn template(
    fields: &mut Fields,
    wire: Option<v1::JobTemplate>,
) -> Option<(BTreeMap<String, String>, JobSpec)> {
    let wire = fields.present("spec.jobTemplate", wire)?;
    let labels = fields.nest("spec.jobTemplate.labels", job_labels(wire.labels));
    let spec = fields.present("spec.jobTemplate.spec", wire.spec)?;
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

fn concurrency(fields: &mut Fields, wire: i32) -> Concurrency {
    use v1::schedule_spec::Concurrency as C;
    match known::<C>(wire) {
        Some(C::Forbid) => Concurrency::Forbid,
        Some(C::Replace) => Concurrency::Replace,
        Some(C::Allow) => Concurrency::Allow,
        _ => {
            if wire != 0 {
                fields.fail("spec.concurrency", format!("{wire} is none of ALLOW, FORBID and REPLACE"));
            }
            Concurrency::Allow
        }
    }
}

fn concurrency_to_wire(concurrency: Concurrency) -> v1::schedule_spec::Concurrency {
    use v1::schedule_spec::Concurrency as C;
    match concurrency {
        Concurrency::Allow => C::Unspecified,
        Concurrency::Forbid => C::Forbid,
        Concurrency::Replace => C::Replace,
    }
}

fn deadline(fields: &mut Fields, wire: Option<prost_types::Duration>) -> Option<Duration> {
    let field = "spec.startingDeadline";
    let given = fields.nest(field, duration_from_wire(wire?))?;
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

    fn try_from(wire: v1::Schedule) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        super::fields::header(&mut fields, &wire.api_version, &wire.kind, "Schedule");
        let metadata = metadata::metadata(&mut fields, wire.metadata);
        let spec = fields.present("spec", wire.spec).unwrap_or_default();
        let tenant = fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
        let name = fields.take("metadata.name", ScheduleName::new(&metadata.name));
        let created =
            fields.nest("metadata.createTime", time_from_wire(metadata.create_time.unwrap_or_default()));
        let cron = fields.take("spec.cron", Cron::new(&spec.cron));
        let zone = fields.take("spec.timeZone", Zone::new(&spec.time_zone));
        let concurrency = concurrency(&mut fields, spec.concurrency);
        let starting_deadline = deadline(&mut fields, spec.starting_deadline);
        let history = history(&mut fields, &spec);
        let template = template(&mut fields, spec.job_template);
        let status = wire.status.unwrap_or_default();
        let owner = status.owner.clone().and_then(|wire| fields.nest("status.owner", wire.try_into()));
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

    fn try_from(wire: v1::ScheduleStatus) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let looked = fields.nest("checkedUntil", time_from_wire(wire.checked_until.unwrap_or_default()));
        let time = wire.last_run.and_then(|time| fields.nest("lastRun", time_from_wire(time)));
        let job = match wire.last_job.as_str() {
            "" => None,
            text => fields.take("lastJob", JobName::new(text)),
        };
        let last_left_out = wire.last_left_out.and_then(|wire| fields.nest("lastLeftOut", wire.try_into()));
        let progress = looked.map(|checked_until| Self {
            checked_until,
            last: time.zip(job),
            submitted: wire.submitted,
            left_out: wire.left_out,
            last_left_out,
        });
        fields.finish(progress)
    }
}

impl From<&JobSchedule> for v1::Schedule {
    /// What is due next and what is under way is added by whoever knows the time and the jobs.
    fn from(schedule: &JobSchedule) -> Self {
        let progress = &schedule.progress;
        let last = progress.last.as_ref();
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Schedule".to_owned(),
            metadata: Some(v1::Metadata {
                name: schedule.name.to_string(),
                tenant: schedule.tenant.to_string(),
                uid: schedule.uid.clone(),
                generation: schedule.generation,
                create_time: Some(time_to_wire(schedule.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::ScheduleSpec {
                cron: schedule.cron.to_string(),
                time_zone: if schedule.zone.is_utc() { String::new() } else { schedule.zone.to_string() },
                job_template: Some(v1::JobTemplate {
                    labels: schedule.labels.clone().into_iter().collect(),
                    spec: Some(schedule.job.as_ref().into()),
                }),
                concurrency: concurrency_to_wire(schedule.concurrency).into(),
                starting_deadline: schedule.starting_deadline.map(duration_to_wire),
                suspend: schedule.suspended,
                completed_history: Some(schedule.history.completed),
                failed_history: Some(schedule.history.failed),
            }),
            status: Some(v1::ScheduleStatus {
                last_run: last.map(|(time, _)| time_to_wire(*time)),
                last_job: last.map(|(_, job)| job.to_string()).unwrap_or_default(),
                submitted: progress.submitted,
                left_out: progress.left_out,
                last_left_out: progress.last_left_out.as_ref().map(Into::into),
                owner: schedule.owner.as_ref().map(Into::into),
                checked_until: Some(time_to_wire(progress.checked_until)),
                ..v1::ScheduleStatus::default()
            }),
        }
    }
}

impl From<&ScheduledRun> for v1::ScheduledRun {
    fn from(run: &ScheduledRun) -> Self {
        Self { schedule: run.schedule.to_string(), time: Some(time_to_wire(run.time)) }
    }
}

impl TryFrom<v1::ScheduledRun> for ScheduledRun {
    type Error = FieldErrors;

    fn try_from(wire: v1::ScheduledRun) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let schedule = fields.take("schedule", ScheduleName::new(&wire.schedule));
        let time = fields.nest("time", time_from_wire(wire.time.unwrap_or_default()));
        fields.finish(schedule.zip(time).map(|(schedule, time)| Self { schedule, time }))
    }
}
