//! The words of the domain: ids, units and resources that more than one room uses. No IO, no wire, no serde.
//!
//! A type moves in only when two rooms need it. Contracts:
//! 1. A value of a name type is always well formed: it can only be made by its checking constructor.
//! 2. [`Phase`] moves only along [`Phase::may_become`]; terminal phases are absorbing.
//! 3. Nothing here reads a clock or draws a random number.

pub mod assignment;
pub mod fabric;
pub mod ids;
pub mod job;
pub mod names;
pub mod node;
pub mod phase;
pub mod placement;
pub mod rails;
pub mod reason;
pub mod tenant;
pub mod time;

pub use assignment::{Assignment, NodeEndpoints, Observation, Observed, RailEndpoint, Wish};
pub use fabric::{Fabric, Leaf, Link, LinkGroup, Rail, Spine, Uplink};
pub use ids::{JobId, JobKey, JobName, JobUid, NameError, NodeName, RequestId, TenantName};
pub use job::{
    Algorithm, CollectiveOp, CollectiveSpec, CommandSpec, Dtype, EngineOptions, FailurePolicy, Gang, Job,
    JobSpec, JobStatus, RailBytes, RailRequest, RankExit, ReduceOp, Requeue, RunResult, Work,
};
pub use names::{Names, NamesError};
pub use node::{Gpu, Health, Inventory, Neighbor, Nic, Node};
pub use phase::Phase;
pub use placement::{NicPlace, NodePlace, Placement, RankPlace};
pub use rails::{AlgorithmChoice, Drain, DrainTarget, RailReport, RailState};
pub use reason::Reason;
pub use tenant::{Quota, Role, Tenant};
pub use time::Timestamp;
