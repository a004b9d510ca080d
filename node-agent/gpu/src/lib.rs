//! GPUs as their makers' libraries tell: NVML, loaded at run time, so that one program runs with and without it.
//!
//! [`Reader`] asks, on a thread of its own and with a limit, because a GPU that has fallen off the bus may hold a call for good.
//! What is asked: model, UUID, memory, place on the PCI bus, NVLinks that are up and what is at their other ends. Nothing is changed.
//!
//! Unsafe code is in `library` (calls) and nowhere else; layouts are in [`ffi`].

mod asked;
#[doc(hidden)]
pub mod ffi;
mod library;
mod reader;

pub use asked::{Device, Driver, Link, Peer, Trouble};
pub use library::{Library, LoadError, NvmlError};
pub use reader::{ReadError, Reader};
