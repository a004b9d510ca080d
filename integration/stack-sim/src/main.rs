//! `rail-stack-sim`: runs seeds of the simulator of the whole stack.

use std::process::ExitCode;

fn main() -> ExitCode {
    if !cfg!(tokio_unstable) {
        eprintln!(
            "rail-stack-sim: built without `--cfg tokio_unstable`, so that no seed would give the same run twice; \
             build it in the repository (.cargo/config.toml has the flag) and without RUSTFLAGS of your own"
        );
        return ExitCode::from(2);
    }
    integration_stack_sim::main_from_args(std::env::args().skip(1))
}
