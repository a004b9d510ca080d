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

fn outcome(cluster: &Cluster, file: &Path) -> Result<Outcome, String> {
    let mut command = cluster.command(&["submit", "--dry-run"]);
    let output =
        command.arg(file).stdin(Stdio::null()).output().map_err(|error| format!("railctl: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("note: ")).collect();
    // What the file itself is blamed for says where.
    let place = format!("{}:", file.display());
    let blamed: Vec<&str> =
        lines.iter().filter_map(|line| line.trim_start_matches("error: ").strip_prefix(&place)).collect();
    if blamed.is_empty() {
        return Ok(Outcome::Job);
    }
    let option = |line: &str| {
        let text = line.splitn(3, ':').nth(2)?.trim();
        text.starts_with('-').then(|| text.split([':', ' ']).next().unwrap_or_default().to_owned())
    };
    let options: Vec<Option<String>> = blamed.iter().map(|line| option(line)).collect();
    match options.iter().position(Option::is_none) {
        Some(at) => Ok(Outcome::Other(blamed[at].to_owned())),
        None => Ok(Outcome::Named(options.into_iter().flatten().collect())),
    }
}
