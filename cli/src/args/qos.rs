//! What is said about class of service.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use super::{Output, parse_duration};

#[derive(Debug, Subcommand)]
pub enum QosCommand {
    /// Show the edits that would bring NICs to a profile, what each does to traffic, and its undo; no cluster is asked
    Plan(QosOffline),
    /// Show what differs from a profile and what that does to RDMA (exit 1 if anything does, or if a data class was not read whole); no cluster is asked
    Diff(QosOffline),
    /// Roll a profile out: a canary's rails one by one, one rail of its pod, the pod, the other pods
    Apply(QosApply),
    /// Show the rollout, how far it is, and what it waits for
    Status {
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Stop for now: what is on trial is taken back, what is kept stays
    Pause(QosSteer),
    /// Go on, and try again what failed
    Resume(QosSteer),
    /// Roll out the profile that was there before, in the same stages
    Rollback(QosSteer),
    /// End a rollout for good: what is on trial is taken back, servers that were not begun stay as they are, what is kept stays; `rollback` takes that back
    Cancel(QosSteer),
}

/// A profile and recorded NICs.
#[derive(Debug, Args)]
pub struct QosOffline {
    /// NICs as `rail-node-agent qos read` prints them on a server; - for standard input
    #[arg(long, value_name = "FILE")]
    pub nics: PathBuf,
    /// The profile (JSON); default: data DSCP 26 on priority 3, lossless, CNP DSCP 48, MTU 9000
    #[arg(short = 'f', long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// No job runs there: edits that harm traffic may be made
    #[arg(long)]
    pub drained: bool,
    /// Plan edits that harm traffic although jobs may run
    #[arg(long)]
    pub force: bool,
    /// Take DCBX over from firmware or from an agent such as lldpad
    #[arg(long)]
    pub take_dcbx: bool,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: QosOutput,
}

/// Text or JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum QosOutput {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Which settings of a NIC differ from the profile its server finds when its turn comes; `railctl qos plan` shows it for recorded \
                  NICs. A rollout is ended by `railctl qos cancel`, and goes back by `railctl qos rollback`."
)]
pub struct QosApply {
    /// The profile (JSON); one that says nothing (`{}`) is refused: the profile that is built in is {"name": "roce-lossless"}
    #[arg(short = 'f', long, value_name = "FILE")]
    pub profile: PathBuf,
    /// Why; shown to administrators
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// The server that is first; default: one that takes jobs and holds fewest
    #[arg(long, value_name = "NODE", default_value = "")]
    pub canary: String,
    /// What nobody confirms for so long is taken back by its server (10s to 1h)
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    pub confirm_within: Duration,
    /// A NIC has to be well with it for so long before it is confirmed
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    pub soak: Duration,
    /// NICs out of use at a time, at most; on the canary it is one
    #[arg(long, value_name = "NICS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub at_once: u32,
    /// Also where a job loses its last rail: it stands still until the rail is back
    #[arg(long)]
    pub force: bool,
    /// Only tell what it would do, stage by stage: which NICs are taken out of use, how many at a time, which jobs move off them; nothing begins
    #[arg(long, conflicts_with = "wait")]
    pub dry_run: bool,
    /// Wait until every NIC that is heard has it, or until it pauses or is cancelled (exit 1)
    #[arg(long)]
    pub wait: bool,
    /// With --wait: give up waiting after this time (exit 7); the rollout goes on
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait", default_value = "1h")]
    pub timeout: Duration,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct QosSteer {
    /// Why; shown to administrators
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
