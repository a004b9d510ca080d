//! What is said about rails.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Output, parse_duration};

#[derive(Debug, Subcommand)]
pub enum RailCommand {
    /// List the rails: nodes, leaves, the jobs on them, what is drained, and how engines see them
    #[command(visible_alias = "list")]
    Ls {
        /// Only this rail, leaf or NODE:RAIL
        #[arg(value_name = "TARGET")]
        target: Option<String>,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Move running jobs off a rail, a leaf or one server's port without an error; it stays so until `undrain`
    Drain(Drain),
    /// Bring a drained rail, leaf or port back
    Undrain {
        /// What was drained
        #[arg(value_name = "TARGET")]
        target: String,
        /// How to print the answer
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

#[derive(Debug, Args)]
pub struct Drain {
    /// A rail by number or name, a leaf by name, or NODE:RAIL; rail/, leaf/ or node/ before it makes it plain
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Why; shown to users
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// Also if it is the last rail of a running job; such a job goes on using it until it has another
    #[arg(long)]
    pub force: bool,
    /// Wait until every running job is off it
    #[arg(long)]
    pub wait: bool,
    /// With --wait: give up waiting after this time (exit 7); the drain stays
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait", default_value = "2m")]
    pub timeout: Duration,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
