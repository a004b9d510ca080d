//! Settings. Every one is a flag and a variable; a flag wins.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use controller_kubernetes_kueue::{Policy, Settings, WhenAway};
use proto_rpc::{Endpoint, telemetry::LogFormat};

/// Where a pod has the token of its service account.
const API_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// Where a pod has the API server's authority.
const API_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// `rail-operator run`.
#[derive(Debug, Clone, Args)]
pub struct RunArguments {
    /// Railyard's controller: https://host:port; several addresses by commas
    #[arg(long, env = "RAIL_CONTROLLER", value_delimiter = ',', required = true)]
    pub controller: Vec<Endpoint>,
    /// Certificate of the controller's authority, PEM
    #[arg(long, env = "RAIL_CA", value_name = "FILE")]
    pub ca: PathBuf,
    /// File with a token of an administrator, as `railctl tenant issue-token` prints it; it is read again when it changes
    #[arg(long, env = "RAIL_TOKEN_FILE", value_name = "FILE", required_unless_present = "cert")]
    pub token_file: Option<PathBuf>,
    /// Certificate of an administrator, PEM, in place of a token
    #[arg(long, env = "RAIL_CERT", value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Key of that certificate, PEM
    #[arg(long, env = "RAIL_KEY", value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// The API server; default: that of the cluster in which the operator runs as a pod
    #[arg(long, env = "RAIL_API_SERVER", value_name = "URL")]
    pub api_server: Option<Endpoint>,
    /// Certificate of the API server's authority, PEM
    #[arg(long, env = "RAIL_API_CA", value_name = "FILE", default_value = API_CA)]
    pub api_ca: PathBuf,
    /// File with the token of the operator's service account; it is read for each call
    #[arg(long, env = "RAIL_API_TOKEN", value_name = "FILE", default_value = API_TOKEN)]
    pub api_token: PathBuf,
    /// Namespace of the lease by which one of several operators acts
    #[arg(long, env = "RAIL_LEASE_NAMESPACE", value_name = "NAMESPACE", default_value = "railyard")]
    pub lease_namespace: String,
    /// This operator's name in the lease, different for each: metadata.name of its pod
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub name: String,
    /// How often Nodes are compared with their servers' rails, in seconds
    #[arg(long, env = "RAIL_EVERY", value_name = "SECONDS", default_value = "15", value_parser = seconds)]
    pub every: Duration,
    /// Leave conditions, taints and labels of Nodes alone
    #[arg(long, env = "RAIL_NO_NODES")]
    pub no_nodes: bool,
    /// Where /metrics, /livez, /readyz and /healthz are served, unencrypted; they tell no secret
    #[arg(long, env = "RAIL_METRICS", value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub metrics: SocketAddr,
    /// Level or filter of this process's own log
    #[arg(long, env = "RAIL_LOG", default_value = "info")]
    pub log: String,
    /// text or json
    #[arg(long, env = "RAIL_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// What is done for Kueue. It stands last: what comes after it is under its heading.
    #[command(flatten)]
    pub kueue: KueueArguments,
}

/// Kueue's admission check, and the topology that Kueue places by.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Kueue")]
pub struct KueueArguments {
    /// Serve Kueue's admission checks whose controllerName is railyard.io/placement, and keep the Topology and the ResourceFlavor `railyard` as the fabric is
    #[arg(long, env = "RAIL_KUEUE")]
    pub kueue: bool,
    /// What becomes of workloads while no controller answers: they wait (closed), or are admitted without Railyard after 10 s (open)
    #[arg(long, env = "RAIL_KUEUE_WHEN_AWAY", value_name = "POLICY", default_value = "closed")]
    #[arg(requires = "kueue")]
    pub kueue_when_away: KueueAway,
    /// Tenant of namespaces that have no label railyard.io/tenant; default: that of the operator's credentials
    #[arg(long, env = "RAIL_KUEUE_TENANT", value_name = "TENANT", requires = "kueue")]
    pub kueue_tenant: Option<String>,
    /// Queue of that tenant in which servers are held for workloads that name none
    #[arg(long, env = "RAIL_KUEUE_QUEUE", value_name = "QUEUE", requires = "kueue")]
    pub kueue_queue: Option<String>,
    /// How names of its allocations begin; each cluster of Kubernetes that uses the same tenant has another one
    #[arg(long, env = "RAIL_KUEUE_PREFIX", value_name = "PREFIX", default_value = "kueue-")]
    #[arg(requires = "kueue")]
    pub kueue_prefix: String,
}

/// What becomes of Kueue's workloads while no controller answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KueueAway {
    /// They wait.
    Closed,
    /// They are admitted without Railyard.
    Open,
}

impl KueueArguments {
    /// What is done for Kueue; none without `--kueue`.
    #[must_use]
    pub fn settings(&self) -> Option<Settings> {
        let when_away = match self.kueue_when_away {
            KueueAway::Closed => WhenAway::Closed,
            KueueAway::Open => WhenAway::Open,
        };
        let policy = Policy {
            prefix: self.kueue_prefix.clone(),
            tenant: self.kueue_tenant.clone(),
            queue: self.kueue_queue.clone(),
            when_away,
            ..Policy::default()
        };
        self.kueue.then(|| Settings { policy, ..Settings::default() })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        _ => Err("is no number of seconds from 1 to 3600".to_owned()),
    }
}
