//! Lists, once or as they change.

use proto_wire::v1;

use super::{
    array::{self, Named},
    board::Window,
    filter::{job_name, labelled, node_labelled, phase_number, wanted},
    license,
    list::{Asked, Found},
    live,
    lookup::{node, node_names, tenant, the_fabric},
    queue, reserve, schedule, secret, service_class, switches, watch, webhook,
};
use crate::{
    args::{Get, GetNoun, ListArgs, Output},
    client::Api,
    error::Error,
    output::{now, print},
    render::{self, Behind, Kind},
};

/// `get KIND [NAME...]`: lists, once or as they change.
///
/// # Errors
/// [`Error::Usage`] if the options contradict each other; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Get, api: &Api) -> Result<(), Error> {
    let noun = args.noun.kind;
    let mut names = args.noun.names(&args.names)?;
    check(args, noun, &names)?;
    if noun == GetNoun::Nodes {
        names = node_names(&names)?;
    }
    if args.watch {
        return watch(args, noun, &names, api).await;
    }
    let all = if args.all_tenants { "" } else { &api.tenant };
    let asked = Asked { list: &args.list, names: &names };
    match noun {
        GetNoun::Jobs => jobs(args, &asked, api).await,
        GetNoun::Nodes => nodes(&args.labels, &asked, api).await,
        GetNoun::Tenants => tenants(args, &asked, api).await,
        GetNoun::Queues => queue::show(&asked, all, api).await,
        GetNoun::Reservations => reserve::list(&asked, api).await,
        GetNoun::Schedules => schedule::show(&asked, all, api).await,
        GetNoun::Secrets => secret::secret::show(&asked, all, api).await,
        GetNoun::Configs => secret::config::show(&asked, all, api).await,
        GetNoun::Webhooks => webhook::show(&asked, all, api).await,
        GetNoun::ServiceClasses => service_class::show(&asked, api).await,
        GetNoun::Licenses => license::show(&asked, api).await,
        GetNoun::Switches => switches::show(&asked, api).await,
        GetNoun::Shares => queue::shares(&asked, args.all_tenants, api).await,
        GetNoun::Fabric => fabric(&asked, api).await,
    }
}

/// As they change: on a terminal one table that is drawn again in place, elsewhere a line for each change.
async fn watch(args: &Get, noun: GetNoun, names: &[String], api: &Api) -> Result<(), Error> {
    let plain = args.list.plain().filter(|_| args.list.columns.is_empty() && args.list.sort_by.is_none());
    let Some(output) = plain else {
        return Err(Error::Usage(
            "what is watched comes as it changes, as table, wide, json, yaml or name: without --columns and --sort-by"
                .to_owned(),
        ));
    };
    let one = match (noun, names) {
        (GetNoun::Jobs, [] | [_]) => names.first(),
        (GetNoun::Jobs, _) => return Err(Error::Usage("watch one job, or all".to_owned())),
        (GetNoun::Nodes, _) => None,
        _ => return Err(Error::Usage("only jobs and nodes can be watched".to_owned())),
    };
    let of_jobs = noun == GetNoun::Jobs;
    let window = if matches!(output, Output::Table | Output::Wide) { Window::begin()? } else { None };
    match window {
        Some(window) if of_jobs => live::jobs(args, one, window, output == Output::Wide, api).await,
        Some(window) => live::nodes(args, names, window, output == Output::Wide, api).await,
        None if of_jobs => watch::jobs(args, one, output, api).await,
        None => watch::nodes(args, names, output, api).await,
    }
}

/// Refuses what does not go together.
fn check(args: &Get, noun: GetNoun, names: &[String]) -> Result<(), Error> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    if (!args.phase.is_empty() || args.user.is_some() || args.queue.is_some()) && noun != GetNoun::Jobs {
        return usage("--phase, --user and --queue are for jobs only");
    }
    let of_tenants = matches!(
        noun,
        GetNoun::Jobs
            | GetNoun::Queues
            | GetNoun::Schedules
            | GetNoun::Secrets
            | GetNoun::Configs
            | GetNoun::Webhooks
            | GetNoun::Shares
    );
    if args.all_tenants && !of_tenants {
        return usage(
            "--all-tenants is for jobs, queues, schedules, secrets, configs, webhooks and shares only",
        );
    }
    if !args.labels.is_empty() && !matches!(noun, GetNoun::Jobs | GetNoun::Nodes | GetNoun::Tenants) {
        return usage("--label is for jobs, nodes and tenants");
    }
    if args.all_tenants && !names.is_empty() {
        return usage("a job is named within one tenant: write TENANT/JOB in place of -A");
    }
    render::check_list(&args.list)
}

const JOB_COLUMNS: &[Behind] = &[
    Behind::new("NODES", "spec.gang.nodes"),
    Behind::new("PRIO", "spec.priority"),
    Behind::new("PHASE", "status.phase"),
    Behind::ago("AGE", "status.submitTime"),
    Behind::ago("RUN", "status.startTime"),
    Behind::new("ETA", "status.eta.start"),
];

const NODE_COLUMNS: &[Behind] = &[
    Behind::new("MEMORY", "status.inventory.memoryBytes"),
    Behind::ago("HEARTBEAT", "status.lastHeartbeat"),
];

async fn jobs(args: &Get, asked: &Asked<'_>, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.Job",
        name: &job_name,
        table: &|jobs: &[v1::Job], wide| render::jobs(jobs, wide, now()),
        columns: JOB_COLUMNS,
        slurm: Some(&|jobs: &[v1::Job]| render::slurm_jobs(jobs, now())),
    };
    let one = async |name: &str| {
        Ok(match array::find(name, api).await? {
            Named::Array(array) => Found::Several(array.jobs),
            Named::Job(job) => Found::One(*job),
        })
    };
    let all = async || {
        let phases: Vec<i32> = args.phase.iter().map(|phase| phase_number(*phase)).collect();
        let of = if args.all_tenants { "" } else { &api.tenant };
        let mut list = api.list_jobs(of, &phases).await?;
        list.jobs.retain(|job| wanted(job, args));
        array::in_order(&mut list.jobs);
        if list.jobs.is_empty() {
            known(of, api).await?;
        }
        Ok(list)
    };
    asked.show(&kind, "jobs", one, all).await
}

/// A tenant that there is not has nothing, and the error says so.
async fn known(name: &str, api: &Api) -> Result<(), Error> {
    if name.is_empty() { Ok(()) } else { tenant(name, api).await.map(drop) }
}

async fn nodes(labels: &[(String, String)], asked: &Asked<'_>, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.Node",
        name: &|node: &v1::Node| format!("node/{}", node.metadata.clone().unwrap_or_default().name),
        table: &|nodes: &[v1::Node], wide| render::nodes(nodes, wide, now()),
        columns: NODE_COLUMNS,
        slurm: Some(&|nodes: &[v1::Node]| render::slurm_nodes(nodes)),
    };
    let all = async || {
        let mut list = api.list_nodes().await?;
        list.nodes.retain(|node| node_labelled(node, labels));
        Ok(list)
    };
    let one = async |name: &str| node(name, api).await.map(Found::One);
    asked.show(&kind, "nodes", one, all).await
}

/// `node ls`: all nodes of the cluster.
///
/// # Errors
/// [`Error::Usage`] if the options contradict each other; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn all_nodes(list: &ListArgs, api: &Api) -> Result<(), Error> {
    render::check_list(list)?;
    nodes(&[], &Asked { list, names: &[] }, api).await
}

async fn tenants(args: &Get, asked: &Asked<'_>, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.Tenant",
        name: &|tenant: &v1::Tenant| format!("tenant/{}", tenant.metadata.clone().unwrap_or_default().name),
        table: &|tenants: &[v1::Tenant], _| render::tenants(tenants),
        columns: &[],
        slurm: None,
    };
    let all = async || {
        let mut list = api.list_tenants().await?;
        list.tenants.retain(|tenant| labelled(tenant.metadata.as_ref(), &args.labels));
        Ok(list)
    };
    let one = async |name: &str| tenant(name, api).await.map(Found::One);
    asked.show(&kind, "tenants", one, all).await
}

async fn fabric(asked: &Asked<'_>, api: &Api) -> Result<(), Error> {
    let fabric = the_fabric(api).await?;
    let name = fabric.metadata.clone().unwrap_or_default().name;
    if let Some(wanted) = asked.names.iter().find(|wanted| **wanted != name) {
        return Err(Error::NotFound(format!(
            "there is no fabric `{wanted}`; the cluster's fabric is `{name}`"
        )));
    }
    let Some(output) = asked.list.plain() else {
        return Err(Error::Usage("the fabric is shown as table, wide, json, yaml or name".to_owned()));
    };
    let table = |wide| render::fabric(&fabric, wide);
    print(&render::render(output, &fabric, "rail.v1.Fabric", || vec![format!("fabric/{name}")], table)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_in_ranges() {
        let names =
            |texts: &[&str]| node_names(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["n[0-2]", "n1", "login"]).unwrap(), ["n0", "n1", "n2", "login"]);
        assert!(names(&["n[0-9999]", "m0"]).unwrap_err().to_string().contains("more than"));
        assert!(names(&["n[0-"]).unwrap_err().to_string().contains("n[0-"));
    }
}
