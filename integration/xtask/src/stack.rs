//! `cargo xtask stack`: seeds of the simulator of the whole stack. It is built apart from everything else: the runtime draws
//! from a seed only with a flag of the compiler.

use std::process::{Command, ExitCode};

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
pub fn run(args: &Args) -> Result<ExitCode> {
    process::exit_code(simulator(&args.args)?)
}

/// A bounded part: seeds that hold and are the same when they are run again, and every planted bug found.
pub fn test() -> Result<()> {
    process::run(simulator(&["--seeds", TESTED, "--twice", "--threads", "2"])?)?;
    process::run(simulator(&["--seeds", HUNTED, "--hunt"])?)
}

fn simulator<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Result<Command> {
    let program =
        ["run", "--quiet", "--release", "-p", "integration-stack-sim", "--bin", "rail-stack-sim", "--"];
    let mut cargo = process::cargo(program);
    cargo.args(args);
    cargo.env("RUSTFLAGS", "--cfg tokio_unstable");
    // A second build of nearly everything: names of functions are enough for a failure's trace.
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    cargo.env("CARGO_TARGET_DIR", process::target_dir()?.join("stack"));
    Ok(cargo)
}
