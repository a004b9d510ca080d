//! Making what files describe.

use prost::Message as _;
use proto_rpc::MAX_MESSAGE_BYTES;
use proto_wire::v1;

use super::submit;
use crate::{
    args::Apply,
    client::{Api, JobRef, repeat},
    documents::{Document, Resource, Source},
    error::Error,
    output::print,
};

/// `apply -f FILE...`. All files are read and checked before anything is sent.
pub async fn run(args: &Apply, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let mut all = Vec::new();
    for path in &args.files {
        let source = Source::open(path)?;
        let documents = source.documents()?;
        for document in &documents {
            if let Resource::Other(kind) = &document.resource {
                let text = format!(
                    "{}: a {kind} is not made by a file; Fabric, Tenant, ServiceClass, License, Queue, Reservation, Schedule, Webhook and Job are",
                    source.name
                );
                return Err(Error::Document(text));
            }
        }
        all.push((source, documents));
    }
    let api = api()?;
    for (source, documents) in all {
        for document in documents {
            let index = document.index;
            let done =
                one(&source, document, args, &api).await.map_err(|error| source.place(index, error))?;
            print(&format!("{done}{}\n", if args.dry_run { " (dry run)" } else { "" }))?;
        }
    }
    Ok(())
}

/// Findings of an applied document that are told at most.
const NOTES: usize = 50;

/// A document that is longer than what every controller takes in one message, with its cables in lists.
fn short(fabric: v1::Fabric) -> v1::Fabric {
    if fabric.encoded_len() <= MAX_MESSAGE_BYTES {
        return fabric;
    }
    let metadata = fabric.metadata.clone();
    // It was checked when it was read.
    match proto_model::Fabric::try_from(fabric.clone()) {
        Ok(whole) => {
            let lists = proto_wire::convert::compact_fabric(&controller_fabric::gather(whole));
            v1::Fabric { metadata, ..lists }
        }
        Err(_) => fabric,
    }
}

/// A job that is there already is applied if it asks for the same; another one of its name is refused as it was.
async fn unchanged(job: v1::Job, refused: Error, api: &Api) -> Result<String, Error> {
    let taken = matches!(&refused, Error::Rpc { error, .. } if error.reason == "NAME_TAKEN");
    let metadata = job.metadata.unwrap_or_default();
    let (true, Some(asked)) = (taken, job.spec) else { return Err(refused) };
    // The name may be an array's, which is no job.
    let there = JobRef { tenant: api.tenant.clone(), name: metadata.name };
    let Ok(there) = api.get_job(&there).await else { return Err(refused) };
    let (Some(spec), labels) = (&there.spec, there.metadata.clone().unwrap_or_default().labels) else {
        return Err(refused);
    };
    // As the controller reads them: what is left out is what it stands for.
    let read = |spec: v1::JobSpec| proto_model::JobSpec::try_from(spec).ok();
    if labels == metadata.labels && read(asked).is_some_and(|asked| read(spec.clone()) == Some(asked)) {
        return Ok(format!("{} unchanged", super::get::job_name(&there)));
    }
    Err(refused)
}

/// Refuses a job that could never start.
async fn planned(source: &Source, job: v1::Job, name: &str, api: &Api) -> Result<(), Error> {
    let request = v1::PlanJobRequest { job: Some(job), on_behalf_of: api.tenant.clone() };
    let planned = repeat(format!("plan the job of {}", source.name), |_| {
        let (mut client, request) = (api.jobs(), request.clone());
        async move { client.plan_job(request).await }
    })
    .await?;
    if planned.infeasible {
        let codes = crate::render::reasons(&planned.reasons);
        let source = &source.name;
        return Err(Error::Infeasible(format!(
            "{source}: job `{name}` can never start on this cluster: {codes}"
        )));
    }
    Ok(())
}

/// The fabric, with what its check has found.
async fn apply_fabric(source: &Source, fabric: v1::Fabric, args: &Apply, api: &Api) -> Result<String, Error> {
    let request = v1::ApplyFabricRequest {
        fabric: Some(short(fabric)),
        dry_run: args.dry_run,
        allow_shrink: args.allow_shrink,
    };
    let made = repeat(format!("apply the fabric of {}", source.name), |_| {
        let (mut client, request) = (api.fabrics(), request.clone());
        async move { client.apply_fabric(request).await }
    })
    .await?;
    let findings = made.status.unwrap_or_default().findings;
    for finding in findings.iter().take(NOTES) {
        eprintln!("note: {}: {}", finding.code, finding.message);
    }
    if findings.len() > NOTES {
        eprintln!("note: and {} more; `railctl get fabric` tells them", findings.len() - NOTES);
    }
    Ok(format!("fabric/{} applied", made.metadata.unwrap_or_default().name))
}

async fn one(source: &Source, document: Document, args: &Apply, api: &Api) -> Result<String, Error> {
    let (dry_run, reuse_name) = (args.dry_run, args.reuse_name);
    match document.resource {
        Resource::Fabric(fabric) => apply_fabric(source, fabric, args, api).await,
        Resource::Tenant(tenant) => {
            let request = v1::ApplyTenantRequest { tenant: Some(tenant), dry_run, reuse_name };
            let made = repeat(format!("apply the tenant of {}", source.name), |_| {
                let (mut client, request) = (api.tenants(), request.clone());
                async move { client.apply_tenant(request).await }
            })
            .await?;
            Ok(format!("tenant/{} applied", made.metadata.unwrap_or_default().name))
        }
        Resource::Job(job) if dry_run => {
            let name = job.metadata.clone().unwrap_or_default().name;
            planned(source, *job, &name, api).await?;
            Ok(format!("job/{name} would be submitted"))
        }
        Resource::Job(job) => match submit::create(source, document.index, (*job).clone(), api).await {
            Ok(made) => Ok(format!("{} submitted", super::get::job_name(&made))),
            Err(error) => unchanged(*job, error, api).await,
        },
        Resource::Queue(queue) => {
            let doing = format!("apply the queue of {}", source.name);
            let metadata =
                super::queue::apply(doing, queue, dry_run, api).await?.metadata.unwrap_or_default();
            Ok(format!("queue/{}/{} applied", metadata.tenant, metadata.name))
        }
        Resource::ServiceClass(class) => {
            let doing = format!("apply the service class of {}", source.name);
            let made = super::service_class::apply(doing, class, dry_run, api).await?;
            Ok(format!("service-class/{} applied", made.metadata.unwrap_or_default().name))
        }
        Resource::License(license) => {
            let doing = format!("apply the license of {}", source.name);
            let made = super::license::apply(doing, license, dry_run, api).await?;
            Ok(format!("license/{} applied", made.metadata.unwrap_or_default().name))
        }
        Resource::Reservation(reservation) => {
            let doing = format!("apply the reservation of {}", source.name);
            let made = super::reserve::apply(doing, reservation, dry_run, api).await?;
            Ok(format!("reservation/{} applied", made.metadata.unwrap_or_default().name))
        }
        Resource::Schedule(schedule) => {
            let doing = format!("apply the schedule of {}", source.name);
            let made = super::schedule::apply(doing, *schedule, dry_run, api).await?;
            let metadata = made.metadata.unwrap_or_default();
            Ok(format!("schedule/{}/{} applied", metadata.tenant, metadata.name))
        }
        Resource::Webhook(webhook) => super::webhook::apply(&source.name, *webhook, dry_run, api).await,
        Resource::Other(kind) => {
            Err(Error::Document(format!("{}: a {kind} is not made by a file", source.name)))
        }
    }
}
