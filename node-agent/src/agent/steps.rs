//! Steps: answers OpenStep by a stream of its own, and carries frames between the controller and the job's supervisor. It keeps nothing
//! and decides nothing: both sides are read only as fast as the other one takes, and the end of either is the end of both.

use std::{io::ErrorKind, sync::Arc, time::Duration};

use node_agent_attempt::{
    layout::JobDir,
    step_frames::{self, FRAME_MAX, LENGTH},
};
use node_agent_core::Key;
use node_agent_ipc::ShortPath;
use proto_rpc::{Client, MAX_MESSAGE_BYTES};
use proto_wire::v1::{
    self, agent_service_client::AgentServiceClient, attach_step_response::Body, step_event::What,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::agent::setup::Setup;

/// Events that wait for a slow caller.
const WAITING: usize = 8;
/// Steps on this server at once.
const STEPS: usize = 128;
/// How long the controller may take to give the order.
const ORDER_LIMIT: Duration = Duration::from_secs(10);
/// How long the last events may take to be sent once the controller sends nothing more.
const LAST_EVENTS: Duration = Duration::from_secs(10);

/// Why a step cannot go on here.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error("the job does not run on this server (any more)")]
    NotHere,
    #[error(
        "the job was started by an earlier release of rail-node-agent, whose jobs take no steps; start it anew"
    )]
    Earlier,
    #[error("the controller gave no order in time")]
    NoOrder,
    #[error("the job's supervisor cannot be reached: {0}")]
    Supervisor(#[from] std::io::Error),
    #[error("the job's supervisor says what is not understood: {0}")]
    Frame(#[from] step_frames::FrameError),
    #[error("the job's supervisor says what is not understood: {0}")]
    Message(#[from] prost::DecodeError),
    #[error(transparent)]
    Call(#[from] tonic::Status),
}

type Out = mpsc::Sender<v1::AttachStepRequest>;

/// The steps that go on here.
#[derive(Debug, Default)]
pub struct Attached(JoinSet<()>);

impl Attached {
    /// Attends to one more, where there is room.
    pub fn begin(&mut self, setup: &Arc<Setup>, client: Client, ask: v1::OpenStep) {
        while self.0.try_join_next().is_some() {}
        setup.metrics.commands.inc(["step"]);
        if self.0.len() >= STEPS {
            tracing::warn!("too many steps at once; one was not served");
            return;
        }
        let setup = Arc::clone(setup);
        self.0.spawn(async move { attach(&setup, client, ask).await });
    }
}

async fn attach(setup: &Setup, client: Client, ask: v1::OpenStep) {
    let id = ask.stream_id.clone();
    let (sender, receiver) = mpsc::channel(WAITING);
    let first = v1::AttachStepRequest { stream_id: ask.stream_id.clone(), event: None };
    if sender.send(first).await.is_err() {
        return;
    }
    let mut agent =
        AgentServiceClient::new(client.without_timeout()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let input = match agent.attach_step(ReceiverStream::new(receiver)).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => {
            tracing::debug!(stream = id, %status, "whoever asked for a step has gone");
            return;
        }
    };
    let mut below = JoinSet::new();
    if let Err(error) = carry(setup, &ask, input, &sender, &mut below).await {
        tracing::debug!(stream = id, %error, "a step cannot go on");
        let failure = What::Failure(v1::StepFailure { message: error.to_string() });
        let event = v1::StepEvent { node: String::new(), rank: 0, what: Some(failure) };
        // The controller may have gone, too.
        let _ = sender.send(reported(event)).await;
    }
    // The call goes on until the controller has all events: it ends its side then.
    drop(sender);
    let _ = tokio::time::timeout(LAST_EVENTS, below.join_next()).await;
}

fn reported(event: v1::StepEvent) -> v1::AttachStepRequest {
    v1::AttachStepRequest { stream_id: String::new(), event: Some(event) }
}

async fn carry(
    setup: &Setup,
    ask: &v1::OpenStep,
    mut input: Streaming<v1::AttachStepResponse>,
    out: &Out,
    below: &mut JoinSet<()>,
) -> Result<(), StepError> {
    let order = tokio::time::timeout(ORDER_LIMIT, input.message()).await;
    let order = order.map_err(|_| StepError::NoOrder).and_then(|answer| Ok(answer?));
    let (sender, to) = oneshot::channel();
    below.spawn(down(input, to));
    let Some(Body::Order(order)) = order?.and_then(|message| message.body) else {
        return Err(StepError::NoOrder);
    };
    let uid = ask.job_uid.parse().map_err(|_| StepError::NotHere)?;
    let dir = setup.data.job(Key { uid, attempt: ask.attempt });
    let (from, mut to) = connect(&dir).await?.into_split();
    to.write_all(&step_frames::encode(&order)).await?;
    // It listens for as long as the call goes on.
    let _ = sender.send(to);
    up(from, out).await
}

async fn connect(dir: &JobDir) -> Result<UnixStream, StepError> {
    if !dir.record().exist().unwrap_or(false) {
        return Err(StepError::NotHere);
    }
    let path = dir.steps();
    if !path.exists() {
        return Err(if dir.socket().exists() { StepError::Earlier } else { StepError::NotHere });
    }
    let short = ShortPath::of(&path)?;
    match UnixStream::connect(&short).await {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Err(StepError::NotHere),
        answer => Ok(answer?),
    }
}

/// Input, until the controller sends nothing more; then the supervisor learns that its caller is gone. What comes when the supervisor has
/// gone is dropped.
async fn down(mut input: Streaming<v1::AttachStepResponse>, to: oneshot::Receiver<OwnedWriteHalf>) {
    let mut to = to.await.ok();
    while let Ok(Some(message)) = input.message().await {
        let (Some(Body::Input(input)), Some(open)) = (message.body, &mut to) else { continue };
        if open.write_all(&step_frames::encode(&input)).await.is_err() {
            to = None;
        }
    }
}

/// Events, until the supervisor has none any more. Where it closes before it has read all input, its end is a reset; its events have come before that.
async fn up(mut from: OwnedReadHalf, out: &Out) -> Result<(), StepError> {
    while let Some(event) = next(&mut from).await? {
        let sent = tokio::select! {
            sent = out.send(reported(event)) => sent.is_ok(),
            () = out.closed() => false,
        };
        if !sent {
            return Ok(());
        }
    }
    Ok(())
}

async fn next(from: &mut OwnedReadHalf) -> Result<Option<v1::StepEvent>, StepError> {
    let mut header = [0; LENGTH];
    match from.read_exact(&mut header).await {
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            return Ok(None);
        }
        answer => answer?,
    };
    let mut bytes = vec![0; step_frames::length(header, FRAME_MAX)?];
    from.read_exact(&mut bytes).await?;
    Ok(Some(prost::Message::decode(bytes.as_slice())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_of_a_supervisor_that_leaves_input_unread_all_arrive() {
        let (agent, supervisor) = UnixStream::pair().unwrap();
        let (mut from, mut to) = agent.into_split();
        to.write_all(b"input that nobody reads").await.unwrap();
        let (_, mut events) = supervisor.into_split();
        let failure = What::Failure(v1::StepFailure { message: "the last one".into() });
        let event = v1::StepEvent { node: String::new(), rank: 3, what: Some(failure) };
        events.write_all(&step_frames::encode(&event)).await.unwrap();
        drop(events);
        assert_eq!(next(&mut from).await.unwrap(), Some(event));
        // The kernel tells the agent of the input: the end is a reset, and no end of file.
        assert!(next(&mut from).await.unwrap().is_none());
    }
}
