//! The protocol of connections, as a pure state machine.
//!
//! A connection carries messages one way, from a sender's rank to a receiver's. Ranks agree by notifications, which arrive once and in order
//! and need nobody to wait for them; payloads are calls of the engine (send and receive, of exactly equal size), made only when both ends
//! are known to be ready, so that no call waits for what a program does and none passes the engine's limit while ranks are merely idle.
//!
//! - *Connect.* The handle names the receiver's rank and listener. The sender notifies it (connect); accepting notifies the sender (accept).
//! - *Credit.* Each message of a receive that is posted is a credit, for one message with its tag.
//! - *Send.* A message goes out when there is credit for its tag: a notification says connection, tag and size, and the engine's send begins at
//!   once. The receiver finds the place by order and tag, and begins the engine's receive with just that size. So a receive may be larger than
//!   what comes, and its true size is known. Messages with one tag keep their order; those with another one do not wait for them, since NCCL
//!   shares a connection among pairs of ranks whose sends nobody orders.
//! - *Order.* All messages between two ranks are one stream of calls of the engine: sends begin in the order of their notifications, and so do
//!   receives. What comes for a connection that is closed is received and thrown away, for the stream's sake.
//! - *Slots.* The engine takes so many calls of a rank at a time. Half of these are for sends, half for receives. A receive begins only when
//!   its send has begun, so receives end whatever else happens; so every send that has begun meets its receive and ends; so none of both
//!   kinds of slots is held for ever, and nothing can deadlock.

mod connection;
pub mod handle;
mod ids;
mod machine;
mod request;
#[cfg(test)]
mod tests;
pub mod wire;

pub use handle::{Handle, HandleError};
pub use ids::{Destination, ListenId, ReceiveId, RequestId, SendId, TransferId};
pub use machine::{Action, Identity, Limits, Machine};
pub use request::Outcome;

/// Most messages of one receive.
pub const MAX_RECEIVES: usize = 8;
/// Requests of one connection that NCCL may have under way; a sender has as many for each message of a receive.
pub const MAX_REQUESTS: usize = 32;
/// Listeners, and connections of either kind, that a rank may have.
pub const MAX_CONNECTIONS: usize = 1 << 14;
/// Connections that may wait for one listener to accept them.
pub const MAX_WAITING: usize = 256;

/// Why something of a connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The handle makes no sense.
    #[error("{0}")]
    Handle(#[from] HandleError),
    /// The handle is of another job, or of another attempt of it.
    #[error(
        "the handle is of rank {rank} in another job or attempt: this is {here}; a communicator cannot reach beyond its job"
    )]
    OtherJob {
        /// The rank that the handle names.
        rank: u32,
        /// Job and attempt of this rank.
        here: String,
    },
    /// The handle names a rank that does not exist.
    #[error("the handle names rank {rank}, but this job has {world} ranks")]
    NoSuchRank {
        /// The rank that the handle names.
        rank: u32,
        /// Ranks of the job.
        world: u32,
    },
    /// The other rank has no such listener, or one with too many connections that wait.
    #[error(
        "rank {rank} refused the connection: its listener is closed, or {MAX_WAITING} connections wait for it to accept"
    )]
    Refused {
        /// The rank that refused.
        rank: u32,
    },
    /// The other rank has closed the connection.
    #[error("rank {rank} closed the connection while requests of it were under way")]
    Closed {
        /// The rank at the other end.
        rank: u32,
    },
    /// A message was not sent before its memory was gone.
    #[error(
        "the memory of a message to rank {rank} was deregistered before it was sent: its connection carries nothing more"
    )]
    Withdrawn {
        /// The rank at the other end.
        rank: u32,
    },
    /// A message does not fit where it belongs.
    #[error(
        "rank {rank} sent {bytes} bytes with tag {tag}, but the receive has room for {room}: both ends must agree on sizes"
    )]
    TooLarge {
        /// The rank that sent.
        rank: u32,
        /// Bytes of the message.
        bytes: u64,
        /// Its tag.
        tag: i32,
        /// Bytes that the receive has room for.
        room: u64,
    },
    /// The other rank does not keep to the protocol.
    #[error("rank {rank} said what cannot be: {what}; do all ranks load the same librail_nccl_net.so?")]
    Protocol {
        /// The rank that said it.
        rank: u32,
        /// What it said.
        what: &'static str,
    },
    /// A bound is reached.
    #[error("this rank has {most} {what} already")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// What was given names nothing here.
    #[error("there is no such {0}: it was closed, or never made")]
    Unknown(&'static str),
    /// Arguments that cannot be.
    #[error("{0}")]
    Argument(String),
}
