//! Making what files describe.

use proto_rpc::{ErrorClass, RpcError};
use proto_wire::v1::{self, planned_document::Outcome};

use super::{
    dry_run::{self, Judged},
    filter,
    made::{Made, short},
    submit,
};
use crate::{
    args::Apply,
    client::{Api, JobRef, repeat},
    documents::{Document, Resource, Source},
    error::Error,
    output::print,
    render,
};

/// `apply -f FILE...`. All files are read and checked before anything is sent.
///
/// # Errors
/// [`Error::Document`] if a file cannot be read as documents of the API; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Apply, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let all = read(&args.files)?;
    let api = api()?;
    if args.dry_run
        && let Some(judged) = dry_run::judge(&all, args, &api).await?
    {
        return report(all, judged, &api).await;
    }
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

/// What each document would change. Every refusal is shown; the command ends with the first of them.
async fn report(all: Vec<(Source, Vec<Document>)>, judged: Vec<Judged>, api: &Api) -> Result<(), Error> {
    let mut first: Option<Error> = None;
    let documents = all.iter().flat_map(|(source, all)| all.iter().map(move |document| (source, document)));
    for ((source, document), judged) in documents.zip(judged) {
        match would(source, document, judged, api).await {
            Ok(done) => print(&format!("{done} (dry run)\n"))?,
            Err(error) => {
                let error = source.place(document.index, error);
                match &first {
                    None => first = Some(error),
                    Some(_) => error.lines().iter().for_each(|line| eprintln!("{line}")),
                }
            }
        }
    }
    first.map_or(Ok(()), Err)
}

/// What would come of one document.
async fn would(source: &Source, document: &Document, judged: Judged, api: &Api) -> Result<String, Error> {
    let made = match judged {
        Judged::Made(made) => made,
        Judged::Refused(refused) => {
            let doing = match &document.resource {
                Resource::Job(_) => format!("submit {}", source.name),
                other => format!("apply the {} of {}", dry_run::in_words(other), source.name),
            };
            let refused = Error::Rpc { doing, error: Box::new(refused) };
            return match &document.resource {
                Resource::Job(job) => there_already(job, refused, api).await,
                _ => Err(refused),
            };
        }
    };
    if let v1::document::Document::Fabric(fabric) = &made.document {
        notes(fabric);
    }
    let name = dry_run::made(&made.document)?.name;
    Ok(match (&document.resource, made.outcome) {
        (Resource::Job(_), Outcome::Created) => format!("{name} would be submitted"),
        (_, Outcome::Created) => format!("{name} would be created"),
        (_, Outcome::Changed) => format!("{name} would be changed"),
        _ => format!("{name} unchanged"),
    })
}

/// A job that is there already: the same one is no fault.
async fn there_already(job: &v1::Job, refused: Error, api: &Api) -> Result<String, Error> {
    let taken = matches!(&refused, Error::Rpc { error, .. } if error.reason == "NAME_TAKEN");
    match there(job, api).await.filter(|_| taken) {
        Some(there) if same(job, &there) => Ok(format!("{} unchanged", filter::job_name(&there))),
        Some(there) => {
            let Error::Rpc { doing, mut error } = refused else { return Err(refused) };
            error.message = differs(&there);
            Err(Error::Rpc { doing, error })
        }
        None => Err(refused),
    }
}

fn differs(there: &v1::Job) -> String {
    format!(
        "{} exists already and asks for something else; `railctl diff -f` shows what differs",
        filter::job_name(there)
    )
}

/// Reads and checks all documents of some files.
///
/// # Errors
/// [`Error::Document`] if a file cannot be read as documents of the API; [`Error::Document`] also for a kind that is not made by a file.
pub fn read(files: &[std::path::PathBuf]) -> Result<Vec<(Source, Vec<Document>)>, Error> {
    let mut all = Vec::new();
    for path in files {
        let source = Source::open(path)?;
        let documents = source.documents()?;
        for document in &documents {
            if let Resource::Other(kind) = &document.resource {
                let text = format!(
                    "{}: a {kind} is not made by a file; Fabric, Tenant, ServiceClass, License, Switch, Queue, Reservation, Schedule, Secret, Config, Webhook and Job are",
                    source.name
                );
                return Err(Error::Document(text));
            }
        }
        all.push((source, documents));
    }
    Ok(all)
}

/// Findings of an applied document that are shown at most.
const NOTES: usize = 50;

/// A job that is there already is applied if it asks for the same; another one of its name is refused as it was.
async fn unchanged(job: v1::Job, refused: Error, api: &Api) -> Result<String, Error> {
    let taken = matches!(&refused, Error::Rpc { error, .. } if error.reason == "NAME_TAKEN");
    match there(&job, api).await.filter(|_| taken) {
        Some(there) if same(&job, &there) => Ok(format!("{} unchanged", filter::job_name(&there))),
        _ => Err(refused),
    }
}

/// The job of this name that is there; an array of this name is none.
async fn there(job: &v1::Job, api: &Api) -> Option<v1::Job> {
    let name = job.metadata.as_ref()?.name.clone();
    if name.is_empty() {
        return None;
    }
    api.get_job(&JobRef { tenant: api.tenant.clone(), name }).await.ok()
}

/// Whether two jobs ask for the same, as the controller reads them: what is left out is what it stands for.
fn same(job: &v1::Job, there: &v1::Job) -> bool {
    let read = |job: &v1::Job| job.spec.clone().and_then(|spec| proto_model::JobSpec::try_from(spec).ok());
    let labels = |job: &v1::Job| job.metadata.clone().unwrap_or_default().labels;
    labels(job) == labels(there) && read(job).is_some_and(|asked| read(there) == Some(asked))
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
        let codes = render::reasons(&planned.reasons);
        let source = &source.name;
        return Err(Error::Infeasible(format!(
            "{source}: job `{name}` can never start on this cluster: {codes}"
        )));
    }
    Ok(())
}

/// The fabric, with what its check has found.
async fn apply_fabric(
    source: &Source,
    fabric: v1::Fabric,
    args: &Apply,
    api: &Api,
) -> Result<v1::Fabric, Error> {
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
    notes(&made);
    Ok(made)
}

/// What the check of a fabric has found.
fn notes(made: &v1::Fabric) {
    let findings = made.status.clone().unwrap_or_default().findings;
    for finding in findings.iter().take(NOTES) {
        eprintln!("note: {}: {}", finding.code, finding.message);
    }
    if findings.len() > NOTES {
        eprintln!("note: and {} more; `railctl get fabric` tells them", findings.len() - NOTES);
    }
}

/// Makes what a document describes, if it is no job; in a dry run it is only checked.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, with the place in the file where it names a field.
pub async fn send(source: &Source, resource: Resource, args: &Apply, api: &Api) -> Result<Made, Error> {
    let dry_run = args.dry_run;
    let doing = |what: &str| format!("apply the {what} of {}", source.name);
    macro_rules! made {
        ($kind:literal, $full:literal, $message:expr) => {{
            let message = $message;
            Made::new($kind, message.metadata.as_ref(), &message, $full)
        }};
    }
    match resource {
        Resource::Fabric(fabric) => {
            made!("fabric", "rail.v1.Fabric", apply_fabric(source, fabric, args, api).await?)
        }
        Resource::Tenant(tenant) => {
            let request =
                v1::ApplyTenantRequest { tenant: Some(tenant), dry_run, reuse_name: args.reuse_name };
            let tenant = repeat(doing("tenant"), |_| {
                let (mut client, request) = (api.tenants(), request.clone());
                async move { client.apply_tenant(request).await }
            });
            made!("tenant", "rail.v1.Tenant", tenant.await?)
        }
        Resource::Queue(queue) => {
            made!("queue", "rail.v1.Queue", super::queue::apply(doing("queue"), queue, dry_run, api).await?)
        }
        Resource::ServiceClass(class) => {
            let class = super::service_class::apply(doing("service class"), class, dry_run, api).await?;
            made!("service-class", "rail.v1.ServiceClass", class)
        }
        Resource::License(license) => {
            let license = super::license::apply(doing("license"), license, dry_run, api).await?;
            made!("license", "rail.v1.License", license)
        }
        Resource::Switch(switch) => {
            let switch = super::switches::apply(doing("switch"), switch, dry_run, api).await?;
            made!("switch", "rail.v1.Switch", switch)
        }
        Resource::Reservation(reservation) => {
            let reservation = super::reserve::apply(doing("reservation"), reservation, dry_run, api).await?;
            made!("reservation", "rail.v1.Reservation", reservation)
        }
        Resource::Schedule(schedule) => {
            let schedule = super::schedule::apply(doing("schedule"), *schedule, dry_run, api).await?;
            made!("schedule", "rail.v1.Schedule", schedule)
        }
        Resource::Webhook(webhook) => {
            let webhook = super::webhook::apply(doing("webhook"), *webhook, dry_run, api).await?;
            made!("webhook", "rail.v1.Webhook", webhook)
        }
        Resource::Secret(secret) => {
            let secret = super::secret::secret::apply(doing("secret"), *secret, dry_run, api).await?;
            made!("secret", "rail.v1.Secret", secret)
        }
        Resource::Config(config) => {
            let config = super::secret::config::apply(doing("config"), *config, dry_run, api).await?;
            made!("config", "rail.v1.Config", config)
        }
        Resource::Job(_) => Err(Error::Document(format!("{}: a Job is submitted", source.name))),
        Resource::Other(kind) => {
            Err(Error::Document(format!("{}: a {kind} is not made by a file", source.name)))
        }
    }
}

/// One document: what it is, and what was done.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, with the place in the file where it names a field.
pub async fn one(source: &Source, document: Document, args: &Apply, api: &Api) -> Result<String, Error> {
    match document.resource {
        Resource::Job(job) if args.dry_run => {
            let name = job.metadata.clone().unwrap_or_default().name;
            match there(&job, api).await {
                Some(there) if same(&job, &there) => {
                    return Ok(format!("{} unchanged", filter::job_name(&there)));
                }
                Some(there) => {
                    let refused = RpcError::new(ErrorClass::AlreadyExists, "NAME_TAKEN", differs(&there));
                    let doing = format!("submit {}", source.name);
                    return Err(Error::Rpc { doing, error: Box::new(refused) });
                }
                None => planned(source, *job, &name, api).await?,
            }
            Ok(format!("job/{name} would be submitted"))
        }
        Resource::Job(job) => match submit::create(source, document.index, (*job).clone(), api).await {
            Ok(made) => Ok(format!("{} submitted", filter::job_name(&made))),
            Err(error) => unchanged(*job, error, api).await,
        },
        Resource::Webhook(webhook) => {
            let doing = format!("apply the webhook of {}", source.name);
            let made = super::webhook::apply(doing, *webhook, args.dry_run, api).await?;
            Ok(super::webhook::applied(&made))
        }
        other => Ok(format!("{} applied", send(source, other, args, api).await?.name)),
    }
}
