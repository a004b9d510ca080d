//! Railyard's controller, as the operator asks it: what it has of an object, and to take, delete or cancel it.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use proto_rpc::{
    Client, ClientOptions, CredentialFiles, Credentials, Endpoint, ErrorClass, Jitter, MAX_FABRIC_BYTES,
    RetryPolicy, RpcError, client::ClientError, credentials::CredentialsError, retry,
};
use proto_wire::v1::{
    self, document::Document as Any, document_service_client::DocumentServiceClient,
    fabric_service_client::FabricServiceClient, get_qos_response::State,
    job_service_client::JobServiceClient, job_status::Phase, node_service_client::NodeServiceClient,
    planned_document::Outcome, qos_service_client::QosServiceClient,
    queue_service_client::QueueServiceClient, rail_service_client::RailServiceClient,
    tenant_service_client::TenantServiceClient,
};
use serde_json::Value as Json;
use thiserror::Error;
use tonic::{Response, Status};

use crate::{
    decide::{Progress, Refusal, View},
    documents::{UID_LABEL, Wanted},
    kind::Kind,
    object::Object,
    status::{Health, JobView},
};

/// Why the client could not be made.
#[derive(Debug, Error)]
pub enum RailyardError {
    /// The credentials cannot be used.
    #[error("the controller's credentials: {0}")]
    Credentials(#[from] CredentialsError),
    /// The client could not be made.
    #[error("the controller: {0}")]
    Client(#[from] ClientError),
}

/// The way to the controller.
pub struct Railyard {
    endpoints: Vec<Endpoint>,
    files: CredentialFiles,
    /// The connection, and what was in the files that it was made with.
    connected: Mutex<Option<(Client, Contents)>>,
}

/// What is in each of the files of credentials.
type Contents = Vec<Option<Vec<u8>>>;

fn contents(files: &CredentialFiles) -> Contents {
    let read = |path: &Option<PathBuf>| path.as_ref().and_then(|path| std::fs::read(path).ok());
    [&files.ca, &files.certificate, &files.key, &files.token].map(read).into()
}

macro_rules! clients {
    ($($name:ident: $type:ident),*) => {$(
        fn $name(&self) -> Result<$type<Client>, RpcError> {
            Ok($type::new(self.client()?).max_decoding_message_size(MAX_FABRIC_BYTES))
        }
    )*};
}

/// Calls, and again while that may help; bounded.
async fn call<T, F, Fut>(mut once: F) -> Result<T, RpcError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Response<T>, Status>>,
{
    let answer = retry(&RetryPolicy::default(), &mut Jitter::from_os(), |_| once()).await;
    answer.map(Response::into_inner).map_err(|status| RpcError::from_status(&status))
}

/// One call of a client with a request that is repeated as it is.
macro_rules! ask {
    ($client:expr, $method:ident, $request:expr) => {{
        let (client, request) = ($client?, $request);
        call(|| {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.$method(request).await }
        })
        .await
    }};
}

impl Railyard {
    /// The controller at these addresses, by these files; it is not called yet.
    ///
    /// # Errors
    /// The files cannot be used, or an address cannot stand in a request.
    pub fn new(endpoints: Vec<Endpoint>, files: CredentialFiles) -> Result<Self, RailyardError> {
        let made = Self { endpoints, files, connected: Mutex::new(None) };
        made.connect()?;
        Ok(made)
    }

    /// A connection by what is in the files now: tokens and certificates end, and files are replaced while this runs. A pair of certificate and key that
    /// is half written cannot be loaded: the connection of before serves until it is whole.
    fn connect(&self) -> Result<Client, RailyardError> {
        let there = contents(&self.files);
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((client, known)) = &*connected
            && *known == there
        {
            return Ok(client.clone());
        }
        let before = connected.as_ref().map(|(client, _)| client.clone());
        match (self.made(), before) {
            (Ok(client), _) => {
                *connected = Some((client.clone(), there));
                Ok(client)
            }
            (Err(error), Some(client)) => {
                tracing::warn!(%error, "changed credentials cannot be used; those of before are");
                // Said once, and tried again when they change once more.
                *connected = Some((client.clone(), there));
                Ok(client)
            }
            (Err(error), None) => Err(error),
        }
    }

    fn made(&self) -> Result<Client, RailyardError> {
        let credentials = Credentials::load(&self.files)?;
        Ok(Client::new(&self.endpoints, &credentials, &ClientOptions::default())?)
    }

    /// A connection by the credentials that there are now.
    ///
    /// # Errors
    /// They cannot be used; nobody was called.
    pub fn client(&self) -> Result<Client, RpcError> {
        self.connect()
            .map_err(|error| RpcError::new(ErrorClass::Unavailable, "CONNECTION_LOST", error.to_string()))
    }

    clients!(
        documents: DocumentServiceClient,
        fabrics: FabricServiceClient,
        jobs: JobServiceClient,
        nodes: NodeServiceClient,
        qos: QosServiceClient,
        queues: QueueServiceClient,
        rails: RailServiceClient,
        tenants: TenantServiceClient
    );

    /// What it has of this.
    pub async fn view(&self, wanted: &Wanted) -> View {
        let answer = match wanted {
            Wanted::Documents { documents, allow_shrink } => self.planned(documents, *allow_shrink).await,
            Wanted::Profile(request) => self.rollout(request).await,
            Wanted::Job { tenant, job } => {
                let metadata = job.metadata.clone().unwrap_or_default();
                let uid = metadata.labels.get(UID_LABEL).map(String::as_str).unwrap_or_default();
                self.job(tenant, &metadata.name, uid).await
            }
        };
        answer.unwrap_or_else(|error| view_of(&error))
    }

    /// What it has of a job that was handed to it for this tenant.
    pub async fn view_of_handed(&self, tenant: &str, object: &Object) -> View {
        self.job(tenant, &object.name, &object.uid).await.unwrap_or_else(|error| view_of(&error))
    }

    /// Has it take this, and says what it has then.
    pub async fn apply(&self, wanted: &Wanted, uid: &str) -> View {
        match (self.take(wanted, uid).await, wanted) {
            (Err(error), _) => view_of(&error),
            (Ok(()), Wanted::Documents { .. }) => View::Same(applied()),
            (Ok(()), _) => just_taken(self.view(wanted).await),
        }
    }

    async fn take(&self, wanted: &Wanted, uid: &str) -> Result<(), RpcError> {
        match wanted {
            Wanted::Documents { documents, allow_shrink } => {
                self.apply_documents(documents, *allow_shrink).await
            }
            Wanted::Profile(request) => ask!(self.qos(), apply_qos, request.clone()).map(|_| ()),
            Wanted::Job { tenant, job } => {
                let request = v1::CreateJobRequest {
                    job: Some((**job).clone()),
                    // The object's own: whoever submits it again, after whatever has happened, gets the same job.
                    request_id: uid.to_owned(),
                    on_behalf_of: tenant.clone(),
                    hold: false,
                };
                ask!(self.jobs(), create_job, request).map(|_| ())
            }
        }
    }

    /// Has it delete or cancel what the object stands for; a job in each of these tenants in which it is.
    pub async fn delete(&self, object: &Object, tenants: &BTreeSet<String>) -> View {
        match self.remove(object, tenants).await {
            Ok(()) => View::Gone,
            Err(error) if error.class == ErrorClass::NotFound => View::Gone,
            Err(error) => view_of(&error),
        }
    }

    async fn remove(&self, object: &Object, tenants: &BTreeSet<String>) -> Result<(), RpcError> {
        let name = object.name.clone();
        match object.kind {
            Kind::Fabric => {
                let request = v1::DeleteFabricRequest { name, ..v1::DeleteFabricRequest::default() };
                ask!(self.fabrics(), delete_fabric, request).map(|_| ())
            }
            Kind::Tenant => {
                let request = v1::DeleteTenantRequest { name, ..v1::DeleteTenantRequest::default() };
                ask!(self.tenants(), delete_tenant, request).map(|_| ())
            }
            Kind::Profile => Ok(()),
            Kind::Job => {
                for tenant in tenants {
                    self.cancel(object, tenant).await?;
                }
                Ok(())
            }
        }
    }

    async fn cancel(&self, object: &Object, tenant: &str) -> Result<(), RpcError> {
        let (name, tenant) = (object.name.clone(), tenant.to_owned());
        let request = v1::GetJobRequest { name: name.clone(), tenant: tenant.clone() };
        let job = match ask!(self.jobs(), get_job, request) {
            Ok(job) => job,
            // A name that no tenant can have is of none.
            Err(error) if matches!(error.class, ErrorClass::NotFound | ErrorClass::Invalid) => return Ok(()),
            Err(error) => return Err(error),
        };
        if !is_of(&job, &object.uid) || view_of_job(&job, &tenant).has_ended() {
            return Ok(());
        }
        let request = v1::CancelJobRequest { name, tenant, ..v1::CancelJobRequest::default() };
        ask!(self.jobs(), cancel_job, request).map(|_| ())
    }

    async fn planned(&self, documents: &[v1::Document], allow_shrink: bool) -> Result<View, RpcError> {
        let request = v1::PlanDocumentsRequest {
            documents: documents.to_vec(),
            allow_shrink,
            ..v1::PlanDocumentsRequest::default()
        };
        let planned = ask!(self.documents(), plan_documents, request)?.documents;
        for (one, document) in planned.iter().zip(documents) {
            if let Some(refusal) = &one.refusal {
                return Ok(View::Refused(refusal_of(refusal, document)));
            }
        }
        let same =
            planned.len() == documents.len() && planned.iter().all(|one| one.outcome() == Outcome::Unchanged);
        Ok(if same { View::Same(applied()) } else { View::Differs(String::new()) })
    }

    async fn apply_documents(&self, documents: &[v1::Document], allow_shrink: bool) -> Result<(), RpcError> {
        for document in documents {
            match document.document.clone() {
                Some(Any::Fabric(fabric)) => {
                    let request =
                        v1::ApplyFabricRequest { fabric: Some(fabric), dry_run: false, allow_shrink };
                    ask!(self.fabrics(), apply_fabric, request)?;
                }
                Some(Any::Tenant(tenant)) => {
                    let request =
                        v1::ApplyTenantRequest { tenant: Some(tenant), ..v1::ApplyTenantRequest::default() };
                    ask!(self.tenants(), apply_tenant, request)?;
                }
                Some(Any::Queue(queue)) => {
                    let request = v1::ApplyQueueRequest { queue: Some(queue), dry_run: false };
                    ask!(self.queues(), apply_queue, request)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn rollout(&self, request: &v1::ApplyQosRequest) -> Result<View, RpcError> {
        let rollout = ask!(self.qos(), get_qos, v1::GetQosRequest {})?;
        if let Some(view) = view_of_rollout(&rollout, &request.document) {
            return Ok(view);
        }
        // It is refused before it is said to be handed over.
        ask!(self.qos(), plan_qos, request.clone())?;
        Ok(View::Differs(String::new()))
    }

    async fn job(&self, tenant: &str, name: &str, uid: &str) -> Result<View, RpcError> {
        let request = v1::GetJobRequest { name: name.to_owned(), tenant: tenant.to_owned() };
        let job = match ask!(self.jobs(), get_job, request) {
            Ok(job) => job,
            Err(error) if error.class == ErrorClass::NotFound => {
                return Ok(View::Differs(tenant.to_owned()));
            }
            Err(error) => return Err(error),
        };
        if !is_of(&job, uid) {
            let message = format!("tenant {tenant} has another job {name}: give this one another name");
            return Ok(View::Refused(Refusal { reason: "NameTaken".to_owned(), message, is_final: false }));
        }
        Ok(View::Same(progress_of_job(&job, tenant)))
    }

    /// All servers, and what is drained.
    ///
    /// # Errors
    /// The controller does not answer, or refuses.
    pub async fn servers(&self) -> Result<(Vec<v1::Node>, Vec<v1::RailDrain>), RpcError> {
        let (mut nodes, mut page_token) = (Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let request = v1::ListNodesRequest { page_size: PAGE, page_token };
            let page = ask!(self.nodes(), list_nodes, request)?;
            nodes.extend(page.nodes);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        let rails = ask!(self.rails(), list_rails, v1::ListRailsRequest::default())?;
        Ok((nodes, rails.drains))
    }

    /// Where servers are.
    ///
    /// # Errors
    /// The controller does not answer, or refuses.
    pub async fn topology(&self) -> Result<v1::Topology, RpcError> {
        ask!(self.fabrics(), get_topology, v1::GetTopologyRequest {})
    }
}

/// Servers that are asked for at a time.
const PAGE: u32 = 200;
/// A list that is longer than this is none.
const MAX_PAGES: usize = 10_000;

fn applied() -> Progress {
    let message = "Railyard has it as the object says".to_owned();
    Progress { health: Health::Ready, reason: "Applied".to_owned(), message, job: None }
}

/// What is shown of what was taken a moment ago: where it is not that yet, it is on its way.
fn just_taken(view: View) -> View {
    match view {
        View::Differs(_) | View::Stopped(_) => View::Taken,
        view => view,
    }
}

/// `NAME_TAKEN` as `NameTaken`.
fn code(reason: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters.map(|letter| letter.to_ascii_lowercase())).collect::<String>()
    };
    let code: String = reason.split('_').map(word).collect();
    if code.is_empty() { "Refused".to_owned() } else { code }
}

fn with_fields(message: &str, fields: impl Iterator<Item = (String, String)>) -> String {
    let each: Vec<String> = fields.map(|(field, message)| format!("{field}: {message}")).collect();
    if each.is_empty() { message.to_owned() } else { format!("{message}: {}", each.join("; ")) }
}

/// What an error says of an object: that it is refused, or that nobody knows.
fn view_of(error: &RpcError) -> View {
    match error.class {
        ErrorClass::Unavailable
        | ErrorClass::Timeout
        | ErrorClass::Overloaded
        | ErrorClass::Cancelled
        | ErrorClass::Unauthenticated
        | ErrorClass::Internal
        | ErrorClass::DataLoss => View::Away(error.message.clone()),
        class => {
            let fields = error.violations.iter().map(|one| (one.field.clone(), one.message.clone()));
            let message = with_fields(&error.message, fields);
            let is_final = matches!(class, ErrorClass::Invalid | ErrorClass::TooLarge);
            View::Refused(Refusal { reason: code(&error.reason), message, is_final })
        }
    }
}

fn refusal_of(refusal: &v1::DocumentRefusal, document: &v1::Document) -> Refusal {
    let fields = refusal.violations.iter().map(|one| (one.field.clone(), one.message.clone()));
    let mut message = with_fields(&refusal.message, fields);
    if let Some(Any::Queue(queue)) = &document.document {
        message = format!("queue {}: {message}", queue.metadata.clone().unwrap_or_default().name);
    }
    Refusal {
        reason: code(&refusal.reason),
        message,
        is_final: refusal.class == ErrorClass::Invalid.as_str(),
    }
}

/// What there is of a profile's rollout; nothing where the rollout is of another profile.
fn view_of_rollout(answer: &v1::GetQosResponse, document: &str) -> Option<View> {
    let read = |text: &str| serde_json::from_str::<Json>(text).ok();
    let there = read(&answer.rollout.as_ref()?.document)?;
    if Some(there) != read(document) {
        return None;
    }
    let progress = progress_of_rollout(answer);
    Some(match answer.state() {
        State::Paused | State::Cancelled => View::Stopped(progress),
        State::Done | State::UnderWay | State::Unspecified => View::Same(progress),
    })
}

fn progress_of_rollout(answer: &v1::GetQosResponse) -> Progress {
    let paused = answer.rollout.as_ref().and_then(|rollout| rollout.paused.as_ref());
    let total: u32 = answer.stages.iter().map(|stage| stage.nics).sum();
    let kept: u32 = answer.stages.iter().map(|stage| stage.kept).sum();
    let (health, reason) = match answer.state() {
        State::Done => (Health::Ready, "Applied"),
        State::UnderWay | State::Unspecified => (Health::Progressing, "RollingOut"),
        State::Paused => (Health::Degraded, "Paused"),
        State::Cancelled => (Health::Degraded, "Cancelled"),
    };
    let message = match paused {
        Some(paused) => paused.message.clone(),
        // A count would be a write for each NIC.
        None if health == Health::Progressing => {
            "the profile is on its way; `railctl qos` shows how far".to_owned()
        }
        None => format!("{kept} of {total} NICs have the profile"),
    };
    let reason = paused
        .map(|paused| paused.code.clone())
        .filter(|code| !code.is_empty())
        .unwrap_or_else(|| reason.to_owned());
    Progress { health, reason, message, job: None }
}

fn is_of(job: &v1::Job, uid: &str) -> bool {
    let labels = job.metadata.as_ref().map(|metadata| &metadata.labels);
    labels.and_then(|labels| labels.get(UID_LABEL)).is_some_and(|there| there == uid)
}

fn view_of_job(job: &v1::Job, tenant: &str) -> JobView {
    let (metadata, status) =
        (job.metadata.clone().unwrap_or_default(), job.status.clone().unwrap_or_default());
    let placement = status.placement.clone().unwrap_or_default();
    JobView {
        tenant: tenant.to_owned(),
        name: metadata.name,
        uid: metadata.uid,
        phase: status.phase().as_str_name().to_owned(),
        attempt: status.attempt,
        nodes: placement.nodes.into_iter().map(|node| node.node).collect(),
        rails: placement.rails,
    }
}

fn progress_of_job(job: &v1::Job, tenant: &str) -> Progress {
    let status = job.status.clone().unwrap_or_default();
    let view = view_of_job(job, tenant);
    let (health, usual) = match status.phase() {
        Phase::Completed => (Health::Ready, "Completed"),
        Phase::Failed => (Health::Degraded, "Failed"),
        Phase::Cancelled => (Health::Degraded, "Cancelled"),
        Phase::Running => (Health::Progressing, "Running"),
        Phase::Recovering => (Health::Progressing, "Recovering"),
        Phase::Reserved | Phase::Preparing => (Health::Progressing, "Starting"),
        Phase::Pending | Phase::Unspecified => (Health::Progressing, "Pending"),
    };
    let cause = status.reasons.first();
    // Of a job that runs the causes say why it runs where it does: the word for it is that it runs, and they are its message.
    let asks_why =
        !matches!(status.phase(), Phase::Reserved | Phase::Preparing | Phase::Running | Phase::Completed);
    let cause_code = cause.filter(|_| asks_why).map(|cause| cause.code.as_str());
    let reason = cause_code.unwrap_or(usual).to_owned();
    let mut message = cause.map(|cause| cause.message.clone()).unwrap_or_default();
    if message.is_empty() {
        message = format!("the job is {}", view.phase.to_lowercase());
    }
    Progress { health, reason, message, job: Some(view) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_camel_case() {
        assert_eq!([code("NAME_TAKEN"), code("FABRIC"), code("")], ["NameTaken", "Fabric", "Refused"]);
    }

    #[test]
    fn an_error_is_a_refusal_or_an_absence() {
        let away = view_of(&RpcError::new(ErrorClass::Unavailable, "X", "no route"));
        assert_eq!(away, View::Away("no route".to_owned()));
        let invalid = RpcError::new(ErrorClass::Invalid, "INVALID_BODY", "1 field is wrong");
        let View::Refused(refusal) = view_of(&invalid.with_violation("spec.gang.nodes", "is 0")) else {
            panic!()
        };
        assert_eq!(refusal.message, "1 field is wrong: spec.gang.nodes: is 0");
        assert!(refusal.is_final && refusal.reason == "InvalidBody");
        let View::Refused(missing) = view_of(&RpcError::new(ErrorClass::NotFound, "TENANT_NOT_FOUND", "no"))
        else {
            panic!()
        };
        assert!(!missing.is_final);
    }

    #[test]
    fn a_job_is_shown_with_its_servers_and_rails() {
        let place = |name: &str| v1::NodePlace { node: name.into(), ..Default::default() };
        let placement =
            v1::Placement { nodes: vec![place("n0"), place("n1")], rails: vec![0, 1], ..Default::default() };
        let mut status = v1::JobStatus { attempt: 2, placement: Some(placement), ..Default::default() };
        status.set_phase(Phase::Running);
        let because =
            |code: &str| v1::Reason { code: code.into(), message: "why".into(), ..Default::default() };
        status.reasons = vec![because("BestFit")];
        let mut waiting = v1::JobStatus { reasons: vec![because("QueueLimit")], ..Default::default() };
        waiting.set_phase(Phase::Pending);
        let waits = progress_of_job(&v1::Job { status: Some(waiting), ..Default::default() }, "t");
        assert_eq!((waits.reason.as_str(), waits.message.as_str()), ("QueueLimit", "why"));
        let job = v1::Job { status: Some(status), ..Default::default() };
        let progress = progress_of_job(&job, "t");
        let view = progress.job.clone().unwrap();
        assert_eq!((view.phase.as_str(), view.attempt, view.nodes.len()), ("RUNNING", 2, 2));
        assert_eq!((progress.health, progress.reason.as_str()), (Health::Progressing, "Running"));
    }

    #[test]
    fn a_rollout_that_was_stopped_is_no_other_one() {
        let mut answer = v1::GetQosResponse {
            rollout: Some(v1::QosRollout { document: "{\"a\": 1, \"b\": 2}".into(), ..Default::default() }),
            ..Default::default()
        };
        let mut of = |state: State, document: &str| {
            answer.set_state(state);
            view_of_rollout(&answer, document)
        };
        for state in [State::Paused, State::Cancelled] {
            assert!(matches!(of(state, "{\"b\":2,\"a\":1}"), Some(View::Stopped(_))), "{state:?}");
        }
        assert!(matches!(of(State::Done, "{\"b\":2,\"a\":1}"), Some(View::Same(_))));
        assert_eq!(of(State::Done, "{\"a\":1}"), None);
        assert_eq!(view_of_rollout(&v1::GetQosResponse::default(), "{}"), None);
    }

    #[test]
    fn what_was_taken_and_is_not_shown_yet_is_not_taken_again() {
        assert_eq!(just_taken(View::Differs("t".to_owned())), View::Taken);
        assert_eq!(just_taken(View::Stopped(applied())), View::Taken);
        assert_eq!(just_taken(View::Same(applied())), View::Same(applied()));
    }

    #[test]
    fn changed_files_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(folder.path().join(name));
        let files = CredentialFiles {
            ca: path("ca"),
            certificate: path("cert"),
            key: path("key"),
            ..CredentialFiles::default()
        };
        let mut before = contents(&files);
        for name in ["ca", "cert", "key"] {
            std::fs::write(folder.path().join(name), "another one").unwrap();
            let after = contents(&files);
            assert_ne!(before, after, "{name}");
            before = after;
        }
    }
}
