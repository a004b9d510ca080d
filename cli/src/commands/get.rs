//! Lists, once or as they change.

use proto_wire::v1;

use super::{
    array::{self, Array, Named},
    license, queue, reserve, schedule, service_class, watch, webhook,
};
use crate::{
    args::{Get, GetNoun, Output, PhaseArg},
    client::{Api, repeat},
    error::Error,
    output::{now, print},
    render,
};

/// `get KIND [NAME]`.
pub async fn run(args: &Get, api: &Api) -> Result<(), Error> {
    if !args.phase.is_empty() && args.noun != GetNoun::Jobs {
        return Err(Error::Usage("--phase is for jobs only".to_owned()));
    }
    let of_tenants = matches!(
        args.noun,
        GetNoun::Jobs | GetNoun::Queues | GetNoun::Schedules | GetNoun::Webhooks | GetNoun::Shares
    );
    if args.all_tenants && !of_tenants {
        return Err(Error::Usage(
            "--all-tenants is for jobs, queues, schedules, webhooks and shares only".to_owned(),
        ));
    }
    if !args.labels.is_empty()
        && matches!(
            args.noun,
            GetNoun::Queues
                | GetNoun::Reservations
                | GetNoun::Schedules
                | GetNoun::ServiceClasses
                | GetNoun::Licenses
                | GetNoun::Webhooks
                | GetNoun::Shares
        )
    {
        return Err(Error::Usage("--label is for jobs, nodes and tenants".to_owned()));
    }
    if args.all_tenants && args.name.is_some() {
        return Err(Error::Usage(
            "a job is named within one tenant: write TENANT/JOB in place of -A".to_owned(),
        ));
    }
    match (args.noun, args.watch) {
        (GetNoun::Jobs, false) => jobs(args, api).await,
        (GetNoun::Jobs, true) => watch::jobs(args, api).await,
        (GetNoun::Nodes, false) => nodes(args, api).await,
        (GetNoun::Nodes, true) => watch::nodes(args, api).await,
        (_, true) => Err(Error::Usage("only jobs and nodes can be watched".to_owned())),
        (GetNoun::Queues, false) => queue::show(args.name.as_ref(), args.all_tenants, args.output, api).await,
        (GetNoun::Reservations, false) => match &args.name {
            Some(name) => reserve::show(&reserve::get(name, api).await?, args.output),
            None => reserve::list(args.output, api).await,
        },
        (GetNoun::Schedules, false) => {
            schedule::show(args.name.as_ref(), args.all_tenants, args.output, api).await
        }
        (GetNoun::Webhooks, false) => {
            webhook::show(args.name.as_ref(), args.all_tenants, args.output, api).await
        }
        (GetNoun::ServiceClasses, false) => service_class::show(args.name.as_ref(), args.output, api).await,
        (GetNoun::Licenses, false) => license::show(args.name.as_ref(), args.output, api).await,
        (GetNoun::Shares, false) => {
            queue::shares(args.name.as_deref(), args.all_tenants, args.output, api).await
        }
        (GetNoun::Tenants, false) => tenants(args, api).await,
        (GetNoun::Fabric, false) => fabric(args, api).await,
    }
}

/// The number of a phase on the wire.
pub fn phase_number(phase: PhaseArg) -> i32 {
    use v1::job_status::Phase;
    let phase = match phase {
        PhaseArg::Pending => Phase::Pending,
        PhaseArg::Reserved => Phase::Reserved,
        PhaseArg::Preparing => Phase::Preparing,
        PhaseArg::Running => Phase::Running,
        PhaseArg::Recovering => Phase::Recovering,
        PhaseArg::Completed => Phase::Completed,
        PhaseArg::Failed => Phase::Failed,
        PhaseArg::Cancelled => Phase::Cancelled,
    };
    phase.into()
}

/// True if the metadata has all labels that were asked for.
pub fn labelled(metadata: Option<&v1::Metadata>, wanted: &[(String, String)]) -> bool {
    wanted.iter().all(|(key, value)| metadata.is_some_and(|metadata| metadata.labels.get(key) == Some(value)))
}

/// job/TENANT/NAME lines.
pub fn job_name(job: &v1::Job) -> String {
    let metadata = job.metadata.clone().unwrap_or_default();
    format!("job/{}/{}", metadata.tenant, metadata.name)
}

async fn jobs(args: &Get, api: &Api) -> Result<(), Error> {
    if let Some(name) = &args.name {
        let job = match array::find(name, api).await? {
            Named::Array(Array { jobs, .. }) => return elements(jobs, args),
            Named::Job(job) => *job,
        };
        let names = || vec![job_name(&job)];
        let table = |wide| render::jobs(std::slice::from_ref(&job), wide, now());
        return print(&render::render(args.output, &job, "rail.v1.Job", names, table)?);
    }
    let phases: Vec<i32> = args.phase.iter().map(|phase| phase_number(*phase)).collect();
    let of = if args.all_tenants { "" } else { &api.tenant };
    let mut list = api.list_jobs(of, &phases).await?;
    list.jobs.retain(|job| labelled(job.metadata.as_ref(), &args.labels));
    array::in_order(&mut list.jobs);
    if list.jobs.is_empty() {
        known(of, api).await?;
    }
    nothing(list.jobs.is_empty(), args.output, "jobs");
    let names = || list.jobs.iter().map(job_name).collect();
    let table =
        |wide| if list.jobs.is_empty() { String::new() } else { render::jobs(&list.jobs, wide, now()) };
    print(&render::render(args.output, &list, "rail.v1.ListJobsResponse", names, table)?)
}

/// A tenant that there is not has nothing, and who asks for it is told so.
async fn known(name: &str, api: &Api) -> Result<(), Error> {
    if name.is_empty() { Ok(()) } else { tenant(name, api).await.map(drop) }
}

/// An array is shown by its elements.
fn elements(jobs: Vec<v1::Job>, args: &Get) -> Result<(), Error> {
    let list = v1::ListJobsResponse { jobs, ..v1::ListJobsResponse::default() };
    let names = || list.jobs.iter().map(job_name).collect();
    let table = |wide| render::jobs(&list.jobs, wide, now());
    print(&render::render(args.output, &list, "rail.v1.ListJobsResponse", names, table)?)
}

async fn nodes(args: &Get, api: &Api) -> Result<(), Error> {
    let name = |node: &v1::Node| format!("node/{}", node.metadata.clone().unwrap_or_default().name);
    if let Some(wanted) = &args.name {
        let node = node(wanted, api).await?;
        let table = |wide| render::nodes(std::slice::from_ref(&node), wide, now());
        return print(&render::render(args.output, &node, "rail.v1.Node", || vec![name(&node)], table)?);
    }
    let mut list = api.list_nodes().await?;
    list.nodes.retain(|node| labelled(node.metadata.as_ref(), &args.labels));
    nothing(list.nodes.is_empty(), args.output, "nodes");
    let names = || list.nodes.iter().map(name).collect();
    let table =
        |wide| if list.nodes.is_empty() { String::new() } else { render::nodes(&list.nodes, wide, now()) };
    print(&render::render(args.output, &list, "rail.v1.ListNodesResponse", names, table)?)
}

/// One node.
pub async fn node(name: &str, api: &Api) -> Result<v1::Node, Error> {
    repeat(format!("get node `{name}`"), |_| {
        let (mut client, request) = (api.nodes(), v1::GetNodeRequest { name: name.to_owned() });
        async move { client.get_node(request).await }
    })
    .await
}

/// One tenant.
pub async fn tenant(name: &str, api: &Api) -> Result<v1::Tenant, Error> {
    repeat(format!("get tenant `{name}`"), |_| {
        let (mut client, request) = (api.tenants(), v1::GetTenantRequest { name: name.to_owned() });
        async move { client.get_tenant(request).await }
    })
    .await
}

async fn tenants(args: &Get, api: &Api) -> Result<(), Error> {
    let name = |tenant: &v1::Tenant| format!("tenant/{}", tenant.metadata.clone().unwrap_or_default().name);
    if let Some(wanted) = &args.name {
        let tenant = tenant(wanted, api).await?;
        let table = |_| render::tenants(std::slice::from_ref(&tenant));
        return print(&render::render(
            args.output,
            &tenant,
            "rail.v1.Tenant",
            || vec![name(&tenant)],
            table,
        )?);
    }
    let mut list = api.list_tenants().await?;
    list.tenants.retain(|tenant| labelled(tenant.metadata.as_ref(), &args.labels));
    nothing(list.tenants.is_empty(), args.output, "tenants");
    let names = || list.tenants.iter().map(name).collect();
    let table = |_| if list.tenants.is_empty() { String::new() } else { render::tenants(&list.tenants) };
    print(&render::render(args.output, &list, "rail.v1.ListTenantsResponse", names, table)?)
}

async fn fabric(args: &Get, api: &Api) -> Result<(), Error> {
    let fabric = repeat("get the fabric", |_| {
        let mut client = api.fabrics();
        async move { client.get_fabric(v1::GetFabricRequest {}).await }
    })
    .await?;
    let name = fabric.metadata.clone().unwrap_or_default().name;
    if let Some(wanted) = args.name.as_ref().filter(|wanted| **wanted != name) {
        return Err(Error::NotFound(format!(
            "there is no fabric `{wanted}`; the cluster's fabric is `{name}`"
        )));
    }
    let table = |wide| render::fabric(&fabric, wide);
    print(&render::render(args.output, &fabric, "rail.v1.Fabric", || vec![format!("fabric/{name}")], table)?)
}

/// An empty table says nothing; a person is told so.
pub fn nothing(empty: bool, output: Output, what: &str) {
    if empty && matches!(output, Output::Table | Output::Wide) {
        eprintln!("no {what}");
    }
}
