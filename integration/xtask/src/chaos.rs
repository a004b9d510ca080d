//! `cargo xtask chaos`: real processes under faults from a seed, and a judge of what happened.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use crate::{
    process::{self, Result},
    tools,
};

/// Options of `cargo xtask chaos`.
#[derive(clap::Args)]
pub struct Args {
    /// How long faults go on.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// What the plan of faults is drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Agents, each with two GPUs and two rails.
    #[arg(long, default_value_t = 32)]
    agents: u64,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
    /// Print the plan of faults and do nothing.
    #[arg(long)]
    plan: bool,
    /// Where the run keeps its files; removed at the end if every promise was kept.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep them in any case.
    #[arg(long)]
    keep: bool,
}

/// Builds the programs and runs them under faults.
///
/// # Errors
/// Something cannot be built or had, or the run cannot be started.
pub fn run(args: &Args) -> Result<ExitCode> {
    let bin = process::build_with("release", &["integration-chaos"])?;
    let mut chaos = Command::new(bin.join("rail-chaos"));
    chaos.arg("run").env("RAIL_BIN_DIR", &bin).current_dir(process::root());
    for (name, value) in [("--minutes", args.minutes), ("--seed", args.seed), ("--agents", args.agents)] {
        chaos.args([name, &value.to_string()]);
    }
    for (wanted, flag) in [(args.json, "--json"), (args.plan, "--plan"), (args.keep, "--keep")] {
        if wanted {
            chaos.arg(flag);
        }
    }
    if let Some(dir) = &args.dir {
        chaos.arg("--dir").arg(std::path::absolute(dir)?);
    }
    if !args.plan {
        lend(&mut chaos);
    }
    process::exit_code(chaos)
}

/// Names the tools that the run needs beside the product, and says which cannot be had.
pub fn lend(command: &mut Command) {
    let tools = [
        ("RAIL_TEST_ETCD", "etcd", tools::etcd()),
        ("RAIL_CHAOS_NFT", "nft", tools::nft()),
        ("RAIL_CHAOS_FAKETIME", "libfaketime", tools::faketime()),
    ];
    for (variable, name, found) in tools {
        match found {
            Ok(path) => _ = command.env(variable, path),
            Err(error) => eprintln!("    without {name}: {error}"),
        }
    }
}
