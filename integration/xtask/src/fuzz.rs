//! `cargo xtask fuzz`: every decoder against hostile bytes, by cargo-fuzz and libFuzzer.
//!
//! The seeds in `integration/fuzz/seeds` are only read; what the fuzzer finds beyond them is kept in the target
//! directory, and so are the inputs of crashes.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use crate::{
    process::{self, Result},
    tools,
};

/// An input that takes longer is reported like a crash.
const INPUT_SECONDS: u32 = 10;
/// Memory of the process, and of one allocation.
const MEMORY_MIB: u32 = 2048;
const ALLOCATION_MIB: u32 = 256;

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Args {
    /// Only this target; all of them without it.
    target: Option<String>,
    /// How long each target runs.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// The result of one target's run.
struct Outcome {
    runs: String,
    coverage: String,
    crashes: Vec<PathBuf>,
    /// The end of what it printed, if it failed without leaving an input.
    failure: Option<String>,
}

/// Builds and runs; exit 1 on a crash.
///
/// # Errors
/// There is no such target, or the nightly compiler or cargo-fuzz cannot be had.
pub fn run(args: &Args) -> Result<ExitCode> {
    let dir = process::root().join("integration/fuzz");
    let targets = chosen(&dir, args.target.as_deref())?;
    need_nightly()?;
    let cargo_fuzz = tools::cargo_fuzz().map_err(|error| {
        format!("cargo-fuzz cannot be had: {error}\n  install it: cargo install cargo-fuzz --locked")
    })?;
    let out = process::target_dir()?.join("fuzz");
    println!(
        "==> building {} target(s) with the address sanitizer (the first time takes minutes)",
        targets.len()
    );
    let mut build = process::nightly(&cargo_fuzz);
    build.args(["fuzz", "build", "--fuzz-dir"]).arg(&dir).arg("--target-dir").arg(&out).args(&args.target);
    process::run_quiet(&mut build)?;
    println!(
        "==> {} s each\n{:<12} {:>12} {:>9} {:>8}",
        args.seconds, "TARGET", "RUNS", "COVERAGE", "CRASHES"
    );
    let mut crashed = false;
    for target in &targets {
        let outcome = fuzz(target, &dir, &out, args.seconds)?;
        let Outcome { runs, coverage, crashes, failure } = &outcome;
        println!("{target:<12} {runs:>12} {coverage:>9} {:>8}", crashes.len());
        for input in crashes {
            println!("    {} {}", shown(&binary(target, &out)?), shown(input));
        }
        if let Some(failure) = failure {
            println!("    {}", failure.replace('\n', "\n    "));
        }
        crashed |= !crashes.is_empty() || failure.is_some();
    }
    Ok(if crashed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The targets are the files in `targets/`.
fn chosen(dir: &Path, wanted: Option<&str>) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir.join("targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
    }
    match wanted {
        None => Ok(names.into_iter().collect()),
        Some(wanted) if names.contains(wanted) => Ok(vec![wanted.to_owned()]),
        Some(wanted) => {
            let known: Vec<String> = names.into_iter().collect();
            Err(format!("there is no fuzz target '{wanted}'; there are {}", known.join(", ")).into())
        }
    }
}

fn need_nightly() -> Result<()> {
    let mut rustc = Command::new("rustup");
    rustc.args(["run", "nightly", "rustc", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    match rustc.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("fuzzing needs the nightly compiler, for the sanitizer and for coverage\n  \
                      install it: rustup toolchain install nightly --profile minimal"
            .into()),
        Err(error) => Err(format!(
            "fuzzing needs the nightly compiler by rustup, which cannot be started ({error})\n  \
             see https://rustup.rs, then: rustup toolchain install nightly --profile minimal"
        )
        .into()),
    }
}

fn fuzz(target: &str, dir: &Path, out: &Path, seconds: u32) -> Result<Outcome> {
    let (corpus, artifacts) = (out.join("corpus").join(target), out.join("artifacts").join(target));
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let before = files(&artifacts)?;
    let mut command = Command::new(binary(target, out)?);
    command.current_dir(process::root());
    command.arg(&corpus).arg(dir.join("seeds").join(target));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    let dictionary = dir.join("dictionaries").join(target);
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    for (flag, value) in [
        ("max_total_time", seconds),
        ("timeout", INPUT_SECONDS),
        ("rss_limit_mb", MEMORY_MIB),
        ("malloc_limit_mb", ALLOCATION_MIB),
        ("print_final_stats", 1),
    ] {
        command.arg(format!("-{flag}={value}"));
    }
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let crashes: Vec<PathBuf> = files(&artifacts)?.difference(&before).cloned().collect();
    let failed = !output.status.success();
    let said =
        |line: &&str| line.contains("panicked at") || line.contains("ERROR:") || line.contains("SUMMARY:");
    let mut failure: Vec<&str> = text.lines().filter(said).take(4).collect();
    if failure.is_empty() {
        failure = text.lines().rev().take(4).collect();
        failure.reverse();
    }
    Ok(Outcome {
        runs: last(&text, "stat::number_of_executed_units:").unwrap_or_else(|| "-".into()),
        coverage: last(&text, " cov: ").unwrap_or_else(|| "-".into()),
        crashes,
        failure: failed.then(|| failure.join("\n")),
    })
}

/// The word after the last occurrence of `name`.
fn last(text: &str, name: &str) -> Option<String> {
    text.rsplit_once(name)?.1.split_whitespace().next().map(str::to_owned)
}

/// Cargo-fuzz builds for the machine's own triple, whose name is the folder's.
fn binary(target: &str, out: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(out)? {
        let path = entry?.path().join("release").join(target);
        if path.is_file() {
            return Ok(path);
        }
    }
    Err(format!("cargo fuzz built no {target} below {}", out.display()).into())
}

fn files(dir: &Path) -> Result<BTreeSet<PathBuf>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
}

/// As one would type it in the repository's root.
fn shown(path: &Path) -> String {
    path.strip_prefix(process::root()).unwrap_or(path).display().to_string()
}
