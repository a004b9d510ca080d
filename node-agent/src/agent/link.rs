//! The stream to the controller: opened again for ever, heartbeats, commands in, messages out.

use std::{sync::Arc, time::Duration};

use node_agent_core::{Command, Event, Key};
use proto_model::{Assignment, DesiredQos, RailProof};
use proto_rpc::{Client, Jitter, REVOKED, RetryPolicy, RpcError};
use proto_wire::v1::{self, agent_message, agent_service_client::AgentServiceClient, controller_message};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::agent::{identity, notifications::Counted, setup::Setup, steps::Attached, upload, usage};

/// Messages that wait for the controller; more than that is a controller that does not read, and the stream is ended.
pub const OUTGOING: usize = 1024;
/// Until the controller says otherwise.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// What a controller may ask for.
const HEARTBEATS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(300);
/// Readers of logs at once.
const UPLOADS: usize = 32;
/// Bytes of one message of the controller, whom the certificate proves: a large gang's placement with all its endpoints,
/// and a welcome with many of them.
const DESIRED_MAX: usize = 64 << 20;
/// A stream that the controller does not answer after this long is given up.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// A stream's way out.
#[derive(Debug)]
pub struct Outgoing {
    /// Messages go here, the registration first.
    pub sender: mpsc::Sender<v1::AgentMessage>,
    /// Ends the stream when it is cancelled.
    pub hang_up: CancellationToken,
}

/// What the link reports to the agent.
#[derive(Debug)]
pub enum LinkEvent {
    /// A stream was opened.
    Up(Outgoing),
    /// The stream has ended; the link tries to open another one.
    Down,
    /// The controller has sent a message.
    Core(Event),
}

/// Keeps a stream open, for ever. `notifications` are part of what heartbeats say, where somebody counts them.
pub async fn keep(
    setup: Arc<Setup>,
    client: Client,
    notifications: Option<watch::Receiver<Counted>>,
    events: mpsc::Sender<LinkEvent>,
) {
    let policy = RetryPolicy::default();
    let mut jitter = Jitter::from_os();
    let mut failures = 0_u32;
    let (sender, mut used) = watch::channel(None);
    // Ends with this.
    let mut sampling = JoinSet::new();
    sampling.spawn(usage::sample(setup.data.clone(), notifications, sender));
    loop {
        let begun = Instant::now();
        // Another controller has not received it.
        used.mark_changed();
        let result = stream(&setup, &client, &events, &mut used).await;
        setup.metrics.connected.set([], 0);
        if events.send(LinkEvent::Down).await.is_err() {
            return;
        }
        let held = begun.elapsed() > OPEN_LIMIT;
        failures = if held { 1 } else { failures.saturating_add(1) };
        let ceiling = policy.backoff_ceiling(failures);
        let wait = ceiling / 2 + jitter.up_to(ceiling / 2);
        // A stream ends also when the certificate with which it was opened is revoked, and a newer one is here; that one
        // is refused only where the stream cannot be opened again.
        let reason = result.as_ref().err().map(|status| RpcError::from_status(status).reason);
        if failures > 1 && reason.as_deref() == Some(REVOKED) {
            identity::set_aside(&setup);
        }
        match result {
            Ok(()) => tracing::info!(?wait, "the controller ended the stream; connecting again, jobs go on"),
            // The 1st, 2nd, 4th, 8th ... in a row: a controller that is away for a day fills no disk.
            Err(status) if failures.is_power_of_two() => {
                let error = RpcError::from_status(&status);
                tracing::warn!(%error, failures, "no stream to the controller; trying again, jobs go on");
            }
            Err(_) => {}
        }
        tokio::time::sleep(wait).await;
    }
}

async fn stream(
    setup: &Arc<Setup>,
    client: &Client,
    events: &mpsc::Sender<LinkEvent>,
    used: &mut watch::Receiver<Option<v1::ServerUsage>>,
) -> Result<(), tonic::Status> {
    let (sender, receiver) = mpsc::channel(OUTGOING);
    let gone = |_| tonic::Status::cancelled("the agent is ending");
    // Before the call: the controller may answer only when it has been spoken to.
    let hang_up = CancellationToken::new();
    let outgoing = Outgoing { sender: sender.clone(), hang_up: hang_up.clone() };
    events.send(LinkEvent::Up(outgoing)).await.map_err(gone)?;
    let mut agent = AgentServiceClient::new(client.without_timeout()).max_decoding_message_size(DESIRED_MAX);
    let call = agent.connect(ReceiverStream::new(receiver));
    let late = |_| tonic::Status::unavailable("the controller did not answer the stream in time");
    let mut incoming = tokio::time::timeout(OPEN_LIMIT, call).await.map_err(late)??.into_inner();
    setup.metrics.connects.inc([]);
    setup.metrics.connected.set([], 1);
    tracing::info!("connected to the controller");
    let mut interval = HEARTBEAT;
    let mut beat = Instant::now() + interval;
    let mut uploads = JoinSet::new();
    let mut steps = Attached::default();
    loop {
        tokio::select! {
            message = incoming.message() => {
                let Some(message) = message? else { return Ok(()) };
                if let Some(asked) = heartbeat_of(&message) {
                    interval = asked;
                    beat = Instant::now() + interval;
                }
                if let Some(controller_message::Body::Authority(authority)) = message.body {
                    setup.authority.send_replace(Some(authority));
                } else if let Some(controller_message::Body::OpenLogs(ask)) = message.body {
                    setup.metrics.commands.inc(["logs"]);
                    while uploads.try_join_next().is_some() {}
                    if uploads.len() < UPLOADS {
                        uploads.spawn(upload::upload(Arc::clone(setup), client.clone(), ask));
                    } else {
                        tracing::warn!("too many readers of logs at once; one was not served");
                    }
                } else if let Some(controller_message::Body::OpenStep(ask)) = message.body {
                    steps.begin(setup, client.clone(), ask);
                } else {
                    for event in commands(setup, message) {
                        events.send(LinkEvent::Core(event)).await.map_err(gone)?;
                    }
                }
            }
            () = tokio::time::sleep_until(beat) => {
                beat = Instant::now() + interval;
                let usage = if used.has_changed().unwrap_or(false) { used.borrow_and_update().clone() } else { None };
                let body = Some(agent_message::Body::Heartbeat(v1::Heartbeat { usage }));
                if sender.try_send(v1::AgentMessage { body }).is_err() {
                    return Err(tonic::Status::resource_exhausted("the controller does not read"));
                }
            }
            () = hang_up.cancelled() => {
                return Err(tonic::Status::resource_exhausted("the controller does not read, or cannot be obeyed"));
            }
            () = sender.closed() => return Err(tonic::Status::unavailable("the stream to the controller broke")),
        }
    }
}

fn heartbeat_of(message: &v1::ControllerMessage) -> Option<Duration> {
    let Some(controller_message::Body::Welcome(welcome)) = &message.body else { return None };
    let asked = proto_wire::convert::duration_from_wire(welcome.heartbeat_interval?).ok()?;
    (!asked.is_zero()).then(|| asked.clamp(*HEARTBEATS.start(), *HEARTBEATS.end()))
}

/// What a message commands, in order. A welcome says first which rails are drained, so that what begins by it begins
/// with the right ones; the desired state of class of service comes after the drains that it needs, and probes come last.
fn commands(setup: &Setup, message: v1::ControllerMessage) -> Vec<Event> {
    let epoch = message.epoch;
    let (welcome, drained) = match &message.body {
        Some(controller_message::Body::Welcome(welcome)) => (true, welcome.drained.as_ref()),
        Some(controller_message::Body::Drained(drained)) => (false, Some(drained)),
        _ => (false, None),
    };
    let qos = drained.and_then(|drained| drained.qos.clone()).and_then(qos_desired);
    let proofs = drained.map(|drained| proofs(drained.proofs.clone()));
    let rails = drained.filter(|_| welcome).map(|drained| drained.rails.iter().copied().collect());
    let first = rails.map(|rails| Event::Command { epoch, command: Command::Drained(rails) });
    // A welcome that is refused says nothing.
    let Some(event) = command(setup, message) else { return Vec::new() };
    let qos = qos.map(|desired| Event::Command { epoch, command: Command::Qos(Arc::new(desired)) });
    let proofs = proofs.filter(|proofs| !proofs.is_empty());
    let proofs = proofs.map(|proofs| Event::Command { epoch, command: Command::Prove(proofs) });
    first.into_iter().chain([event]).chain(qos).chain(proofs).collect()
}

fn proofs(wire: Vec<v1::RailProof>) -> Vec<RailProof> {
    let proofs = proto_wire::convert::proofs_from_wire(wire);
    let refused = |error: &_| tracing::error!(%error, "probes of rails are not understood and refused");
    proofs.inspect_err(refused).unwrap_or_default()
}

fn qos_desired(wire: v1::DesiredQos) -> Option<DesiredQos> {
    let desired = DesiredQos::try_from(wire);
    desired.inspect_err(
        |error| tracing::error!(%error, "desired state for class of service is not understood and refused"),
    )
    .ok()
}

/// A command in types of the model. One that is not understood is refused whole, and said: an agent that is older than
/// its controller must not guess.
fn command(setup: &Setup, message: v1::ControllerMessage) -> Option<Event> {
    let epoch = message.epoch;
    let refused =
        |what: &str, error: String| tracing::error!(what, error, "a command is not understood and refused");
    let (name, command) = match message.body? {
        controller_message::Body::Welcome(welcome) => {
            let mut desired = Vec::new();
            for wire in welcome.assignments {
                match Assignment::try_from(wire) {
                    Ok(assignment) => desired.push(assignment),
                    Err(error) => {
                        // A list with a hole would stop a job that should run.
                        refused("welcome", error.to_string());
                        return None;
                    }
                }
            }
            ("welcome", Command::Welcome(desired))
        }
        controller_message::Body::Assignment(wire) => match Assignment::try_from(wire) {
            Ok(assignment) => ("assignment", Command::Assignment(Box::new(assignment))),
            Err(error) => {
                refused("assignment", error.to_string());
                return None;
            }
        },
        controller_message::Body::Forget(forget) => match forget.job_uid.parse() {
            Ok(uid) => ("forget", Command::Forget(Key { uid, attempt: forget.attempt })),
            Err(error) => {
                refused("forget", error.to_string());
                return None;
            }
        },
        controller_message::Body::Drained(drained) => {
            ("drained", Command::Drained(drained.rails.into_iter().collect()))
        }
        controller_message::Body::OpenLogs(_)
        | controller_message::Body::OpenStep(_)
        | controller_message::Body::Authority(_) => return None,
    };
    setup.metrics.commands.inc([name]);
    Some(Event::Command { epoch, command })
}
