//! GPUs as their makers' libraries describe them, and their memory as files that NICs can register: NVML, CUDA's driver library and the HSA
//! runtime, each loaded at run time, so that one program runs with and without them.
//!
//! [`Reader`] asks, on a thread of its own and with a limit, because a GPU that has fallen off the bus may hold a call for good.
//! What is asked: model, UUID, memory, place on the PCI bus, NVLinks that are up and what is at their other ends. Nothing is changed.
//!
//! [`export`] makes dma-bufs of GPU memory, for NICs to read and write it without a copy (GPUDirect RDMA).
//!
//! Unsafe code is in `library` and in `export`'s `cuda` and `hsa` (calls) and nowhere else; layouts are in [`ffi`] and `export::ffi`.

mod asked;
pub mod export;
#[doc(hidden)]
pub mod ffi;
mod library;
mod reader;

pub use asked::{Device, Driver, Instance, Link, Peer, Trouble};
pub use library::{Library, NvmlError};
pub use node_agent_dylib::LoadError;
pub use reader::{ReadError, Reader};
