//! Requests that NCCL has under way, and the transfers that do them.

use super::ids::{Destination, ReceiveId, RequestId, SendId};

/// How a request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Not complete yet.
    Pending,
    /// Complete, with the true size of each message in bytes; the request is no more.
    Done(Vec<u64>),
}

#[derive(Debug)]
pub(super) struct Send {
    pub(super) sender: SendId,
    pub(super) tag: i32,
    pub(super) bytes: u64,
    pub(super) done: bool,
}

/// One message of a receive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) tag: i32,
    pub(super) room: u64,
    /// The size of the message that was announced for it.
    pub(super) bytes: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Receive {
    pub(super) receiver: ReceiveId,
    pub(super) slots: Vec<Slot>,
    /// Messages that are not there yet.
    pub(super) left: usize,
}

#[derive(Debug)]
pub(super) enum Request {
    Send(Send),
    Receive(Receive),
}

/// A call of the engine under way.
#[derive(Debug)]
pub(super) enum Transfer {
    /// Of a request that may be gone.
    Send { request: RequestId, bytes: u64 },
    /// Into a place, or nowhere.
    Receive { place: Option<Destination>, bytes: u64 },
}

/// A message that was announced and is to be received.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) place: Option<Destination>,
    pub(super) bytes: u64,
}
