//! `rail-sim`: runs seeds of the simulator.

use std::process::ExitCode;

fn main() -> ExitCode {
    integration_sim::main_from_args(std::env::args().skip(1))
}
