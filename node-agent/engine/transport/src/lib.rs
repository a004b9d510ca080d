//! The Transport trait; memory and TCP rails.
//!
//! A transport carries whole frames (header and payload) over one link per (rail, peer). One thread drives it
//! together with a [`Machine`](node_agent_collective::Machine): see [`drive`]. Nothing blocks but
//! [`Transport::poll`], and a [`Waker`] of another thread ends that.

pub mod carrier;
pub mod drive;
pub mod memory;
pub mod tcp;
pub mod transport;

pub use carrier::{Carrier, ChannelId, News};
pub use drive::{Bridge, Buffers, Callers, Clock, drive};
pub use memory::{Fault, MemoryNet, MemoryRails};
pub use tcp::{JobKey, Missing, Refusals, SetupError, TcpConfig, TcpRails, Wiring};
pub use transport::{Counters, Sink, Transport, TransportError, Waker};
