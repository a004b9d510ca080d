//! Checked conversions between the wire and the domain, one file per noun.
//!
//! Into the domain: `TryFrom`, with every wrong field named at once. Out of it: `From`, which cannot fail.

mod agent;
mod audit;
mod certify;
mod common;
mod component;
mod fabric;
mod fabric_compact;
mod fabric_lists;
mod fields;
mod hardware;
mod health;
mod isolation;
mod job;
mod job_status;
mod license;
mod limits;
mod metadata;
mod node;
mod placement;
mod proof;
mod qos;
mod queue;
mod rails;
mod report;
mod request;
mod reservation;
mod schedule;
mod service_class;
mod step;
mod switch;
mod switch_rollout;
mod tenant;
mod values;
mod webhook;

use fields::{Fields, known};

pub use common::{duration_from_wire, duration_to_wire, time_from_wire, time_to_wire};
pub use fabric_compact::compact as compact_fabric;
pub use fields::{API_VERSION, FieldError, FieldErrors};
pub use isolation::isolation_policy_to_wire;
pub use job::check_job_name;
pub use limits::{LIMITS, SpecLimits};
pub use metadata::job_labels;
pub use node::{hold, labels, node_status_phase, taints};
pub use proof::proofs_from_wire;
pub use qos::{EMPTY_PROFILE, QosOrder};
pub use rails::drained_to_wire;
pub use report::{reported_inventory, reported_observation, reported_usage};
pub use reservation::reservation_phase;
pub use switch_rollout::{SwitchOrder, desired_switch, switch_progress, switch_sessions};
pub use tenant::{role_from_wire, role_to_wire};
pub use values::{env_values, env_values_to_wire};
pub use webhook::{webhook_secret, webhook_secret_to_wire};

#[cfg(test)]
mod documents_tests;
#[cfg(test)]
mod fabric_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod schedule_tests;
#[cfg(test)]
mod tests;
