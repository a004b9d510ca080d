//! `cargo xtask stack`: seeds of the simulator of the whole stack.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use crate::process::{self, Result};

/// Seeds that `cargo xtask test` runs, each twice.
const TESTED: &str = "0..200";
/// Seeds among which it looks for each planted bug.
const HUNTED: &str = "0..2000";

/// Options of `cargo xtask stack`.
#[derive(clap::Args)]
pub struct Args {
    /// Passed on to the simulator; see `cargo xtask stack -- --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs what the arguments say.
///
/// # Errors
/// The program cannot be started.
pub fn run(args: &Args) -> Result<ExitCode> {
    let program =
        ["run", "--quiet", "--release", "-p", "integration-stack-sim", "--bin", "rail-stack-sim", "--"];
    let mut cargo = process::cargo(program);
    cargo.args(&args.args);
    process::exit_code(cargo)
}

/// A bounded part, by the program that is in `bin`: seeds that hold and are the same when they are run again, and every planted
/// bug found.
///
/// # Errors
/// A seed fails, or a planted bug is not found.
pub fn test(bin: &Path) -> Result<()> {
    for args in [&["--seeds", TESTED, "--twice", "--threads", "2"][..], &["--seeds", HUNTED, "--hunt"]] {
        let mut simulator = Command::new(bin.join("rail-stack-sim"));
        simulator.args(args).current_dir(process::root());
        process::run(simulator)?;
    }
    Ok(())
}
