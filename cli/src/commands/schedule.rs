//! Schedules: jobs that start by the clock.

use proto_wire::v1;

use super::{
    list::{Asked, Found},
    submit,
};
use crate::{
    args::ScheduleCommand,
    client::{Api, JobRef, once, repeat},
    documents::Source,
    error::Error,
    output::now,
    render::{self, Kind},
};

/// Makes a schedule of a document. Where it names no tenant, it is the one that was set.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn apply(
    doing: String,
    mut schedule: v1::Schedule,
    dry_run: bool,
    api: &Api,
) -> Result<v1::Schedule, Error> {
    let metadata = schedule.metadata.get_or_insert_default();
    if metadata.tenant.is_empty() {
        metadata.tenant.clone_from(&api.tenant);
    }
    let request = v1::ApplyScheduleRequest { schedule: Some(schedule), dry_run };
    repeat(doing, |_| {
        let (mut client, request) = (api.schedules(), request.clone());
        async move { client.apply_schedule(request).await }
    })
    .await
}

/// One schedule, by TENANT/SCHEDULE or SCHEDULE.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn get(name: &str, api: &Api) -> Result<v1::Schedule, Error> {
    let JobRef { tenant, name } = api.job_ref(name);
    repeat(format!("get schedule `{name}`"), |_| {
        let request = v1::GetScheduleRequest { name: name.clone(), tenant: tenant.clone() };
        let mut client = api.schedules();
        async move { client.get_schedule(request).await }
    })
    .await
}

/// Deletes a schedule; gives what was deleted, for the message.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn delete(name: &str, api: &Api) -> Result<String, Error> {
    let schedule = api.job_ref(name);
    let request = v1::DeleteScheduleRequest { name: schedule.name.clone(), tenant: schedule.tenant.clone() };
    once(format!("delete schedule `{schedule}`"), api.schedules().delete_schedule(request)).await?;
    Ok(format!("schedule {schedule}"))
}

/// `schedule run NAME`: submits a job of the schedule now.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(command: &ScheduleCommand, api: &Api) -> Result<(), Error> {
    let ScheduleCommand::Run { name, output } = command;
    let schedule = get(name, api).await?;
    let metadata = schedule.metadata.unwrap_or_default();
    let template = schedule.spec.and_then(|spec| spec.job_template).unwrap_or_default();
    let job = v1::Job {
        metadata: Some(v1::Metadata {
            generate_name: format!("{}-", metadata.name),
            labels: template.labels,
            ..v1::Metadata::default()
        }),
        spec: template.spec,
        ..v1::Job::default()
    };
    let source = Source::of(&format!("the job of schedule {}", metadata.name), Vec::new());
    let made = submit::create(&source, 0, job, &api.of_tenant(&metadata.tenant)).await?;
    submit::show(&made, *output)
}

fn name_of(schedule: &v1::Schedule) -> String {
    let metadata = schedule.metadata.clone().unwrap_or_default();
    format!("schedule/{}/{}", metadata.tenant, metadata.name)
}

/// `get schedules [NAME...]`: the schedules of a tenant.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn show(asked: &Asked<'_>, tenant: &str, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.Schedule",
        name: &name_of,
        table: &|all: &[v1::Schedule], wide| render::schedules(all, wide, now()),
        columns: &[],
        slurm: None,
    };
    let one = async |name: &str| get(name, api).await.map(Found::One);
    asked.show(&kind, "schedules", one, async || api.list_schedules(tenant).await).await
}
