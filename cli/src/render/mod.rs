//! Answers as people and programs read them: tables, canonical JSON, YAML, names.

mod accounting;
mod audit;
mod cabling;
mod canonical;
mod classes;
mod describe;
pub mod doctor;
mod events;
mod fabric;
mod field;
mod gpudirect;
mod isolation;
mod jobs;
mod licenses;
mod list;
mod nodes;
mod order;
mod paint;
mod qos;
mod rails;
mod schedules;
mod secrets;
mod server;
mod sharing;
mod slurm;
mod switch_rollout;
mod switches;
mod table;
mod tenants;
mod usage;
mod webhooks;
mod words;
mod work;

pub use accounting::{usage_left_out, usage_name, usage_record_name, usage_records, usage_sums, usage_total};
pub use audit::{audit, audit_number, time};
pub use cabling::{differences, drawn_topology, picture, signs, verdict};
pub use canonical::{to_json, to_value, to_whole_value, to_yaml};
pub use classes::service_classes;
pub use describe::{
    config as describe_config, job as describe_job, license as describe_license, measured as describe_result,
    node as describe_node, placement as describe_placement, queue as describe_queue,
    reservation as describe_reservation, schedule as describe_schedule, secret as describe_secret,
    service_class as describe_service_class, switch as describe_switch, tenant as describe_tenant,
    webhook as describe_webhook,
};
pub use events::{Event, of_job as job_events, of_node as node_events};
pub use fabric::{fabric, health, topology};
#[cfg(test)]
pub use jobs::tests::{pending as pending_job, running as running_job};
pub use jobs::{ended_jobs, gang_words, job_row, jobs, jobs_header, reasons};
pub use licenses::licenses;
pub use list::{Answer, Behind, Kind, check as check_list, list, one};
pub use nodes::nodes;
#[cfg(test)]
pub use nodes::tests::node as node_for_tests;
pub use order::{queue_order, shares};
pub use paint::{Paint, Tone};
pub use qos::{qos, qos_plan, qos_progress};
pub use rails::{choices, node_rails, rail_names, rails};
pub use schedules::schedules;
pub use secrets::{configs, secrets};
pub use sharing::{queues, reservations};
pub use slurm::{jobs as slurm_jobs, nodes as slurm_nodes};
pub use switch_rollout::{switch_plan, switch_progress, switch_rollout};
pub use switches::switches;
pub use table::{Table, clean, escape};
pub use tenants::{deleted, deleted_content, revocations, tenants, tokens};
pub use usage::{Efficiency, job_usage, node_usage};
pub use webhooks::webhooks;
pub use words::{job_phase, millis, role, seconds};

use crate::{args::Output, error::Error};

/// One answer in the format that was asked for. `names` are the kind/name lines of `-o name`.
///
/// # Errors
/// [`Error::Config`] if the message has a value that JSON cannot express.
pub fn render<M: prost::Message>(
    output: Output,
    message: &M,
    full_name: &str,
    names: impl FnOnce() -> Vec<String>,
    table: impl FnOnce(bool) -> String,
) -> Result<String, Error> {
    match output {
        Output::Table => Ok(table(false)),
        Output::Wide => Ok(table(true)),
        Output::Json => to_json(message, full_name),
        Output::Yaml => to_yaml(message, full_name),
        Output::Name => Ok(names().into_iter().map(|name| name + "\n").collect()),
    }
}
