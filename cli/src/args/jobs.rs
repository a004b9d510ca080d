//! What is said about jobs.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::{Asked, Moment, Output, parse_duration, parse_moment, parse_ranks};

/// A file, given as an argument or by `-f`.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Source {
    /// The job file (YAML or JSON); - reads standard input
    #[arg(value_name = "FILE")]
    pub positional: Option<PathBuf>,
    /// The same, for those who are used to it
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub flag: Option<PathBuf>,
}

impl Source {
    /// The file that was given; clap has seen to it that there is one.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.positional.clone().or_else(|| self.flag.clone()).unwrap_or_else(|| PathBuf::from("-"))
    }
}

#[derive(Debug, Args)]
pub struct Submit {
    #[command(flatten)]
    pub source: Source,
    /// Wait until the job has ended; the exit code tells how
    #[arg(long)]
    pub wait: bool,
    /// Check the file and show where the job would run; nothing is stored
    #[arg(long)]
    pub dry_run: bool,
    /// Name of the job, in place of the file's
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// With --wait: give up waiting after this time (exit 7); the job goes on
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait")]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub asked: Asked,
    /// How to print the job
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub asked: Asked,
    /// How to print the plan
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Logs {
    /// The job, an array, or elements of one such as sweep[3,7-9]; administrators may write TENANT/JOB
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Go on until the job ends
    #[arg(short, long)]
    pub follow: bool,
    /// Only these ranks: 3, 0-7, or 0,2,4-6; may be repeated
    #[arg(long = "rank", value_name = "N", value_parser = parse_ranks)]
    pub ranks: Vec<Vec<u32>>,
    /// Only the last N lines of each rank
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tail: Option<u32>,
}

#[derive(Debug, Args)]
pub struct Cancel {
    /// The job, an array, or elements of one such as sweep[3,7-9]; administrators may write TENANT/JOB
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Between SIGTERM and SIGKILL, in place of the job's own
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub grace: Option<Duration>,
    /// Wait until the job has ended
    #[arg(long)]
    pub wait: bool,
    /// With --wait: give up waiting after this time (exit 7)
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait")]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// The job, with or without the word `job` before it; of an array an element, such as sweep[3]
    #[arg(value_name = "JOB", required = true, num_args = 1..=2)]
    pub job: Vec<String>,
    /// What was so at that time, from the decision log: 2026-08-20T10:00:00Z, or how long ago, such as 90m
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub at: Option<Moment>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
