//! Settings of `run` and `inventory`. Every one is a flag and a `RAIL_*` variable; a flag wins.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use node_agent_host::RailRule;
use node_agent_rank::cgroup::limits::RankGroups;
use proto_model::NodeName;
use proto_rpc::{CaPin, Endpoint, telemetry::LogFormat};

use crate::rank_arguments::RankArguments;

/// What this server is said to have.
#[derive(Debug, Clone, Args)]
pub struct InventoryArguments {
    /// Inventory file (JSON, shape of rail.v1.Inventory) instead of this machine's own hardware
    #[arg(long, env = "RAIL_INVENTORY")]
    pub inventory: Option<PathBuf>,
    /// Which NIC serves which rail: auto, pci, pattern:NAME{k}, map:DEVICE=RAIL,..., subnet:10.0.{k}.0/24 or lldp:SWITCH{k}
    #[arg(long, env = "RAIL_RAILS", default_value = "auto")]
    pub rails: RailRule,
}

/// `rail-node-agent run`.
#[derive(Debug, Clone, Args)]
pub struct RunArguments {
    /// The controller: https://host:port or unix:/path; several addresses of one cluster by commas
    #[arg(long, env = "RAIL_CONTROLLER", value_delimiter = ',', required = true)]
    pub controller: Vec<Endpoint>,
    /// This server's name in the cluster
    #[arg(long, env = "RAIL_NODE")]
    pub node: NodeName,
    /// Identity, epoch and jobs; private to the agent's user
    #[arg(long, env = "RAIL_DATA_DIR", default_value = "/var/lib/rail-node-agent")]
    pub data_dir: PathBuf,
    /// Single-use token to join with; needed only while there is no certificate
    #[arg(long, env = "RAIL_JOIN_TOKEN", hide_env_values = true)]
    pub join_token: Option<String>,
    /// A file with that token, in place of the token itself; it need not be there once this server has joined
    #[arg(long, env = "RAIL_JOIN_TOKEN_FILE", value_name = "FILE", conflicts_with = "join_token")]
    pub join_token_file: Option<PathBuf>,
    /// The controller's CA: sha256:HEX, as shown with the token; several with commas between them, or repeated
    #[arg(long, env = "RAIL_CA_PIN", value_delimiter = ',')]
    pub ca_pin: Vec<CaPin>,
    #[command(flatten)]
    /// What this server has
    pub inventory: InventoryArguments,
    /// Serve Prometheus metrics, /livez, /readyz and /healthz on this loopback address (port 0: any free one)
    #[arg(long, env = "RAIL_METRICS")]
    pub metrics: Option<SocketAddr>,
    /// The program rail-engine; default: beside this program
    #[arg(long, env = "RAIL_ENGINE")]
    pub engine: Option<PathBuf>,
    /// Bytes of one log file of a rank; each rank has at most two
    #[arg(long, env = "RAIL_LOG_BYTES", default_value_t = 8 * 1024 * 1024)]
    pub log_bytes: u64,
    #[command(flatten)]
    /// How ranks are run
    pub ranks: RankArguments,
    /// Keep class of service of this server's NICs as this profile (JSON) says
    ///
    /// What harms traffic is left to `rail-node-agent qos apply --drained`, and logged. Default: class of service is left alone
    #[arg(long, env = "RAIL_QOS_PROFILE", value_name = "FILE")]
    pub qos_profile: Option<PathBuf>,
    /// Keep class of service of NICs in memory, of the inventory's names, in place of this machine's
    #[arg(long, env = "RAIL_QOS_MODEL", hide = true)]
    pub qos_model: bool,
    /// Read counters of NICs below this folder, a recorded server, in place of /. Without it a server that an inventory
    /// file describes is not watched
    #[arg(long, env = "RAIL_COUNTERS", hide = true)]
    pub counters: Option<PathBuf>,
    #[command(flatten)]
    /// What a job's ranks may use of this server
    pub rank_groups: RankGroups,
    /// Make no control groups for jobs
    #[arg(long, env = "RAIL_NO_CGROUPS")]
    pub no_cgroups: bool,
    /// Level or filter of this process's own log
    #[arg(long, env = "RAIL_LOG", default_value = "info")]
    pub log: String,
    /// text or json
    #[arg(long, env = "RAIL_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}
