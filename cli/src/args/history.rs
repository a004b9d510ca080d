//! What is said about the jobs that have ended.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{EventOutput, ListArgs, Moment, parse_moment};

#[derive(Debug, Subcommand)]
pub enum HistoryCommand {
    /// Write the jobs that have ended as JSON lines, for `railctl simulate --trace`
    ///
    /// With them goes what tenants and queues have. Of a job there is all that its order and its place depend on, but
    /// neither what it ran nor names of servers. Jobs that were deleted are not there any more.
    #[command(after_help = "Examples:\n  railctl history export -A --out site.jsonl\n  \
                      railctl simulate --fabric fabric.yaml --trace site.jsonl --speedup 1 --sweep")]
    Export(HistoryExport),
    /// List the jobs that have ended, with exit codes and times, the last first
    Jobs {
        /// Only jobs that ended then or later: 1d for so long ago, or 2026-08-20T10:00:00Z
        #[arg(long, value_name = "TIME", value_parser = parse_moment, default_value = "1d")]
        since: Moment,
        /// Of all tenants (administrators)
        #[arg(short = 'A', long)]
        all_tenants: bool,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show the life of one job: its attempts, holds and end, and, for whoever may read the audit log, who changed it
    Job {
        /// The job, or an element of an array such as sweep[3]
        #[arg(value_name = "JOB")]
        name: String,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: EventOutput,
    },
}

/// `history export`.
#[derive(Debug, Args)]
pub struct HistoryExport {
    /// Of all tenants
    #[arg(short = 'A', long)]
    pub all_tenants: bool,
    /// Only jobs that were not submitted before: 2026-08-20T10:00:00Z, or 90d for so long ago
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub since: Option<Moment>,
    /// Only jobs that were not submitted after
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub until: Option<Moment>,
    /// The file, which must not be there; without it to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
