//! The control core: step(state, event, now, rng) -> output. No clock, no IO, no randomness of its own.
//!
//! How a shell drives it (signatures):
//! ```text
//! State::load(config: Config, epoch: u64, now: Timestamp, stored: Stored) -> Result<State, LoadError>
//! step(&mut State, Event, now: Timestamp, rng: &mut dyn FnMut(&mut [u8])) -> Output
//! state.commit(revision: u64)      // the writes of all steps since the last commit are durable at this store revision
//! state.rollback()                 // they are not: the state is again as at the last commit
//! state.next_tick() -> Option<Timestamp>
//! state.seal_due(log) -> Option<Timestamp>; state.claim(log, now) -> Option<Claim>   // sign it, step Event::Sealed
//! // Reading, always of the present state:
//! state.epoch(), config(), version(&Key) -> Option<u64>
//! state.job(&JobId) -> Option<&Arc<Job>>, job_by_uid(&JobUid), jobs(after) / jobs_of(&TenantName, after) -> in name order
//! state.node(&NodeName) -> Option<&Arc<Node>>, nodes(after), session(&NodeName), last_heard(&NodeName) -> Option<Timestamp>, holds(&NodeName) -> Vec<Hold>
//! state.tenant(&TenantName) -> Option<&Arc<Tenant>>, tenants(after), usage(&TenantName) -> TenantUsage
//! state.fabric() -> Option<&Arc<Fabric>>, findings() -> Vec<Reason>, topology() -> TopologyView
//! state.plan(&TenantName, &Authority, &JobSpec, now) -> Result<PlanResult, CoreError>, explain(&JobId, now) -> Result<Explanation, CoreError>
//! state.health() -> HealthView, figures() -> Figures, moved(&Transition, now) -> Option<Moved>
//! ```
//! One batch: step, step, step; merge their writes (a later write of the same [`Key`] wins); one store transaction
//! fenced by the epoch; then `commit(revision)` and let replies and pushes go; or `rollback()`, answer clients with
//! the failure, and step the agents' events of the batch again later (or end those agents' streams: they register
//! again with everything they know); wait a little before the next step, since what was due still is. Where several controllers may be, a batch without writes is told to clients only
//! after the epoch was confirmed: a refusal of a replaced controller is stale.

mod admin;
mod agents;
mod arrays;
mod attempt;
pub mod audit;
mod cancel;
mod certify;
mod claims;
pub mod config;
pub mod decisions;
pub mod deleted;
pub mod denials;
mod depend;
mod documents;
mod drain;
mod dry_run;
mod due;
pub mod error;
mod error_kind;
pub mod event;
pub mod explain;
mod fabric;
pub mod figures;
mod holds;
mod journal;
pub mod load;
mod observe;
pub mod orders;
mod prove;
pub mod qos;
pub mod quarantine;
mod query;
pub mod rails;
pub mod records;
mod remap;
mod repair;
mod schedule;
mod schedules;
mod standing;
pub mod state;
mod step;
mod submit;
mod tables;
#[cfg(test)]
mod tests;
mod update;
pub mod values;
pub mod webhooks;
mod write;

pub use admin::TenantImpact;
pub use audit::{AuditRow, BadAudit, StoredAudit};
pub use config::Config;
pub use controller_queue::{LicenseUse, Share};
pub use decisions::{DecisionRecord, DecisionRow};
pub use deleted::{DeletedContent, DeletedKey, DeletedTenant, Restored, Tombstone};
pub use documents::{ClassUse, QueueUsage};
pub use dry_run::{DryRunResult, Effect};
pub use error::{CoreError, ErrorKind};
pub use event::{
    AttachedWrite, Attributed, AuditNote, ClaimVerdict, DenialRecord, Event, Key, Naming, NextTick,
    NodeChange, Output, Push, QosAction, QosOrder, Register, Reply, Submit, ToNode, Transition, Write,
};
pub use explain::{Detail, Holding, Prospect};
pub use fabric::FabricImpact;
pub use load::{LoadError, Stored};
pub use orders::{Asked, JobChange, JobOrder, JobUpdate};
pub use proto_model::{Certification, IsolationPolicy};
pub use qos::{QosActive, QosPlan, QosPlanNic, QosPlanStage, QosStage, QosView};
pub use query::{
    Explanation, HealthView, Hold, NodeHeat, PlanResult, PodView, RailHeat, TenantUsage, TopologyView,
};
pub use rails::{NodeRails, RailJob, RailUse, RailView, RailsView};
pub use records::{Attempt, Ending, Outcome, RequestRecord, RestingName, TokenRecord};
pub use schedules::ScheduleView;
pub use standing::{OrderRow, QueueOrder};
pub use state::State;
pub use step::{Rng, step};
