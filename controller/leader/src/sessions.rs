//! Connected agents and what waits to be sent to each. A slow agent loses its stream, never our memory.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use proto_model::{NodeName, ServerUsage};
use proto_wire::v1;
use tokio::sync::mpsc;

use crate::metrics::LoopMetrics;

/// Messages that may wait for one agent. Of each job of a node at most a few desired states are on the way.
const QUEUE: usize = 1024;

/// What waits to be sent to one agent. A queue sets room aside for 32 messages at once: boxed ones, for a message is large, agents
/// are many, and nearly all of them wait for nothing.
pub type Messages = mpsc::Receiver<Box<v1::ControllerMessage>>;

/// All connected agents; clones share them.
#[derive(Debug, Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
    metrics: LoopMetrics,
}

#[derive(Debug, Default)]
struct Shared {
    next: AtomicU64,
    open: Mutex<BTreeMap<NodeName, Open>>,
}

#[derive(Debug)]
struct Open {
    session: u64,
    sender: mpsc::Sender<Box<v1::ControllerMessage>>,
    /// What the server uses, as its agent reported it last.
    usage: Option<Arc<ServerUsage>>,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It waits to be sent.
    Queued,
    /// That connection is gone.
    Gone,
    /// The agent did not read: its stream is ended now.
    Dropped,
}

impl Sessions {
    pub(crate) fn new(metrics: LoopMetrics) -> Self {
        Self { shared: Arc::default(), metrics }
    }

    fn open_map(&self) -> std::sync::MutexGuard<'_, BTreeMap<NodeName, Open>> {
        // Plain data, whole after every statement: a poisoned lock is still good.
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection's queue; a former connection of the same node ends.
    pub(crate) fn open(&self, node: &NodeName) -> (u64, Messages) {
        let session = self.shared.next.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let mut open = self.open_map();
        open.insert(node.clone(), Open { session, sender, usage: None });
        self.count(&open);
        (session, receiver)
    }

    /// Ends a connection if it is still the node's.
    pub(crate) fn close(&self, node: &NodeName, session: u64) {
        let mut open = self.open_map();
        if open.get(node).is_some_and(|entry| entry.session == session) {
            open.remove(node);
        }
        self.count(&open);
    }

    /// Queues a message on one connection.
    pub(crate) fn send(&self, node: &NodeName, session: u64, message: v1::ControllerMessage) -> Delivery {
        let mut open = self.open_map();
        let Some(entry) = open.get(node).filter(|entry| entry.session == session) else {
            return Delivery::Gone;
        };
        match entry.sender.try_send(Box::new(message)) {
            Ok(()) => Delivery::Queued,
            Err(mpsc::error::TrySendError::Closed(_)) => Delivery::Gone,
            Err(mpsc::error::TrySendError::Full(_)) => {
                open.remove(node);
                self.count(&open);
                self.metrics.slow_agents.inc();
                tracing::warn!(%node, session, "the agent does not read; its stream is ended and it will register again");
                Delivery::Dropped
            }
        }
    }

    /// Queues a message on whatever connection the node has.
    #[must_use]
    pub fn send_any(&self, node: &NodeName, message: v1::ControllerMessage) -> Delivery {
        let session = self.open_map().get(node).map(|entry| entry.session);
        session.map_or(Delivery::Gone, |session| self.send(node, session, message))
    }

    /// Takes the report of a connection on what its server uses.
    pub(crate) fn report_usage(&self, node: &NodeName, session: u64, usage: ServerUsage) {
        if let Some(entry) = self.open_map().get_mut(node).filter(|entry| entry.session == session) {
            entry.usage = Some(Arc::new(usage));
        }
    }

    /// What a connected server uses, if its agent reports it.
    #[must_use]
    pub fn usage(&self, node: &NodeName) -> Option<Arc<ServerUsage>> {
        self.open_map().get(node).and_then(|entry| entry.usage.clone())
    }

    /// What all connected servers use, of those whose agents report it; in the order of their names.
    #[must_use]
    pub fn usages(&self) -> Vec<(NodeName, Arc<ServerUsage>)> {
        let open = self.open_map();
        open.iter().filter_map(|(node, entry)| Some((node.clone(), entry.usage.clone()?))).collect()
    }

    /// Whether the node has a connection.
    #[must_use]
    pub fn is_connected(&self, node: &NodeName) -> bool {
        self.open_map().contains_key(node)
    }

    /// Ends the stream of every connected agent.
    pub(crate) fn close_all(&self) {
        let mut open = self.open_map();
        open.clear();
        self.count(&open);
    }

    fn count(&self, open: &BTreeMap<NodeName, Open>) {
        self.metrics.agents.set(i64::try_from(open.len()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Sessions {
        let metrics = proto_rpc::Metrics::new("test", "0", std::time::SystemTime::UNIX_EPOCH);
        Sessions::new(LoopMetrics::new(&metrics))
    }

    #[tokio::test]
    async fn a_slow_agent_loses_its_stream() {
        let sessions = sessions();
        let node = NodeName::new("n0").unwrap();
        let (session, mut receiver) = sessions.open(&node);
        for _ in 0..QUEUE {
            assert_eq!(sessions.send(&node, session, v1::ControllerMessage::default()), Delivery::Queued);
        }
        assert_eq!(sessions.send(&node, session, v1::ControllerMessage::default()), Delivery::Dropped);
        assert!(!sessions.is_connected(&node));
        let mut waiting = 0;
        while receiver.recv().await.is_some() {
            waiting += 1;
        }
        assert_eq!(waiting, QUEUE, "what was queued is still there, then the stream ends");
    }

    #[tokio::test]
    async fn a_new_connection_replaces_the_old_one() {
        let sessions = sessions();
        let node = NodeName::new("n0").unwrap();
        let (first, mut old) = sessions.open(&node);
        let (second, _new) = sessions.open(&node);
        assert!(old.recv().await.is_none());
        assert_eq!(sessions.send(&node, first, v1::ControllerMessage::default()), Delivery::Gone);
        sessions.close(&node, first);
        assert_eq!(sessions.send(&node, second, v1::ControllerMessage::default()), Delivery::Queued);
    }
}
