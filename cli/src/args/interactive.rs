//! Interactive work: servers that are held, and commands that are run on them.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use proto_wire::v1;

use super::{Asked, parse_duration, values::parse_variable};

/// What an allocation asks for.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "What is allocated")]
pub struct Sizing {
    /// A job file: what it asks for is held, what it would run is not run
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Name of the allocation; default: one that is made up
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// GPUs of each server
    #[arg(long, value_name = "GPUS")]
    pub gpus_per_node: Option<u32>,
    /// It is released after this time, for example 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub time_limit: Option<Duration>,
    /// Queue of the tenant
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Service class
    #[arg(long, value_name = "CLASS")]
    pub service_class: Option<String>,
    /// Inside this reservation only
    #[arg(long, value_name = "RESERVATION")]
    pub reservation: Option<String>,
    /// No rail at all: one server that holds no NIC
    #[arg(long)]
    pub no_rails: bool,
    /// Variables of the environment that are in a secret or a config of the tenant: all of its keys, or one. May be repeated
    #[arg(long, value_name = "[NAME=]secret/OBJECT[:KEY]", value_parser = super::parse_env_from)]
    pub env_from: Vec<v1::EnvSource>,
    #[command(flatten)]
    pub asked: Asked,
}

impl Sizing {
    /// The first option that was given, as it is written.
    #[must_use]
    pub fn given(&self) -> Option<&'static str> {
        let asked = &self.asked;
        [
            (self.file.is_some(), "--file"),
            (self.name.is_some(), "--name"),
            (self.gpus_per_node.is_some(), "--gpus-per-node"),
            (self.time_limit.is_some(), "--time-limit"),
            (self.queue.is_some(), "--queue"),
            (self.service_class.is_some(), "--service-class"),
            (self.reservation.is_some(), "--reservation"),
            (self.no_rails, "--no-rails"),
            (!self.env_from.is_empty(), "--env-from"),
            (!asked.gpu_models.is_empty(), "--gpu-model"),
            (!asked.terms.is_empty(), "--select"),
            (!asked.licenses.is_empty(), "--license"),
            (asked.cpus_per_node.is_some(), "--cpus-per-node"),
            (asked.memory_per_node.is_some(), "--memory-per-node"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

#[derive(Debug, Args)]
pub struct Alloc {
    /// Servers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// Run nothing: print the allocation's name, and keep it until `railctl cancel` or its time limit
    #[arg(long, conflicts_with = "command")]
    pub no_shell: bool,
    #[command(flatten)]
    pub sizing: Sizing,
    /// What runs here while the servers are held; default: your shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Run {
    /// The running job; administrators may write TENANT/JOB. Without one servers are allocated for this command alone
    #[arg(long, env = "RAIL_JOB", value_name = "JOB")]
    pub job: Option<String>,
    /// One server of the job
    #[arg(long, value_name = "NODE", conflicts_with = "nodes")]
    pub node: Option<String>,
    /// Servers of the job, for example gpu[001-004]; without a job: how many are allocated. Default: all of the job, or one
    #[arg(long, value_name = "NODES")]
    pub nodes: Option<String>,
    /// Processes on each server, which share its GPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub ranks_per_node: u32,
    /// One process, on the first server
    #[arg(long, conflicts_with = "ranks_per_node")]
    pub one: bool,
    /// Give it a terminal; the step is one process then (--one)
    #[arg(short, long)]
    pub tty: bool,
    /// Begin each line with the name of its server
    #[arg(short, long)]
    pub label: bool,
    /// Do not read standard input; it is sent to the first process otherwise
    #[arg(short = 'n', long)]
    pub no_stdin: bool,
    /// A variable of the environment. May be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub variables: Vec<(String, String)>,
    /// Where it begins on the servers; default: where the job's ranks do
    #[arg(long, value_name = "FOLDER")]
    pub working_dir: Option<String>,
    #[command(flatten)]
    pub sizing: Sizing,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `exec`.
#[derive(Debug, Args)]
pub struct Exec {
    /// The running job; administrators may write TENANT/JOB
    #[arg(value_name = "JOB")]
    pub job: String,
    /// On this server of it; default: the one of rank 0
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Give it a terminal
    #[arg(short, long)]
    pub tty: bool,
    /// Do not read standard input
    #[arg(short = 'n', long)]
    pub no_stdin: bool,
    /// A variable of the environment. May be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub variables: Vec<(String, String)>,
    /// Where it begins on the server; default: where the job's ranks do
    #[arg(long, value_name = "FOLDER")]
    pub working_dir: Option<String>,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `cp`.
#[derive(Debug, Args)]
pub struct Copy {
    /// What is copied: a file or folder here, or JOB:PATH
    #[arg(value_name = "FROM")]
    pub from: String,
    /// Where to: JOB:PATH, or a file or folder here. In a folder that is there the copy has the name of the original
    #[arg(value_name = "TO")]
    pub to: String,
    /// On this server of the job; default: the one of rank 0
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
}

/// `port-forward`.
#[derive(Debug, Args)]
pub struct PortForward {
    /// The running job; administrators may write TENANT/JOB
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Ports of the job, with the port here where that is another one; 0 here takes any that is free
    #[arg(value_name = "[LOCAL:]PORT", required = true, value_parser = parse_forward)]
    pub ports: Vec<(u16, u16)>,
    /// On this server of the job; default: the one of rank 0
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Address here to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: std::net::IpAddr,
}

/// A signal by its number and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalName {
    /// As Linux counts.
    pub number: u32,
    /// For example SIGUSR1.
    pub name: String,
}

/// `signal`.
#[derive(Debug, Args)]
pub struct SignalJob {
    /// The running job; administrators may write TENANT/JOB
    #[arg(value_name = "JOB")]
    pub job: String,
    /// The signal: USR1, SIGUSR1 or 10
    #[arg(value_name = "SIGNAL", value_parser = parse_signal)]
    pub signal: SignalName,
    /// Only the ranks on these servers of it, for example gpu[001-004]
    #[arg(long, visible_alias = "node", value_name = "NODES")]
    pub nodes: Option<String>,
}

/// Signals by their numbers on Linux (signal(7)), but for those of real time.
const SIGNALS: [(&str, u32); 31] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// Reads `USR1`, `SIGUSR1`, `10`.
fn parse_signal(text: &str) -> Result<SignalName, String> {
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let number = text.parse::<u32>().ok();
    if let Some((name, number)) = SIGNALS.iter().find(|(name, own)| *name == bare || Some(*own) == number) {
        return Ok(SignalName { number: *number, name: format!("SIG{name}") });
    }
    let distance = |name: &str| strsim::damerau_levenshtein(name, bare);
    let nearest = SIGNALS.iter().map(|(name, _)| *name).min_by_key(|name| distance(name)).unwrap_or("TERM");
    Err(format!("`{text}` is no signal; did you mean {nearest}? Write for example USR1, SIGUSR1 or 10"))
}

/// Reads `8080`, `8080:80`, `0:80`: the port here, and the job's.
fn parse_forward(text: &str) -> Result<(u16, u16), String> {
    let wrong = || format!("`{text}`: write PORT or LOCAL:PORT, each from 1 to 65535 (LOCAL may be 0)");
    let (local, port) = text.split_once(':').unwrap_or((text, text));
    let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    Ok((local.parse().map_err(|_| wrong())?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_and_ports_are_read() {
        for text in ["USR1", "sigusr1", "10"] {
            assert_eq!(parse_signal(text).map(|signal| signal.number), Ok(10), "{text}");
        }
        assert!(parse_signal("USR").unwrap_err().contains("USR1"));
        assert!(parse_signal("0").is_err() && parse_signal("").is_err());
        assert_eq!((parse_forward("80"), parse_forward("0:80")), (Ok((80, 80)), Ok((0, 80))));
        for bad in ["", "0", "1:0", "a", "70000", "1:2:3"] {
            assert!(parse_forward(bad).is_err(), "{bad}");
        }
    }
}
