//! Queues: how a tenant shares what it has.

use proto_wire::v1;

use super::list::{self, Asked, Found};
use crate::{
    args::QueueCommand,
    client::{Api, JobRef, once, repeat},
    error::Error,
    output::print,
    render::{self, Kind},
};

/// Makes a queue of a document. Where it names no tenant, it is the one that was set.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn apply(
    doing: String,
    mut queue: v1::Queue,
    dry_run: bool,
    api: &Api,
) -> Result<v1::Queue, Error> {
    let metadata = queue.metadata.get_or_insert_default();
    if metadata.tenant.is_empty() {
        metadata.tenant.clone_from(&api.tenant);
    }
    let request = v1::ApplyQueueRequest { queue: Some(queue), dry_run };
    repeat(doing, |_| {
        let (mut client, request) = (api.queues(), request.clone());
        async move { client.apply_queue(request).await }
    })
    .await
}

/// One queue, by TENANT/QUEUE or QUEUE.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn get(name: &str, api: &Api) -> Result<v1::Queue, Error> {
    let JobRef { tenant, name } = api.job_ref(name);
    repeat(format!("get queue `{name}`"), |_| {
        let request = v1::GetQueueRequest { name: name.clone(), tenant: tenant.clone() };
        let mut client = api.queues();
        async move { client.get_queue(request).await }
    })
    .await
}

/// Deletes a queue; gives what was deleted, for the message.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn delete(name: &str, api: &Api) -> Result<String, Error> {
    let queue = api.job_ref(name);
    let request = v1::DeleteQueueRequest { name: queue.name.clone(), tenant: queue.tenant.clone() };
    once(format!("delete queue `{queue}`"), api.queues().delete_queue(request)).await?;
    Ok(format!("queue {queue}"))
}

fn name_of(queue: &v1::Queue) -> String {
    let metadata = queue.metadata.clone().unwrap_or_default();
    format!("queue/{}/{}", metadata.tenant, metadata.name)
}

/// `get queues [NAME...]`: the queues of a tenant.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn show(asked: &Asked<'_>, tenant: &str, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.Queue",
        name: &name_of,
        table: &|all: &[v1::Queue], _| render::queues(all),
        columns: &[],
        slurm: None,
    };
    let one = async |name: &str| get(name, api).await.map(Found::One);
    asked.show(&kind, "queues", one, async || api.list_queues(tenant).await).await
}

/// `queue order`: the jobs that wait, in the order in which they are considered.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(command: &QueueCommand, api: &Api) -> Result<(), Error> {
    let QueueCommand::Order { limit, all_tenants, output } = command;
    let tenant = if *all_tenants { String::new() } else { api.tenant.clone() };
    let request = v1::GetQueueOrderRequest { tenant, limit: *limit };
    let order = repeat("ask for the order of the queue", |_| {
        let (mut client, request) = (api.queues(), request.clone());
        async move { client.get_queue_order(request).await }
    })
    .await?;
    list::nothing(order.standings.is_empty(), *output, "jobs that wait");
    let names = || order.standings.iter().map(|one| format!("job/{}/{}", one.tenant, one.job)).collect();
    let table =
        |wide| if order.standings.is_empty() { String::new() } else { render::queue_order(&order, wide) };
    print(&render::render(*output, &order, "rail.v1.QueueOrder", names, table)?)
}

/// `get shares [TENANT]`: what tenants and queues hold of what they may have.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn shares(asked: &Asked<'_>, all: bool, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.Share",
        name: &|share: &v1::Share| match share.queue.as_str() {
            "" => format!("share/{}", share.tenant),
            queue => format!("share/{}/{queue}", share.tenant),
        },
        table: &|all: &[v1::Share], _| render::shares(all),
        columns: &[],
        slurm: None,
    };
    let ask = async |tenant: &str| {
        let request = v1::ListSharesRequest { tenant: tenant.to_owned() };
        repeat("list shares", |_| {
            let (mut client, request) = (api.queues(), request.clone());
            async move { client.list_shares(request).await }
        })
        .await
    };
    let one = async |name: &str| Ok(Found::Several(ask(name).await?.shares));
    let every = async || ask(if all { "" } else { &api.tenant }).await;
    asked.show(&kind, "shares", one, every).await
}
