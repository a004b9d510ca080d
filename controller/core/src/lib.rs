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
//!
//! # Floor plan
//!
//! Folders are rooms. From the top: what goes through all rooms (`step` one event, `due` what is due, `dry_run`, `query`, `audit` the record
//! of each change); the transitions, which are methods of `Step` and so may call one another by `self` (`rollout`, `rail`, `tenant`, `node`,
//! `job`); at the bottom all tables with their setters, indices, journal and loader (`state`), and data: what happens and is answered
//! (`event`), and refusals (`error`). What each names of others is here; a test compares it with the code. Of rooms above them `state`,
//! `event` and `error` name only types of rows, requests and answers, and the functions that count a row in an index of its room.
//! ```text
//! step    -> audit error event state
//! due     -> error event job state step
//! dry_run -> audit error event state step
//! query   -> error job state
//! audit   -> error event state step tenant
//! rollout -> error event state step
//! rail    -> error event job query state step tenant
//! tenant  -> error event job state step
//! node    -> error event job state step
//! job     -> error event node state step tenant
//! state   -> audit event job node rail rollout tenant
//! event   -> dry_run error job rail state tenant
//! error   -> rail tenant
//! ```

pub mod audit;
mod dry_run;
mod due;
pub mod error;
mod error_kind;
pub mod event;
mod job;
mod node;
mod query;
mod rail;
mod rollout;
pub mod state;
mod step;
mod tenant;
#[cfg(test)]
mod tests;

pub use audit::{AuditRow, BadAudit, StoredAudit, denials};
pub use controller_queue::{LicenseUse, Share};
pub use dry_run::{DryRunResult, Effect};
pub use error::{CoreError, ErrorKind};
pub use event::{
    AttachedWrite, Attributed, AuditNote, ClaimVerdict, DenialRecord, Event, Key, Naming, NextTick,
    NodeChange, Output, Push, QosAction, QosOrder, Register, Reply, Submit, ToNode, Transition, Write,
};
pub use job::{
    decisions::{self, DecisionRecord, DecisionRow},
    explain::{self, Detail, Holding, Prospect},
    orders::{self, Asked, JobChange, JobOrder, JobUpdate},
    schedules::ScheduleView,
    standing::{OrderRow, QueueOrder},
};
pub use node::quarantine;
pub use proto_model::{Certification, IsolationPolicy};
pub use query::{
    Explanation, HealthView, Hold, NodeHeat, PlanResult, PodView, RailHeat, TenantUsage, TopologyView,
};
pub use rail::{
    fabric::FabricImpact,
    rails::{self, NodeRails, RailJob, RailUse, RailView, RailsView},
};
pub use rollout::{QosActive, QosPlan, QosPlanNic, QosPlanStage, QosStage, QosView};
pub use state::{
    State,
    config::{self, Config},
    load::{self, LoadError, Stored},
    records::{self, Attempt, Ending, Outcome, RequestRecord, RestingName, TokenRecord},
};
pub use step::{Rng, step};
pub use tenant::{
    deleted::{self, DeletedContent, DeletedKey, DeletedTenant, Restored, Tombstone},
    documents::{ClassUse, QueueUsage},
    figures,
    tenants::TenantImpact,
    values, webhooks,
};
