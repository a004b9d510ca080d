//! rail-switch-agent: keeps the configuration of one switch.

use std::process::ExitCode;

fn main() -> ExitCode {
    node_agent_switch::cli::main()
}
