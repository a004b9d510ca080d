//! librail.so: the C ABI over the client.
//!
//! `rail.h` beside this crate is the contract: names, numbers and meanings there do not change within an ABI version. Every
//! entry catches panics, checks its pointers as far as that is possible, and reports failures as negative numbers with a text
//! that [`rail_last_error`] gives.

mod asked;
mod calls;
mod error;
mod exit;
mod gpu;
mod gpu_calls;
mod handle;
mod memory;
mod memory_calls;
mod notify_calls;
mod pending;
mod progress;
mod request;
mod under_way;

pub use calls::{
    rail_all_gather, rail_all_reduce, rail_all_to_all, rail_barrier, rail_broadcast, rail_iall_gather,
    rail_iall_reduce, rail_iall_to_all, rail_ibarrier, rail_ibroadcast, rail_irecv, rail_ireduce_scatter,
    rail_isend, rail_recv, rail_reduce_scatter, rail_send,
};
pub use error::{rail_last_error, rail_strerror};
pub use gpu_calls::{rail_gpu_register, rail_gpu_release, rail_last_way, rail_request_way};
#[cfg(debug_assertions)]
pub use handle::rail_debug_panic;
pub use handle::{
    Rail, rail_abi_version, rail_finalize, rail_init_from_env, rail_local_rank, rail_local_size, rail_node,
    rail_nodes, rail_rank, rail_set_timeout_ms, rail_size,
};
pub use memory_calls::{rail_alloc, rail_free};
pub use notify_calls::{rail_notify, rail_poll_notification, rail_subscribe};
pub use pending::Callback;
pub use request::{
    Request, rail_event_fd, rail_request_error, rail_request_free, rail_request_on_done, rail_request_test,
    rail_request_wait,
};
