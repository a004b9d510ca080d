//! rail-rank: what a supervisor starts for ranks. It links what that needs and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    node_agent_rank::program::main()
}
