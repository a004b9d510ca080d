//! `cargo xtask bench NAME`: builds what is measured, optimised, and runs the benches of `integration/bench`.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use crate::{
    kube, lab, peers,
    process::{self, Result},
    released, sonic, tools, torch,
};

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Which bench: control, doors, engine, fabric, faces, health, qos, scheduler, security, users, or verbs, which runs in the lab's emulated machine.
    #[arg(value_parser = ["control", "doors", "engine", "fabric", "faces", "health", "qos", "scheduler", "security", "users", "verbs"])]
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
    /// Draw every row as SVG into this folder, by default `bench` in the target directory; engine only.
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    plot: Option<Option<PathBuf>>,
    /// Rate of one rail in Mbit/s; engine only.
    #[arg(long, value_name = "MBIT")]
    rate: Option<u32>,
    /// Folder with the real traces of rows C6 and J2 to J4, by default ../shared/traces; scheduler only.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Folder with batch scripts for row S3; doors only.
    #[arg(long, value_name = "DIR")]
    scripts: Option<PathBuf>,
}

/// Builds what is measured and runs the bench.
///
/// # Errors
/// Something cannot be built or had, or the bench cannot be started.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.name == "verbs" {
        return lab::bench(args.row.as_deref(), args.json);
    }
    let bin = process::build_with("release", beside(&args.name))?;
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
    prepare(args, &mut bench)?;
    process::exit_code(bench)
}

/// The packages of a bench's programs, beside what a user runs.
fn beside(name: &str) -> &'static [&'static str] {
    match name {
        "security" => &["integration-bench", "integration-attack"],
        "engine" => &["integration-bench", "integration-engine-sim"],
        _ => &["integration-bench"],
    }
}

/// Builds and fetches what a bench needs beside the programs.
fn prepare(args: &Args, bench: &mut Command) -> Result<()> {
    match args.name.as_str() {
        "scheduler" => {
            if let Some(folder) = &args.traces {
                bench.arg("--traces").arg(std::path::absolute(folder)?);
            }
        }
        "fabric" => {
            for absent in sonic::lend(bench) {
                eprintln!("absent: {absent}");
            }
            match tools::frr() {
                Ok(folder) => _ = bench.env("RAIL_TEST_FRR", folder),
                Err(error) => eprintln!("absent: FRR: {error}"),
            }
        }
        "doors" => doors(args, bench)?,
        "control" => match tools::etcd() {
            Ok(etcd) => _ = bench.env("RAIL_TEST_ETCD", etcd),
            Err(error) => eprintln!("absent: etcd: {error}"),
        },
        "engine" => engine(args, bench)?,
        // Row P2, for which another release is built. Whoever asks for all rows gets the others without it.
        "faces" => match args.row.as_deref() {
            Some(row) if row.eq_ignore_ascii_case("P2") => released::lend(bench, "release")?,
            Some(_) => {}
            None => {
                if let Err(error) = released::lend(bench, "release") {
                    eprintln!("absent: {error}");
                }
            }
        },
        _ => {}
    }
    Ok(())
}

fn doors(args: &Args, bench: &mut Command) -> Result<()> {
    // Row N1 plays NCCL's proxy.
    let proxy =
        ["build", "--release", "--quiet", "-p", "node-agent-nccl", "--lib", "--example", "nccl_proxy"];
    process::run(process::cargo(proxy))?;
    for absent in tools::lend_slurm(bench) {
        eprintln!("absent: {absent}");
    }
    // Rows K1 and K3 need etcd beside it.
    match (kube::lend(bench), tools::etcd()) {
        (Ok(()), Ok(etcd)) => _ = bench.env("RAIL_TEST_ETCD", etcd),
        (Err(error), _) | (_, Err(error)) => eprintln!("absent: a real Kubernetes: {error}"),
    }
    match torch::python().and_then(|python| torch::tests(&python)) {
        Ok(_) => _ = bench.env("RAIL_BENCH_TOOLS", process::target_dir()?.join("tools")),
        Err(error) => eprintln!("absent: PyTorch: {error}"),
    }
    if let Some(folder) = &args.scripts {
        bench.arg("--scripts").arg(std::path::absolute(folder)?);
    }
    Ok(())
}

fn engine(args: &Args, bench: &mut Command) -> Result<()> {
    for absent in peers::install() {
        eprintln!("absent: {absent}");
    }
    let target = process::target_dir()?;
    bench.env("RAIL_BENCH_TOOLS", target.join("tools"));
    if let Some(folder) = &args.plot {
        bench.arg("--plot").arg(folder.clone().unwrap_or_else(|| target.join("bench")));
    }
    if let Some(rate) = args.rate {
        bench.args(["--rate", &rate.to_string()]);
    }
    Ok(())
}
