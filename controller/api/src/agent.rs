//! AgentService: an agent's stream of desired state and observations, its uploads of logs, its new certificate.
//!
//! A node speaks for itself only: its name comes from its certificate, and what it says of itself must agree.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use controller_core::{CoreError, Event, Register};
use controller_leader::{Messages, Refusal, Session};
use proto_model::{NodeName, Timestamp};
use proto_rpc::{ErrorClass, Identity, PeerInfo, RpcError, Standing, ca::NODE_LIFETIME};
use proto_wire::{
    convert::{duration_to_wire, reported_inventory, reported_observation, reported_usage},
    v1::{self, agent_message::Body, agent_service_server::AgentService},
};
use tokio_stream::{
    Stream,
    wrappers::{ReceiverStream, WatchStream},
};
use tonic::{Request, Response, Status, Streaming};

use crate::{access, authz::Rpc, context::Context, enroll, fault, guard::Caller, logs, step, stream::first};

/// Observations of one registration.
const MAX_OBSERVATIONS: usize = 100_000;

/// The handlers of `AgentService`.
#[derive(Clone)]
pub struct Agents {
    context: Context,
}

impl Agents {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }
}

/// A certificate outlives its node. It must buy nothing then, least of all its own renewal.
fn deleted(node: &NodeName) -> RpcError {
    let text = format!("node '{node}' is not known: this node was deleted; to bring it back, join it anew");
    RpcError::new(ErrorClass::Denied, "NODE_NOT_FOUND", text)
}

fn register(node: &NodeName, wire: v1::Register) -> Result<Register, RpcError> {
    if wire.node != node.as_str() {
        let text = format!("the certificate is of node '{node}', but '{}' registers", wire.node);
        return Err(RpcError::new(ErrorClass::Denied, "FOREIGN_NODE", text));
    }
    if wire.observations.len() > MAX_OBSERVATIONS {
        return Err(fault::field(
            "register.observations",
            format!("has more than {MAX_OBSERVATIONS} entries"),
        ));
    }
    let inventory = reported_inventory(wire.inventory.unwrap_or_default());
    let inventory = inventory.map_err(|errors| fault::fields(errors, "register.inventory"))?;
    let observations = wire.observations.into_iter().map(reported_observation).collect::<Result<_, _>>();
    Ok(Register {
        node: node.clone(),
        session: 0,
        agent_version: wire.agent_version.chars().take(64).collect(),
        inventory: Arc::new(inventory),
        observations: observations.map_err(|errors| fault::fields(errors, "register.observations"))?,
        epoch: wire.epoch,
    })
}

/// What an agent said, as an event of its connection.
fn event(session: &Session, body: Body) -> Result<Event, RpcError> {
    let (node, number) = (session.node().clone(), session.number());
    Ok(match body {
        Body::Heartbeat(_) => Event::AgentHeartbeat { node, session: number },
        Body::Inventory(wire) => {
            let inventory = reported_inventory(wire).map_err(|errors| fault::fields(errors, "inventory"))?;
            Event::AgentInventory { node, session: number, inventory: Arc::new(inventory) }
        }
        Body::Observation(wire) => {
            let observation =
                reported_observation(wire).map_err(|errors| fault::fields(errors, "observation"))?;
            Event::AgentObserved { node, session: number, observation: Box::new(observation) }
        }
        Body::StaleEpoch(wire) => Event::AgentRefusedEpoch { node, current: wire.current },
        Body::Register(_) => {
            return Err(RpcError::new(
                ErrorClass::Invalid,
                "REGISTERED_TWICE",
                "this stream has registered already",
            ));
        }
    })
}

/// Carries what the agent says into the loop until its stream ends; answers why, if it broke the rules.
async fn listen(
    session: &Session,
    stream: &mut Streaming<v1::AgentMessage>,
    time: impl Fn() -> Timestamp,
) -> Result<(), RpcError> {
    while let Some(message) = stream.message().await.map_err(|status| RpcError::from_status(&status))? {
        let mut body = message.body.ok_or_else(|| fault::field("body", "is required"))?;
        if let Body::Heartbeat(v1::Heartbeat { usage }) = &mut body
            && let Some(usage) = usage.take()
        {
            let usage =
                reported_usage(usage, time()).map_err(|errors| fault::fields(errors, "heartbeat.usage"))?;
            session.report_usage(usage);
        }
        match event(session, body)? {
            beat @ Event::AgentHeartbeat { .. } => session.hint(beat),
            event => session.say(event).await.map_err(|refusal| fault::refused(&refusal))?,
        }
    }
    Ok(())
}

#[tonic::async_trait]
impl AgentService for Agents {
    type ConnectStream = Pin<Box<dyn Stream<Item = Result<v1::ControllerMessage, Status>> + Send>>;

    type AttachStepStream = Pin<Box<dyn Stream<Item = Result<v1::AttachStepResponse, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let caller = Caller::of(request.extensions())?;
        let node = caller.node()?;
        let mut stream = request.into_inner();
        let Some(Body::Register(wire)) = first(&mut stream).await?.body else {
            return Err(fault::field("body", "the first message must be `register`").into());
        };
        let register =
            register(&node, wire).map_err(|e| self.context.guard.note(Rpc::Connect, &caller, e))?;
        let connected = self.context.handle.connect(register).await;
        let mut session = connected.map_err(|refusal| match &refusal {
            Refusal::Core(CoreError::NodeNotFound { .. }) => {
                self.context.guard.note(Rpc::Connect, &caller, deleted(&node))
            }
            refusal => fault::refused(refusal),
        })?;
        let messages = session.messages().ok_or_else(crate::context::unexpected)?;
        tracing::info!(%node, session = session.number(), "agent connected");
        let (broken, breaks) = tokio::sync::oneshot::channel();
        let handle = self.context.handle.clone();
        tokio::spawn(async move {
            if let Err(error) = listen(&session, &mut stream, || handle.now()).await {
                tracing::info!(node = %session.node(), session = session.number(), %error, "agent's stream broke");
                // The agent may be gone already.
                let _ = broken.send(Status::from(error));
            }
            session.end().await;
        });
        // What breaks the rules ends the answer too, with the reason; so does the end of the session's queue.
        let authority = News::of(&self.context);
        Ok(Response::new(Box::pin(UntilBroken {
            out: messages,
            breaks: Some(breaks),
            authority,
            ended: false,
        })))
    }

    async fn upload_logs(
        &self,
        request: Request<Streaming<v1::UploadLogsRequest>>,
    ) -> Result<Response<v1::UploadLogsResponse>, Status> {
        let node = Caller::of(request.extensions())?.node()?;
        let mut stream = request.into_inner();
        let mut message = first(&mut stream).await?;
        let chunks = self.context.handle.logs().answer(&message.stream_id, &node).ok_or_else(|| {
            let text = "nobody (any more) waits for this upload";
            RpcError::new(ErrorClass::NotFound, "NO_SUCH_STREAM", text)
        })?;
        loop {
            if let Some(chunk) = message.chunk
                && chunks.send(chunk).await.is_err()
            {
                // The reader went away.
                return Ok(Response::new(v1::UploadLogsResponse {}));
            }
            let next = tokio::select! {
                next = stream.message() => next,
                () = chunks.closed() => return Ok(Response::new(v1::UploadLogsResponse {})),
            };
            message = match next {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(Response::new(v1::UploadLogsResponse {})),
                Err(status) => {
                    let text = format!("node {node}: the upload broke off; some output may be missing here");
                    // The reader may have gone away.
                    let _ = chunks.send(logs::note(text)).await;
                    return Err(status);
                }
            };
        }
    }

    async fn attach_step(
        &self,
        request: Request<Streaming<v1::AttachStepRequest>>,
    ) -> Result<Response<Self::AttachStepStream>, Status> {
        let node = Caller::of(request.extensions())?.node()?;
        let mut stream = request.into_inner();
        let message = first(&mut stream).await?;
        let part = self.context.handle.steps().answer(&message.stream_id, &node).ok_or_else(|| {
            let text = "nobody (any more) waits for this step";
            RpcError::new(ErrorClass::NotFound, "NO_SUCH_STREAM", text)
        })?;
        let (ended, over) = tokio::sync::oneshot::channel::<()>();
        tokio::spawn(async move {
            step::attend(node, stream, part.events).await;
            drop(ended);
        });
        // Input goes on until the caller is gone or the agent has said all that it had to say.
        Ok(Response::new(Box::pin(UntilOver { orders: ReceiverStream::new(part.orders), over })))
    }

    async fn renew_certificate(
        &self,
        request: Request<v1::RenewCertificateRequest>,
    ) -> Result<Response<v1::JoinResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let node = caller.node()?;
        // Read before it is decided: what is revoked meanwhile was issued before.
        let now = SystemTime::now();
        let shown = request.extensions().get::<PeerInfo>().and_then(|peer| peer.certificate.as_ref());
        let shown = shown.map_or(SystemTime::UNIX_EPOCH, |certificate| certificate.issued);
        let refused = match self.context.handle.may_renew(&node, shown).await {
            Err(refusal) => return Err(fault::refused(&refusal).into()),
            Ok(None) => Some(deleted(&node)),
            Ok(Some(false)) => Some(access::refusal(&caller.identity)),
            Ok(Some(true)) => None,
        };
        if let Some(refused) = refused {
            return Err(self.context.guard.note(Rpc::RenewCertificate, &caller, refused).into());
        }
        let csr = request.into_inner().csr_pem;
        let identity = Identity::node(node.as_str())
            .map_err(|error| RpcError::new(ErrorClass::Denied, "NOT_A_NODE", error.to_string()))?;
        let issued = self.context.ca.issue(&csr, &identity, NODE_LIFETIME, now);
        let issued = issued.map_err(|error| fault::ca(&error))?;
        let name = format!("{identity}, serial {}", issued.serial);
        let noted = self.context.handle.note(&caller.actor, "certificate", name, "").await;
        noted.map_err(|refusal| fault::refused(&refusal))?;
        tracing::info!(%node, serial = issued.serial, "node certificate renewed");
        Ok(Response::new(enroll::join_response(&self.context, &issued)))
    }
}

/// What goes to an agent of a step, until all of that is sent or the agent's side is over.
struct UntilOver {
    orders: ReceiverStream<v1::AttachStepResponse>,
    over: tokio::sync::oneshot::Receiver<()>,
}

impl Stream for UntilOver {
    type Item = Result<v1::AttachStepResponse, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        match Pin::new(&mut self.orders).poll_next(context) {
            std::task::Poll::Pending => Pin::new(&mut self.over).poll(context).map(|_| None),
            ready => ready.map(|order| order.map(Ok)),
        }
    }
}

/// The session's messages, until the agent breaks the rules or the session ends.
struct UntilBroken {
    out: Messages,
    /// `None` once nothing can come of it any more.
    breaks: Option<tokio::sync::oneshot::Receiver<Status>>,
    authority: News,
    ended: bool,
}

/// What the agent is sent about the cluster's authority: as it is, once it was welcomed, and whenever it changes.
struct News {
    changes: WatchStream<Arc<Standing>>,
    epoch: u64,
    within: Duration,
    welcomed: bool,
}

impl News {
    fn of(context: &Context) -> Self {
        let (changes, epoch) = (WatchStream::new(context.ca.changes()), context.handle.epoch());
        Self { changes, epoch, within: context.ca.renew_within(), welcomed: false }
    }

    fn poll(&mut self, context: &mut std::task::Context<'_>) -> Option<v1::ControllerMessage> {
        if !self.welcomed {
            return None;
        }
        let std::task::Poll::Ready(Some(standing)) = Pin::new(&mut self.changes).poll_next(context) else {
            return None;
        };
        let authority = v1::Authority {
            issuing_pin: standing.issuing().pin().to_string(),
            trusted_pins: standing.pins().iter().map(ToString::to_string).collect(),
            renew_within: Some(duration_to_wire(self.within)),
        };
        let body = Some(v1::controller_message::Body::Authority(authority));
        Some(v1::ControllerMessage { epoch: self.epoch, body })
    }
}

impl Stream for UntilBroken {
    type Item = Result<v1::ControllerMessage, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        use std::task::Poll;
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(breaks) = &mut self.breaks
            && let Poll::Ready(broken) = Pin::new(breaks).poll(context)
        {
            self.breaks = None;
            if let Ok(broken) = broken {
                self.ended = true;
                return Poll::Ready(Some(Err(broken)));
            }
        }
        if let Some(news) = self.authority.poll(context) {
            return Poll::Ready(Some(Ok(news)));
        }
        let next = self.out.poll_recv(context).map(|message| message.map(|message| Ok(*message)));
        if !self.authority.welcomed && matches!(next, Poll::Ready(Some(_))) {
            // What is to follow the welcome is looked at when the stream is polled again, which it is.
            self.authority.welcomed = true;
        }
        self.ended = matches!(next, Poll::Ready(None));
        next
    }
}
