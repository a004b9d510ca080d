//! The API server: TLS with a certificate of its own authority, a bearer token, HTTP/2, and the objects.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri, header},
};
use proto_rpc::{
    AnonymousLimits, Ca, CertificateSlot, Endpoint, Limits, Listen, Metrics, Revocations, Server, TrustSlot,
    ca::{CA_LIFETIME, LEAF_LIFETIME},
    server::{ServerMetrics, ServerTls},
};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::objects::{Objects, not_found, status};

/// The token of the driver's service account.
const TOKEN: &str = "token-of-the-driver";

/// What is wrong with the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It cannot serve.
    Away,
    /// It lets nobody do anything.
    Forbidden,
    /// It does not serve this API: 404 that names no object.
    NotServed,
    /// It does not answer who asks for a claim until this has passed; the answer is of then.
    Holding,
}

/// The API server of a cluster.
#[derive(Debug)]
pub struct ApiServer {
    /// Where it is.
    pub endpoint: Endpoint,
    ca: String,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    objects: Mutex<Objects>,
    fault: watch::Sender<Fault>,
    /// Calls that are held now.
    held: watch::Sender<usize>,
}

impl ApiServer {
    /// Starts one on a free port.
    pub async fn start() -> Self {
        let now = SystemTime::now();
        let ca = Ca::create("kubernetes", now, CA_LIFETIME).unwrap();
        let leaf = ca.issue_server(&["127.0.0.1".to_owned()], LEAF_LIFETIME, now).unwrap();
        let tls = ServerTls {
            trust: TrustSlot::new(ca.certificate_pem()).unwrap(),
            cluster: "kubernetes".to_owned(),
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
        let metrics = ServerMetrics::new(&Metrics::new("kubernetes", "0", now));
        let listen = [Listen::Tcp("127.0.0.1:0".parse().unwrap())];
        let server = Server::bind(&listen, &tls, limits, metrics).await.unwrap();
        let Listen::Tcp(address) = server.addresses().unwrap()[0].clone() else {
            panic!("TCP was asked for")
        };
        let shared = Arc::new(Shared {
            objects: Mutex::new(Objects::new()),
            fault: watch::Sender::new(Fault::None),
            held: watch::Sender::new(0),
        });
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(router, stop.clone()));
        let endpoint = Endpoint::Tcp { host: address.ip().to_string(), port: address.port() };
        Self { endpoint, ca: ca.certificate_pem().to_owned(), shared, stop }
    }

    /// Writes `ca.crt` and `token`, as a pod finds them.
    pub fn write_credentials(&self, folder: &Path) {
        fs::write(folder.join("ca.crt"), &self.ca).unwrap();
        fs::write(folder.join("token"), TOKEN).unwrap();
    }

    /// The objects.
    pub fn objects(&self) -> MutexGuard<'_, Objects> {
        self.shared.objects.lock().unwrap()
    }

    /// What is wrong from now on.
    pub fn break_by(&self, fault: Fault) {
        self.shared.fault.send_replace(fault);
    }

    /// Waits until somebody has asked for a claim and is not answered.
    pub async fn held(&self) {
        self.held_calls(1).await;
    }

    /// Waits until that many calls were held; who gives up counts on.
    pub async fn held_calls(&self, count: usize) {
        self.shared.held.subscribe().wait_for(|held| *held >= count).await.unwrap();
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn refused(code: u16, reason: &str, message: &str) -> (StatusCode, Json<Value>) {
    (StatusCode::from_u16(code).unwrap(), Json(status(code, reason, message)))
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Json<Value>) {
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if token != Some(format!("Bearer {TOKEN}").as_str()) {
        return refused(401, "Unauthorized", "Unauthorized");
    }
    let fault = *shared.fault.borrow();
    match fault {
        Fault::None => {}
        Fault::Holding if !uri.path().contains("/resourceclaims/") => {}
        Fault::Away => return refused(503, "ServiceUnavailable", "etcd is away"),
        Fault::Forbidden => {
            return refused(403, "Forbidden", "resourceclaims is forbidden: User cannot get resource");
        }
        Fault::NotServed => {
            let mut answer = status(404, "NotFound", "the server could not find the requested resource");
            answer["details"] = serde_json::json!({});
            return (StatusCode::NOT_FOUND, Json(answer));
        }
        Fault::Holding => {
            shared.held.send_modify(|held| *held += 1);
            let _ = shared.fault.subscribe().wait_for(|fault| *fault != Fault::Holding).await;
            shared.held.send_modify(|held| *held -= 1);
        }
    }
    let path = uri.path();
    let dry = uri.query().is_some_and(|query| query.contains("dryRun=All"));
    let mut objects = shared.objects.lock().unwrap();
    let (code, answer) = match method {
        Method::GET => match objects.get(path) {
            Some(object) => (200, object),
            None => (404, not_found(path)),
        },
        Method::POST | Method::PUT => {
            let Ok(object) = serde_json::from_slice::<Value>(&body) else {
                return refused(400, "BadRequest", "the body is no JSON");
            };
            let create = method == Method::POST;
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let path = if create { format!("{path}/{name}") } else { path.to_owned() };
            objects.write(&path, object, create, dry)
        }
        _ => (405, status(405, "MethodNotAllowed", "not served here")),
    };
    (StatusCode::from_u16(code).unwrap(), Json(answer))
}
