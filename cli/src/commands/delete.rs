//! Deleting resources.

use proto_wire::v1;

use super::lookup;
use crate::{
    args::{Delete, DeleteNoun},
    client::{Api, elements, once},
    confirm::{confirm, counted},
    documents::Resource,
    error::Error,
};

/// `delete KIND NAME...`, `delete -f FILE...`.
///
/// # Errors
/// [`Error::Usage`] if nothing is named; [`Error::Document`] if a file cannot be read as documents of the API; [`Error::Rpc`] if the
/// controller refuses or does not answer.
pub async fn run(args: &Delete, api: &Api) -> Result<(), Error> {
    let Some(noun) = &args.noun else { return files(args, api).await };
    let mut names = noun.names(&args.names)?;
    if names.is_empty() {
        return Err(noun.which());
    }
    let noun = noun.kind;
    if noun == DeleteNoun::Node {
        names = lookup::node_names(&names)?;
    }
    let guarded = matches!(noun, DeleteNoun::Tenant | DeleteNoun::Fabric);
    if args.dry_run && !guarded {
        return Err(Error::Usage("`--dry-run` is for tenants and the fabric".to_owned()));
    }
    if args.uid.is_some() && (noun != DeleteNoun::Tenant || names.len() > 1) {
        return Err(Error::Usage("`--uid` is for one tenant".to_owned()));
    }
    let all: Vec<(DeleteNoun, String)> = names.into_iter().map(|name| (noun, name)).collect();
    each(args, &all, api).await
}

/// What documents describe: what was made last is deleted first.
async fn files(args: &Delete, api: &Api) -> Result<(), Error> {
    if args.dry_run {
        return Err(Error::Usage("`--dry-run` is for tenants and the fabric, by name".to_owned()));
    }
    let mut all = Vec::new();
    for (_, documents) in super::apply::read(&args.files)? {
        for document in documents {
            let (noun, metadata) = match document.resource {
                Resource::Job(one) => (DeleteNoun::Job, one.metadata),
                Resource::Fabric(one) => (DeleteNoun::Fabric, one.metadata),
                Resource::Tenant(one) => (DeleteNoun::Tenant, one.metadata),
                Resource::Queue(one) => (DeleteNoun::Queue, one.metadata),
                Resource::ServiceClass(one) => (DeleteNoun::ServiceClass, one.metadata),
                Resource::License(one) => (DeleteNoun::License, one.metadata),
                Resource::Switch(one) => (DeleteNoun::Switch, one.metadata),
                Resource::Reservation(one) => (DeleteNoun::Reservation, one.metadata),
                Resource::Schedule(one) => (DeleteNoun::Schedule, one.metadata),
                Resource::Secret(one) => (DeleteNoun::Secret, one.metadata),
                Resource::Config(one) => (DeleteNoun::Config, one.metadata),
                Resource::Webhook(one) => (DeleteNoun::Webhook, one.metadata),
                Resource::Other(_) => continue,
            };
            let metadata = metadata.unwrap_or_default();
            let name = match metadata.tenant.as_str() {
                "" => metadata.name,
                tenant => format!("{tenant}/{}", metadata.name),
            };
            all.push((noun, name));
        }
    }
    all.reverse();
    each(args, &all, api).await
}

/// All are tried, the first error is given.
async fn each(args: &Delete, all: &[(DeleteNoun, String)], api: &Api) -> Result<(), Error> {
    let mut first = None;
    for (noun, name) in all {
        match one(args, *noun, name, api).await {
            Ok(what) if args.dry_run => eprintln!("{what} would be deleted (dry run)"),
            Ok(what) => eprintln!("{what} is deleted"),
            Err(error) => {
                if let Some(earlier) = first.replace(error) {
                    earlier.lines().iter().for_each(|line| eprintln!("{line}"));
                }
            }
        }
    }
    first.map_or(Ok(()), Err)
}

/// The fabric document: what it costs first.
async fn fabric(args: &Delete, name: &str, api: &Api) -> Result<String, Error> {
    let (doing, what) = (|| format!("delete fabric `{name}`"), format!("fabric {name}"));
    // What is shown is of this document, and not of one that is applied before the answer.
    let version = lookup::the_fabric(api).await?.metadata.unwrap_or_default().resource_version;
    let request =
        |dry_run| v1::DeleteFabricRequest { name: name.to_owned(), resource_version: version, dry_run };
    let cost = once(doing(), api.fabrics().delete_fabric(request(true))).await?;
    let mut lines = Vec::new();
    lines.extend(counted(cost.nodes, "server is cabled by it", "servers are cabled by it"));
    let tenants = cost.tenants.join(", ");
    let jobs = counted(
        cost.jobs,
        "job holds something on them and goes on",
        "jobs hold something on them and go on",
    );
    lines.extend(jobs.map(|jobs| format!("{jobs} ({tenants})")));
    lines.push(
        "until another one is applied only inventories tell of rails, and nothing of pods and leaves"
            .to_owned(),
    );
    if args.dry_run {
        lines.iter().for_each(|line| eprintln!("  {line}"));
        return Ok(what);
    }
    confirm(&doing(), &lines, args.yes)?;
    once(doing(), api.fabrics().delete_fabric(request(false))).await?;
    Ok(what)
}

/// A tenant: what goes with it first. What was confirmed is of this tenant, and not of one that is made meanwhile.
async fn tenant(args: &Delete, name: &str, api: &Api) -> Result<String, Error> {
    let (doing, what) = (|| format!("delete tenant `{name}`"), format!("tenant {name}"));
    let get = v1::GetTenantRequest { name: name.to_owned() };
    let uid = match &args.uid {
        Some(uid) => uid.clone(),
        None => once(doing(), api.tenants().get_tenant(get)).await?.metadata.unwrap_or_default().uid,
    };
    let request = |dry_run| v1::DeleteTenantRequest { name: name.to_owned(), uid: uid.clone(), dry_run };
    let cost = once(doing(), api.tenants().delete_tenant(request(true))).await?;
    let mut lines = Vec::new();
    if api.tenant == name {
        lines.push("it is the tenant that this command acts for".to_owned());
    }
    lines.extend(counted(
        cost.jobs,
        "job that has ended goes with it, its logs too",
        "jobs that have ended go with it, their logs too",
    ));
    lines.extend(counted(cost.queues, "queue", "queues"));
    lines.extend(counted(cost.schedules, "schedule", "schedules"));
    lines.extend(counted(cost.webhooks, "webhook", "webhooks"));
    lines.extend(counted(cost.secrets, "secret", "secrets"));
    lines.extend(counted(cost.configs, "config", "configs"));
    lines.extend(counted(
        cost.reservations,
        "reservation that it has a share in",
        "reservations that it has a share in",
    ));
    lines.push("certificates and tokens of its users end".to_owned());
    if args.dry_run {
        lines.iter().for_each(|line| eprintln!("  {line}"));
        return Ok(what);
    }
    confirm(&doing(), &lines, args.yes)?;
    once(doing(), api.tenants().delete_tenant(request(false))).await?;
    Ok(what)
}

/// A server; by force it must be this one and not one that joins under its name meanwhile.
async fn node(args: &Delete, name: &str, api: &Api) -> Result<String, Error> {
    let (doing, owned) = (|| format!("delete node `{name}`"), name.to_owned());
    let uid = if args.force {
        let request = v1::GetNodeRequest { name: owned.clone() };
        let node = once(format!("get node `{name}`"), api.nodes().get_node(request)).await?;
        let lines = [
            "you vouch that nothing runs there any more".to_owned(),
            "jobs that hold something there lose it, and start anew elsewhere if they may".to_owned(),
        ];
        confirm(&format!("{} by force", doing()), &lines, args.yes)?;
        node.metadata.unwrap_or_default().uid
    } else {
        String::new()
    };
    let request = v1::DeleteNodeRequest { name: owned, force: args.force, uid };
    once(doing(), api.nodes().delete_node(request)).await?;
    Ok(format!("node {name}"))
}

async fn one(args: &Delete, noun: DeleteNoun, name: &str, api: &Api) -> Result<String, Error> {
    match noun {
        DeleteNoun::Job => {
            let (name, elements) = elements(name)?;
            let job = api.job_ref(name);
            let request =
                v1::DeleteJobRequest { name: job.name.clone(), tenant: job.tenant.clone(), elements };
            once(format!("delete job `{job}`"), api.jobs().delete_job(request)).await?;
            Ok(format!("job {job}"))
        }
        DeleteNoun::ServiceClass => super::service_class::delete(name, api).await,
        DeleteNoun::Secret => super::secret::secret::delete(name, api).await,
        DeleteNoun::Config => super::secret::config::delete(name, api).await,
        DeleteNoun::Webhook => super::webhook::delete(name, api).await,
        DeleteNoun::License => super::license::delete(name, api).await,
        DeleteNoun::Switch => super::switches::delete(name, api).await,
        DeleteNoun::Schedule => super::schedule::delete(name, api).await,
        DeleteNoun::Queue => super::queue::delete(name, api).await,
        DeleteNoun::Reservation => {
            let request = v1::DeleteReservationRequest { name: name.to_owned() };
            let doing = format!("delete reservation `{name}`");
            once(doing, api.reservations().delete_reservation(request)).await?;
            Ok(format!("reservation {name}"))
        }
        DeleteNoun::Tenant => tenant(args, name, api).await,
        DeleteNoun::Node => node(args, name, api).await,
        DeleteNoun::Fabric => fabric(args, name, api).await,
    }
}
