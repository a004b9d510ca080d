//! Rails over RDMA verbs: libibverbs, loaded at run time, so that one program runs with and without it.
//!
//! [`VerbsCarrier`] carries the links of TCP rails (see [`node_agent_engine_transport::Carrier`]): reliable connections, RDMA WRITE with
//! immediate into a ring that the peer offered, and nothing else; large payloads are sent from the ranks' own memory, whose
//! registrations are kept (`cache`). What can be decided without a device is decided by values:
//! - `gid`: which address of a device a rail is; `spread`: flow labels, so that the queue pairs of a link take several ways;
//! - `offer`: what one end sends to the other; `imm`: what the four bytes beside each message mean; `ring`: which slot is whose.
//!
//! Unsafe code is in `library` (calls), `objects` (owners of what the calls give) and [`ffi`] (layouts, compared with the real
//! headers by a test), and nowhere else.

// Public for the bench only.
#[doc(hidden)]
pub mod cache;
mod carrier;
mod channel;
mod device;
#[doc(hidden)]
pub mod ffi;
mod gid;
mod imm;
mod library;
mod objects;
// Public for the fuzz target only.
#[doc(hidden)]
pub mod offer;
mod port;
mod reaper;
mod ring;
mod spread;

pub use carrier::{Config, VerbsCarrier};
pub use library::Library;
pub use node_agent_dylib::LoadError;
