//! rail-dra-driver: a server's rails as devices that Kubernetes allocates.

use std::process::ExitCode;

fn main() -> ExitCode {
    node_agent_dra::cli::main()
}
