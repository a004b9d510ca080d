//! `rail-bench`: measures the product as real processes; one JSON object a line, or a table.
//!
//! A bench asserts nothing: it prints what it saw, and whether the goal held. `void` says that this machine cannot
//! tell, and why.

mod control;
mod report;

use std::process::ExitCode;

use clap::Parser;

use report::Report;

/// Measures Railyard.
#[derive(Parser)]
#[command(name = "rail-bench", version)]
struct Args {
    /// Which bench: control.
    name: String,
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
    let args = Args::parse();
    let report = Report::new(&args.name, args.json);
    let rows: &[(&str, control::Row)] = match args.name.as_str() {
        "control" => &control::ROWS,
        other => {
            eprintln!("error: there is no bench '{other}'; there is: control");
            return ExitCode::from(2);
        }
    };
    let wanted = |id: &str| args.row.as_deref().is_none_or(|row| row.eq_ignore_ascii_case(id));
    if !rows.iter().any(|(id, _)| wanted(id)) {
        eprintln!("error: bench '{}' has no such row; it has {:?}", args.name, rows.map_ids());
        return ExitCode::from(2);
    }
    for (id, row) in rows.iter().filter(|(id, _)| wanted(id)) {
        if let Err(error) = row(&report.row(id), args.quick) {
            eprintln!("error: {id}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The ids of a list of rows.
trait MapIds {
    fn map_ids(&self) -> Vec<&str>;
}

impl MapIds for &[(&str, control::Row)] {
    fn map_ids(&self) -> Vec<&str> {
        self.iter().map(|(id, _)| *id).collect()
    }
}
