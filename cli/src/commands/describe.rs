//! Everything about one thing.

use super::{
    array::{self, Array, Counts, Named},
    get, license, queue, reserve, schedule, service_class, webhook,
};
use proto_model::many;

use crate::{
    args::{Describe, DescribeNoun},
    client::Api,
    error::Error,
    output::{now, print},
    render,
};

/// `describe KIND NAME`.
pub async fn run(args: &Describe, api: &Api) -> Result<(), Error> {
    let text = match args.noun {
        DescribeNoun::Job => match array::find(&args.name, api).await? {
            Named::Job(job) => render::describe_job(&job, now()),
            Named::Array(array) => of_array(&array),
        },
        DescribeNoun::Node => render::describe_node(&get::node(&args.name, api).await?, now()),
        DescribeNoun::Queue => render::describe_queue(&queue::get(&args.name, api).await?),
        DescribeNoun::Reservation => render::describe_reservation(&reserve::get(&args.name, api).await?),
        DescribeNoun::Schedule => render::describe_schedule(&schedule::get(&args.name, api).await?, now()),
        DescribeNoun::ServiceClass => {
            render::describe_service_class(&service_class::get(&args.name, api).await?)
        }
        DescribeNoun::Webhook => render::describe_webhook(&webhook::get(&args.name, api).await?),
        DescribeNoun::License => render::describe_license(&license::get(&args.name, api).await?),
        DescribeNoun::Tenant => render::describe_tenant(&get::tenant(&args.name, api).await?),
    };
    print(&text)
}

/// How far an array is, what failed first, and its elements.
fn of_array(array: &Array) -> String {
    let Array { of, jobs } = array;
    let mut out = format!("array {of}: {}: {}\n", many(jobs.len(), "element"), Counts::of(jobs).words());
    let failures = array::failures(jobs);
    if !failures.is_empty() {
        out.push_str("failed first:\n");
        failures.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    }
    out + &render::jobs(jobs, false, now())
}
