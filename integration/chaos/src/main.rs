//! `rail-chaos`: a cluster of real processes under faults from a seed, and a judge of what happened. Tier R of the tests.

mod cage;
mod callers;
mod check;
mod clock;
mod disks;
mod history;
mod members;
mod nemesis;
mod net;
mod parts;
mod plan;
mod proxy;
mod rank;
mod report;
mod run;
mod settle;
mod setup;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A cluster of real processes under faults from a seed.
#[derive(Parser)]
#[command(name = "rail-chaos", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster, hurt it, judge what happened; exit 0 if every promise was kept.
    Run(run::Args),
    /// What jobs of the run do.
    #[command(hide = true)]
    Rank(rank::Args),
    /// The first process of the run's namespaces.
    #[command(hide = true)]
    Init(cage::Init),
    /// The run itself, inside them.
    #[command(hide = true)]
    Inside(run::Args),
    /// Wakes frozen file systems when the run is over.
    #[command(hide = true)]
    Guard(cage::Guard),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Run(args) => run::outside(&args),
        Command::Rank(args) => rank::run(&args),
        Command::Init(args) => args.run(),
        Command::Inside(args) => run::inside(&args),
        Command::Guard(args) => args.run(),
    }
}
