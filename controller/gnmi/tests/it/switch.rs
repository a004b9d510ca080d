//! A switch: gNMI over TLS before a database of settings, changed as SONiC's server does it, with faults on demand.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use controller_gnmi::wire::g_nmi_server::{GNmi, GNmiServer};
use controller_gnmi::wire::{self, subscribe_response::Response as Content, typed_value::Value as Wire};
use controller_gnmi::{Gnmi, Limits, Target};
use proto_rpc::ca::{CA_LIFETIME, LEAF_LIFETIME};
use proto_rpc::deadline::DeadlinePolicy;
use proto_rpc::router::{CallLayers, merge};
use proto_rpc::server::{ServerMetrics, ServerTls};
use proto_rpc::tls::Trust;
use proto_rpc::{
    Ca, CertificateSlot, Credentials, Endpoint, Identity, KeyRequest, Listen, Metrics, Revocations, Server,
    TrustSlot,
};
use serde_json::{Value as Json, json};
use tokio::sync::watch;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

/// What is wrong with the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Never answers.
    Silent,
    /// Answers a Get with JSON that ends in the middle.
    HalfJson,
    /// Answers a Get with more than anybody wants to read.
    Huge,
    /// Takes no changes.
    ReadOnly,
    /// Refuses the change after it has looked at it.
    Invalid,
    /// Makes the change, and its answer is lost.
    AnswerLost,
    /// Wants a name and a password.
    Login,
    /// Says nothing more once everything was content.
    Mute,
}

pub struct State {
    pub fault: Mutex<Fault>,
    /// The settings; changes are content to who follows.
    pub config: watch::Sender<Json>,
    /// Ends every stream, as a reboot does.
    pub reboot: watch::Sender<u32>,
    /// Intervals that were asked for, in nanoseconds, and databases.
    pub asked: Mutex<Vec<(String, u64, u64)>>,
}

struct Door(Arc<State>);

type Stream_ = Pin<Box<dyn Stream<Item = Result<wire::SubscribeResponse, Status>> + Send>>;

fn update(path: wire::Path, value: Wire) -> wire::Update {
    wire::Update { path: Some(path), val: Some(wire::TypedValue { value: Some(value) }), duplicates: 0 }
}

impl Door {
    async fn fault(&self) -> Fault {
        let fault = *self.0.fault.lock().unwrap();
        if fault == Fault::Silent {
            std::future::pending::<()>().await;
        }
        fault
    }
}

/// The place in the tree, by names of elements after `CONFIG_DB/localhost`.
fn place<'a>(tree: &'a mut Json, names: &[String]) -> &'a mut Json {
    names.iter().fold(tree, |tree, name| {
        let name = name.replace("~1", "/").replace("~0", "~");
        tree.as_object_mut().unwrap().entry(name).or_insert(json!({}))
    })
}

fn names(path: &wire::Path) -> Result<Vec<String>, Status> {
    let names: Vec<String> = path.elem.iter().map(|elem| elem.name.clone()).collect();
    match names.as_slice() {
        [db, host, rest @ ..] if path.origin == "sonic-db" && db == "CONFIG_DB" && host == "localhost" => {
            Ok(rest.to_vec())
        }
        _ => Err(Status::not_found(format!("{}:{}", path.origin, names.join("/")))),
    }
}

#[tonic::async_trait]
impl GNmi for Door {
    async fn capabilities(
        &self,
        request: Request<wire::CapabilityRequest>,
    ) -> Result<Response<wire::CapabilityResponse>, Status> {
        if self.fault().await == Fault::Login {
            let header = |name| request.metadata().get(name).and_then(|value| value.to_str().ok());
            if (header("username"), header("password")) != (Some("admin"), Some("secret")) {
                return Err(Status::unauthenticated("who are you"));
            }
        }
        let model =
            |name: &str| wire::ModelData { name: name.into(), version: "1.0".into(), ..Default::default() };
        Ok(Response::new(wire::CapabilityResponse {
            supported_models: vec![model("sonic-port"), model("openconfig-interfaces")],
            supported_encodings: vec![wire::Encoding::Json.into(), wire::Encoding::JsonIetf.into()],
            g_nmi_version: "0.7.0".into(),
        }))
    }

    async fn get(&self, request: Request<wire::GetRequest>) -> Result<Response<wire::GetResponse>, Status> {
        let fault = self.fault().await;
        let mut answers = Vec::new();
        for path in request.into_inner().path {
            let names = names(&path)?;
            let mut config = self.0.config.borrow().clone();
            let mut text = place(&mut config, &names).to_string();
            match fault {
                Fault::HalfJson => text.truncate(text.len() / 2),
                Fault::Huge => text = format!("\"{}\"", "x".repeat(3_000_000)),
                _ => {}
            }
            let update = vec![update(path, Wire::JsonIetfVal(text.into_bytes()))];
            answers.push(wire::Notification { update, ..Default::default() });
        }
        Ok(Response::new(wire::GetResponse { notification: answers }))
    }

    async fn set(&self, request: Request<wire::SetRequest>) -> Result<Response<wire::SetResponse>, Status> {
        let fault = self.fault().await;
        match fault {
            Fault::ReadOnly => return Err(Status::unimplemented("GNMI is in read-only mode")),
            Fault::Invalid => return Err(Status::failed_precondition("pfc_enable: 9 is no priority")),
            _ => {}
        }
        let request = request.into_inner();
        let mut config = self.0.config.borrow().clone();
        for path in &request.delete {
            let names = names(path)?;
            let (last, above) = names.split_last().ok_or(Status::invalid_argument("all of it"))?;
            place(&mut config, above).as_object_mut().unwrap().remove(last);
        }
        for change in request.replace.into_iter().chain(request.update) {
            let names = names(change.path.as_ref().unwrap())?;
            let Some(Wire::JsonIetfVal(bytes)) = change.val.and_then(|value| value.value) else {
                return Err(Status::invalid_argument("Value encoding is not IETF JSON"));
            };
            *place(&mut config, &names) = serde_json::from_slice(&bytes).unwrap();
        }
        self.0.config.send_replace(config);
        if fault == Fault::AnswerLost {
            return Err(Status::unavailable("connection reset"));
        }
        Ok(Response::new(wire::SetResponse::default()))
    }

    type SubscribeStream = Stream_;

    async fn subscribe(
        &self,
        request: Request<Streaming<wire::SubscribeRequest>>,
    ) -> Result<Response<Stream_>, Status> {
        let fault = self.fault().await;
        let mut requests = request.into_inner();
        let first = requests.message().await?.and_then(|message| message.request);
        let Some(wire::subscribe_request::Request::Subscribe(list)) = first else {
            return Err(Status::invalid_argument("no subscription"));
        };
        let one = list.subscription[0].clone();
        let target = list.prefix.unwrap_or_default().target;
        self.0.asked.lock().unwrap().push((target, one.sample_interval, one.heartbeat_interval));
        let (mut config, mut reboot) = (self.0.config.subscribe(), self.0.reboot.subscribe());
        let (send, receive) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            let path = one.path.unwrap();
            let mut synced = false;
            loop {
                let value = config.borrow_and_update().to_string();
                let update = vec![update(path.clone(), Wire::JsonIetfVal(value.into_bytes()))];
                let content =
                    Content::Update(wire::Notification { timestamp: 7, update, ..Default::default() });
                let sync = (!synced).then_some(Content::SyncResponse(true));
                synced = true;
                for response in std::iter::once(content).chain(sync) {
                    if send.send(Ok(wire::SubscribeResponse { response: Some(response) })).await.is_err() {
                        return;
                    }
                }
                if fault == Fault::Mute {
                    return send.closed().await;
                }
                tokio::select! {
                    _ = config.changed() => {}
                    _ = reboot.changed() => return,
                    () = send.closed() => return,
                }
            }
        });
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(receive))))
    }
}

/// A switch that runs, and what is needed to reach it.
pub struct Switch {
    pub state: Arc<State>,
    pub endpoint: Endpoint,
    pub ca: Ca,
    stop: CancellationToken,
}

impl Switch {
    /// A switch with these settings, and with a certificate for `name`.
    pub async fn start(config: Json, name: &str) -> Self {
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
            config: watch::Sender::new(config),
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

    pub fn break_by(&self, fault: Fault) {
        *self.state.fault.lock().unwrap() = fault;
    }

    /// Trusts the authority of this switch, and shows a certificate of `issuer`.
    pub fn credentials(&self, issuer: &Ca) -> Credentials {
        let request = KeyRequest::generate().unwrap();
        let identity = Identity::node("n0").unwrap();
        let issued = issuer.issue(&request.csr_pem, &identity, LEAF_LIFETIME, SystemTime::now()).unwrap();
        let slot = CertificateSlot::new(&issued.chain_pem, &request.key_pem).unwrap();
        Credentials::new(Trust::Ca(self.ca.certificate_pem().to_owned())).with_certificate(slot)
    }

    pub fn target(&self) -> Target {
        let credentials = Some(self.credentials(&self.ca));
        Target { endpoint: self.endpoint.clone(), credentials, login: None }
    }

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
