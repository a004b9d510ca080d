//! Documents judged together by the controller: each as if those before it had been applied.

use proto_rpc::{ErrorClass, RpcError, Violation};
use proto_wire::v1::{self, document::Document as Wire, planned_document::Outcome};

use super::{
    filter,
    made::{Made, short},
};
use crate::{
    args::Apply,
    client::{Api, repeat},
    documents::{Document, Resource, Source},
    error::Error,
    render,
};

/// What would come of a document.
pub enum Judged {
    /// The document would be applied.
    Made(Box<Planned>),
    /// The document would be refused, with this error.
    Refused(RpcError),
}

/// A document as it would be.
pub struct Planned {
    /// Whether it would be another than now.
    pub outcome: Outcome,
    /// The document, with what the controller would fill in.
    pub document: Wire,
}

/// The documents of all files, in their order; nothing where they are too many, or the controller is of an older release that cannot.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn judge(
    all: &[(Source, Vec<Document>)],
    args: &Apply,
    api: &Api,
) -> Result<Option<Vec<Judged>>, Error> {
    let places: Vec<(&Source, usize)> =
        all.iter().flat_map(|(source, all)| all.iter().map(move |one| (source, one.index))).collect();
    let documents = all.iter().flat_map(|(_, all)| all).map(|one| wire(&one.resource, api)).collect();
    let request = v1::PlanDocumentsRequest {
        documents,
        allow_shrink: args.allow_shrink,
        reuse_names: args.reuse_name,
        on_behalf_of: api.tenant.clone(),
    };
    let names: Vec<&str> = all.iter().map(|(source, _)| source.name.as_str()).collect();
    let answer = repeat(format!("judge {}", names.join(", ")), |_| {
        let (mut client, request) = (api.documents(), request.clone());
        async move { client.plan_documents(request).await }
    })
    .await;
    match answer {
        Ok(answer) => Ok(Some(answer.documents.into_iter().map(judged).collect::<Result<_, _>>()?)),
        Err(Error::Rpc { error, .. }) if error.class == ErrorClass::Unimplemented => Ok(None),
        Err(Error::Rpc { error, .. }) if error.class == ErrorClass::TooLarge => {
            eprintln!(
                "note: the documents are too many to be judged together ({error}); each is judged alone"
            );
            Ok(None)
        }
        Err(error) => Err(placed(&places, error)),
    }
}

/// For a document that the caller may not apply the error says which one it is.
fn placed(places: &[(&Source, usize)], error: Error) -> Error {
    let Error::Rpc { error, .. } = &error else { return error };
    let number = error.violations.iter().find_map(|one| {
        let (number, _) = one.field.strip_prefix("documents[")?.split_once(']')?;
        number.parse::<usize>().ok()
    });
    let Some((source, index)) = number.and_then(|number| places.get(number)) else {
        return Error::Rpc { doing: "judge the documents".to_owned(), error: error.clone() };
    };
    let mut reported = (**error).clone();
    if let Some(one) = reported.violations.drain(..).next() {
        reported.message = one.message;
    }
    let doing = format!("{}, document {}", source.name, index + 1);
    Error::Rpc { doing, error: Box::new(reported) }
}

/// A document as it is sent. Where it names no tenant, it is the one that was set.
fn wire(resource: &Resource, api: &Api) -> v1::Document {
    let owned = |metadata: &mut Option<v1::Metadata>| {
        let metadata = metadata.get_or_insert_default();
        if metadata.tenant.is_empty() {
            metadata.tenant.clone_from(&api.tenant);
        }
    };
    macro_rules! owned {
        ($one:expr) => {{
            let mut one = $one.clone();
            owned(&mut one.metadata);
            one
        }};
    }
    let document = match resource {
        Resource::Fabric(one) => Some(Wire::Fabric(short(one.clone()))),
        Resource::Tenant(one) => Some(Wire::Tenant(one.clone())),
        Resource::Queue(one) => Some(Wire::Queue(owned!(one))),
        Resource::ServiceClass(one) => Some(Wire::ServiceClass(one.clone())),
        Resource::License(one) => Some(Wire::License(one.clone())),
        Resource::Switch(one) => Some(Wire::Switch(one.clone())),
        Resource::Reservation(one) => Some(Wire::Reservation(one.clone())),
        Resource::Schedule(one) => Some(Wire::Schedule(owned!(**one))),
        Resource::Webhook(one) => Some(Wire::Webhook(owned!(**one))),
        Resource::Secret(one) => Some(Wire::Secret(owned!(**one))),
        Resource::Config(one) => Some(Wire::Config(owned!(**one))),
        Resource::Job(one) => Some(Wire::Job((**one).clone())),
        // `apply::read` refuses it.
        Resource::Other(_) => None,
    };
    v1::Document { document }
}

fn judged(planned: v1::PlannedDocument) -> Result<Judged, Error> {
    let outcome = planned.outcome();
    if let Some(refusal) = planned.refusal {
        let class = ErrorClass::ALL.into_iter().find(|class| class.as_str() == refusal.class);
        let violations = refusal.violations.into_iter();
        return Ok(Judged::Refused(RpcError {
            class: class.unwrap_or(ErrorClass::Invalid),
            reason: refusal.reason,
            message: refusal.message,
            violations: violations.map(|one| Violation { field: one.field, message: one.message }).collect(),
            retry_after: None,
        }));
    }
    let document = planned.document.and_then(|document| document.document);
    Ok(Judged::Made(Box::new(Planned { outcome, document: document.ok_or_else(unknown)? })))
}

/// A controller that says what this railctl does not know.
pub fn unknown() -> Error {
    Error::Document("the controller has judged a document in words of a later release".into())
}

/// Its kind/name, and the whole of it.
///
/// # Errors
/// [`Error::Config`] if the document cannot be written as JSON.
pub fn made(document: &Wire) -> Result<Made, Error> {
    match document {
        Wire::Fabric(one) => Made::new("fabric", one.metadata.as_ref(), one, "rail.v1.Fabric"),
        Wire::Tenant(one) => Made::new("tenant", one.metadata.as_ref(), one, "rail.v1.Tenant"),
        Wire::Queue(one) => Made::new("queue", one.metadata.as_ref(), one, "rail.v1.Queue"),
        Wire::ServiceClass(one) => {
            Made::new("service-class", one.metadata.as_ref(), one, "rail.v1.ServiceClass")
        }
        Wire::License(one) => Made::new("license", one.metadata.as_ref(), one, "rail.v1.License"),
        Wire::Switch(one) => Made::new("switch", one.metadata.as_ref(), one, "rail.v1.Switch"),
        Wire::Reservation(one) => Made::new("reservation", one.metadata.as_ref(), one, "rail.v1.Reservation"),
        Wire::Schedule(one) => Made::new("schedule", one.metadata.as_ref(), one, "rail.v1.Schedule"),
        Wire::Webhook(one) => Made::new("webhook", one.metadata.as_ref(), one, "rail.v1.Webhook"),
        Wire::Secret(one) => Made::new("secret", one.metadata.as_ref(), one, "rail.v1.Secret"),
        Wire::Config(one) => Made::new("config", one.metadata.as_ref(), one, "rail.v1.Config"),
        Wire::Job(one) => {
            let value = render::to_value(one, "rail.v1.Job")?;
            Ok(Made { name: filter::job_name(one), value })
        }
    }
}

/// What a document describes, in a sentence.
pub fn in_words(resource: &Resource) -> &str {
    match resource {
        Resource::Fabric(_) => "fabric",
        Resource::Tenant(_) => "tenant",
        Resource::Queue(_) => "queue",
        Resource::ServiceClass(_) => "service class",
        Resource::License(_) => "license",
        Resource::Switch(_) => "switch",
        Resource::Reservation(_) => "reservation",
        Resource::Schedule(_) => "schedule",
        Resource::Webhook(_) => "webhook",
        Resource::Secret(_) => "secret",
        Resource::Config(_) => "config",
        Resource::Job(_) => "job",
        Resource::Other(kind) => kind,
    }
}
