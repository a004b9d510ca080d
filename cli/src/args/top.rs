//! What is said about what is used now.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{ListArgs, parse_duration};

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TopNoun {
    /// Servers
    #[value(alias = "node")]
    Nodes,
    /// Running jobs
    #[value(alias = "job")]
    Jobs,
}

#[derive(Debug, Args)]
pub struct Top {
    /// Servers or running jobs
    #[arg(value_name = "KIND", value_enum)]
    pub noun: TopNoun,
    /// Show it again and again, until Ctrl-C
    #[arg(short, long)]
    pub watch: bool,
    /// With --watch: how often
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s", requires = "watch")]
    pub every: Duration,
    #[command(flatten)]
    pub list: ListArgs,
}

/// `seff`.
#[derive(Debug, Args)]
pub struct Efficiency {
    /// The job, or an element of an array such as sweep-3; administrators may write TENANT/JOB
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Print it as JSON
    #[arg(short, long, value_enum, default_value_t)]
    pub output: super::Output,
}
