//! Settings. Every one is a flag and a variable; a flag wins.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use node_agent_host::RailRule;
use proto_model::NodeName;
use proto_rpc::{Endpoint, telemetry::LogFormat};

/// Which server this is, and where its rails are known from.
#[derive(Debug, Clone, Args)]
pub struct ServerArguments {
    /// Name of this server's Node in Kubernetes: spec.nodeName of the driver's pod
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub kubernetes_node: String,
    /// This server's name in Railyard; default: as in Kubernetes
    #[arg(long, env = "RAIL_NODE", value_name = "NAME")]
    pub node: Option<NodeName>,
    /// The controller, which knows health, leaf, pod and drains: https://host:port; several addresses by commas. Without it: what this server has
    #[arg(long, env = "RAIL_CONTROLLER", value_delimiter = ',', requires = "ca")]
    pub controller: Vec<Endpoint>,
    /// Certificate of the controller's authority, PEM
    #[arg(long, env = "RAIL_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// File with a token of a viewer, as `railctl tenant issue-token` prints it
    #[arg(long, env = "RAIL_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Inventory file (JSON, shape of rail.v1.Inventory) instead of this machine's own hardware
    #[arg(long, env = "RAIL_INVENTORY", value_name = "FILE", conflicts_with = "controller")]
    pub inventory: Option<PathBuf>,
    /// Which NIC serves which rail, where no controller says it: as of `rail-node-agent run`
    #[arg(long, env = "RAIL_RAILS", default_value = "auto", value_name = "RULE")]
    pub rails: RailRule,
}

/// `rail-dra-driver run`.
#[derive(Debug, Clone, Args)]
pub struct RunArguments {
    #[command(flatten)]
    /// Which server this is
    pub server: ServerArguments,
    /// Prepared claims; private to the driver's user
    #[arg(long, env = "RAIL_STATE", value_name = "DIR", default_value = "/var/lib/rail-dra-driver")]
    pub state: PathBuf,
    /// Where container runtimes read specifications of the Container Device Interface
    #[arg(long, env = "RAIL_CDI", value_name = "DIR", default_value = "/var/run/cdi")]
    pub cdi: PathBuf,
    /// Where kubelet's plugins have their folders
    #[arg(long, env = "RAIL_PLUGINS", value_name = "DIR", default_value = "/var/lib/kubelet/plugins")]
    pub plugins: PathBuf,
    /// Where kubelet looks for sockets of plugins
    #[arg(
        long,
        env = "RAIL_REGISTRY",
        value_name = "DIR",
        default_value = "/var/lib/kubelet/plugins_registry"
    )]
    pub registry: PathBuf,
    /// Kubelet's list of prepared claims: one that Kubernetes does not have any more is removed only when it is not in this list
    #[arg(
        long,
        env = "RAIL_KUBELET_STATE",
        value_name = "FILE",
        default_value = "/var/lib/kubelet/dra_manager_state"
    )]
    pub kubelet_state: PathBuf,
    /// The API server; default: that of the cluster in which the driver runs as a pod
    #[arg(long, env = "RAIL_API_SERVER", value_name = "URL")]
    pub api_server: Option<Endpoint>,
    /// Certificate of the API server's authority, PEM
    #[arg(
        long,
        env = "RAIL_API_CA",
        value_name = "FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    )]
    pub api_ca: PathBuf,
    /// File with the token of the driver's service account; it is read for each call
    #[arg(
        long,
        env = "RAIL_API_TOKEN",
        value_name = "FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )]
    pub api_token: PathBuf,
    /// How often it is looked how rails are, in seconds
    #[arg(long, env = "RAIL_EVERY", value_name = "SECONDS", default_value = "15", value_parser = seconds)]
    pub every: Duration,
    /// The folder below which the machine's own files are
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
    /// Level or filter of this process's own log
    #[arg(long, env = "RAIL_LOG", default_value = "info")]
    pub log: String,
    /// text or json
    #[arg(long, env = "RAIL_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

impl ServerArguments {
    /// The name in Railyard.
    ///
    /// # Errors
    /// That in Kubernetes is none here.
    pub fn node(&self) -> Result<NodeName, proto_model::NameError> {
        self.node.clone().map_or_else(|| NodeName::new(&self.kubernetes_node), Ok)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        _ => Err("is no number of seconds from 1 to 3600".to_owned()),
    }
}
