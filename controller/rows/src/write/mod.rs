//! Into rows: conversions that cannot fail, one file for each noun.

mod attempt;
mod audit;
mod common;
mod component;
mod decisions;
mod delivery;
mod drain;
mod endpoints;
mod fabric;
mod fabric_compact;
mod hardware;
mod health;
mod isolation;
mod job;
mod job_status;
mod license;
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

use common::{duration_to_row, time_to_row};
use tenant::role_to_row;

pub(crate) use fabric_compact::compact as compact_fabric;
