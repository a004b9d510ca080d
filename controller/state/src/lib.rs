//! All that the controller knows: rows, tables with undo, indices, and what can be read from them. No clock, no IO, no randomness.
//!
//! Only `controller-core` changes it. It wraps [`State`] in a type that others can read alone, and changes tables by their setters: these
//! keep the indices true and note in the journal how to undo them.
//!
//! # Floor plan
//!
//! Folders are rooms. From the top: what can be read and worked out (`view`); the tables with their setters, the journal that undoes them,
//! and the loader (`tables`); indices, which are functions of the tables (`index`); what tables hold (`rows`), limits (`config`), and
//! refusals (`error`). A test of `controller-core` compares the plan with the code; arrows only run down.
//! ```text
//! view   -> config error index rows tables
//! tables -> config index rows
//! index  -> rows
//! rows   ->
//! config ->
//! error  ->
//! ```

pub mod config;
pub mod error;
pub mod index;
pub mod rows;
pub mod tables;
pub mod view;

pub use config::Config;
pub use error::{kind::ErrorKind, refusal::CoreError};
pub use index::all::Due;
pub use rows::{
    audit::{AuditRow, BadAudit, Chain, RowSummary, StoredAudit},
    decisions::{DecisionRecord, DecisionRow},
    deleted::{DeletedContent, DeletedKey, DeletedTenant, Tombstone},
    job::{JobEntry, Tally, Transition, fresh_view, gang, gang_size},
    node::{Link, is_drained},
    records::{Attempt, Ending, Outcome, RequestRecord, RestingName, TokenRecord},
    rollout::QosOrder,
    schedules::{ScheduleEntry, ScheduleKey},
    usage::{UsageEnd, UsageKey, UsageRecord, UsageRequest, UsageSize},
    webhooks::{Delivery, DeliveryKey, WebhookKey},
    write::{AttachedWrite, Key, Write},
};
pub use tables::{
    load::{LoadError, Stored},
    state::{Own, Row, State, Undo},
};
pub use view::job::blame::Blame;
