//! An API server and a controller on one address, over TLS and HTTP/2.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fs,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri},
};
use controller_kubernetes::{connect, metrics::OperatorMetrics, railyard::Railyard, reconcile::Shared};
use http_body_util::StreamBody;
use hyper::body::Frame;
use prost::Message;
use proto_rpc::{
    AnonymousLimits, Ca, CertificateSlot, CredentialFiles, Endpoint, Limits, Listen, Metrics, Revocations,
    Server, Token, TokenKind, TrustSlot,
    ca::{CA_LIFETIME, LEAF_LIFETIME},
    server::{ServerMetrics, ServerTls},
};
use proto_wire::v1::{self, document::Document as Any, job_status::Phase, planned_document::Outcome};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::objects::{Objects, refusal};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What serves.
struct Served {
    objects: Mutex<Objects>,
    /// Counts changes, so that watches and tests need not look all the time.
    changed: watch::Sender<u64>,
    /// Counts breaks: watches of before end.
    breaks: watch::Sender<u64>,
    tenants: Mutex<BTreeMap<String, v1::Tenant>>,
    plans: Mutex<BTreeMap<String, u32>>,
    jobs: Mutex<Jobs>,
    /// The tenant in every namespace's label.
    label: Mutex<String>,
    /// How often a namespace was read.
    namespaces: AtomicU32,
    away: AtomicBool,
    /// From the first of these patches on watches show nothing, and the answer of the last is lost; 0 where all is as it should be.
    lost: AtomicU32,
    patches: AtomicU32,
}

/// The controller's jobs, by tenant and name.
#[derive(Debug, Default)]
struct Jobs {
    all: BTreeMap<(String, String), v1::Job>,
    /// Submissions that made a job.
    submitted: u32,
}

/// A cluster of Kubernetes beside one of Railyard.
pub struct Cluster {
    served: Arc<Served>,
    endpoint: Endpoint,
    folder: tempfile::TempDir,
    stop: CancellationToken,
}

impl Cluster {
    /// Starts both on a free port.
    pub async fn start() -> Self {
        let now = SystemTime::now();
        let ca = Ca::create("test", now, CA_LIFETIME).unwrap();
        let leaf = ca.issue_server(&["127.0.0.1".to_owned()], LEAF_LIFETIME, now).unwrap();
        let tls = ServerTls {
            trust: TrustSlot::new(ca.certificate_pem()).unwrap(),
            cluster: "test".to_owned(),
            slot: CertificateSlot::new(&leaf.issued.chain_pem, &leaf.key_pem).unwrap(),
            revocations: Revocations::default(),
        };
        let often = 1_000_000;
        let anonymous = AnonymousLimits {
            rate: often,
            rate_per_ip: often,
            calls: 4096,
            calls_per_ip: 4096,
            streams: 256,
            idle: Duration::from_secs(3600),
            age: Duration::from_secs(3600),
            body_bytes: 1 << 20,
            ..AnonymousLimits::default()
        };
        let limits = Limits { drain: Duration::from_millis(100), anonymous, ..Limits::default() };
        let metrics = ServerMetrics::new(&Metrics::new("test", "0", now));
        let listen = [Listen::Tcp("127.0.0.1:0".parse().unwrap())];
        let server = Server::bind(&listen, &tls, limits, metrics).await.unwrap();
        let Listen::Tcp(address) = server.addresses().unwrap()[0].clone() else {
            panic!("TCP was asked for")
        };
        let served = Arc::new(Served {
            objects: Mutex::default(),
            changed: watch::Sender::new(0),
            breaks: watch::Sender::new(0),
            tenants: Mutex::default(),
            plans: Mutex::default(),
            jobs: Mutex::default(),
            label: Mutex::new("nlp".to_owned()),
            namespaces: AtomicU32::new(0),
            away: AtomicBool::new(false),
            lost: AtomicU32::new(0),
            patches: AtomicU32::new(0),
        });
        let router = Router::new().fallback(serve).with_state(Arc::clone(&served));
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(router, stop.clone()));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), ca.certificate_pem()).unwrap();
        fs::write(folder.path().join("token"), Token::generate(TokenKind::User).unwrap().reveal().as_bytes())
            .unwrap();
        let endpoint = Endpoint::Tcp { host: address.ip().to_string(), port: address.port() };
        Self { served, endpoint, folder, stop }
    }

    /// What the operator works with.
    pub fn shared(&self) -> Shared {
        let (ca, token) = (self.folder.path().join("ca.pem"), self.folder.path().join("token"));
        let client = connect::client(&self.endpoint, &ca, &token).unwrap();
        let files = CredentialFiles { ca: Some(ca), token: Some(token), ..CredentialFiles::default() };
        let railyard = Arc::new(Railyard::new(vec![self.endpoint.clone()], files).unwrap());
        let metrics = OperatorMetrics::new(&Metrics::new("test", "0", SystemTime::now()));
        Shared { client, railyard, metrics }
    }

    /// All objects.
    pub fn objects(&self) -> MutexGuard<'_, Objects> {
        self.served.objects.lock().unwrap()
    }

    fn touch<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        let done = change(&mut self.objects());
        self.served.changed.send_modify(|count| *count += 1);
        done
    }

    /// Stores a new object.
    pub fn create(&self, collection: &str, object: Value) {
        self.touch(|objects| objects.create(collection, object));
    }

    /// Changes an object as its owner would.
    pub fn change(&self, collection: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.touch(|objects| objects.change(collection, name, change));
    }

    /// Deletes an object.
    pub fn delete(&self, collection: &str, name: &str) {
        self.touch(|objects| objects.delete(collection, name));
    }

    /// Ends all watches and forgets what happened so far, `meanwhile` included.
    pub fn break_watches(&self, meanwhile: impl FnOnce(&mut Objects)) {
        let mut objects = self.objects();
        meanwhile(&mut objects);
        objects.forget();
        self.served.breaks.send_modify(|count| *count += 1);
    }

    /// Whether the controller answers.
    pub fn set_away(&self, away: bool) {
        self.served.away.store(away, Ordering::SeqCst);
    }

    /// Does this patch without an answer, and shows no watch anything from the first patch on.
    pub fn lose(&self, patch: u32) {
        self.served.lost.store(patch, Ordering::SeqCst);
    }

    /// The tenants that the controller has.
    pub fn tenants(&self) -> BTreeSet<String> {
        self.served.tenants.lock().unwrap().keys().cloned().collect()
    }

    /// How often the controller was asked what would become of a tenant.
    pub fn plans(&self, name: &str) -> u32 {
        self.served.plans.lock().unwrap().get(name).copied().unwrap_or_default()
    }

    /// Gives all namespaces another tenant.
    pub fn set_label(&self, tenant: &str) {
        tenant.clone_into(&mut self.served.label.lock().unwrap());
    }

    /// How often a namespace was read.
    pub fn namespaces_read(&self) -> u32 {
        self.served.namespaces.load(Ordering::SeqCst)
    }

    /// Has somebody make a tenant.
    pub fn make_tenant(&self, name: &str, gpus: u32) {
        let metadata = Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() });
        let quota = Some(v1::Quota { gpus, ..v1::Quota::default() });
        let spec = Some(v1::TenantSpec { quota, ..v1::TenantSpec::default() });
        let tenant = v1::Tenant { metadata, spec, ..v1::Tenant::default() };
        self.served.tenants.lock().unwrap().insert(name.to_owned(), tenant);
    }

    /// How many jobs were submitted, and the jobs with their phases.
    pub fn jobs(&self) -> (u32, BTreeMap<(String, String), Phase>) {
        let jobs = self.served.jobs.lock().unwrap();
        let phase = |job: &v1::Job| job.status.as_ref().unwrap().phase();
        (jobs.submitted, jobs.all.iter().map(|(id, job)| (id.clone(), phase(job))).collect())
    }

    /// Waits until the objects are so.
    pub async fn until(&self, is: impl Fn(&Objects) -> bool) {
        let mut changed = self.served.changed.subscribe();
        let done = async {
            while !is(&self.objects()) {
                changed.changed().await.unwrap();
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, done).await.is_ok();
        assert!(in_time, "it never came: {:#?}", self.objects());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn serve(
    State(served): State<Arc<Served>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let path = uri.path().to_owned();
    if let Some(call) = path.strip_prefix("/rail.v1.") {
        return served.answer(call, &body);
    }
    assert!(headers.contains_key("authorization"));
    let query = uri.query().unwrap_or_default();
    if let Some(namespace) = path.strip_prefix("/api/v1/namespaces/") {
        return served.namespace(namespace);
    }
    let mut parts: Vec<&str> = path.trim_start_matches('/').split('/').skip(3).collect();
    if parts.len() > 3 && parts[0] == "namespaces" {
        parts.drain(..2);
    }
    match (method, parts.as_slice()) {
        (Method::GET, [collection]) if query.contains("watch=true") => served.watch(collection, query),
        (Method::GET, [collection]) => json_answer(200, &served.objects.lock().unwrap().list(collection)),
        (Method::GET, [collection, name]) => {
            let object = served.objects.lock().unwrap().read(collection, name);
            served.changed.send_modify(|count| *count += 1);
            json_answer(if object.is_null() { 404 } else { 200 }, &object)
        }
        (Method::PATCH, [collection, name, rest @ ..]) => {
            let patch: Value = serde_json::from_slice(&body).unwrap();
            let count = served.patches.fetch_add(1, Ordering::SeqCst) + 1;
            let (code, answer) =
                served.objects.lock().unwrap().patch(collection, name, rest == ["status"], &patch);
            served.changed.send_modify(|count| *count += 1);
            if count == served.lost.load(Ordering::SeqCst) {
                return json_answer(503, &refusal(503, "ServiceUnavailable"));
            }
            json_answer(code, &answer)
        }
        _ => json_answer(404, &refusal(404, "NotFound")),
    }
}

fn json_answer(code: u16, value: &Value) -> Response<Body> {
    let mut answer = Response::new(Body::from(value.to_string()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
    answer
}

impl Served {
    fn watch(self: Arc<Self>, collection: &str, query: &str) -> Response<Body> {
        let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let mut version: u64 = version.unwrap_or("0").parse().unwrap();
        let collection = collection.to_owned();
        let (lines, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(64);
        let (mut changed, mut breaks) = (self.changed.subscribe(), self.breaks.subscribe());
        tokio::spawn(async move {
            loop {
                changed.mark_unchanged();
                let is_blind =
                    self.lost.load(Ordering::SeqCst) > 0 && self.patches.load(Ordering::SeqCst) > 0;
                if is_blind {
                    lines.closed().await;
                    return;
                }
                let events = self.objects.lock().unwrap().since(&collection, version);
                let Some(events) = events else {
                    let line = json!({"type": "ERROR", "object": refusal(410, "Expired")});
                    let _ = lines.send(Ok(format!("{line}\n").into())).await;
                    return;
                };
                for (at, _, event) in events {
                    version = at;
                    if lines.send(Ok(format!("{event}\n").into())).await.is_err() {
                        return;
                    }
                }
                tokio::select! {
                    _ = changed.changed() => {}
                    _ = breaks.changed() => return,
                    () = lines.closed() => return,
                }
            }
        });
        Response::new(Body::from_stream(ReceiverStream::new(receiver)))
    }

    fn namespace(&self, name: &str) -> Response<Body> {
        self.namespaces.fetch_add(1, Ordering::SeqCst);
        let labels = json!({"railyard.io/tenant": *self.label.lock().unwrap()});
        json_answer(
            200,
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}),
        )
    }

    /// One call of gRPC.
    fn answer(&self, call: &str, body: &[u8]) -> Response<Body> {
        if self.away.load(Ordering::SeqCst) {
            return grpc(Err(14));
        }
        // One byte that says whether it is packed, and four of the length.
        let message = &body[5..];
        match call {
            "DocumentService/PlanDocuments" => {
                grpc(Ok(self.plan(&v1::PlanDocumentsRequest::decode(message).unwrap()).encode_to_vec()))
            }
            "TenantService/ApplyTenant" => {
                let tenant = v1::ApplyTenantRequest::decode(message).unwrap().tenant.unwrap();
                self.tenants.lock().unwrap().insert(name(&tenant), tenant.clone());
                grpc(Ok(tenant.encode_to_vec()))
            }
            "TenantService/DeleteTenant" => {
                let request = v1::DeleteTenantRequest::decode(message).unwrap();
                match self.tenants.lock().unwrap().remove(&request.name) {
                    Some(_) => grpc(Ok(v1::DeleteTenantResponse::default().encode_to_vec())),
                    None => grpc(Err(5)),
                }
            }
            "JobService/CreateJob" => self.submit(v1::CreateJobRequest::decode(message).unwrap()),
            "JobService/GetJob" => {
                let request = v1::GetJobRequest::decode(message).unwrap();
                self.job(request.tenant, request.name, |_| {})
            }
            "JobService/CancelJob" => {
                let request = v1::CancelJobRequest::decode(message).unwrap();
                self.job(request.tenant, request.name, |job| {
                    job.status.get_or_insert_default().set_phase(Phase::Cancelled);
                })
            }
            _ => grpc(Err(12)),
        }
    }

    fn job(&self, tenant: String, name: String, change: impl FnOnce(&mut v1::Job)) -> Response<Body> {
        let mut jobs = self.jobs.lock().unwrap();
        let Some(job) = jobs.all.get_mut(&(tenant, name)) else { return grpc(Err(5)) };
        change(job);
        grpc(Ok(job.encode_to_vec()))
    }

    /// The same request again gets the same job.
    fn submit(&self, request: v1::CreateJobRequest) -> Response<Body> {
        let mut job = request.job.unwrap();
        let mut metadata = job.metadata.take().unwrap();
        let id = (request.on_behalf_of, metadata.name.clone());
        let mut jobs = self.jobs.lock().unwrap();
        if let Some(there) = jobs.all.get(&id) {
            let uid = &there.metadata.as_ref().unwrap().labels["railyard.io/kubernetes-uid"];
            return grpc(if *uid == request.request_id { Ok(there.encode_to_vec()) } else { Err(6) });
        }
        jobs.submitted += 1;
        metadata.uid = format!("j{}", jobs.submitted);
        job.metadata = Some(metadata);
        // What the submitter did not say, the controller fills.
        job.spec.as_mut().unwrap().grace_period = Some(Default::default());
        job.status.get_or_insert_default().set_phase(Phase::Running);
        jobs.all.insert(id, job.clone());
        grpc(Ok(job.encode_to_vec()))
    }

    fn plan(&self, request: &v1::PlanDocumentsRequest) -> v1::PlanDocumentsResponse {
        let documents = request.documents.iter().map(|document| self.plan_one(document)).collect();
        v1::PlanDocumentsResponse { documents }
    }

    fn plan_one(&self, document: &v1::Document) -> v1::PlannedDocument {
        let Some(Any::Tenant(tenant)) = &document.document else { panic!("{document:?}") };
        *self.plans.lock().unwrap().entry(name(tenant)).or_default() += 1;
        let mut planned = v1::PlannedDocument { document: Some(document.clone()), ..Default::default() };
        let gpus = tenant.spec.as_ref().and_then(|spec| spec.quota.as_ref()).map_or(0, |quota| quota.gpus);
        if gpus == 0 {
            let violation = v1::FieldViolation { field: "spec.quota.gpus".into(), message: "is 0".into() };
            planned.refusal = Some(v1::DocumentRefusal {
                class: "invalid".into(),
                reason: "BAD_QUOTA".into(),
                message: "1 field is wrong".into(),
                violations: vec![violation],
            });
            planned.set_outcome(Outcome::Refused);
            return planned;
        }
        planned.set_outcome(match self.tenants.lock().unwrap().get(&name(tenant)) {
            Some(there) if there == tenant => Outcome::Unchanged,
            Some(_) => Outcome::Changed,
            None => Outcome::Created,
        });
        planned
    }
}

fn name(tenant: &v1::Tenant) -> String {
    tenant.metadata.clone().unwrap_or_default().name
}

/// An answer of gRPC: one message and the code 0, or a code.
fn grpc(answer: Result<Vec<u8>, u32>) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    let code = answer.as_ref().err().copied().unwrap_or_default();
    trailers.insert("grpc-status", HeaderValue::from(code));
    let mut frames: Vec<Result<Frame<Bytes>, Infallible>> = Vec::new();
    if let Ok(message) = answer {
        let mut framed = vec![0];
        framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        framed.extend(message);
        frames.push(Ok(Frame::data(framed.into())));
    }
    frames.push(Ok(Frame::trailers(trailers)));
    let mut response = Response::new(Body::new(StreamBody::new(tokio_stream::iter(frames))));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}
