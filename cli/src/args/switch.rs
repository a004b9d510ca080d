//! What is said about switches. No cluster is asked where a fabric document is given: it and a profile are read, and what switches answered.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{
    Output, QosOutput,
    switch_rollout::{SwitchApply, SwitchControl, SwitchToken},
};

#[derive(Debug, Subcommand)]
pub enum SwitchCommand {
    /// List the switches of a fabric document, with the loopback and the AS number that are planned for each
    List {
        #[command(flatten)]
        source: SwitchSource,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: QosOutput,
    },
    /// Print what a switch is to be configured with, from the same profile as its servers' NICs
    ///
    /// SONiC takes config_db.json and FRR's frr.conf; the others take text that an engineer pastes. Every value follows from the
    /// profile, the fabric document and the ASIC; `railctl switch explain` says how. Without a fabric document the controller is asked: for
    /// a switch that the cluster knows, from its fabric and the profile that is in force.
    #[command(
        after_help = "Example:\n  railctl switch render leaf0\n  railctl switch render leaf0 -f fabric.yaml --asic spectrum-4\n  railctl switch render --all -f fabric.yaml --out configs"
    )]
    Render(SwitchRender),
    /// Tell where each planned value of a switch comes from: headroom, marking, buffers, AS number, loopback
    Explain {
        /// Name of the switch
        name: String,
        #[command(flatten)]
        source: SwitchSource,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: QosOutput,
    },
    /// Follow packets of all classes over every port as switches have it set, and prove that they travel as the profile says, or show one that does not (exit 1)
    ///
    /// Reads what SONiC switches answered: DIR/NAME.json or DIR/NAME/config_db.json, and DIR/NAME/frr.conf beside it where routing is to be
    /// checked too. NICs are taken to be as the profile says; `railctl qos diff` compares them.
    Check {
        #[command(flatten)]
        source: SwitchSource,
        /// Folder with what was read of every switch
        #[arg(long, value_name = "DIR")]
        read: PathBuf,
    },
    /// Show what a rollout would change on switches, setting by setting, and what each change does to traffic (exit 1 where anything differs)
    ///
    /// Reads what switches answered as `railctl switch check` does. A change is hitless, drains a queue, flaps a link, loses traffic, restarts a
    /// daemon or reboots the switch; the worst of each switch is told first. Rows that are a switch's own (platform, management, features) are
    /// not compared.
    #[command(
        after_help = "Example:\n  railctl switch diff -f fabric.yaml --read configs\n  railctl switch diff leaf0 -f fabric.yaml --read configs"
    )]
    Diff {
        /// Name of the switch; all without it
        name: Option<String>,
        #[command(flatten)]
        source: SwitchSource,
        /// Folder with what was read of every switch
        #[arg(long, value_name = "DIR")]
        read: PathBuf,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: QosOutput,
    },
    /// Print a single-use token with which the agent of a switch may join
    Token(SwitchToken),
    /// Bring switches to what they are to have: a canary leaf, its rail, its pod, the other pods, then what is above the leaves one by one
    Apply(SwitchApply),
    /// Show the rollout to switches, how far it is, and what it waits for
    Status {
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Stop for now: what is on trial is taken back, what is kept stays
    Pause(SwitchControl),
    /// Go on, and try again what failed
    Resume(SwitchControl),
    /// Roll out what follows from the profile that was there before, in the same stages
    Rollback(SwitchControl),
    /// End a rollout for good: what is on trial is taken back, switches that were not begun stay as they are, what is kept stays
    Cancel(SwitchControl),
    /// Prove that lossless traffic never waits for itself, whatever one or two links or switches fail, or show the cycle (exit 1)
    Prove {
        /// Fabric document (YAML or JSON); - reads standard input
        #[arg(short = 'f', long = "file", value_name = "FILE")]
        file: PathBuf,
        /// How switches route
        #[arg(long, value_enum, default_value_t)]
        routing: SwitchRouting,
        /// So many links and switches fail at the same time, at most
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
        failures: u8,
    },
}

/// A fabric document, a profile, and what the document does not say of switches.
#[derive(Debug, Args)]
pub struct SwitchSource {
    /// Fabric document (YAML or JSON); - reads standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub hardware: SwitchHardware,
}

/// A profile, and what a fabric document does not say of switches.
#[derive(Debug, Args)]
pub struct SwitchHardware {
    /// Class-of-service profile (JSON); default: the one that `railctl qos` has built in
    #[arg(long, value_name = "FILE", requires = "file")]
    pub profile: Option<PathBuf>,
    /// Operating system of the switches
    #[arg(long, value_enum, default_value_t, requires = "file")]
    pub nos: SwitchNos,
    /// ASIC of the leaves
    #[arg(long, value_enum, default_value_t, requires = "file")]
    pub asic: SwitchAsic,
    /// ASIC of the spines; the leaves' if not given
    #[arg(long, value_enum, requires = "file")]
    pub spine_asic: Option<SwitchAsic>,
    /// Lanes of a port
    #[arg(long, value_name = "N", default_value_t = 4, requires = "file", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub lanes: u8,
    /// Metres of cable between a leaf and its servers, at most
    #[arg(long, value_name = "METRES", default_value_t = 5, requires = "file", value_parser = clap::value_parser!(u16).range(1..=40_000))]
    pub cable: u16,
    /// Metres of cable between switches, at most
    #[arg(long, value_name = "METRES", default_value_t = 40, requires = "file", value_parser = clap::value_parser!(u16).range(1..=40_000))]
    pub spine_cable: u16,
    /// Who works out the sizes of buffers
    #[arg(long, value_enum, default_value_t, requires = "file")]
    pub buffers: SwitchBuffers,
}

#[derive(Debug, Args)]
pub struct SwitchRender {
    /// Name of the switch
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub name: Option<String>,
    /// Every switch of the document
    #[arg(long, requires = "out", requires = "file")]
    pub all: bool,
    /// Fabric document (YAML or JSON); - reads standard input; without it the controller is asked
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub hardware: SwitchHardware,
    /// Print frr.conf in place of config_db.json
    #[arg(long, conflicts_with = "out")]
    pub frr: bool,
    /// Write files into this folder, one folder for each switch, in place of printing
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// An operating system of switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SwitchNos {
    /// SONiC: config_db.json and frr.conf
    #[default]
    Sonic,
    /// Cumulus Linux: NVUE commands
    Cumulus,
    /// Arista EOS
    Eos,
    /// Cisco NX-OS
    NxOs,
    /// Any Linux with FRR: frr.conf alone
    Frr,
}

/// An ASIC of switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SwitchAsic {
    /// NVIDIA Spectrum-2
    #[value(name = "spectrum-2")]
    Spectrum2,
    /// NVIDIA Spectrum-3
    #[value(name = "spectrum-3")]
    Spectrum3,
    /// NVIDIA Spectrum-4
    #[default]
    #[value(name = "spectrum-4")]
    Spectrum4,
    /// NVIDIA Spectrum-5
    #[value(name = "spectrum-5")]
    Spectrum5,
    /// Broadcom Tomahawk 4
    #[value(name = "tomahawk-4")]
    Tomahawk4,
    /// Broadcom Tomahawk 5
    #[value(name = "tomahawk-5")]
    Tomahawk5,
    /// Intel Tofino 2
    #[value(name = "tofino-2")]
    Tofino2,
    /// SONiC's virtual switch
    #[value(name = "sonic-vs")]
    SonicVs,
}

/// Who works out the sizes of buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SwitchBuffers {
    /// Railyard: sizes are written into the configuration
    #[default]
    Static,
    /// The switch, by SONiC's dynamic buffer model
    Dynamic,
}

/// How switches route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SwitchRouting {
    /// Up, then down: the AS numbers that `railctl switch list` plans
    #[default]
    UpDown,
    /// Over as few switches as possible, whichever way
    Shortest,
    /// The moment after a failure: who has lost its ways sends to any neighbour
    Bounce,
}
