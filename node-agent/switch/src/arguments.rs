//! Settings. Every one is a flag and a `RAIL_*` variable; a flag wins.

use std::path::{Path, PathBuf};

use clap::Args;
use proto_rpc::{CaPin, Endpoint, telemetry::LogFormat};

use crate::{gnmi::Reach, nos::Nos};

/// What this machine is.
#[derive(Debug, Clone, Args)]
pub struct SwitchArguments {
    /// Its operating system, linux or sonic; default: sonic where /etc/sonic exists, or with --gnmi
    #[arg(long, env = "RAIL_NOS", conflicts_with = "gnmi")]
    pub nos: Option<Nos>,
    /// Identity, and the trial that goes on; private to the agent's user
    #[arg(long, env = "RAIL_STATE", value_name = "DIR", default_value = "/var/lib/rail-switch-agent")]
    pub state: PathBuf,
    /// The folder below which FRR's programs are
    #[arg(long, env = "RAIL_FRR", value_name = "DIR", default_value = "/", hide = true)]
    pub frr: PathBuf,
    /// The folder below which the machine's own files are
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
    #[command(flatten)]
    /// Where the switch is, if it is not this machine
    pub reach: Reach,
}

impl SwitchArguments {
    /// What was said, or what is found.
    #[must_use]
    pub fn nos(&self) -> Nos {
        if self.reach.gnmi.is_some() {
            return Nos::Sonic;
        }
        self.nos.unwrap_or_else(|| Nos::detected(&self.root))
    }
}

/// `rail-switch-agent run`.
#[derive(Debug, Clone, Args)]
pub struct RunArguments {
    /// The controller: https://host:port; several addresses of one cluster by commas
    #[arg(long, env = "RAIL_CONTROLLER", value_delimiter = ',', required = true)]
    pub controller: Vec<Endpoint>,
    /// This switch's name, as the fabric document has it; default: the host's name
    #[arg(long, env = "RAIL_SWITCH", value_name = "NAME")]
    pub switch: Option<String>,
    /// Single-use token to join with, as `railctl switch token` prints it; needed only while there is no certificate
    #[arg(long, env = "RAIL_JOIN_TOKEN", hide_env_values = true)]
    pub join_token: Option<String>,
    /// The same, in a file
    #[arg(long, env = "RAIL_JOIN_TOKEN_FILE", value_name = "FILE", conflicts_with = "join_token")]
    pub join_token_file: Option<PathBuf>,
    /// The controller's CA: sha256:HEX, as shown with the token; several with commas between them, or repeated
    #[arg(long, env = "RAIL_CA_PIN", value_delimiter = ',')]
    pub ca_pin: Vec<CaPin>,
    #[command(flatten)]
    /// What this machine is
    pub machine: SwitchArguments,
    /// Level or filter of this process's own log
    #[arg(long, env = "RAIL_LOG", default_value = "info")]
    pub log: String,
    /// text or json
    #[arg(long, env = "RAIL_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

impl RunArguments {
    /// What was said, or the host's name up to its first dot, in small letters.
    #[must_use]
    pub fn name(&self) -> String {
        self.switch.clone().unwrap_or_else(|| {
            let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
            host.split('.').next().unwrap_or_default().to_owned()
        })
    }

    /// The state folder.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.machine.state
    }
}
