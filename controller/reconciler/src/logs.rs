//! Where a reader of logs meets the agents that have them: an OpenLogs goes out, an upload comes back.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use proto_model::NodeName;
use proto_wire::v1;
use tokio::sync::mpsc;

use crate::sessions::{Delivery, Sessions};

/// Chunks that wait for one reader; then its agents wait, each on a stream of its own.
pub const CHUNKS: usize = 16;
/// Reads that may be open at once, each on one node.
const MAX_OPEN: usize = 4096;

/// Open reads, by stream id; clones share them.
#[derive(Debug, Clone, Default)]
pub struct LogBroker {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    next: AtomicU64,
    waiting: Mutex<BTreeMap<String, Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    node: NodeName,
    chunks: mpsc::Sender<v1::LogChunk>,
}

/// Why no upload will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoUpload {
    /// The agent is not connected.
    NotConnected,
    /// Too many reads are open.
    TooMany,
}

/// One node's share of a read. Dropping it before the agent has answered takes the request back.
#[derive(Debug)]
pub struct Opening {
    shared: Arc<Shared>,
    stream_id: String,
}

impl Opening {
    /// Whether the agent has begun its upload.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        !self.shared.lock().contains_key(&self.stream_id)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.shared.lock().remove(&self.stream_id);
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
        mut ask: v1::OpenLogs,
        chunks: mpsc::Sender<v1::LogChunk>,
    ) -> Result<Opening, NoUpload> {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        // The epoch makes ids of different lives of the controller differ.
        let stream_id = format!("{epoch}-{number}");
        ask.stream_id.clone_from(&stream_id);
        {
            let mut waiting = self.shared.lock();
            if waiting.len() >= MAX_OPEN {
                return Err(NoUpload::TooMany);
            }
            waiting.insert(stream_id.clone(), Waiting { node: node.clone(), chunks });
        }
        let opening = Opening { shared: Arc::clone(&self.shared), stream_id };
        let body = Some(v1::controller_message::Body::OpenLogs(ask));
        match sessions.send_any(node, v1::ControllerMessage { epoch, body }) {
            Delivery::Queued => Ok(opening),
            Delivery::Gone | Delivery::Dropped => Err(NoUpload::NotConnected),
        }
    }

    /// An agent begins an upload: gives where to put it, if this node was asked for it. Only once per id.
    #[must_use]
    pub fn answer(&self, stream_id: &str, node: &NodeName) -> Option<mpsc::Sender<v1::LogChunk>> {
        let mut waiting = self.shared.lock();
        if waiting.get(stream_id).is_none_or(|entry| entry.node != *node) {
            return None;
        }
        waiting.remove(stream_id).map(|entry| entry.chunks)
    }
}
