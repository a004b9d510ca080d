//! rail-node-agent: starts and watches jobs on one server.

use std::process::ExitCode;

fn main() -> ExitCode {
    node_agent::cli::main()
}
