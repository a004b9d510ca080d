//! rail-operator: Railyard's resources as Kubernetes' own, and the health of rails on its Nodes.

use std::process::ExitCode;

fn main() -> ExitCode {
    controller_kubernetes::cli::main()
}
