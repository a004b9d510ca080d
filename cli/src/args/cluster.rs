//! What is said about tenants, servers, the topology and railctl's own configuration.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};

use super::{ListArgs, Output, parse_duration, values::parse_shape};

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
    /// List servers, as `get nodes` does
    #[command(visible_alias = "list")]
    Ls(ListArgs),
    /// Place no new job on servers; running ones go on
    Cordon {
        /// Servers, also as n[0-7]
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
        /// Why; shown to users
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Place no new job on servers, and wait until nothing runs there any more
    Drain(DrainNodes),
    /// Set labels that jobs select servers by: KEY=VALUE, or KEY- to remove one; without any, show them
    Label {
        /// Servers, as n0 or n[0-7]
        #[arg(value_name = "NODE")]
        node: String,
        /// KEY=VALUE sets, KEY- removes
        #[arg(value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
    /// Set taints that keep jobs off unless they tolerate them: KEY or KEY=VALUE, or KEY- to remove; without any, show them
    Taint {
        /// Servers, as n0 or n[0-7]
        #[arg(value_name = "NODE")]
        node: String,
        /// KEY or KEY=VALUE sets, KEY- removes
        #[arg(value_name = "KEY[=VALUE]")]
        changes: Vec<String>,
    },
    /// Take servers back into service that were quarantined because they failed jobs
    Return {
        /// Servers, also as n[0-7]
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
    },
    /// Let servers be used again
    #[command(visible_alias = "undrain")]
    Uncordon {
        /// Servers, also as n[0-7]
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
    },
}

/// `node drain`.
#[derive(Debug, Args)]
pub struct DrainNodes {
    /// Servers, also as n[0-7]
    #[arg(required = true, value_name = "NODE")]
    pub nodes: Vec<String>,
    /// Why; shown to users
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// Stop what runs there, as a preemption would, and queue it again at once: it goes on elsewhere, from its last checkpoint
    #[arg(long)]
    pub requeue: bool,
    /// Do not wait
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
    /// Give up waiting after this time (exit 7); the servers stay cordoned
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
}

/// `login`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railctl login prod --controller https://rail.example:7443 --ca ca.pem --cert ann.pem --key ann.key\n  \
                  railctl login prod --controller https://rail.example:7443 --ca ca.pem --token-stdin < token\n  \
                  railctl login prod --controller https://rail.example:7443 --ca ca.pem --oidc --issuer https://idp.example/realms/site --client-id railctl"
)]
pub struct Login {
    /// The context that is made or changed, and becomes the current one
    #[arg(value_name = "CONTEXT", default_value = "default")]
    pub name: String,
    /// Read the token from standard input, so that it is in no command line
    #[arg(long, conflicts_with_all = ["token", "cert", "key"])]
    pub token_stdin: bool,
    /// Sign on at an OpenID provider, in a browser on any machine
    #[arg(long, conflicts_with_all = ["token", "token_stdin", "cert", "key"])]
    pub oidc: bool,
    /// The provider's issuer; default: that of the context
    #[arg(long, value_name = "URL", requires = "oidc")]
    pub issuer: Option<String>,
    /// The id that the provider knows railctl by; default: that of the context
    #[arg(long, value_name = "ID", requires = "oidc")]
    pub client_id: Option<String>,
    /// File with the certificates (PEM) that the provider is trusted by; default: those of the system
    #[arg(long, value_name = "FILE", requires = "oidc")]
    pub oidc_ca: Option<std::path::PathBuf>,
    /// What the provider is asked for, words separated by spaces; many give what renews a token for offline_access alone
    #[arg(long, value_name = "WORDS", requires = "oidc")]
    pub scopes: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the configuration file, secrets left out
    View,
    /// List contexts, the current one marked
    #[command(visible_aliases = ["ls", "list"])]
    GetContexts,
    /// Print the name of the current context
    CurrentContext,
    /// Make a context the current one
    #[command(visible_alias = "use-context")]
    Use {
        /// The context
        name: String,
    },
    /// Make or change a context of --controller, --ca, --cert, --key, --token and --tenant; what is not given stays
    #[command(
        after_help = "Example:\n  railctl config set-context prod --controller https://rail.example:7443 --ca ca.pem \
                      --cert ann.pem --key ann.key --current"
    )]
    SetContext {
        /// The context
        name: String,
        /// Make it the current one
        #[arg(long)]
        current: bool,
    },
    /// Remove a context; its files stay
    DeleteContext {
        /// The context
        name: String,
    },
}
