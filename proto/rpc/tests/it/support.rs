//! A small server and clients of it, over a CA made for the test.

use axum::routing::get;
use axum::{Extension, Router};
use http_body_util::BodyExt;
use proto_rpc::ca::{CA_LIFETIME, LEAF_LIFETIME};
use proto_rpc::deadline::DeadlinePolicy;
use proto_rpc::router::{CallLayers, merge};
use proto_rpc::server::{ServerMetrics, ServerTls};
use proto_rpc::tls::Trust;
use proto_rpc::{
    Ca, CertificateSlot, Client, ClientOptions, Credentials, Endpoint, ErrorClass, Identity, KeyRequest,
    Limits, Listen, MAX_MESSAGE_BYTES, Metrics, PeerInfo, RefusedPeer, Revocations, RpcError, Server,
    TrustSlot, Unproved, trace,
};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower::Service;

pub const CLUSTER: &str = "test";
/// A wait for what comes soon where the machine is not busy.
pub const SOON: Duration = Duration::from_secs(60);

/// What the server's handlers saw and when they may go on.
#[derive(Default)]
pub struct Probe {
    pub entered: Notify,
    pub go_on: Notify,
    pub dropped: Notify,
    pub traceparents: Mutex<Vec<Option<String>>>,
    pub authorization: Mutex<Option<String>>,
}

pub struct Teller(pub Arc<Probe>);

struct OnDrop(Arc<Probe>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

pub fn quota() -> RpcError {
    RpcError::new(ErrorClass::Quota, "QUOTA_EXCEEDED", "tenant research: 8 of 8 GPUs are used")
        .with_violation("spec.nodes", "2 are too many")
        .with_retry_after(Duration::from_secs(9))
}

#[tonic::async_trait]
impl Health for Teller {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let header = request.metadata().get("authorization").and_then(|v| v.to_str().ok());
        *self.0.authorization.lock().unwrap() = header.map(str::to_owned);
        self.0.traceparents.lock().unwrap().push(trace::current_traceparent());
        match request.get_ref().service.as_str() {
            "panic" => panic!("as the test wants"),
            "quota" => return Err(quota().into()),
            "never" => {
                let _guard = OnDrop(Arc::clone(&self.0));
                self.0.entered.notify_one();
                std::future::pending::<()>().await;
            }
            "wait" => {
                self.0.entered.notify_one();
                self.0.go_on.notified().await;
            }
            _ => {}
        }
        Ok(Response::new(HealthCheckResponse { status: ServingStatus::Serving.into() }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// One answer at once, and one for every `go_on`.
    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let probe = Arc::clone(&self.0);
        let (send, receive) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            let answer = HealthCheckResponse { status: ServingStatus::Serving.into() };
            while send.send(Ok(answer)).await.is_ok() {
                tokio::select! {
                    () = probe.go_on.notified() => {}
                    () = send.closed() => break,
                }
            }
        });
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(receive))))
    }
}

/// A running server and what is needed to speak to it.
pub struct World {
    pub trusted: TrustSlot,
    pub ca: Ca,
    pub probe: Arc<Probe>,
    pub slot: CertificateSlot,
    pub revocations: Revocations,
    pub metrics: ServerMetrics,
    pub refused: Mutex<tokio::sync::mpsc::Receiver<RefusedPeer>>,
    pub endpoints: Vec<Endpoint>,
    pub stop: CancellationToken,
    pub task: JoinHandle<usize>,
    _folder: tempfile::TempDir,
}

pub fn limits() -> Limits {
    Limits { drain: Duration::from_secs(5), ..Limits::default() }
}

pub fn router(probe: &Arc<Probe>, metrics: &Metrics) -> Router {
    let rest = Router::new().route(
        "/v1/whoami",
        get(|Extension(peer): Extension<PeerInfo>| async move { peer.identity.to_string() }),
    );
    // As a door does that has read a good token.
    let prove = |Extension(unproved): Extension<Unproved>| async move {
        unproved.proved(&Identity::user("red", "ann", [proto_rpc::Role::User]).unwrap());
    };
    let rest = rest.route("/v1/prove", get(prove));
    let health = HealthServer::new(Teller(Arc::clone(probe))).max_decoding_message_size(MAX_MESSAGE_BYTES);
    merge(Routes::new(health), rest, &CallLayers::new(metrics, DeadlinePolicy::default()))
}

pub async fn world() -> World {
    world_with(limits(), CLUSTER).await
}

/// A server whose certificate is of a CA of `CLUSTER`, and that expects identities of `expected`.
pub async fn world_with(limits: Limits, expected: &str) -> World {
    let now = SystemTime::now();
    let ca = Ca::create(CLUSTER, now, CA_LIFETIME).unwrap();
    let leaf = ca.issue_server(&["127.0.0.1".to_owned()], LEAF_LIFETIME, now).unwrap();
    let slot = CertificateSlot::new(&leaf.issued.chain_pem, &leaf.key_pem).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let listens =
        [Listen::Tcp("127.0.0.1:0".parse().unwrap()), Listen::Unix(folder.path().join("controller.sock"))];
    let revocations = Revocations::default();
    let trust = TrustSlot::new(ca.certificate_pem()).unwrap();
    let tls = ServerTls {
        trust: trust.clone(),
        cluster: expected.to_owned(),
        slot: slot.clone(),
        revocations: revocations.clone(),
    };
    let registry = Metrics::new("test", "0", now);
    let metrics = ServerMetrics::new(&registry);
    let (reports, refused) = tokio::sync::mpsc::channel(16);
    let server = Server::bind(&listens, &tls, limits, metrics.clone()).await.unwrap().reporting(reports);
    let endpoints = server.addresses().unwrap().iter().map(endpoint).collect();
    let (probe, stop) = (Arc::new(Probe::default()), CancellationToken::new());
    let task = tokio::spawn(server.serve(router(&probe, &registry), stop.clone()));
    let refused = Mutex::new(refused);
    World {
        trusted: trust,
        ca,
        probe,
        slot,
        revocations,
        metrics,
        refused,
        endpoints,
        stop,
        task,
        _folder: folder,
    }
}

pub fn endpoint(listen: &Listen) -> Endpoint {
    match listen {
        Listen::Tcp(address) => Endpoint::Tcp { host: address.ip().to_string(), port: address.port() },
        Listen::Unix(path) => Endpoint::Unix { path: path.clone() },
    }
}

impl World {
    pub fn trust(&self) -> Trust {
        Trust::Ca(self.ca.certificate_pem().to_owned())
    }

    pub fn tcp(&self) -> Endpoint {
        self.endpoints[0].clone()
    }

    pub fn address(&self) -> std::net::SocketAddr {
        match self.tcp() {
            Endpoint::Tcp { host, port } => format!("{host}:{port}").parse().unwrap(),
            Endpoint::Unix { .. } => panic!("the first endpoint is TCP"),
        }
    }

    pub fn credentials(&self, identity: &Identity) -> Credentials {
        Credentials::new(self.trust()).with_certificate(issue(&self.ca, identity, SystemTime::now()))
    }

    pub fn client(&self, identity: &Identity) -> Client {
        client(&[self.tcp()], &self.credentials(identity))
    }

    /// Stops the server and gives the number of connections that were cut.
    pub async fn end(self) -> usize {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

pub fn issue(ca: &Ca, identity: &Identity, now: SystemTime) -> CertificateSlot {
    let request = KeyRequest::generate().unwrap();
    let issued = ca.issue(&request.csr_pem, identity, LEAF_LIFETIME, now).unwrap();
    CertificateSlot::new(&issued.chain_pem, &request.key_pem).unwrap()
}

pub fn client(endpoints: &[Endpoint], credentials: &Credentials) -> Client {
    Client::new(endpoints, credentials, &ClientOptions::default()).unwrap()
}

pub async fn check(client: &Client, service: &str) -> Result<(), RpcError> {
    let mut health = HealthClient::new(client.clone());
    let request = HealthCheckRequest { service: service.to_owned() };
    health.check(request).await.map(|_| ()).map_err(RpcError::from)
}

/// A GET over the client's HTTP/2 connection: status and body.
pub async fn rest(client: &Client, path: &str) -> (u16, String) {
    let request = axum::http::Request::get(path).body(tonic::body::Body::empty()).unwrap();
    let mut client = client.clone();
    std::future::poll_fn(|context| client.poll_ready(context)).await.unwrap();
    let response = client.call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

pub fn node() -> Identity {
    Identity::node("n0").unwrap()
}

/// Counters are written just after the peer sees the end; waits for them.
pub async fn counted(metrics: &ServerMetrics, cause: &str, at_least: u64) {
    let begin = Instant::now();
    while metrics.refused(cause) < at_least {
        assert!(begin.elapsed() < SOON, "{cause}: {}", metrics.refused(cause));
        tokio::task::yield_now().await;
    }
}
