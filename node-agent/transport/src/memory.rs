//! Rails in one process's memory: for tests, several nodes in one process.

use std::time::Duration;

use node_agent_collective::shape::{Node, Rail};
use node_agent_collective::{RailCause, Transmit};

use crate::transport::{Counters, Sink, Transport, TransportError, Waker};

/// Rails that join some nodes of this process.
#[derive(Debug)]
pub struct MemoryNet;

impl MemoryNet {
    /// The rails of each node; every link comes up with its first poll.
    #[must_use]
    pub fn rails(nodes: usize, rails: usize) -> Vec<MemoryRails> {
        (0..nodes).map(|_| MemoryRails { _rails: rails }).collect()
    }
}

/// One node's rails of a [`MemoryNet`].
#[derive(Debug)]
pub struct MemoryRails {
    _rails: usize,
}

impl Transport for MemoryRails {
    fn send(&mut self, _frame: Transmit) {}
    fn flush(&mut self, _sink: &mut dyn Sink) {}
    fn poll(&mut self, _timeout: Option<Duration>, _sink: &mut dyn Sink) -> Result<(), TransportError> {
        Ok(())
    }
    fn waker(&self) -> Waker {
        Waker::new(|| {})
    }
    fn counters(&self, _rail: Rail, _peer: Node) -> Counters {
        Counters::default()
    }
    fn close(&mut self, _rail: Rail, _peer: Node, _cause: RailCause) {}
}
