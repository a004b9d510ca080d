//! What is said about tenants, servers, the topology and railctl's own configuration.

use std::{path::PathBuf, time::Duration};

use clap::{Subcommand, ValueEnum};

use super::{Output, parse_duration, values::parse_shape};

/// The largest quota of room in the store: 1 PiB.
const MAX_STORED_MIB: u64 = 1 << 30;

/// A role that a credential can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// Runs the cluster
    Admin,
    /// Runs one tenant
    TenantAdmin,
    /// Submits and cancels jobs of its tenant
    User,
    /// Reads what its tenant has
    Viewer,
}

/// How much isolation a tenant's jobs must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum IsolationArg {
    /// What servers can give.
    BestEffort,
    /// All that keeps tenants apart, or the job waits.
    Required,
}

impl From<IsolationArg> for i32 {
    fn from(arg: IsolationArg) -> Self {
        match arg {
            IsolationArg::BestEffort => proto_wire::v1::IsolationPolicy::BestEffort.into(),
            IsolationArg::Required => proto_wire::v1::IsolationPolicy::Required.into(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Create a tenant
    Create {
        /// Its name
        name: String,
        /// GPUs that its running jobs may hold together
        #[arg(long, value_name = "N")]
        gpus: u32,
        /// Jobs that it may have which have not ended; 0 means the server's limit
        #[arg(long, value_name = "N", default_value_t = 0)]
        jobs: u32,
        /// Room in the controller's store for its jobs, in MiB; 0 means the server's limit
        #[arg(long, value_name = "MIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MAX_STORED_MIB))]
        stored_mib: u64,
        /// How much isolation its jobs must have; the cluster's own setting holds where that is stricter
        #[arg(long, value_enum, default_value_t = IsolationArg::BestEffort)]
        isolation: IsolationArg,
        /// For people
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
        /// Take the name of a tenant that was deleted not long ago, which rests otherwise
        #[arg(long)]
        reuse_name: bool,
    },
    /// Change a tenant's quota; what is not given stays
    SetQuota {
        /// Its name
        name: String,
        /// GPUs that its running jobs may hold together
        #[arg(long, value_name = "N", required_unless_present_any = ["jobs", "guaranteed", "weight", "stored_mib", "schedules", "isolation"])]
        gpus: Option<u32>,
        /// Jobs that it may have which have not ended; 0 means the server's limit
        #[arg(long, value_name = "N")]
        jobs: Option<u32>,
        /// What it can always have, for example pods=1,nodes=2,gpus=4
        #[arg(long, value_name = "SHAPE", value_parser = parse_shape)]
        guaranteed: Option<proto_wire::v1::Shape>,
        /// Share of what is free, against other tenants' weights
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        weight: Option<u32>,
        /// Room in the controller's store for its jobs, in MiB; 0 means the server's limit
        #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(..=MAX_STORED_MIB))]
        stored_mib: Option<u64>,
        /// Schedules that it may have; 0 means the server's limit
        #[arg(long, value_name = "N")]
        schedules: Option<u32>,
        /// How much isolation its jobs must have; the cluster's own setting holds where that is stricter
        #[arg(long, value_enum)]
        isolation: Option<IsolationArg>,
    },
    /// Make a key here and have the cluster sign a certificate for it
    IssueCert {
        /// The user's name
        user: String,
        /// What the user may do
        #[arg(long, value_enum, default_value_t = RoleArg::User)]
        role: RoleArg,
        /// How long it is valid, at most 30d
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        lifetime: Option<Duration>,
        /// Folder for USER.pem and USER.key
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
        /// Also add a context of this name to the configuration file
        #[arg(long, value_name = "NAME")]
        add_context: Option<String>,
    },
    /// Print a bearer token for a program that cannot hold a certificate
    IssueToken {
        /// The user's name
        user: String,
        /// What the user may do
        #[arg(long, value_enum, default_value_t = RoleArg::User)]
        role: RoleArg,
        /// How long it is valid
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        lifetime: Option<Duration>,
    },
}

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Print a single-use token with which the server NAME may join
    Token {
        /// The server
        name: String,
        /// How long it is valid, at most 10m
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        lifetime: Option<Duration>,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Place no new job on a server; running ones go on
    Cordon {
        /// The server
        name: String,
        /// Why; shown to users
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Set labels that jobs select servers by: KEY=VALUE, or KEY- to remove one; without any, show them
    Label {
        /// The server
        name: String,
        /// KEY=VALUE sets, KEY- removes
        #[arg(value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
    /// Set taints that keep jobs off unless they tolerate them: KEY or KEY=VALUE, or KEY- to remove; without any, show them
    Taint {
        /// The server
        name: String,
        /// KEY or KEY=VALUE sets, KEY- removes
        #[arg(value_name = "KEY[=VALUE]")]
        changes: Vec<String>,
    },
    /// Take a server back into service that was benched because it failed jobs
    Return {
        /// The server
        name: String,
    },
    /// Let a server be used again
    Uncordon {
        /// The server
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the configuration file, secrets left out
    View,
    /// Make a context the current one
    Use {
        /// The context
        name: String,
    },
}
