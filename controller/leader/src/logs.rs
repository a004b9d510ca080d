//! Where a caller meets the agents that have what it asks for: a message goes out, a stream of the agent's own comes back. So do readers
//! of logs (OpenLogs, UploadLogs) and whoever runs a step (OpenStep, AttachStep).

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use proto_model::NodeName;
use proto_wire::v1::{self, controller_message::Body};
use tokio::sync::mpsc;

use crate::sessions::{Delivery, Sessions};

/// Chunks that wait for one reader; then its agents wait, each on a stream of its own.
pub const CHUNKS: usize = 16;
/// Reads that may be open at once, each on one node.
const MAX_OPEN: usize = 4096;

/// Calls that wait for their agents, by stream id, each with what the agent's stream is to be connected with; clones share them.
pub struct Broker<T> {
    shared: Arc<Shared<T>>,
}

/// Where what agents upload goes.
pub type LogBroker = Broker<mpsc::Sender<v1::LogChunk>>;

/// One server's part of a step, as the stream of its agent is connected with it.
#[derive(Debug)]
pub struct StepPart {
    /// What goes to the agent: the order first, then input.
    pub orders: mpsc::Receiver<v1::AttachStepResponse>,
    /// What comes from it.
    pub events: mpsc::Sender<v1::StepEvent>,
}

/// Steps that wait for their agents.
pub type StepBroker = Broker<StepPart>;

#[derive(Debug)]
struct Shared<T> {
    next: AtomicU64,
    waiting: Mutex<BTreeMap<String, Waiting<T>>>,
}

#[derive(Debug)]
struct Waiting<T> {
    node: NodeName,
    with: T,
}

/// Why no upload will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoUpload {
    /// The agent is not connected.
    NotConnected,
    /// Too many reads are open.
    TooMany,
}

/// One node's share of a call. Dropping it before the agent has answered takes the request back.
pub struct Opening<T = mpsc::Sender<v1::LogChunk>> {
    shared: Arc<Shared<T>>,
    stream_id: String,
}

impl<T> std::fmt::Debug for Opening<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Opening").field(&self.stream_id).finish()
    }
}

impl<T> Opening<T> {
    /// Whether the agent has begun its stream.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        !self.shared.lock().contains_key(&self.stream_id)
    }
}

impl<T> Drop for Opening<T> {
    fn drop(&mut self) {
        self.shared.lock().remove(&self.stream_id);
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Waiting<T>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Broker<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Default for Broker<T> {
    fn default() -> Self {
        Self { shared: Arc::new(Shared { next: AtomicU64::new(0), waiting: Mutex::default() }) }
    }
}

impl<T> std::fmt::Debug for Broker<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl LogBroker {
    /// Asks one node's agent for a job's logs; what it uploads goes into `chunks`.
    ///
    /// # Errors
    /// [`NoUpload`]; nothing was asked then.
    pub fn open(
        &self,
        sessions: &Sessions,
        node: &NodeName,
        epoch: u64,
        ask: v1::OpenLogs,
        chunks: mpsc::Sender<v1::LogChunk>,
    ) -> Result<Opening, NoUpload> {
        self.ask(sessions, node, epoch, chunks, |stream_id| Body::OpenLogs(v1::OpenLogs { stream_id, ..ask }))
    }
}

impl StepBroker {
    /// Asks one node's agent to attend to a step.
    ///
    /// # Errors
    /// [`NoUpload`]; nothing was asked then.
    pub fn open(
        &self,
        sessions: &Sessions,
        node: &NodeName,
        epoch: u64,
        ask: v1::OpenStep,
        part: StepPart,
    ) -> Result<Opening<StepPart>, NoUpload> {
        self.ask(sessions, node, epoch, part, |stream_id| Body::OpenStep(v1::OpenStep { stream_id, ..ask }))
    }
}

impl<T> Broker<T> {
    fn ask(
        &self,
        sessions: &Sessions,
        node: &NodeName,
        epoch: u64,
        with: T,
        message: impl FnOnce(String) -> Body,
    ) -> Result<Opening<T>, NoUpload> {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        // The epoch makes ids of different lives of the controller differ.
        let stream_id = format!("{epoch}-{number}");
        {
            let mut waiting = self.shared.lock();
            if waiting.len() >= MAX_OPEN {
                return Err(NoUpload::TooMany);
            }
            waiting.insert(stream_id.clone(), Waiting { node: node.clone(), with });
        }
        let opening = Opening { shared: Arc::clone(&self.shared), stream_id: stream_id.clone() };
        let body = Some(message(stream_id));
        match sessions.send_any(node, v1::ControllerMessage { epoch, body }) {
            Delivery::Queued => Ok(opening),
            Delivery::Gone | Delivery::Dropped => Err(NoUpload::NotConnected),
        }
    }

    /// An agent begins a stream: gives what to connect it with, if this node was asked for it. Only once per id.
    #[must_use]
    pub fn answer(&self, stream_id: &str, node: &NodeName) -> Option<T> {
        let mut waiting = self.shared.lock();
        if waiting.get(stream_id).is_none_or(|entry| entry.node != *node) {
            return None;
        }
        waiting.remove(stream_id).map(|entry| entry.with)
    }
}
