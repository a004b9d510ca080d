//! Command lines and exit codes: 0 done, 1 failed, 2 wrong arguments or configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use node_agent_engine::bench::{self, Options};
use node_agent_engine::{Config, Engine, EngineError, Transport, bench_engine};
use node_agent_ipc::PEER_LOST_STATUS;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tracing_subscriber::EnvFilter;

use crate::stdin::Input;

/// Wrong arguments or configuration.
const USAGE: u8 = 2;

#[derive(Debug, Parser)]
#[command(name = "rail-engine", version, about = "Collectives of one job on one server, over all its rails")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the ranks of a job on this server. The job key is the first line of standard input; the engine ends when
    /// standard input does.
    Run {
        /// The configuration, JSON.
        #[arg(long)]
        config: PathBuf,
        /// What carries the rails, in place of what the configuration says.
        #[arg(long)]
        transport: Option<Transport>,
    },
    /// Be one rank of a benchmark; the environment says which.
    #[command(hide = true)]
    BenchRank {
        #[command(flatten)]
        options: Options,
        /// Stay, and do what the lines of standard input say; the other options are then not used.
        #[arg(long)]
        serve: bool,
    },
    /// Hold the place of a rank in an allocation: do nothing until a signal ends it.
    #[command(hide = true)]
    Hold,
    /// Carry bytes between standard input and output and a TCP port of 127.0.0.1.
    #[command(hide = true)]
    Connect {
        /// Which.
        #[arg(value_parser = clap::value_parser!(u16).range(1..))]
        port: u16,
    },
    /// Be one node of a benchmark of the engine itself, or all of them.
    #[command(hide = true)]
    BenchEngine(bench_engine::Options),
}

/// Reads the command line; ends the process with code 2 where it is wrong.
pub(crate) fn parse() -> Command {
    Arguments::parse().command
}

/// Logs go to standard error: warnings, or what RAIL_LOG says.
pub(crate) fn start_logs() {
    let filter = EnvFilter::try_from_env("RAIL_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
}

/// Runs `rail-engine run`: serves the ranks of a job until standard input ends. Gives the exit status.
pub(crate) fn run(config: &Path, transport: Option<Transport>) -> ExitCode {
    hide();
    let fail = |code: u8, text: &str| {
        eprintln!("rail-engine: {text}");
        ExitCode::from(code)
    };
    let mut config = match Config::load(config) {
        Ok(config) => config,
        Err(error) => return fail(USAGE, &error.to_string()),
    };
    config.transport = transport.unwrap_or(config.transport);
    let input = match Input::watch() {
        Ok(input) => input,
        Err(error) => return fail(1, &format!("cannot read standard input: {error}")),
    };
    let key = match input.key() {
        Ok(key) => key,
        Err(text) => return fail(USAGE, &text),
    };
    let engine = match Engine::bind(config, key) {
        Ok(engine) => engine,
        Err(error @ (EngineError::Config(_) | EngineError::Shape(_))) => {
            return fail(USAGE, &error.to_string());
        }
        Err(error) => return fail(1, &error.to_string()),
    };
    input.stop_at_end(engine.stopper());
    match engine.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ EngineError::Lost { peer: true, .. }) => fail(PEER_LOST_STATUS, &error.to_string()),
        Err(error) => fail(1, &error.to_string()),
    }
}

/// Keeps other processes of the same user, ranks among them where they run as the engine's user, from reading this
/// one's memory: the job key is there. The kernel does so for a process that may not be dumped.
fn hide() {
    // Fails on no kernel that has it; without it the key is still in no file, argument or variable.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Runs `rail-engine bench-rank`: one rank of a benchmark, or with `serve` one that takes its calls from standard input.
pub(crate) fn bench(options: &Options, serve: bool) -> ExitCode {
    let done = if serve { bench::serve().map(|()| 0) } else { bench::run(options).map(|r| r.mismatches) };
    match done {
        Ok(0) => ExitCode::SUCCESS,
        Ok(mismatches) => {
            eprintln!("rail-engine: {mismatches} elements are wrong");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("rail-engine: {error}");
            ExitCode::from(if error.is_usage() { USAGE } else { 1 })
        }
    }
}

/// Runs `rail-engine bench-engine`: the engines of a benchmark, without ranks as processes.
pub(crate) fn bench_engine(options: &bench_engine::Options) -> ExitCode {
    match bench_engine::run(options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(mismatches) => {
            eprintln!("rail-engine: {mismatches} elements are wrong");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("rail-engine: {error}");
            ExitCode::FAILURE
        }
    }
}
