//! Schedules.

use proto_model::{Concurrency, JobSchedule, ScheduledRun};

use super::{duration_to_row, time_to_row};
use crate::v1;

fn concurrency_to_row(concurrency: Concurrency) -> v1::schedule_spec::Concurrency {
    use v1::schedule_spec::Concurrency as C;
    match concurrency {
        Concurrency::Allow => C::Unspecified,
        Concurrency::Forbid => C::Forbid,
        Concurrency::Replace => C::Replace,
    }
}

impl From<&JobSchedule> for v1::Schedule {
    /// What is due next and what is under way follow from the time and the jobs, and are not stored.
    fn from(schedule: &JobSchedule) -> Self {
        let progress = &schedule.progress;
        let last = progress.last.as_ref();
        Self {
            metadata: Some(v1::Metadata {
                name: schedule.name.to_string(),
                tenant: schedule.tenant.to_string(),
                uid: schedule.uid.clone(),
                generation: schedule.generation,
                create_time: Some(time_to_row(schedule.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::ScheduleSpec {
                cron: schedule.cron.to_string(),
                time_zone: if schedule.zone.is_utc() { String::new() } else { schedule.zone.to_string() },
                job_template: Some(v1::JobTemplate {
                    labels: schedule.labels.clone(),
                    spec: Some(schedule.job.as_ref().into()),
                }),
                concurrency: concurrency_to_row(schedule.concurrency).into(),
                starting_deadline: schedule.starting_deadline.map(duration_to_row),
                suspend: schedule.suspended,
                completed_history: Some(schedule.history.completed),
                failed_history: Some(schedule.history.failed),
            }),
            status: Some(v1::ScheduleStatus {
                last_run: last.map(|(time, _)| time_to_row(*time)),
                last_job: last.map(|(_, job)| job.to_string()).unwrap_or_default(),
                submitted: progress.submitted,
                left_out: progress.left_out,
                last_left_out: progress.last_left_out.as_ref().map(Into::into),
                owner: schedule.owner.as_ref().map(Into::into),
                checked_until: Some(time_to_row(progress.checked_until)),
            }),
        }
    }
}

impl From<&ScheduledRun> for v1::ScheduledRun {
    fn from(run: &ScheduledRun) -> Self {
        Self { schedule: run.schedule.to_string(), time: Some(time_to_row(run.time)) }
    }
}
