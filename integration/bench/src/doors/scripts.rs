//! S3: batch scripts that others have written for Slurm, read by `railctl submit --dry-run`: each is a job, or is refused with every option that
//! is not known here.

use std::{collections::BTreeMap, fs, path::Path, process::Stdio};

use integration_harness::{Cluster, Shape};
use serde_json::json;

use super::settings::Bench;
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// As many as the goal speaks of.
const FEWEST: usize = 200;

/// What became of a script.
enum Outcome {
    /// A job; whether this cluster could run it is another question.
    Job,
    /// Refused, and every line of the refusal names its option.
    Named(Vec<String>),
    /// Anything else.
    Other(String),
}

/// Row S3.
///
/// # Errors
/// The cluster does not start, or the folder cannot be read.
pub fn read(row: &Row<'_>, bench: &Bench) -> Result<(), String> {
    let Some(folder) = &bench.scripts else {
        row.void("all", "name a folder of batch scripts with #SBATCH lines: --scripts DIR");
        return Ok(());
    };
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, ..Shape::default() })?;
    let cpu = Cpu::start();
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // Without a first line of that kind, sbatch takes it for none.
        let is_one = |text: Vec<u8>| {
            text.starts_with(b"#!") && text.split(|b| *b == b'\n').any(|line| line.starts_with(b"#SBATCH"))
        };
        let has = fs::read(&path).is_ok_and(is_one);
        if has {
            files.push(path);
        }
    }
    files.sort();
    let (mut jobs, mut named, mut others) = (0, BTreeMap::<String, usize>::new(), Vec::new());
    for file in &files {
        match outcome(&cluster, file)? {
            Outcome::Job => jobs += 1,
            Outcome::Named(options) => {
                options.into_iter().for_each(|option| *named.entry(option).or_default() += 1)
            }
            Outcome::Other(why) => others.push(format!("{}: {why}", file.display())),
        }
    }
    let share = 100.0 * (files.len() - others.len()) as f64 / files.len().max(1) as f64;
    let first: Vec<&String> = others.iter().take(3).collect();
    let peers = json!({"scripts": files.len(), "jobs": jobs, "refused_for": named, "other": first});
    let sample = Sample::new(vec![share]);
    let goal = Goal::AtLeast(100.0);
    let line = Line {
        case: "scripts read, or refused by name",
        value: share,
        unit: "%",
        goal,
        sample: &sample,
        cpu: cpu.cores(),
        peers,
    };
    if files.len() < FEWEST {
        row.spoilt(&line, "fewer than 200 scripts");
    } else {
        row.line(&line);
    }
    Ok(())
}

/// Exit codes of `submit --dry-run` for a script that was read: its job would start or wait, names a queue or a reservation that this cluster has
/// not, or could never run here.
const JOB: [Option<i32>; 3] = [Some(0), Some(3), Some(6)];

fn outcome(cluster: &Cluster, file: &Path) -> Result<Outcome, String> {
    let mut command = cluster.command(&["submit", "--dry-run"]);
    let output =
        command.arg(file).stdin(Stdio::null()).output().map_err(|error| format!("railctl: {error}"))?;
    if JOB.contains(&output.status.code()) {
        return Ok(Outcome::Job);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines = said.lines().filter(|line| !line.starts_with("note: "));
    let options: Option<Vec<String>> = lines.map(|line| named(line, &file.display().to_string())).collect();
    let named = options.filter(|options| !options.is_empty());
    Ok(named.map_or_else(|| Outcome::Other(format!("{}: {said}", output.status)), Outcome::Named))
}

/// The option that a line names: FILE:LINE:COLUMN: --OPTION: WHY, a line for each option; whatever else is said names none.
fn named(line: &str, file: &str) -> Option<String> {
    let place = line.trim_start_matches("error: ").strip_prefix(file)?.strip_prefix(':')?;
    let text = place.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':').strip_prefix(' ')?;
    text.starts_with(['-', '`']).then(|| text.split([':', ' ']).next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_found_behind_its_place() {
        for (line, option) in [
            ("/s/1.sh:6:1: --account: `<name>` stands apart from it", Some("--account")),
            ("error: /s/1.sh:20: --nodes: `N` is no number from 1 on", Some("--nodes")),
            ("/s/1.sh:20:1: the script is empty", None),
            ("/s/2.sh:6:1: --account: why", None),
            ("cannot reach the controller", None),
        ] {
            assert_eq!(named(line, "/s/1.sh").as_deref(), option, "{line}");
        }
    }
}
