//! What is said about what attempts of jobs held.

use clap::{Args, Subcommand, ValueEnum};

use super::{ListArgs, Moment, parse_moment};

/// Sums that a controller gives at most.
const MOST_SUMS: i64 = 10_000;

/// `usage`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Usage {
    #[command(subcommand)]
    pub command: Option<UsageCommand>,
    #[command(flatten)]
    pub sum: UsageSum,
}

#[derive(Debug, Subcommand)]
pub enum UsageCommand {
    /// List the attempts of jobs, one a line, as Slurm's sacct does: first those that have ended, the oldest first, then those that run
    #[command(visible_alias = "ls")]
    List(UsageList),
}

/// Which attempts.
#[derive(Debug, Args)]
pub struct UsageFilter {
    /// From then on: 30d for so long ago, 2026-08-20 (from midnight on, UTC) or 2026-08-20T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_moment, default_value = "30d")]
    pub since: Moment,
    /// Up to then, a date up to its begin at midnight, UTC; without it up to now
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub until: Option<Moment>,
    /// Only of jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Only of jobs that this user submitted
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Of all tenants (administrators), also where the context names one
    #[arg(short = 'A', long)]
    pub all_tenants: bool,
}

/// `usage` without more.
#[derive(Debug, Args)]
pub struct UsageSum {
    /// What is summed over
    #[arg(long, value_enum, default_value_t)]
    pub by: UsageBy,
    #[command(flatten)]
    pub filter: UsageFilter,
    /// So many lines at most, those with the most GPU time; without it 1000 in tables, 10000 in other formats
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_SUMS))]
    pub limit: Option<u32>,
    #[command(flatten)]
    pub list: ListArgs,
}

impl UsageSum {
    /// Lines at most: for programs as many as a controller gives.
    #[must_use]
    pub fn lines(&self) -> u32 {
        let most = u32::try_from(MOST_SUMS).unwrap_or(u32::MAX);
        self.limit.unwrap_or(if self.list.for_people() { 1000 } else { most })
    }
}

/// `usage list`.
#[derive(Debug, Args)]
pub struct UsageList {
    #[command(flatten)]
    pub filter: UsageFilter,
    /// So many lines at most; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub limit: u32,
    #[command(flatten)]
    pub list: ListArgs,
}

/// What is summed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum UsageBy {
    /// Tenants
    #[default]
    Tenant,
    /// Queues of tenants
    Queue,
    /// Users of tenants, by who submitted the job
    User,
    /// Jobs
    Job,
}
