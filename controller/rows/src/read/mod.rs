//! Out of rows: checked conversions, one file for each noun. Every wrong field is named, all at once.

mod attempt;
mod audit;
mod common;
mod component;
mod decisions;
mod delivery;
mod drain;
mod endpoints;
mod fabric;
mod fabric_lists;
mod fabric_parts;
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
mod probe;
mod qos;
mod queue;
mod records;
mod request;
mod reservation;
mod schedule;
mod service_class;
mod switch;
mod switch_rollout;
mod tenant;
mod tombstone;
mod usage;
mod values;
mod webhook;

use common::{duration_from_row, time_from_row};
use job::check_job_name;
use metadata::job_labels;
use tenant::role_from_row;

pub use records::resting_name;
pub use tombstone::tombstone;
pub use values::values;
