//! `rail-bench`: measures the product as real processes; one JSON object a line, or a table.
//!
//! A bench asserts nothing: it prints what it saw, and whether the goal held. `void` says that this machine cannot
//! tell, and why.

mod agents;
mod certify;
mod command_job;
mod control;
mod doors;
mod durable;
mod engine;
mod fabric;
mod faces;
mod heal;
mod health;
mod overload;
mod qos;
mod reload;
mod report;
mod scheduler;
mod security;
mod survival;
mod upgrade;
mod users;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use report::Report;

/// The controller's: its decisions are measured with what they run on.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Railyard.
#[derive(Parser)]
#[command(name = "rail-bench", version)]
struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// The main job: submit, start, first all-reduce; what survives: leaders and etcd members that die; and what callers notice
    /// of bad company.
    Control(Options),
    /// Collectives on shaped rails, side by side with other libraries.
    Engine {
        #[command(flatten)]
        options: Options,
        /// Rate of one rail, in Mbit/s.
        #[arg(long, default_value_t = 200)]
        rate: u32,
        /// Draw every row as SVG into this folder.
        #[arg(long)]
        plot: Option<PathBuf>,
    },
    /// Health of rails: what the agent costs, what it finds.
    Health(Options),
    /// Placement: speed, memory, proof, distance from the optimum.
    Scheduler {
        #[command(flatten)]
        options: Options,
        /// Random placements of row C4 in place of the usual number.
        #[arg(long)]
        placements: Option<u64>,
        /// Folder with the real traces of rows C6 and J2 to J4.
        #[arg(long, value_name = "DIR", default_value = "../shared/traces")]
        traces: PathBuf,
    },
    /// Class of service: what verdict and plan of a port find, name and mend, how fast, and what an end in the middle leaves.
    Qos(Options),
    /// What users and operators see: whether usage records say what was, what open pages cost, and what an upgrade under load does.
    Faces(Options),
    /// Switches: what a check of both ends catches, the proof against deadlocks, paths of flows, and what large fabrics cost.
    Fabric(Options),
    /// Other schedulers beside Railyard: jobs of a real Slurm, where they run and what that costs; claims of Kubernetes.
    Doors {
        #[command(flatten)]
        options: Options,
        /// Folder with batch scripts for row S3.
        #[arg(long, value_name = "DIR")]
        scripts: Option<PathBuf>,
    },
    /// Users of kubectl, nomad and Slurm: whether what they do works.
    Users {
        #[command(flatten)]
        options: Options,
        /// Only things of row Y2 whose id begins so.
        #[arg(long, value_name = "ID")]
        only: Option<String>,
    },
    /// Security: what gives way to attacks, and what floods and isolation cost.
    Security(Options),
    /// The flood of row X2.
    #[command(hide = true)]
    SecurityFlood(security::Flood),
    /// One load of row D9.
    #[command(hide = true)]
    OverloadLoad(overload::Load),
    /// Some of the agents of row D8.
    #[command(hide = true)]
    AgentsLoad(agents::Load),
    /// Fills a store as row D10 does, for a controller that is profiled by hand.
    #[command(hide = true)]
    ReloadFill(reload::Fill),
    /// A rank of row P2.
    #[command(hide = true)]
    UpgradeRank(upgrade::Rank),
    #[command(flatten)]
    Helper(engine::Helper),
}

#[derive(clap::Args)]
struct Options {
    /// Only this row.
    #[arg(long)]
    row: Option<String>,
    /// Fewer repetitions; the figures are then only a hint.
    #[arg(long)]
    quick: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let done = match Args::parse().bench {
        Bench::Control(options) => rows("control", &options, control::ROWS, options.quick),
        Bench::Engine { options, rate, plot } => engine_rows(&options, rate, plot),
        Bench::Health(options) => rows("health", &options, health::ROWS, options.quick),
        Bench::Scheduler { options, placements, traces } => {
            let bench = scheduler::Bench { quick: options.quick, placements, traces };
            rows("scheduler", &options, scheduler::ROWS, &bench)
        }
        Bench::Qos(options) => rows("qos", &options, qos::ROWS, options.quick),
        Bench::Faces(options) => rows("faces", &options, faces::ROWS, options.quick),
        Bench::Fabric(options) => rows("fabric", &options, fabric::ROWS, options.quick),
        Bench::Doors { options, scripts } => {
            let bench = doors::Bench { quick: options.quick, scripts };
            rows("doors", &options, doors::ROWS, &bench)
        }
        Bench::Security(options) => rows("security", &options, security::ROWS, options.quick),
        Bench::Users { options, only } => {
            let bench = users::Bench { quick: options.quick, only };
            rows("users", &options, users::ROWS, &bench)
        }
        Bench::SecurityFlood(flood) => flood.run(),
        Bench::OverloadLoad(load) => load.run(),
        Bench::AgentsLoad(load) => load.run(),
        Bench::ReloadFill(fill) => fill.run(),
        Bench::UpgradeRank(rank) => rank.run(),
        Bench::Helper(helper) => helper.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What measures one row, with settings.
type Measure<S> = fn(&report::Row<'_>, S) -> Result<(), String>;

/// Rows that all take the same settings.
fn rows<S: Copy, const N: usize>(
    name: &str,
    options: &Options,
    rows: [(&'static str, Measure<S>); N],
    settings: S,
) -> Result<(), String> {
    let report = Report::new(name, options.json);
    each(
        &report,
        options.row.as_deref(),
        rows.map(|(id, row)| (id, move |line: &report::Row| row(line, settings))),
    )
}

/// The engine's rows, and pictures of them.
fn engine_rows(options: &Options, rate: u32, plot: Option<PathBuf>) -> Result<(), String> {
    let report = Report::new("engine", options.json);
    let bench = engine::Bench::new(engine::Settings { quick: options.quick, rate });
    let rows = engine::ROWS.map(|(id, row)| {
        let bench = &bench;
        (id, move |line: &report::Row| row(line, bench))
    });
    let done = each(&report, options.row.as_deref(), rows);
    plot.map_or(Ok(()), |folder| engine::plot(&report, &folder)).and(done)
}

/// Measures the rows that are wanted, each even if one before it failed.
fn each<R>(
    report: &Report,
    only: Option<&str>,
    rows: impl IntoIterator<Item = (&'static str, R)>,
) -> Result<(), String>
where
    R: FnOnce(&report::Row) -> Result<(), String>,
{
    let rows: Vec<_> = rows.into_iter().collect();
    let ids: Vec<&str> = rows.iter().map(|(id, _)| *id).collect();
    let wanted = |id: &str| only.is_none_or(|row| row.eq_ignore_ascii_case(id));
    if !ids.iter().any(|id| wanted(id)) {
        return Err(format!("this bench has no such row; it has {}", ids.join(" ")));
    }
    let mut failed = Vec::new();
    for (id, row) in rows.into_iter().filter(|(id, _)| wanted(id)) {
        if let Err(error) = row(&report.row(id)) {
            eprintln!("error: {id}: {error}");
            failed.push(id);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("not measured to the end: {}", failed.join(" "))) }
}
