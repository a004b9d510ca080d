//! The control plane of a Railyard cluster: keeps its desired state, and schedules its jobs. `run` serves a cluster, `init` makes its first administrator, `store` looks after its store, `ca` after its authority, `probe` asks a running one how it is.

mod arg_values;
mod args;
mod authority;
mod backup_args;
mod backups;
mod certificates;
mod copies;
mod drill;
mod ha;
mod init;
mod keep;
mod key_args;
mod limit_args;
mod oidc_args;
mod probe;
mod probes;
mod process;
mod ready;
mod refused;
mod reseal;
mod run;
mod sealing;
mod snapshot;
mod store_args;
mod stores;
mod succession;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

/// A controller makes millions of small things on several threads: the rows of a large state, and each call's messages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.command {
        Command::Run(run) => run::run(run),
        Command::Init(init) => init::init(init),
        Command::Store(store) => keep::run(&store.action),
        Command::Ca(ca) => authority::run(&ca.action),
        Command::Probe(asked) => probe::run(asked),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Logs may not be set up yet, and whoever started this in a terminal must see it.
            eprintln!("rail-controller: {error}");
            ExitCode::FAILURE
        }
    }
}
