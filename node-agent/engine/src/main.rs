//! rail-engine: one process per job and server; drives collectives over transports for local ranks.

mod args;
mod connect;
mod stdin;

use std::process::ExitCode;

fn main() -> ExitCode {
    args::start_logs();
    match args::parse() {
        args::Command::Run { config, transport } => args::run(&config, transport),
        args::Command::BenchRank { options, serve } => args::bench(&options, serve),
        args::Command::Hold => loop {
            std::thread::park();
        },
        args::Command::Connect { port } => connect::run(port),
        args::Command::BenchEngine(options) => args::bench_engine(&options),
    }
}
