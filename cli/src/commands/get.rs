//! Lists, once or as they change.

use proto_model::{Names, many};
use proto_wire::v1;

use super::{
    array::{self, Named},
    license, queue, reserve, schedule, secret, service_class, watch, webhook,
};
use crate::{
    args::{Get, GetNoun, ListArgs, Output, PhaseArg},
    client::{Api, repeat},
    error::Error,
    output::{now, print},
    render::{self, Answer, Behind, Kind},
};

/// Servers that one command names at most.
const NODES_MAX: usize = 10_000;

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
        let Some(output) =
            args.list.plain().filter(|_| args.list.columns.is_empty() && args.list.sort_by.is_none())
        else {
            return Err(Error::Usage(
                "what is watched comes as it changes, as table, wide, json, yaml or name: without --columns and --sort-by"
                    .to_owned(),
            ));
        };
        return match (noun, names.as_slice()) {
            (GetNoun::Jobs, [] | [_]) => watch::jobs(args, names.first(), output, api).await,
            (GetNoun::Jobs, _) => Err(Error::Usage("watch one job, or all".to_owned())),
            (GetNoun::Nodes, _) => watch::nodes(args, &names, output, api).await,
            _ => Err(Error::Usage("only jobs and nodes can be watched".to_owned())),
        };
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
        GetNoun::Shares => queue::shares(&asked, args.all_tenants, api).await,
        GetNoun::Fabric => fabric(&asked, api).await,
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

/// Names of servers, of which each may stand for many: `n[0-7]`.
///
/// # Errors
/// A list that is not one, or that is too long.
pub fn node_names(texts: &[String]) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for text in texts {
        let list = Names::new(text).map_err(|error| Error::Usage(format!("`{text}`: {error}")))?;
        if names.len() + list.len() > NODES_MAX {
            return Err(Error::Usage(format!("`{text}` names more than {}", many(NODES_MAX, "server"))));
        }
        for name in list.iter() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// What a list command was asked for.
pub struct Asked<'a> {
    /// How the list is printed.
    pub list: &'a ListArgs,
    /// The names that were given; empty: all.
    pub names: &'a [String],
}

/// What a name stands for.
pub enum Found<T> {
    /// Exactly one thing of that name.
    One(T),
    /// Several, as an array's elements.
    Several(Vec<T>),
}

impl Asked<'_> {
    /// Shows what was named, or all.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Config`] if an item cannot be shown in the format;
    /// [`Error::Output`] if standard output cannot be written to.
    pub async fn show<L: Answer>(
        &self,
        kind: &Kind<'_, L::Item>,
        what: &str,
        one: impl AsyncFn(&str) -> Result<Found<L::Item>, Error>,
        all: impl AsyncFnOnce() -> Result<L, Error>,
    ) -> Result<(), Error> {
        let list = self.list;
        let mut answer = L::default();
        match self.names {
            [] => answer = all().await?,
            [name] => match one(name).await? {
                Found::One(item) => return print(&render::one(list, kind, &item)?),
                Found::Several(found) => answer.items().extend(found),
            },
            names => {
                for name in names {
                    match one(name).await? {
                        Found::One(item) => answer.items().push(item),
                        Found::Several(found) => answer.items().extend(found),
                    }
                }
            }
        }
        if answer.items().is_empty() && list.for_people() {
            eprintln!("no {what}");
        }
        print(&render::list(list, kind, &mut answer)?)
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

/// The same of a server: its labels are of its spec, where administrators set them.
pub fn node_labelled(node: &v1::Node, wanted: &[(String, String)]) -> bool {
    let own = node.spec.as_ref().map(|spec| &spec.labels);
    wanted.iter().all(|(key, value)| {
        own.is_some_and(|own| own.get(key) == Some(value))
            || labelled(node.metadata.as_ref(), &[(key.clone(), value.clone())])
    })
}

/// True if a job has all that was asked for, but for its phase.
pub fn wanted(job: &v1::Job, args: &Get) -> bool {
    let user = || job.status.as_ref().and_then(|status| Some(status.submitter.as_ref()?.user.as_str()));
    let queue = || job.spec.as_ref().map(|spec| spec.queue.as_str());
    labelled(job.metadata.as_ref(), &args.labels)
        && args.user.as_deref().is_none_or(|wanted| user() == Some(wanted))
        && args.queue.as_deref().is_none_or(|wanted| queue() == Some(wanted))
}

/// The job as `-o name` writes it: `job/TENANT/NAME`.
pub fn job_name(job: &v1::Job) -> String {
    let metadata = job.metadata.clone().unwrap_or_default();
    format!("job/{}/{}", metadata.tenant, metadata.name)
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

/// Asks for one node as it is now.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn node(name: &str, api: &Api) -> Result<v1::Node, Error> {
    repeat(format!("get node `{name}`"), |_| {
        let (mut client, request) = (api.nodes(), v1::GetNodeRequest { name: name.to_owned() });
        async move { client.get_node(request).await }
    })
    .await
}

/// Asks for one tenant as it is now.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn tenant(name: &str, api: &Api) -> Result<v1::Tenant, Error> {
    repeat(format!("get tenant `{name}`"), |_| {
        let (mut client, request) = (api.tenants(), v1::GetTenantRequest { name: name.to_owned() });
        async move { client.get_tenant(request).await }
    })
    .await
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

/// Asks for the fabric document of the cluster.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; a cluster without a fabric is such a refusal.
pub async fn the_fabric(api: &Api) -> Result<v1::Fabric, Error> {
    repeat("get the fabric", |_| {
        let mut client = api.fabrics();
        async move { client.get_fabric(v1::GetFabricRequest {}).await }
    })
    .await
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

/// An empty table says nothing; for a person a sentence does.
pub fn nothing(empty: bool, output: Output, what: &str) {
    if empty && matches!(output, Output::Table | Output::Wide) {
        eprintln!("no {what}");
    }
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
