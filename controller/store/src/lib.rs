//! The store trait (revisions, compare-and-swap, watches, leases), the embedded store and the memory store.

mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod embedded;
mod error;
mod hub;
mod memory;
mod staged;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod types;

pub use clock::{Clock, ManualClock, SystemClock};
#[doc(hidden)]
pub use embedded::codec;
pub use embedded::{EmbeddedOptions, EmbeddedStore};
pub use error::StoreError;
pub use memory::MemoryStore;
pub use store::{Store, WatchStream};
pub use types::{
    Compare, CompareOp, Event, History, KeyValue, LeaseGrant, LeaseId, Limits, Op, OpResult, RangeRequest,
    RangeResult, StoreStatus, Target, Txn, TxnOutcome, WatchBatch,
};
