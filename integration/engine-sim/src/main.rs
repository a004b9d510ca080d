//! `rail-engine-sim`: see `--help`, or run it as `cargo xtask sim engine`.

fn main() -> std::process::ExitCode {
    integration_engine_sim::cli::main_from_args(std::env::args().skip(1))
}
