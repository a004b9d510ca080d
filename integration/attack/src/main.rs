//! `rail-attack`: the attack suite. What is tried is a table of values, an executor makes each attempt against a local cluster of real
//! processes, and its outcome is judged against the table.
//!
//! All traffic stays on loopback and unix sockets of what the suite has started itself, and is bounded in count and time.

#![allow(clippy::too_many_lines, reason = "tables of attempts, and one match over each kind of them")]

mod audit;
mod caller;
mod docs;
mod exec;
mod model;
mod rank;
mod report;
mod roles;
mod run;
mod table;
mod verdict;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Attacks a cluster of real processes that it starts itself.
#[derive(Parser)]
#[command(name = "rail-attack", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the attempts and say what came of each; exit 0 if none gave way.
    Run(run::Args),
    /// Write the table of attempts into docs/SECURITY.md, or compare it.
    Docs(docs::Args),
    /// What a hostile rank does.
    #[command(hide = true)]
    Rank,
    /// What its victim has.
    #[command(hide = true)]
    Victim,
    /// What each job of row X4 does.
    #[command(hide = true)]
    Neighbour,
    /// Stays, for nothing.
    #[command(hide = true)]
    Linger {
        /// By what it is found.
        #[arg(long)]
        mark: String,
    },
    /// Takes memory.
    #[command(hide = true)]
    Hog {
        /// So much.
        #[arg(long)]
        mib: usize,
    },
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Docs(args) => docs::run(&args),
        Command::Rank => rank::run(),
        Command::Victim => rank::victim::run(),
        Command::Neighbour => rank::neighbour::run(),
        Command::Linger { mark } => {
            std::hint::black_box(mark);
            std::thread::sleep(std::time::Duration::from_secs(600));
            ExitCode::SUCCESS
        }
        Command::Hog { mib } => {
            rank::hog(mib);
            ExitCode::SUCCESS
        }
    }
}
