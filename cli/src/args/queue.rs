//! What is said about the order of the queue, and what schedules start.

use clap::Subcommand;

use super::Output;

#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// The waiting jobs in their order, with what puts them there; administrators see all, others their tenant's
    Order {
        /// Only so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Jobs of all tenants (administrators)
        #[arg(short = 'A', long)]
        all_tenants: bool,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Submit a schedule's job now, as a job of yours; the schedule goes on as before
    Run {
        /// The schedule; administrators may write TENANT/SCHEDULE
        name: String,
        /// How to print the job
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}
