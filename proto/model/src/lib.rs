//! The words of the domain: ids, units and resources that more than one room uses. No IO, no wire, no serde.
//!
//! A type moves in only when two rooms need it. Contracts:
//! 1. A value of a name type is always well formed: it can only be made by its checking constructor.
//! 2. [`Phase`] moves only along [`Phase::may_become`]; terminal phases are absorbing.
//! 3. Nothing here reads a clock or draws a random number.

#[macro_use]
mod word;

pub mod address;
pub mod array;
pub mod assignment;
pub mod backfill;
pub mod cause;
pub mod certify;
pub mod claim;
pub mod component;
pub mod cron;
pub mod fabric;
pub mod fields;
pub mod flaw;
pub mod gang;
pub mod gpu_model;
pub mod hardware;
pub mod ids;
pub mod inventory;
pub mod isolation;
pub mod job;
pub mod label;
pub mod license;
pub mod long_jobs;
pub mod names;
pub mod nic_condition;
pub mod node;
pub mod path_cause;
pub mod phase;
pub mod placement;
pub mod policy;
pub mod proof;
pub mod qos;
pub mod queue;
pub mod rails;
pub mod reason;
pub mod reason_code;
pub mod request;
pub mod reservation;
pub mod schedule;
pub mod scheduled_run;
pub mod service_class;
pub mod sonic;
pub mod step;
pub mod switch;
pub mod switch_rollout;
pub mod tenant;
pub mod time;
pub mod usage;
pub mod values;
pub mod webhook;
pub mod zone;

pub use address::{Cidr, CidrError};
pub use array::{ArrayError, ArrayPlace, ArraySpec};
pub use assignment::{Assignment, DesiredState, NodeEndpoints, Observation, Observed, RailEndpoint};
pub use backfill::{Backfill, BackfillError, Promise};
pub use cause::{NodeCause, Speaker};
pub use certify::{
    Certify, Measured, PairReport, PathMeasurement, PortGid, PortReport, PriorityBytes, RoundPart,
    SERIES_ROUNDS,
};
pub use claim::{Claim, ClaimError};
pub use component::{Component, ComponentFlaw, ComponentPlace, Gang, NodeShape};
pub use cron::{Cron, CronError};
pub use fabric::{Fabric, Leaf, Link, LinkGroup, Rail, Spine, Uplink};
pub use flaw::{SpecFlaw, SpecList};
pub use gpu_model::{GpuKind, GpuModel, GpuModelError};
pub use hardware::{
    Distance, Gid, GidKind, GpuDirect, GpuFacts, GpuLink, GpuPath, LinkPeer, MigInstance, NicFacts, NicPort,
    PathCause, PciDevice, PhysicalState, PortState,
};
pub use ids::{
    ComponentName, CredentialName, JobId, JobKey, JobName, JobUid, LicenseName, NameError, NodeName,
    QueueName, RequestId, ReservationName, ScheduleName, ServiceClassName, SwitchName, TenantName,
    TokenHolder, ValuesName, WebhookName,
};
pub use inventory::{Gpu, Inventory, Neighbor, Nic, NicCondition, NicHealth, Severity};
pub use isolation::{Isolation, IsolationFeature, IsolationPolicy, IsolationSet, IsolationState};
pub use job::{
    Algorithm, AllocationSpec, CollectiveOp, CollectiveSpec, CommandSpec, Dtype, EngineOptions, Job, JobHold,
    JobSpec, JobStatus, PastAttempt, RailBytes, RailProtection, RailRequest, RankExit, RankUsage, ReduceOp,
    RunResult, Work,
};
pub use license::License;
pub use long_jobs::LongJobLimit;
pub use names::{Names, NamesError};
pub use nic_condition::NicConditionCode;
pub use node::{Health, Node, Strike};
pub use path_cause::PathCauseCode;
pub use phase::Phase;
pub use placement::{NicPlace, NodePlace, Placement, RankPlace};
pub use policy::{
    Certification, Dependency, DependencyWhen, Eta, FailurePolicy, Preemption, RailLoss, Replace, Requeue,
};
pub use proof::{NicProbe, ProbeOutcome, RailProof};
pub use qos::{DesiredQos, QosPort, QosRollout, QosState};
pub use queue::{Objective, Queue, Shape};
pub use rails::{AlgorithmChoice, Drain, DrainTarget, RailReport, RailState};
pub use reason::{Named, Reason, Thing, human, many, size};
pub use reason_code::{OtherCode, ReasonCode};
pub use request::{Arrange, Group, Pattern, PlacementRequest, Taint, Term, Toleration, Within};
pub use reservation::{Reservation, ReservationNodes};
pub use schedule::{Concurrency, History, JobSchedule, ScheduleProgress};
pub use scheduled_run::ScheduledRun;
pub use service_class::{
    Applicant, ClassMembers, ClassPreemption, ClassUser, JobLimits, ServiceClass, UserLimits,
};
pub use step::{StepFlaw, StepInput, StepOrder, StepRequest, StepTerminal, StepWindow, StepWork};
pub use switch::{AsicError, SwitchAsic, SwitchConfig, SwitchManagement, SwitchNos, SwitchPort, SwitchSpec};
pub use switch_rollout::{
    BgpState, DesiredSwitch, SwitchPhase, SwitchProgress, SwitchReport, SwitchRollout, SwitchSession,
    SwitchStanding,
};
pub use tenant::{Authority, Quota, Role, Tenant};
pub use time::Timestamp;
pub use usage::{AttemptUsage, NicNotifications, ServerUsage};
pub use values::{EnvSource, HiddenEnv, Value, ValueText, Values, ValuesId, ValuesKind};
pub use webhook::{
    JobFilter, Webhook, WebhookEvent, WebhookProgress, WebhookSecret, WebhookSpec, WebhookUrl,
    WebhookUrlError,
};
pub use zone::{Zone, ZoneError};
