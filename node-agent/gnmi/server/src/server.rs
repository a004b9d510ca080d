//! The calls.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use node_agent_gnmi::wire::g_nmi_server::GNmi;
use node_agent_gnmi::wire::{self, subscribe_response::Response as Content, typed_value::Value as Wire};
use serde_json::Value as Json;
use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use crate::database::{Database, names};

/// What is wrong with the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Never answers.
    Silent,
    /// Answers a Get with JSON that ends in the middle.
    HalfJson,
    /// Answers a Get with more than anybody wants to read.
    Huge,
    /// Takes no changes.
    ReadOnly,
    /// Takes no changes of this caller, which SONiC's server has no code for: it says `UNKNOWN` of this, too.
    NoRole,
    /// Refuses the change after it has looked at it.
    Invalid,
    /// Makes the change, and its answer is lost.
    AnswerLost,
    /// As that, but once.
    AnswerLostOnce,
    /// Makes the first step of a change, says of the rest what SONiC's server says of everything, `UNKNOWN`, and takes no changes any more.
    Half,
    /// Makes changes, and says that they cannot be saved.
    Unsaved,
    /// Takes so long for a change.
    Slow(Duration),
    /// Wants a name and a password.
    Login,
    /// Says nothing more once everything was content.
    Mute,
}

/// Makes a patch, and says what the switch is set to then, or why not.
pub type Updater = Box<dyn Fn(&Json) -> Result<Json, String> + Send + Sync>;

/// What it has, and what it was asked.
pub struct State {
    /// What is wrong with it.
    pub fault: Mutex<Fault>,
    /// The settings; changes are content to who follows.
    pub config: watch::Sender<Database>,
    /// What other databases answer, by target and path, as `APPL_DB/PORT_TABLE`.
    pub others: Mutex<BTreeMap<String, Json>>,
    /// Who makes a patch, where it is not made here.
    pub updater: Option<Updater>,
    /// Changes that were made.
    pub changes: AtomicU32,
    /// Held while one is made.
    pub changing: tokio::sync::Mutex<()>,
    /// Ends every stream, as a reboot does.
    pub reboot: watch::Sender<u32>,
    /// Intervals that were asked for, in nanoseconds, and databases.
    pub asked: Mutex<Vec<(String, u64, u64)>>,
}

/// Its gNMI server.
pub struct Door(pub Arc<State>);

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
        let request = request.into_inner();
        if request.r#type != i32::from(wire::get_request::DataType::All) {
            return Err(Status::unimplemented("unsupported request type"));
        }
        let target = request.prefix.clone().unwrap_or_default().target;
        let mut answers = Vec::new();
        for path in request.path {
            let place: Vec<&str> = path.elem.iter().map(|elem| elem.name.as_str()).collect();
            let mut text = if target.is_empty() && place.first() == Some(&"CONFIG_DB") {
                self.0.config.borrow().at(&names(&path)?).to_string()
            } else {
                let place = [target.as_str()].into_iter().chain(place).filter(|part| !part.is_empty());
                let place = place.collect::<Vec<_>>().join("/");
                let others = self.0.others.lock().unwrap();
                match others.get(&place) {
                    Some(answer) => answer.to_string(),
                    // A table of a database that is not there is empty; whatever else is not there is an error.
                    None if target == "APPL_DB" => "{}".to_owned(),
                    None => return Err(Status::not_found(place)),
                }
            };
            match fault {
                Fault::HalfJson => text.truncate(text.len() / 2),
                Fault::Huge => text = format!("\"{}\"", "x".repeat(3_000_000)),
                _ => {}
            }
            let update = vec![update(path, Wire::JsonIetfVal(text.into_bytes()))];
            answers.push(wire::Notification { prefix: request.prefix.clone(), update, ..Default::default() });
        }
        Ok(Response::new(wire::GetResponse { notification: answers }))
    }

    async fn set(&self, request: Request<wire::SetRequest>) -> Result<Response<wire::SetResponse>, Status> {
        let fault = self.fault().await;
        match fault {
            Fault::ReadOnly => return Err(Status::unimplemented("GNMI is in read-only mode")),
            Fault::NoRole => return Err(Status::unknown("gnmi does not have write access")),
            Fault::Invalid => return Err(Status::failed_precondition("pfc_enable: 9 is no priority")),
            _ => {}
        }
        let (state, request) = (Arc::clone(&self.0), request.into_inner());
        // A change is made also where nobody waits for it any more.
        let made = tokio::spawn(async move {
            let _one = state.changing.lock().await;
            if let Fault::Slow(delay) = fault {
                tokio::time::sleep(delay).await;
            }
            let before = state.config.borrow().clone();
            let patch = before.patch(&request)?;
            let next = match &state.updater {
                None if fault == Fault::Half => {
                    let first =
                        Json::Array(patch.as_array().into_iter().flatten().take(1).cloned().collect());
                    state.config.send_replace(before.patched(&first)?);
                    *state.fault.lock().unwrap() = Fault::ReadOnly;
                    return Err(Status::unknown("the updater has stopped"));
                }
                None => before.patched(&patch)?,
                Some(update) => Database(update(&patch).map_err(Status::invalid_argument)?),
            };
            state.config.send_replace(next);
            state.changes.fetch_add(1, Ordering::SeqCst);
            if fault == Fault::Unsaved {
                return Err(Status::unknown("the configuration cannot be saved"));
            }
            Ok::<_, Status>(())
        });
        made.await.map_err(|error| Status::internal(error.to_string()))??;
        if fault == Fault::AnswerLostOnce {
            *self.0.fault.lock().unwrap() = Fault::None;
        }
        if matches!(fault, Fault::AnswerLost | Fault::AnswerLostOnce) {
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
                let value = config.borrow_and_update().0.to_string();
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
