//! The store trait (revisions, compare-and-swap, watches, leases), the embedded store, the etcd store and the memory store.

pub mod backup;
mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod embedded;
mod error;
mod etcd;
mod fill;
mod hub;
mod memory;
#[cfg(any(test, feature = "conformance"))]
pub mod real_etcd;
mod sealed;
mod source;
mod staged;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod types;

pub use clock::{Clock, ManualClock, SystemClock};
#[doc(hidden)]
pub use embedded::codec;
pub use embedded::lock::{Lock, acquire as lock_file};
pub use embedded::{EmbeddedOptions, EmbeddedStore};
pub use error::StoreError;
pub use etcd::EtcdStore;
pub use etcd::options::{EtcdEndpoint, EtcdLogin, EtcdOptions, EtcdTls};
pub use fill::{Filling, REVISION_GAP};
pub use memory::MemoryStore;
pub use sealed::{KeyId, KeyRing, KeyRingError, SealedStore};
pub use source::{Source, SystemSource};
pub use store::{Pages, Store, WatchStream};
pub use types::{
    Compare, CompareOp, Event, History, KeyValue, LeaseGrant, LeaseId, Limits, Op, OpResult, RangeRequest,
    RangeResult, StoreStatus, Target, Txn, TxnOutcome, WatchBatch,
};
