//! What things are called by: numbers that are never used again.

/// A listener of this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenId(pub u32);

/// A connection on which this rank sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SendId(pub u32);

/// A connection on which this rank receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReceiveId(pub u32);

/// A request of NCCL until it was found complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A call of the engine that carries one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransferId(pub u64);

/// Where a message belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// The receive.
    pub request: RequestId,
    /// Which message of it, from 0.
    pub index: usize,
}
