//! What is said about rollouts to switches.

use std::time::Duration;

use clap::Args;

use super::{Output, parse_duration};

#[derive(Debug, Args)]
#[command(
    after_help = "What a switch is to have follows from the profile that is rolled out to NICs (`railctl qos apply`), the fabric document, and what \
                  is known of each switch. A rollout is ended by `railctl switch cancel`, and goes back by `railctl switch rollback`."
)]
pub struct SwitchApply {
    /// Why; shown to administrators
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// The leaf that is first; default: one whose servers run few jobs
    #[arg(long, value_name = "SWITCH", default_value = "")]
    pub canary: String,
    /// What nobody confirms for so long is taken back by the switch itself (10s to 1h); default: 60s, or 5m where a switch has to load its whole
    /// configuration
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub confirm_within: Option<Duration>,
    /// A switch has to be well with it for so long before it is confirmed
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    pub soak: Duration,
    /// Switches out of use at a time, at most; never two that serve one server
    #[arg(long, value_name = "SWITCHES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub at_once: u32,
    /// Also where a job loses its last rail: it stands still until the rail is back
    #[arg(long)]
    pub force: bool,
    /// Only tell what it would do, switch by switch: every setting that changes, what that does to traffic, and which jobs it touches; nothing begins
    #[arg(long, conflicts_with = "wait")]
    pub dry_run: bool,
    /// Wait until every switch that is connected has it, or until it pauses or is cancelled (exit 1)
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
pub struct SwitchControl {
    /// Why; shown to administrators
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct SwitchToken {
    /// The switch
    pub name: String,
    /// How long it is valid, at most 10m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub lifetime: Option<Duration>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
