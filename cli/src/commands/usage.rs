//! What tenants and users have used, by the jobs that are there.

use std::collections::BTreeMap;

use proto_wire::v1::{self, job_status::Phase};
use serde_json::json;

use crate::{
    args::{Output, ReportCommand},
    client::{Api, PAGE, repeat},
    error::Error,
    output::{now, print},
    render,
};

/// What one user of one tenant has used.
#[derive(Debug, Clone, PartialEq, Default)]
struct Used {
    jobs: u64,
    completed: u64,
    failed: u64,
    cancelled: u64,
    gpu_hours: f64,
}

/// `report usage`: GPU hours and jobs by tenant and user.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(command: &ReportCommand, api: &Api) -> Result<(), Error> {
    let ReportCommand::Usage { since, all_tenants, output } = command;
    let until = now();
    let from = render::seconds(&since.time(until));
    let tenant = if *all_tenants { "" } else { &api.tenant };
    let mut used: BTreeMap<(String, String), Used> = BTreeMap::new();
    let mut page_token = String::new();
    loop {
        let page = repeat("list jobs", |_| {
            let request = v1::ListJobsRequest {
                tenant: tenant.to_owned(),
                page_size: PAGE,
                page_token: page_token.clone(),
                ..v1::ListJobsRequest::default()
            };
            let mut client = api.jobs();
            async move { client.list_jobs(request).await }
        })
        .await?;
        for job in &page.jobs {
            count(job, from, until, &mut used);
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    print(&shown(&used, (from, until), *output))
}

/// Adds what a job has used between two times, in seconds since 1970.
fn count(job: &v1::Job, from: f64, until: f64, used: &mut BTreeMap<(String, String), Used>) {
    let (spec, status) = (job.spec.clone().unwrap_or_default(), job.status.clone().unwrap_or_default());
    let held = |start: Option<&prost_types::Timestamp>, end: Option<&prost_types::Timestamp>| {
        let Some(start) = start else { return 0.0 };
        let end = end.map_or(until, render::seconds).min(until);
        (end - render::seconds(start).max(from)).max(0.0)
    };
    let placed: usize =
        status.placement.iter().flat_map(|place| &place.nodes).map(|node| node.gpus.len()).sum();
    let gpus = if placed > 0 { placed as f64 } else { spec.total_gpus() as f64 };
    let past: f64 =
        status.past_attempts.iter().map(|past| held(past.start_time.as_ref(), past.end_time.as_ref())).sum();
    let seconds = past + held(status.start_time.as_ref(), status.end_time.as_ref());
    let ended = status.end_time.as_ref().map(render::seconds).filter(|end| (from..=until).contains(end));
    if seconds <= 0.0 && ended.is_none() {
        return;
    }
    let user = status.submitter.as_ref().map(|by| by.user.clone()).unwrap_or_default();
    let tenant = job.metadata.clone().unwrap_or_default().tenant;
    let sum = used.entry((tenant, user)).or_default();
    sum.jobs += 1;
    sum.gpu_hours += seconds * gpus / 3600.0;
    if ended.is_some() {
        match status.phase() {
            Phase::Completed => sum.completed += 1,
            Phase::Failed => sum.failed += 1,
            Phase::Cancelled => sum.cancelled += 1,
            _ => {}
        }
    }
}

fn shown(used: &BTreeMap<(String, String), Used>, (from, until): (f64, f64), output: Output) -> String {
    let value = || {
        let line = |((tenant, user), sum): (&(String, String), &Used)| {
            json!({
                "tenant": tenant, "user": user, "jobs": sum.jobs, "completed": sum.completed,
                "failed": sum.failed, "cancelled": sum.cancelled, "gpuHours": sum.gpu_hours,
            })
        };
        let time = |seconds: f64| {
            let nanos = ((seconds.fract()) * 1e9) as i32;
            render::millis(&prost_types::Timestamp { seconds: seconds as i64, nanos })
        };
        json!({"since": time(from), "until": time(until), "usage": used.iter().map(line).collect::<Vec<_>>()})
    };
    match output {
        Output::Json => format!("{:#}\n", value()),
        Output::Yaml => proto_manifest::yaml_of(&value()),
        Output::Name => used.keys().map(|(tenant, user)| format!("user/{tenant}/{user}\n")).collect(),
        Output::Table | Output::Wide => {
            let mut table = render::Table::new([
                "TENANT",
                "USER",
                "JOBS",
                "COMPLETED",
                "FAILED",
                "CANCELLED",
                "GPU-HOURS",
            ]);
            for ((tenant, user), sum) in used {
                let counts =
                    [sum.jobs, sum.completed, sum.failed, sum.cancelled].map(|count| count.to_string());
                let head = [tenant.clone(), user.clone()];
                table.row(head.into_iter().chain(counts).chain([format!("{:.2}", sum.gpu_hours)]));
            }
            table.render("")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{pending_job, running_job};

    #[test]
    fn what_was_held_between_two_times_is_counted() {
        let mut used = BTreeMap::new();
        let mut ended = running_job();
        let status = ended.status.get_or_insert_default();
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        (status.start_time, status.end_time) = (at(2000), at(5600));
        status.phase = Phase::Failed.into();
        status.past_attempts =
            vec![v1::PastAttempt { start_time: at(1000), end_time: at(1900), ..Default::default() }];
        count(&ended, 0.0, 10_000.0, &mut used);
        // The one that still runs counts from the time on that is asked for.
        count(&running_job(), 6400.0, 10_000.0, &mut used);
        count(&pending_job(), 0.0, 10_000.0, &mut used);
        let sum = &used[&("nlp".to_owned(), String::new())];
        assert_eq!((sum.jobs, sum.failed, sum.completed), (2, 1, 0));
        // Four GPUs for 900 + 3600 seconds, and for 3600.
        assert!((sum.gpu_hours - 9.0).abs() < 1e-9, "{sum:?}");
        assert!(shown(&used, (0.0, 10_000.0), Output::Table).contains("9.00"));
        assert!(shown(&used, (0.0, 10_000.0), Output::Json).contains("\"gpuHours\": 9.0"));
    }
}
