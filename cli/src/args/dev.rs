//! What is said about local clusters.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use super::{Output, Rate};

#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// Start a cluster: one controller and one agent per node, all on this machine; what of it runs already, stays
    Up(DevUp),
    /// End a cluster with its jobs and remove all that it left
    Down(DevTarget),
    /// Show a cluster's processes, nodes and rails
    Status {
        #[command(flatten)]
        target: DevTarget,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Become another program, after leaving a record of who this is
    #[command(hide = true)]
    Launch(DevLaunch),
    /// Be the FRR of a switch until told to end, or become another program beside it
    #[command(hide = true)]
    Switch(DevSwitch),
    /// Take the cluster down when its owner or an unfinished `up` ends
    #[command(hide = true)]
    Guard(DevGuard),
}

/// Which cluster.
#[derive(Debug, Clone, Args)]
pub struct DevTarget {
    /// Name of the cluster
    #[arg(long, value_name = "NAME", default_value = "dev")]
    pub name: String,
    /// Its folder; default $XDG_STATE_HOME/railyard/dev/NAME
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// What the leaves of a cluster in namespaces are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leaves {
    /// Bridges of the kernel, which nobody configures.
    #[default]
    Bridge,
    /// Switches that run FRR and have an agent.
    Frr,
}

#[derive(Debug, Clone, Args)]
pub struct DevUp {
    #[command(flatten)]
    pub target: DevTarget,
    /// Servers; default 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub nodes: Option<u32>,
    /// Rails, one NIC of every server on each; default 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub rails: Option<u32>,
    /// GPUs per server, pretended; default 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=16))]
    pub gpus: Option<u32>,
    /// Pods into which the servers are split; default 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub pods: Option<u32>,
    /// A network namespace per server and one bridge per leaf (needs root)
    #[arg(long)]
    pub netns: bool,
    /// What each leaf is: a bridge, or (with --netns) a switch of FRR with its agent, below spines of FRR; default bridge
    #[arg(long, value_enum, value_name = "KIND")]
    pub leaves: Option<Leaves>,
    /// With --leaves frr: spines, each cabled to every leaf; default 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub spines: Option<u32>,
    /// Shape every rail to this rate, both directions, for example 400mbit
    #[arg(long, value_name = "RATE", requires = "netns")]
    pub rail_rate: Option<Rate>,
    /// MTU of the rails; default 9000
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1280..=9216))]
    pub mtu: Option<u32>,
    /// Folder with rail-controller, rail-node-agent and rail-engine; default: where railctl is
    #[arg(long, value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
    /// Stay, and take the cluster down on Ctrl-C
    #[arg(long)]
    pub foreground: bool,
    /// Take the cluster down as soon as the writer of standard input is gone
    #[arg(long, hide = true)]
    pub owner_stdin: bool,
}

#[derive(Debug, Clone, Args)]
pub struct DevLaunch {
    /// Where the record goes
    #[arg(long)]
    pub record: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Clone, Args)]
pub struct DevSwitch {
    /// The switch's own folder
    #[arg(long)]
    pub dir: PathBuf,
    /// The cluster's folder
    #[arg(long)]
    pub cluster: PathBuf,
    /// The folder below which FRR's programs are
    #[arg(long)]
    pub frr: PathBuf,
    /// A program that finds what FRR is reached by; without one this process is the switch's FRR
    #[arg(last = true)]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Clone, Args)]
pub struct DevGuard {
    #[command(flatten)]
    pub target: DevTarget,
    /// Process id of `up`
    #[arg(long)]
    pub up_pid: i32,
    /// Its start time, field 22 of /proc/PID/stat
    #[arg(long)]
    pub up_start: u64,
}
