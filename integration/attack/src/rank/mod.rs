//! What a hostile rank does on its server, and what its victim has there. Both run as real jobs; each thing that is tried is a
//! function that reads, asks or looks, and changes nothing of anybody else's.

mod files;
mod limits;
pub mod neighbour;
mod outcome;
mod privileges;
mod processes;
mod sockets;
pub mod syscalls;
pub mod victim;

pub use limits::hog;
pub use outcome::{Outcome, Targets, Try};

use std::{env, process::ExitCode};

use serde::{Deserialize, Serialize};

/// Begins each line of results, among whatever else a job prints.
pub const MARK: &str = "@@probe ";
/// The variable with the targets.
pub const TARGETS: &str = "ATTACK_TARGETS";

/// One line of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// The name of what was tried.
    pub probe: String,
    /// The outcome of the attempt.
    pub outcome: Outcome,
}

/// All attempts of a hostile rank, by name.
pub fn all() -> Vec<(&'static str, Try)> {
    [processes::ATTEMPTS, files::ATTEMPTS, sockets::ATTEMPTS, privileges::ATTEMPTS, limits::ATTEMPTS].concat()
}

/// `rank`: tries everything and prints the outcomes.
pub fn run() -> ExitCode {
    let targets: Targets =
        env::var(TARGETS).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    for (probe, attempt) in all() {
        say(probe, attempt(&targets));
    }
    for (probe, outcome) in syscalls::run() {
        say(&probe, outcome);
    }
    println!("{MARK}done");
    ExitCode::SUCCESS
}

fn say(probe: &str, outcome: Outcome) {
    let line = Line { probe: probe.to_owned(), outcome };
    if let Ok(text) = serde_json::to_string(&line) {
        println!("{MARK}{text}");
    }
}
