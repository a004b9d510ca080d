//! The switch: its server, its authority, and who may call it.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use node_agent_gnmi::wire::g_nmi_server::GNmiServer;
use node_agent_gnmi::{Gnmi, Limits, Target};
use proto_rpc::ca::{CA_LIFETIME, LEAF_LIFETIME};
use proto_rpc::deadline::DeadlinePolicy;
use proto_rpc::router::{CallLayers, merge};
use proto_rpc::server::{ServerMetrics, ServerTls};
use proto_rpc::tls::Trust;
use proto_rpc::{
    Ca, CertificateSlot, Credentials, Endpoint, Identity, KeyRequest, Listen, Metrics, Revocations, Server,
    TrustSlot,
};
use serde_json::Value as Json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::database::Database;
use crate::server::{Door, Fault, State, Updater};

/// A switch that runs, and what is needed to reach it.
pub struct Switch {
    /// Its databases, and what it was asked.
    pub state: Arc<State>,
    /// Its server.
    pub endpoint: Endpoint,
    /// Whom it trusts, and who has signed its certificate.
    pub ca: Ca,
    stop: CancellationToken,
}

impl Switch {
    /// A switch with these settings, and with a certificate for `name`.
    pub async fn start(config: Json, name: &str) -> Self {
        Self::start_with(config, name, None).await
    }

    /// The same, of which somebody else makes the changes.
    pub async fn start_with(config: Json, name: &str, updater: Option<Updater>) -> Self {
        let now = SystemTime::now();
        let ca = Ca::create("test", now, CA_LIFETIME).unwrap();
        let leaf = ca.issue_server(&[name.to_owned()], LEAF_LIFETIME, now).unwrap();
        let tls = ServerTls {
            trust: TrustSlot::new(ca.certificate_pem()).unwrap(),
            cluster: "test".to_owned(),
            slot: CertificateSlot::new(&leaf.issued.chain_pem, &leaf.key_pem).unwrap(),
            revocations: Revocations::default(),
        };
        let registry = Metrics::new("test", "0", now);
        let listen = [Listen::Tcp("127.0.0.1:0".parse().unwrap())];
        let metrics = ServerMetrics::new(&registry);
        let limits = proto_rpc::Limits { drain: Duration::from_secs(1), ..Default::default() };
        let server = Server::bind(&listen, &tls, limits, metrics).await.unwrap();
        let Listen::Tcp(address) = server.addresses().unwrap()[0].clone() else {
            panic!("TCP was asked for")
        };
        let state = Arc::new(State {
            fault: Mutex::new(Fault::None),
            config: watch::Sender::new(Database(config)),
            others: Mutex::default(),
            updater,
            changes: AtomicU32::new(0),
            changing: tokio::sync::Mutex::default(),
            reboot: watch::Sender::new(0),
            asked: Mutex::default(),
        });
        let door = GNmiServer::new(Door(Arc::clone(&state))).max_decoding_message_size(1 << 20);
        let layers = CallLayers::new(&registry, DeadlinePolicy::default());
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(merge(Routes::new(door), Router::new(), &layers), stop.clone()));
        let endpoint = Endpoint::Tcp { host: address.ip().to_string(), port: address.port() };
        Switch { state, endpoint, ca, stop }
    }

    /// What is wrong with it from now on.
    pub fn break_by(&self, fault: Fault) {
        *self.state.fault.lock().unwrap() = fault;
    }

    /// A certificate and its key, of `issuer`.
    fn caller(issuer: &Ca) -> (String, String) {
        let request = KeyRequest::generate().unwrap();
        let identity = Identity::node("n0").unwrap();
        let issued = issuer.issue(&request.csr_pem, &identity, LEAF_LIFETIME, SystemTime::now()).unwrap();
        (issued.chain_pem, request.key_pem)
    }

    /// Trusts the authority of this switch, and shows a certificate of `issuer`.
    pub fn credentials(&self, issuer: &Ca) -> Credentials {
        let (chain, key) = Self::caller(issuer);
        let slot = CertificateSlot::new(&chain, &key).unwrap();
        Credentials::new(Trust::Ca(self.ca.certificate_pem().to_owned())).with_certificate(slot)
    }

    /// Writes `ca.pem`, `client.pem` and `client.key`, with which this switch can be called.
    pub fn write_credentials(&self, folder: &Path) {
        let (chain, key) = Self::caller(&self.ca);
        fs::create_dir_all(folder).unwrap();
        for (name, text) in
            [("ca.pem", self.ca.certificate_pem()), ("client.pem", &chain), ("client.key", &key)]
        {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    /// HOST:PORT of its server.
    pub fn address(&self) -> String {
        match &self.endpoint {
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
            Endpoint::Unix { .. } => panic!("TCP was asked for"),
        }
    }

    /// What it is set to.
    pub fn config(&self) -> Json {
        self.state.config.borrow().0.clone()
    }

    /// How many changes it has made.
    pub fn changes(&self) -> u32 {
        self.state.changes.load(Ordering::SeqCst)
    }

    /// What another database answers, by target and path, as `APPL_DB/PORT_TABLE`.
    pub fn answer(&self, place: &str, answer: Json) {
        self.state.others.lock().unwrap().insert(place.to_owned(), answer);
    }

    /// Where it is, and who calls.
    pub fn target(&self) -> Target {
        let credentials = Some(self.credentials(&self.ca));
        Target { endpoint: self.endpoint.clone(), credentials, login: None }
    }

    /// A client of it.
    pub fn client(&self) -> Gnmi {
        Gnmi::new(self.target(), limits()).unwrap()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Short enough to see a switch that does not answer, long enough for a machine under load.
pub fn limits() -> Limits {
    Limits {
        connect: Duration::from_secs(10),
        read: Duration::from_secs(10),
        write: Duration::from_secs(10),
        message_bytes: 1 << 20,
    }
}
