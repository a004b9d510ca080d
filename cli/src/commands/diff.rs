//! What `apply` would change, as a difference of two texts.

use proto_wire::v1::{self, document::Document as Wire};
use serde_json::{Map, Value};
use similar::TextDiff;

use super::{
    apply,
    dry_run::{self, Judged},
    license, lookup, queue, reserve, schedule, secret, service_class, switches, webhook,
};
use crate::{
    args::{Apply, Diff},
    client::{Api, JobRef},
    documents::{Document, Resource, Source},
    error::Error,
    output::print,
    render,
};

/// Unchanged lines that are shown around a change.
const CONTEXT: usize = 3;

/// `diff -f FILE...`: exit 1 where something would change. Nothing is stored.
///
/// # Errors
/// [`Error::Document`] if a file cannot be read as documents of the API; [`Error::Rpc`] if the controller refuses or does not answer;
/// [`Error::Differs`] if something would change.
pub async fn run(args: &Diff, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let all = apply::read(&args.files)?;
    let api = api()?;
    let apply = Apply { files: Vec::new(), dry_run: true, allow_shrink: true, reuse_name: false };
    let mut changed = 0;
    let Some(judged) = dry_run::judge(&all, &apply, &api).await? else {
        // A controller of an older release judges each document alone.
        for (source, documents) in all {
            for document in documents {
                let index = document.index;
                let reported = one(&source, document, &apply, &api).await;
                changed += show(reported.map_err(|error| source.place(index, error))?)?;
            }
        }
        return end(changed);
    };
    let documents = all.iter().flat_map(|(source, all)| all.iter().map(move |document| (source, document)));
    for ((source, document), judged) in documents.zip(judged) {
        let reported = dry_run(source, document, judged, &api).await;
        changed += show(reported.map_err(|error| source.place(document.index, error))?)?;
    }
    end(changed)
}

/// What a document is about, as it is and as it would be.
type Compared = (String, Option<Value>, Value);

/// Prints a difference; 1 where there is one.
fn show((name, before, after): Compared) -> Result<usize, Error> {
    let text = unified(&name, before.as_ref(), &after);
    print(&text)?;
    Ok(usize::from(!text.is_empty()))
}

fn end(changed: usize) -> Result<(), Error> {
    match changed {
        0 => Ok(()),
        1 => Err(Error::Differs("1 document would change something".to_owned())),
        more => Err(Error::Differs(format!("{more} documents would change something"))),
    }
}

/// One that was judged together with those before it.
async fn dry_run(source: &Source, document: &Document, judged: Judged, api: &Api) -> Result<Compared, Error> {
    match (&document.resource, judged) {
        // One that is there is never changed, and shown as it differs.
        (Resource::Job(job), Judged::Refused(refused)) if refused.reason == "NAME_TAKEN" => {
            of_job((**job).clone(), api).await
        }
        (resource, Judged::Refused(refused)) => {
            let doing = format!("apply the {} of {}", dry_run::in_words(resource), source.name);
            Err(Error::Rpc { doing, error: Box::new(refused) })
        }
        // Nobody shows what it holds: only which keys would be new, changed or gone.
        (Resource::Secret(_), Judged::Made(made)) => {
            let Wire::Secret(after) = made.document else { return Err(dry_run::unknown()) };
            let (name, before, after) = secret::differences(after, api, known).await?;
            Ok((name, before.map(settled), settled(after)))
        }
        (Resource::Job(job), Judged::Made(_)) => of_job((**job).clone(), api).await,
        (resource, Judged::Made(made)) => {
            let before = current(resource, api).await?;
            let made = dry_run::made(&made.document)?;
            Ok((made.name, before.map(settled), settled(made.value)))
        }
    }
}

/// What a document is about as it is and as it would be.
async fn one(source: &Source, document: Document, args: &Apply, api: &Api) -> Result<Compared, Error> {
    if let Resource::Job(job) = document.resource {
        return of_job(*job, api).await;
    }
    if let Resource::Secret(one) = document.resource {
        let (name, before, after) = secret::compared(*one, api, known).await?;
        return Ok((name, before.map(settled), settled(after)));
    }
    let before = current(&document.resource, api).await?;
    let made = apply::send(source, document.resource, args, api).await?;
    Ok((made.name, before.map(settled), settled(made.value)))
}

/// A job that is there is never changed by a document; another one of its name is shown with what differs.
async fn of_job(job: v1::Job, api: &Api) -> Result<Compared, Error> {
    let metadata = job.metadata.clone().unwrap_or_default();
    let of = JobRef { tenant: api.tenant.clone(), name: metadata.name };
    let before = known(api.get_job(&of).await)?;
    let shown = |job: v1::Job| -> Result<Value, Error> {
        // As the controller reads it: what is left out is what it stands for.
        let read = job.spec.clone().and_then(|spec| proto_model::JobSpec::try_from(spec).ok());
        let spec = read.map(|spec| v1::JobSpec::from(&spec)).or(job.spec);
        render::to_value(&v1::Job { spec, ..job }, "rail.v1.Job").map(settled)
    };
    let mut after = job;
    if let Some(there) = &before {
        let made = after.metadata.get_or_insert_default();
        made.tenant = there.metadata.clone().unwrap_or_default().tenant;
    }
    Ok((format!("job/{of}"), before.map(shown).transpose()?, shown(after)?))
}

/// Nothing where it is not there.
fn known<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a document is about, as it is now.
async fn current(resource: &Resource, api: &Api) -> Result<Option<Value>, Error> {
    let in_tenant = |metadata: Option<&v1::Metadata>| {
        let metadata = metadata.cloned().unwrap_or_default();
        match metadata.tenant.as_str() {
            "" => metadata.name,
            tenant => format!("{tenant}/{}", metadata.name),
        }
    };
    let name = |metadata: Option<&v1::Metadata>| metadata.cloned().unwrap_or_default().name;
    macro_rules! shown {
        ($found:expr, $full:literal) => {
            known($found.await)?.map(|one| render::to_value(&one, $full)).transpose()
        };
    }
    match resource {
        Resource::Fabric(_) => shown!(lookup::the_fabric(api), "rail.v1.Fabric"),
        Resource::Tenant(one) => shown!(lookup::tenant(&name(one.metadata.as_ref()), api), "rail.v1.Tenant"),
        Resource::Queue(one) => shown!(queue::get(&in_tenant(one.metadata.as_ref()), api), "rail.v1.Queue"),
        Resource::ServiceClass(one) => {
            shown!(service_class::get(&name(one.metadata.as_ref()), api), "rail.v1.ServiceClass")
        }
        Resource::License(one) => shown!(license::get(&name(one.metadata.as_ref()), api), "rail.v1.License"),
        Resource::Switch(one) => shown!(switches::get(&name(one.metadata.as_ref()), api), "rail.v1.Switch"),
        Resource::Reservation(one) => {
            shown!(reserve::get(&name(one.metadata.as_ref()), api), "rail.v1.Reservation")
        }
        Resource::Schedule(one) => {
            shown!(schedule::get(&in_tenant(one.metadata.as_ref()), api), "rail.v1.Schedule")
        }
        Resource::Webhook(one) => {
            shown!(webhook::get(&in_tenant(one.metadata.as_ref()), api), "rail.v1.Webhook")
        }
        Resource::Config(one) => {
            shown!(secret::config::get(&in_tenant(one.metadata.as_ref()), api), "rail.v1.Config")
        }
        // A secret is compared by itself.
        Resource::Secret(_) | Resource::Job(_) | Resource::Other(_) => Ok(None),
    }
}

/// Only what a document says: no status, and of the metadata the names and labels.
pub fn settled(value: Value) -> Value {
    let Value::Object(mut object) = value else { return value };
    let kind = object.get("kind").cloned();
    object.remove("status");
    // It is shown once, to whoever has it made.
    if let Some(Value::Object(spec)) = object.get_mut("spec").filter(|_| kind == Some("Webhook".into())) {
        spec.remove("secret");
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        let kept = ["name", "tenant", "labels", "generateName"];
        let kept: Map<String, Value> =
            kept.iter().filter_map(|key| Some(((*key).to_owned(), metadata.remove(*key)?))).collect();
        *metadata = kept;
    }
    Value::Object(object)
}

/// The unified difference; empty where there is none.
fn unified(name: &str, before: Option<&Value>, after: &Value) -> String {
    let (old, new) =
        (before.map(proto_manifest::yaml_of).unwrap_or_default(), proto_manifest::yaml_of(after));
    if old == new {
        return String::new();
    }
    let there = if before.is_some() { name } else { "/dev/null" };
    let diff = TextDiff::from_lines(&old, &new);
    diff.unified_diff().context_radius(CONTEXT).header(there, name).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_told_as_diff_does() {
        let of = |gpus: u32, uid: &str| {
            settled(json!({
                "kind": "Queue",
                "metadata": {"name": "q", "uid": uid, "resourceVersion": "7", "labels": {"a": "b"}},
                "spec": {"limit": gpus, "weight": 1},
                "status": {"gpusUsed": gpus},
            }))
        };
        assert_eq!(unified("queue/q", Some(&of(4, "x")), &of(4, "y")), "");
        let text = unified("queue/q", Some(&of(4, "x")), &of(8, "y"));
        assert!(text.starts_with("--- queue/q\n+++ queue/q\n@@") && !text.contains("uid"), "{text}");
        assert!(text.contains("\n-  limit: 4\n+  limit: 8\n"), "{text}");
        let text = unified("queue/q", None, &of(4, "x"));
        assert!(text.starts_with("--- /dev/null\n") && text.contains("+kind: Queue\n"), "{text}");
    }
}
