//! DocumentService: documents judged together, each as if those before it had been applied.

use controller_core::{DryRunResult, Effect, Event, Reply};
use controller_leader::{Refusal, codec};
use proto_model::ValuesKind;
use proto_rpc::{ErrorClass, RpcError};
use proto_wire::v1::{
    self, document::Document, document_service_server::DocumentService, planned_document::Outcome,
};
use tonic::{Request, Response, Status};

use crate::{
    authz::{Rpc, authorise},
    context::Context,
    fabric, fault,
    guard::Caller,
    job, license, queue,
    reader::Reader,
    reservation, schedule, service_class, switch, tenant, values, views, webhook,
};

/// Documents of one call at most.
const MOST: usize = 256;
/// Elements of arrays in all of them.
const ELEMENTS: usize = 10_000;

/// The handlers of `DocumentService`.
#[derive(Clone)]
pub struct Documents {
    context: Context,
}

/// What a dry run says of a document.
enum Part {
    /// These many events, of which the last is the document's.
    Events(usize),
    /// The document is refused before it is judged.
    Refused(RpcError),
}

impl Documents {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    /// What applies one document, if the caller may do that.
    fn events(
        &self,
        caller: &Caller,
        document: Document,
        asked: &v1::PlanDocumentsRequest,
    ) -> Result<Vec<Event>, RpcError> {
        let rpc = applies(&document);
        authorise(rpc, &caller.identity).map_err(|error| self.context.guard.note(rpc, caller, error))?;
        let context = &self.context;
        let event = match document {
            Document::Fabric(one) => fabric::to_apply(one, asked.allow_shrink, false)?,
            Document::Tenant(one) => {
                let event = tenant::to_apply(one, false)?;
                if let (true, Event::ApplyTenant { name, .. }) = (asked.reuse_names, &event) {
                    return Ok(vec![Event::ReleaseTenantName { name: name.clone() }, event]);
                }
                event
            }
            Document::Queue(one) => queue::to_apply(context, caller, one, false)?,
            Document::ServiceClass(one) => service_class::to_apply(one, false)?,
            Document::License(one) => license::to_apply(one, false)?,
            Document::Switch(one) => switch::to_apply(one, false)?,
            Document::Reservation(one) => reservation::to_apply(one, false)?,
            Document::Schedule(one) => schedule::to_apply(context, caller, one, false)?,
            Document::Webhook(one) => webhook::to_apply(context, caller, one, false)?,
            Document::Secret(one) => values::to_apply(context, caller, one, false)?,
            Document::Config(one) => values::to_apply(context, caller, one, false)?,
            Document::Job(one) => {
                let submit = job::to_submit(context, caller, &one, (&asked.on_behalf_of, "", false))?;
                Event::Submit(Box::new(submit))
            }
        };
        Ok(vec![event])
    }
}

/// The call that applies a document.
fn applies(document: &Document) -> Rpc {
    match document {
        Document::Fabric(_) => Rpc::ApplyFabric,
        Document::Tenant(_) => Rpc::ApplyTenant,
        Document::Queue(_) => Rpc::ApplyQueue,
        Document::ServiceClass(_) => Rpc::ApplyServiceClass,
        Document::License(_) => Rpc::ApplyLicense,
        Document::Switch(_) => Rpc::ApplySwitch,
        Document::Reservation(_) => Rpc::ApplyReservation,
        Document::Schedule(_) => Rpc::ApplySchedule,
        Document::Webhook(_) => Rpc::ApplyWebhook,
        Document::Secret(_) => Rpc::ApplySecret,
        Document::Config(_) => Rpc::ApplyConfig,
        Document::Job(_) => Rpc::CreateJob,
    }
}

fn place(at: usize) -> String {
    format!("documents[{at}]")
}

/// Who may not apply a document is refused the whole call, so that it is recorded as any call that is denied.
fn judged(at: usize, error: RpcError) -> Result<RpcError, RpcError> {
    if !matches!(error.class, ErrorClass::Denied | ErrorClass::Unauthenticated) {
        return Ok(error);
    }
    let text = error.message.clone();
    Err(RpcError { message: format!("{}: {text}", place(at)), violations: Vec::new(), ..error }
        .with_violation(place(at), text))
}

fn refused(error: RpcError) -> v1::PlannedDocument {
    let violation = |one: proto_rpc::Violation| v1::FieldViolation { field: one.field, message: one.message };
    let refusal = v1::DocumentRefusal {
        class: error.class.as_str().to_owned(),
        reason: error.reason,
        message: error.message,
        violations: error.violations.into_iter().map(violation).collect(),
    };
    let outcome = Outcome::Refused.into();
    v1::PlannedDocument { outcome, document: None, refusal: Some(refusal) }
}

/// A document as it would be.
fn reported(reply: Reply, reader: &Reader) -> Option<Document> {
    Some(match reply {
        Reply::Fabric { fabric, findings } => {
            Document::Fabric(views::fabric(&fabric, &findings, views::cabled(&fabric), 0))
        }
        Reply::Tenant(one) => Document::Tenant(v1::Tenant::from(one.as_ref())),
        Reply::Queue(one) => Document::Queue(v1::Queue::from(one.as_ref())),
        Reply::ServiceClass(one) => Document::ServiceClass(v1::ServiceClass::from(one.as_ref())),
        Reply::License(one) => Document::License(v1::License::from(one.as_ref())),
        Reply::Switch(one) => Document::Switch(v1::Switch::from(one.as_ref())),
        Reply::Reservation(one) => Document::Reservation(v1::Reservation::from(one.as_ref())),
        Reply::JobSchedule(one) => {
            let mut wire = v1::Schedule::from(one.as_ref());
            reader.report_schedule(&mut wire);
            Document::Schedule(wire)
        }
        Reply::Webhook { webhook: one, .. } => {
            Document::Webhook(webhook::reported(v1::Webhook::from(one.as_ref()), 0, true))
        }
        Reply::Values(one) => match one.id.kind {
            ValuesKind::Secret => Document::Secret(values::visible(v1::Secret::from(one.as_ref()), 0, true)),
            ValuesKind::Config => Document::Config(values::visible(v1::Config::from(one.as_ref()), 0, true)),
        },
        Reply::Job { job, .. } => {
            let mut wire = codec::job_to_wire(&job, 0);
            reader.report_job(&mut wire);
            Document::Job(wire)
        }
        _ => return None,
    })
}

fn planned(at: usize, reported_of: DryRunResult, reader: &Reader) -> Result<v1::PlannedDocument, RpcError> {
    let (reply, effect) = match reported_of {
        Ok(done) => done,
        Err(error) => return judged(at, fault::refused(&Refusal::Core(error))).map(refused),
    };
    let outcome = match effect {
        Effect::Created => Outcome::Created,
        Effect::Changed => Outcome::Changed,
        Effect::Unchanged => Outcome::Unchanged,
    };
    let document = reported(reply, reader).map(|document| v1::Document { document: Some(document) });
    Ok(v1::PlannedDocument { outcome: outcome.into(), document, refusal: None })
}

fn too_many(text: String) -> RpcError {
    RpcError::new(ErrorClass::TooLarge, "TOO_MANY_DOCUMENTS", format!("documents: {text}"))
        .with_violation("documents", text)
}

/// All of it happens in one step, which holds up everybody else.
fn bounded(events: &[Event]) -> Result<(), RpcError> {
    let elements = |event: &Event| match event {
        Event::Submit(submit) => submit.spec.array.as_ref().map_or(0, |array| array.indices.len()),
        _ => 0,
    };
    let elements: usize = events.iter().map(elements).sum();
    if elements > ELEMENTS {
        let text = format!("{elements} elements of arrays; at most {ELEMENTS} are judged together");
        return Err(too_many(text));
    }
    if events.iter().filter(|event| matches!(event, Event::ApplyFabric { .. })).count() > 1 {
        return Err(too_many("several fabrics; one is judged together with others".to_owned()));
    }
    Ok(())
}

#[tonic::async_trait]
impl DocumentService for Documents {
    async fn plan_documents(
        &self,
        request: Request<v1::PlanDocumentsRequest>,
    ) -> Result<Response<v1::PlanDocumentsResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let mut asked = request.into_inner();
        let documents = std::mem::take(&mut asked.documents);
        if documents.is_empty() {
            return Err(fault::field("documents", "none were given").into());
        }
        if documents.len() > MOST {
            let text = format!("{} were given; at most {MOST} are judged together", documents.len());
            return Err(too_many(text).into());
        }
        let (mut events, mut parts) = (Vec::new(), Vec::with_capacity(documents.len()));
        for (at, document) in documents.into_iter().enumerate() {
            let document = document.document.ok_or_else(|| fault::field(&place(at), "is empty"))?;
            match self.events(&caller, document, &asked) {
                Ok(more) => {
                    parts.push(Part::Events(more.len()));
                    events.extend(more);
                }
                Err(error) => parts.push(Part::Refused(judged(at, error)?)),
            }
        }
        bounded(&events)?;
        let applied = self.context.apply(&caller, Event::DryRun(events)).await?;
        let Reply::DryRun(replies) = applied.reply else { return Err(crate::context::unexpected()) };
        let (reader, mut replies) = (Reader::of(&caller)?, replies.into_iter());
        let mut answer = Vec::with_capacity(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            answer.push(match part {
                Part::Refused(error) => refused(error),
                Part::Events(count) => {
                    let own = replies.nth(count - 1).ok_or_else(crate::context::unexpected)?;
                    planned(at, own, &reader)?
                }
            });
        }
        Ok(Response::new(v1::PlanDocumentsResponse { documents: answer }))
    }
}
