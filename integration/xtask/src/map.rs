//! `cargo xtask map`: the map of crates and directions in ARCHITECTURE.md, as cargo sees it.
//!
//! A test in `integration` compares the two, so that the map cannot grow old.

use std::{fs, process::ExitCode};

use crate::process::{self, Result};

/// Options of `cargo xtask map`.
#[derive(clap::Args)]
pub struct Args {
    /// Only show it.
    #[arg(long)]
    show: bool,
}

const BEGIN: &str = "<!-- map: begin -->";
const END: &str = "<!-- map: end -->";

/// Writes or shows the map.
///
/// # Errors
/// `cargo metadata` fails, or the document cannot be read or written.
pub fn run(args: &Args) -> Result<ExitCode> {
    let output = process::capture(process::cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
    let map = render(&serde_json::from_slice(&output.stdout)?);
    if args.show {
        print!("{map}");
        return Ok(ExitCode::SUCCESS);
    }
    let path = process::root().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path)?;
    let (head, rest) = text.split_once(BEGIN).ok_or("ARCHITECTURE.md has no map")?;
    let (_, tail) = rest.split_once(END).ok_or("ARCHITECTURE.md's map does not end")?;
    fs::write(path, format!("{head}{BEGIN}\n```\n{map}```\n{END}{tail}"))?;
    Ok(ExitCode::SUCCESS)
}

/// One line a crate: its name, and the crates of the workspace that it is built from.
fn render(metadata: &serde_json::Value) -> String {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |package: &serde_json::Value| package["name"].as_str().unwrap_or_default().to_owned();
    let ours: Vec<String> = packages.iter().map(name).collect();
    let mut lines: Vec<String> = packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut uses: Vec<String> = dependencies
                .iter()
                .filter(|d| d["kind"] != "dev")
                .map(name)
                .filter(|n| ours.contains(n))
                .collect();
            uses.sort();
            uses.dedup();
            format!("{:<24} -> {}", name(package), if uses.is_empty() { "-".into() } else { uses.join(" ") })
        })
        .collect();
    lines.sort();
    lines.join("\n") + "\n"
}
