//! `cargo xtask bench NAME`: builds what is measured, optimised, and runs the benches of `integration`.

use std::process::{Command, ExitCode};

use crate::process::{self, Result};

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Which bench: control.
    name: String,
    /// Only this row, for example A1.
    #[arg(long)]
    row: Option<String>,
    /// Fewer repetitions; the figures are then only a hint.
    #[arg(long)]
    quick: bool,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

/// Builds and measures.
pub fn run(args: &Args) -> Result<ExitCode> {
    let bin = process::build_release()?;
    process::run(process::cargo([
        "build",
        "--release",
        "--quiet",
        "-p",
        "integration",
        "--bin",
        "rail-bench",
    ]))?;
    let mut bench = Command::new(bin.join("rail-bench"));
    bench.arg(&args.name).env("RAIL_BIN_DIR", &bin).current_dir(process::root());
    if let Some(row) = &args.row {
        bench.args(["--row", row]);
    }
    for (wanted, flag) in [(args.quick, "--quick"), (args.json, "--json")] {
        if wanted {
            bench.arg(flag);
        }
    }
    process::exit_code(bench)
}
