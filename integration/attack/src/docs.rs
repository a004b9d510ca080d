//! The table of attempts in docs/SECURITY.md, between its marks.

use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

use integration_harness::binaries::root;

use crate::{model::Attempt, roles, table};

/// `docs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write it.
    #[arg(long)]
    write: bool,
}

const BEGIN: &str = "<!-- attempts: begin -->\n";
const END: &str = "<!-- attempts: end -->";

fn page() -> PathBuf {
    root().join("docs/SECURITY.md")
}

/// Writes the table, or says that it is not as it should be.
pub fn run(args: &Args) -> ExitCode {
    match done(args.write) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn done(write: bool) -> Result<(), String> {
    let path = page();
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (before, rest) =
        text.split_once(BEGIN).ok_or("docs/SECURITY.md lacks the mark where attempts begin")?;
    let (_, after) = rest.split_once(END).ok_or("docs/SECURITY.md lacks the mark where attempts end")?;
    let wanted = format!("{before}{BEGIN}{}{END}{after}", drawn(&table::all()));
    if wanted == text {
        return Ok(());
    }
    if !write {
        return Err(
            "the table in docs/SECURITY.md is not that of the suite: run `cargo xtask attack --write-docs`"
                .to_owned(),
        );
    }
    std::fs::write(&path, wanted).map_err(|error| format!("{}: {error}", path.display()))
}

fn drawn(all: &[Attempt]) -> String {
    let cells = all.iter().filter(|attempt| attempt.is_cell()).count();
    let mut text = format!(
        "\n{} attempts: {cells} are cells of the table of roles, the others follow it.\n\n",
        all.len()
    );
    let names: Vec<&str> = roles::CALLERS.iter().map(|from| from.name()).collect();
    let _ = writeln!(text, "| call | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    for (rpc, row) in roles::TABLE {
        let cells: Vec<&str> = row.chars().map(|cell| if cell == 'x' { "may" } else { "refused" }).collect();
        let short = rpc.trim_start_matches("rail.v1.");
        let _ = writeln!(text, "| {short} | {} |", cells.join(" | "));
    }
    text.push_str(
        "\n| attempt | by | what is tried | finding | what must come of it |\n|---|---|---|---|---|\n",
    );
    for attempt in all.iter().filter(|attempt| !attempt.is_cell()) {
        let (finding, expect) = (attempt.finding.name(), attempt.expect.name());
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {finding} | {expect} |",
            attempt.id,
            attempt.from.name(),
            attempt.title
        );
    }
    text.push('\n');
    text
}
