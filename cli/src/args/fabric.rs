//! What is said about the fabric as a document, and about the topology.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Color, Output, parse_speed};

/// How a document is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum DocumentFormat {
    /// Block style YAML
    #[default]
    Yaml,
    /// The canonical JSON
    Json,
}

#[derive(Debug, Subcommand)]
pub enum FabricCommand {
    /// Make a fabric document of a cabling list: CSV, one row per cable
    ///
    /// The first line names the columns; needed are server, NIC, leaf and the leaf's port (for example node, nic,
    /// leaf, port, or sysname, nicname, switchname, accessport). Columns rail, pod, plane and speed are used where
    /// they are; else leaves that share servers are a pod, and leaves that share names of NICs a rail. A leaf to which
    /// servers have several NICs serves several rails; without a column their NICs are on rails 0, 1, 2, ... in the order of
    /// their names. The document goes to standard output, its cables in lists; rows that are wrong are told on standard
    /// error with their lines, and left out. Ends with 2 where nothing of the list can be taken.
    Import {
        /// The list; - reads standard input
        file: PathBuf,
        /// The document's name; the file's without its ending if not given
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Print no document, and end with 2, if anything is wrong in the list
        #[arg(long)]
        strict: bool,
        /// Tell every fault and note; of many with one cause only the first ones are told else
        #[arg(long)]
        all: bool,
        /// How to print the document
        #[arg(short, long, value_enum, default_value_t)]
        output: DocumentFormat,
    },
    /// Make the document of a rail-optimised Clos fabric from its sizes
    Generate(Generate),
    /// Check fabric documents without a cluster, and tell all that is wrong
    Check {
        /// File with a Fabric document (YAML or JSON); - reads standard input
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct Generate {
    /// Servers
    #[arg(long, value_name = "N")]
    pub nodes: u32,
    /// Rails; every server has a NIC on each
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rails: u32,
    /// Ports of every switch
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub radix: u32,
    /// 2 for NICs with two ports on two leaves
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub planes: u32,
    /// Servers of a pod; as many as a leaf takes if not given
    #[arg(long, value_name = "N")]
    pub pod_nodes: Option<u32>,
    /// Down to up capacity of a leaf; 1 is non-blocking
    #[arg(long, value_name = "RATIO", default_value_t = 1.0)]
    pub oversubscription: f64,
    /// Of a NIC, all its ports together, for example 400G
    #[arg(long, value_name = "SPEED", value_parser = parse_speed, default_value = "400G")]
    pub speed: u64,
    /// Of cables between switches
    #[arg(long, value_name = "SPEED", value_parser = parse_speed, default_value = "400G")]
    pub uplink_speed: u64,
    /// Servers are called this and a number
    #[arg(long, value_name = "TEXT", default_value = "gpu")]
    pub prefix: String,
    /// NICs are called this and the rail's number
    #[arg(long, value_name = "TEXT", default_value = "mlx5_")]
    pub nic: String,
    /// The document's name
    #[arg(long, value_name = "NAME", default_value = "generated")]
    pub name: String,
    /// How to print the document
    #[arg(short, long, value_enum, default_value_t)]
    pub output: DocumentFormat,
}

/// What other schedulers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Slurm's topology.conf (topology/tree)
    SlurmConf,
    /// Slurm's topology.yaml (25.05 and later; tree and block)
    SlurmYaml,
    /// Kueue's Topology, and the labels of its nodes
    Kueue,
    /// Volcano's HyperNodes
    Volcano,
}

#[derive(Debug, Subcommand)]
pub enum TopologyCommand {
    /// Draw pods, rails, leaves and servers with their health
    Show(Show),
    /// Print the fabric as another scheduler reads it; what it cannot say is told in comments
    Export {
        /// For whom
        #[arg(long, value_enum)]
        format: ExportFormat,
        /// Fabric document to take in place of the cluster's; - reads standard input
        #[arg(short = 'f', long = "file", value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Compare the cables that are there with those of the document, and tell the fewest moves that mend it
    ///
    /// What is there is what servers hear over LLDP: --lldp takes what `lldpctl -f keyvalue` printed (with `NODE: `
    /// before each line, as pdsh puts it), or CSV with columns node, nic, leaf, port. Without it, what agents have
    /// reported is taken. Ends with 1 if anything differs.
    Verify(Verify),
}

#[derive(Debug, Args)]
pub struct Show {
    /// Fabric document to show in place of the cluster's; - reads standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Also draw it into this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Colour of what is printed; signs say the same
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: Color,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Verify {
    /// Fabric document to take in place of the cluster's; - reads standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// What servers heard over LLDP; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub lldp: Option<PathBuf>,
    /// The right port of the leaf matters too, not only the right leaf
    #[arg(long)]
    pub ports: bool,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
