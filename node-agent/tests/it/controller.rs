//! A controller that the test plays: real TLS, real streams, no decisions.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use proto_model::{Assignment, Observation, Observed};
use proto_rpc::{
    Ca, CertificateSlot, Identity, Limits, Listen, MAX_MESSAGE_BYTES, Metrics, PeerInfo, Revocations,
    Revoked, Server, Subject, Token, TokenKind, TrustSlot,
    ca::CA_LIFETIME,
    deadline::DeadlinePolicy,
    router::{CallLayers, merge},
    server::{ServerMetrics, ServerTls},
};
use proto_wire::v1::{
    self,
    agent_message::Body,
    agent_service_server::{AgentService, AgentServiceServer},
    controller_message,
    enroll_service_server::{EnrollService, EnrollServiceServer},
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming, service::Routes};

use crate::support::LIMIT;

/// Of an agent's certificate, and more than half of that.
const LIFE: Duration = Duration::from_secs(24 * 3600);
const PAST_HALF: Duration = Duration::from_secs(13 * 3600);

type Outgoing = mpsc::Sender<Result<v1::ControllerMessage, Status>>;

struct Shared {
    ca: Ca,
    token: Mutex<Option<String>>,
    joins: Mutex<u32>,
    /// How many of the certificates that are issued next are due to be renewed at once.
    due: Mutex<u32>,
    renewals: Mutex<u32>,
    stream: Mutex<Option<Outgoing>>,
    heard: mpsc::UnboundedSender<Body>,
    logs: Mutex<BTreeMap<String, (Vec<v1::LogChunk>, bool)>>,
    revocations: Revocations,
}

pub struct Controller {
    shared: Arc<Shared>,
    pub token: String,
    pub pin: String,
    pub socket: PathBuf,
    heard: mpsc::UnboundedReceiver<Body>,
    server: Option<(CancellationToken, JoinHandle<usize>)>,
    pub epoch: u64,
    logs_asked: u32,
    _room: tempfile::TempDir,
}

struct Service(Arc<Shared>);

impl Service {
    fn issue(&self, csr: &str, node: &str) -> Result<Response<v1::JoinResponse>, Status> {
        let identity = Identity::node(node).unwrap();
        let now = self.0.revocations.get().issue_time(&identity, SystemTime::now());
        let mut due = self.0.due.lock().unwrap();
        let age = if *due > 0 { PAST_HALF } else { Duration::ZERO };
        *due = due.saturating_sub(1);
        let issued = self.0.ca.issue(csr, &identity, LIFE, now - age).unwrap();
        Ok(Response::new(v1::JoinResponse {
            certificate_pem: issued.chain_pem,
            ca_pem: self.0.ca.certificate_pem().to_owned(),
            expires: None,
        }))
    }
}

#[tonic::async_trait]
impl EnrollService for Service {
    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<v1::JoinResponse>, Status> {
        let request = request.into_inner();
        if self.0.token.lock().unwrap().take_if(|token| *token == request.token).is_none() {
            return Err(Status::unauthenticated("the token is not good"));
        }
        *self.0.joins.lock().unwrap() += 1;
        self.issue(&request.csr_pem, &request.node)
    }
}

#[tonic::async_trait]
impl AgentService for Service {
    type ConnectStream = Pin<Box<dyn Stream<Item = Result<v1::ControllerMessage, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let peer = request.extensions().get::<PeerInfo>().unwrap().identity.clone();
        assert_eq!(peer, Identity::node(crate::support::NODE).unwrap());
        let (sender, receiver) = mpsc::channel(64);
        let mut incoming = request.into_inner();
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut sender = Some(sender);
            while let Some(Ok(message)) = incoming.next().await {
                // From the registration on, the test may speak.
                if matches!(message.body, Some(Body::Register(_))) {
                    *shared.stream.lock().unwrap() = sender.take();
                }
                let _ = shared.heard.send(message.body.unwrap());
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn upload_logs(
        &self,
        request: Request<Streaming<v1::UploadLogsRequest>>,
    ) -> Result<Response<v1::UploadLogsResponse>, Status> {
        let mut incoming = request.into_inner();
        let mut id = String::new();
        while let Some(message) = incoming.next().await {
            let message = message?;
            if !message.stream_id.is_empty() {
                id = message.stream_id;
            }
            let mut logs = self.0.logs.lock().unwrap();
            logs.entry(id.clone()).or_default().0.extend(message.chunk);
        }
        self.0.logs.lock().unwrap().entry(id).or_default().1 = true;
        Ok(Response::new(v1::UploadLogsResponse {}))
    }

    type AttachStepStream = Pin<Box<dyn Stream<Item = Result<v1::AttachStepResponse, Status>> + Send>>;

    async fn attach_step(
        &self,
        _: Request<Streaming<v1::AttachStepRequest>>,
    ) -> Result<Response<Self::AttachStepStream>, Status> {
        Err(Status::unimplemented("this controller asks for no steps"))
    }

    async fn renew_certificate(
        &self,
        request: Request<v1::RenewCertificateRequest>,
    ) -> Result<Response<v1::JoinResponse>, Status> {
        *self.0.renewals.lock().unwrap() += 1;
        self.issue(&request.get_ref().csr_pem, crate::support::NODE)
    }
}

impl Controller {
    pub async fn start() -> Self {
        Self::with_due_certificates(0).await
    }

    /// One whose first so many certificates are past the half of their life, so that they are to be renewed at once.
    pub async fn with_due_certificates(due: u32) -> Self {
        let room = tempfile::tempdir().unwrap();
        let ca = Ca::create("test", SystemTime::now(), CA_LIFETIME).unwrap();
        let (pin, token) = (ca.pin().to_string(), Token::generate(TokenKind::Join).unwrap().reveal());
        let (sender, heard) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            ca,
            token: Mutex::new(Some(token.clone())),
            joins: Mutex::default(),
            due: Mutex::new(due),
            renewals: Mutex::default(),
            stream: Mutex::default(),
            heard: sender,
            logs: Mutex::default(),
            revocations: Revocations::default(),
        });
        let socket = room.path().join("controller.sock");
        let (server, epoch, logs_asked) = (None, 1, 0);
        let mut controller =
            Self { shared, token, pin, socket, heard, server, epoch, logs_asked, _room: room };
        controller.serve().await;
        controller
    }

    pub async fn serve(&mut self) {
        let leaf = self.shared.ca.issue_server(&[], Duration::from_secs(3600), SystemTime::now()).unwrap();
        let tls = ServerTls {
            trust: TrustSlot::new(self.shared.ca.certificate_pem()).unwrap(),
            cluster: "test".to_owned(),
            slot: CertificateSlot::new(&leaf.issued.chain_pem, &leaf.key_pem).unwrap(),
            revocations: self.shared.revocations.clone(),
        };
        let registry = Metrics::new("test", "0", SystemTime::now());
        let limits = Limits { drain: Duration::from_millis(50), ..Limits::default() };
        let listens = [Listen::Unix(self.socket.clone())];
        let server = Server::bind(&listens, &tls, limits, ServerMetrics::new(&registry)).await.unwrap();
        let service = || Service(Arc::clone(&self.shared));
        let mut routes = Routes::builder();
        routes.add_service(EnrollServiceServer::new(service()).max_decoding_message_size(MAX_MESSAGE_BYTES));
        routes.add_service(AgentServiceServer::new(service()).max_decoding_message_size(MAX_MESSAGE_BYTES));
        let layers = CallLayers::new(&registry, DeadlinePolicy::default());
        let router = merge(routes.routes(), axum::Router::new(), &layers);
        let stop = CancellationToken::new();
        self.server = Some((stop.clone(), tokio::spawn(server.serve(router, stop))));
    }

    /// As if the controller had died.
    pub async fn die(&mut self) {
        self.shared.stream.lock().unwrap().take();
        let (stop, task) = self.server.take().unwrap();
        stop.cancel();
        task.await.unwrap();
        let _ = std::fs::remove_file(&self.socket);
        while self.heard.try_recv().is_ok() {}
    }

    pub fn joins(&self) -> u32 {
        *self.shared.joins.lock().unwrap()
    }

    /// Takes back what the node was given until now.
    pub fn revoke(&self) {
        let mut revoked = Revoked::default();
        revoked.insert(Subject::Node(crate::support::NODE.to_owned()), SystemTime::now());
        self.shared.revocations.set(1, revoked);
    }

    /// The token is good once more.
    pub fn renew_token(&self) {
        *self.shared.token.lock().unwrap() = Some(self.token.clone());
    }

    pub fn renewals(&self) -> u32 {
        *self.shared.renewals.lock().unwrap()
    }

    /// Waits for what fits; what does not is passed over.
    pub async fn on_report<T>(&mut self, what: &str, fits: impl Fn(&Body) -> Option<T>) -> T {
        let check = async {
            loop {
                let body = self.heard.recv().await.expect("the service lives as long as the test");
                if let Some(found) = fits(&body) {
                    return found;
                }
            }
        };
        tokio::time::timeout(LIMIT, check).await.unwrap_or_else(|_| panic!("{what}: not within {LIMIT:?}"))
    }

    pub async fn registered(&mut self) -> v1::Register {
        self.on_report("a registration", |body| match body {
            Body::Register(register) => Some(register.clone()),
            _ => None,
        })
        .await
    }

    /// Waits until the agent has seen at least this of the job, and says so by itself or as it registers.
    pub async fn observed(&mut self, job: &Assignment, state: Observed) -> Observation {
        let uid = job.uid;
        self.on_report(&format!("{state:?}"), |body| {
            let reported = match body {
                Body::Observation(one) => std::slice::from_ref(one),
                Body::Register(register) => &register.observations,
                _ => &[],
            };
            let mut reported = reported.iter().map(|wire| Observation::try_from(wire.clone()).unwrap());
            reported.find(|seen| seen.uid == uid && seen.state >= state)
        })
        .await
    }

    pub async fn say(&self, body: controller_message::Body) {
        self.say_at(self.epoch, body).await;
    }

    pub async fn say_at(&self, epoch: u64, body: controller_message::Body) {
        let stream = self.shared.stream.lock().unwrap().clone().expect("the agent is connected");
        stream.send(Ok(v1::ControllerMessage { epoch, body: Some(body) })).await.unwrap();
    }

    pub async fn welcome(&self, jobs: &[&Assignment]) {
        let assignments = jobs.iter().map(|job| (*job).into()).collect();
        let interval = proto_wire::convert::duration_to_wire(Duration::from_millis(200));
        let welcome = v1::Welcome { assignments, heartbeat_interval: Some(interval), drained: None };
        self.say(controller_message::Body::Welcome(welcome)).await;
    }

    pub async fn desired(&self, job: &Assignment) {
        self.say(controller_message::Body::Assignment(job.into())).await;
    }

    pub async fn forget(&self, job: &Assignment) {
        let forget = v1::Forget { job_uid: job.uid.to_string(), attempt: job.attempt };
        self.say(controller_message::Body::Forget(forget)).await;
    }

    /// Asks for logs; returns the stream's name.
    pub async fn ask_logs(
        &mut self,
        job: &Assignment,
        ranks: &[u32],
        follow: bool,
        tail_lines: u32,
    ) -> String {
        self.logs_asked += 1;
        let stream_id = format!("logs-{}", self.logs_asked);
        let ask = v1::OpenLogs {
            stream_id: stream_id.clone(),
            job_uid: job.uid.to_string(),
            attempt: job.attempt,
            ranks: ranks.to_vec(),
            follow,
            tail_lines,
            since: None,
            timestamps: false,
        };
        self.say(controller_message::Body::OpenLogs(ask)).await;
        stream_id
    }

    /// Waits until the chunks of a stream, and whether it is over, fit.
    pub async fn logs(&self, stream: &str, fits: impl Fn(&str, bool) -> bool) -> Vec<v1::LogChunk> {
        let deadline = tokio::time::Instant::now() + LIMIT;
        loop {
            if let Some((chunks, over)) = self.shared.logs.lock().unwrap().get(stream) {
                let text: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.data.clone()).collect();
                if fits(&String::from_utf8_lossy(&text), *over) {
                    return chunks.clone();
                }
            }
            assert!(tokio::time::Instant::now() < deadline, "logs: {:?}", self.shared.logs.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn endpoint(&self) -> String {
        format!("unix:{}", Path::new(&self.socket).display())
    }
}
