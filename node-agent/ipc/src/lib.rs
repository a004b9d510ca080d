//! The door between a rank and its engine: shared memory and socket protocol.
//!
//! A rank connects to the engine's Unix socket, says who it is, and asks for buffers. Each buffer is a memory file that both
//! processes map; calls name buffers, so payload never passes through the socket.
//!
//! - [`Region`]: one shared buffer, mapped; the only place with `unsafe`, apart from [`copy`] and [`close_on_exec`].
//! - [`pieces`]: ranges of buffers, and private memory beside them, for the kernel to read and write.
//! - [`Request`] and [`Reply`]: the messages, pure values with a strict binary form.
//! - [`Board`] and [`Table`]: how the ranks of one server do collectives themselves in shared memory.
//! - [`Queues`]: calls and completions in shared memory, without a system call while both sides are awake.
//! - [`Listener`] and [`Channel`]: the socket that carries messages and, with one of them, a file descriptor.
//! - [`Lent`]: what rails can do with memory of a GPU, which only devices reach ([`Region::of_device`]).
//! - [`Element`]: the Rust types whose slices can be reduced.

mod board;
mod bounds;
mod codec;
mod copy;
mod descriptors;
mod device;
mod element;
mod fold;
mod message;
pub mod pieces;
mod post;
mod queues;
mod region;
mod socket;

pub use board::{
    Board, Claim, DEPTH, Extent, Finished, FirstRun, MAX_LOCAL, NOTHING_TO_COPY, Presence, STAGE_SLOT, Table,
    WINDOW, WORDS,
};
pub use bounds::{MAX_MESSAGE, MAX_RAILS, MAX_TEXT, VERSION};
pub use codec::ProtocolError;
pub use copy::settle;
pub use descriptors::close_on_exec;
pub use device::{Lent, MAX_NEIGHBOURS};
pub use element::Element;
pub use fold::fold;
pub use message::{Failure, FailureCode, RailBytes, RailModel, RailSpeed, Reply, Request, Welcome};
pub use post::{Post, Span};
pub use queues::{
    Absurd, Acceptor, Completer, ENTRY, Lines, Pushed, Queues, Submitter, Taker, entry, to_entry,
};
pub use region::{DeviceMemory, Region, RegionError};
pub use socket::{Channel, Listener, PeerIdentity, Received, ShortPath, SocketError};

/// The exit status of a `rail-engine` that ended because it lost a peer. Its own server may be well.
pub const PEER_LOST_STATUS: u8 = 3;
