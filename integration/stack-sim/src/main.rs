//! `rail-stack-sim`: runs seeds of the simulator of the whole stack.

use std::process::ExitCode;

fn main() -> ExitCode {
    integration_stack_sim::main_from_args(std::env::args().skip(1))
}
