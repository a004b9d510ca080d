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
//! state.fabric() -> Option<&Arc<Fabric>>, findings() -> Vec<Reason>, topology() -> TopologyView, map() -> MapView
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
//! Folders are rooms. From the top: `step` takes one event, `due` does what is due, `dry_run` tries events and takes them back, `audit`
//! records each change; then the transitions, which are methods of `Step` and so may call one another by `self` (`job`, `node`, `rail`,
//! `rollout`, `tenant`); below them what all of them work with (`context`), what happens and is answered (`event`), and the state as others
//! see it (`state`). What they change is `controller-state`. A test compares the plan with the code; arrows only run down.
//! ```text
//! step    -> audit context event state
//! due     -> context event
//! dry_run -> context event
//! audit   -> context event
//! job     -> context event node
//! node    -> context event
//! rail    -> context event
//! rollout -> context event
//! tenant  -> context event
//! context -> event
//! event   ->
//! state   ->
//! ```

pub mod audit;
mod context;
mod dry_run;
mod due;
pub mod event;
mod job;
mod node;
mod rail;
mod rollout;
mod state;
mod step;
mod tenant;
#[cfg(test)]
mod tests;

pub use audit::denials;
pub use context::Rng;
pub use controller_queue::{LicenseUse, Share};
pub use controller_state::{
    Config, CoreError, ErrorKind, LoadError, Stored, config, error,
    error::impact::FabricImpact,
    index::classes::ClassUse,
    rows::{
        audit::{AuditRow, BadAudit, StoredAudit},
        deleted::{self, DeletedContent, DeletedKey, DeletedTenant, Tombstone},
        records::{self, Attempt, Ending, Outcome, RequestRecord, RestingName, TokenRecord},
        switch_rollout::BUILT_IN_PROFILE,
        switches::SwitchObserved,
        usage::{UsageEnd, UsageKey, UsageRecord, UsageRequest, UsageSize},
    },
    tables::load,
    view::{
        cluster::{HealthView, NodeHeat, PodView, RailHeat, TopologyView},
        explained::{Explanation, PlanResult},
        job::{
            explain::{self, Detail, Holding, Prospect},
            schedules::ScheduleView,
            standing::{OrderRow, QueueOrder},
        },
        map::{MapNode, MapPort, MapView},
        query::{Hold, TenantUsage},
        rail::rails::{self, NodeRails, RailJob, RailUse, RailView, RailsView},
        rollout::{
            plan::{QosPlan, QosPlanNic, QosPlanStage},
            show::{QosActive, QosStage, QosView},
            switch_show,
        },
        tenant::{figures, queues::QueueUsage, tenants::TenantImpact},
        usage::{
            list::{UsageBudget, UsageFilter, UsagePage, UsagePosition, UsageTooOld},
            sum::{UsageAmount, UsageBy, UsageGroup, UsageSum, UsageSums},
        },
    },
};
pub use event::{
    AttachedWrite, Attributed, AuditNote, Certified, ClaimVerdict, DenialRecord, DryRunResult, Effect, Event,
    Key, Naming, NextTick, NodeChange, Output, Push, QosAction, QosOrder, Register, Reply, Restored, Submit,
    SwitchEvent, SwitchOrder, ToNode, Transition, Write,
    orders::{self, Asked, JobChange, JobOrder, JobUpdate},
};
pub use job::decisions::{self, DecisionRecord, DecisionRow};
pub use node::quarantine;
pub use proto_model::{Certification, IsolationPolicy};
pub use state::State;
pub use step::step;
pub use tenant::{values, webhooks};
