//! What is said about simulations and their logs.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use proto_model::{Backfill, LongJobLimit, Objective};

use super::{parse_duration, parse_long_jobs, parse_objective};

/// How a simulation is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SimulationOutput {
    /// A summary for people
    #[default]
    Table,
    /// Summary and every job of every scheduler
    Json,
    /// Every job of every scheduler; the summary goes to standard error
    Csv,
}

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    /// The code of the controller
    Ours,
    /// EASY backfill with tree best fit, as Slurm does it
    Easy,
    /// First come, first served, with tree best fit
    Fifo,
    /// First come, first served, on random servers
    Random,
}

/// A part of what the controller does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PartArg {
    /// Tenants that used less of late go first
    FairShare,
    /// Jobs are stopped for those of higher priority
    Preemption,
    /// Guarantees are kept by stopping who borrows
    Reclaim,
    /// Elastic jobs get more servers when nobody waits, and fewer when others do
    Growth,
}

/// Where a gang asks to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum WithinArg {
    /// Inside one pod
    #[default]
    Pod,
    /// Anywhere; as few pods as there is room for at the time
    Fabric,
}

const HELP: &str = "\
Jobs of 1 to 7 GPUs share a server and hold no NIC; jobs of 8 and more take whole servers and all rails, so many that \
all their GPUs find room (--whole-from, --shared-rails, --rails). Virtual clusters or groups of the trace are tenants, \
whose quota is the whole cluster. Every placement of every scheduler is proved by the independent checkers; a violation \
ends the command with 1. The same input gives the same output, to the byte.

Ours decides as a controller does that was told nothing else: so deep, with fair share, preemption, reclaim and growth \
(--depth, --without); the first line of the report says what is different.

Load is the GPU time that the jobs hold / (GPUs of the cluster x time from the first submit to the last).";

/// Replay a trace of jobs on a fabric, through the scheduler of the controller and beside others
///
/// Nothing is asked of a cluster, and nothing is written but what --out and --log say.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct Simulate {
    /// Where: a Fabric document (YAML or JSON), a cabling list (CSV), or sizes such as nodes=512,rails=8,radix=64,pod=32
    #[arg(long, value_name = "FILE|SIZES")]
    pub fabric: String,
    /// What: the site's own history (railctl history export), Philly CSV, Alibaba openb pods, the Standard Workload
    /// Format, or statistics of clusters (AcmeTrace); - reads standard input
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Which cluster of a file of statistics to draw jobs for; the one with the most GPUs per job if not given
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Stretch or press the times between submits until the jobs offer this load; if not given 0.95, but of a history as it was
    #[arg(long, value_name = "LOAD", conflicts_with = "speedup")]
    pub load: Option<f64>,
    /// Divide the times between submits by this, whatever load that gives
    #[arg(long, value_name = "FACTOR")]
    pub speedup: Option<f64>,
    /// Only jobs submitted so long after the first one of the trace
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub from: Option<Duration>,
    /// Only jobs submitted earlier than so long after the first one of the trace
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub until: Option<Duration>,
    /// At most so many jobs; of statistics, so many are drawn (10000 if not given)
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Who decides, one beside the other
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["ours", "easy", "fifo", "random"])]
    pub policy: Vec<PolicyArg>,
    /// For all that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Owners ask for at most so many times the time that they need, where the trace does not say it; 1: they know
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub estimate: f64,
    /// What each server is, where they differ: a CSV list with the columns of Alibaba openb's lists of nodes (sn,cpu_milli,memory_mib,gpu,model;
    /// sn and gpu are needed). Jobs then ask for the CPUs, the memory and the GPU model that the trace says. By the fabric's names, or in
    /// their order
    #[arg(long, value_name = "FILE", conflicts_with = "gpus_per_node")]
    pub servers: Option<PathBuf>,
    /// GPUs of each server
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub gpus_per_node: u32,
    /// Jobs of so many GPUs and more take whole servers
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub whole_from: u32,
    /// Rails of jobs on whole servers; 0: all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rails: u32,
    /// Rails that a job which shares its server holds for itself
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub shared_rails: u32,
    /// Where gangs that fit into one pod ask to lie; other schedulers than ours cannot be asked
    #[arg(long, value_enum, default_value_t)]
    pub within: WithinArg,
    /// Large jobs have a head start in our queue: a job goes as if it had been submitted earlier, by this for every
    /// doubling of its GPUs
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub head_start: Option<Duration>,
    /// The same for EASY, which Slurm does by the weight of a job's size
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub easy_head_start: Option<Duration>,
    /// What the order of our queue is for, where no queue of a history says it: mean-wait, large-first (both with a patience:
    /// mean-wait:2d; and with the GPU-hours that are put back by all of it, fewer by the square of their part: mean-wait:16d:12000)
    /// or fair; by age if not given. The head start counts for age and mean-wait
    #[arg(long, value_name = "OBJECTIVE", value_parser = parse_objective)]
    pub objective: Option<Objective>,
    /// What small jobs that may run for long hold together at most in our queue: 72h:8:100 for 100 GPUs for jobs of fewer than 8 whose
    /// time limit is 72 hours or more, as rail-controller run --long-jobs
    #[arg(long, value_name = "TIME:BELOW:GPUS", value_parser = parse_long_jobs)]
    pub long_jobs: Option<LongJobLimit>,
    /// Who may start before jobs that wait ahead in our queue: CONSERVATIVE, EASY or for example SLACK(30min), as
    /// rail-controller run --backfill
    #[arg(long, value_name = "RULE", default_value_t)]
    pub backfill: Backfill,
    /// Leave out something that the controller does; the report says so in its first line
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    pub without: Vec<PartArg>,
    /// Waiting jobs that one look of our queue takes in; as many as the controller's if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Run the controller's settings and the baselines on the same jobs, and show what short waits of large jobs cost the
    /// others: the Pareto front, and which setting to take
    #[arg(long, conflicts_with_all = ["policy", "objective", "head_start", "backfill", "long_jobs", "log"])]
    pub sweep: bool,
    /// End with 2 if a row of the trace cannot be used
    #[arg(long)]
    pub strict: bool,
    /// Write summary.txt, summary.json, jobs.csv, and the plots as SVG and PNG into this folder; of a sweep sweep.txt,
    /// sweep.json and the plot of the trade
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write what the controller's scheduler was told and what it decided, for railctl replay
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: SimulationOutput,
}

/// Decide a log of decisions again, and prove that nothing differs
///
/// What the scheduler was told then is told to it again; every decision is compared with the log's, and every placement
/// is proved by the independent checkers. Ends with 1 at the first difference or violation, and names it.
#[derive(Debug, Args)]
pub struct ReplayLog {
    /// What simulate --log wrote; - reads standard input
    pub file: PathBuf,
    /// The fabric in place of the one in the log: a Fabric document, a cabling list or sizes, as for simulate
    #[arg(long, value_name = "FILE|SIZES")]
    pub fabric: Option<String>,
}
