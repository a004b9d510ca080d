//! Everything about one thing.

use super::{get, license, queue, reserve, schedule, service_class, webhook};
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
        DescribeNoun::Job => render::describe_job(&api.get_job(&api.job_ref(&args.name)).await?, now()),
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
