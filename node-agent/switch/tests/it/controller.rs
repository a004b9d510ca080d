//! A controller that the test plays: real TLS, no decisions.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use proto_rpc::{
    Ca, CertificateSlot, Identity, Limits, Listen, MAX_MESSAGE_BYTES, Metrics, PeerInfo, Revocations, Server,
    TrustSlot,
    ca::CA_LIFETIME,
    deadline::DeadlinePolicy,
    router::{CallLayers, merge},
    server::{ServerMetrics, ServerTls},
};
use proto_wire::{
    convert::duration_to_wire,
    v1::{
        self,
        desired_switch::Phase,
        switch_agent_service_server::{SwitchAgentService, SwitchAgentServiceServer},
    },
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, service::Routes};

/// Longer than anything here takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Of a switch's certificate, and more than half of that.
const LIFE: Duration = Duration::from_secs(24 * 3600);
const PAST_HALF: Duration = Duration::from_secs(13 * 3600);
pub const SWITCH: &str = "r0-leaf1";
pub const TOKEN: &str = "join-me";

struct Shared {
    ca: Ca,
    token: Mutex<Option<String>>,
    /// How many of the certificates that are issued next are due to be renewed at once.
    due: Mutex<u32>,
    renewals: Mutex<u32>,
    answer: Mutex<v1::ReportSwitchResponse>,
    /// The last report, and how many there were.
    heard: Mutex<(Option<v1::ReportSwitchRequest>, u64)>,
}

#[derive(Clone)]
struct Service(Arc<Shared>);

pub struct Controller {
    shared: Arc<Shared>,
    pub pin: String,
    pub socket: PathBuf,
    server: Option<(CancellationToken, JoinHandle<usize>)>,
    _room: tempfile::TempDir,
}

impl Service {
    fn issue(&self, csr: &str) -> Response<v1::JoinSwitchResponse> {
        // The agent shows what it is given; which kind of identity that is, the controller knows.
        let identity = Identity::node(SWITCH).unwrap();
        let mut due = self.0.due.lock().unwrap();
        let age = if *due > 0 { PAST_HALF } else { Duration::ZERO };
        *due = due.saturating_sub(1);
        let issued = self.0.ca.issue(csr, &identity, LIFE, SystemTime::now() - age).unwrap();
        Response::new(v1::JoinSwitchResponse {
            certificate_pem: issued.chain_pem,
            ca_pem: self.0.ca.certificate_pem().to_owned(),
            expires: None,
        })
    }
}

fn proved<T>(request: &Request<T>) {
    let peer = request.extensions().get::<PeerInfo>().unwrap().identity.clone();
    assert_eq!(peer, Identity::node(SWITCH).unwrap());
}

#[tonic::async_trait]
impl SwitchAgentService for Service {
    async fn join_switch(
        &self,
        request: Request<v1::JoinSwitchRequest>,
    ) -> Result<Response<v1::JoinSwitchResponse>, Status> {
        let request = request.into_inner();
        assert_eq!(request.name, SWITCH);
        match self.0.token.lock().unwrap().take_if(|token| *token == request.token) {
            Some(_) => Ok(self.issue(&request.csr_pem)),
            None => Err(Status::unauthenticated("the token is not good")),
        }
    }

    async fn report_switch(
        &self,
        request: Request<v1::ReportSwitchRequest>,
    ) -> Result<Response<v1::ReportSwitchResponse>, Status> {
        proved(&request);
        let mut heard = self.0.heard.lock().unwrap();
        *heard = (Some(request.into_inner()), heard.1 + 1);
        Ok(Response::new(self.0.answer.lock().unwrap().clone()))
    }

    async fn renew_switch_certificate(
        &self,
        request: Request<v1::RenewSwitchCertificateRequest>,
    ) -> Result<Response<v1::JoinSwitchResponse>, Status> {
        proved(&request);
        *self.0.renewals.lock().unwrap() += 1;
        Ok(self.issue(&request.get_ref().csr_pem))
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
        let pin = ca.pin().to_string();
        let interval = Some(duration_to_wire(Duration::from_millis(200)));
        let answer = v1::ReportSwitchResponse { epoch: 5, interval, ..v1::ReportSwitchResponse::default() };
        let shared = Arc::new(Shared {
            ca,
            token: Mutex::new(Some(TOKEN.to_owned())),
            due: Mutex::new(due),
            renewals: Mutex::default(),
            answer: Mutex::new(answer),
            heard: Mutex::default(),
        });
        let socket = room.path().join("controller.sock");
        let mut controller = Self { shared, pin, socket, server: None, _room: room };
        controller.serve().await;
        controller
    }

    pub async fn serve(&mut self) {
        let leaf = self.shared.ca.issue_server(&[], Duration::from_secs(3600), SystemTime::now()).unwrap();
        let tls = ServerTls {
            trust: TrustSlot::new(self.shared.ca.certificate_pem()).unwrap(),
            cluster: "test".to_owned(),
            slot: CertificateSlot::new(&leaf.issued.chain_pem, &leaf.key_pem).unwrap(),
            revocations: Revocations::default(),
        };
        let registry = Metrics::new("test", "0", SystemTime::now());
        let limits = Limits { drain: Duration::from_millis(50), ..Limits::default() };
        let listens = [Listen::Unix(self.socket.clone())];
        let server = Server::bind(&listens, &tls, limits, ServerMetrics::new(&registry)).await.unwrap();
        let mut routes = Routes::builder();
        let service = SwitchAgentServiceServer::new(Service(Arc::clone(&self.shared)));
        routes.add_service(service.max_decoding_message_size(MAX_MESSAGE_BYTES));
        let layers = CallLayers::new(&registry, DeadlinePolicy::default());
        let router = merge(routes.routes(), axum::Router::new(), &layers);
        let stop = CancellationToken::new();
        self.server = Some((stop.clone(), tokio::spawn(server.serve(router, stop))));
    }

    /// As if the controller had died.
    pub async fn die(&mut self) {
        let (stop, task) = self.server.take().unwrap();
        stop.cancel();
        task.await.unwrap();
        let _ = std::fs::remove_file(&self.socket);
    }

    pub fn endpoint(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    pub fn renewals(&self) -> u32 {
        *self.shared.renewals.lock().unwrap()
    }

    /// What reports are answered with from now on.
    pub fn answer(&self, change: impl FnOnce(&mut v1::ReportSwitchResponse)) {
        change(&mut self.shared.answer.lock().unwrap());
    }

    /// What is desired from now on.
    pub fn desire(&self, number: u64, phase: Phase, config: &str, within: Duration) {
        let file = v1::SwitchFile { name: "frr.conf".to_owned(), content: config.to_owned() };
        let desired = v1::DesiredSwitch {
            generation: 1,
            phase: phase.into(),
            files: if phase == Phase::Hold { Vec::new() } else { vec![file] },
            confirm_within: Some(duration_to_wire(within)),
            number,
            owned_tables: Vec::new(),
        };
        self.answer(|answer| answer.desired = Some(desired));
    }

    /// Waits for a report that is made from now on and fits.
    pub async fn report(
        &self,
        what: &str,
        fits: impl Fn(&v1::ReportSwitchRequest) -> bool,
    ) -> v1::ReportSwitchRequest {
        let (deadline, first) = (Instant::now() + LIMIT, self.shared.heard.lock().unwrap().1);
        loop {
            let (report, count) = self.shared.heard.lock().unwrap().clone();
            if let Some(report) = report.clone().filter(|report| count > first && fits(report)) {
                return report;
            }
            assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}: {report:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
