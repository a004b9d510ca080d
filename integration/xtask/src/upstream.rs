//! `cargo xtask torch`: PyTorch's own distributed tests, as they are installed, with backend rail and with Gloo.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::process::{self, Result};
use crate::torch;

/// Options of `cargo xtask torch`.
#[derive(clap::Args)]
pub struct Args {
    /// Only tests whose names contain this regular expression.
    #[arg(long, default_value = "")]
    only: String,
    /// Check the profiler events of rail as well; PyTorch itself does that for backends on its own lists alone.
    #[arg(long)]
    events: bool,
    /// A Python program with PyTorch; the one that the tests install if left out.
    #[arg(long)]
    python: Option<PathBuf>,
    /// A file for the report, as JSON, which is printed too.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs the tests. The exit code says whether each failure is one that Gloo shares.
///
/// # Errors
/// The engine cannot be built, or there is no PyTorch.
pub fn run(args: &Args) -> Result<ExitCode> {
    let build = ["build", "--release", "--quiet", "-p", "node-agent-capi", "-p", "node-agent-engine"];
    process::run(process::cargo(build))?;
    let python = args.python.clone().map_or_else(torch::python, Ok)?;
    let programs = process::target_dir()?.join("release");
    let mut tests = Command::new(&python);
    tests
        .env("PYTHONPATH", torch::tests(&python)?)
        .args(["-B", "-W", "ignore"])
        .arg(process::root().join("node-agent/capi/python/tests/upstream.py"));
    tests.arg("--engine").arg(programs.join("rail-engine"));
    tests.arg("--library").arg(programs.join("librail.so"));
    tests.args(["--only", &args.only]);
    if args.events {
        tests.arg("--events");
    }
    if let Some(out) = &args.out {
        tests.arg("--out").arg(std::path::absolute(out)?);
    }
    process::exit_code(tests)
}
