//! What is said about jobs.

use std::{path::PathBuf, time::Duration};

use clap::{ArgGroup, Args};
use proto_wire::v1;

use super::{
    Asked, Moment, Output, PhaseArg, parse_duration, parse_label, parse_moment, parse_ranks, values,
};

/// A file, given as an argument or by `-f`.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Source {
    /// The job file (YAML or JSON), or a batch script with #SBATCH lines; - reads standard input
    #[arg(value_name = "FILE")]
    pub positional: Option<PathBuf>,
    /// The same, for those who are used to it
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub flag: Option<PathBuf>,
    /// No file: this command for a shell, on one server and without GPUs and rails unless flags say otherwise
    #[arg(long, value_name = "COMMAND")]
    pub wrap: Option<String>,
}

/// What is said of a job in place of its file.
#[derive(Debug, Args)]
#[command(next_help_heading = "What the job is, in place of its file")]
pub struct InPlace {
    /// Servers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// GPUs of each server
    #[arg(long, value_name = "GPUS")]
    pub gpus_per_node: Option<u32>,
    /// How long it may run, for example 2h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub time_limit: Option<Duration>,
    /// Queue of the tenant
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// The only servers that it may have, for example gpu[001-004]; at least as many as it has
    #[arg(long, short = 'w', value_name = "NODES", value_delimiter = ' ')]
    pub nodelist: Vec<String>,
    /// A variable of its environment. May be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = values::parse_variable)]
    pub variables: Vec<(String, String)>,
    /// Variables of its environment that are in a secret or a config of the tenant: all of its keys, or one. May be repeated
    #[arg(long, value_name = "[NAME=]secret/OBJECT[:KEY]", value_parser = super::parse_env_from)]
    pub env_from: Vec<v1::EnvSource>,
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
    /// Hold it from the beginning: it does not start until `railctl release`
    #[arg(long, conflicts_with = "wait")]
    pub hold: bool,
    /// Check the file and show where the job would run; nothing is stored
    #[arg(long)]
    pub dry_run: bool,
    /// Name of the job, in place of the file's
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// With --wait: give up waiting after this time (exit 7); the job goes on
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait")]
    pub timeout: Option<Duration>,
    /// Of a job that fails while it is waited for, print so many of the last lines of the ranks that failed first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub tail: u32,
    #[command(flatten)]
    pub in_place: InPlace,
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
    pub in_place: InPlace,
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
    /// Of this attempt of the job: 1 is the first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Of the attempt before the present one
    #[arg(short, long, conflicts_with = "attempt")]
    pub previous: bool,
    /// Only what was written then or later: 10m for so long ago, or 2026-08-20T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub since: Option<Moment>,
    /// Begin each line with the time when it was written
    #[arg(long)]
    pub timestamps: bool,
    /// Only what was written to standard output
    #[arg(long, conflicts_with = "stderr")]
    pub stdout: bool,
    /// Only what was written to standard error
    #[arg(long)]
    pub stderr: bool,
}

#[derive(Debug, Args)]
pub struct Attach {
    /// The job, or an element of an array such as sweep[3]; administrators may write TENANT/JOB
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Begin with so many of the last lines of each rank
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub tail: u32,
    /// Only these ranks: 3, 0-7, or 0,2,4-6; may be repeated
    #[arg(long = "rank", value_name = "N", value_parser = parse_ranks)]
    pub ranks: Vec<Vec<u32>>,
}

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("chosen").required(true).multiple(true).args(["jobs", "queue", "user", "phase", "labels"])
))]
pub struct Cancel {
    /// Jobs, arrays, or elements of one such as sweep[3,7-9]; administrators may write TENANT/JOB
    #[arg(value_name = "JOB", conflicts_with_all = ["queue", "user", "phase", "labels"])]
    pub jobs: Vec<String>,
    /// In place of names: all jobs of this queue that have not ended
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Only those that this user has submitted
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Only those in these phases
    #[arg(long, value_name = "PHASE", value_enum, value_delimiter = ',', ignore_case = true)]
    pub phase: Vec<PhaseArg>,
    /// Only those with this label; may be repeated
    #[arg(short = 'l', long = "label", visible_alias = "selector", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// Do not ask. Without it jobs that are not named are ended on a terminal only, where it asks
    #[arg(long, short = 'y')]
    pub yes: bool,
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
