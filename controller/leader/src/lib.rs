//! The leader loop around the pure core: requests in, one transaction per batch, answers and pushes out.
//!
//! It must never let an effect leave before its writes are durable, hold state that the store does not have, or
//! overwrite a stored value that it cannot read.

mod audit;
mod batch;
mod clock;
pub mod codec;
mod drive;
mod error;
mod handle;
mod inspect;
pub mod keys;
mod leader;
mod leader_check;
mod logs;
mod loop_state;
mod metrics;
mod migrate;
mod options;
mod outage;
mod page_key;
mod push;
mod request;
mod revocation;
mod revocations;
mod rows;
mod seal;
mod sessions;
mod standby;
mod start;
mod tenancies;
mod tokens;
pub mod webhooks;

pub use clock::Clock;
pub use controller_core::{Certification, IsolationPolicy};
pub use controller_rows::{format, v1 as records};
pub use drive::Ended;
pub use error::{CorruptError, Refusal, StartError};
pub use handle::{Handle, Session, StoreHealth};
pub use inspect::{Inspection, inspect, kind_of};
pub use keys::is_of_the_process;
pub use logs::{Broker, CHUNKS, LogBroker, NoUpload, Opening, StepBroker, StepPart};
pub use metrics::LoopMetrics;
pub use options::Options;
pub use request::Applied;
pub use revocation::Revocation;
pub use revocations::{MAX_REVOCATIONS, RevokeError};
pub use seal::Seal;
pub use sessions::{Delivery, Messages, Sessions};
pub use standby::{Gone, Leader, SharedStore, Standby, leader as who_leads, takes_writes, withdraw};
pub use start::{DEFAULT_TENANT, DEFAULT_TENANT_GPUS, bootstrap, bootstrap_later, follow_callers, start};
pub use tenancies::{Standing, Tenancies, Tenancy};
pub use tokens::{IssuedToken, UserTokenError};
